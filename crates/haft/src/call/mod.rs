//! The call of one call, from validation to result. This file calls the phases in order;
//! phases return data, and this file emits the events and writes the journal.
//!
//! INVARIANT: `walk` always ends in exactly one result and exactly one terminal event.

mod watch;
mod record;
pub(crate) mod validate;
mod check;
mod pre_hooks;
mod authorize;
mod approve;
pub(crate) mod acquire;
mod execute;
mod post_hooks;
mod truncate;
mod sanitize;
mod late;
mod explain;
mod unexplained;

use std::{sync::Arc, time::Instant};

use futures_util::{FutureExt as _, future::Either};
use haft_core::{
    CallProfile, ConcurrencyClass, Execution, Failure, FailureCode, Label, Output, ResultLimit,
    StopReason, ToolContext, host::HostContext,
};
use haft_schema::Unexplained;
use serde_json::Value;
use tracing::Instrument as _;

pub(crate) use self::explain::explain;
pub(crate) use self::late::end_late;
pub(crate) use self::record::add_asides;
pub(crate) use self::sanitize::most_bytes;
pub(crate) use self::validate::{Terms, redactor_of};
pub use self::{authorize::AuthorizedCall, validate::ValidatedCall};
use self::{
    authorize::{Judged, Permit},
    record::Beside,
};
use crate::{
    budget::Held,
    event::{Event, Phase, WaitReason},
    frame::Seal,
    hooks::CompletedCall,
    journal,
    layers::{ExecutionStats, Outcome},
    policy::Explanation,
    telemetry,
    tool_result::{Answer, Origin, ToolResult, Truncation},
    turn::TurnCore,
};

/// A person's edit or a rule's rewrite goes round again; more often than this nobody agrees.
const MAX_ROUNDS: usize = 2;

/// The call that a nested call is part of.
pub(crate) struct Parent {
    pub(crate) cx: ToolContext,
    pub(crate) claim: CallProfile,
    pub(crate) deadline: Option<Instant>,
}

/// Walks one call to its answer, in a span of its own where somebody wants one.
pub(crate) fn walk(
    turn: Arc<TurnCore>,
    admitted: Result<ValidatedCall, Failure>,
    cx: ToolContext,
    parent: Option<Box<Parent>>,
    held: Option<Box<Held>>,
) -> impl Future<Output = Box<ToolResult>> + Send {
    let span = telemetry::call_span(&cx);
    let walk = walked(turn, admitted, cx, parent, held);
    // A span that nobody wants is not even carried.
    match span.is_none() {
        true => Either::Left(walk),
        false => Either::Right(Box::pin(walk.instrument(span))),
    }
}

