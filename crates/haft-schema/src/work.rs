//! Estimates the work of listing all validation errors of a value.
//!
//! For each union, the validator lists the errors of every branch, recursively. On a recursive
//! union this is exponential in the depth of the value. This file computes the cost without doing
//! the work: each pair of a schema node and a value is counted once and memoized.
//!
//! In: a schema and a value. Out: the number of pairs that a listing would visit, saturating.

use std::collections::HashMap;

use haft_core::host::RandomState;
use serde_json::{Map, Value};

use super::{
    lookup::{SchemaLookup, matches},
    stop::Stop,
};

/// Listing this many pairs takes some milliseconds.
pub(super) const MAX_LISTED_PAIRS: u64 = 50_000;
/// A large value may take more, in proportion to its size.
const PAIRS_PER_VALUE: u64 = 4;
/// More pairs than this are not even counted.
const MAX_COUNTED_PAIRS: usize = 200_000;
/// Maximum nesting depth of schema and value together.
const MAX_DEPTH: usize = 2_000;

/// Returns the work of listing all errors of a value; `None` if it is too much or the counting was
/// stopped.
pub(super) fn affordable(lookup: SchemaLookup<'_>, value: &Value, stop: &Stop<'_>) -> Option<u64> {
    let mut counter = Counter { lookup, stop, known: HashMap::default() };
    let pairs = counter.pairs(lookup.root(), value, 0);
    let most = MAX_LISTED_PAIRS.max(size(value).saturating_mul(PAIRS_PER_VALUE));
    (pairs <= most && !stop.is_over()).then_some(pairs)
}

fn size(value: &Value) -> u64 {
    match value {
        Value::Array(list) => list.iter().fold(1, |sum: u64, item| sum.saturating_add(size(item))),
        Value::Object(map) => map.values().fold(1, |sum: u64, item| sum.saturating_add(size(item))),
        _ => 1,
    }
}

struct Counter<'a> {
    lookup: SchemaLookup<'a>,
    stop: &'a Stop<'a>,
    known: HashMap<(*const Value, *const Value), u64, RandomState>,
}

impl Counter<'_> {
    fn pairs(&mut self, node: &Value, value: &Value, depth: usize) -> u64 {
        let Some(map) = node.as_object() else { return 1 };
        let key = (std::ptr::from_ref(node), std::ptr::from_ref(value));
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let is_too_much = depth > MAX_DEPTH || self.known.len() > MAX_COUNTED_PAIRS;
        if is_too_much || self.stop.ends_before(1) {
            return u64::MAX;
        }
        // A pair that recurs inside itself adds nothing: the validator stops there too.
        self.known.insert(key, 1);
        let mut sum: u64 = 1;
        let mut add = |this: &mut Self, node: &Value, value: &Value| {
            sum = sum.saturating_add(this.pairs(node, value, depth + 1));
        };
        if let Some(target) = map.get("$ref").and_then(Value::as_str)
            && let Some(target) = self.lookup.target(target)
        {
            add(self, target, value);
        }
        for list in ["allOf", "anyOf", "oneOf"].iter().filter_map(|k| map.get(*k)?.as_array()) {
            list.iter().for_each(|part| add(self, part, value));
        }
        for part in ["not", "if", "then", "else"].iter().filter_map(|k| map.get(*k)) {
            add(self, part, value);
        }
        for (_, part) in
            map.get("dependentSchemas").and_then(Value::as_object).into_iter().flatten()
        {
            add(self, part, value);
        }
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    member_schemas(map, name)
                        .into_iter()
                        .for_each(|child| add(self, child, member));
                }
            }
            Value::Array(items) => {
                for (n, item) in items.iter().enumerate() {
                    item_schemas(map, n).into_iter().for_each(|child| add(self, child, item));
                }
            }
            _ => {}
        }
        self.known.insert(key, sum);
        sum
    }
}

/// The schemas of a node that apply to one member of an object.
pub(super) fn member_schemas<'a>(map: &'a Map<String, Value>, name: &str) -> Vec<&'a Value> {
    let mut found = Vec::new();
    found.extend(map.get("properties").and_then(|named| named.get(name)));
    for (pattern, child) in
        map.get("patternProperties").and_then(Value::as_object).into_iter().flatten()
    {
        if matches(pattern, name) {
            found.push(child);
        }
    }
    if found.is_empty() {
        let rest = ["additionalProperties", "unevaluatedProperties"];
        found.extend(rest.iter().filter_map(|k| map.get(*k)));
    }
    found
}

/// The schemas of a node that apply to one item of an array.
pub(super) fn item_schemas(map: &Map<String, Value>, n: usize) -> Vec<&Value> {
    let mut found = Vec::new();
    let list = map.get("prefixItems").or_else(|| map.get("items")).and_then(Value::as_array);
    match list.map(|list| list.get(n)) {
        Some(Some(own)) => found.push(own),
        Some(None) if map.contains_key("prefixItems") => found.extend(map.get("items")),
        Some(None) => found.extend(map.get("additionalItems")),
        None => found.extend(map.get("items").or_else(|| map.get("unevaluatedItems"))),
    }
    found.extend(map.get("contains"));
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A value of this depth, and a schema whose two branches are both recursive.
    fn nested(depth: usize) -> (Value, Value) {
        let form = |name: &str| json!({"type": "object", "properties": {"child": {"$ref": "#/$defs/node"}, name: {"type": "integer"}}, "required": ["child"]});
        let schema = json!({
            "$ref": "#/$defs/node",
            "$defs": {"node": {"anyOf": [form("a"), form("b"), {"type": "integer"}]}},
        });
        let value = (0..depth).fold(json!("leaf"), |inner, _| json!({"child": inner}));
        (schema, value)
    }

    #[test]
    fn work_on_a_recursive_union_is_counted_without_doing_it() {
        let counted = |depth: usize| {
            let (schema, value) = nested(depth);
            let lookup = SchemaLookup::new(&schema, false);
            let stop = &Stop::never();
            let mut counter = Counter { lookup, stop, known: HashMap::default() };
            let pairs = counter.pairs(&schema, &value, 0);
            (pairs, counter.known.len())
        };
        let ((pairs, looked_up), (more_pairs, more_looked_up)) = (counted(10), counted(20));
        assert!(pairs > 1 << 10 && more_pairs > 1 << 20, "{pairs} and {more_pairs}");
        assert!(more_looked_up < looked_up * 3, "{looked_up} and {more_looked_up}");
        assert_eq!(counted(200).0, u64::MAX);
    }

    #[test]
    fn plain_work_stays_affordable_however_large_the_value_is() {
        let schema = json!({"items": {"type": "object", "properties": {"n": {"type": "integer"}}}});
        let value = Value::from(vec![json!({"n": "x"}); 40_000]);
        assert!(affordable(SchemaLookup::new(&schema, false), &value, &Stop::never()).is_some());
        let (schema, value) = nested(40);
        assert!(affordable(SchemaLookup::new(&schema, false), &value, &Stop::never()).is_none());
    }
}
