//! Computes deferred explanations of invalid arguments: on a blocking thread, until the deadline of
//! the call.
//!
//! In: a failure without an explanation. Out: the failure with as much of it as there was time for.

use std::{sync::Arc, time::Instant};

use haft_core::{Failure, ToolContext};
use haft_schema::{Stop, Unexplained};

use crate::{call::TurnCore, host_code::after};

/// Explains a failure until the timeout or the deadline of its call, or until the call is cancelled.
pub(super) async fn explained(
    turn: &Arc<TurnCore>,
    cx: &ToolContext,
    outer_deadline: Option<Instant>,
    began: Instant,
    failure: Failure,
) -> Failure {
    let Some(unexplained) = Unexplained::of(&failure).cloned() else { return failure };
    let (config, clock) = (&turn.run.inner.config, &turn.run.inner.clock);
    let time = unexplained.timeout.unwrap_or(config.timeout);
    let mut until = after(began, time.min(unexplained.deadline.unwrap_or(config.deadline)));
    if let Some(outer) = outer_deadline {
        until = until.min(outer);
    }
    let work = {
        let (clock, cx) = (Arc::clone(clock), cx.clone());
        move || {
            let is_over = || clock.now() >= until || cx.stop_reason().is_some();
            unexplained.explain(&Stop::when(&is_over))
        }
    };
    let explained = match tokio::runtime::Handle::try_current() {
        // Some steps cannot be stopped in the middle, so the answer does not wait for the thread.
        Ok(executor) => tokio::select! {
            biased;
            done = executor.spawn_blocking(work) => done.ok(),
            () = clock.sleep_until(until) => None,
            () = cx.cancelled() => None,
        },
        Err(_) => Some(work()),
    };
    Unexplained::complete(&failure, explained.as_ref())
}