/// Walks one call to its answer. A call that was not admitted takes the same last steps. What it
/// may use is held already, and what it did not use is given back.
#[expect(clippy::manual_async_fn, reason = "an async function would keep its arguments twice")]
fn walked(
    turn: Arc<TurnCore>,
    admitted: Result<ValidatedCall, Failure>,
    cx: ToolContext,
    parent: Option<Box<Parent>>,
    mut held: Option<Box<Held>>,
) -> impl Future<Output = Box<ToolResult>> + Send {
    async move {
        let began = turn.inner.clock.now();
        let mut seal = Seal::draw(turn.inner.config.frame, &turn.inner.nonces);
        turn.emit(|| Event::Started {
            call: cx.call_id().clone(),
            requested_name: cx.requested_name().clone(),
            tool_name: cx.tool_name().clone(),
            arguments: admitted.as_ref().ok().map(|a| shown(&turn, a)),
            class: admitted.as_ref().ok().map(|a| a.profile().class),
        });
        let mut repairs = admitted.as_ref().ok().and_then(ValidatedCall::shared_repairs);
        if let Some(shown) = repairs.as_deref().and_then(|all| turn.inner.redactor.repairs(all)) {
            repairs = Some(shown.into());
        }
        if let Some(repairs) = &repairs {
            turn.emit(|| Event::Repaired {
                call: cx.call_id().clone(),
                repairs: Arc::clone(repairs),
            });
        }
        let mut beside = Beside::default();
        if !turn.inner.hooks.is_empty()
            && let Ok(admitted) = &admitted
        {
            beside.note(admitted.arguments());
        }
        let unfinished = Unfinished { turn: &turn, cx: &cx, began };
        let entry = admitted.as_ref().ok().map(|admitted| Arc::clone(admitted.tool()));
        let mut file: Option<Box<File>> = None;
        let mut course = ExecutionStats::default();
        let outcome = match admitted {
            Ok(admitted) => {
                let way = Way { beside: &mut beside, file: &mut file, course: &mut course };
                let work = run(&turn, admitted, parent.as_deref(), began, way);
                match std::panic::AssertUnwindSafe(work).catch_unwind().await {
                    Ok(outcome) => outcome,
                    // Bodies, judges and hooks are watched one by one; this is a mistake of ours.
                    Err(_) => Err(Failure::new(
                        FailureCode::UnknownOutcome,
                        "the runtime itself panicked",
                    )),
                }
            }
            Err(failure) if Unexplained::of(&failure).is_some() => {
                let parent = parent.as_deref();
                Err(Box::pin(unexplained::explained(&turn, &cx, parent, began, failure)).await)
            }
            Err(failure) => Err(failure),
        };
        turn.told_all(&cx);
        let bound = entry.as_ref().map(|entry| entry.spec().max_result);
        // A claim is set when the body begins. Before that, all there is to read is the host's or a
        // person's.
        let ran = entry.zip(cx.profile());
        let label = ran
            .as_ref()
            .map_or(Label::CLEAN, |(entry, _)| entry.spec().label.join(cx.nested_label()));
        let (outcome, altered) = sanitize::washed_off_executor(outcome, &turn.inner).await;
        let (outcome, cut) = match truncate::is_over(&outcome, bound, &turn.inner.config) {
            // Few results are so large; the others do not carry the room for this.
            true => Box::pin(keep_aside(&turn, &cx, label, outcome, bound)).await,
            false => (outcome, None),
        };
        let (outcome, cut) =
            sanitize::shape(outcome, cut, bound, held.as_deref_mut(), &cx, &turn.inner);
        turn.passed(&cx, Phase::Shape);
        let mut instead_by = file.as_ref().and_then(|file| file.instead_by());
        if course.answered_by.is_some() && matches!(outcome, Answer::Output(_)) {
            instead_by = course.instead_by();
        }
        seal.settle(label, matches!(outcome, Answer::Failure { .. }), altered);
        // Boxed, because an answer is handed on several times before the caller has it.
        let mut envelope = Box::new(ToolResult {
            id: cx.call_id().clone(),
            requested_name: cx.requested_name().clone(),
            tool_name: cx.tool_name().clone(),
            label,
            origin: ran.as_ref().map(|(entry, claim)| Origin {
                tool: cx.tool_name().clone(),
                source: Arc::clone(entry.shared_source()),
                effects: turn.inner.redactor.effects(&claim.effects),
            }),
            instead_by,
            cut,
            outcome,
            repairs,
            tier: cx.tier(),
            left: None,
            elapsed: turn.inner.clock.now().saturating_duration_since(began),
            seal,
        });
        let shown = sanitize::bytes_shown(&envelope.outcome);
        beside.put(&mut envelope, parent.is_none(), &turn.inner.redactor);
        settle(&turn, &cx, &mut envelope, file.as_deref(), (course.clone(), began)).await;
        telemetry::ended(&envelope, &course, file.as_deref());
        if let Some(held) = held {
            held.settle(cx.profile().is_some(), shown, &turn.inner.events);
        }
        std::mem::forget(unfinished);
        tell_finished(&turn, &cx, &envelope);
        envelope
    }
}

/// The arguments of a call as they may be shown.
fn shown(turn: &TurnCore, call: &ValidatedCall) -> Arc<Value> {
    turn.inner.redactor.arguments(call.tool().input(), call.arguments())
}

