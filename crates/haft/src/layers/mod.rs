//! The layers around the body, in order: middleware, cache, breaker, retry, rate limit, timeout.
//!
//! In: an authorized call. Out: its outcome and statistics. A cache hit skips the inner layers;
//! every attempt has its own rate limit and timeout, and decodes the arguments again from the
//! frozen JSON. `machine` puts them in order; middleware is code of the host around the machine.

mod middleware;
mod next;
mod middleware_timeout;
mod machine;
mod driver;
mod key;
mod cache;
mod breaker;
mod retry;
mod rate;
mod body_attempt;

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
    time::{Duration, Instant},
};

use haft_core::{Failure, Output, ToolContext, ToolSpec, host::CallOverrides};
use serde::Serialize;

pub use self::middleware::{Middleware, Next, middleware_fn};
pub(crate) use self::{
    body_attempt::{checked, outcome as outcome_of},
    driver::{Pending, poll_execution},
    machine::ExecuteMachine,
    middleware::{Around, AroundPlace, around},
};
use crate::{
    call::AuthorizedCall, config::Config, event::micros, registry::RegisteredTool, turn::TurnCore,
};

/// How a call ended, before it is prepared for the model.
pub type Outcome = Result<Output, Failure>;

/// One call inside the layers.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) turn: &'a Arc<TurnCore>,
    pub(crate) permitted: &'a AuthorizedCall,
    pub(crate) entry: &'a Arc<RegisteredTool>,
    /// The call's context, or that of one attempt at it.
    pub(crate) cx: &'a ToolContext,
    /// When the call must have ended: all attempts and waits.
    pub(crate) deadline: Instant,
}

impl<'a> Work<'a> {
    /// Returns what this one call says about its time.
    fn limits(&self) -> Option<&'a CallOverrides> {
        self.permitted.validated().limits()
    }
}

/// Statistics of one call, for its record.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct ExecutionStats {
    /// How often the body was started. 0 for a call that was answered from the cache, or never ran.
    pub attempts: u32,
    /// The result of the cache lookup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheStatus>,
    /// How long it waited between its authorization and its end: for its locks, its rate limit, an
    /// identical call, and backoff.
    #[serde(rename = "waited_us", serialize_with = "micros")]
    pub waited: Duration,
    /// The middleware that answered, if the result does not come from the inner layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<Box<str>>,
}

impl ExecutionStats {
    /// Returns the middleware that answered in place of the tool: nothing of the body ran.
    pub(crate) fn replaced_by(&self) -> Option<Arc<str>> {
        let name = self.answered_by.as_ref().filter(|_| self.attempts == 0)?;
        Some(format!("middleware `{name}`").into())
    }
}

/// The result of the cache lookup of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheStatus {
    /// The result was cached.
    Hit,
    /// An identical call was in flight, and this one waited for it (single-flight).
    Joined,
    /// The result was not cached, so the call computed it.
    Miss,
}

/// What the layers of one tool remember, across all runs and views.
#[derive(Debug)]
pub(crate) struct ToolLayers {
    circuit: Arc<breaker::Circuit>,
    rate: Option<Arc<rate::RateLimiter>>,
}

impl ToolLayers {
    pub(crate) fn of(spec: &ToolSpec) -> Self {
        Self {
            circuit: Arc::default(),
            rate: spec.rate.map(|rate| Arc::new(rate::RateLimiter::new(rate))),
        }
    }
}

/// What the layers of all tools share.
#[derive(Debug)]
pub(crate) struct RuntimeLayers {
    cache: Arc<cache::ResultCache>,
    rate: Option<Arc<rate::RateLimiter>>,
    seed: u64,
}

impl RuntimeLayers {
    /// Sets them up. Waits between attempts are spread by the seed; without one, by chance.
    pub(crate) fn new(config: &Config, seed: Option<u64>) -> Self {
        Self {
            cache: Arc::new(cache::ResultCache::new(config.max_cache)),
            rate: config.rate.map(|rate| Arc::new(rate::RateLimiter::new(rate))),
            seed: seed.unwrap_or_else(|| RandomState::new().hash_one(0)),
        }
    }

    /// Returns a number from 0 to 1 for one attempt at one call: always the same, and different for
    /// each attempt.
    fn chance(&self, cx: &ToolContext, attempt: u32) -> f64 {
        let ids = [cx.run_id().as_str(), cx.call_id().as_str()];
        let mut mixed = mix(self.seed ^ u64::from(attempt));
        for byte in ids.iter().flat_map(|id| id.bytes().chain([0xff])) {
            mixed = mix(mixed ^ u64::from(byte));
        }
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit exactly")]
        let part = (mixed >> 11) as f64;
        part / (1_u64 << 53) as f64
    }
}

/// Spreads the bits of a number over all of it.
fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// Describes the layers around the body of a tool, outermost first. The caller adds the middleware
/// of the host.
pub(crate) fn listed(entry: &RegisteredTool, config: &Config) -> Vec<String> {
    let spec = entry.spec();
    let mut all = Vec::new();
    if let Some(cache) = &spec.cache {
        let ttl = in_words(cache.ttl);
        let shared = match cache.scope.as_deref() {
            Some(word @ ("user" | "session" | "run" | "agent")) => format!("for one {word}"),
            Some(name) => format!("for all, as `{name}`"),
            None if cache::is_per_run(spec) => "for one run".to_owned(),
            None => "for one user".to_owned(),
        };
        all.push(format!("cache: {ttl}, {shared}"));
    }
    if let Some(breaker) = &config.breaker {
        let time = in_words(breaker.cooldown);
        all.push(format!("breaker: {time} after {} failures within that time", breaker.failures));
    }
    let tool_or_runtime = |is_own: bool| if is_own { "" } else { " (the runtime's)" };
    if let Some(retry) = spec.retry.as_ref().or(config.retry.as_ref()) {
        let whose = tool_or_runtime(spec.retry.is_some());
        all.push(format!("retry: {} attempts in all{whose}", retry.max_attempts));
    }
    all.extend(config.rate.map(|rate| format!("rate: {rate} for all tools together")));
    all.extend(spec.rate.map(|rate| format!("rate: {rate}")));
    let time = in_words(spec.timeout.unwrap_or(config.timeout));
    all.push(format!("timeout: {time}{}", tool_or_runtime(spec.timeout.is_some())));
    all
}

/// Writes a time as people say it: whole units where it has them, and never less than it is.
pub(crate) fn in_words(time: Duration) -> String {
    let millis = time.as_nanos().div_ceil(1_000_000);
    let units = [(86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second")];
    for (unit, word) in units {
        if millis >= unit && millis.is_multiple_of(unit) {
            let plural = if millis == unit { "" } else { "s" };
            return format!("{} {word}{plural}", millis / unit);
        }
    }
    match millis {
        0..10_000 => format!("{millis} ms"),
        _ => format!("{} seconds", millis.div_ceil(1_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_people_say_them() {
        let of = |millis| in_words(Duration::from_millis(millis));
        assert_eq!(
            [0, 1, 999, 1_000, 1_500, 60_000, 90_000, 12_345, 7_200_000, 86_400_000].map(of),
            [
                "0 ms",
                "1 ms",
                "999 ms",
                "1 second",
                "1500 ms",
                "1 minute",
                "90 seconds",
                "13 seconds",
                "2 hours",
                "1 day"
            ]
        );
        assert_eq!(in_words(Duration::from_nanos(1)), "1 ms", "never less than it is");
        assert!(in_words(Duration::MAX).ends_with("seconds"));
    }
}
