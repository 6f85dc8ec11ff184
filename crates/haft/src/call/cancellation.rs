//! Cancellation of a turn: which of its calls can be stopped, and what stops them.
//!
//! Cancellation always sets a flag and never just drops a future. A call can be cancelled directly
//! (alone, by a sibling, with the turn or the run), by an interrupt of the turn (which `block`
//! tools ignore once they run), or by cancellation of its outer call.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use haft_core::{
    CallId, Execution, Failure, FailureCode, ToolContext, ToolName,
    host::{HostContext, WeakToolContext},
    sync::lock,
};
use smallvec::SmallVec;
use tokio::sync::Notify;

use super::turn_core::TurnCore;

const CANCELLED: &str = "the turn was cancelled";
const CALL_CANCELLED: &str = "this call was cancelled";

/// The calls of a turn, and what cancels them.
#[derive(Default)]
pub(crate) struct Cancellation {
    aborted: AtomicBool,
    interrupted: AtomicBool,
    parking: AtomicBool,
    /// Wakes calls that wait when the turn is interrupted or parked.
    signal: Notify,
    /// Why no call of this turn may run, once that is decided.
    blocked: OnceLock<(FailureCode, String)>,
    /// A call that was cancelled by its id before it was registered: the only call of the turn,
    /// during its first poll.
    unregistered: OnceLock<CallId>,
    /// The calls of the model, in its order.
    calls: Mutex<SmallVec<[(CallId, WeakToolContext); 1]>>,
    /// The nested calls that have not ended. The calls below another one are neighbours.
    nested: Mutex<Option<Box<NestedCalls>>>,
}

type NestedCalls = BTreeMap<CallId, WeakToolContext>;

impl Cancellation {
    /// Registers a nested call until it has ended.
    pub(crate) fn add_nested(&self, id: CallId, cx: WeakToolContext) {
        lock(&self.nested).get_or_insert_default().insert(id, cx);
    }

    /// Removes a nested call that has ended.
    pub(crate) fn remove_nested(&self, id: &CallId) {
        if let Some(nested) = &mut *lock(&self.nested) {
            nested.remove(id);
        }
    }

    /// Returns the nested calls of a call, at every depth.
    fn nested_in(&self, outer: &CallId) -> Vec<ToolContext> {
        let nested = lock(&self.nested);
        let Some(all) = &*nested else { return Vec::new() };
        let below = all.range(outer.clone()..).skip_while(|(id, _)| *id == outer);
        let below = below.take_while(|(id, _)| id.as_str().starts_with(outer.as_str()));
        let found: Vec<WeakToolContext> =
            below.filter(|(id, _)| id.is_within(outer)).map(|(_, cx)| cx.clone()).collect();
        drop(nested);
        found.iter().filter_map(WeakToolContext::upgrade).collect()
    }

    /// Returns the calls of the model.
    fn calls(&self) -> Vec<ToolContext> {
        let calls: Vec<WeakToolContext> =
            lock(&self.calls).iter().map(|(_, cx)| cx.clone()).collect();
        calls.iter().filter_map(WeakToolContext::upgrade).collect()
    }
}

impl TurnCore {
    /// Reserves memory for so many calls.
    pub(crate) fn reserve(&self, calls: usize) {
        if calls > 1 {
            lock(&self.cancellation.calls).reserve_exact(calls);
        }
    }

    /// Registers a call, so that it can be cancelled.
    pub(crate) fn register(&self, cx: &ToolContext) {
        let mut calls = lock(&self.cancellation.calls);
        calls.push((cx.call_id().clone(), cx.downgrade()));
        drop(calls);
        self.apply_stops(cx);
    }

    /// Registers the only call of a turn, unless it is registered.
    pub(crate) fn register_lone(&self, cx: &ToolContext) {
        let mut calls = lock(&self.cancellation.calls);
        if calls.is_empty() {
            calls.push((cx.call_id().clone(), cx.downgrade()));
            drop(calls);
            self.apply_stops(cx);
        }
    }

    /// Applies what has stopped the turn or its run before the call was registered.
    #[inline(always)]
    pub(crate) fn apply_stops(&self, cx: &ToolContext) {
        let own = &self.cancellation;
        if own.aborted.load(Ordering::SeqCst) {
            cx.stop(FailureCode::Cancelled, CANCELLED);
        }
        if own.unregistered.get().is_some_and(|id| id == cx.call_id()) {
            cx.stop(FailureCode::Cancelled, CALL_CANCELLED);
        }
        if let Some((code, why)) = own.blocked.get() {
            cx.stop(*code, why);
        }
        self.stop_if_halted(cx);
    }

    /// Refuses all calls of this turn; of several reasons the first is kept.
    pub(crate) fn block_calls(&self, code: FailureCode, why: String) {
        let _ = self.cancellation.blocked.set((code, why));
    }

    /// Stops the calls that have not begun, because the run is halted.
    pub(crate) fn halt(&self) {
        self.cancellation.calls().iter().for_each(|cx| self.stop_if_halted(cx));
        let nested: Vec<WeakToolContext> =
            lock(&self.cancellation.nested).iter().flat_map(|all| all.values()).cloned().collect();
        nested.iter().filter_map(WeakToolContext::upgrade).for_each(|cx| self.stop_if_halted(&cx));
    }

    /// Stops a call of a halted run that has not begun: its profile is set when the body begins.
    pub(crate) fn stop_if_halted(&self, cx: &ToolContext) {
        if let Some(reason) = self.run.halted()
            && cx.profile().is_none()
        {
            cx.stop(FailureCode::BlockedByHook, reason);
        }
    }

