//! The cache key of a result: everything that two calls must have in common to share it.
//!
//! In: the parts. Out: a key that is hashed once. Keys are compared in full and never by their hash
//! alone: a model chooses the arguments, and must not get the result of other arguments by a hash
//! collision. The arguments are shared with the call, so a key copies none of them.

use std::{
    hash::{BuildHasherDefault, Hash, Hasher},
    path::Path,
    sync::Arc,
};

use haft_core::ToolName;
use serde_json::{Number, Value};

use crate::weight::weight_of;

/// Arguments are told apart to this depth, which is as deep as they are read; deeper ones are never
/// the same.
const DEEPEST: usize = 128;

/// What two calls must have in common.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) tool: ToolName,
    pub(super) source: Arc<str>,
    pub(super) definition: [u8; 32],
    pub(super) arguments: Arc<Value>,
    pub(super) folder: Arc<Path>,
    /// Whom the result is for: the kind of it, and which one.
    pub(super) scope: (&'static str, Box<str>),
}

/// What a result is kept under. Clones are cheap.
#[derive(Debug, Clone)]
pub(super) struct Key {
    hash: u64,
    asked: Arc<Asked>,
}

impl Key {
    pub(super) fn new(asked: Asked, by: &ahash::RandomState) -> Self {
        let scope = (asked.scope.0, &*asked.scope.1);
        let parts = (asked.tool.as_str(), asked.definition, scope);
        let hash = by.hash_one((parts, hash_of(&asked.arguments, by, DEEPEST)));
        Self { hash, asked: Arc::new(asked) }
    }

    /// Returns about how many bytes it holds. It stops counting at a limit.
    pub(super) fn weight(&self, limit: usize) -> usize {
        weight_of(&self.asked.arguments, limit)
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        let (own, other_asked) = (&*self.asked, &*other.asked);
        Arc::ptr_eq(&self.asked, &other.asked)
            || self.hash == other.hash
                && own.tool == other_asked.tool
                && own.source == other_asked.source
                && own.definition == other_asked.definition
                && own.folder == other_asked.folder
                && own.scope == other_asked.scope
                && is_same(&own.arguments, &other_asked.arguments, DEEPEST)
    }
}

impl Eq for Key {}

/// Takes the hash of a key as it is.
#[derive(Debug, Default)]
pub(super) struct AsIs(u64);

impl Hasher for AsIs {
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

/// Makes tables that take the hash of a key as it is.
pub(super) type Kept = BuildHasherDefault<AsIs>;

/// Hashes data so that equal data has equal hashes, whatever the order of its keys.
fn hash_of(data: &Value, by: &ahash::RandomState, depth: usize) -> u64 {
    let Some(depth) = depth.checked_sub(1) else { return 0 };
    match data {
        Value::Null => 1,
        Value::Bool(no_or_yes) => 2 + u64::from(*no_or_yes),
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

/// Returns whether two values are the same data: the order of keys does not count, nor whether a whole
/// number is written with a point.
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

/// Returns a number that is whole, as one.
fn whole(number: &Number) -> Option<i128> {
    let float = match (number.as_i64(), number.as_u64()) {
        (Some(whole), _) => return Some(whole.into()),
        (_, Some(whole)) => return Some(whole.into()),
        (None, None) => number.as_f64()?,
    };
    // Past this a float cannot tell neighbours apart, and stays as it was written.
    #[expect(clippy::cast_possible_truncation, reason = "whole and small")]
    (float.trunc() == float && float.abs() < 9e15).then_some(float as i128)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::policy::canonical;

    fn asked(arguments: Value) -> Asked {
        Asked {
            tool: ToolName::from("tool"),
            source: "own".into(),
            definition: [0; 32],
            arguments: Arc::new(arguments),
            folder: Path::new("/project").into(),
            scope: ("nobody", "".into()),
        }
    }

    /// A key like no other number's.
    pub(in crate::layers) fn key(n: u8, by: &ahash::RandomState) -> Key {
        Key::new(asked(json!({ "n": n })), by)
    }

    #[test]
    fn every_part_tells_calls_apart() {
        let by = ahash::RandomState::new();
        let key = |change: fn(&mut Asked)| {
            let mut asked = asked(json!({"a": 1}));
            change(&mut asked);
            Key::new(asked, &by)
        };
        let own = key(|_| {});
        assert_eq!(own, key(|_| {}));
        let others: [fn(&mut Asked); 6] = [
            |asked| asked.tool = ToolName::from("other"),
            |asked| asked.source = "other".into(),
            |asked| asked.definition = [1; 32],
            |asked| asked.arguments = Arc::new(json!({"a": 2})),
            |asked| asked.folder = Path::new("/elsewhere").into(),
            |asked| asked.scope = ("user", "".into()),
        ];
        others.into_iter().for_each(|change| assert_ne!(own, key(change)));
    }

    #[test]
    fn how_a_number_is_written_does_not_count_and_depth_has_an_end() {
        let by = ahash::RandomState::new();
        let key = |arguments: Value| Key::new(asked(arguments), &by);
        assert_eq!(key(json!({"a": 1, "b": 2})), key(json!({"b": 2.0, "a": 1.0})));
        assert_ne!(key(json!(u64::MAX)), key(json!(u64::MAX as f64)));
        assert_ne!(key(json!("1")), key(json!(1)));
        let deep = || (0..200).fold(json!(1), |inner, _| json!([inner]));
        assert_ne!(key(deep()), key(deep()), "nobody looked at all of it");
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
        fn keys_are_equal_just_when_the_data_is_written_the_same(one in value(), other in value()) {
            let by = ahash::RandomState::new();
            let is_equal = canonical(&one) == canonical(&other);
            let (one, other) = (Key::new(asked(one), &by), Key::new(asked(other), &by));
            prop_assert_eq!(one == other, is_equal);
            if is_equal {
                prop_assert_eq!(one.hash, other.hash);
            }
        }
    }
}
