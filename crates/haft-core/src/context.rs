//! What a tool's body may know and touch while it runs.
//!
//! A context belongs to one call. It is shared text and counters inside, so a clone is cheap and
//! may cross threads. Everything a body does beyond its own code goes through the host behind it:
//! nested calls, threads for blocking work, progress, time.

mod denied;
mod telling;

pub use self::telling::Confinement;

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

/// What the runtime lends to a body. Authors meet it only through [`ToolContext`].
pub trait Host: Send + Sync + 'static {
    /// Returns the time, on the runtime's clock.
    fn now(&self) -> Instant;
    /// Walks a nested call, from admission to answer.
    fn call(
        self: Arc<Self>,
        cx: ToolContext,
        id: CallId,
        name: String,
        arguments: Value,
    ) -> BoxFuture<'static, Result<Output, Failure>>;
    /// Runs a job on a thread that may block; gives it back when no thread can be had.
    fn spawn_blocking(&self, job: Box<dyn FnOnce() + Send>) -> Result<(), Failure>;
    /// Passes on what a body tells.
    fn tell(&self, cx: &ToolContext, note: Progress);
    /// Returns how often a call may tell something; what comes sooner is held back and put together.
    fn note_every(&self) -> Duration {
        Duration::ZERO
    }
    /// Gives a ticket for work that goes on after the answer, as the answer and what keeps its place;
    /// nothing where nobody would hear of its end, so that it is better done at once.
    fn defer(&self, _cx: &ToolContext, _summary: &str) -> Result<Option<TaskSlot>, Failure> {
        Ok(None)
    }
    /// Returns what is left of the budget now.
    fn remaining_budget(&self, cx: &ToolContext) -> RemainingBudget {
        cx.scope().left
    }
    /// Counts tokens and money that a body is about to spend; refuses what is more than is left.
    fn charge(&self, _cx: &ToolContext, _tokens: u64, _micros: u64) -> Result<(), Failure> {
        Ok(())
    }
    /// Returns a secret that this call may use.
    fn secret(&self, _cx: &ToolContext, _name: &str) -> Result<Secret, Failure> {
        Err(Failure::new(FailureCode::Denied, "there are no secrets here"))
    }
    /// Returns whether a rule keeps this call from reading or writing a file, or wants somebody to be
    /// asked first.
    fn is_path_denied(&self, _cx: &ToolContext, _doing: Operation, _file: &Path) -> bool {
        false
    }
    /// Returns whether a call that may run may change the protected names among its effects: the
    /// policy asks about them unless a rule names them.
    fn asks_about_protected(&self, _cx: &ToolContext) -> bool {
        false
    }
    /// Returns what rules say about the other names of an open file.
    fn other_names(
        &self,
        _cx: &ToolContext,
        _doing: Operation,
        _path: &Path,
        _file: &HardLinked,
    ) -> OtherNames {
        OtherNames::Clear
    }
    /// Returns the paths that deny rules are about, below these directories and elsewhere.
    fn denied_paths(
        &self,
        _cx: &ToolContext,
        _roots: &[PathBuf],
    ) -> Result<DeniedPaths, DeniedPathsUnknown> {
        Ok(DeniedPaths::default())
    }
    /// Returns the most bytes of a result that are ever looked at.
    fn max_result_bytes(&self) -> usize {
        8 << 20
    }
    /// Returns itself as what it is, for a runtime that looks for its own.
    fn any(self: Arc<Self>) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }
}

/// What a tool's body may know and touch.
#[derive(Clone)]
pub struct ToolContext(Arc<Inner>);

struct Inner {
    scope: Arc<Scope>,
    id: CallId,
    called: ToolName,
    meant: ToolName,
    stopped: AtomicBool,
    why: OnceLock<(FailureCode, String)>,
    heard: Mutex<Label>,
    /// Made when somebody asks for it: most bodies never do.
    token: OnceLock<CancellationToken>,
    deadline: OnceLock<Instant>,
    attempt: AtomicU32,
    host: Arc<dyn Host>,
    /// Made when it is needed: most calls tell nothing and defer nothing.
    extra: OnceLock<Box<telling::Extra>>,
    lease: Mutex<Lease>,
    claim: OnceLock<CallProfile>,
    /// Set by the host: whether the call was allowed only because its body confines it.
    confined: OnceLock<bool>,
    lend: OnceLock<Arc<Semaphore>>,
    nested: AtomicU32,
    /// The call that this is one attempt of; nothing for the call itself.
    whole: Option<ToolContext>,
    /// Where a journal has written the call down, so that it need not look for it.
    ticket: AtomicU64,
}