/// Keeps a result aside that is too large to show, and tells where it is.
async fn keep_aside(
    turn: &TurnCore,
    cx: &ToolContext,
    label: Label,
    outcome: Outcome,
    bound: Option<ResultLimit>,
) -> (Outcome, Option<Box<Truncation>>) {
    let Ok(output) = outcome else { return (outcome, None) };
    let aside = truncate::set_aside(turn, cx, label, output, bound.unwrap_or_default()).await;
    for (facts, shown) in aside.kept {
        let call = cx.call_id().clone();
        turn.emit(|| Event::ResultOffloaded { call, shown, facts: Arc::new(facts) });
    }
    (Ok(aside.output), Some(Box::new(aside.cut)))
}

/// What is collected on the way.
struct Way<'a> {
    beside: &'a mut Beside,
    file: &'a mut Option<Box<File>>,
    course: &'a mut ExecutionStats,
}

/// From an admitted call to the outcome of its body, or to why there is none.
#[expect(clippy::manual_async_fn, reason = "an async function would keep its arguments twice")]
fn run<'a>(
    turn: &'a Arc<TurnCore>,
    mut admitted: ValidatedCall,
    parent: Option<&'a Parent>,
    began: Instant,
    way: Way<'a>,
) -> impl Future<Output = Outcome> + Send + 'a {
    async move {
        let Way { beside, file, course } = way;
        if let Some(answer) = admitted.take_answer() {
            return answer;
        }
        // Most calls are cleared without anyone having to wait; the others pay for a box, and their
        // time counts from their permission on.
        let (permitted, mut from) = match authorize::at_once(turn, admitted) {
            Ok(permitted) => (permitted, began),
            Err(admitted) => match Box::pin(clear(turn, admitted, beside, file)).await? {
                Cleared::Permitted(permitted) => (permitted, turn.inner.clock.now()),
                Cleared::Instead(text) => return Ok(Output::text(text)),
            },
        };
        let admitted = permitted.admitted();
        let (entry, claim, cx) = (admitted.tool(), admitted.profile(), admitted.context());
        beside.add(admitted.asides());
        let performed = (!turn.inner.hooks.is_empty()).then(|| {
            let arguments = Arc::clone(admitted.arguments());
            beside.note(&arguments);
            Box::new(CompletedCall { tool: Arc::clone(entry), arguments, cx: cx.clone() })
        });
        turn.emit(|| Event::Permitted {
            call: cx.call_id().clone(),
            verdict: permitted.verdict().clone(),
        });
        // Before the message has ended only plain reads may start.
        if turn.end.get() != Some(StopReason::Done) && claim.class != ConcurrencyClass::ReadOnly {
            Box::pin(telemetry::waiting("message", message_end(turn, cx))).await?;
            turn.passed(cx, Phase::Message);
            from = turn.inner.clock.now();
        }
        let config = &turn.inner.config;
        let own = permitted.admitted().limits().and_then(|limits| limits.deadline);
        let time = own.or(entry.spec().deadline).unwrap_or(config.deadline);
        let mut deadline = watch::after(from, time);
        if let Some(outer) = parent.and_then(|p| p.deadline) {
            deadline = deadline.min(outer);
        }
        if let Some(ledger) = &turn.run.ledger {
            ledger.has_time()?;
            deadline = ledger.until().map_or(deadline, |until| deadline.min(until));
        }
        cx.set_deadline(deadline);
        let entered = match acquire::at_once(turn, entry, claim, cx, parent) {
            Some(entered) => entered,
            None => {
                let since = turn.inner.clock.now();
                let wait = acquire::enter(turn, entry, claim, cx, parent, deadline);
                let entered = Box::pin(telemetry::waiting("place", wait)).await;
                let time = turn.inner.clock.now().saturating_duration_since(since);
                course.waited = time;
                if !time.is_zero() {
                    let call = || cx.call_id().clone();
                    turn.emit(|| Event::Waited { call: call(), what: WaitReason::Place, time });
                }
                turn.passed(cx, Phase::Gate);
                entered?
            }
        };
        // The message may have ended badly while the call waited; what has not begun does not begin.
        if parent.is_none()
            && let Some(why) = turn.end.get().and_then(StopReason::why_not)
        {
            return Err(not_run(why));
        }
        let intent = journal::intend(&turn.inner, &permitted, began).await?;
        if intent.took_time() {
            may_start(turn, cx)?;
            if turn.inner.clock.now() >= deadline {
                return Err(Failure::new(
                    FailureCode::DeadlinePassed,
                    "the deadline of the call passed while it was journaled; the tool was not run",
                ));
            }
        }
        let outcome = execute::perform(turn, permitted, intent, entered, deadline, course).await;
        let Some(performed) = performed else { return outcome };
        let outcome = Box::pin(post_hooks::after(&turn.inner, &performed, outcome, beside)).await;
        turn.passed(&performed.cx, Phase::After);
        heed(turn, &performed.cx, beside);
        outcome
    }
}

