//! The work behind a task: a task of its own, with timeout and cancellation, whose panic is a
//! failure.
//!
//! It keeps the resource keys and the tool slot of its call, because it still acts for that call.
//! It releases the concurrency slot and the run's scheduler lock: those order the calls of a turn,
//! and background work would block them until it ends.
//!
//! INVARIANT: `cancelled` is reported only if the end of the work was observed.

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Instant};

use futures_util::FutureExt as _;
use haft_core::{
    BoxFuture, Execution, Failure, FailureCode, ToolContext,
    host::{BackgroundTask, HostContext},
};

use super::{Reservation, Stage, TaskEntry};
use crate::{
    call::{
        AuthorizedCall, CallMachine, RunningCall, Step, TurnCore,
        acquire::TaskLocks,
        launch::launch,
        layers::{Outcome, checked, outcome_of},
    },
    event::Event,
    hooks::CompletedCall,
    host_code::{after, timed},
    tool_result::BoxedResult,
};

/// Starts the work that a body has deferred.
pub(crate) fn begin(
    turn: &Arc<TurnCore>,
    permitted: &AuthorizedCall,
    locks: TaskLocks,
    later: BackgroundTask,
) {
    let (reservation, work) = later.into_parts();
    let Some(entry) = reservation
        .downcast::<Reservation>()
        .ok()
        .and_then(|mut reservation| reservation.entry.take())
    else {
        return;
    };
    let admitted = permitted.validated();
    let outer = admitted.context();
    let (requested, name) = (outer.requested_name().clone(), outer.tool_name().clone());
    let scope = outer.scope().clone();
    let cx = ToolContext::new(entry.call.clone(), requested, name, Arc::clone(turn) as _)
        .with_scope(scope)
        .into_task();
    cx.start(admitted.profile().clone(), permitted.verdict().confined, None);
    let _ = entry.work.set((Arc::downgrade(turn), cx.downgrade()));
    turn.emit(|| Event::Deferred {
        call: outer.call_id().clone(),
        task_id: Arc::clone(&entry.id),
        tool: entry.tool.clone(),
        summary: entry.summary.clone(),
    });
    // The run may have ended in between; then nothing else would cancel the work.
    if let Some((code, why)) = outer.stop_reason() {
        cx.stop(code, why);
    }
    if !turn.run.listens() {
        entry.lock().orphaned = true;
        cx.stop(FailureCode::Cancelled, "its run is over");
    }
    let performed = Arc::new(CompletedCall {
        tool: Arc::clone(admitted.tool()),
        arguments: Arc::clone(admitted.arguments()),
        cx: cx.clone(),
    });
    let body = async move { work(cx).await };
    drop(launch(run_task(Arc::clone(turn), entry, performed, locks, Box::pin(body))));
}

/// Takes the outcome of the work through the last phases of the pipeline.
async fn finish(
    turn: &Arc<TurnCore>,
    performed: &Arc<CompletedCall>,
    outcome: Outcome,
    began: Instant,
) -> BoxedResult {
    let performed = Arc::clone(performed);
    match CallMachine::for_task(turn, performed, outcome, began) {
        (_, Step::Done(result)) => result,
        (machine, Step::Wait(need)) => {
            RunningCall::with_need(Arc::clone(turn), machine, need).await
        }
    }
}

