//! Lists what is wrong with a value, in the order of the keywords and of the value.
//!
//! For a union that a value does not match, the violations of every branch are listed. The caller
//! estimates the work before.

use std::fmt::Write;

use serde_json::Value;

use super::{
    node::{Additional, Bound, Limit, Members, Node, NodeId, Rule},
    run::Run,
    violation::{Violation, ViolationKind as Kind},
};
use crate::keywords::escape;

/// The location of a value, as a list from the value to the root.
#[derive(Clone, Copy)]
enum Path<'p> {
    Root,
    Member(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl Path<'_> {
    fn pointer(&self) -> String {
        let mut segments = Vec::new();
        let mut at = self;
        loop {
            at = match at {
                Path::Root => break,
                Path::Member(parent, name) => {
                    segments.push(escape(name));
                    parent
                }
                Path::Item(parent, index) => {
                    segments.push(index.to_string().into());
                    parent
                }
            };
        }
        segments.iter().rev().fold(String::new(), |mut pointer, segment| {
            let _ = write!(pointer, "/{segment}");
            pointer
        })
    }
}

/// Lists the violations of one value.
pub(super) struct Lister<'a> {
    run: Run<'a>,
    limit: usize,
}

impl<'a> Lister<'a> {
    pub(super) fn new(nodes: &'a [Node], limit: usize) -> Self {
        Self { run: Run::new(nodes), limit }
    }

