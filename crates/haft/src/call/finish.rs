//! Makes the result of a call: label, size, origin, notes of the host, and the terminal event.
//!
//! In: a sanitized outcome within the tool's limit, and the facts about the call. Out: the
//! `ToolResult`.

use haft_core::{BoxError, Failure, FailureCode, Label, ResultLimit, host::HostContext};

use super::{
    record::{CallOrigin, CallRecord},
    sanitize,
};
use crate::{
    call::TurnCore,
    event::{Event, Phase},
    outcome::Outcome,
    tool_result::{Answer, BoxedResult, Origin, ToolResult, Truncation},
};

/// Returns the tool's limit on its results; `None` for a call that was never valid.
#[inline(always)]
pub(super) fn result_limit(record: &CallRecord) -> Option<ResultLimit> {
    record.tool.as_ref().map(|tool| tool.spec().max_result)
}

/// Returns the taint label of the result. Content that no body produced comes from the host or a
/// person, and is clean. The profile is set when the body starts.
#[inline(always)]
pub(super) fn label(record: &CallRecord) -> Label {
    match (&record.tool, record.cx.profile()) {
        (Some(tool), Some(_)) => tool.spec().label.join(record.cx.nested_label()),
        _ => Label::CLEAN,
    }
}

/// Makes the result. Boxed, because it is moved several times before the caller has it.
#[inline(always)]
pub(super) fn result(
    turn: &TurnCore,
    record: &mut CallRecord,
    outcome: Outcome,
    truncation: Option<Box<Truncation>>,
    altered: usize,
) -> BoxedResult {
    let inner = &turn.run.inner;
    let (limit, label) = (result_limit(record), label(record));
    let reservation = record.reservation.as_deref_mut();
    let (outcome, cut) =
        sanitize::within_budget(outcome, truncation, limit, reservation, &record.cx, inner);
    let is_task = matches!(record.origin, CallOrigin::Background);
    if !is_task {
        turn.passed(record, Phase::Sanitize);
    }
    let is_failure = matches!(outcome, Answer::Failure { .. });
    record.frame.settle(label, is_failure, altered);
    let cx = &record.cx;
    let origin = record
        .tool
        .take()
        .zip(cx.profile())
        .map(|(tool, profile)| Origin { tool, effects: inner.redactor.effects(&profile.effects) });
    let mut result = BoxedResult::make(|| ToolResult {
        id: cx.call_id().clone(),
        requested_name: cx.requested_name().clone(),
        tool_name: cx.tool_name().clone(),
        label,
        origin,
        replaced_by: record.replaced_by(!is_failure),
        truncation: cut,
        outcome,
        repairs: record.repairs.clone(),
        tier: cx.tier(),
        left: None,
        elapsed: record.moment(turn).saturating_duration_since(record.began),
        seal: record.frame,
    });
    let for_model = record.parent().is_none();
    record.notes.move_to(&mut result, for_model, &inner.redactor);
    result
}

/// Replaces a result whose outcome the journal could not write: it is not reported as if it were.
pub(super) fn withhold(turn: &TurnCore, result: &mut ToolResult, error: BoxError) {
    let failure = Failure::new(
        FailureCode::Unrecorded,
        "the call ended, but the journal could not record its outcome, so its result is withheld",
    )
    .with_execution(result.execution())
    .with_source(error);
    let failure = turn.run.inner.redactor.failure(failure);
    result.outcome = Answer::Failure { failure, interrupted_output: String::new() };
    result.truncation = None;
    result.seal.settle(result.label, true, 0);
}

/// Emits the terminal event.
pub(super) fn emit_finished(turn: &TurnCore, record: &CallRecord, result: &ToolResult) {
    turn.emit_of(record, || Event::Finished {
        call: record.cx.call_id().clone(),
        tool_name: record.cx.tool_name().clone(),
        failed: result.failure().map(Failure::code),
        cause: result.failure().and_then(Failure::cause),
        execution: result.execution(),
        elapsed: result.elapsed,
    });
}
