//! `ToolContext`: what a tool's body may read and do while it runs.
//!
//! A context belongs to one call. It is one `Arc`, so a clone is cheap and can move to another
//! thread. Nested calls, blocking threads, progress, cancellation, secrets and the clock go through
//! the [`Host`] behind it.
//!
//! INVARIANT: after the call has ended, no new work starts under its context.

mod denied;
mod reporting;

pub use self::reporting::Confinement;

use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
    },
    time::{Duration, Instant},
};

use serde_json::{Map, Value};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use crate::{
    BoxFuture, CallId, CallProfile, DeniedPaths, DeniedPathsUnknown, Effects, Execution, Failure,
    FailureCode, HardLinked, Label, Operation, OtherNames, Output, Progress, RemainingBudget,
    RunId, RunState, Scope, Secret, Shared, State, TaskSlot, ToolName,
};

/// What the runtime provides to a body. Authors use it only through [`ToolContext`].
pub trait Host: Send + Sync + 'static {
    /// Returns the current time of the runtime's clock.
    fn now(&self) -> Instant;
    /// Runs a nested call through the whole pipeline, from validation to result.
    fn call(
        self: Arc<Self>,
        cx: ToolContext,
        id: CallId,
        name: String,
        arguments: Value,
    ) -> BoxFuture<'static, Result<Output, Failure>>;
    /// Runs a job on a thread that may block. Fails when no thread is available.
    fn spawn_blocking(&self, job: Box<dyn FnOnce() + Send>) -> Result<(), Failure>;
    /// Sends a progress note of a body to the observers.
    fn tell(&self, cx: &ToolContext, note: Progress);
    /// Returns the shortest interval between two progress notes of a call. Notes that come sooner
    /// are buffered and merged (backpressure for observers).
    fn note_every(&self) -> Duration {
        Duration::ZERO
    }
    /// Reserves a slot for work that continues in the background after the call is answered. `None`
    /// if its result could not be delivered later; then the work runs at once.
    fn defer(&self, _cx: &ToolContext, _summary: &str) -> Result<Option<TaskSlot>, Failure> {
        Ok(None)
    }
    /// Returns what is left of the budget now.
    fn remaining_budget(&self, cx: &ToolContext) -> RemainingBudget {
        cx.scope().left
    }
    /// Charges tokens and money that a body is about to spend. Fails if that exceeds the budget.
    fn charge(&self, _cx: &ToolContext, _tokens: u64, _micros: u64) -> Result<(), Failure> {
        Ok(())
    }
    /// Returns a secret that this call may use.
    fn secret(&self, _cx: &ToolContext, _name: &str) -> Result<Secret, Failure> {
        Err(Failure::new(FailureCode::Denied, "no secrets are configured"))
    }
    /// Returns whether a rule denies this call to read or write a file, or requires approval first.
    fn is_path_denied(&self, _cx: &ToolContext, _doing: Operation, _file: &Path) -> bool {
        false
    }
    /// Returns whether an authorized call may change the protected names among its effects. That is
    /// so if the policy requires approval for them unless a rule names them.
    fn asks_about_protected(&self, _cx: &ToolContext) -> bool {
        false
    }
    /// Returns whether a rule restricts another name (hard link) of an open file.
    fn other_names(
        &self,
        _cx: &ToolContext,
        _doing: Operation,
        _path: &Path,
        _file: &HardLinked,
    ) -> OtherNames {
        OtherNames::Clear
    }
    /// Returns the paths that deny rules match, below these directories and elsewhere.
    fn denied_paths(
        &self,
        _cx: &ToolContext,
        _roots: &[PathBuf],
    ) -> Result<DeniedPaths, DeniedPathsUnknown> {
        Ok(DeniedPaths::default())
    }
    /// Returns how many bytes of a result are kept at most.
    fn max_result_bytes(&self) -> usize {
        8 << 20
    }
    /// Returns itself as `Any`, for a runtime that downcasts to its own type.
    fn any(self: Arc<Self>) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }
}

