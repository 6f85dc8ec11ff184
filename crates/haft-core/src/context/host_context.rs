//! `HostContext`: what a runtime does to the call behind a `ToolContext`.

use std::{
    any::Any,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
    },
    time::Instant,
};

use tokio::sync::Semaphore;

use super::{
    BackgroundTask, Host, Inner, Lease, RunningWork, StartedBody, ToolContext, WeakToolContext,
};
use crate::{CallId, CallProfile, FailureCode, Label, Scope, ToolName};

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::ToolContext {}
}

/// Control over the call of a [`ToolContext`]: it is made, given its terms, stopped and ended.
///
/// Only a runtime needs it. It is implemented for `ToolContext` and cannot be implemented for other
/// types.
pub trait HostContext: sealed::Sealed + Sized {
    /// Makes the context of one call.
    #[must_use]
    fn new(
        scope: Arc<Scope>,
        id: CallId,
        requested_name: ToolName,
        tool_name: ToolName,
        host: Arc<dyn Host>,
    ) -> Self;

    /// Makes the context of one attempt at this call. Cancelling the attempt does not cancel the
    /// call; cancelling the call cancels the attempt. Everything else is shared.
    #[must_use]
    fn for_attempt(&self, attempt: u32) -> Self;

    /// Returns a handle that does not keep the context alive.
    #[must_use]
    fn downgrade(&self) -> WeakToolContext;

    /// Returns the host as `Any`, if it supports that.
    #[must_use]
    fn host(&self) -> Option<Arc<dyn Any + Send + Sync>>;

    /// Cancels this call, with a reason. The first reason is kept.
    fn stop(&self, code: FailureCode, why: &str);

    /// Sets the deadline of the call. The first value is kept.
    fn set_deadline(&self, deadline: Instant);

    /// Sets what is known when the body starts: the profile of the call, whether it was allowed
    /// only because its body runs sandboxed, and its deadline. The first time counts.
    fn start(&self, profile: CallProfile, confined: bool, deadline: Option<Instant>);

    /// Returns a fresh id for a nested call.
    #[must_use]
    fn next_nested_id(&self) -> CallId;

    /// Returns how many nested calls this one has made.
    #[must_use]
    fn nested_calls(&self) -> u32;

    /// Returns the semaphore (one permit) that lends this call's concurrency slot to nested calls
    /// of the same tool, so that they cannot deadlock.
    fn nested_slot(&self) -> &Arc<Semaphore>;

    /// Adds the taint label of a nested call's result: this call has read it.
    fn add_nested_label(&self, label: Label);

    /// Returns the join of the taint labels of this call's nested results.
    #[must_use]
    fn nested_label(&self) -> Label;

    /// Registers work that may outlive the body. `None` once the call has ended.
    #[must_use]
    fn begin_work(&self) -> Option<RunningWork>;

    /// Returns whether work of this call, blocking or nested, still runs.
    #[must_use]
    fn has_running_work(&self) -> bool;

    /// Ends the call: no new work starts under it. If some of its work still runs, `abandon` is
    /// called and `held` is kept until that work ends. A body that could not be cancelled keeps its
    /// locks this way.
    fn close<T: Any + Send>(&self, held: T, abandon: impl FnOnce(&T));

    /// Returns whether the call has ended.
    #[must_use]
    fn is_closed(&self) -> bool;

    /// Returns how many bytes of partial output were sent so far, kept or not.
    #[must_use]
    fn partial_size(&self) -> u64;

    /// Returns whether the kept partial output is truncated.
    #[must_use]
    fn partial_is_full(&self) -> bool;

    /// Sends all buffered progress notes. The last note is sent before the call ends.
    fn flush_progress(&self);

    /// Waits until a progress note is buffered, and returns when it should be sent.
    fn progress_due(&self) -> impl Future<Output = Option<Instant>> + Send;

    /// Returns whether the body has deferred work to the background.
    #[must_use]
    fn has_background_task(&self) -> bool;

    /// Takes the work that the body has deferred.
    #[must_use]
    fn take_background_task(&self) -> Option<BackgroundTask>;

    /// Returns the position of the call in the journal; 0 if there is none.
    #[must_use]
    fn journal_position(&self) -> u64;

    /// Sets the position of the call in the journal.
    fn set_journal_position(&self, position: u64);
}

