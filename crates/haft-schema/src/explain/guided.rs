//! Explains an invalid value when a full listing of its errors would be too much work.
//!
//! In: a schema and a value it rejected. Out: the errors of the branches that were most likely
//! intended. At each union one branch is chosen by the errors at its own level, so that the work is
//! linear in the value and not exponential in its depth. Whether a part is valid is memoized for
//! each pair of a schema node and a value. Keywords that look at more than that (`not`, `contains`,
//! `unevaluated…`) are ignored: the result is only a message, and no value is accepted because of
//! it.

use std::collections::HashMap;

use haft_core::host::RandomState;
use serde_json::{Map, Value};

use super::reporter::{ErrorLine, Reporter};
use crate::{
    compiled::{Formats, build_unchecked},
    pointer::below,
    ranges,
    stop::Stop,
    union::{Choice, Union},
    validator::{Validator, Violation},
    work::{item_schemas, member_schemas},
};

/// At most this many pairs of a schema node and a value are checked.
const MAX_PAIRS: usize = 100_000;
/// Maximum nesting depth of schema and value together.
const MAX_DEPTH: usize = 1_000;
/// At most this many schemas are applied to one value.
const MAX_PARTS: usize = 64;

/// At most this many errors of one node are listed.
const MAX_LOCAL_ERRORS: usize = 1_000;

/// Keywords that can be checked without another schema.
const LOCAL_KEYWORDS: [&str; 19] = [
    "type",
    "enum",
    "const",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "required",
    "dependentRequired",
];

/// Explains a value by the branches that were most likely intended.
pub(crate) fn explain<'a>(
    reporter: &Reporter<'a>,
    formats: Formats,
    stop: &Stop<'_>,
    lines: &mut Vec<ErrorLine>,
) {
    let mut guide = Guide {
        reporter,
        formats,
        stop,
        fits: HashMap::default(),
        local: HashMap::default(),
        left: MAX_PAIRS,
    };
    guide.visit(&[reporter.lookup.root()], reporter.value, "", 0, lines);
}

struct Guide<'t, 'a> {
    reporter: &'t Reporter<'a>,
    formats: Formats,
    stop: &'t Stop<'t>,
    fits: HashMap<(*const Value, *const Value), bool, RandomState>,
    /// The compiled keywords of each node, without subschemas.
    local: HashMap<*const Value, Option<Validator>, RandomState>,
    left: usize,
}

