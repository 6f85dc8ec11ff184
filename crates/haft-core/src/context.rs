//! `ToolContext`: what a tool's body may read and do while it runs.
//!
//! A context belongs to one call. It is one `Arc`, so a clone is cheap and can move to another
//! thread. Nested calls, blocking threads, progress, cancellation, secrets and the clock go through
//! the [`Host`](crate::host::Host) behind it.
//!
//! INVARIANT: after the call has ended, no new work starts under its context.

mod background_task;
mod blocking;
mod denied_paths_cache;
mod host;
mod host_context;
mod metadata;
mod reporting;
mod running_work;

pub(crate) use self::blocking::run_blocking;
pub use self::{
    background_task::{BackgroundTask, TaskSlot},
    host::{Host, PathRules},
    host_context::HostContext,
    metadata::Metadata,
    reporting::Confinement,
    running_work::RunningWork,
};

use std::{
    fmt,
    path::Path,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence},
    },
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::running_work::{KeptResources, Lease};
use crate::{
    CallId, CallProfile, Failure, FailureCode, Label, Operation, Output, RemainingBudget, RunId,
    RunState, Scope, Secret, SharedMap, State, ToolName,
};

/// What a tool's body may read and do. A clone is cheap.
#[derive(Clone)]
pub struct ToolContext(Arc<Inner>);

struct Inner {
    /// The scope of a call that differs from that of its turn: a nested or a resumed call.
    own_scope: Option<Box<Scope>>,
    id: CallId,
    requested_name: ToolName,
    tool_name: ToolName,
    stopped: AtomicBool,
    /// The joined label of nested results, as `Label::to_bits`.
    nested_label: AtomicU8,
    /// Set by the host when the body starts.
    started: OnceLock<StartedBody>,
    attempt: AtomicU32,
    host: Arc<dyn Host>,
    /// Created on first use: most calls report no progress and defer nothing.
    extra: OnceLock<Box<reporting::Extra>>,
    lease: Lease,
    /// Created on first use: most calls end without a wait.
    rare: OnceLock<Box<RareState>>,
    nested: AtomicU32,
    /// Whether it is the context of background work, which outlives its turn.
    is_task: bool,
    /// The call that this is an attempt of. `None` for the call itself.
    attempt_of: Option<ToolContext>,
    /// The position of the call in a journal, so that the journal need not search for it.
    journal_position: AtomicU64,
}

/// State of calls that wait, are cancelled, or have work that outlives them.
#[derive(Default)]
struct RareState {
    stop_reason: OnceLock<(FailureCode, String)>,
    token: OnceLock<CancellationToken>,
    /// Set by the host if the deadline becomes known after the start.
    deadline: OnceLock<Instant>,
    nested_slot: OnceLock<Arc<Semaphore>>,
    kept: KeptResources,
}

impl Inner {
    /// Returns the rare state, which is made now if there is none.
    fn rare(&self) -> &RareState {
        self.rare.get_or_init(Box::default)
    }
}

/// What is known about a call when its body starts.
struct StartedBody {
    profile: CallProfile,
    /// Whether the call was allowed only because its body runs sandboxed.
    confined: bool,
    deadline: Option<Instant>,
}

impl ToolContext {
    /// The state that all attempts of a call share.
    fn call_state(&self) -> &Inner {
        self.0.attempt_of.as_ref().map_or(&self.0, |call| &call.0)
    }