impl HostContext for ToolContext {
    fn new(
        scope: Arc<Scope>,
        id: CallId,
        requested_name: ToolName,
        tool_name: ToolName,
        host: Arc<dyn Host>,
    ) -> Self {
        Self(Arc::new(Inner {
            scope,
            id,
            requested_name,
            tool_name,
            stopped: AtomicBool::new(false),
            stop_reason: OnceLock::new(),
            nested_label: AtomicU8::new(Label::CLEAN.to_bits()),
            token: OnceLock::new(),
            started: OnceLock::new(),
            deadline: OnceLock::new(),
            attempt: AtomicU32::new(1),
            host,
            extra: OnceLock::new(),
            lease: Lease::default(),
            nested_slot: OnceLock::new(),
            nested: AtomicU32::new(0),
            attempt_of: None,
            journal_position: AtomicU64::new(0),
        }))
    }

    fn for_attempt(&self, attempt: u32) -> Self {
        let call = self.call_state();
        // Partial output and deferred work of an earlier attempt are not part of this one's result.
        if attempt > 1 {
            self.reset_for_retry();
        }
        let whole = self.0.attempt_of.clone().unwrap_or_else(|| self.clone());
        let (requested_name, tool_name) = (call.requested_name.clone(), call.tool_name.clone());
        let host = Arc::clone(&call.host);
        let (scope, id) = (Arc::clone(&call.scope), call.id.clone());
        let mut made = Self::new(scope, id, requested_name, tool_name, host);
        if let Some(inner) = Arc::get_mut(&mut made.0) {
            inner.attempt = AtomicU32::new(attempt);
            inner.attempt_of = Some(whole);
        }
        made
    }

    fn downgrade(&self) -> WeakToolContext {
        WeakToolContext(Arc::downgrade(&self.0))
    }

    fn host(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Arc::clone(&self.0.host).any()
    }

    fn stop(&self, code: FailureCode, why: &str) {
        let _ = self.0.stop_reason.set((code, why.to_owned()));
        self.0.stopped.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if let Some(token) = self.0.token.get() {
            token.cancel();
        }
    }

    fn set_deadline(&self, deadline: Instant) {
        let _ = self.call_state().deadline.set(deadline);
    }

    fn start(&self, profile: CallProfile, confined: bool, deadline: Option<Instant>) {
        let _ = self.call_state().started.set(StartedBody { profile, confined, deadline });
    }

    fn next_nested_id(&self) -> CallId {
        self.0.id.nested(self.call_state().nested.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn nested_calls(&self) -> u32 {
        self.call_state().nested.load(Ordering::Relaxed)
    }

    fn nested_slot(&self) -> &Arc<Semaphore> {
        self.call_state().nested_slot.get_or_init(|| Arc::new(Semaphore::new(1)))
    }

    fn add_nested_label(&self, label: Label) {
        let join = |bits| Some(Label::from_bits(bits).join(label).to_bits());
        let own = &self.call_state().nested_label;
        let _ = own.fetch_update(Ordering::AcqRel, Ordering::Acquire, join);
    }

    fn nested_label(&self) -> Label {
        Label::from_bits(self.call_state().nested_label.load(Ordering::Acquire))
    }

    fn begin_work(&self) -> Option<RunningWork> {
        self.call_state().lease.begin().then(|| RunningWork(self.clone()))
    }

    fn has_running_work(&self) -> bool {
        self.call_state().lease.is_running()
    }

    fn close<T: Any + Send>(&self, held: T, abandon: impl FnOnce(&T)) {
        let lease = &self.call_state().lease;
        if lease.end() {
            abandon(&held);
            lease.keep(Box::new(held));
        }
    }

    fn is_closed(&self) -> bool {
        self.call_state().lease.has_ended()
    }

    fn partial_size(&self) -> u64 {
        self.call_state().extra.get().map_or(0, |extra| extra.notes.size())
    }

    fn partial_is_full(&self) -> bool {
        self.call_state().extra.get().is_some_and(|extra| extra.notes.is_full())
    }

    fn flush_progress(&self) {
        if let Some(extra) = self.call_state().extra.get() {
            extra.notes.flush(self.0.host.now(), |note| self.0.host.report(self, note));
        }
    }

    async fn progress_due(&self) -> Option<Instant> {
        self.extra().notes.due(self.0.host.progress_interval()).await
    }

    fn has_background_task(&self) -> bool {
        self.call_state().extra.get().is_some_and(|extra| extra.background().is_some())
    }

    fn take_background_task(&self) -> Option<BackgroundTask> {
        self.call_state().extra.get()?.background().take()
    }

    fn journal_position(&self) -> u64 {
        self.call_state().journal_position.load(Ordering::Relaxed)
    }

    fn set_journal_position(&self, position: u64) {
        self.call_state().journal_position.store(position, Ordering::Relaxed);
    }
}
