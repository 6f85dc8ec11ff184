//! Nested calls: a body calls another tool of the same snapshot, through the whole pipeline.
//!
//! INVARIANT: a nested call whose caller stops waiting is cancelled; it still ends and is recorded.

use std::sync::Arc;

use haft_core::{
    CallId, Failure, FailureCode, Output, Scope, ToolCall, ToolContext, host::HostContext,
};

use crate::{
    budget::too_deep,
    call::{Parent, RunningCall, TurnCore, launch::launch, validate},
    registry::RegisteredTool,
    taint::record_read,
};

/// Runs a call that a body makes: the whole pipeline, one level deeper. `own` is the tool, if it is
/// not one of the snapshot.
pub(super) async fn nested(
    turn: Arc<TurnCore>,
    cx: ToolContext,
    mut call: ToolCall,
    own: Option<Arc<RegisteredTool>>,
) -> Result<Output, Failure> {
    let Some(profile) = cx.profile().cloned() else {
        return Err(Failure::new(FailureCode::NotRun, "only a running tool can call other tools"));
    };
    let depth = cx.depth().saturating_add(1);
    if depth > turn.run.max_depth {
        return Err(too_deep(cx.depth()));
    }
    let mut scope = Scope::clone(cx.scope());
    scope.depth = depth;
    // The body may pass on what it has read in its other nested calls.
    scope.label = scope.label.join(cx.nested_label());
    let entry = match own {
        Some(own) => Ok(own),
        None => validate::resolve(&turn.snapshot, &call.name),
    };
    let tool_name = entry.as_ref().map_or_else(|_| call.name.clone(), |e| e.name().clone());
    let id = call.id.clone();
    let inner = ToolContext::new(id.clone(), call.name.clone(), tool_name, Arc::clone(&turn) as _)
        .with_scope(scope);
    // The only call of a turn is registered when it waits, and now it waits for this one.
    turn.register_lone(&cx);
    turn.cancellation.add_nested(id.clone(), inner.downgrade());
    let listed = Listed { turn: Arc::clone(&turn), id };
    // The outer call may have been cancelled before this one was listed.
    if let Some((code, why)) = cx.stop_reason() {
        inner.stop(code, why);
    }
    turn.stop_if_halted(&inner);
    let terms = turn.terms();
    let validated =
        entry.and_then(|entry| validate::validate(entry, &mut call, inner.clone(), terms));
    let mut validated = turn.count_invalid_calls(&inner, validated);
    let reservation = turn.reserve_budget(&mut validated, None);
    let deadline = cx.deadline();
    let parent = Arc::new(Parent { cx: cx.clone(), profile, deadline });
    // The call goes on without its caller if that stops waiting; it is cancelled then, and stays
    // listed until it has ended.
    let mut leaving = StopOnDrop(Some((Arc::clone(&turn), inner.clone())));
    let running = RunningCall::new(Arc::clone(&turn), validated, inner, Some(parent), reservation);
    let running = async move {
        let _listed = listed;
        running.await
    };
    let result = launch(running).end().await;
    leaving.0 = None;
    match result {
        Some(result) => {
            cx.add_nested_label(result.label());
            record_read(&turn.run.seen, &result);
            result.into_inner().into_outcome()
        }
        None => Err(Failure::new(
            FailureCode::UnknownOutcome,
            "the task of the nested call ended without a result",
        )),
    }
}

/// Stops a nested call whose caller no longer waits for it.
struct StopOnDrop(Option<(Arc<TurnCore>, ToolContext)>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some((turn, cx)) = self.0.take() {
            turn.stop_body(&cx, FailureCode::Cancelled, "its outer call no longer waits for it");
        }
    }
}

/// A nested call that can be reached while it lasts.
struct Listed {
    turn: Arc<TurnCore>,
    id: CallId,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.turn.cancellation.remove_nested(&self.id);
    }
}
