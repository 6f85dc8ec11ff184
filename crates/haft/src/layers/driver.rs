//! Drives an `ExecuteMachine`: polls what it needs in place, and keeps what is not ready.

use std::{
    sync::Arc,
    task::{self, Poll},
    time::Instant,
};

use haft_core::{BoxFuture, Failure};

use super::{
    Outcome, Work,
    body_attempt::RunningBody,
    machine::{ExecuteInput, ExecuteMachine, ExecuteNeed, ExecuteStep},
};
use crate::telemetry;

/// What an execution waits for.
#[derive(Default)]
pub(crate) enum Pending {
    #[default]
    Nothing,
    /// A wait that is not execution: bounded by the deadline, the cancellation and the interrupt.
    Wait(BoxFuture<'static, Result<(), Failure>>, Instant),
    Body(RunningBody),
}

/// Polls an execution to its outcome. `input` is `Start` the first time, and `None` afterwards.
pub(crate) fn poll_execution(
    work: &Work<'_>,
    machine: &mut ExecuteMachine,
    pending: &mut Pending,
    mut input: Option<ExecuteInput>,
    task: &mut task::Context<'_>,
) -> Poll<Outcome> {
    loop {
        if let Some(input) = input.take() {
            match machine.advance(work, input) {
                ExecuteStep::Done(outcome) => return Poll::Ready(outcome),
                ExecuteStep::Wait(need) => *pending = begin(work, need),
            }
        }
        input = match pending {
            Pending::Nothing => return Poll::Pending,
            Pending::Body(body) => match body.poll(work, task) {
                Poll::Ready((attempt, cx, span)) => Some(ExecuteInput::Body(attempt, cx, span)),
                Poll::Pending => return Poll::Pending,
            },
            Pending::Wait(wait, since) => match wait.as_mut().poll(task) {
                Poll::Ready(waited) => {
                    let now = work.turn.inner.clock.now();
                    Some(ExecuteInput::Waited(waited, now.saturating_duration_since(*since)))
                }
                Poll::Pending => return Poll::Pending,
            },
        };
        *pending = Pending::Nothing;
    }
}

fn begin(work: &Work<'_>, need: ExecuteNeed) -> Pending {
    let turn = Arc::clone(work.turn);
    let clock = Arc::clone(&turn.inner.clock);
    let since = || work.turn.inner.clock.now();
    match need {
        ExecuteNeed::Body(args, cx) => Pending::Body(RunningBody::start(work, args, cx)),
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
