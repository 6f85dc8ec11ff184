//! Equality of JSON values as JSON Schema defines it: 1 equals 1.0, and members have no order.

use std::{
    cmp::Ordering,
    collections::HashMap,
    hash::{BuildHasher, Hasher, RandomState},
};

use serde_json::Value;

use super::number::Numeric;

/// Up to this many items are compared pairwise; more are hashed.
const MAX_PAIRWISE: usize = 12;

/// Returns whether two values are equal.
pub(super) fn equal(one: &Value, two: &Value) -> bool {
    match (one, two) {
        (Value::String(one), Value::String(two)) => one == two,
        (Value::Number(one), Value::Number(two)) => {
            Numeric::of(one).compare(Numeric::of(two)) == Ordering::Equal
        }
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| equal(one, two))
        }
        (Value::Object(one), Value::Object(two)) => {
            one.len() == two.len()
                && one.iter().all(|(name, one)| two.get(name).is_some_and(|two| equal(one, two)))
        }
        (Value::Bool(one), Value::Bool(two)) => one == two,
        (Value::Null, Value::Null) => true,
        _ => false,
    }
}

/// Returns whether all items are different.
pub(super) fn are_unique(items: &[Value]) -> bool {
    if items.len() <= MAX_PAIRWISE {
        return items
            .iter()
            .enumerate()
            .all(|(n, item)| !items.iter().skip(n + 1).any(|other| equal(item, other)));
    }
    // The hasher has a random key, so that items cannot be chosen to collide (hash flooding).
    let hasher = RandomState::new();
    let mut seen: HashMap<u64, Vec<&Value>> = HashMap::with_capacity(items.len());
    for item in items {
        let same = seen.entry(hash(item, &hasher)).or_default();
        if same.iter().any(|other| equal(item, other)) {
            return false;
        }
        same.push(item);
    }
    true
}

/// Equal values have equal hashes.
fn hash(value: &Value, by: &RandomState) -> u64 {
    let mut hasher = by.build_hasher();
    match value {
        Value::Null => hasher.write_u8(0),
        Value::Bool(flag) => hasher.write_u8(1 + u8::from(*flag)),
        Value::Number(number) => {
            // Both zeros are equal.
            let float = number.as_f64().unwrap_or_default() + 0.0;
            hasher.write_u8(3);
            hasher.write_u64(float.to_bits());
        }
        Value::String(text) => {
            hasher.write_u8(4);
            hasher.write(text.as_bytes());
        }
        Value::Array(items) => {
            hasher.write_u8(5);
            items.iter().for_each(|item| hasher.write_u64(hash(item, by)));
        }
        Value::Object(members) => {
            hasher.write_u8(6);
            let sum = members.iter().fold(0_u64, |sum, (name, member)| {
                let mut pair = by.build_hasher();
                pair.write(name.as_bytes());
                pair.write_u64(hash(member, by));
                sum.wrapping_add(pair.finish())
            });
            hasher.write_u64(sum);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_equal_by_value_and_members_in_any_order() {
        assert!(equal(&json!({"a": [1, 2.0], "b": null}), &json!({"b": null, "a": [1.0, 2]})));
        assert!(!equal(&json!(9007199254740993_u64), &json!(9007199254740992.0)));
        assert!(!equal(&json!(0), &json!(false)) && !equal(&json!(""), &json!(null)));
        assert!(equal(&json!(0.0), &json!(-0.0)));
    }

    #[test]
    fn equal_items_are_found_in_short_and_long_lists() {
        for fill in [0, 100] {
            let list = |last: Value| {
                let mut list: Vec<Value> = (0..fill).map(|n| json!({"n": n})).collect();
                list.extend([json!({"a": 1, "b": [0.0]}), last]);
                list
            };
            assert!(!are_unique(&list(json!({"b": [-0.0], "a": 1.0}))), "{fill}");
            assert!(are_unique(&list(json!({"b": [1], "a": 1.0}))), "{fill}");
        }
    }
}