    /// Lists the violations of a value against a node.
    pub(super) fn list<'v>(mut self, id: NodeId, value: &'v Value) -> Vec<Violation<'v>> {
        let mut found = Vec::new();
        self.visit(id, value, &Path::Root, &mut found);
        found.truncate(self.limit);
        found
    }

    fn visit<'v>(
        &mut self,
        id: NodeId,
        value: &'v Value,
        at: &Path<'_>,
        found: &mut Vec<Violation<'v>>,
    ) {
        let Some(node) = self.run.node(id) else { return };
        if found.len() >= self.limit || !self.run.descend() {
            return;
        }
        let pair = (id, std::ptr::from_ref(value));
        if !node.is_cyclic || self.run.enter(pair) {
            for rule in &node.rules {
                self.rule(node, rule, value, at, found);
            }
            if node.is_cyclic {
                self.run.leave();
            }
        }
        self.run.ascend();
    }

    fn rule<'v>(
        &mut self,
        node: &'a Node,
        rule: &'a Rule,
        value: &'v Value,
        at: &Path<'_>,
        found: &mut Vec<Violation<'v>>,
    ) {
        match (rule, value) {
            (Rule::AllOf(nodes), _) => {
                nodes.iter().for_each(|node| self.visit(*node, value, at, found));
            }
            (Rule::Reference(target), _) => self.visit(*target, value, at, found),
            (Rule::If { condition, then, otherwise }, _) => {
                let chosen = if self.run.is_valid(*condition, value) { then } else { otherwise };
                if let Some(chosen) = chosen {
                    self.visit(*chosen, value, at, found);
                }
            }
            (Rule::DependentSchemas(nodes), Value::Object(map)) => {
                for (name, node) in nodes {
                    if map.contains_key(&**name) {
                        self.visit(*node, value, at, found);
                    }
                }
            }
            (Rule::Members, Value::Object(_)) => {
                if let Some(members) = &node.members {
                    self.members(node, members, value, at, found);
                }
            }
            (Rule::Prefix(nodes), Value::Array(items)) => {
                for (n, (node, item)) in nodes.iter().zip(items).enumerate() {
                    self.visit(*node, item, &Path::Item(at, n), found);
                }
            }
            (Rule::ItemsFrom(first, node), Value::Array(items)) => {
                for (n, item) in items.iter().enumerate().skip(*first) {
                    self.visit(*node, item, &Path::Item(at, n), found);
                }
            }
            (Rule::PropertyNames(names), Value::Object(map)) => {
                for name in map.keys() {
                    self.name(*names, name, value, at, found);
                }
            }
            (Rule::AnyOf(nodes) | Rule::OneOf(nodes), _) => {
                self.union(node, rule, nodes, value, at, found);
            }
            _ => {
                if !self.run.follows(node, rule, value) {
                    self.violated(node, rule, value, at, found);
                }
            }
        }
    }

    fn members<'v>(
        &mut self,
        node: &Node,
        members: &'a Members,
        value: &'v Value,
        at: &Path<'_>,
        found: &mut Vec<Violation<'v>>,
    ) {
        let (mut unexpected, mut expected) = (Vec::new(), 0);
        for (name, member) in value.as_object().into_iter().flatten() {
            let below = Path::Member(at, name);
            let known = members.find(name, &mut expected).and_then(|known| known.node);
            if let Some(known) = known {
                self.visit(known, member, &below, found);
            }
            let mut is_named = known.is_some();
            for (pattern, node) in &members.patterns {
                if self.run.matches(pattern, name) {
                    is_named = true;
                    self.visit(*node, member, &below, found);
                }
            }
            match members.additional.filter(|_| !is_named) {
                None | Some(Additional::Allowed) => {}
                Some(Additional::Forbidden) => unexpected.push(name.clone()),
                Some(Additional::Node(node)) => self.visit(node, member, &below, found),
            }
        }
        if !unexpected.is_empty() {
            report(node, value, at, Kind::AdditionalProperties { unexpected }, found);
        }
    }

    /// Lists what is wrong with a name of a member.
    fn name<'v>(
        &mut self,
        names: NodeId,
        name: &str,
        value: &'v Value,
        at: &Path<'_>,
        found: &mut Vec<Violation<'v>>,
    ) {
        let text = Value::String(name.to_owned());
        let mut wrong = Vec::new();
        self.visit(names, &text, at, &mut wrong);
        for error in wrong {
            let error = Box::new(error.into_owned());
            let path = error.schema_path().to_owned();
            let kind = Kind::PropertyNames { error };
            found.push(Violation::new(at.pointer(), path, value, kind));
        }
    }

    /// Lists the violations of each branch of a union, if the value does not match it.
    fn union<'v>(
        &mut self,
        node: &'a Node,
        rule: &'a Rule,
        nodes: &[NodeId],
        value: &'v Value,
        at: &Path<'_>,
        found: &mut Vec<Violation<'v>>,
    ) {
        if self.run.follows(node, rule, value) {
            return;
        }
        let is_one_of = matches!(rule, Rule::OneOf(_));
        if is_one_of && self.run.only_valid(nodes, value).is_err() {
            return report(node, value, at, Kind::OneOfMultipleValid, found);
        }
        let mut context = Vec::with_capacity(nodes.len());
        for branch in nodes {
            let mut violations = Vec::new();
            self.visit(*branch, value, at, &mut violations);
            context.push(owned(violations));
        }
        let kind =
            if is_one_of { Kind::OneOfNotValid { context } } else { Kind::AnyOf { context } };
        report(node, value, at, kind, found);
    }

    fn violated<'v>(
        &mut self,
        node: &'a Node,
        rule: &'a Rule,
        value: &'v Value,
        at: &Path<'_>,
        found: &mut Vec<Violation<'v>>,
    ) {
        let kind = match rule {
            Rule::Required(names) => {
                let path = format!("{}/required", node.pointer);
                return missing(names, &path, value, at, found);
            }
            Rule::DependentRequired(keyword, lists) => {
                for (name, names) in lists.iter().filter(|(name, _)| value.get(&**name).is_some()) {
                    let path = format!("{}/{keyword}/{}", node.pointer, escape(name));
                    missing(names, &path, value, at, found);
                }
                return;
            }
            Rule::UnevaluatedProperties(unevaluated) => {
                let map = value.as_object().into_iter().flatten();
                let evaluated = match value {
                    Value::Object(map) => self.run.evaluated_members(node, value, map),
                    _ => Vec::new(),
                };
                let rest = map.zip(evaluated).filter(|(_, is_evaluated)| !is_evaluated);
                let unexpected = rest
                    .filter(|((_, member), _)| !self.run.is_valid(*unevaluated, member))
                    .map(|((name, _), _)| name.clone())
                    .collect();
                Kind::UnevaluatedProperties { unexpected }
            }
            rule => own_kind(node, rule, value),
        };
        report(node, value, at, kind, found);
    }
}