/// Runs the work, keeps its result, and discards it when it expires.
async fn run_task(
    turn: Arc<TurnCore>,
    entry: Arc<TaskEntry>,
    performed: Arc<CompletedCall>,
    locks: TaskLocks,
    body: BoxFuture<'static, Outcome>,
) {
    // The call is answered first: the rest runs as a task of its own.
    tokio::task::yield_now().await;
    let inner = Arc::clone(&turn.run.inner);
    let began = inner.clock.now();
    let outcome = run_body(&turn, &performed, began, body).await;
    let cx = &performed.cx;
    cx.flush_progress();
    let still_working = cx.has_running_work();
    drop(cx.close(locks, |locks| locks));
    let outcome = outcome.map_err(|failure| match failure.execution() {
        _ if still_working => Failure::new(
            FailureCode::UnknownOutcome,
            "the work did not stop when it was cancelled, and may still be running",
        )
        .with_source(failure.to_string()),
        Execution::NotStarted => failure.with_execution(Execution::Completed),
        Execution::Completed | Execution::Unknown => failure,
    });
    let result = finish(&turn, &performed, outcome, began).await;
    let (failed, ran) = (result.failure().map(Failure::code), result.execution());
    let (call, task_id) = (entry.call.clone(), Arc::clone(&entry.id));
    let elapsed = result.elapsed();
    // The turn is not needed from here on.
    drop((performed, turn));
    let orphaned = {
        let mut state = entry.lock();
        if !state.orphaned {
            state.stage = Stage::Done(result);
        }
        state.orphaned
    };
    inner.events.emit_as(
        || Arc::clone(&entry.who),
        || Event::TaskFinished { call, task_id, failed, execution: ran, elapsed },
    );
    if orphaned {
        return inner.background.expire(&entry, &inner);
    }
    inner.background.changed.notify_waiters();
    let over = after(inner.clock.now(), inner.config.background_ttl);
    let mut over = inner.clock.sleep_until(over);
    loop {
        let changed = inner.background.changed.notified();
        let closed = inner.background.closed.load(std::sync::atomic::Ordering::SeqCst);
        if closed || matches!(entry.lock().stage, Stage::Gone) {
            return;
        }
        tokio::select! {
            biased;
            () = changed => {}
            () = over.as_mut() => break,
        }
    }
    if entry.take().is_some() {
        inner.background.expire(&entry, &inner);
    }
}

/// Runs the work to its end, or cancels it and waits for the grace period.
async fn run_body(
    turn: &TurnCore,
    performed: &CompletedCall,
    began: Instant,
    body: BoxFuture<'static, Outcome>,
) -> Outcome {
    let (cx, inner) = (&performed.cx, &turn.run.inner);
    let clock = &*inner.clock;
    let mut until = after(began, inner.config.background_ttl);
    if let Some(ledger) = &turn.run.ledger {
        until = ledger.until().map_or(until, |own| own.min(until));
    }
    cx.set_deadline(until);
    let mut body = pin!(AssertUnwindSafe(body).catch_unwind());
    let stop = tokio::select! {
        biased;
        ended = body.as_mut() => {
            let outcome = outcome_of(ended).and_then(|output| checked(&performed.tool, output));
            return match outcome {
                // Work that fails after it was cancelled counts as cancelled.
                Err(own) if cx.is_cancelled() && own.execution() != Execution::Unknown => {
                    Err(turn.why_stopped(cx).with_execution(Execution::Completed).with_source(own.to_string()))
                }
                other => other,
            };
        }
        () = cx.cancelled() => turn.why_stopped(cx),
        never = turn.forward_progress(cx) => match never {},
        () = clock.sleep_until(until) => Failure::new(
            FailureCode::DeadlinePassed,
            "the work took longer than the lifetime of its task, and was cancelled",
        ),
    };
    turn.stop_body(cx, stop.code(), stop.message());
    let moments = if cx.nested_calls() > 0 { 2 } else { 1 };
    let stop = stop.with_execution(Execution::Completed);
    match timed(clock, inner.config.grace * moments, body.as_mut()).await {
        // It succeeded despite the cancellation: report what happened.
        Some(Ok(Ok(output))) => checked(&performed.tool, output),
        Some(Ok(Err(own))) if own.execution() == Execution::Unknown => Err(own),
        Some(ended) => {
            let own = outcome_of(ended).err().map(|own| own.to_string()).unwrap_or_default();
            Err(stop.with_source(own))
        }
        None => Err(stop),
    }
}
