//! The second half of the call machine: from the authorization to the result.
//!
//! Message end, locks, intent, execution, post hooks, sanitizing, truncation, outcome.

use std::{sync::Arc, time::Instant};

use haft_core::{
    BoxError, ConcurrencyClass, Execution as BodyExecution, Failure, FailureCode, StopReason,
};

use super::{
    acquire::{self, CallLocks, LockedCall},
    authorize::AuthorizedCall,
    execute::PreparedExecution,
    finish,
    machine::{CallMachine, Phase, lost, not_run},
    post_hooks,
    record::CallOrigin,
    sanitize,
    step::{Input, Need, Step},
    truncate,
};
use crate::{
    call::TurnCore,
    event::{Event, Phase as EventPhase, WaitReason},
    hooks::{CompletedCall, PostCallResult},
    host_code::{self, Stopped},
    journal::{CallIntent, CallOutcome, Intent},
    outcome::Outcome,
    telemetry,
    tool_result::{BoxedResult, Truncation},
};

impl CallMachine {
    /// Advances a call that is authorized or has an outcome.
    pub(super) fn advance_execution(
        &mut self,
        turn: &Arc<TurnCore>,
        phase: Phase,
        input: Input,
    ) -> Step {
        match (phase, input) {
            (Phase::Message(call), Input::MessageEnd(stop)) => match stop.why_not() {
                None => {
                    turn.passed(&self.record, EventPhase::WaitForMessageEnd);
                    self.acquire_later(turn, call, turn.run.inner.clock.now())
                }
                Some(why) => self.outcome_of(turn, Err(not_run(why))),
            },
            (Phase::Acquire(waiting), Input::Acquired(locks)) => {
                let (call, deadline, since) = *waiting;
                // The future that waited is gone, so this is the only reference.
                match Arc::into_inner(call) {
                    Some(call) => self.acquired(turn, call, *locks, (deadline, since)),
                    None => self.outcome_of(turn, Err(lost())),
                }
            }
            (Phase::Acquire(waiting), Input::Stopped(Stopped::Parked)) => {
                self.park_authorized(turn, &waiting.0)
            }
            (Phase::PostHook(at, ran, completed), Input::PostHook(answer)) => {
                self.post_hook(turn, (at, ran, completed), Ok(*answer))
            }
            (Phase::PostHook(at, ran, completed), Input::Stopped(stopped)) => {
                self.post_hook(turn, (at, ran, completed), Err(stopped))
            }
            (Phase::Sanitize, Input::Sanitized(outcome, altered)) => {
                self.sanitized_later(turn, *outcome, altered)
            }
            (Phase::Truncate(altered), Input::Truncated(output, truncation)) => {
                self.result_later(turn, Ok(*output), Some(truncation), altered)
            }
            (_, input) => self.unexpected(turn, input),
        }
    }

    /// Ends a call whose wait was cancelled. A driver that answers another need is a mistake of
    /// ours; the call still ends.
    #[cold]
    fn unexpected(&mut self, turn: &TurnCore, input: Input) -> Step {
        let failure = match input {
            Input::Stopped(Stopped::Cancelled(failure)) => failure,
            _ => lost(),
        };
        self.release();
        self.outcome_of(turn, Err(failure))
    }

    /// Takes the answer of the journal to the intent.
    pub(super) fn intent_answered(&mut self, turn: &Arc<TurnCore>, input: Input) -> Step {
        let Some(prepared) = self.prepared.take() else { return self.unexpected(turn, input) };
        match input {
            Input::IntentWritten { result, took_time } => {
                self.intent_written_later(turn, prepared, result, took_time)
            }
            Input::Stopped(stopped) => {
                self.intent_written_later(turn, prepared, Err(stopped.to_string().into()), true)
            }
            input => self.unexpected(turn, input),
        }
    }

    /// Takes the outcome of an execution.
    #[inline(always)]
    pub(super) fn execution_answered(&mut self, turn: &Arc<TurnCore>, input: Input) -> Step {
        match input {
            Input::Executed(around) => {
                if let Some(execution) = around {
                    self.execution = Some(*execution);
                }
                self.executed(turn)
            }
            input => self.unexpected(turn, input),
        }
    }

