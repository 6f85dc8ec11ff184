//! Decides whether a value is valid, without listing what is wrong and without allocating.
//!
//! After many steps results are memoized, so that a recursive union is not exponential in the depth
//! of a value.
//! FAIL CLOSED: a value that exceeds a limit (depth, backtracking of a pattern) is not valid, even
//! below `not`.

use std::{cmp::Ordering, collections::HashMap};

use haft_core::host::RandomState;
use serde_json::{Map, Value};

use super::{
    equal::{are_unique, equal},
    node::{Additional, Bound, Member, Members, Node, NodeId, Restricts, Rule},
    number::Numeric,
    pattern::Pattern,
};

/// Maximum nesting of nodes: more than values and schemas are deep, and little enough for the stack
/// of a thread.
const MAX_DEPTH: u32 = 1_000;
/// After this many steps, results are memoized.
const STEPS_WITHOUT_MEMO: u32 = 2_000;

/// A node and a value, by identity.
pub(super) type Pair = (NodeId, *const Value);

/// One validation.
pub(super) struct Run<'a> {
    nodes: &'a [Node],
    depth: u32,
    steps: u32,
    is_undecided: bool,
    /// What most validations do not need.
    rare: Option<Box<Rare>>,
}

#[derive(Default)]
struct Rare {
    /// The pairs of cyclic nodes that are being checked.
    active: Vec<Pair>,
    /// The pairs whose evaluated members or items are being collected.
    collecting: Vec<Pair>,
    /// What is memoized.
    known: HashMap<Pair, bool, RandomState>,
}

impl<'a> Run<'a> {
    pub(super) fn new(nodes: &'a [Node]) -> Self {
        Self { nodes, depth: 0, steps: 0, is_undecided: false, rare: None }
    }

    /// Returns whether a limit was reached, so that no result counts.
    pub(super) fn is_undecided(&self) -> bool {
        self.is_undecided
    }

