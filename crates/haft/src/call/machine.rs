//! `CallMachine`: the pipeline of one call, from its validation to its result.
//!
//! It is synchronous and does no I/O. `advance` runs plain code until the call is finished or has
//! to wait for something outside (`Need`). A driver satisfies the need and reports the `Input`.
//! This file puts the phases in order; each phase is a file of its own, and phases do not call each
//! other.
//!
//! ```text
//! check > pre hooks > rules, guards > approval > message end > acquire > intent > execute
//!       > post hooks > sanitize > truncate > outcome
//! ```
//!
//! The phases are inlined into `advance`, so that the code of a call that does not wait is in one
//! piece. A function that ends in `_later` is the same phase, entered after a wait: it is not
//! inlined, so that the piece stays small (docs/design/speed.md).
//!
//! INVARIANT: every machine ends in exactly one `ToolResult` and exactly one terminal event.
//! INVARIANT: a body is requested only with an `AuthorizedCall` and a journaled intent.

mod authorization;
mod park;

use std::{sync::Arc, time::Instant};

use haft_core::{Execution as BodyExecution, Failure, FailureCode, ToolContext};
use haft_schema::Unexplained;

use self::authorization::{Asking, Queued};
pub(crate) use self::park::{Restored, Resume, restore};
use super::{
    approve::{self, OpenApproval},
    authorize::{self, AuthorizedCall, GuardId, Guarding},
    check,
    execute::{Execution, PreparedExecution},
    pre_hooks,
    record::{CallOrigin, CallRecord, Parent},
    step::{Input, Need, Step},
    validate::ValidatedCall,
};
pub(super) use crate::budget::BudgetReservation;
use crate::{
    call::TurnCore,
    event::{Event, Phase as EventPhase},
    hooks::CompletedCall,
    host_code::Stopped,
    journal::{CallIntent, CallOutcome},
    outcome::Outcome,
    tool_result::BoxedResult,
};

/// A person's edit or a rule's rewrite starts another round; a call has at most this many more.
pub(super) const MAX_ROUNDS: u8 = 2;

/// The pipeline of one call.
pub(crate) struct CallMachine {
    pub(super) phase: Phase,
    pub(super) round: u8,
    pub(super) record: CallRecord,
    /// The call in `Phase::Intent`.
    pub(super) prepared: Option<PreparedExecution>,
    /// The call in `Phase::Execute`.
    pub(super) execution: Option<Execution>,
    /// How a resumed call goes on.
    pub(super) resume: Option<Box<Resume>>,
}

/// Where a call is. A phase has what it needs when its need is satisfied. It is moved with every
/// step, so what few calls have is boxed.
pub(super) enum Phase {
    Start(Result<ValidatedCall, Failure>),
    Explain,
    Check(AfterCheck),
    PreHook(usize),
    Guard(Box<(GuardId, Guarding, Queued)>),
    /// Waits for the end of the message before an approver is asked.
    MessageBeforeApproval(Box<(Asking, Instant)>),
    ApprovalQueue(Box<(Asking, Instant, bool)>),
    Approval(Arc<OpenApproval>),
    /// Waits for the end of the message before the body runs.
    Message(AuthorizedCall),
    /// The call, its deadline, and since when it waits.
    Acquire(Box<(Arc<AuthorizedCall>, Instant, Instant)>),
    Intent,
    Execute,
    PostHook(usize, BodyExecution, Arc<CompletedCall>),
    Sanitize,
    Truncate(usize),
    Outcome(BoxedResult),
    Taken,
}

/// What follows a check.
#[derive(Clone, Copy)]
pub(super) enum AfterCheck {
    /// The first of the pre hooks.
    PreHooks,
    /// The pre hook after the one that changed the arguments.
    NextPreHook(usize),
}

impl CallMachine {
    /// Makes the machine of a call.
    #[inline]
    pub(crate) fn new(
        turn: &TurnCore,
        call: Result<ValidatedCall, Failure>,
        cx: ToolContext,
        parent: Option<Arc<Parent>>,
        reservation: Option<Box<BudgetReservation>>,
    ) -> Self {
        let origin = parent.map_or(CallOrigin::Model, CallOrigin::Nested);
        let tool = call.as_ref().ok().map(|call| Arc::clone(call.tool()));
        let record = CallRecord::new(turn, cx, origin, tool, reservation);
        Self::at(Phase::Start(call), record)
    }