/// What is on file about how a call was judged, for its record. Calls that the rules allow unasked
/// need none.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) verdict: haft_core::Verdict,
    pub(crate) explanation: Arc<Explanation>,
    /// Who answered, where somebody was asked.
    pub(crate) answered_by: Option<Arc<str>>,
    /// Whether the answer stands in for the tool's own.
    is_instead: bool,
}

impl File {
    fn new(verdict: haft_core::Verdict, explanation: &Arc<Explanation>) -> Box<Self> {
        let explanation = Arc::clone(explanation);
        Box::new(Self { verdict, explanation, answered_by: None, is_instead: false })
    }

    fn instead_by(&self) -> Option<Arc<str>> {
        self.answered_by.clone().filter(|_| self.is_instead)
    }
}

/// A call that is cleared: it may run, or a person has answered in its place.
enum Cleared {
    Permitted(AuthorizedCall),
    Instead(String),
}

/// Check, hooks, judgement; a change goes round again, at most twice.
async fn clear(
    turn: &TurnCore,
    mut admitted: ValidatedCall,
    beside: &mut Beside,
    file: &mut Option<Box<File>>,
) -> Result<Cleared, Failure> {
    for _ in 0..=MAX_ROUNDS {
        if turn.is_stopped(admitted.context()) {
            return Err(turn.why_stopped(admitted.context()));
        }
        check::check(turn, &admitted).await?;
        let cx = admitted.context().clone();
        turn.passed(&cx, Phase::Check);
        let said = pre_hooks::before(turn, admitted, beside).await;
        if !turn.inner.hooks.is_empty() {
            turn.passed(&cx, Phase::Before);
        }
        heed(turn, &cx, beside);
        admitted = said?;
        let mut permit = authorize::permit(turn, admitted).await?;
        if let Permit::Ask(call, judged) = permit {
            // Few calls are asked about; the others do not carry the room for it.
            let asked = telemetry::waiting("approval", approve::ask(turn, call, judged, file));
            permit = Box::pin(asked).await?;
        }
        match permit {
            Permit::Granted(permitted) => return Ok(Cleared::Permitted(permitted)),
            Permit::Instead(text) => return Ok(Cleared::Instead(text)),
            Permit::Refused(call, judged) => {
                refuse(turn, &call, &judged, file);
                return Err(authorize::refused(&judged.verdict));
            }
            Permit::Rewritten(again) => {
                turn.emit(|| Event::Rewritten {
                    call: again.context().call_id().clone(),
                    arguments: shown(turn, &again),
                });
                admitted = again;
            }
            Permit::Again(again) | Permit::Ask(again, _) => admitted = again,
        }
    }
    Err(unsettled())
}

/// The failure of a call about which nobody agrees.
fn unsettled() -> Failure {
    Failure::new(
        FailureCode::Denied,
        "the call, or the state its authorization depends on, changed each time it was authorized, so the tool was not run",
    )
    .with_next(authorize::NEXT)
}

/// Tells and notes that a call is refused, and why.
fn refuse(turn: &TurnCore, call: &ValidatedCall, judged: &Judged, file: &mut Option<Box<File>>) {
    let verdict = judged.verdict.clone();
    let explanation = authorize::explain(turn, call, judged);
    let verdict = turn.inner.redactor.verdict(verdict);
    *file = Some(File::new(verdict.clone(), &explanation));
    let call = call.context().call_id().clone();
    turn.emit(|| Event::Refused { call, verdict, explanation });
}

