//! One attempt at the body: timeout, cancellation, panics caught.
//!
//! Cancellation is cooperative first: the token is cancelled, the body has a grace period to end by
//! itself, and only then is it dropped. A blocking body cannot be dropped; if it still runs, its
//! outcome is unknown.
//!
//! INVARIANT: `cancelled` and `timed_out` are reported only if the end of the body was observed.
//! INVARIANT: a result that comes after the timeout or the deadline is never a success.

use std::{
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    task::Poll,
};

use futures_util::FutureExt as _;
use haft_core::{Args, Execution, Failure, FailureCode, Interrupt, Output, host::HostContext};

use super::{Outcome, Work};
use crate::{
    registry::RegisteredTool,
    telemetry,
    watch::{after, once, timed, words},
};

type Ended = std::thread::Result<Outcome>;

/// How an attempt at the body came to an end.
enum Attempt {
    /// By itself.
    Ended(Ended),
    /// By itself, but only after it was asked to stop.
    Yielded(Ended, Failure),
    /// Not at all, as far as we could see; the future is dropped.
    GivenUp(Failure),
}

/// Makes one attempt, in a span of its own if there is a subscriber.
pub(super) async fn attempt(work: &Work<'_>, args: Args) -> Outcome {
    if telemetry::is_watched(work) {
        return Box::pin(telemetry::watched(work, made(work, args))).await;
    }
    made(work, args).await
}

/// Makes one attempt.
pub(super) async fn made(work: &Work<'_>, args: Args) -> Outcome {
    let Work { turn, entry, cx, .. } = work;
    let attempt = {
        // Making the future runs the author's code too, so it happens under the watch.
        let body = async { entry.body().call(args, cx).await };
        let mut body = pin!(AssertUnwindSafe(body).catch_unwind());
        // Dropped right after, so that queued blocking work is withdrawn before anyone asks whether
        // some still runs.
        tried(work, body.as_mut()).await
    };
    match attempt {
        // A body that ends in an error because it was cancelled is cancelled, not failed.
        Attempt::Ended(ended @ (Ok(Err(_)) | Err(_))) if cx.is_cancelled() => {
            stopped(outcome(ended), turn.why_stopped(cx))
        }
        Attempt::Ended(ended) => outcome(ended).and_then(|output| result(work, output)),
        // A limit that a late result passes is none.
        Attempt::Yielded(Ok(Ok(_)), stop) if is_late(&stop) => Err(finished_late(stop)),
        // It ended well after all: what is known is worth more than what was intended.
        Attempt::Yielded(Ok(Ok(output)), _) => result(work, output),
        Attempt::Yielded(ended, stop) => stopped(outcome(ended), stop),
        // An async body does nothing more once it is dropped.
        Attempt::GivenUp(stop) => Err(stop.with_execution(Execution::Completed)),
    }
}

/// The failure of a body that ended after it was cancelled. An unknown outcome stays unknown.
fn stopped(ended: Outcome, stop: Failure) -> Outcome {
    match ended {
        Err(own) if own.execution() == Execution::Unknown => Err(own),
        Err(own) => Err(stop.with_execution(Execution::Completed).with_source(own.to_string())),
        Ok(_) => Err(stop.with_execution(Execution::Completed)),
    }
}

/// Polls the body to its end, or asks it to stop and waits a moment.
async fn tried(work: &Work<'_>, mut body: Pin<&mut impl Future<Output = Ended>>) -> Attempt {
    if let Poll::Ready(ended) = once(body.as_mut()).await {
        return Attempt::Ended(ended);
    }
    // Boxed: most bodies are ready at once, and their future should not contain the wait.
    Box::pin(async {
        let Work { turn, entry, cx, deadline, .. } = work;
        let clock = &*turn.inner.clock;
        let yields = yields_to_interrupt(work);
        let own = work.limits().and_then(|limits| limits.timeout);
        let limit = own.or(entry.spec().timeout).unwrap_or(turn.inner.config.timeout);
        let timeout = after(clock.now(), limit);
        let stop = tokio::select! {
            biased;
            ended = body.as_mut() => return Attempt::Ended(ended),
            () = cx.cancelled() => turn.why_stopped(cx),
            () = turn.interrupted(cx), if yields => turn.why_stopped(cx),
            never = turn.telling(cx) => match never {},
            () = clock.sleep_until(timeout.min(*deadline)) => late(timeout <= *deadline),
        };
        turn.stop_body(cx, stop.code(), stop.message());
        // A body that waits for a nested call resumes only after the grace period of that call.
        let moments = if cx.nested_calls() > 0 { 2 } else { 1 };
        match timed(clock, turn.inner.config.grace * moments, body.as_mut()).await {
            Some(ended) => Attempt::Yielded(ended, stop),
            None => Attempt::GivenUp(stop),
        }
    })
    .await
}

fn late(by_timeout: bool) -> Failure {
    if by_timeout {
        Failure::new(FailureCode::TimedOut, "the tool timed out and was cancelled")
            .with_next("request less at once, or try again later")
    } else {
        Failure::new(
            FailureCode::DeadlinePassed,
            "the deadline of the call passed and it was cancelled",
        )
    }
}

fn is_late(stop: &Failure) -> bool {
    matches!(stop.code(), FailureCode::TimedOut | FailureCode::DeadlinePassed)
}

/// The failure of a body that did all its work, but only after its time was over.
fn finished_late(stop: Failure) -> Failure {
    let message = "the tool finished after its timeout; the result is discarded";
    Failure::new(stop.code(), message)
        .with_next("check what it did before you repeat it; request less at once")
        .with_execution(Execution::Completed)
        .with_source("the body completed within the grace period after its time was over")
}

pub(crate) fn outcome(ended: Ended) -> Outcome {
    match ended {
        Ok(outcome) => outcome,
        // The words of a panic may hold anything; they are for the operator.
        Err(panic) => Err(Failure::new(FailureCode::Panicked, "the tool panicked")
            .with_next("do not repeat the same call; tell the user if you need it")
            .with_source(words(panic))),
    }
}

/// Checks a result, unless it is a ticket: then what comes later is checked.
fn result(work: &Work<'_>, output: Output) -> Outcome {
    if work.entry.output().is_some() && work.cx.has_background_task() {
        return Ok(output);
    }
    checked(work.entry, output)
}

/// Checks structured output against the schema it was declared with.
pub(crate) fn checked(entry: &RegisteredTool, output: Output) -> Outcome {
    let Some(schema) = entry.output() else { return Ok(output) };
    let wrong = |why: String| {
        Failure::new(FailureCode::BadOutput, "the tool's result does not match its output schema")
            .with_source(why)
    };
    let problem = match &output.structured {
        None => Some("no structured data".to_owned()),
        Some(data) => schema.first_problem_at_once(data),
    };
    match problem {
        Some(problem) => Err(wrong(problem)),
        None => Ok(output),
    }
}

/// Whether an interrupt of the turn stops this call once it runs.
pub(super) fn yields_to_interrupt(work: &Work<'_>) -> bool {
    let class = work.permitted.admitted().profile().class;
    work.entry.spec().interrupt_of(class) == Interrupt::Cancel
}
