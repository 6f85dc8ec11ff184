//! The cache key of a result: everything that two calls must have in common to share it.
//!
//! In: the parts. Out: a key that is hashed once. Keys are compared in full and never by their hash
//! alone: a model chooses the arguments, and must not get the result of other arguments by a hash
//! collision. The arguments are shared with the call, so a key copies none of them.

use std::{
    hash::{BuildHasher as _, BuildHasherDefault, Hash, Hasher},
    path::Path,
    sync::Arc,
};

use haft_core::{ToolName, host::RandomState};
use serde_json::{Number, Value};

use crate::memory_size::memory_size_of;

/// Arguments are compared to this depth, which is as deep as they are parsed. Deeper ones are never
/// equal.
const MAX_DEPTH: usize = 128;

/// What two calls must have in common to share a result.
#[derive(Debug)]
pub(super) struct KeyParts {
    pub(super) tool: ToolName,
    pub(super) source: Arc<str>,
    pub(super) definition: [u8; 32],
    pub(super) arguments: Arc<Value>,
    pub(super) directory: Arc<Path>,
    /// Who may share the result: the kind of scope, and its value.
    pub(super) scope: (&'static str, Box<str>),
}

/// The key of a cached result. Clones are cheap.
#[derive(Debug, Clone)]
pub(super) struct Key {
    hash: u64,
    parts: Arc<KeyParts>,
}

impl Key {
    pub(super) fn new(parts: KeyParts, by: &RandomState) -> Self {
        let scope = (parts.scope.0, &*parts.scope.1);
        let names = (parts.tool.as_str(), parts.definition, scope);
        let hash = by.hash_one((names, hash_of(&parts.arguments, by, MAX_DEPTH)));
        Self { hash, parts: Arc::new(parts) }
    }

    /// Estimates its bytes. It stops counting at a limit.
    pub(super) fn memory_size(&self, limit: usize) -> usize {
        memory_size_of(&self.parts.arguments, limit)
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        let (own, others) = (&*self.parts, &*other.parts);
        Arc::ptr_eq(&self.parts, &other.parts)
            || self.hash == other.hash
                && own.tool == others.tool
                && own.source == others.source
                && own.definition == others.definition
                && own.directory == others.directory
                && own.scope == others.scope
                && is_same(&own.arguments, &others.arguments, MAX_DEPTH)
    }
}

impl Eq for Key {}

/// A hasher that returns the hash stored in the key.
#[derive(Debug, Default)]
pub(super) struct StoredHash(u64);

impl Hasher for StoredHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Only keys are hashed with it, and they write one number.
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// For maps that use the hash stored in the key.
pub(super) type KeyHasher = BuildHasherDefault<StoredHash>;

/// Hashes data so that equal data has equal hashes, whatever the order of its keys.
fn hash_of(data: &Value, by: &RandomState, depth: usize) -> u64 {
    let Some(depth) = depth.checked_sub(1) else { return 0 };
    match data {
        Value::Null => 1,
        Value::Bool(boolean) => 2 + u64::from(*boolean),
        Value::Number(number) => match whole(number) {
            Some(whole) => by.hash_one(whole),
            None => by.hash_one(number.as_f64().map(f64::to_bits)),
        },
        Value::String(text) => by.hash_one(text.as_str()),
        Value::Array(list) => {
            list.iter().fold(4, |all, item| by.hash_one((all, hash_of(item, by, depth))))
        }
        Value::Object(map) => by.hash_one(map.iter().fold(5, |all: u64, (key, value)| {
            all.wrapping_add(by.hash_one((key.as_str(), hash_of(value, by, depth))))
        })),
    }
}

/// Returns whether two values are the same data. The order of keys does not count, nor whether a
/// whole number is written with a point.
fn is_same(one: &Value, other: &Value, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => match (whole(one), whole(other)) {
            (None, None) => one == other,
            (one, other) => one == other,
        },
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| is_same(a, b, depth))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same = |(key, value): (&String, &Value)| {
                other.get(key).is_some_and(|other| is_same(value, other, depth))
            };
            one.len() == other.len() && one.iter().all(same)
        }
        (one, other) => one == other,
    }
}

/// Returns a whole number as an integer.
fn whole(number: &Number) -> Option<i128> {
    let float = match (number.as_i64(), number.as_u64()) {
        (Some(whole), _) => return Some(whole.into()),
        (_, Some(whole)) => return Some(whole.into()),
        (None, None) => number.as_f64()?,
    };
    // Beyond this a float is not exact, and stays as it is written.
    #[expect(clippy::cast_possible_truncation, reason = "whole and small")]
    (float.trunc() == float && float.abs() < 9e15).then_some(float as i128)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::approval::canonical;

    fn parts(arguments: Value) -> KeyParts {
        KeyParts {
            tool: ToolName::from("tool"),
            source: "own".into(),
            definition: [0; 32],
            arguments: Arc::new(arguments),
            directory: Path::new("/project").into(),
            scope: ("shared", "".into()),
        }
    }

    /// A key that is different for each number.
    pub(in crate::call::layers) fn key(n: u8, by: &RandomState) -> Key {
        Key::new(parts(json!({ "n": n })), by)
    }

    #[test]
    fn keys_differ_if_any_part_differs() {
        let by = RandomState::default();
        let key = |change: fn(&mut KeyParts)| {
            let mut parts = parts(json!({"a": 1}));
            change(&mut parts);
            Key::new(parts, &by)
        };
        let own = key(|_| {});
        assert_eq!(own, key(|_| {}));
        let others: [fn(&mut KeyParts); 6] = [
            |parts| parts.tool = ToolName::from("other"),
            |parts| parts.source = "other".into(),
            |parts| parts.definition = [1; 32],
            |parts| parts.arguments = Arc::new(json!({"a": 2})),
            |parts| parts.directory = Path::new("/elsewhere").into(),
            |parts| parts.scope = ("user", "".into()),
        ];
        others.into_iter().for_each(|change| assert_ne!(own, key(change)));
    }

    #[test]
    fn number_format_does_not_count_and_depth_is_bounded() {
        let by = RandomState::default();
        let key = |arguments: Value| Key::new(parts(arguments), &by);
        assert_eq!(key(json!({"a": 1, "b": 2})), key(json!({"b": 2.0, "a": 1.0})));
        assert_ne!(key(json!(u64::MAX)), key(json!(u64::MAX as f64)));
        assert_ne!(key(json!("1")), key(json!(1)));
        let deep = || (0..200).fold(json!(1), |inner, _| json!([inner]));
        assert_ne!(key(deep()), key(deep()), "deeper parts are not compared");
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-3i64..3).prop_map(Value::from),
            prop_oneof![Just(0.5), Just(-0.0), Just(1.0), Just(1e300)].prop_map(Value::from),
            "[ab]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::vec(("[ab]", inner), 0..3)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn keys_are_equal_exactly_if_canonical_data_is(one in value(), other in value()) {
            let by = RandomState::default();
            let is_equal = canonical(&one) == canonical(&other);
            let (one, other) = (Key::new(parts(one), &by), Key::new(parts(other), &by));
            prop_assert_eq!(one == other, is_equal);
            if is_equal {
                prop_assert_eq!(one.hash, other.hash);
            }
        }
    }
}