/// Adds a violation of a keyword of a node. A function of its own, so that a level of nesting takes
/// little of the stack.
#[inline(never)]
fn report<'v>(
    node: &Node,
    value: &'v Value,
    at: &Path<'_>,
    kind: Kind,
    found: &mut Vec<Violation<'v>>,
) {
    let path = match kind {
        Kind::FalseSchema => node.pointer.to_string(),
        _ => format!("{}/{}", node.pointer, kind.keyword()),
    };
    found.push(Violation::new(at.pointer(), path, value, kind));
}

fn owned(violations: Vec<Violation<'_>>) -> Vec<Violation<'static>> {
    violations.into_iter().map(Violation::into_owned).collect()
}

/// Lists the names that an object lacks.
fn missing<'v>(
    names: &[Box<str>],
    path: &str,
    value: &'v Value,
    at: &Path<'_>,
    found: &mut Vec<Violation<'v>>,
) {
    for name in names.iter().filter(|name| value.get(&***name).is_none()) {
        let kind = Kind::Required { property: name.to_string() };
        found.push(Violation::new(at.pointer(), path.to_owned(), value, kind));
    }
}

/// What a rule expects, if that is written in the rule.
fn own_kind(node: &Node, rule: &Rule, value: &Value) -> Kind {
    let other = |keyword| Kind::Other { keyword };
    match rule {
        Rule::False => Kind::FalseSchema,
        Rule::Type => Kind::Type { types: node.types },
        Rule::Constant(only) => Kind::Constant { expected_value: only.clone() },
        Rule::Enum(options) => Kind::Enum { options: options.clone() },
        Rule::Bound(bound, _, limit) => {
            let limit = limit.clone();
            match bound {
                Bound::Minimum => Kind::Minimum { limit },
                Bound::Maximum => Kind::Maximum { limit },
                Bound::ExclusiveMinimum => Kind::ExclusiveMinimum { limit },
                Bound::ExclusiveMaximum => Kind::ExclusiveMaximum { limit },
            }
        }
        Rule::MultipleOf(_, multiple_of) => Kind::MultipleOf { multiple_of: *multiple_of },
        Rule::Length(Limit::Min(limit)) => Kind::MinLength { limit: *limit },
        Rule::Length(Limit::Max(limit)) => Kind::MaxLength { limit: *limit },
        Rule::Items(Limit::Min(limit)) => Kind::MinItems { limit: *limit },
        Rule::Items(Limit::Max(limit)) => Kind::MaxItems { limit: *limit },
        Rule::Properties(Limit::Min(_)) => other("minProperties"),
        Rule::Properties(Limit::Max(_)) => other("maxProperties"),
        Rule::Pattern(pattern) => Kind::Pattern { pattern: pattern.source().to_owned() },
        Rule::Format(format, _) => Kind::Format { format: format.to_string() },
        Rule::Content(content) => {
            let violated = value.as_str().and_then(|text| content.violated(text));
            other(violated.unwrap_or("contentEncoding"))
        }
        Rule::UniqueItems => Kind::UniqueItems,
        Rule::NoItemsFrom(_) => other("additionalItems"),
        Rule::Contains { .. } => other("contains"),
        Rule::Not(_) => other("not"),
        Rule::UnevaluatedItems(_) => other("unevaluatedItems"),
        // The others list the violations of other nodes.
        _ => Kind::FalseSchema,
    }
}
