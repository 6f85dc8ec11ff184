//! Finds the members and items of a value that a schema has evaluated, for `unevaluatedProperties`
//! and `unevaluatedItems`.
//!
//! A subschema that applies to the same value counts if the value matches it.

use serde_json::{Map, Value};

use super::{
    node::{Members, Node, NodeId, Rule},
    run::Run,
};

impl<'a> Run<'a> {
    /// Returns, for each member of an object, whether another keyword of a node evaluates it.
    pub(super) fn evaluated_members(
        &mut self,
        node: &'a Node,
        value: &Value,
        map: &Map<String, Value>,
    ) -> Vec<bool> {
        let mut marks = vec![false; map.len()];
        for rule in &node.rules {
            if !matches!(rule, Rule::UnevaluatedProperties(_)) {
                self.mark_members_by(node, rule, value, map, &mut marks);
            }
        }
        marks
    }

    /// Returns, for each item of an array, whether another keyword of a node evaluates it.
    pub(super) fn evaluated_items(
        &mut self,
        node: &'a Node,
        value: &Value,
        items: &[Value],
    ) -> Vec<bool> {
        let mut marks = vec![false; items.len()];
        for rule in &node.rules {
            if !matches!(rule, Rule::UnevaluatedItems(_)) {
                self.mark_items_by(rule, value, items, &mut marks);
            }
        }
        marks
    }

    fn mark_members(
        &mut self,
        id: NodeId,
        value: &Value,
        map: &Map<String, Value>,
        marks: &mut [bool],
    ) {
        let Some(node) = self.node(id) else { return };
        let pair = (id, std::ptr::from_ref(value));
        if !self.collect(pair) {
            return;
        }
        if !self.descend() {
            self.collected();
            return;
        }
        for rule in &node.rules {
            self.mark_members_by(node, rule, value, map, marks);
        }
        self.collected();
        self.ascend();
    }

    fn mark_members_by(
        &mut self,
        node: &'a Node,
        rule: &'a Rule,
        value: &Value,
        map: &Map<String, Value>,
        marks: &mut [bool],
    ) {
        match rule {
            Rule::Members => {
                if let Some(members) = &node.members {
                    self.mark_named(members, map, marks);
                }
            }
            Rule::UnevaluatedProperties(unevaluated) => {
                // What a nested schema evaluates is evaluated here too.
                for (member, mark) in map.values().zip(marks) {
                    *mark = *mark || self.is_valid(*unevaluated, member);
                }
            }
            rule => {
                for id in self.matching(rule, value) {
                    self.mark_members(id, value, map, marks);
                }
            }
        }
    }

    fn mark_named(&mut self, members: &'a Members, map: &Map<String, Value>, marks: &mut [bool]) {
        let mut expected = 0;
        for (name, mark) in map.keys().zip(marks) {
            *mark = *mark
                || members.additional.is_some()
                || members.find(name, &mut expected).is_some_and(|known| known.node.is_some())
                || members.patterns.iter().any(|(pattern, _)| self.matches(pattern, name));
        }
    }

    fn mark_items(&mut self, id: NodeId, value: &Value, items: &[Value], marks: &mut [bool]) {
        let Some(node) = self.node(id) else { return };
        let pair = (id, std::ptr::from_ref(value));
        if !self.collect(pair) {
            return;
        }
        if !self.descend() {
            self.collected();
            return;
        }
        for rule in &node.rules {
            self.mark_items_by(rule, value, items, marks);
        }
        self.collected();
        self.ascend();
    }

    fn mark_items_by(
        &mut self,
        rule: &'a Rule,
        value: &Value,
        items: &[Value],
        marks: &mut [bool],
    ) {
        match rule {
            Rule::Prefix(nodes) => marks.iter_mut().take(nodes.len()).for_each(|mark| *mark = true),
            Rule::ItemsFrom(..) | Rule::NoItemsFrom(_) => marks.fill(true),
            Rule::Contains { node, .. } | Rule::UnevaluatedItems(node) => {
                for (item, mark) in items.iter().zip(marks) {
                    *mark = *mark || self.is_valid(*node, item);
                }
            }
            rule => {
                for id in self.matching(rule, value) {
                    self.mark_items(id, value, items, marks);
                }
            }
        }
    }

    /// The nodes that a rule applies to the same value, and that the value matches.
    fn matching(&mut self, rule: &'a Rule, value: &Value) -> Vec<NodeId> {
        match rule {
            Rule::Reference(node) => vec![*node],
            Rule::AllOf(nodes) | Rule::AnyOf(nodes) => {
                nodes.iter().copied().filter(|node| self.is_valid(*node, value)).collect()
            }
            Rule::OneOf(nodes) => {
                self.only_valid(nodes, value).ok().flatten().into_iter().collect()
            }
            Rule::If { condition, then, otherwise } => {
                if self.is_valid(*condition, value) {
                    [*condition].into_iter().chain(*then).collect()
                } else {
                    otherwise.iter().copied().collect()
                }
            }
            Rule::DependentSchemas(nodes) => nodes
                .iter()
                .filter(|(name, _)| value.get(&**name).is_some())
                .map(|(_, node)| *node)
                .collect(),
            _ => Vec::new(),
        }
    }
}
