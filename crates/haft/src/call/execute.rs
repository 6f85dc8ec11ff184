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

use super::{
    acquire::{CallLocks, LockedCall},
    authorize::AuthorizedCall,
};
use crate::{
    call::TurnCore,
    call::background,
    call::layers::{self, ExecuteMachine, ExecutionStats, Outcome, Pending, Work},
    hooks::CompletedCall,
    journal::Intent,
    secrets,
};

/// An authorized call with its locks, before its intent is in the journal. It cannot run.
pub(super) struct PreparedExecution {
    call: LockedCall,
    deadline: Instant,
}

/// A call that executes. Only `PreparedExecution::start` makes one.
pub(crate) struct Execution {
    /// The locks are held until the outcome is known.
    call: LockedCall,
    deadline: Instant,
    state: State,
    outcome: Option<Outcome>,
}

enum State {
    /// Without middleware: the machine is driven in place.
    Machine(ExecuteMachine, Pending),
    /// With middleware, which has its own future.
    Around(Option<Args>, ExecutionStats),
}

impl PreparedExecution {
    pub(super) fn new(call: LockedCall, deadline: Instant) -> Self {
        Self { call, deadline }
    }

    pub(super) fn call(&self) -> &AuthorizedCall {
        self.call.call()
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Starts the execution of a call whose intent is in the journal. Secrets are resolved here, at
    /// the last moment: guards, approvers and the journal have seen the reference only.
    #[inline(always)]
    pub(super) fn start(
        self,
        turn: &TurnCore,
        _intent: Intent,
        stats: ExecutionStats,
        execution: &mut Option<Execution>,
    ) -> Result<(), Failure> {
        let Self { mut call, deadline } = self;
        let args = call.call_mut().take_args();
        let validated = call.call().validated();
        let (tool, cx) = (validated.tool(), validated.context());
        let args = match secrets::resolve(
            &turn.run.inner.redactor,
            tool.secret_user(),
            validated.frozen_arguments(),
        )? {
            Some(args) => args,
            None => args,
        };
        cx.start(validated.profile().clone(), call.call().verdict().confined, Some(deadline));
        let middleware = &turn.run.inner.middleware;
        let state = if middleware.iter().any(|own| own.applies_to(tool)) {
            State::Around(Some(args), stats)
        } else {
            State::Machine(ExecuteMachine::new(args, stats), Pending::default())
        };
        *execution = Some(Execution { call, deadline, state, outcome: None });
        Ok(())
    }
}

impl Execution {
    /// Polls an execution without middleware to its outcome; `None` if it has middleware.
    #[inline(always)]
    pub(crate) fn poll(
        &mut self,
        turn: &Arc<TurnCore>,
        task: &mut task::Context<'_>,
    ) -> Option<Poll<()>> {
        let State::Machine(machine, pending) = &mut self.state else { return None };
        let validated = self.call.call().validated();
        let work = Work {
            turn,
            permitted: self.call.call(),
            entry: validated.tool(),
            cx: validated.context(),
            deadline: self.deadline,
        };
        Some(layers::poll_execution(&work, machine, pending, task).map(|outcome| {
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
                let validated = self.call.call().validated();
                let work = Work {
                    turn: &turn,
                    permitted: self.call.call(),
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
    #[inline(always)]
    pub(super) fn finish(
        &mut self,
        turn: &Arc<TurnCore>,
    ) -> (Outcome, ExecutionStats, Option<Arc<CompletedCall>>) {
        let lost = || {
            Failure::new(
                FailureCode::UnknownOutcome,
                "the task that executed the call ended without a result",
            )
        };
        let outcome = self.outcome.take().unwrap_or_else(|| Err(lost()));
        let stats = match &mut self.state {
            State::Machine(machine, _) => std::mem::take(&mut machine.stats),
            State::Around(_, stats) => std::mem::take(stats),
        };
        let cx = self.call.call().validated().context();
        // The last progress note comes before the end.
        cx.flush_progress();
        if let Some(later) = cx.take_background_task()
            && outcome.is_ok()
        {
            let kept = self.call.locks_mut().map(CallLocks::keep).unwrap_or_default();
            background::begin(turn, self.call.call(), kept, later);
        }
        let still_runs = self.call.call().validated().context().has_running_work();
        self.call.release();
        let validated = self.call.call().validated();
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
        let completed = (!turn.run.inner.hooks.is_empty()).then(|| {
            Arc::new(CompletedCall {
                tool: Arc::clone(validated.tool()),
                arguments: Arc::clone(validated.arguments()),
                cx: validated.context().clone(),
            })
        });
        (outcome, stats, completed)
    }
}
