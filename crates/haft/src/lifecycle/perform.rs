//! Runs the body of a permitted call, and stops it if it must be stopped.
//!
//! In: a `Permitted`, a journaled `Intent`, the place on the floor. Out: the outcome. Stopping is
//! asking first: the token is cancelled, the body has a moment to end by itself, and only then is
//! it dropped. A blocking body cannot be dropped; if it still runs, nobody knows how it will end.
//!
//! INVARIANT: `cancelled` and `timed_out` are said only when the end of the body was observed.

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc, task::Poll};

use futures_util::FutureExt as _;
use haft_core::{Args, Code, Context, Failure, Output, Ran};
use tokio::time::Instant;

use super::{
    permit::Permitted,
    watch::{after, once, words},
    yields_to_interrupt,
};
use crate::{
    catalog::Entry,
    journal::Intent,
    turn::{Parts, TurnCore, gate::Entered},
};

type Ended = std::thread::Result<Result<Output, Failure>>;

/// How an attempt at the body came to an end.
enum Attempt {
    /// By itself.
    Ended(Ended),
    /// By itself, but only after it was asked to stop.
    Yielded(Ended, Failure),
    /// Not at all, as far as we could see; the future is dropped.
    GivenUp(Failure),
}

/// Runs the body. A plain function, so that the future holds only what the body needs.
pub(super) fn perform<'a>(
    turn: &'a TurnCore,
    permitted: Permitted,
    _intent: Intent,
    entered: Entered<'a>,
    deadline: Instant,
) -> impl Future<Output = Result<Output, Failure>> + Send + 'a {
    let admitted = permitted.into_admitted();
    let yields = yields_to_interrupt(&admitted);
    let Parts { entry, args, claim, cx, .. } = admitted.into_parts();
    cx.set_claim(claim);
    work(turn, entry, args, cx, yields, entered, deadline)
}

async fn work(
    turn: &TurnCore,
    entry: Arc<Entry>,
    args: Args,
    cx: Context,
    yields: bool,
    entered: Entered<'_>,
    deadline: Instant,
) -> Result<Output, Failure> {
    // Making the future runs the author's code too, so it happens under the watch.
    let body = async { entry.body().call(args, &cx).await };
    let outcome = match attempt(turn, &entry, &cx, yields, deadline, body).await {
        // A body that ends in an error because it was told to stop is stopped, not failed.
        Attempt::Ended(ended @ (Ok(Err(_)) | Err(_))) if cx.is_cancelled() => {
            stopped(outcome(ended), turn.why_stopped(&cx))
        }
        Attempt::Ended(ended) => checked(&entry, outcome(ended)),
        // It ended well after all: what is known is worth more than what was intended.
        Attempt::Yielded(Ok(Ok(output)), _) => checked(&entry, Ok(output)),
        Attempt::Yielded(ended, stop) => stopped(outcome(ended), stop),
        // An async body does nothing more once it is dropped.
        Attempt::GivenUp(stop) => Err(stop.with_ran(Ran::Yes)),
    };
    // Dropping this lets go of the place, unless some work of the call still lives.
    let still_working = cx.is_busy();
    drop(entered);
    outcome.map_err(|failure| match failure.ran() {
        _ if still_working => Failure::new(
            Code::UnknownOutcome,
            "the tool did not end when it was told to, and may still be working",
        )
        .with_next("find out what happened before you do it again")
        .with_source(failure.to_string()),
        // The body ran, whatever the failure it passes on says of a nested call.
        Ran::No => failure.with_ran(Ran::Yes),
        Ran::Yes | Ran::Unknown => failure,
    })
}

/// The failure of a body that ended after it was told to stop. What nobody knows stays unknown.
fn stopped(ended: Result<Output, Failure>, stop: Failure) -> Result<Output, Failure> {
    match ended {
        Err(own) if own.ran() == Ran::Unknown => Err(own),
        Err(own) => Err(stop.with_ran(Ran::Yes).with_source(own.to_string())),
        Ok(_) => Err(stop.with_ran(Ran::Yes)),
    }
}

/// Polls the body to its end, or asks it to stop and waits a moment. The body is dropped when this
/// returns, so that queued blocking work is withdrawn before anyone asks whether some still runs.
async fn attempt(
    turn: &TurnCore,
    entry: &Entry,
    cx: &Context,
    yields: bool,
    deadline: Instant,
    body: impl Future<Output = Result<Output, Failure>>,
) -> Attempt {
    let mut body = pin!(AssertUnwindSafe(body).catch_unwind());
    if let Poll::Ready(ended) = once(body.as_mut()).await {
        return Attempt::Ended(ended);
    }
    // Boxed: a body that is ready at once, as most are, should not carry room for the wait.
    Box::pin(async {
        let limit = entry.spec().timeout.unwrap_or(turn.inner.config.timeout);
        let timeout = after(Instant::now(), limit);
        let stop = tokio::select! {
            biased;
            ended = body.as_mut() => return Attempt::Ended(ended),
            () = cx.cancelled() => turn.why_stopped(cx),
            () = turn.interrupted(cx), if yields => turn.why_stopped(cx),
            () = tokio::time::sleep_until(timeout.min(deadline)) => late(timeout <= deadline),
        };
        turn.stop_body(cx, stop.code(), stop.message());
        // A body that waits for a nested call hears of its end only after that call's own moment.
        let moments = if cx.nested_calls() > 0 { 2 } else { 1 };
        match tokio::time::timeout(turn.inner.config.grace * moments, body.as_mut()).await {
            Ok(ended) => Attempt::Yielded(ended, stop),
            Err(_) => Attempt::GivenUp(stop),
        }
    })
    .await
}

fn late(by_timeout: bool) -> Failure {
    if by_timeout {
        Failure::new(Code::TimedOut, "the tool took too long and was stopped")
            .with_next("ask for less at once, or try again later")
    } else {
        Failure::new(Code::DeadlinePassed, "the call's time ran out and it was stopped")
    }
}

fn outcome(ended: Ended) -> Result<Output, Failure> {
    match ended {
        Ok(outcome) => outcome,
        // The words of a panic may hold anything; they are for the operator.
        Err(panic) => Err(Failure::new(Code::Panicked, "the tool broke while it ran")
            .with_next("do not repeat the same call; tell the user if you need it")
            .with_source(words(panic))),
    }
}

/// Checks structured output against the schema it was declared with.
fn checked(entry: &Entry, outcome: Result<Output, Failure>) -> Result<Output, Failure> {
    let output = outcome?;
    let Some(schema) = entry.output() else { return Ok(output) };
    let wrong = |why: String| {
        Failure::new(Code::BadOutput, "the tool's result does not have the form it declares")
            .with_source(why)
    };
    let problem = match &output.structured {
        None => Some("no structured data".to_owned()),
        Some(data) => schema.errors(data).next().map(|e| e.to_string()),
    };
    match problem {
        Some(problem) => Err(wrong(problem)),
        None => Ok(output),
    }
}
