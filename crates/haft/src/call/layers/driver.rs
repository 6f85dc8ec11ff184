//! Drives an `ExecuteMachine`: polls what it needs in place, and keeps what is not ready.

use std::{
    sync::Arc,
    task::{self, Poll},
    time::Instant,
};

use haft_core::{BoxFuture, Failure};

use super::{
    Outcome, Work,
    body_attempt::{self, RunningBody},
    machine::{ExecuteInput, ExecuteMachine, ExecuteNeed, ExecuteStep},
};
use crate::telemetry;

/// What an execution waits for.
#[derive(Default)]
pub(crate) enum Pending {
    /// It has not started.
    #[default]
    Start,
    /// A wait that is not execution: bounded by the deadline, the cancellation and the interrupt.
    Wait(BoxFuture<'static, Result<(), Failure>>, Instant),
    Body(RunningBody),
    /// What it waited for has ended and is dropped, so that its span ends here.
    Ended,
}

impl Pending {
    fn poll(&mut self, work: &Work<'_>, task: &mut task::Context<'_>) -> Poll<ExecuteInput> {
        let polled = self.poll_inside(work, task);
        if polled.is_ready() {
            *self = Self::Ended;
        }
        polled
    }

    fn poll_inside(&mut self, work: &Work<'_>, task: &mut task::Context<'_>) -> Poll<ExecuteInput> {
        match self {
            Self::Ended => Poll::Pending,
            Self::Start => Poll::Ready(ExecuteInput::Start),
            Self::Body(body) => {
                body.poll(task).map(|(attempt, span)| ExecuteInput::Body(attempt, span))
            }
            Self::Wait(wait, since) => wait.as_mut().poll(task).map(|waited| {
                let now = work.turn.run.inner.clock.now();
                ExecuteInput::Waited(waited, now.saturating_duration_since(*since))
            }),
        }
    }
}

/// Polls an execution to its outcome. It must not be polled again after that.
#[inline(always)]
pub(crate) fn poll_execution(
    work: &Work<'_>,
    machine: &mut ExecuteMachine,
    pending: &mut Pending,
    task: &mut task::Context<'_>,
) -> Poll<Outcome> {
    let mut input = match pending.poll(work, task) {
        Poll::Ready(input) => input,
        Poll::Pending => return Poll::Pending,
    };
    loop {
        input = match machine.advance(work, input) {
            ExecuteStep::Done(outcome) => return Poll::Ready(outcome),
            ExecuteStep::Attempt(args) => {
                match body_attempt::begin(work, args, machine.context(work), task) {
                    Ok((attempt, span)) => ExecuteInput::Body(attempt, span),
                    Err(running) => {
                        *pending = Pending::Body(running);
                        return Poll::Pending;
                    }
                }
            }
            ExecuteStep::Wait(need) => {
                *pending = begin(work, need);
                match pending.poll(work, task) {
                    Poll::Ready(input) => input,
                    Poll::Pending => return Poll::Pending,
                }
            }
        };
    }
}

fn begin(work: &Work<'_>, need: ExecuteNeed) -> Pending {
    let turn = Arc::clone(work.turn);
    let clock = Arc::clone(&turn.run.inner.clock);
    let since = || work.turn.run.inner.clock.now();
    match need {
        ExecuteNeed::Flight(flight) => {
            let wait = async move { flight.wait().await };
            Pending::Wait(bounded(work, "flight", wait), since())
        }
        ExecuteNeed::Rate(slot) => {
            let wait = async move { slot.wait(&*clock).await };
            Pending::Wait(bounded(work, "rate", wait), since())
        }
        ExecuteNeed::Sleep(until) => {
            let wait = clock.sleep_until(until);
            Pending::Wait(bounded(work, "backoff", wait), since())
        }
    }
}

/// A wait in a span of its own, which is never inside that of an attempt.
fn bounded(
    work: &Work<'_>,
    what: &'static str,
    wait: impl Future<Output = ()> + Send + 'static,
) -> BoxFuture<'static, Result<(), Failure>> {
    let (turn, cx, deadline) = (Arc::clone(work.turn), work.cx.clone(), work.deadline);
    let wait = async move { turn.waiting(&cx, deadline, wait).await };
    Box::pin(telemetry::waiting(what, wait))
}
