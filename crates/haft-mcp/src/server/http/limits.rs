//! Who may send a request, and how many: bearer tokens and a rate limit for each caller.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use haft::host::{Clock, RuntimeClock};
use http::{HeaderMap, header::AUTHORIZATION};
use sha2::{Digest, Sha256};

use crate::server::conversation::Principal;

/// The tokens that are accepted, by their hash: comparing hashes reveals nothing about a token.
#[derive(Default)]
pub(super) struct Tokens(HashMap<[u8; 32], Principal>);

impl Tokens {
    pub(super) fn add(&mut self, name: &str, token: &str) {
        self.0.insert(Sha256::digest(token).into(), Principal::new(name));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the caller of a request; `None` if it has no valid token. Without any token every
    /// caller is the local user.
    pub(super) fn caller(&self, headers: &HeaderMap) -> Option<Principal> {
        if self.is_empty() {
            return Some(Principal::default());
        }
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (given.next(), given.next()) else { return None };
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let hash: [u8; 32] = Sha256::digest(token.trim()).into();
        self.0.get(&hash).cloned()
    }
}

/// A token bucket for each caller: at most a second's requests at once.
pub(super) struct RateLimit {
    per_second: f64,
    buckets: Mutex<HashMap<Principal, Bucket>>,
}

struct Bucket {
    left: f64,
    filled: Instant,
}

impl RateLimit {
    pub(super) fn new(per_second: u32) -> Self {
        Self { per_second: f64::from(per_second.max(1)), buckets: Mutex::default() }
    }

    /// Counts a request; fails with the time to wait if there were too many.
    pub(super) fn count(&self, caller: &Principal) -> Result<(), Duration> {
        self.count_at(caller, RuntimeClock.now())
    }

    fn count_at(&self, caller: &Principal, now: Instant) -> Result<(), Duration> {
        // Callers are those of the tokens, so there are few buckets.
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let full = || Bucket { left: self.per_second, filled: now };
        let bucket = buckets.entry(caller.clone()).or_insert_with(full);
        let passed = now.saturating_duration_since(bucket.filled).as_secs_f64();
        bucket.left = (bucket.left + passed * self.per_second).min(self.per_second);
        bucket.filled = now;
        if bucket.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.left) / self.per_second));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn only_one_known_bearer_token_names_a_caller() {
        let mut tokens = Tokens::default();
        assert_eq!(tokens.caller(&headers(&[])), Some(Principal::default()));
        tokens.add("alice", "s3cret");
        tokens.add("bob", "other");
        let alice = Some(Principal::new("alice"));
        assert_eq!(tokens.caller(&headers(&["Bearer s3cret"])), alice);
        assert_eq!(tokens.caller(&headers(&["bearer  s3cret"])), alice);
        for wrong in [
            &[][..],
            &["Bearer"],
            &["Bearer wrong"],
            &["Basic s3cret"],
            &["s3cret"],
            &["Bearer s3cret", "Bearer other"],
        ] {
            assert_eq!(tokens.caller(&headers(wrong)), None, "{wrong:?}");
        }
    }

    #[test]
    fn rate_is_limited_for_each_caller() {
        let limit = RateLimit::new(2);
        let (now, caller) = (RuntimeClock.now(), Principal::default());
        assert!(limit.count_at(&caller, now).is_ok());
        assert!(limit.count_at(&caller, now).is_ok());
        assert_eq!(limit.count_at(&caller, now), Err(Duration::from_millis(500)));
        assert!(limit.count_at(&Principal::new("other"), now).is_ok());
        assert!(limit.count_at(&caller, now + Duration::from_millis(500)).is_ok());
    }
}