/// What a tool's body may read and do. A clone is cheap.
#[derive(Clone)]
pub struct ToolContext(Arc<Inner>);

struct Inner {
    scope: Arc<Scope>,
    id: CallId,
    requested_name: ToolName,
    tool_name: ToolName,
    stopped: AtomicBool,
    stop_reason: OnceLock<(FailureCode, String)>,
    nested_label: Mutex<Label>,
    /// Created on first use: most bodies never need it.
    token: OnceLock<CancellationToken>,
    deadline: OnceLock<Instant>,
    attempt: AtomicU32,
    host: Arc<dyn Host>,
    /// Created on first use: most calls report no progress and defer nothing.
    extra: OnceLock<Box<reporting::Extra>>,
    lease: Mutex<Lease>,
    profile: OnceLock<CallProfile>,
    /// Set by the host: whether the call was allowed only because its body runs sandboxed.
    confined: OnceLock<bool>,
    nested_slot: OnceLock<Arc<Semaphore>>,
    nested: AtomicU32,
    /// The call that this is an attempt of. `None` for the call itself.
    attempt_of: Option<ToolContext>,
    /// The position of the call in a journal, so that the journal need not search for it.
    ticket: AtomicU64,
}

/// Counts the running work of a call, and holds its resources until that work has ended.
#[derive(Default)]
struct Lease {
    running: usize,
    kept: Vec<Box<dyn Any + Send>>,
    /// The call has its result. No new work may start under it.
    ended: bool,
}

/// Work of a call that may outlive its body: a blocking job or a nested call. While it lives, the
/// resources of the call stay locked.
pub struct Busy(ToolContext);

impl Drop for Busy {
    fn drop(&mut self) {
        let mut lease = self.0.lease();
        lease.running -= 1;
        let kept = if lease.running == 0 { std::mem::take(&mut lease.kept) } else { Vec::new() };
        drop(lease);
        drop(kept);
    }
}

impl fmt::Debug for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Busy")
    }
}