    /// Returns the facts of the run.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        match &self.0.own_scope {
            Some(scope) => scope,
            None => self.0.host.scope(),
        }
    }

    /// Returns the run's id.
    #[must_use]
    pub fn run_id(&self) -> &RunId {
        &self.scope().run
    }

    /// Returns the session's id.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.scope().session.as_deref()
    }

    /// Returns the agent's id.
    #[must_use]
    pub fn agent_id(&self) -> Option<&str> {
        self.scope().agent.as_deref()
    }

    /// Returns the user's id.
    #[must_use]
    pub fn user_id(&self) -> Option<&str> {
        self.scope().user.as_deref()
    }

    /// Returns the request's id.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.scope().request.as_deref()
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
        &self.scope().agent_path
    }

    /// Returns how deep this call is nested: 0 at the top.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.scope().depth
    }

    /// Returns where relative paths start.
    #[must_use]
    pub fn working_directory(&self) -> &Path {
        &self.scope().working_directory
    }

    /// Returns the host's metadata for this run, read-only.
    #[must_use]
    pub fn metadata(&self) -> Metadata<'_> {
        Metadata(&self.scope().metadata)
    }

    /// Returns the taint label of the run when this turn began: the join of all it had read.
    #[must_use]
    pub fn label(&self) -> Label {
        self.scope().label
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
        self.0.host.path_rules().is_path_denied(self, doing, file)
    }

    /// Returns how many bytes of a result are kept at most. A body that reads from an unbounded
    /// source should keep no more; [`BoundedBuffer`](crate::BoundedBuffer) does that.
    #[must_use]
    pub fn max_result_bytes(&self) -> usize {
        self.0.host.max_result_bytes()
    }

    /// Returns the map that all tools of the run share.
    #[must_use]
    pub fn shared(&self) -> &SharedMap {
        &self.scope().shared
    }

    /// Returns a value of the runtime.
    ///
    /// # Errors
    /// Fails if the host supplied none. For a declared dependency that is a build error instead.
    pub fn state<T: Send + Sync + 'static>(&self) -> Result<State<T>, Failure> {
        self.scope().state.get().map(State).ok_or_else(|| missing::<T>("state"))
    }

    /// Returns a value the host supplied for this run.
    ///
    /// # Errors
    /// Fails if the host supplied none. A tool that declares the dependency is not offered then.
    pub fn run_state<T: Send + Sync + 'static>(&self) -> Result<RunState<T>, Failure> {
        self.scope().run_state.get().map(RunState).ok_or_else(|| missing::<T>("run state"))
    }

    /// Returns the deadline of this call, on the host's clock. `None` before authorization.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let call = self.call_state();
        let at_start = call.started.get().and_then(|started| started.deadline);
        at_start.or_else(|| call.rare.get()?.deadline.get().copied())
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
        let scope = self.scope();
        format!("{}/{}/{}/{}", scope.run, scope.cycle, scope.depth, self.0.id)
    }

    /// Returns the cancellation token of this call.
    #[must_use]
    pub fn cancellation(&self) -> &CancellationToken {
        let token = self.0.rare().token.get_or_init(|| match &self.0.attempt_of {
            Some(call) => call.cancellation().child_token(),
            None => {
                // From now on a cancellation of the run must reach this call.
                Arc::clone(&self.0.host).watch();
                CancellationToken::new()
            }
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
            || self.0.host.is_cancelled(self)
    }

    /// Waits until this call is cancelled.
    pub async fn cancelled(&self) {
        self.cancellation().cancelled().await;
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

    /// Returns why this call was cancelled, if it was.
    #[must_use]
    pub fn stop_reason(&self) -> Option<(FailureCode, &str)> {
        let why = self.0.rare.get().and_then(|rare| rare.stop_reason.get());
        let why = why.map(|(code, why)| (*code, why.as_str()));
        why.or_else(|| self.0.attempt_of.as_ref()?.stop_reason())
    }

    /// Returns the profile that the call was authorized with. `None` before the body runs.
    #[must_use]
    pub fn profile(&self) -> Option<&CallProfile> {
        self.call_state().started.get().map(|started| &started.profile)
    }

    /// Returns whether the call was allowed only because its body runs sandboxed. A body whose
    /// profile is `confinable` must then prevent every write and all network access.
    ///
    /// INVARIANT: it fails closed: `true` until the host sets it.
    #[must_use]
    pub fn is_confined(&self) -> bool {
        self.call_state().started.get().is_none_or(|started| started.confined)
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
            .field("run", &self.scope().run)
            .field("call", &self.0.id)
            .field("tool", &self.0.tool_name)
            .finish_non_exhaustive()
    }
}
