//! A fast hasher for maps whose keys a model may choose.
//!
//! INVARIANT: its seeds are random for each process and each map, from the source that the standard
//! library uses, so that keys cannot be chosen to collide (hash flooding).

use std::{
    hash::{BuildHasher, RandomState as StandardState},
    sync::LazyLock,
};

use foldhash::{
    SharedSeed,
    quality::{FoldHasher, SeedableRandomState},
};

/// Builds hashers with random seeds, at half the cost of the standard library's.
///
/// ```
/// use std::collections::HashMap;
/// use haft_core::host::RandomState;
///
/// let mut counts: HashMap<&str, u32, RandomState> = HashMap::default();
/// *counts.entry("read_file").or_default() += 1;
/// assert_eq!(counts["read_file"], 1);
/// ```
#[derive(Debug, Clone)]
pub struct RandomState(SeedableRandomState);

impl Default for RandomState {
    fn default() -> Self {
        static SHARED: LazyLock<SharedSeed> = LazyLock::new(|| SharedSeed::from_u64(random()));
        Self(SeedableRandomState::with_seed(random(), &SHARED))
    }
}

impl BuildHasher for RandomState {
    type Hasher = FoldHasher<'static>;

    #[inline]
    fn build_hasher(&self) -> Self::Hasher {
        self.0.build_hasher()
    }
}

/// A number that cannot be guessed: the standard library takes its key from the operating system.
fn random() -> u64 {
    StandardState::new().hash_one(0_u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_map_has_seeds_of_its_own() {
        let (one, two) = (RandomState::default(), RandomState::default());
        assert_eq!(one.hash_one("a"), one.clone().hash_one("a"));
        let differs = |n: u32| one.hash_one(n) != two.hash_one(n);
        assert!((0..100).all(differs));
    }
}