impl ToolContext {
    /// Makes the context of one call. For hosts.
    #[must_use]
    pub fn new(
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
            nested_label: Mutex::new(Label::CLEAN),
            token: OnceLock::new(),
            deadline: OnceLock::new(),
            attempt: AtomicU32::new(1),
            host,
            extra: OnceLock::new(),
            lease: Mutex::default(),
            profile: OnceLock::new(),
            confined: OnceLock::new(),
            nested_slot: OnceLock::new(),
            nested: AtomicU32::new(0),
            attempt_of: None,
            ticket: AtomicU64::new(0),
        }))
    }

    /// Makes the context of one attempt at this call. Cancelling the attempt does not cancel the
    /// call; cancelling the call cancels the attempt. Everything else is shared. For hosts.
    #[must_use]
    pub fn for_attempt(&self, attempt: u32) -> Self {
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

    /// The state that all attempts of a call share.
    fn call_state(&self) -> &Inner {
        self.0.attempt_of.as_ref().map_or(&self.0, |call| &call.0)
    }

    /// Returns the facts of the run.
    #[must_use]
    pub fn scope(&self) -> &Arc<Scope> {
        &self.0.scope
    }

    /// Returns the run's id.
    #[must_use]
    pub fn run_id(&self) -> &RunId {
        &self.0.scope.run
    }

    /// Returns the session's id.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.0.scope.session.as_deref()
    }

    /// Returns the agent's id.
    #[must_use]
    pub fn agent_id(&self) -> Option<&str> {
        self.0.scope.agent.as_deref()
    }

    /// Returns the user's id.
    #[must_use]
    pub fn user_id(&self) -> Option<&str> {
        self.0.scope.user.as_deref()
    }

    /// Returns the request's id.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.0.scope.request.as_deref()
    }

    /// Returns this call's id.
    #[must_use]
    pub fn call_id(&self) -> &CallId {
        &self.0.id
    }

    /// Returns the tool name that the model requested.
    #[must_use]
    pub fn requested_name(&self) -> &ToolName {
        &self.0.requested_name
    }

    /// Returns the registered name of the tool. It differs from `requested_name` for an alias.
    #[must_use]
    pub fn tool_name(&self) -> &ToolName {
        &self.0.tool_name
    }

    /// Returns the agents above this call, outermost first.
    #[must_use]
    pub fn agent_path(&self) -> &[String] {
        &self.0.scope.agent_path
    }

    /// Returns how deep this call is nested: 0 at the top.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.0.scope.depth
    }

    /// Returns which turn of the run this is, from 1.
    #[must_use]
    pub fn cycle(&self) -> u32 {
        self.0.scope.cycle
    }

    /// Returns where relative paths start.
    #[must_use]
    pub fn working_directory(&self) -> &Path {
        &self.0.scope.working_directory
    }

    /// Returns the host's metadata for this run, read-only.
    #[must_use]
    pub fn metadata(&self) -> Metadata<'_> {
        Metadata(&self.0.scope.metadata)
    }

    /// Returns the taint label of the run when this turn began: the join of all it had read.
    #[must_use]
    pub fn label(&self) -> Label {
        self.0.scope.label
    }

    /// Returns what is left of the budget, right now.
    #[must_use]
    pub fn remaining_budget(&self) -> RemainingBudget {
        self.0.host.remaining_budget(self)
    }

    /// Charges what the body is about to spend beyond its own price: tokens of a model that it
    /// calls, and money in millionths of the currency unit.
    ///
    /// # Errors
    /// Fails and charges nothing if that exceeds the budget. The body must not spend it then.
    pub fn charge(&self, tokens: u64, micros: u64) -> Result<(), Failure> {
        self.0.host.charge(self, tokens, micros)
    }

    /// Returns a secret by its name. The tool must declare `capabilities(secrets)`, and the secret
    /// must be assigned to it. The value is redacted from everything shown of the call.
    ///
    /// # Errors
    /// Fails if the tool may not use the secret, and before the body runs.
    pub fn secret(&self, name: &str) -> Result<Secret, Failure> {
        self.0.host.secret(self, name)
    }

    /// Returns whether a rule denies this call to read or write a file, or requires approval first.
    /// Paths in the arguments are authorized before the body runs. A body that finds files by
    /// itself, such as a search, must ask here and skip denied files. The path must have no
    /// symlinks.
    #[must_use]
    pub fn is_path_denied(&self, doing: Operation, file: &Path) -> bool {
        self.0.host.is_path_denied(self, doing, file)
    }

    /// Returns whether this call may change a [protected](crate::protected_names) file. It may if
    /// its profile declares a write of the file and the policy requires approval for protected
    /// names: then a person has seen the name, or a rule names it. Before the call is authorized,
    /// it returns whether that is possible.
    ///
    /// It covers only the names of [`PROTECTED`](crate::protected_names::PROTECTED). The path must
    /// have no symlinks.
    #[must_use]
    pub fn may_change_protected(&self, file: &Path) -> bool {
        let is_declared = |profile: &CallProfile| match &profile.effects {
            Effects::Declared(list) => list.iter().any(|effect| {
                effect.operation == Operation::Write
                    && effect.target.as_deref().is_some_and(|target| Path::new(target) == file)
            }),
            Effects::Undeclared => false,
        };
        self.0.host.asks_about_protected(self) && self.profile().is_none_or(is_declared)
    }

    /// Returns whether a rule restricts another name of a hard-linked file. A body that has opened
    /// a file by this path must ask here before it returns the content: a hard link to a denied
    /// file is the denied file. The path must have no symlinks.
    #[must_use]
    pub fn other_names(&self, doing: Operation, path: &Path, file: &HardLinked) -> OtherNames {
        self.0.host.other_names(self, doing, path, file)
    }

    /// Returns how many bytes of a result are kept at most. A body that reads from an unbounded
    /// source should keep no more; [`BoundedBuffer`](crate::BoundedBuffer) does that.
    #[must_use]
    pub fn max_result_bytes(&self) -> usize {
        self.0.host.max_result_bytes()
    }

    /// Returns the host as `Any`. For hosts.
    #[doc(hidden)]
    #[must_use]
    pub fn host(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Arc::clone(&self.0.host).any()
    }

    /// Returns the map that all tools of the run share.
    #[must_use]
    pub fn shared(&self) -> &Shared {
        &self.0.scope.shared
    }

    /// Returns a value of the runtime.
    ///
    /// # Errors
    /// Fails if the host supplied none. For a declared dependency that is a build error instead.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<State<T>, Failure> {
        self.0.scope.state.get().map(State).ok_or_else(|| missing::<T>("state"))
    }

    /// Returns a value the host supplied for this run.
    ///
    /// # Errors
    /// Fails if the host supplied none. A tool that declares the dependency is not offered then.
    pub fn run_state<T: Send + Sync + 'static>(&self) -> Result<RunState<T>, Failure> {
        self.0.scope.side.get().map(RunState).ok_or_else(|| missing::<T>("run state"))
    }

    /// Returns the deadline of this call, on the host's clock. `None` before authorization.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.call_state().deadline.get().copied()
    }

    /// Returns how long this call may still take.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        let deadline = self.deadline()?;
        Some(deadline.saturating_duration_since(self.0.host.now()))
    }

    /// Returns which attempt this is, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.attempt.load(Ordering::Relaxed)
    }

    /// Returns the idempotency key: the same for every attempt at this call, and for no other call.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        let scope = &self.0.scope;
        format!("{}/{}/{}/{}", scope.run, scope.cycle, scope.depth, self.0.id)
    }

    /// Returns the cancellation token of this call.
    #[must_use]
    pub fn cancellation(&self) -> &CancellationToken {
        let token = self.0.token.get_or_init(|| match &self.0.attempt_of {
            Some(call) => call.cancellation().child_token(),
            None => CancellationToken::new(),
        });
        // `stop` sets the flag and then reads the token. We create the token and then read the
        // flag. With both fences, at least one side sees the other, so no cancellation is lost.
        fence(Ordering::SeqCst);
        if self.is_cancelled() {
            token.cancel();
        }
        token
    }

    /// Returns whether this call is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.stopped.load(Ordering::SeqCst)
            || self.0.attempt_of.as_ref().is_some_and(ToolContext::is_cancelled)
    }

    /// Waits until this call is cancelled.
    pub async fn cancelled(&self) {
        self.cancellation().cancelled().await;
    }

    /// Returns a fresh id for a nested call. For hosts.
    #[doc(hidden)]
    #[must_use]
    pub fn next_nested_id(&self) -> CallId {
        self.0.id.nested(self.call_state().nested.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Calls another tool of the same snapshot. The call goes through the whole pipeline: it is
    /// validated, authorized, bounded and recorded like any other.
    ///
    /// # Errors
    /// Returns the nested call's failure.
    pub async fn call(&self, name: impl Into<String>, arguments: Value) -> Result<Output, Failure> {
        let id = self.next_nested_id();
        Arc::clone(&self.0.host).call(self.clone(), id, name.into(), arguments).await
    }

    /// Runs blocking work on one of the runtime's threads.
    ///
    /// Work that has not started when the call ends is dropped. Work that has started cannot be
    /// cancelled; while it runs, an exclusive call keeps its locks.
    ///
    /// # Errors
    /// Fails when no thread is available.
    ///
    /// # Panics
    /// A panic of the work is resumed here; the pipeline turns it into a failure.
    pub async fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ToolContext) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        // The body is running already and may have changed something before.
        self.block_whole(work).await.map_err(|failure| failure.with_execution(Execution::Completed))
    }

    /// The same for work that is the whole body: if no thread is available, the body did not start.
    /// For code that `#[tool]` generates.
    ///
    /// # Errors
    /// Fails when no thread is available.
    #[doc(hidden)]
    pub async fn block_whole<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ToolContext) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        const QUEUED: u8 = 0;
        const STARTED: u8 = 1;
        const DROPPED: u8 = 2;

        struct Withdraw(Arc<AtomicU8>);
        impl Drop for Withdraw {
            fn drop(&mut self) {
                let _ =
                    self.0.compare_exchange(QUEUED, DROPPED, Ordering::AcqRel, Ordering::Acquire);
            }
        }

        let (send, receive) = oneshot::channel();
        let stage = Arc::new(AtomicU8::new(QUEUED));
        let withdraw = Withdraw(Arc::clone(&stage));
        let cx = self.clone();
        self.0.host.spawn_blocking(Box::new(move || {
            // Count the job before it is marked as started, so that a running job is never missed.
            let Some(busy) = cx.busy() else { return };
            if stage.compare_exchange(QUEUED, STARTED, Ordering::AcqRel, Ordering::Acquire).is_err()
            {
                return;
            }
            let result = catch_unwind(AssertUnwindSafe(|| work(&busy.0)));
            drop(busy);
            let _ = send.send(result);
        }))?;
        let received = receive.await;
        drop(withdraw);
        match received {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => {
                Err(Failure::new(FailureCode::NotRun, "the runtime stopped before the tool ran"))
            }
        }
    }

    /// Cancels this call, with a reason. The first reason is kept. For hosts.
    pub fn stop(&self, code: FailureCode, why: &str) {
        let _ = self.0.stop_reason.set((code, why.to_owned()));
        self.0.stopped.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if let Some(token) = self.0.token.get() {
            token.cancel();
        }
    }

    /// Returns why this call was cancelled, if it was.
    #[must_use]
    pub fn why_stopped(&self) -> Option<(FailureCode, &str)> {
        let why = self.0.stop_reason.get().map(|(code, why)| (*code, why.as_str()));
        why.or_else(|| self.0.attempt_of.as_ref()?.why_stopped())
    }

    /// Returns the semaphore (one permit) that lends this call's concurrency slot to nested calls
    /// of the same tool, so that they cannot deadlock. For hosts.
    #[doc(hidden)]
    pub fn lend(&self) -> &Arc<Semaphore> {
        self.call_state().nested_slot.get_or_init(|| Arc::new(Semaphore::new(1)))
    }

    /// Returns the position of the call in the journal; 0 if there is none. For journals.
    #[doc(hidden)]
    #[must_use]
    pub fn ticket(&self) -> u64 {
        self.call_state().ticket.load(Ordering::Relaxed)
    }

    /// Sets the position of the call in the journal. For journals.
    #[doc(hidden)]
    pub fn set_ticket(&self, ticket: u64) {
        self.call_state().ticket.store(ticket, Ordering::Relaxed);
    }

    /// Returns how many nested calls this one has made.
    #[must_use]
    pub fn nested_calls(&self) -> u32 {
        self.call_state().nested.load(Ordering::Relaxed)
    }

    /// Returns a handle that does not keep the context alive. For hosts.
    #[must_use]
    pub fn downgrade(&self) -> WeakToolContext {
        WeakToolContext(Arc::downgrade(&self.0))
    }

    /// Sets the deadline of the call. For hosts; the first value is kept.
    pub fn set_deadline(&self, deadline: Instant) {
        let _ = self.call_state().deadline.set(deadline);
    }

    /// Sets the profile that the call was authorized with. For hosts; the first value is kept.
    pub fn set_profile(&self, profile: CallProfile) {
        let _ = self.call_state().profile.set(profile);
    }

    /// Returns the profile that the call was authorized with. `None` before the body runs.
    #[must_use]
    pub fn profile(&self) -> Option<&CallProfile> {
        self.call_state().profile.get()
    }

    /// Sets whether the call was allowed only because its body runs sandboxed. For hosts; the first
    /// value is kept.
    pub fn set_confined(&self, confined: bool) {
        let _ = self.call_state().confined.set(confined);
    }

    /// Returns whether the call was allowed only because its body runs sandboxed. A body whose
    /// profile is `confinable` must then prevent every write and all network access.
    ///
    /// INVARIANT: it fails closed: `true` until the host sets it.
    #[must_use]
    pub fn is_confined(&self) -> bool {
        self.call_state().confined.get().copied().unwrap_or(true)
    }

    /// Registers work that may outlive the body. `None` once the call has ended. For hosts.
    #[must_use]
    pub fn busy(&self) -> Option<Busy> {
        let mut lease = self.lease();
        if lease.ended {
            return None;
        }
        lease.running += 1;
        drop(lease);
        Some(Busy(self.clone()))
    }

    /// Ends the call: no new work starts under it. If some of its work still runs, `abandon` is
    /// called and `held` is kept until that work ends. For hosts: a body that could not be
    /// cancelled keeps its locks this way.
    pub fn close<T: Any + Send>(&self, held: T, abandon: impl FnOnce(&T)) {
        let mut lease = self.lease();
        lease.ended = true;
        if lease.running > 0 {
            abandon(&held);
            lease.kept.push(Box::new(held));
        }
    }

    /// Returns whether the call has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.lease().ended
    }

    /// Returns whether work of this call, blocking or nested, still runs.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.lease().running > 0
    }

    fn lease(&self) -> MutexGuard<'_, Lease> {
        self.call_state().lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the taint label of a nested call's result: this call has read it. For hosts.
    pub fn heard(&self, label: Label) {
        let mut joined =
            self.call_state().nested_label.lock().unwrap_or_else(PoisonError::into_inner);
        *joined = joined.join(label);
    }

    /// Returns the join of the taint labels of this call's nested results.
    #[must_use]
    pub fn heard_label(&self) -> Label {
        *self.call_state().nested_label.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A weak reference to a context.
#[derive(Clone)]
pub struct WeakToolContext(Weak<Inner>);

impl WeakToolContext {
    /// Returns the context, if the call has not ended.
    #[must_use]
    pub fn upgrade(&self) -> Option<ToolContext> {
        self.0.upgrade().map(ToolContext)
    }
}

impl fmt::Debug for WeakToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakToolContext")
    }
}