    /// Takes the answer of the journal to the outcome.
    pub(super) fn outcome_answered(
        &mut self,
        turn: &TurnCore,
        result: BoxedResult,
        input: Input,
    ) -> Step {
        match input {
            Input::OutcomeWritten(written) => self.done_later(turn, result, written),
            Input::Stopped(stopped) => {
                self.done_later(turn, result, Err(stopped.to_string().into()))
            }
            input => self.unexpected(turn, input),
        }
    }

    #[inline(always)]
    pub(super) fn allowed(&mut self, turn: &Arc<TurnCore>, call: AuthorizedCall) -> Step {
        if !turn.run.inner.hooks.is_empty() {
            self.record.notes.set_arguments(call.validated().arguments());
        }
        turn.emit_of(&self.record, || Event::Authorized {
            call: self.record.cx.call_id().clone(),
            verdict: call.verdict().clone(),
        });
        // Before the message has ended only plain reads may start.
        if turn.end.get() != Some(StopReason::Done)
            && call.validated().profile().class != ConcurrencyClass::ReadOnly
        {
            return self.wait(Phase::Message(call), Need::MessageEnd);
        }
        let from = self.record.moment(turn);
        self.acquire(turn, call, from)
    }

    #[inline(always)]
    fn acquire(&mut self, turn: &Arc<TurnCore>, call: AuthorizedCall, from: Instant) -> Step {
        let validated = call.validated();
        let own = validated.limits().and_then(|limits| limits.deadline);
        let time =
            own.or(validated.tool().spec().deadline).unwrap_or(turn.run.inner.config.deadline);
        let mut deadline = host_code::after(from, time);
        if let Some(outer) = self.record.parent().and_then(|parent| parent.deadline) {
            deadline = deadline.min(outer);
        }
        if let Some(ledger) = &turn.run.ledger {
            if let Err(failure) = ledger.has_time() {
                return self.outcome_of(turn, Err(failure));
            }
            deadline = ledger.until().map_or(deadline, |until| deadline.min(until));
        }
        match acquire::try_acquire(turn, call, self.record.parent()) {
            Ok(call) => self.intend(turn, call, deadline),
            Err(call) => {
                let since = turn.run.inner.clock.now();
                let call = Arc::new(call);
                let phase = Phase::Acquire(Box::new((Arc::clone(&call), deadline, since)));
                self.wait(phase, Need::Acquire(call, deadline))
            }
        }
    }

    fn acquired(
        &mut self,
        turn: &Arc<TurnCore>,
        call: AuthorizedCall,
        locks: Result<CallLocks, Failure>,
        (deadline, since): (Instant, Instant),
    ) -> Step {
        let time = turn.run.inner.clock.now().saturating_duration_since(since);
        self.record.stats.waited = time;
        let cx = &self.record.cx;
        if !time.is_zero() {
            let call = || cx.call_id().clone();
            turn.emit(|| Event::Waited { call: call(), what: WaitReason::Slot, time });
        }
        turn.passed(&self.record, EventPhase::WaitForLock);
        match locks {
            Ok(locks) => self.intend_later(turn, LockedCall::new(call, locks), deadline),
            Err(failure) => self.outcome_of(turn, Err(failure)),
        }
    }

    #[inline(always)]
    fn intend(&mut self, turn: &Arc<TurnCore>, call: LockedCall, deadline: Instant) -> Step {
        // The message may have been truncated while the call waited: then it does not start.
        if self.record.parent().is_none()
            && let Some(why) = turn.end.get().and_then(StopReason::why_not)
        {
            return self.outcome_of(turn, Err(not_run(why)));
        }
        let prepared = PreparedExecution::new(call, deadline);
        if let Some(journal) = turn.run.inner.journal.memory() {
            journal.write_intent(&CallIntent::of(
                &turn.run.inner.redactor,
                prepared.call(),
                self.record.began,
            ));
            return self.intent_written(turn, prepared, Ok(()), false);
        }
        self.prepared = Some(prepared);
        self.wait(Phase::Intent, Need::WriteIntent)
    }