    /// Makes the machine for the late result of a call: its last phases.
    pub(crate) fn for_task(
        turn: &TurnCore,
        completed: Arc<CompletedCall>,
        outcome: Outcome,
        began: Instant,
    ) -> (Self, Step) {
        let cx = completed.cx.clone();
        let tool = Some(Arc::clone(&completed.tool));
        let mut record = CallRecord::new(turn, cx, CallOrigin::Background, tool, None);
        record.began = began;
        let mut machine = Self::at(Phase::Taken, record);
        let completed = (!turn.run.inner.hooks.is_empty()).then_some(completed);
        let step = machine.post_hooks(turn, completed, 0, outcome);
        (machine, step)
    }

    fn at(phase: Phase, record: CallRecord) -> Self {
        Self { phase, round: 0, record, prepared: None, execution: None, resume: None }
    }

    /// Returns the facts about the call.
    pub(crate) fn facts(&self) -> &CallRecord {
        &self.record
    }

    /// Runs plain code until the call is finished or has to wait for something outside.
    pub(crate) fn advance(&mut self, turn: &Arc<TurnCore>, input: Input) -> Step {
        match std::mem::replace(&mut self.phase, Phase::Taken) {
            Phase::Start(call) => self.start(turn, call),
            Phase::Intent => self.intent_answered(turn, input),
            Phase::Outcome(result) => self.outcome_answered(turn, result, input),
            Phase::Execute => self.execution_answered(turn, input),
            phase => self.waited(turn, phase, input),
        }
    }

    /// Advances a call that has waited for something before its locks, or for a hook.
    #[inline(never)]
    fn waited(&mut self, turn: &Arc<TurnCore>, phase: Phase, input: Input) -> Step {
        match (phase, input) {
            (Phase::Explain, Input::Explained(failure)) => self.outcome_of(turn, Err(failure)),
            (Phase::Check(then), Input::Checked(call, checked)) => match check::passed(Ok(checked))
            {
                Ok(()) => self.checked_later(turn, call, then),
                Err(failure) => self.not_checked(turn, failure, then),
            },
            (Phase::Check(then), Input::Stopped(stopped)) => {
                let failure = check::passed(Err(stopped)).err().unwrap_or_else(lost);
                self.not_checked(turn, failure, then)
            }
            (Phase::PreHook(at), Input::PreHook(call, answer)) => {
                self.pre_hook(turn, at, Ok((call, *answer)))
            }
            (Phase::PreHook(at), Input::Stopped(stopped)) => self.pre_hook(turn, at, Err(stopped)),
            (Phase::Guard(guarded), Input::Guard(call, answer)) => {
                let (guard, mut guarding, queued) = *guarded;
                match guarding.take(turn, guard, Ok(*answer)) {
                    Ok(()) => self.guard(turn, call, guarding, queued),
                    Err(failure) => self.outcome_of(turn, Err(failure)),
                }
            }
            (Phase::Guard(guarded), Input::Stopped(stopped)) => {
                let (guard, mut guarding, _) = *guarded;
                let failure = guarding.take(turn, guard, Err(stopped)).err().unwrap_or_else(lost);
                self.outcome_of(turn, Err(failure))
            }
            (Phase::MessageBeforeApproval(asking), Input::MessageEnd(stop)) => {
                let (asking, since) = *asking;
                match stop.why_not() {
                    None => self.ask(turn, asking, since, true),
                    Some(why) => self.outcome_of(turn, Err(not_run(why))),
                }
            }
            (Phase::ApprovalQueue(asking), Input::ApprovalPermit(permit)) => {
                let (asking, since, waited) = *asking;
                self.queued(turn, asking, (permit, since), waited)
            }
            (Phase::ApprovalQueue(asking), Input::Stopped(Stopped::Parked)) => {
                let ((call, assessment), ..) = *asking;
                self.park_question(turn, &call, &assessment.verdict)
            }
            (Phase::Approval(open), Input::Answer(answer)) => {
                // The future of the question is gone, so this is the only reference.
                let applied = match Arc::into_inner(open) {
                    Some(open) => approve::answer(turn, &mut self.record, open, *answer),
                    None => Err(lost()),
                };
                self.authorized(turn, applied, None)
            }
            (Phase::Approval(open), Input::Stopped(Stopped::Parked)) => {
                let (call, verdict) = open.asked();
                self.park_question(turn, call, verdict)
            }
            (Phase::Approval(_), Input::Stopped(stopped)) => {
                let failure = approve::unanswered(&self.record, stopped);
                self.outcome_of(turn, Err(failure))
            }
            (phase, input) => self.advance_execution(turn, phase, input),
        }
    }