/// Tells what hooks could not look at, and halts the run if one wants that.
fn heed(turn: &TurnCore, cx: &ToolContext, beside: &mut Beside) {
    for (hook, why) in beside.problems() {
        turn.emit(|| Event::HookFailedOpen {
            run: cx.run_id().clone(),
            call: Some(cx.call_id().clone()),
            hook,
            why,
        });
    }
    if let Some(reason) = beside.halt() {
        turn.run.halt(&reason);
    }
}

/// Refuses a call that was stopped, or whose message ended badly, before its body begins.
fn may_start(turn: &TurnCore, cx: &ToolContext) -> Result<(), Failure> {
    if turn.is_stopped(cx) {
        return Err(turn.why_stopped(cx));
    }
    match turn.end.get().and_then(StopReason::why_not) {
        Some(why) => Err(not_run(why)),
        None => Ok(()),
    }
}

/// Waits until the model's message has ended, and refuses if it ended badly.
async fn message_end(turn: &TurnCore, cx: &ToolContext) -> Result<(), Failure> {
    let stop = tokio::select! {
        biased;
        stop = turn.end.wait() => stop,
        () = cx.cancelled() => return Err(turn.why_stopped(cx)),
        () = turn.interrupted(cx) => return Err(turn.why_stopped(cx)),
    };
    match stop.why_not() {
        None => Ok(()),
        Some(why) => Err(not_run(why)),
    }
}

/// The failure of a call whose message ended badly.
pub(crate) fn not_run(why: &str) -> Failure {
    Failure::new(FailureCode::NotRun, why).with_next("make the calls again in a complete message")
}

/// Writes down how the call ended; what cannot be written down is not told as if it were.
async fn settle(
    turn: &TurnCore,
    cx: &ToolContext,
    envelope: &mut ToolResult,
    file: Option<&File>,
    (course, began): (ExecutionStats, Instant),
) {
    let ran = envelope.execution();
    let written = journal::settle(&turn.inner, cx, envelope, file, (course, began)).await;
    let Err(error) = written else { return };
    let failure = Failure::new(
        FailureCode::Unrecorded,
        "the call ended, but the journal could not record its outcome, so its result is withheld",
    )
    .with_execution(ran)
    .with_source(error);
    let failure = turn.inner.redactor.failure(failure);
    envelope.outcome = Answer::Failure { failure, interrupted_output: String::new() };
    envelope.cut = None;
    envelope.seal.settle(envelope.label, true, 0);
}

fn tell_finished(turn: &TurnCore, cx: &ToolContext, envelope: &ToolResult) {
    turn.emit(|| Event::Finished {
        call: cx.call_id().clone(),
        tool_name: cx.tool_name().clone(),
        failed: envelope.failure().map(Failure::code),
        cause: envelope.failure().and_then(Failure::cause),
        execution: envelope.execution(),
        elapsed: envelope.elapsed,
    });
}

/// Tells the terminal event of a call that cannot even begin its walk.
pub(crate) fn tell_unfinished(turn: &TurnCore, cx: &ToolContext, failure: &Failure) {
    turn.emit(|| Event::Finished {
        call: cx.call_id().clone(),
        tool_name: cx.tool_name().clone(),
        failed: Some(failure.code()),
        cause: failure.cause(),
        execution: failure.execution(),
        elapsed: std::time::Duration::ZERO,
    });
}

/// Tells the terminal event of a walk that is dropped, as when the async runtime shuts down.
struct Unfinished<'a> {
    turn: &'a TurnCore,
    cx: &'a ToolContext,
    began: Instant,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        telemetry::dropped();
        self.turn.emit(|| Event::Finished {
            call: self.cx.call_id().clone(),
            tool_name: self.cx.tool_name().clone(),
            failed: Some(FailureCode::UnknownOutcome),
            cause: Some("the call was dropped before its end".to_owned()),
            execution: Execution::Unknown,
            elapsed: self.turn.inner.clock.now().saturating_duration_since(self.began),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of what a function of five arguments returns.
    fn size<A, B, C, D, E, F>(_: impl Fn(A, B, C, D, E) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_walk_of_a_call_is_small() {
        // It is made, boxed and moved for every call. What most calls never wait for is boxed. Beyond
        // a kilobyte the usual allocators take a longer way.
        let size = size(walk);
        assert!(size <= 960, "{size} bytes");
    }
}