    #[inline(always)]
    fn intent_written(
        &mut self,
        turn: &Arc<TurnCore>,
        prepared: PreparedExecution,
        result: Result<(), BoxError>,
        took_time: bool,
    ) -> Step {
        let intent = match Intent::written(result) {
            Ok(intent) => intent,
            Err(failure) => return self.outcome_of(turn, Err(failure)),
        };
        if took_time && let Err(failure) = self.may_still_start(turn, prepared.deadline()) {
            return self.outcome_of(turn, Err(failure));
        }
        let stats = std::mem::take(&mut self.record.stats);
        match prepared.start(turn, intent, stats, &mut self.execution) {
            Ok(()) => self.wait(Phase::Execute, Need::Execute),
            Err(failure) => self.outcome_of(turn, Err(failure)),
        }
    }

    /// Refuses a call that was cancelled, or whose message was truncated, while it was journaled.
    fn may_still_start(&self, turn: &TurnCore, deadline: Instant) -> Result<(), Failure> {
        if turn.is_stopped(&self.record.cx) {
            return Err(turn.why_stopped(&self.record.cx));
        }
        if let Some(why) = turn.end.get().and_then(StopReason::why_not) {
            return Err(not_run(why));
        }
        if turn.run.inner.clock.now() >= deadline {
            return Err(Failure::new(
                FailureCode::DeadlinePassed,
                "the deadline of the call passed while it was journaled; the tool was not run",
            ));
        }
        Ok(())
    }

    #[inline(always)]
    fn executed(&mut self, turn: &Arc<TurnCore>) -> Step {
        let Some(execution) = &mut self.execution else {
            return self.outcome_of(turn, Err(lost()));
        };
        let (outcome, stats, completed) = execution.finish(turn);
        self.execution = None;
        self.record.stats = stats;
        if completed.is_some() {
            return self.post_hooks(turn, completed, 0, outcome);
        }
        self.prepare_outcome(turn, outcome)
    }

    /// Runs the hooks after the body, from this one on. Without hooks there is no completed call.
    pub(super) fn post_hooks(
        &mut self,
        turn: &TurnCore,
        completed: Option<Arc<CompletedCall>>,
        from: usize,
        mut outcome: Outcome,
    ) -> Step {
        let Some(completed) = completed else { return self.outcome_of(turn, outcome) };
        for (at, hook) in turn.run.inner.hooks.iter().enumerate().skip(from) {
            let ran = post_hooks::execution(&outcome);
            match hook.applies_to(&completed.tool) {
                Ok(true) => {
                    let need = Need::PostHook(Arc::clone(&completed), at, Box::new(outcome));
                    return self.wait(Phase::PostHook(at, ran, completed), need);
                }
                Ok(false) => {}
                Err(why) => outcome = Err(post_hooks::failed(hook.name(), ran, &why)),
            }
        }
        self.post_hooks_done(turn, outcome)
    }

    fn post_hook(
        &mut self,
        turn: &TurnCore,
        (at, ran, completed): (usize, BodyExecution, Arc<CompletedCall>),
        answer: Result<PostCallResult, Stopped>,
    ) -> Step {
        let hook = &turn.run.inner.hooks[at];
        let outcome = post_hooks::apply(hook, ran, answer, &mut self.record.notes);
        if ran == BodyExecution::NotStarted && outcome.is_ok() {
            self.record.replaced_by_hook = Some(format!("hook `{}`", hook.name()).into());
        }
        self.post_hooks(turn, Some(completed), at + 1, outcome)
    }

    fn post_hooks_done(&mut self, turn: &TurnCore, outcome: Outcome) -> Step {
        if !matches!(self.record.origin, CallOrigin::Background) {
            turn.passed(&self.record, EventPhase::PostHooks);
        }
        self.apply_hook_effects(turn);
        self.outcome_of(turn, outcome)
    }

    #[inline(never)]
    fn acquire_later(&mut self, turn: &Arc<TurnCore>, call: AuthorizedCall, from: Instant) -> Step {
        self.acquire(turn, call, from)
    }

    #[inline(never)]
    pub(super) fn allowed_later(&mut self, turn: &Arc<TurnCore>, call: AuthorizedCall) -> Step {
        self.allowed(turn, call)
    }