fn missing<T>(what: &str) -> Failure {
    let name = std::any::type_name::<T>();
    Failure::hidden(format!("the host supplied no {what} of type `{name}`"))
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("run", &self.0.scope.run)
            .field("call", &self.0.id)
            .field("tool", &self.0.tool_name)
            .finish_non_exhaustive()
    }
}

/// What the host said about a run. A key that is missing gives `null`.
///
/// ```
/// use haft_core::{ToolContext, serde_json::Value};
///
/// fn tenant(cx: &ToolContext) -> Option<&str> {
///     cx.metadata().get("tenant").and_then(Value::as_str)
/// }
/// fn is_billed(cx: &ToolContext) -> bool {
///     cx.metadata()["billing"]["plan"] == "paid"
/// }
/// # let _ = (tenant, is_billed);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Metadata<'a>(&'a Map<String, Value>);

impl<'a> Metadata<'a> {
    /// Returns the value of a key.
    #[must_use]
    pub fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key)
    }

    /// Returns all keys and values.
    #[must_use]
    pub fn as_map(self) -> &'a Map<String, Value> {
        self.0
    }
}

impl std::ops::Index<&str> for Metadata<'_> {
    type Output = Value;

    fn index(&self, key: &str) -> &Value {
        self.0.get(key).unwrap_or(&Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_metadata_is_null() {
        let map = Map::from_iter([("a".to_owned(), Value::from(1))]);
        let metadata = Metadata(&map);
        assert_eq!(metadata["a"], 1);
        assert_eq!(metadata["b"]["c"], Value::Null);
        assert_eq!((metadata.get("b"), metadata.as_map().len()), (None, 1));
    }
}