    /// Cancels every call.
    pub(crate) fn abort(&self) {
        self.cancellation.aborted.store(true, Ordering::SeqCst);
        self.interrupt();
        for cx in self.cancellation.calls() {
            self.stop_body(&cx, FailureCode::Cancelled, CANCELLED);
        }
    }

    /// Returns whether a call that need not be registered is cancelled: with all others, or by its
    /// id. Background work outlives the turn.
    pub(crate) fn is_turn_cancelled(&self, cx: &ToolContext) -> bool {
        let own = &self.cancellation;
        let has_its_id = || own.unregistered.get().is_some_and(|id| id == cx.call_id());
        (own.aborted.load(Ordering::SeqCst) || has_its_id()) && !cx.is_task()
    }

    /// Stops the running calls that yield, and starts no other call.
    pub(crate) fn interrupt(&self) {
        self.cancellation.interrupted.store(true, Ordering::SeqCst);
        self.cancellation.signal.notify_waiters();
    }

    /// Parks the calls that wait, and starts no other call.
    pub(crate) fn park(&self) {
        self.cancellation.parking.store(true, Ordering::SeqCst);
        self.cancellation.signal.notify_waiters();
    }

    /// Returns whether calls that wait are parked.
    pub(crate) fn is_parking(&self) -> bool {
        self.cancellation.parking.load(Ordering::SeqCst)
    }

    /// Waits until the turn is parked.
    pub(crate) async fn parking(&self) {
        loop {
            let signal = self.cancellation.signal.notified();
            if self.is_parking() {
                return;
            }
            signal.await;
        }
    }

    /// Waits until an interrupt of the turn reaches this call. A nested call is interrupted only
    /// through its outer call: if that one blocks, it needs its nested calls.
    pub(crate) async fn interrupted(&self, cx: &ToolContext) {
        if cx.call_id().looks_nested() {
            return std::future::pending().await;
        }
        loop {
            let signal = self.cancellation.signal.notified();
            if self.cancellation.interrupted.load(Ordering::SeqCst) {
                return;
            }
            signal.await;
        }
    }

    /// Stops one call, and returns whether there is such a call.
    pub(crate) fn stop_call(&self, id: &str) -> bool {
        let calls = lock(&self.cancellation.calls);
        let found = calls.iter().find(|(own, _)| *own == *id).map(|(_, cx)| cx.clone());
        if calls.is_empty() {
            let _ = self.cancellation.unregistered.set(id.into());
        }
        drop(calls);
        if let Some(cx) = found.as_ref().and_then(WeakToolContext::upgrade) {
            self.stop_body(&cx, FailureCode::Cancelled, CALL_CANCELLED);
        }
        found.is_some()
    }

    /// Stops the call with this row, because a sibling failed.
    pub(crate) fn stop_sibling(&self, at: usize, failed: &ToolName) {
        let cx = lock(&self.cancellation.calls).get(at).and_then(|(_, cx)| cx.upgrade());
        if let Some(cx) = cx {
            self.stop_as_sibling(&cx, failed);
        }
    }

    /// Stops a call, because a sibling failed.
    pub(crate) fn stop_as_sibling(&self, cx: &ToolContext, failed: &ToolName) {
        let why = format!(
            "`{failed}` in the same batch failed, which cancels the other calls of the batch"
        );
        self.stop_body(cx, FailureCode::SiblingAborted, &why);
    }

    /// Stops a body and the nested calls it waits for.
    pub(crate) fn stop_body(&self, cx: &ToolContext, code: FailureCode, why: &str) {
        cx.stop(code, why);
        if cx.nested_calls() > 0 {
            let below = self.cancellation.nested_in(cx.call_id());
            below.iter().for_each(|cx| cx.stop(code, why));
        }
    }

    /// Returns the nearest call of this tool that a call is nested in.
    pub(crate) fn within(&self, cx: &ToolContext, tool: &ToolName) -> Option<ToolContext> {
        let own = &self.cancellation;
        let mut around: Vec<WeakToolContext> = lock(&own.calls)
            .iter()
            .filter(|(id, _)| cx.call_id().is_within(id))
            .map(|(_, outer)| outer.clone())
            .collect();
        let nested = lock(&own.nested);
        if let Some(nested) = &*nested {
            around.extend(cx.call_id().outer_ids().filter_map(|id| nested.get(id)).cloned());
        }
        drop(nested);
        around
            .iter()
            .filter_map(WeakToolContext::upgrade)
            .filter(|outer| outer.tool_name() == tool)
            .max_by_key(|outer| outer.call_id().as_str().len())
    }

    /// Applies a cancellation or halt of the run to a turn that the run did not know.
    pub(crate) fn apply_stop_of_run(&self) {
        if self.run.is_cancelled() {
            self.abort();
        }
        if self.run.halted().is_some() {
            self.halt();
        }
    }

    /// Returns whether this call must not start or go on.
    #[inline]
    pub(crate) fn is_stopped(&self, cx: &ToolContext) -> bool {
        if self.run.halted().is_some() {
            self.stop_if_halted(cx);
        }
        cx.is_cancelled()
            || (self.cancellation.interrupted.load(Ordering::SeqCst)
                && !cx.call_id().looks_nested())
    }

    /// Returns why a call is stopped, as a call that was not run; the caller may know more.
    pub(crate) fn why_stopped(&self, cx: &ToolContext) -> Failure {
        let (code, why) = cx.stop_reason().unwrap_or((FailureCode::Cancelled, CANCELLED));
        Failure::new(code, why).with_execution(Execution::NotStarted)
    }
}
