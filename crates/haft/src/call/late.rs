//! The last steps of background work: transforms, shaping, record. The same as for a call, under an
//! id of its own.

use std::time::Instant;

use super::{heed, keep_aside, post_hooks, record::Beside, sanitize, settle, truncate};
use crate::{
    frame::Seal,
    hooks::CompletedCall,
    layers::{ExecutionStats, Outcome},
    tool_result::{Answer, Origin, ToolResult},
    turn::TurnCore,
};
use haft_core::host::HostContext;

/// Makes the answer of late work, and writes it down.
pub(crate) async fn end_late(
    turn: &TurnCore,
    performed: &CompletedCall,
    outcome: Outcome,
    began: Instant,
) -> ToolResult {
    let (cx, tool, inner) = (&performed.cx, &performed.tool, &turn.inner);
    let mut beside = Beside::default();
    let outcome = match inner.hooks.is_empty() {
        true => outcome,
        false => post_hooks::after(inner, performed, outcome, &mut beside).await,
    };
    heed(turn, cx, &mut beside);
    let mut seal = Seal::draw(inner.config.frame, &inner.nonces);
    let label = tool.spec().label.join(cx.nested_label());
    let bound = Some(tool.spec().max_result);
    let (outcome, altered) = sanitize::washed_off_executor(outcome, inner).await;
    let (outcome, cut) = match truncate::is_over(&outcome, bound, &inner.config) {
        true => keep_aside(turn, cx, label, outcome, bound).await,
        false => (outcome, None),
    };
    let (outcome, cut) = sanitize::shape(outcome, cut, bound, None, cx, inner);
    seal.settle(label, matches!(outcome, Answer::Failure { .. }), altered);
    let effects =
        cx.profile().map(|claim| inner.redactor.effects(&claim.effects)).unwrap_or_default();
    let mut envelope = ToolResult {
        id: cx.call_id().clone(),
        requested_name: cx.requested_name().clone(),
        tool_name: cx.tool_name().clone(),
        label,
        origin: Some(Origin {
            tool: cx.tool_name().clone(),
            source: std::sync::Arc::clone(tool.shared_source()),
            effects,
        }),
        instead_by: None,
        cut,
        outcome,
        repairs: None,
        tier: cx.tier(),
        left: None,
        elapsed: inner.clock.now().saturating_duration_since(began),
        seal,
    };
    beside.put(&mut envelope, true, &inner.redactor);
    settle(turn, cx, &mut envelope, None, (ExecutionStats::default(), began)).await;
    envelope
}
