//! A set of resource keys that answers "does this key conflict with one of them?".
//!
//! A key conflicts with itself, with every key above it and with every key below it. Keys are
//! sorted, so those below are one range; those above are looked up one path component at a time.
//! A query costs O(depth · log n) and allocates at most once. Pure.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
};

use haft_core::ResourceKey;

/// Resource keys, each with the number of its holders.
#[derive(Debug, Default)]
pub(crate) struct KeySet(BTreeMap<ResourceKey, usize>);

impl KeySet {
    /// Adds a key. The same key may be added several times.
    pub(crate) fn insert(&mut self, key: &ResourceKey) {
        *self.0.entry(key.clone()).or_insert(0) += 1;
    }

    /// Removes a key once.
    pub(crate) fn remove(&mut self, key: &ResourceKey) {
        if let Some(holders) = self.0.get_mut(key.as_str()) {
            *holders -= 1;
            if *holders == 0 {
                self.0.remove(key.as_str());
            }
        }
    }

    /// Returns whether the key conflicts with one in the set.
    pub(crate) fn conflicts(&self, key: &ResourceKey) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let key = key.as_str();
        self.0.contains_key(key) || self.contains_above(key) || self.contains_below(key)
    }

    /// `file:/a/b` is below `file:/a` and `file:/`.
    fn contains_above(&self, key: &str) -> bool {
        let mut above = key;
        while let Some(at) = above.rfind('/') {
            let is_root = above[..at].ends_with(':');
            let end = if is_root { at + 1 } else { at };
            if end < key.len() && self.0.contains_key(&above[..end]) {
                return true;
            }
            if is_root {
                return false;
            }
            above = &above[..at];
        }
        false
    }

    fn contains_below(&self, key: &str) -> bool {
        let below = if key.ends_with('/') { key.to_owned() } else { [key, "/"].concat() };
        let mut after = self.0.range::<str, _>((Excluded(below.as_str()), Unbounded));
        after.next().is_some_and(|(next, _)| next.as_str().starts_with(&below))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn conflicts_are_those_of_the_pairs(
            held in proptest::collection::vec("(f|t):(/[ab]{0,2}){0,3}", 0..6),
            key in "(f|t):(/[ab]{0,2}){0,3}",
        ) {
            let key = ResourceKey::new(key);
            let held: Vec<ResourceKey> = held.iter().map(ResourceKey::new).collect();
            let mut set = KeySet::default();
            held.iter().for_each(|key| set.insert(key));
            prop_assert_eq!(set.conflicts(&key), held.iter().any(|other| other.meets(&key)));
        }
    }
}
