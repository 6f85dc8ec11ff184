//! The keywords of one subschema while it is compiled, and those that need no other schema.

use std::{rc::Rc, sync::Arc};

use serde_json::{Map, Value};

use super::{
    node::{Bound, Limit, Names, Rule},
    number::Numeric,
};
use crate::{draft::Draft, references::DynamicScope};

/// A subschema and where it is.
#[derive(Clone)]
pub(super) struct Subschema<'a> {
    pub(super) node: &'a Value,
    pub(super) base: Rc<str>,
    pub(super) scope: DynamicScope<'a>,
    pub(super) pointer: String,
}

/// The keywords of a subschema while it is compiled.
pub(super) struct Keywords<'a> {
    pub(super) own: &'a Map<String, Value>,
    pub(super) base: Rc<str>,
    pub(super) scope: DynamicScope<'a>,
    pub(super) pointer: String,
    pub(super) draft: Draft,
    pub(super) rules: Vec<(u8, Rule)>,
}

impl<'a> Keywords<'a> {
    /// Adds a rule; violations are listed in this order.
    pub(super) fn add(&mut self, order: u8, rule: Rule) {
        self.rules.push((order, rule));
    }

    /// The value of a keyword, if the draft has it.
    pub(super) fn get(&self, keyword: &str) -> Option<&'a Value> {
        self.own.get(keyword).filter(|_| self.draft.knows(keyword))
    }

    pub(super) fn count(&self, keyword: &str) -> Option<u64> {
        let written = self.get(keyword)?;
        // A count may be written as 2.0.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        written.as_u64().or_else(|| written.as_f64().map(|float| float as u64))
    }

    /// The subschema under a keyword.
    pub(super) fn below(&self, node: &'a Value, path: &str) -> Subschema<'a> {
        let (base, scope) = (Rc::clone(&self.base), Rc::clone(&self.scope));
        Subschema { node, base, scope, pointer: format!("{}/{path}", self.pointer) }
    }
}

/// Whether `$ref` hides the other keywords, as in older drafts.
pub(super) fn hides_siblings(keywords: &Keywords<'_>) -> bool {
    keywords.draft.is_old() && keywords.own.get("$ref").is_some_and(Value::is_string)
}

/// Adds the rules for numbers, `const` and `enum`, and the length of text.
pub(super) fn values(keywords: &mut Keywords<'_>) {
    if let Some(only) = keywords.get("const") {
        keywords.add(5, Rule::Constant(Arc::new(only.clone())));
    }
    if let Some(options) = keywords.get("enum").filter(|options| options.is_array()) {
        keywords.add(6, Rule::Enum(Arc::new(options.clone())));
    }
    for (keyword, order, mut bound, exclusive, other) in [
        ("minimum", 10, Bound::Minimum, "exclusiveMinimum", Bound::ExclusiveMinimum),
        ("maximum", 11, Bound::Maximum, "exclusiveMaximum", Bound::ExclusiveMaximum),
        ("exclusiveMinimum", 12, Bound::ExclusiveMinimum, "", Bound::ExclusiveMinimum),
        ("exclusiveMaximum", 13, Bound::ExclusiveMaximum, "", Bound::ExclusiveMaximum),
    ] {
        let Some(Value::Number(limit)) = keywords.get(keyword) else { continue };
        // In draft 4 it is a flag.
        if keywords.own.get(exclusive) == Some(&Value::Bool(true)) {
            bound = other;
        }
        let limit = Rule::Bound(bound, Numeric::of(limit), Value::Number(limit.clone()));
        keywords.add(order, limit);
    }
    if let Some(Value::Number(divisor)) = keywords.get("multipleOf") {
        let float = divisor.as_f64().unwrap_or_default();
        keywords.add(14, Rule::MultipleOf(Numeric::of(divisor), float));
    }
    for (keyword, order, limit) in
        [("minLength", 20, Limit::Min as fn(u64) -> Limit), ("maxLength", 21, Limit::Max)]
    {
        if let Some(count) = keywords.count(keyword) {
            keywords.add(order, Rule::Length(limit(count)));
        }
    }
}

pub(super) fn texts_of(list: &Value) -> Names {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(Into::into).collect()
}