impl<'a> Guide<'_, 'a> {
    /// Reports what is wrong with a value that these schemas apply to.
    fn visit(
        &mut self,
        nodes: &[&'a Value],
        value: &'a Value,
        at: &str,
        depth: usize,
        lines: &mut Vec<ErrorLine>,
    ) {
        let is_over = depth > MAX_DEPTH || self.stop.ends_before(1);
        if is_over || nodes.iter().all(|node| self.fits(node, value, depth)) {
            return;
        }
        let parts = self.parts(nodes, value, at, depth, lines);
        for part in &parts {
            for error in self.local_errors(part, value) {
                self.reporter.report_at(&error, at, Some(part), lines);
            }
        }
        let maps = parts.iter().filter_map(|part| part.as_object());
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let nodes: Vec<&Value> =
                        maps.clone().flat_map(|map| member_schemas(map, name)).collect();
                    self.visit(&nodes, member, &below(at, name), depth + 1, lines);
                }
            }
            Value::Array(items) => {
                for (n, item) in items.iter().enumerate() {
                    let nodes: Vec<&Value> =
                        maps.clone().flat_map(|map| item_schemas(map, n)).collect();
                    self.visit(&nodes, item, &format!("{at}/{n}"), depth + 1, lines);
                }
            }
            _ => {}
        }
    }

    /// The schemas that apply to a value, with one branch of each union that it does not match. If
    /// no branch of a union can be chosen, that is reported.
    fn parts(
        &mut self,
        nodes: &[&'a Value],
        value: &'a Value,
        at: &str,
        depth: usize,
        lines: &mut Vec<ErrorLine>,
    ) -> Vec<&'a Value> {
        let mut parts: Vec<&'a Value> = Vec::new();
        let mut waiting: Vec<&'a Value> = nodes.to_vec();
        while let Some(node) = waiting.pop() {
            for part in self.reporter.lookup.parts(node) {
                let is_known = parts.iter().any(|known| std::ptr::eq(*known, part));
                let Some(map) = part.as_object().filter(|_| !is_known) else { continue };
                if parts.len() >= MAX_PARTS {
                    return parts;
                }
                parts.push(part);
                for keyword in ["anyOf", "oneOf"] {
                    let Some(branches) = map.get(keyword).and_then(Value::as_array) else {
                        continue;
                    };
                    if branches.iter().any(|branch| self.fits(branch, value, depth + 1)) {
                        continue;
                    }
                    waiting.extend(self.branch(branches, keyword, value, at, lines));
                }
                if let Some(condition) = map.get("if") {
                    let holds = self.fits(condition, value, depth + 1);
                    waiting.extend(map.get(if holds { "then" } else { "else" }));
                }
            }
        }
        parts
    }

    /// The branch that a value was most likely intended for; reports an error if there is none.
    fn branch(
        &mut self,
        branches: &'a [Value],
        keyword: &str,
        value: &'a Value,
        at: &str,
        lines: &mut Vec<ErrorLine>,
    ) -> Option<&'a Value> {
        let against: Vec<Vec<Violation<'static>>> = branches
            .iter()
            .map(|branch| {
                let parts = self.reporter.lookup.parts(branch);
                parts.iter().flat_map(|part| self.local_errors(part, value)).collect()
            })
            .collect();
        let lookup = self.reporter.lookup;
        // The errors are relative to the value itself.
        let union = Union { lookup, branches, against: &against, at: "", value };
        match union.choose() {
            Choice::Branch(chosen) => branches.get(chosen),
            choice => {
                if self.reporter.report_choice(choice, value, at, lines).is_none() {
                    let message = self.reporter.none_of(branches, at, value);
                    self.reporter.push(at, keyword, message, lines);
                }
                None
            }
        }
    }

    /// Whether a value matches a schema, as far as it is checked here.
    fn fits(&mut self, node: &'a Value, value: &'a Value, depth: usize) -> bool {
        let map = match node {
            Value::Bool(fits) => return *fits,
            Value::Object(map) => map,
            _ => return true,
        };
        let key = (std::ptr::from_ref(node), std::ptr::from_ref(value));
        if let Some(known) = self.fits.get(&key) {
            return *known;
        }
        let may_go_on = depth <= MAX_DEPTH && !self.stop.ends_before(1);
        let Some(left) = self.left.checked_sub(1).filter(|_| may_go_on) else {
            return true;
        };
        self.left = left;
        // A recursive visit of the same pair adds nothing.
        self.fits.insert(key, true);
        let fits = self.local(node).is_none_or(|local| local.is_valid(value))
            && self.fits_in_place(map, value, depth + 1)
            && self.members_fit(map, value, depth + 1);
        self.fits.insert(key, fits);
        fits
    }

    fn fits_in_place(
        &mut self,
        map: &'a Map<String, Value>,
        value: &'a Value,
        depth: usize,
    ) -> bool {
        let target = map.get("$ref").and_then(Value::as_str);
        if let Some(target) = target.and_then(|target| self.reporter.lookup.target(target))
            && !self.fits(target, value, depth)
        {
            return false;
        }
        let list = |keyword: &str| map.get(keyword).and_then(Value::as_array);
        let all = list("allOf").into_iter().flatten();
        if !all.into_iter().all(|part| self.fits(part, value, depth)) {
            return false;
        }
        for union in [list("anyOf"), list("oneOf")].into_iter().flatten() {
            if !union.iter().any(|branch| self.fits(branch, value, depth)) {
                return false;
            }
        }
        let Some(condition) = map.get("if") else { return true };
        let holds = self.fits(condition, value, depth);
        map.get(if holds { "then" } else { "else" })
            .is_none_or(|part| self.fits(part, value, depth))
    }

    fn members_fit(&mut self, map: &'a Map<String, Value>, value: &'a Value, depth: usize) -> bool {
        match value {
            Value::Object(members) => members.iter().all(|(name, member)| {
                member_schemas(map, name).into_iter().all(|child| self.fits(child, member, depth))
            }),
            Value::Array(items) => items.iter().enumerate().all(|(n, item)| {
                let contains = map.get("contains");
                item_schemas(map, n)
                    .into_iter()
                    // `contains` does not apply to every item.
                    .filter(|child| !contains.is_some_and(|c| std::ptr::eq(c, *child)))
                    .all(|child| self.fits(child, item, depth))
            }),
            _ => true,
        }
    }

    /// The errors of a node's own keywords.
    fn local_errors(&mut self, node: &'a Value, value: &Value) -> Vec<Violation<'static>> {
        let Some(local) = self.local(node) else { return Vec::new() };
        let found = local.violations(value, MAX_LOCAL_ERRORS);
        found.into_iter().map(Violation::into_owned).collect()
    }

    fn local(&mut self, node: &'a Value) -> Option<&Validator> {
        let Self { local, formats, reporter, .. } = self;
        local
            .entry(std::ptr::from_ref(node))
            .or_insert_with(|| {
                let schema = local_schema(node.as_object()?, reporter.lookup.root());
                build_unchecked(&schema, *formats).ok()
            })
            .as_ref()
    }
}

/// A schema with only the keywords that need no other schema. A closed object lists its properties.
fn local_schema(map: &Map<String, Value>, root: &Value) -> Value {
    let mut local: Map<String, Value> = map
        .iter()
        .filter(|(key, _)| LOCAL_KEYWORDS.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if map.get("additionalProperties") == Some(&Value::Bool(false)) {
        local.insert("additionalProperties".into(), Value::Bool(false));
        for keyword in ["properties", "patternProperties"] {
            if let Some(named) = map.get(keyword).and_then(Value::as_object) {
                let free = |name: &String| (name.clone(), Value::Object(Map::new()));
                local.insert(keyword.into(), Value::Object(named.keys().map(free).collect()));
            }
        }
    }
    ranges::bound(&mut local);
    local.extend(root.get("$schema").map(|draft| ("$schema".to_owned(), draft.clone())));
    Value::Object(local)
}
