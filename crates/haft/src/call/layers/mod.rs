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
mod body_attempt;
mod attempt_span;

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
    time::Instant,
};

use haft_core::{ToolContext, host::CallOverrides};

pub use self::middleware::{Middleware, Next, middleware_fn};
pub(crate) use self::{
    body_attempt::{checked, outcome as outcome_of},
    driver::{Pending, poll_execution},
    machine::ExecuteMachine,
    middleware::{Around, AroundPlace, around},
};
pub(crate) use crate::outcome::{CacheStatus, ExecutionStats, Outcome};
use crate::{
    call::AuthorizedCall, call::TurnCore, config::Config, layer_state::RateLimiter,
    registry::RegisteredTool, text::in_words,
};

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

/// What the layers of all tools share.
#[derive(Debug)]
pub(crate) struct RuntimeLayers {
    cache: Arc<cache::ResultCache>,
    rate: Option<Arc<RateLimiter>>,
    seed: u64,
}

impl RuntimeLayers {
    /// Sets them up. Waits between attempts are spread by the seed; without one, by chance.
    pub(crate) fn new(config: &Config, seed: Option<u64>) -> Self {
        Self {
            cache: Arc::new(cache::ResultCache::new(config.max_cache)),
            rate: config.rate.map(|rate| Arc::new(RateLimiter::new(rate))),
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
