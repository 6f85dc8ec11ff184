//! How a call ended, and statistics of its execution.

use std::{sync::Arc, time::Duration};

use haft_core::{Failure, Output};
use serde::Serialize;

use crate::clock::micros;

/// How a call ended, before it is prepared for the model.
pub type Outcome = Result<Output, Failure>;

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
