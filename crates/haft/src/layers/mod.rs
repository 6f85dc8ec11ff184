//! What stands around the body, in one order: middleware, cache, breaker, retry, rate, timeout.
//!
//! In: a permitted call. Out: its outcome, and what happened on the way. A hit in the cache costs
//! nothing further in; every attempt pays its own rate and its own time, and decodes a fresh
//! instance from the frozen JSON. Most calls need none of this but the last layer, and do not carry
//! the room for the rest.

mod middleware;
mod frame;
mod own_time;
mod cache;
mod breaker;
mod retry;
mod rate;
mod timeout;
#[cfg(feature = "tower")]
pub mod tower;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use haft_core::{Args, Context, Failure, Output};
use serde::Serialize;

pub(crate) use self::middleware::{Around, AroundPlace};
pub use self::middleware::{Middleware, Next, middleware_fn};
pub(crate) use self::timeout::{checked, outcome as outcome_of};
use crate::{catalog::Entry, lifecycle::Permitted, turn::TurnCore};

/// How a call ended, before it is made fit to be shown.
pub type Outcome = Result<Output, Failure>;

/// The call on its way in.
pub(crate) struct Work<'a> {
    pub(crate) turn: &'a TurnCore,
    pub(crate) permitted: &'a Permitted,
    pub(crate) entry: &'a Arc<Entry>,
    pub(crate) cx: &'a Context,
    /// When the call must have ended: all attempts and waits.
    pub(crate) deadline: Instant,
}

/// What happened to a call on its way, for its record.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Course {
    /// How often the body was begun. None for a call that was answered from the cache, or never ran.
    pub attempts: u32,
    /// What the cache had to do with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheUse>,
    /// How long it waited between its permission and its end: for its place, for its rate, between
    /// attempts.
    pub waited: Duration,
    /// The middleware whose answer this is, where it is not what came back from the rest of the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<Box<str>>,
}

impl Course {
    /// Returns the middleware that answered in place of the tool: nothing of the body ran.
    pub(crate) fn instead_by(&self) -> Option<Arc<str>> {
        let name = self.answered_by.as_ref().filter(|_| self.attempts == 0)?;
        Some(format!("middleware `{name}`").into())
    }
}

/// What the cache had to do with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheUse {
    /// The answer was there.
    Hit,
    /// Another call was making the same answer, and this one waited for it.
    Joined,
    /// The answer was not there; the body ran.
    Miss,
}

/// Lets a call through all layers to its body.
pub(crate) async fn through(work: &Work<'_>, first: Args, course: &mut Course) -> Outcome {
    let middleware = &work.turn.inner.middleware;
    if middleware.is_empty() || !middleware.iter().any(|own| own.applies_to(work.entry)) {
        return inside(work, first, course).await;
    }
    Box::pin(middleware::around(work, first, course)).await
}

/// Lets a call through everything inside the middleware.
async fn inside(work: &Work<'_>, first: Args, course: &mut Course) -> Outcome {
    course.attempts += 1;
    timeout::attempt(work, first).await
}