    #[inline(never)]
    fn intend_later(&mut self, turn: &Arc<TurnCore>, call: LockedCall, deadline: Instant) -> Step {
        self.intend(turn, call, deadline)
    }

    #[inline(never)]
    fn intent_written_later(
        &mut self,
        turn: &Arc<TurnCore>,
        prepared: PreparedExecution,
        result: Result<(), BoxError>,
        took_time: bool,
    ) -> Step {
        self.intent_written(turn, prepared, result, took_time)
    }

    #[inline(never)]
    fn sanitized_later(&mut self, turn: &TurnCore, outcome: Outcome, altered: usize) -> Step {
        self.sanitized(turn, outcome, altered)
    }

    #[inline(never)]
    fn result_later(
        &mut self,
        turn: &TurnCore,
        outcome: Outcome,
        truncation: Option<Box<Truncation>>,
        altered: usize,
    ) -> Step {
        self.result(turn, outcome, truncation, altered)
    }

    #[inline(never)]
    fn done_later(
        &mut self,
        turn: &TurnCore,
        result: BoxedResult,
        written: Result<(), BoxError>,
    ) -> Step {
        self.done(turn, result, written)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn outcome_of(&mut self, turn: &TurnCore, outcome: Outcome) -> Step {
        self.prepare_outcome(turn, outcome)
    }

    /// Prepares the outcome for the model. Every call comes here exactly once.
    #[inline(always)]
    fn prepare_outcome(&mut self, turn: &TurnCore, mut outcome: Outcome) -> Step {
        turn.flush_output(&self.record.cx);
        if sanitize::is_large(&outcome) {
            return self.wait(Phase::Sanitize, Need::Sanitize(Box::new(outcome)));
        }
        let altered = sanitize::sanitize(&mut outcome, &turn.run.inner);
        self.sanitized(turn, outcome, altered)
    }

    #[inline(always)]
    fn sanitized(&mut self, turn: &TurnCore, outcome: Outcome, altered: usize) -> Step {
        let limit = finish::result_limit(&self.record);
        if truncate::is_over(&outcome, limit, &turn.run.inner.config) {
            return self.too_long(turn, outcome, altered);
        }
        self.result(turn, outcome, None, altered)
    }

    /// Truncates an outcome that is longer than the tool's limit.
    #[cold]
    fn too_long(&mut self, turn: &TurnCore, outcome: Outcome, altered: usize) -> Step {
        match outcome {
            Ok(output) => {
                let label = finish::label(&self.record);
                let need = Need::Truncate(Box::new(output), label);
                self.wait(Phase::Truncate(altered), need)
            }
            Err(_) => self.result_later(turn, Err(lost()), None, altered),
        }
    }

    #[inline(always)]
    fn result(
        &mut self,
        turn: &TurnCore,
        outcome: Outcome,
        truncation: Option<Box<Truncation>>,
        altered: usize,
    ) -> Step {
        let result = finish::result(turn, &mut self.record, outcome, truncation, altered);
        if let Some(journal) = turn.run.inner.journal.memory() {
            journal.write_outcome(&CallOutcome::of(&self.record, &result));
            return self.done(turn, result, Ok(()));
        }
        self.wait(Phase::Outcome(result), Need::WriteOutcome)
    }

    #[inline(always)]
    fn done(
        &mut self,
        turn: &TurnCore,
        mut result: BoxedResult,
        written: Result<(), BoxError>,
    ) -> Step {
        let shown = sanitize::bytes_shown(&result.outcome);
        if let Err(error) = written {
            finish::withhold(turn, &mut result, error);
        }
        if !matches!(self.record.origin, CallOrigin::Background) {
            telemetry::ended(&result, &self.record.stats, self.record.policy.as_deref());
            if let Some(reservation) = self.record.reservation.take() {
                // The breaker and a middleware may refuse a call after its profile is set.
                let ran = self.record.cx.profile().is_some()
                    && result.execution() != BodyExecution::NotStarted;
                reservation.settle(ran, shown, &turn.run.inner.events);
            }
            finish::emit_finished(turn, &self.record, &result);
        }
        Step::Done(result)
    }
}
