//! Supervises one middleware: panics caught, timeout, cancellation.
//!
//! Its timeout is paused while the inner layers run. If the call is cancelled or times out, the
//! outer layer cancels the body; the middleware then has a grace period to pass on the outcome.

use std::{
    future::poll_fn,
    panic::AssertUnwindSafe,
    pin::pin,
    task::Poll,
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use haft_core::{BoxFuture, Failure, FailureCode};

use super::{Outcome, Work, body_attempt::yields_to_interrupt, next::Frame};
use crate::host_code::{after, once};

/// What came of a middleware.
pub(super) enum Said {
    /// It ended by itself, or panicked.
    Ended(std::thread::Result<Outcome>),
    /// Its own time ran out.
    Late,
    /// The call was stopped, and it did not end.
    Stopped(Failure),
}

/// So many moments a middleware has while the body it waits for is being stopped: a body that has
/// nested calls takes two.
const MOMENTS: u32 = 3;

/// Watches a middleware. It is dropped when this returns.
pub(super) async fn watched(
    work: &Work<'_>,
    frame: &Frame<'_>,
    limit: Duration,
    call: impl Future<Output = Outcome> + Send,
) -> Said {
    let mut call = pin!(AssertUnwindSafe(call).catch_unwind());
    if let Poll::Ready(ended) = once(call.as_mut()).await {
        return Said::Ended(ended);
    }
    let (clock, grace) = (&*work.turn.run.inner.clock, work.turn.run.inner.config.grace);
    let mut stop = pin!(stopped(work));
    let mut stopping: Option<(Failure, Instant)> = None;
    let mut timer: Option<(Instant, BoxFuture<'static, ()>)> = None;
    poll_fn(move |task| {
        if let Poll::Ready(ended) = call.as_mut().poll(task) {
            return Poll::Ready(Said::Ended(ended));
        }
        if stopping.is_none()
            && let Poll::Ready(failure) = stop.as_mut().poll(task)
        {
            stopping = Some((failure, clock.now()));
        }
        // While the rest is under way nothing is due, unless the call is being stopped: then a
        // middleware that does not even look at it any more is not waited for.
        let own = frame.ends_at(limit);
        let due = match (&stopping, own) {
            (None, None) => return Poll::Pending,
            (None, Some(own)) => own,
            (Some((_, since)), None) => after(*since, grace * MOMENTS),
            (Some((_, since)), Some(own)) => {
                let back = frame.outside_since().map_or(*since, |back| back.max(*since));
                own.min(after(back, grace))
            }
        };
        if timer.as_ref().is_none_or(|(at, _)| *at != due) {
            timer = Some((due, clock.sleep_until(due)));
        }
        let Some((_, sleep)) = &mut timer else { return Poll::Pending };
        if sleep.as_mut().poll(task).is_pending() {
            return Poll::Pending;
        }
        Poll::Ready(match stopping.take() {
            Some((failure, _)) => Said::Stopped(failure),
            None => Said::Late,
        })
    })
    .await
}

/// Waits until the call is to stop, and says why.
async fn stopped(work: &Work<'_>) -> Failure {
    let Work { turn, cx, deadline, .. } = work;
    tokio::select! {
        biased;
        () = cx.cancelled() => turn.why_stopped(cx),
        () = turn.interrupted(cx), if yields_to_interrupt(work) => turn.why_stopped(cx),
        () = turn.run.inner.clock.sleep_until(*deadline) => {
            let late = "the deadline of the call passed and it was cancelled";
            turn.stop_body(cx, FailureCode::DeadlinePassed, late);
            Failure::new(FailureCode::DeadlinePassed, late)
        }
    }
}
