//! Code of the host around whole calls: it may skip, wrap or replace the outcome.
//!
//! A middleware sees the call as it was permitted and cannot change its arguments. `Next` is used up
//! by running it, so that a body runs at most once for each time the call was permitted.

use std::{fmt, time::Duration};

use haft_core::{Args, BoxFuture};

use super::{Course, Outcome, Work, inside};
use crate::lifecycle::Permitted;

/// Code around whole calls.
pub trait Middleware: Send + Sync + 'static {
    /// Returns its name, for people.
    fn name(&self) -> &str;

    /// Returns how long it may take beyond what it waits for the rest; nothing for the runtime's own.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Performs the call, or does not.
    fn call<'a>(&'a self, call: &'a Permitted, next: Next<'a>) -> BoxFuture<'a, Outcome>;
}

/// One middleware and the tools it stands around.
pub(crate) struct Around {
    pub(crate) middleware: Box<dyn Middleware>,
    /// All tools, or those whose name fits.
    pub(crate) tools: Option<String>,
}

/// The rest of the way to the body.
#[must_use = "the body runs only when this is run"]
pub struct Next<'a> {
    rest: &'a [Around],
    work: &'a Work<'a>,
    first: Args,
    course: &'a mut Course,
}

impl<'a> Next<'a> {
    /// Goes on to the body.
    pub fn run(self) -> BoxFuture<'a, Outcome> {
        match self.rest.split_first() {
            None => Box::pin(inside(self.work, self.first, self.course)),
            Some((outer, rest)) => {
                let next = Next { rest, ..self };
                outer.middleware.call(next.work.permitted, next)
            }
        }
    }
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("outer", &self.rest.len()).finish_non_exhaustive()
    }
}

/// Takes a call through all middleware.
pub(super) async fn around(work: &Work<'_>, first: Args, course: &mut Course) -> Outcome {
    Next { rest: &work.turn.inner.middleware, work, first, course }.run().await
}
