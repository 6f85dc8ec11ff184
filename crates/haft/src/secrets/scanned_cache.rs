//! A cache of strings that contain no secret. Rules use the same strings for every call, so each is
//! scanned once.
//!
//! INVARIANT: the cache is keyed by string address. It holds a reference to each string, so an
//! address cannot be reused while its entry exists. Any change of the secrets invalidates the
//! cache.

use std::sync::{Mutex, MutexGuard};

use haft_core::{SharedStr, sync::lock};

/// Number of cached strings; few rules decide most calls.
const MAX_CACHED: usize = 16;
/// Longer strings are scanned each time, to keep the cache small.
const MAX_STRING_BYTES: usize = 1_024;

/// Strings that contain no secret.
#[derive(Debug, Default)]
pub(super) struct ScannedCache(Mutex<Scanned>);

#[derive(Debug, Default)]
struct Scanned {
    /// The version of the secrets at that time.
    version: u64,
    words: Vec<SharedStr>,
    /// Which entry is replaced next.
    next: usize,
}

impl ScannedCache {
    /// Returns whether this string was scanned with this version of the secrets.
    pub(super) fn has(&self, words: &SharedStr, version: u64) -> bool {
        let scanned = self.lock();
        scanned.version == version && scanned.words.iter().any(|known| known.is(words))
    }

    /// Caches a string that was scanned with this version of the secrets.
    pub(super) fn remember(&self, words: &SharedStr, version: u64) {
        if words.len() > MAX_STRING_BYTES {
            return;
        }
        let mut scanned = self.lock();
        if scanned.version != version {
            *scanned = Scanned { version, ..Scanned::default() };
        }
        let at = scanned.next % MAX_CACHED;
        match scanned.words.get_mut(at) {
            Some(old) => *old = words.clone(),
            None => scanned.words.push(words.clone()),
        }
        scanned.next = at + 1;
    }

    fn lock(&self) -> MutexGuard<'_, Scanned> {
        lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_cached_by_address_until_the_secrets_change() {
        let clean = ScannedCache::default();
        let words = SharedStr::from("said often".to_owned());
        clean.remember(&words, 1);
        assert!(clean.has(&words, 1) && clean.has(&words.clone(), 1));
        assert!(!clean.has(&SharedStr::from("said often".to_owned()), 1), "equal, and elsewhere");
        assert!(!clean.has(&words, 2));
        clean.remember(&SharedStr::from("other"), 2);
        assert!(!clean.has(&words, 2) && !clean.has(&words, 1), "all of it is void");
    }

    #[test]
    fn cache_size_is_bounded() {
        let clean = ScannedCache::default();
        let all: Vec<SharedStr> =
            (0..3 * MAX_CACHED).map(|n| SharedStr::from(n.to_string())).collect();
        all.iter().for_each(|words| clean.remember(words, 0));
        assert_eq!(all.iter().filter(|words| clean.has(words, 0)).count(), MAX_CACHED);
        assert!(
            all.iter().rev().take(MAX_CACHED).all(|words| clean.has(words, 0)),
            "the last stay"
        );
        let long = SharedStr::from("x".repeat(MAX_STRING_BYTES + 1));
        clean.remember(&long, 0);
        assert!(!clean.has(&long, 0));
    }
}
