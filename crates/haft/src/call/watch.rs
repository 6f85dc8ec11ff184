//! Supervises the policies, checks and hooks of one call: timeout, cancellation, panics caught.

use std::{panic::AssertUnwindSafe, pin::pin, task::Poll, time::Duration};

use futures_util::FutureExt as _;
use haft_core::ToolContext;

use crate::turn::TurnCore;
pub(super) use crate::watch::{Stopped, after, once, within, words};

/// Watches a judge, a check or a hook of one call.
pub(crate) async fn watched<T>(
    turn: &TurnCore,
    cx: &ToolContext,
    limit: Duration,
    work: impl Future<Output = T>,
) -> Result<T, Stopped> {
    let mut work = pin!(AssertUnwindSafe(work).catch_unwind());
    if let Poll::Ready(done) = once(work.as_mut()).await {
        return done.map_err(|panic| Stopped::Panicked(words(panic)));
    }
    let clock = &*turn.inner.clock;
    Box::pin(async {
        tokio::select! {
            biased;
            done = work => done.map_err(|panic| Stopped::Panicked(words(panic))),
            () = cx.cancelled() => Err(Stopped::Cancelled(turn.why_stopped(cx))),
            () = turn.interrupted(cx) => Err(Stopped::Cancelled(turn.why_stopped(cx))),
            () = clock.sleep_until(after(clock.now(), limit)) => Err(Stopped::TimedOut(limit)),
        }
    })
    .await
}
