//! Executes an authorized call through the layers, and releases its locks at the end.
//!
//! In: an `AuthorizedCall`, a journaled `Intent`, its locks. Out: the outcome and its statistics.

use std::{
    sync::Arc,
    task::{self, Poll},
    time::Instant,
};

use haft_core::{
    Args, BoxFuture, Execution as BodyExecution, Failure, FailureCode, host::HostContext,
};

use super::{acquire::CallLocks, authorize::AuthorizedCall};
use crate::{
    background,
    hooks::CompletedCall,
    journal::Intent,
    layers::{self, ExecuteInput, ExecuteMachine, ExecutionStats, Outcome, Pending, Work},
    secrets,
    turn::TurnCore,
};

/// A call that executes.
pub(crate) struct Execution {
    call: AuthorizedCall,
    locks: CallLocks,
    deadline: Instant,
    state: State,
    outcome: Option<Outcome>,
}

enum State {
    /// Without middleware: the machine is driven in place. The flag is set once it has started.
    Machine(ExecuteMachine, Pending, bool),
    /// With middleware, which has its own future.
    Around(Option<Args>, ExecutionStats),
}

impl Execution {
    /// Prepares the execution. Secrets are resolved here, at the last moment: guards, approvers and
    /// the journal have seen the reference only.
    pub(super) fn new(
        turn: &TurnCore,
        mut call: AuthorizedCall,
        _intent: Intent,
        locks: CallLocks,
        deadline: Instant,
        stats: ExecutionStats,
    ) -> Result<Self, Failure> {
        let args = call.take_args();
        let validated = call.admitted();
        let (tool, cx) = (validated.tool(), validated.context());
        let args = match secrets::resolve(&turn.inner.redactor, tool, validated.arguments())? {
            Some(args) => args,
            None => args,
        };
        cx.set_profile(validated.profile().clone());
        cx.set_confined(call.verdict().confined);
        let middleware = &turn.inner.middleware;
        let state = if middleware.iter().any(|own| own.applies_to(tool)) {
            State::Around(Some(args), stats)
        } else {
            let machine = ExecuteMachine::new(args, stats);
            State::Machine(machine, Pending::default(), false)
        };
        Ok(Self { call, locks, deadline, state, outcome: None })
    }

    /// Polls an execution without middleware to its outcome; `None` if it has middleware.
    pub(crate) fn poll(
        &mut self,
        turn: &Arc<TurnCore>,
        task: &mut task::Context<'_>,
    ) -> Option<Poll<()>> {
        let State::Machine(machine, pending, has_started) = &mut self.state else { return None };
        let is_start = !std::mem::replace(has_started, true);
        let validated = self.call.admitted();
        let work = Work {
            turn,
            permitted: &self.call,
            entry: validated.tool(),
            cx: validated.context(),
            deadline: self.deadline,
        };
        let input = is_start.then_some(ExecuteInput::Start);
        Some(layers::poll_execution(&work, machine, pending, input, task).map(|outcome| {
            self.outcome = Some(outcome);
        }))
    }

    /// Executes a call through its middleware.
    pub(crate) fn through_middleware(
        mut self: Box<Self>,
        turn: Arc<TurnCore>,
    ) -> BoxFuture<'static, Box<Self>> {
        Box::pin(async move {
            let outcome = {
                let State::Around(args, stats) = &mut self.state else { return self };
                let validated = self.call.admitted();
                let work = Work {
                    turn: &turn,
                    permitted: &self.call,
                    entry: validated.tool(),
                    cx: validated.context(),
                    deadline: self.deadline,
                };
                match args.take() {
                    Some(args) => layers::around(&work, args, stats).await,
                    None => Err(Failure::new(FailureCode::NotRun, "the call was already executed")),
                }
            };
            self.outcome = Some(outcome);
            self
        })
    }

    /// Releases the locks, unless some work of the call still runs. Returns the outcome, the
    /// statistics, and the completed call for the hooks.
    pub(super) fn finish(
        self: Box<Self>,
        turn: &Arc<TurnCore>,
    ) -> (Outcome, ExecutionStats, Option<Arc<CompletedCall>>) {
        let Self { call, mut locks, state, outcome, .. } = *self;
        let lost = || {
            Failure::new(
                FailureCode::UnknownOutcome,
                "the task that executed the call ended without a result",
            )
        };
        let outcome = outcome.unwrap_or_else(|| Err(lost()));
        let stats = match state {
            State::Machine(machine, ..) => machine.stats,
            State::Around(_, stats) => stats,
        };
        let validated = call.admitted();
        let cx = validated.context();
        // The last progress note comes before the end.
        cx.flush_progress();
        if let Some(later) = cx.take_background_task()
            && outcome.is_ok()
        {
            background::begin(turn, &call, locks.keep(), later);
        }
        let still_runs = cx.has_running_work();
        drop(locks);
        let outcome = outcome.map_err(|failure| match failure.execution() {
            _ if still_runs => Failure::new(
                FailureCode::UnknownOutcome,
                "the tool did not stop when it was cancelled, and may still be running",
            )
            .with_next("check what happened before you call it again")
            .with_source(failure.to_string()),
            // The body ran, even if the failure of a nested call says otherwise.
            BodyExecution::NotStarted if stats.attempts > 0 => {
                failure.with_execution(BodyExecution::Completed)
            }
            BodyExecution::NotStarted | BodyExecution::Completed | BodyExecution::Unknown => {
                failure
            }
        });
        let completed = (!turn.inner.hooks.is_empty()).then(|| {
            Arc::new(CompletedCall {
                tool: Arc::clone(validated.tool()),
                arguments: Arc::clone(validated.arguments()),
                cx: cx.clone(),
            })
        });
        (outcome, stats, completed)
    }
}