/// What must outlive the answer when some work of the call does.
#[derive(Default)]
struct Lease {
    running: usize,
    kept: Vec<Box<dyn Any + Send>>,
    /// The call has its answer; nothing new may start under it.
    ended: bool,
}

/// Work of a call that may outlive its body: a blocking job, a nested call. While one lives, what
/// the call held is kept.
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
        called: ToolName,
        meant: ToolName,
        host: Arc<dyn Host>,
    ) -> Self {
        Self(Arc::new(Inner {
            scope,
            id,
            called,
            meant,
            stopped: AtomicBool::new(false),
            why: OnceLock::new(),
            heard: Mutex::new(Label::CLEAN),
            token: OnceLock::new(),
            deadline: OnceLock::new(),
            attempt: AtomicU32::new(1),
            host,
            extra: OnceLock::new(),
            lease: Mutex::default(),
            claim: OnceLock::new(),
            confined: OnceLock::new(),
            lend: OnceLock::new(),
            nested: AtomicU32::new(0),
            whole: None,
            ticket: AtomicU64::new(0),
        }))
    }

    /// Makes the context of one attempt at this call. It can be stopped without the call being
    /// stopped; stopping the call stops it. All else is the call's. For hosts.
    #[must_use]
    pub fn for_attempt(&self, attempt: u32) -> Self {
        let call = self.call_itself();
        // What an attempt before told or put off is not part of what this one answers.
        if attempt > 1 {
            self.forget_told();
        }
        let whole = self.0.whole.clone().unwrap_or_else(|| self.clone());
        let (called, meant) = (call.called.clone(), call.meant.clone());
        let host = Arc::clone(&call.host);
        let mut made = Self::new(Arc::clone(&call.scope), call.id.clone(), called, meant, host);
        if let Some(inner) = Arc::get_mut(&mut made.0) {
            inner.attempt = AtomicU32::new(attempt);
            inner.whole = Some(whole);
        }
        made
    }

    /// What an attempt shares with its call.
    fn call_itself(&self) -> &Inner {
        self.0.whole.as_ref().map_or(&self.0, |whole| &whole.0)
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

    /// Returns the name the model called.
    #[must_use]
    pub fn requested_name(&self) -> &ToolName {
        &self.0.called
    }

    /// Returns the name of the tool that was meant; it differs from `called` for an alias.
    #[must_use]
    pub fn tool_name(&self) -> &ToolName {
        &self.0.meant
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

    /// Returns what the host told, read-only.
    #[must_use]
    pub fn metadata(&self) -> Metadata<'_> {
        Metadata(&self.0.scope.metadata)
    }

    /// Returns the join of what the run had read when this turn began.
    #[must_use]
    pub fn label(&self) -> Label {
        self.0.scope.label
    }

    /// Returns what is left of the budget, right now.
    #[must_use]
    pub fn remaining_budget(&self) -> RemainingBudget {
        self.0.host.remaining_budget(self)
    }

    /// Counts what the body is about to spend beyond its own price: tokens of a model it asks, money
    /// in millionths of the currency unit.
    ///
    /// # Errors
    /// Fails, and counts nothing, when that is more than is left. The body should not spend it then.
    pub fn charge(&self, tokens: u64, micros: u64) -> Result<(), Failure> {
        self.0.host.charge(self, tokens, micros)
    }

    /// Returns a secret by its name. The tool must declare `capabilities(secrets)`, and the secret
    /// must be meant for it. What is shown of the call afterwards does not show the value.
    ///
    /// # Errors
    /// Fails when the tool may not have it, and before the body runs.
    pub fn secret(&self, name: &str) -> Result<Secret, Failure> {
        self.0.host.secret(self, name)
    }

    /// Returns whether a rule keeps this call from reading or writing a file, or wants somebody to be
    /// asked first. What a call names is judged before its body runs; a body that comes upon files by
    /// itself, as a search or the end of a folder does, asks here and leaves alone what it may not
    /// touch. The path is one without links.
    #[must_use]
    pub fn is_path_denied(&self, doing: Operation, file: &Path) -> bool {
        self.0.host.is_path_denied(self, doing, file)
    }

    /// Returns whether this call may change a [protected](crate::protected_names) file. It may if its
    /// claim says that it writes the file and the policy asks about protected names: then a person has
    /// seen the name, or a rule names it. Before the call is judged it says whether that can happen.
    ///
    /// It is about the names of [`PROTECTED`](crate::protected_names::PROTECTED) and no others. The
    /// path is one without links.
    #[must_use]
    pub fn may_change_protected(&self, file: &Path) -> bool {
        let is_claimed = |claim: &CallProfile| match &claim.effects {
            Effects::Declared(list) => list.iter().any(|effect| {
                effect.operation == Operation::Write
                    && effect.target.as_deref().is_some_and(|target| Path::new(target) == file)
            }),
            Effects::Undeclared => false,
        };
        self.0.host.asks_about_protected(self) && self.profile().is_none_or(is_claimed)
    }

    /// Returns what rules say about the other names of a file that has more than one. A body that has
    /// opened a file by this path, one without symlinks, asks here before it shows what is in it: a
    /// hard link to a denied file is the denied file.
    #[must_use]
    pub fn other_names(&self, doing: Operation, path: &Path, file: &HardLinked) -> OtherNames {
        self.0.host.other_names(self, doing, path, file)
    }

    /// Returns the most bytes of a result that are ever looked at. A body that reads from something
    /// without an end keeps no more, as [`BoundedBuffer`](crate::BoundedBuffer) does.
    #[must_use]
    pub fn max_result_bytes(&self) -> usize {
        self.0.host.max_result_bytes()
    }

    /// Returns what runs this call, as what it is. For hosts.
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
    /// Fails when the host supplied none; a tool that declares its need never gets this far.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<State<T>, Failure> {
        self.0.scope.state.get().map(State).ok_or_else(|| missing::<T>("state"))
    }

    /// Returns a value the host supplied for this run.
    ///
    /// # Errors
    /// Fails when the host supplied none; a tool that declares its need is not offered then.
    pub fn run_state<T: Send + Sync + 'static>(&self) -> Result<RunState<T>, Failure> {
        self.0.scope.side.get().map(RunState).ok_or_else(|| missing::<T>("side"))
    }

    /// Returns when this call must have ended, on the host's clock; unset before permission.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.call_itself().deadline.get().copied()
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

    /// Returns a key that is the same for every attempt at this call and for no other call.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        let scope = &self.0.scope;
        format!("{}/{}/{}/{}", scope.run, scope.cycle, scope.depth, self.0.id)
    }

    /// Returns the token that is cancelled when this call should stop.
    #[must_use]
    pub fn cancellation(&self) -> &CancellationToken {
        let token = self.0.token.get_or_init(|| match &self.0.whole {
            Some(whole) => whole.cancellation().child_token(),
            None => CancellationToken::new(),
        });
        // Whoever stops the call sets the flag and then looks for the token; we make the token and
        // then look for the flag. With both fences one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.is_cancelled() {
            token.cancel();
        }
        token
    }

    /// Returns whether this call should stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.stopped.load(Ordering::SeqCst)
            || self.0.whole.as_ref().is_some_and(ToolContext::is_cancelled)
    }

    /// Waits until this call should stop.
    pub async fn cancelled(&self) {
        self.cancellation().cancelled().await;
    }

    /// Returns an id for something that is part of this call. For hosts.
    #[doc(hidden)]
    #[must_use]
    pub fn next_nested_id(&self) -> CallId {
        self.0.id.nested(self.call_itself().nested.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Calls another tool of the same snapshot. The call takes the whole walk: it is validated,
    /// judged, bounded and recorded like any other.
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
    /// stopped; while it lives, an exclusive call keeps its place.
    ///
    /// # Errors
    /// Fails when no thread can be had.
    ///
    /// # Panics
    /// A panic of the work comes out here, where the walk turns it into a failure.
    pub async fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ToolContext) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        // Whoever asks is a body that runs, and may have changed something before.
        self.block_whole(work).await.map_err(|failure| failure.with_execution(Execution::Completed))
    }

    /// The same for work that is the whole body: where no thread can be had, nothing of it ran. For
    /// what `#[tool]` writes.
    ///
    /// # Errors
    /// Fails when no thread can be had.
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
            // The count rises before the stage does, so that nobody misses a running job.
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

    /// Says that this call should stop, and why; of several reasons the first stays. For hosts.
    pub fn stop(&self, code: FailureCode, why: &str) {
        let _ = self.0.why.set((code, why.to_owned()));
        self.0.stopped.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if let Some(token) = self.0.token.get() {
            token.cancel();
        }
    }

    /// Returns why this call should stop, if it should.
    #[must_use]
    pub fn why_stopped(&self) -> Option<(FailureCode, &str)> {
        let why = self.0.why.get().map(|(code, why)| (*code, why.as_str()));
        why.or_else(|| self.0.whole.as_ref()?.why_stopped())
    }

    /// Returns the one place that this call's slot has for nested calls of the same tool. For hosts.
    #[doc(hidden)]
    pub fn lend(&self) -> &Arc<Semaphore> {
        self.call_itself().lend.get_or_init(|| Arc::new(Semaphore::new(1)))
    }

    /// Returns where a journal has written the call down; 0 where none has. For journals.
    #[doc(hidden)]
    #[must_use]
    pub fn ticket(&self) -> u64 {
        self.call_itself().ticket.load(Ordering::Relaxed)
    }

    /// Notes where a journal has written the call down. For journals.
    #[doc(hidden)]
    pub fn set_ticket(&self, ticket: u64) {
        self.call_itself().ticket.store(ticket, Ordering::Relaxed);
    }

    /// Returns how many nested calls this one has made.
    #[must_use]
    pub fn nested_calls(&self) -> u32 {
        self.call_itself().nested.load(Ordering::Relaxed)
    }

    /// Returns a handle that does not keep the context alive. For hosts.
    #[must_use]
    pub fn downgrade(&self) -> WeakToolContext {
        WeakToolContext(Arc::downgrade(&self.0))
    }

    /// Sets when the call must have ended. For hosts; the first value stays.
    pub fn set_deadline(&self, deadline: Instant) {
        let _ = self.call_itself().deadline.set(deadline);
    }

    /// Sets what this call claims while it runs. For hosts; the first value stays.
    pub fn set_profile(&self, claim: CallProfile) {
        let _ = self.call_itself().claim.set(claim);
    }

    /// Returns what this call was judged to do; unset before the body runs.
    #[must_use]
    pub fn profile(&self) -> Option<&CallProfile> {
        self.call_itself().claim.get()
    }

    /// Sets whether the call was allowed only because its body confines it. For hosts; the first value
    /// stays.
    pub fn set_confined(&self, confined: bool) {
        let _ = self.call_itself().confined.set(confined);
    }

    /// Returns whether the call was allowed only because its body confines it. A body whose claim said
    /// `confinable` lets it change nothing and reach no other machine then.
    ///
    /// FAIL CLOSED: it is confined until the host says otherwise.
    #[must_use]
    pub fn is_confined(&self) -> bool {
        self.call_itself().confined.get().copied().unwrap_or(true)
    }

    /// Begins work that may outlive the body; nothing once the call has ended. For hosts.
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

    /// Ends the call: nothing new starts under it, and while some of its work still lives, what it
    /// held is kept, after `abandon` has seen it. For hosts: this is how a body that could not be
    /// stopped keeps its place on the floor.
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

    /// Returns whether work of this call, blocking or nested, is still under way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.lease().running > 0
    }

    fn lease(&self) -> MutexGuard<'_, Lease> {
        self.call_itself().lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the label of a nested call's answer: this call has read it. For hosts.
    pub fn heard(&self, label: Label) {
        let mut heard = self.call_itself().heard.lock().unwrap_or_else(PoisonError::into_inner);
        *heard = heard.join(label);
    }

    /// Returns the join of what this call's nested calls have answered.
    #[must_use]
    pub fn heard_label(&self) -> Label {
        *self.call_itself().heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A context that may be gone.
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
        f.write_str("WeakContext")
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
            .field("tool", &self.0.meant)
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
