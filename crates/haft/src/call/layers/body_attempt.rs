//! One attempt at the body: timeout, cancellation, panics caught.
//!
//! Cancellation is cooperative first: the token is cancelled, the body has a grace period to end by
//! itself, and only then is it dropped. A blocking body cannot be dropped; if it still runs, its
//! outcome is unknown.
//!
//! INVARIANT: `cancelled` and `timed_out` are reported only if the end of the body was observed.
//! INVARIANT: a result that comes after the timeout or the deadline is never a success.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::{self, Poll},
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use haft_core::{
    Args, BoxFuture, Execution, Failure, FailureCode, Interrupt, Output, ToolContext,
    host::HostContext,
};

use tracing::span::EnteredSpan;

use super::{Outcome, Work, attempt_span::AttemptSpan};
use crate::{
    call::TurnCore,
    host_code::{after, panic_message, timed},
    registry::RegisteredTool,
};

type Ended = std::thread::Result<Outcome>;

/// How an attempt at the body ended.
pub(crate) enum Attempt {
    /// By itself.
    Ended(Ended),
    /// By itself, but only after it was cancelled.
    Yielded(Ended, Failure),
    /// Not within the grace period; the future is dropped.
    GivenUp(Failure),
}

/// A body that was not ready at its first poll. It has a supervisor with timers.
pub(crate) struct RunningBody {
    supervised: BoxFuture<'static, Attempt>,
    span: Option<Box<AttemptSpan>>,
}

/// How an attempt ended, with its span.
pub(crate) type EndedAttempt = (Attempt, Option<Box<AttemptSpan>>);

/// Starts an attempt, in a span of its own if there is a subscriber, and polls the body in place. A
/// body that is ready at once needs no timer.
#[inline(always)]
pub(crate) fn begin(
    work: &Work<'_>,
    args: Args,
    cx: &ToolContext,
    task: &mut task::Context<'_>,
) -> Result<EndedAttempt, RunningBody> {
    let span = AttemptSpan::start(&Work { cx, ..*work });
    let entered = span.as_ref().map(|span| span.enter());
    // Making the future, polling it and dropping it run the author's code, so panics are caught.
    let polled = catch_unwind(AssertUnwindSafe(|| {
        let mut body = Arc::clone(work.entry.body()).call(args, cx.clone());
        match body.as_mut().poll(task) {
            Poll::Ready(outcome) => {
                drop(body);
                Ok(outcome)
            }
            Poll::Pending => Err(body),
        }
    }));
    let body = match polled {
        Ok(Ok(outcome)) => return Ok((Attempt::Ended(Ok(outcome)), exit(entered, span))),
        Err(panic) => return Ok((Attempt::Ended(Err(panic)), exit(entered, span))),
        Ok(Err(body)) => body,
    };
    let (turn, cx) = (Arc::clone(work.turn), cx.clone());
    let mut supervised: BoxFuture<'static, Attempt> =
        Box::pin(supervise(turn, cx, Timing::of(work), body));
    match poll_caught(&mut supervised, task) {
        Poll::Ready(attempt) => Ok((attempt, exit(entered, span))),
        Poll::Pending => Err(RunningBody { supervised, span: exit(entered, span) }),
    }
}

/// Leaves the span of an attempt.
fn exit(entered: Option<EnteredSpan>, span: Option<Box<AttemptSpan>>) -> Option<Box<AttemptSpan>> {
    drop(entered);
    span
}

impl RunningBody {
    /// Polls the body to its end.
    pub(crate) fn poll(&mut self, task: &mut task::Context<'_>) -> Poll<EndedAttempt> {
        let entered = self.span.as_ref().map(|span| span.enter());
        let polled = poll_caught(&mut self.supervised, task);
        drop(entered);
        polled.map(|attempt| (attempt, self.span.take()))
    }
}