    /// Ends a call whose machine panicked: a mistake of ours, and the outcome is unknown.
    pub(crate) fn panicked(&mut self, turn: &Arc<TurnCore>) -> Step {
        self.phase = Phase::Taken;
        self.release();
        self.outcome_of(turn, Err(lost()))
    }

    /// Returns the intent that is to be written.
    pub(crate) fn intent<'a>(&'a self, turn: &'a TurnCore) -> Option<CallIntent<'a>> {
        let prepared = self.prepared.as_ref()?;
        Some(CallIntent::of(&turn.run.inner.redactor, prepared.call(), self.record.began))
    }

    /// Returns the execution that is to be driven to its outcome.
    pub(crate) fn execution_mut(&mut self) -> Option<&mut Execution> {
        self.execution.as_mut()
    }

    /// Takes an execution that goes through middleware. It comes back with its outcome.
    pub(crate) fn take_execution(&mut self) -> Option<Box<Execution>> {
        self.execution.take().map(Box::new)
    }

    /// Returns the outcome that is to be written.
    pub(crate) fn outcome(&self) -> Option<CallOutcome<'_>> {
        let Phase::Outcome(result) = &self.phase else { return None };
        Some(CallOutcome::of(&self.record, result))
    }

    /// Drops a call that does not go on: its locks are free before it has its result.
    pub(super) fn release(&mut self) {
        (self.prepared, self.execution) = (None, None);
    }

    pub(super) fn wait(&mut self, phase: Phase, need: Need) -> Step {
        self.phase = phase;
        Step::Wait(need)
    }

    #[inline(always)]
    fn start(&mut self, turn: &Arc<TurnCore>, call: Result<ValidatedCall, Failure>) -> Step {
        let cx = &self.record.cx;
        turn.emit_of(&self.record, || Event::Started {
            call: cx.call_id().clone(),
            requested_name: cx.requested_name().clone(),
            tool_name: cx.tool_name().clone(),
            arguments: call.as_ref().ok().map(|call| turn.shown(call)),
            class: call.as_ref().ok().map(|call| call.profile().class),
        });
        let mut call = match call {
            Ok(call) => call,
            Err(failure) if Unexplained::of(&failure).is_some() => {
                return self.wait(Phase::Explain, Need::Explain(failure));
            }
            Err(failure) => return self.outcome_of(turn, Err(failure)),
        };
        self.record.repairs = call.shared_repairs().map(Arc::clone);
        if let Some(repairs) = &self.record.repairs {
            let shown = turn.run.inner.redactor.repairs(repairs);
            let repairs = shown.map_or_else(|| Arc::clone(repairs), Into::into);
            self.record.repairs = Some(Arc::clone(&repairs));
            let call = || self.record.cx.call_id().clone();
            turn.emit_of(&self.record, || Event::Repaired { call: call(), repairs });
        }
        if !turn.run.inner.hooks.is_empty() {
            self.record.notes.set_arguments(call.arguments());
        }
        if let Some(answer) = call.take_answer() {
            return self.outcome_of(turn, answer);
        }
        if turn.is_parking() || self.resume.is_some() {
            return self.start_parked(turn, call);
        }
        self.round(turn, call)
    }

    #[inline(never)]
    pub(super) fn round_later(&mut self, turn: &Arc<TurnCore>, call: ValidatedCall) -> Step {
        self.round(turn, call)
    }

    #[inline(never)]
    fn check_later(&mut self, turn: &Arc<TurnCore>, call: ValidatedCall, then: AfterCheck) -> Step {
        self.check(turn, call, then)
    }

    #[inline(never)]
    fn checked_later(
        &mut self,
        turn: &Arc<TurnCore>,
        call: ValidatedCall,
        then: AfterCheck,
    ) -> Step {
        self.checked(turn, call, then)
    }

    /// Check, hooks, authorization. A change of the arguments starts another round.
    #[inline(always)]
    pub(super) fn round(&mut self, turn: &Arc<TurnCore>, call: ValidatedCall) -> Step {
        if turn.is_stopped(call.context()) {
            return self.outcome_of(turn, Err(turn.why_stopped(call.context())));
        }
        self.check(turn, call, AfterCheck::PreHooks)
    }

    pub(super) fn again(&mut self, turn: &Arc<TurnCore>, call: ValidatedCall) -> Step {
        if self.round >= MAX_ROUNDS {
            return self.outcome_of(turn, Err(unsettled()));
        }
        self.round += 1;
        self.round_later(turn, call)
    }

    #[inline(always)]
    fn check(&mut self, turn: &Arc<TurnCore>, call: ValidatedCall, then: AfterCheck) -> Step {
        if call.tool().body().checks() {
            return self.wait(Phase::Check(then), Need::Check(call));
        }
        self.checked(turn, call, then)
    }

    #[inline(always)]
    fn checked(&mut self, turn: &Arc<TurnCore>, mut call: ValidatedCall, then: AfterCheck) -> Step {
        match then {
            AfterCheck::PreHooks => {
                if call.tool().body().checks() {
                    turn.passed(&self.record, EventPhase::Check);
                }
                if turn.run.inner.hooks.is_empty() {
                    return self.authorize(turn, call, None);
                }
                // In another round the hooks run again, so their answers of the last one are void.
                call.forget_opinions();
                self.record.notes.clear_texts();
                self.pre_hooks(turn, call, 0)
            }
            AfterCheck::NextPreHook(at) => self.pre_hooks(turn, call, at),
        }
    }

    fn not_checked(&mut self, turn: &Arc<TurnCore>, failure: Failure, then: AfterCheck) -> Step {
        if let AfterCheck::NextPreHook(_) = then {
            self.pre_hooks_done(turn);
        }
        self.outcome_of(turn, Err(failure))
    }

    fn pre_hooks(&mut self, turn: &Arc<TurnCore>, call: ValidatedCall, from: usize) -> Step {
        match pre_hooks::next(&turn.run.inner.hooks, from, &call) {
            Ok(Some(at)) => self.wait(Phase::PreHook(at), Need::PreHook(call, at)),
            Ok(None) => {
                self.pre_hooks_done(turn);
                self.authorize_later(turn, call, None)
            }
            Err(failure) => {
                self.pre_hooks_done(turn);
                self.outcome_of(turn, Err(failure))
            }
        }
    }

    fn pre_hook(&mut self, turn: &Arc<TurnCore>, at: usize, answer: pre_hooks::Answer) -> Step {
        match pre_hooks::apply(&turn.run.inner.hooks[at], answer, &mut self.record.notes) {
            Ok((call, true)) => self.check_later(turn, call, AfterCheck::NextPreHook(at + 1)),
            Ok((call, false)) => self.pre_hooks(turn, call, at + 1),
            Err(failure) => {
                self.pre_hooks_done(turn);
                self.outcome_of(turn, Err(failure))
            }
        }
    }

    fn pre_hooks_done(&mut self, turn: &TurnCore) {
        turn.passed(&self.record, EventPhase::PreHooks);
        self.apply_hook_effects(turn);
    }

    /// Reports what hooks could not look at, and halts the run if a hook wants that.
    pub(super) fn apply_hook_effects(&mut self, turn: &TurnCore) {
        let cx = &self.record.cx;
        for (hook, why) in self.record.notes.take_problems() {
            turn.emit(|| Event::HookFailedOpen {
                run: cx.run_id().clone(),
                call: Some(cx.call_id().clone()),
                hook,
                why,
            });
        }
        if let Some(reason) = self.record.notes.take_halt() {
            turn.run.halt(&reason);
        }
    }
}

/// The failure of a call that our own code lost.
pub(super) fn lost() -> Failure {
    Failure::new(FailureCode::UnknownOutcome, "the runtime itself panicked")
}

/// The failure of a call whose authorization does not come to an end.
pub(super) fn unsettled() -> Failure {
    Failure::new(
        FailureCode::Denied,
        "the call, or the state its authorization depends on, changed each time it was authorized, so the tool was not run",
    )
    .with_next(authorize::NEXT)
}

/// The failure of a call whose message was truncated or refused.
pub(crate) fn not_run(why: &str) -> Failure {
    Failure::new(FailureCode::NotRun, why).with_next("make the calls again in a complete message")
}