    /// Returns a node.
    pub(super) fn node(&self, id: NodeId) -> Option<&'a Node> {
        self.nodes.get(usize::try_from(id).ok()?)
    }

    /// Returns whether a value matches a node. Most nodes only restrict the type.
    #[inline(always)]
    pub(super) fn is_valid(&mut self, id: NodeId, value: &Value) -> bool {
        let Some(node) = self.node(id) else { return false };
        has_type(node, value)
            && match node.restricts {
                Restricts::Nothing => true,
                Restricts::Numbers => is_in_range(node, value),
                Restricts::Values => self.follows_rules(id, node, value),
            }
    }

    #[inline(never)]
    fn follows_rules(&mut self, id: NodeId, node: &'a Node, value: &Value) -> bool {
        self.steps = self.steps.saturating_add(1);
        if !self.descend() {
            return false;
        }
        let is_simple = !node.is_cyclic && self.steps < STEPS_WITHOUT_MEMO;
        let valid = if is_simple {
            self.applies(node, value)
        } else {
            self.applies_once((id, std::ptr::from_ref(value)), node, value)
        };
        self.ascend();
        valid
    }

    /// Counts one more level; returns whether that is within the limit.
    pub(super) fn descend(&mut self) -> bool {
        self.depth += 1;
        let is_within = self.depth <= MAX_DEPTH;
        if !is_within {
            self.is_undecided = true;
            self.depth -= 1;
        }
        is_within
    }

    pub(super) fn ascend(&mut self) {
        self.depth -= 1;
    }

    /// Starts to check a pair of a cyclic node; `false` if it is already being checked.
    pub(super) fn enter(&mut self, pair: Pair) -> bool {
        let active = &mut self.rare.get_or_insert_default().active;
        let is_new = !active.contains(&pair);
        if is_new {
            active.push(pair);
        }
        is_new
    }

    pub(super) fn leave(&mut self) {
        self.rare.get_or_insert_default().active.pop();
    }

    /// Starts to collect what a pair evaluates; `false` if that is already being done.
    pub(super) fn collect(&mut self, pair: Pair) -> bool {
        let collecting = &mut self.rare.get_or_insert_default().collecting;
        let is_new = !collecting.contains(&pair);
        if is_new {
            collecting.push(pair);
        }
        is_new
    }

    pub(super) fn collected(&mut self) {
        self.rare.get_or_insert_default().collecting.pop();
    }

    /// Applies a node that may be cyclic, or whose result may be known.
    #[cold]
    #[inline(never)]
    fn applies_once(&mut self, pair: Pair, node: &'a Node, value: &Value) -> bool {
        // What applies itself again adds nothing.
        if node.is_cyclic && !self.enter(pair) {
            return true;
        }
        // The result inside a cycle depends on where the cycle was entered.
        let rare = self.rare.get_or_insert_default();
        let is_inside = rare.active.iter().any(|other| other.1 == pair.1 && *other != pair);
        let is_kept = matches!(value, Value::Array(_) | Value::Object(_)) && !is_inside;
        let known = if is_kept { rare.known.get(&pair).copied() } else { None };
        let valid = known.unwrap_or_else(|| {
            let valid = self.applies(node, value);
            if is_kept && self.steps >= STEPS_WITHOUT_MEMO {
                self.rare.get_or_insert_default().known.insert(pair, valid);
            }
            valid
        });
        if node.is_cyclic {
            self.leave();
        }
        valid
    }

    #[inline(always)]
    fn applies(&mut self, node: &'a Node, value: &Value) -> bool {
        if !is_in_range(node, value) {
            return false;
        }
        if let Some(members) = &node.members
            && let Value::Object(map) = value
            && !self.has_valid_members(members, named(map))
        {
            return false;
        }
        let rest = node.rest.iter().filter_map(|at| node.rules.get(usize::from(*at)));
        rest.into_iter().all(|rule| self.follows(node, rule, value))
    }

    /// Checks all members in one pass, and that the required ones are there.
    #[inline(always)]
    pub(super) fn has_valid_members<'v>(
        &mut self,
        members: &'a Members,
        object: impl Iterator<Item = (&'v str, &'v Value)>,
    ) -> bool {
        if !members.patterns.is_empty() {
            return self.has_valid_matching_members(members, object);
        }
        let (mut seen, mut expected) = (0_u64, 0_usize);
        for (name, value) in object {
            let is_valid = match members.find(name, &mut expected) {
                Some(member) => {
                    seen |= member.bit;
                    // Most members only have a type.
                    member.plain.include(value, false)
                        || self.is_valid_member(member, members, value)
                }
                None => self.is_valid_addition(members, value),
            };
            if !is_valid {
                return false;
            }
        }
        seen == members.required
    }

    #[inline(never)]
    fn is_valid_member(&mut self, member: &Member, members: &'a Members, value: &Value) -> bool {
        match member.node {
            Some(node) => self.is_valid(node, value),
            None => self.is_valid_addition(members, value),
        }
    }

    /// Whether a member that nothing names is valid.
    #[inline(never)]
    fn is_valid_addition(&mut self, members: &'a Members, value: &Value) -> bool {
        match members.additional {
            None | Some(Additional::Allowed) => true,
            Some(Additional::Forbidden) => false,
            Some(Additional::Node(node)) => self.is_valid(node, value),
        }
    }

    /// Does the same for members with patterns: several schemas may apply to one.
    #[inline(never)]
    fn has_valid_matching_members<'v>(
        &mut self,
        members: &'a Members,
        object: impl Iterator<Item = (&'v str, &'v Value)>,
    ) -> bool {
        let (mut seen, mut expected) = (0_u64, 0_usize);
        for (name, value) in object {
            let known = members.find(name, &mut expected);
            seen |= known.map_or(0, |known| known.bit);
            let node = known.and_then(|known| known.node);
            let mut is_named = node.is_some();
            if node.is_some_and(|node| !self.is_valid(node, value)) {
                return false;
            }
            for (pattern, node) in &members.patterns {
                if self.matches(pattern, name) {
                    is_named = true;
                    if !self.is_valid(*node, value) {
                        return false;
                    }
                }
            }
            if !is_named && !self.is_valid_addition(members, value) {
                return false;
            }
        }
        seen == members.required
    }

    /// Whether a pattern matches. If that takes too long, the whole value is not valid.
    pub(super) fn matches(&mut self, pattern: &Pattern, text: &str) -> bool {
        pattern.matches(text).unwrap_or_else(|| {
            self.is_undecided = true;
            false
        })
    }

    /// Returns whether a value follows one rule of a node. Each part is a function of its own, so
    /// that a level of nesting takes little of the stack.
    #[inline(never)]
    pub(super) fn follows(&mut self, node: &'a Node, rule: &'a Rule, value: &Value) -> bool {
        match rule {
            Rule::AllOf(nodes) => self.matches_all(nodes, value),
            Rule::AnyOf(nodes) => self.matches_any(nodes, value),
            Rule::OneOf(nodes) => self.only_valid(nodes, value).is_ok_and(|one| one.is_some()),
            Rule::Not(node) => !self.is_valid(*node, value),
            Rule::Reference(node) => self.is_valid(*node, value),
            Rule::If { condition, then, otherwise } => {
                self.follows_condition(*condition, *then, *otherwise, value)
            }
            rule => match value {
                Value::Array(items) => self.array_follows(node, rule, value, items),
                Value::Object(map) => self.object_follows(node, rule, value, map),
                value => self.scalar_follows(node, rule, value),
            },
        }
    }

    fn matches_all(&mut self, nodes: &[NodeId], value: &Value) -> bool {
        for node in nodes {
            if !self.is_valid(*node, value) {
                return false;
            }
        }
        true
    }

    fn matches_any(&mut self, nodes: &[NodeId], value: &Value) -> bool {
        for node in nodes {
            if self.is_valid(*node, value) {
                return true;
            }
        }
        false
    }

    fn follows_condition(
        &mut self,
        condition: NodeId,
        then: Option<NodeId>,
        otherwise: Option<NodeId>,
        value: &Value,
    ) -> bool {
        if then.is_none() && otherwise.is_none() {
            return true;
        }
        let chosen = if self.is_valid(condition, value) { then } else { otherwise };
        chosen.is_none_or(|node| self.is_valid(node, value))
    }

    fn array_follows(
        &mut self,
        node: &'a Node,
        rule: &'a Rule,
        value: &Value,
        items: &[Value],
    ) -> bool {
        match rule {
            Rule::Prefix(nodes) => {
                let mut pairs = nodes.iter().zip(items);
                pairs.all(|(node, item)| self.is_valid(*node, item))
            }
            Rule::ItemsFrom(first, node) => {
                let items = items.get(*first..).unwrap_or_default();
                items.iter().all(|item| self.is_valid(*node, item))
            }
            Rule::Contains { node, min, max } => {
                let count = items.iter().filter(|item| self.is_valid(*node, item)).count();
                let count = u64::try_from(count).unwrap_or(u64::MAX);
                (*min..=*max).contains(&count)
            }
            Rule::UnevaluatedItems(unevaluated) => {
                let evaluated = self.evaluated_items(node, value, items);
                let mut rest = items.iter().zip(evaluated).filter(|(_, done)| !done);
                rest.all(|(item, _)| self.is_valid(*unevaluated, item))
            }
            Rule::NoItemsFrom(first) => items.len() <= *first,
            Rule::Items(limit) => limit.admits(items.len()),
            Rule::UniqueItems => are_unique(items),
            rule => self.scalar_follows(node, rule, value),
        }
    }

    fn object_follows(
        &mut self,
        node: &'a Node,
        rule: &'a Rule,
        value: &Value,
        map: &Map<String, Value>,
    ) -> bool {
        match rule {
            Rule::Members => node
                .members
                .as_ref()
                .is_none_or(|members| self.has_valid_members(members, named(map))),
            Rule::DependentSchemas(nodes) => nodes
                .iter()
                .all(|(name, node)| !map.contains_key(&**name) || self.is_valid(*node, value)),
            Rule::UnevaluatedProperties(unevaluated) => {
                let evaluated = self.evaluated_members(node, value, map);
                let mut rest = map.values().zip(evaluated).filter(|(_, done)| !done);
                rest.all(|(member, _)| self.is_valid(*unevaluated, member))
            }
            Rule::PropertyNames(node) => {
                map.keys().all(|name| self.is_valid(*node, &Value::String(name.clone())))
            }
            Rule::Properties(limit) => limit.admits(map.len()),
            Rule::Required(names) => names.iter().all(|name| map.contains_key(&**name)),
            Rule::DependentRequired(_, lists) => lists.iter().all(|(name, names)| {
                !map.contains_key(&**name) || names.iter().all(|name| map.contains_key(&**name))
            }),
            rule => self.scalar_follows(node, rule, value),
        }
    }

    /// The rules that apply no other node. A rule for another type holds.
    fn scalar_follows(&mut self, node: &Node, rule: &Rule, value: &Value) -> bool {
        match (rule, value) {
            (Rule::False, _) => false,
            (Rule::Type, _) => has_type(node, value),
            (Rule::Constant(only), _) => equal(only, value),
            (Rule::Enum(options), _) => is_option(options, value),
            (Rule::Bound(bound, limit, _), Value::Number(number)) => {
                is_within(*bound, *limit, Numeric::of(number))
            }
            (Rule::MultipleOf(divisor, _), Value::Number(number)) => {
                Numeric::of(number).is_multiple_of(*divisor)
            }
            (Rule::Length(limit), Value::String(text)) => limit.admits(text.chars().count()),
            (Rule::Pattern(pattern), Value::String(text)) => self.matches(pattern, text),
            (Rule::Format(_, check), Value::String(text)) => check(text),
            (Rule::Content(content), Value::String(text)) => content.violated(text).is_none(),
            _ => true,
        }
    }

    /// Returns the only node of a list that a value matches; an error if it matches several.
    pub(super) fn only_valid(
        &mut self,
        nodes: &[NodeId],
        value: &Value,
    ) -> Result<Option<NodeId>, ()> {
        let mut only = None;
        for node in nodes {
            if self.is_valid(*node, value) && only.replace(*node).is_some() {
                return Err(());
            }
        }
        Ok(only)
    }
}

/// Returns the members of an object.
#[inline(always)]
fn named(map: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    map.iter().map(|(name, value)| (name.as_str(), value))
}

#[inline]
fn has_type(node: &Node, value: &Value) -> bool {
    node.types.include(value, node.floats_are_fractions)
}

#[inline(always)]
fn is_in_range(node: &Node, value: &Value) -> bool {
    match value {
        Value::Number(number) => node.range.admits(number),
        _ => true,
    }
}

fn is_option(options: &Value, value: &Value) -> bool {
    let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
    match value {
        Value::String(text) => {
            options.iter().any(|option| matches!(option, Value::String(option) if option == text))
        }
        value => options.iter().any(|option| equal(option, value)),
    }
}

fn is_within(bound: Bound, limit: Numeric, number: Numeric) -> bool {
    let order = number.compare(limit);
    match bound {
        Bound::Minimum => order != Ordering::Less,
        Bound::Maximum => order != Ordering::Greater,
        Bound::ExclusiveMinimum => order == Ordering::Greater,
        Bound::ExclusiveMaximum => order == Ordering::Less,
    }
}