/// Polls a supervised body. A panic when the body is dropped is a panic of the body.
fn poll_caught(
    supervised: &mut BoxFuture<'static, Attempt>,
    task: &mut task::Context<'_>,
) -> Poll<Attempt> {
    catch_unwind(AssertUnwindSafe(|| supervised.as_mut().poll(task)))
        .unwrap_or_else(|panic| Poll::Ready(Attempt::Ended(Err(panic))))
}

/// How long an attempt may take, and whether an interrupt of the turn cancels it.
struct Timing {
    timeout: Duration,
    deadline: Instant,
    yields: bool,
}

impl Timing {
    fn of(work: &Work<'_>) -> Self {
        let own = work.limits().and_then(|limits| limits.timeout);
        let config = &work.turn.run.inner.config;
        Self {
            timeout: own.or(work.entry.spec().timeout).unwrap_or(config.timeout),
            deadline: work.deadline,
            yields: yields_to_interrupt(work),
        }
    }
}

/// Polls the body to its end, or cancels it and waits for the grace period. The body is dropped
/// when this returns, so that queued blocking work is withdrawn before running work is counted.
async fn supervise(
    turn: Arc<TurnCore>,
    cx: ToolContext,
    timing: Timing,
    body: BoxFuture<'static, Outcome>,
) -> Attempt {
    let clock = &*turn.run.inner.clock;
    let timeout = after(clock.now(), timing.timeout);
    let mut body = AssertUnwindSafe(body).catch_unwind();
    let stop = tokio::select! {
        biased;
        ended = &mut body => return Attempt::Ended(ended),
        () = cx.cancelled() => turn.why_stopped(&cx),
        () = turn.interrupted(&cx), if timing.yields => turn.why_stopped(&cx),
        never = turn.forward_progress(&cx) => match never {},
        () = clock.sleep_until(timeout.min(timing.deadline)) => late(timeout <= timing.deadline),
    };
    turn.stop_body(&cx, stop.code(), stop.message());
    // A body that waits for a nested call resumes only after the grace period of that call.
    let periods = if cx.nested_calls() > 0 { 2 } else { 1 };
    match timed(clock, turn.run.inner.config.grace * periods, &mut body).await {
        Some(ended) => Attempt::Yielded(ended, stop),
        None => Attempt::GivenUp(stop),
    }
}

/// Returns the outcome of an attempt.
#[inline(always)]
pub(super) fn outcome_of_attempt(work: &Work<'_>, cx: &ToolContext, attempt: Attempt) -> Outcome {
    match attempt {
        // A body that ends in an error because it was cancelled is cancelled, not failed.
        Attempt::Ended(ended @ (Ok(Err(_)) | Err(_))) if cx.is_cancelled() => {
            stopped(outcome(ended), work.turn.why_stopped(cx))
        }
        Attempt::Ended(ended) => outcome(ended).and_then(|output| result(work, cx, output)),
        // A late result would make the timeout meaningless.
        Attempt::Yielded(Ok(Ok(_)), stop) if is_late(&stop) => Err(finished_late(stop)),
        // It succeeded despite the cancellation: report what happened.
        Attempt::Yielded(Ok(Ok(output)), _) => result(work, cx, output),
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

#[inline(always)]
pub(crate) fn outcome(ended: Ended) -> Outcome {
    match ended {
        Ok(outcome) => outcome,
        // The message of a panic may contain anything; it is for the operator.
        Err(panic) => Err(Failure::new(FailureCode::Panicked, "the tool panicked")
            .with_next(
                "do not repeat the same call; if the task needs it, report the failure to the user",
            )
            .with_source(panic_message(panic))),
    }
}

/// Checks a result, unless it is a task: then what comes later is checked.
#[inline(always)]
fn result(work: &Work<'_>, cx: &ToolContext, output: Output) -> Outcome {
    if work.entry.output().is_some() && cx.has_background_task() {
        return Ok(output);
    }
    checked(work.entry, output)
}

/// Checks structured output against the schema it was declared with.
#[inline(always)]
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
    let class = work.permitted.validated().profile().class;
    work.entry.spec().interrupt_of(class) == Interrupt::Cancel
}
