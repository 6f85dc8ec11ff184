//! `HostContext`: what a runtime does to the call behind a `ToolContext`.

use std::{
    any::{Any, TypeId},
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
    },
    time::Instant,
};

use serde_json::Value;
use tokio::sync::Semaphore;

use super::{
    BackgroundTask, Confinement, Host, Inner, Lease, RunningWork, StartedBody, ToolContext,
    WeakToolContext, reporting::MAX_TIER_BYTES,
};
use crate::{
    CallId, CallProfile, Effects, Failure, FailureCode, HardLinkedFile, Label, MaskedPaths,
    Operation, OtherNames, Scope, ToolName, ToolSpec, sync::lock,
};

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::ToolContext {}
}

/// Control over the call of a [`ToolContext`]: it is made, given its terms, stopped and ended. It
/// also has what only tools with a sandbox need: the description of the sandbox and the rules about
/// files.
///
/// It is implemented for `ToolContext` and cannot be implemented for other types.
pub trait HostContext: sealed::Sealed + Sized {
    /// Makes the context of one call, with the scope of its host.
    #[must_use]
    fn new(id: CallId, requested_name: ToolName, tool_name: ToolName, host: Arc<dyn Host>) -> Self;

    /// Gives the call a scope of its own. The context must be new.
    #[must_use]
    fn with_scope(self, scope: Scope) -> Self;

    /// Makes this the context of background work, which outlives its turn. It must be new.
    #[must_use]
    fn into_task(self) -> Self;

    /// Returns whether it is the context of background work.
    #[must_use]
    fn is_task(&self) -> bool {
        self.tool_context().0.is_task
    }

    /// Makes the context of one attempt at this call. Cancelling the attempt does not cancel the
    /// call; cancelling the call cancels the attempt. Everything else is shared.
    #[must_use]
    fn for_attempt(&self, attempt: u32) -> Self;

    /// Returns the context that the methods below work on.
    #[must_use]
    fn tool_context(&self) -> &ToolContext;

    /// Returns a handle that does not keep the context alive.
    #[must_use]
    fn downgrade(&self) -> WeakToolContext {
        WeakToolContext(Arc::downgrade(&self.tool_context().0))
    }

    /// Returns the host as `Any`, if it supports that.
    #[must_use]
    fn host(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Arc::clone(&self.tool_context().0.host).any()
    }

    /// Returns a service of the runtime by its type, if the host has one.
    #[must_use]
    fn service<T: Any>(&self) -> Option<&T> {
        self.tool_context().0.host.service(TypeId::of::<T>())?.downcast_ref()
    }

    /// Cancels this call, with a reason. The first reason is kept.
    fn stop(&self, code: FailureCode, why: &str) {
        let inner = &self.tool_context().0;
        let _ = inner.rare().stop_reason.set((code, why.to_owned()));
        inner.stopped.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if let Some(token) = inner.rare().token.get() {
            token.cancel();
        }
    }

    /// Sets the deadline of the call. The first value is kept.
    fn set_deadline(&self, deadline: Instant) {
        let _ = self.tool_context().call_state().rare().deadline.set(deadline);
    }

    /// Sets what is known when the body starts: the profile of the call, whether it was allowed
    /// only because its body runs sandboxed, and its deadline. The first time counts.
    fn start(&self, profile: CallProfile, confined: bool, deadline: Option<Instant>) {
        let _ = self.tool_context().call_state().started.set(StartedBody {
            profile,
            confined,
            deadline,
        });
    }

