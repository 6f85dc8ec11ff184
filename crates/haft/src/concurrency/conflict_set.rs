//! A set of profiles that answers "may this call run at the same time as all of them?".
//!
//! It answers what comparing with each profile would answer, but it counts the profiles by kind and
//! keeps their keys in sorted sets. A query, an addition and a removal cost O(keys · log n). Pure.

use haft_core::{CallProfile, ConcurrencyClass};

use super::key_set::KeySet;

/// Profiles of calls, counted.
#[derive(Debug, Default)]
pub(crate) struct ConflictSet {
    /// Calls that run alone: unsafe ones, and writers without keys.
    alone: usize,
    readers_without_keys: usize,
    keyed_readers: usize,
    keyed_writers: usize,
    read: KeySet,
    written: KeySet,
}

enum Kind {
    Alone,
    Reader,
    KeyedReader,
    KeyedWriter,
}

fn kind(profile: &CallProfile) -> Kind {
    match (profile.class, profile.keys.is_empty()) {
        (ConcurrencyClass::Unsafe, _) | (ConcurrencyClass::WriteExclusive, true) => Kind::Alone,
        (ConcurrencyClass::ReadOnly, true) => Kind::Reader,
        (ConcurrencyClass::ReadOnly, false) => Kind::KeyedReader,
        (ConcurrencyClass::WriteExclusive, false) => Kind::KeyedWriter,
    }
}

impl ConflictSet {
    pub(crate) fn add(&mut self, profile: &CallProfile) {
        match kind(profile) {
            Kind::Alone => self.alone += 1,
            Kind::Reader => self.readers_without_keys += 1,
            Kind::KeyedReader => {
                self.keyed_readers += 1;
                profile.keys.iter().for_each(|key| self.read.insert(key));
            }
            Kind::KeyedWriter => {
                self.keyed_writers += 1;
                profile.keys.iter().for_each(|key| self.written.insert(key));
            }
        }
    }

    /// Removes a profile that was added.
    pub(crate) fn remove(&mut self, profile: &CallProfile) {
        match kind(profile) {
            Kind::Alone => self.alone -= 1,
            Kind::Reader => self.readers_without_keys -= 1,
            Kind::KeyedReader => {
                self.keyed_readers -= 1;
                profile.keys.iter().for_each(|key| self.read.remove(key));
            }
            Kind::KeyedWriter => {
                self.keyed_writers -= 1;
                profile.keys.iter().for_each(|key| self.written.remove(key));
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.alone + self.readers_without_keys + self.keyed_readers + self.keyed_writers == 0
    }

    /// Returns whether a call must not run at the same time as one of these.
    pub(crate) fn conflicts(&self, profile: &CallProfile) -> bool {
        let meets = |keys: &KeySet| profile.keys.iter().any(|key| keys.conflicts(key));
        match kind(profile) {
            Kind::Alone => !self.is_empty(),
            Kind::Reader => self.alone + self.keyed_writers > 0,
            Kind::KeyedReader => self.alone > 0 || meets(&self.written),
            Kind::KeyedWriter => {
                self.alone + self.readers_without_keys > 0
                    || meets(&self.written)
                    || meets(&self.read)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use haft_core::ResourceKey;
    use proptest::prelude::*;

    use super::*;

    fn profile() -> impl Strategy<Value = CallProfile> {
        let class = prop_oneof![
            Just(ConcurrencyClass::ReadOnly),
            Just(ConcurrencyClass::WriteExclusive),
            Just(ConcurrencyClass::Unsafe)
        ];
        let keys = proptest::collection::vec("f:(/[ab]{1}){1,2}", 0..3);
        (class, keys).prop_map(|(class, keys)| CallProfile {
            class,
            keys: keys.iter().map(ResourceKey::new).collect(),
            ..CallProfile::strictest()
        })
    }

    proptest! {
        #[test]
        fn conflicts_are_those_of_the_pairs(
            held in proptest::collection::vec((profile(), any::<bool>()), 0..6),
            call in profile(),
        ) {
            let mut set = ConflictSet::default();
            held.iter().for_each(|(profile, _)| set.add(profile));
            held.iter().filter(|(_, leaves)| *leaves).for_each(|(profile, _)| set.remove(profile));
            let left: Vec<_> = held.iter().filter(|(_, leaves)| !leaves).collect();
            let expected = left.iter().any(|(other, _)| !other.can_run_concurrently_with(&call));
            prop_assert_eq!(set.conflicts(&call), expected);
            prop_assert_eq!(set.is_empty(), left.is_empty());
        }
    }
}