    /// Returns a fresh id for a nested call.
    #[must_use]
    fn next_nested_id(&self) -> CallId {
        let cx = self.tool_context();
        cx.0.id.nested(cx.call_state().nested.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Returns how many nested calls this one has made.
    #[must_use]
    fn nested_calls(&self) -> u32 {
        self.tool_context().call_state().nested.load(Ordering::Relaxed)
    }

    /// Returns the semaphore (one permit) that lends this call's concurrency slot to nested calls
    /// of the same tool, so that they cannot deadlock.
    fn nested_slot(&self) -> &Arc<Semaphore> {
        let rare = self.tool_context().call_state().rare();
        rare.nested_slot.get_or_init(|| Arc::new(Semaphore::new(1)))
    }

    /// Adds the taint label of a nested call's result: this call has read it.
    fn add_nested_label(&self, label: Label) {
        let join = |bits| Some(Label::from_bits(bits).join(label).to_bits());
        let own = &self.tool_context().call_state().nested_label;
        let _ = own.fetch_update(Ordering::AcqRel, Ordering::Acquire, join);
    }

    /// Returns the join of the taint labels of this call's nested results.
    #[must_use]
    fn nested_label(&self) -> Label {
        Label::from_bits(self.tool_context().call_state().nested_label.load(Ordering::Acquire))
    }

    /// Registers work that may outlive the body. `None` once the call has ended.
    #[must_use]
    fn begin_work(&self) -> Option<RunningWork> {
        self.tool_context()
            .call_state()
            .lease
            .begin()
            .then(|| RunningWork(self.tool_context().clone()))
    }

    /// Returns whether work of this call, blocking or nested, still runs.
    #[must_use]
    fn has_running_work(&self) -> bool {
        self.tool_context().call_state().lease.is_running()
    }

    /// Ends the call: no new work starts under it. Returns what it held, to be released. If some of
    /// its work still runs, what `abandon` returns is kept until that work ends instead. A body
    /// that could not be cancelled keeps its locks this way.
    #[must_use]
    fn close<T, K: Any + Send>(&self, held: T, abandon: impl FnOnce(T) -> K) -> Option<T> {
        let call = self.tool_context().call_state();
        if !call.lease.end() {
            return Some(held);
        }
        call.rare().kept.keep(Box::new(abandon(held)), &call.lease);
        None
    }

    /// Returns whether the call has ended.
    #[must_use]
    fn is_closed(&self) -> bool {
        self.tool_context().call_state().lease.has_ended()
    }

    /// Returns how many bytes of partial output were sent so far, kept or not.
    #[must_use]
    fn partial_size(&self) -> u64 {
        self.tool_context().call_state().extra.get().map_or(0, |extra| extra.notes.size())
    }

    /// Returns whether the kept partial output is truncated.
    #[must_use]
    fn partial_is_full(&self) -> bool {
        self.tool_context().call_state().extra.get().is_some_and(|extra| extra.notes.is_full())
    }

    /// Sends all buffered progress notes. The last note is sent before the call ends.
    fn flush_progress(&self) {
        let cx = self.tool_context();
        if let Some(extra) = cx.call_state().extra.get() {
            extra.notes.flush(cx.0.host.now(), |note| cx.0.host.report(cx, note));
        }
    }

    /// Waits until a progress note is buffered, and returns when it should be sent.
    fn progress_due(&self) -> impl Future<Output = Option<Instant>> + Send {
        let cx = self.tool_context();
        async move { cx.extra().notes.due(cx.0.host.progress_interval()).await }
    }

    /// Returns whether the body has deferred work to the background.
    #[must_use]
    fn has_background_task(&self) -> bool {
        self.tool_context()
            .call_state()
            .extra
            .get()
            .is_some_and(|extra| extra.background().is_some())
    }

    /// Takes the work that the body has deferred.
    #[must_use]
    fn take_background_task(&self) -> Option<BackgroundTask> {
        self.tool_context().call_state().extra.get()?.background().take()
    }

    /// Returns the position of the call in the journal; 0 if there is none.
    #[must_use]
    fn journal_position(&self) -> u64 {
        self.tool_context().call_state().journal_position.load(Ordering::Relaxed)
    }

    /// Sets the position of the call in the journal.
    fn set_journal_position(&self, position: u64) {
        self.tool_context().call_state().journal_position.store(position, Ordering::Relaxed);
    }

    /// Returns the partial output so far, bounded.
    #[must_use]
    fn partial_so_far(&self) -> String {
        self.tool_context()
            .call_state()
            .extra
            .get()
            .map(|extra| extra.notes.kept())
            .unwrap_or_default()
    }

    /// Sets the description of the sandbox that confines this call, as data. Observers and records
    /// get it however the call ends; the model never does. For tools that start processes.
    ///
    /// More than 8000 bytes of JSON are not kept.
    fn set_tier(&self, tier: Value) {
        let fits = tier.to_string().len() <= MAX_TIER_BYTES;
        *self.tool_context().extra().tier() = fits.then(|| Arc::new(tier));
    }

    /// Sets what a sandboxed run of this call could read, or why no sandbox is available. A tool
    /// sets it in its check, before the call is authorized. The last value counts.
    fn set_confinement(&self, confinement: Result<Confinement, String>) {
        let mut own = lock(&self.tool_context().extra().confinement);
        *own = Some(confinement);
    }

    /// Returns what a sandboxed run of this call could read, or why no sandbox is available. `None`
    /// if the tool set neither.
    #[must_use]
    fn confinement(&self) -> Option<Result<Confinement, String>> {
        let own = &self.tool_context().call_state().extra.get()?.confinement;
        lock(own).clone()
    }

    /// Sets what the sandbox of this call would mask. A tool sets it in its check.
    fn set_masked_paths(&self, masked: MaskedPaths) {
        let mut own = lock(&self.tool_context().extra().masked);
        *own = Some(masked);
    }

    /// Returns what the sandbox of this call would mask. `None` if the tool did not set it.
    #[must_use]
    fn masked_paths(&self) -> Option<MaskedPaths> {
        let own = &self.tool_context().call_state().extra.get()?.masked;
        lock(own).clone()
    }

    /// Authorizes a step of this call that its arguments do not show: the policy decides about it,
    /// and an approver is asked where the policy says so. The step is a nested call of a tool that
    /// is in no registry, with this spec and schema.
    ///
    /// # Errors
    /// Returns the failure of that call.
    fn authorize_step(
        &self,
        step: ToolSpec,
        input_schema: Value,
        arguments: Value,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        let (cx, id) = (self.tool_context().clone(), self.next_nested_id());
        let host = Arc::clone(&cx.0.host);
        host.authorize_step(cx, id, step, input_schema, arguments)
    }

    /// Returns whether a rule that names hosts denies this one or asks about it. A body that lets
    /// a command contact hosts must ask here, even about a host that its configuration lists.
    #[must_use]
    fn is_host_restricted(&self, host: &str) -> bool {
        let cx = self.tool_context();
        cx.0.host.path_rules().is_host_restricted(cx, host)
    }

    /// Returns which turn of the run this is, from 1.
    #[must_use]
    fn cycle(&self) -> u32 {
        self.tool_context().scope().cycle
    }

    /// Returns whether this call may change a [protected](crate::protected_names) file. It may if
    /// its profile declares a write of the file and the policy requires approval for protected
    /// names: then a person has seen the name, or a rule names it. Before the call is authorized,
    /// it returns whether that is possible.
    ///
    /// It covers only the names of [`PROTECTED`](crate::protected_names::PROTECTED). The path must
    /// have no symlinks.
    #[must_use]
    fn may_change_protected(&self, file: &Path) -> bool {
        let is_declared = |profile: &CallProfile| match &profile.effects {
            Effects::Declared(list) => list.iter().any(|effect| {
                effect.operation == Operation::Write
                    && effect.target.as_deref().is_some_and(|target| Path::new(target) == file)
            }),
            Effects::Undeclared => false,
        };
        let cx = self.tool_context();
        cx.0.host.path_rules().asks_about_protected(cx) && cx.profile().is_none_or(is_declared)
    }

    /// Returns whether a rule restricts another name of a hard-linked file. A body that has opened
    /// a file by this path must ask here before it returns the content: a hard link to a denied
    /// file is the denied file. The path must have no symlinks.
    #[must_use]
    fn other_names(&self, doing: Operation, path: &Path, file: &HardLinkedFile) -> OtherNames {
        let cx = self.tool_context();
        cx.0.host.path_rules().other_names(cx, doing, path, file)
    }
}

impl HostContext for ToolContext {
    fn new(id: CallId, requested_name: ToolName, tool_name: ToolName, host: Arc<dyn Host>) -> Self {
        Self(Arc::new(Inner {
            own_scope: None,
            id,
            requested_name,
            tool_name,
            stopped: AtomicBool::new(false),
            nested_label: AtomicU8::new(Label::CLEAN.to_bits()),
            started: OnceLock::new(),
            attempt: AtomicU32::new(1),
            host,
            extra: OnceLock::new(),
            lease: Lease::default(),
            rare: OnceLock::new(),
            nested: AtomicU32::new(0),
            is_task: false,
            attempt_of: None,
            journal_position: AtomicU64::new(0),
        }))
    }

    fn with_scope(mut self, scope: Scope) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.own_scope = Some(Box::new(scope));
        }
        self
    }

    fn into_task(mut self) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.is_task = true;
        }
        self
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
        let mut made = Self::new(call.id.clone(), requested_name, tool_name, host);
        if let Some(inner) = Arc::get_mut(&mut made.0) {
            inner.own_scope = call.own_scope.clone();
            inner.attempt = AtomicU32::new(attempt);
            inner.attempt_of = Some(whole);
        }
        made
    }

    fn tool_context(&self) -> &ToolContext {
        self
    }
}
