//! The runtime: configuration and services shared by all runs.
//!
//! `build` validates everything; it is the last place where a setup mistake can appear.

mod access;

use std::{
    fmt,
    path::Path,
    sync::{Arc, atomic::AtomicU64, atomic::Ordering},
};

use haft_core::{
    Arguments, DependencyKind, Error, ErrorKind, Failure, FailureCode, Output, RunId, Secret,
    ToolCall, TypeMap,
};
use haft_policy::{Budget, Policy};

use crate::{
    approval::{ApprovalQueue, Approver, GrantStore},
    artifact::{Artifacts, RuntimeArtifacts},
    call::{
        Inner, RuntimePolicy,
        background::Background,
        layers::{self, Around, AroundPlace, Middleware, RuntimeLayers},
    },
    clock::{Clock, RuntimeClock},
    concurrency::Threads,
    config::Config,
    event::{EventStream, Events, Observer},
    frame::{Frame, Nonces, SYSTEM_TEXT},
    guards::{ForTools, Guard, NamedGuard},
    hooks::{AddedHook, Hook, NamedHook},
    host_code::{self, NO_TOKIO_RUNTIME, in_tokio_runtime},
    journal::{ExecutionRecord, Journal, MemoryJournal, RecordQuery, RuntimeJournal},
    registry::{RegisteredTool, ToolRegistry},
    run::{Run, RunBuilder},
    secrets::{Redactor, RuntimeRedactor, Secrets},
};

/// Runs tools. Clones are the same runtime.
///
/// Turns must run inside a tokio runtime with its time driver enabled, for timeouts, deadlines and
/// grace periods.
///
/// ```
/// use haft::{Runtime, ToolRegistry};
/// use haft::tool::{Capabilities, DynTool, ToolSpec};
/// use serde_json::json;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let double = DynTool::new(
///     ToolSpec::new("double", "Doubles a number.").read_only().capabilities(Capabilities::NONE),
///     json!({"properties": {"n": {"type": "integer"}}, "required": ["n"]}),
///     |args, _cx| async move { (args["n"].as_i64().unwrap_or(0) * 2).to_string() },
/// );
/// let runtime = Runtime::builder().registry(ToolRegistry::builder().add(double).build()?).build()?;
/// let output = runtime.call("double", json!({"n": 21})).await.map_err(|f| f.to_string()).unwrap();
/// assert_eq!(output.to_text(), "42");
/// # Ok::<(), haft::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

impl Runtime {
    /// Starts setting up a runtime.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder {
            config: Config::default(),
            budget: Budget::default(),
            registry: None,
            policy: None,
            guards: Vec::new(),
            hooks: Vec::new(),
            middleware: Vec::new(),
            clock: Arc::new(RuntimeClock),
            seed: None,
            nonces: Nonces::random(),
            approvers: Vec::new(),
            grants: None,
            journal: None,
            secrets: Secrets::new(),
            bad_secret: None,
            observers: Vec::new(),
            artifacts: None,
            state: TypeMap::default(),
        }
    }

    /// Starts a run with the default settings.
    #[must_use]
    pub fn run(&self) -> Run {
        self.run_builder().start()
    }

    /// Configures a run before it starts.
    pub fn run_builder(&self) -> RunBuilder {
        let n = self.0.runs.fetch_add(1, Ordering::Relaxed) + 1;
        RunBuilder::new(&self.0, RunId::from(format!("run-{n}")))
    }

    /// Runs a single call in a run of its own.
    ///
    /// # Errors
    /// Returns the failure that a model would receive. Outside of a tokio runtime nothing runs, and
    /// the failure says so.
    pub async fn call(
        &self,
        name: impl Into<haft_core::ToolName>,
        arguments: impl Into<Arguments>,
    ) -> Result<Output, Failure> {
        if !in_tokio_runtime() {
            return Err(Failure::new(FailureCode::NotRun, NO_TOKIO_RUNTIME));
        }
        let turn = self.run_builder().one_shot().start().turn().await.map_err(|e| {
            Failure::new(FailureCode::NotRun, "the tools could not be loaded").with_source(e)
        })?;
        let call = ToolCall::new("call", name, arguments);
        match turn.run(vec![call]).await.pop() {
            Some(result) => result.into_outcome(),
            None => Err(Failure::new(FailureCode::UnknownOutcome, "the call has no result")),
        }
    }

    /// Returns the registry.
    #[must_use]
    pub fn registry(&self) -> &ToolRegistry {
        &self.0.registry
    }

    /// Returns the limits in force.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// Returns the store for large results.
    #[must_use]
    pub fn artifacts(&self) -> &Artifacts {
        &self.0.artifacts.store
    }

    /// Opens a stream of all events from now on. It buffers at most `capacity` unread events.
    ///
    /// No call waits for a reader (no backpressure). For a slow reader, progress events are dropped
    /// first, then the oldest events, and terminal events last. The stream reports each gap in its
    /// position.
    pub fn events(&self, capacity: usize) -> EventStream {
        self.0.events.stream(capacity)
    }

    /// Returns the records of calls that match, by default the last 100. Empty if the journal does
    /// not support queries; the default in-memory journal does.
    #[must_use]
    pub fn records(&self, query: &RecordQuery) -> Vec<ExecutionRecord> {
        host_code::caught(|| self.0.journal.any().find(query)).ok().flatten().unwrap_or_default()
    }

    /// Returns the text for the system prompt: how to read the markers around results. Empty if
    /// there are no markers ([`Frame::Never`]).
    #[must_use]
    pub fn system_text(&self) -> &'static str {
        match self.0.config.frame {
            Frame::Always | Frame::Untrusted => SYSTEM_TEXT,
            Frame::Never => "",
        }
    }

    /// Returns the secrets. More may be added at any time.
    #[must_use]
    pub fn secrets(&self) -> &Secrets {
        self.0.redactor.secrets()
    }

    /// Returns the redactor, for text that the host shows by other means.
    #[must_use]
    pub fn redactor(&self) -> &Redactor {
        &self.0.redactor
    }

    /// Describes the middleware and layers around the body of a tool, outermost first.
    #[must_use]
    pub fn layers_of(&self, tool: &RegisteredTool) -> Vec<String> {
        let around = self.middleware_of(tool).into_iter().map(|name| format!("middleware: {name}"));
        around.chain(layers::listed(tool, &self.0.config)).collect()
    }

    /// Returns the names of the middleware around calls of a tool, outermost first.
    #[must_use]
    pub fn middleware_of(&self, tool: &RegisteredTool) -> Vec<&str> {
        let around = self.0.middleware.iter().filter(|own| own.applies_to(tool));
        around.map(Around::name).collect()
    }

    /// Cancels background work, waits for it to end, and closes the sources in reverse order.
    /// Background work first has `background_grace` to end by itself; finished results can still be
    /// fetched from their runs. Dropping the runtime closes the sources without waiting.
    pub async fn close(&self) {
        if self.0.background.any() {
            self.0.background.close(&self.0).await;
        }
        self.0.registry.close(&*self.0.clock).await;
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("registry", &self.0.registry).finish_non_exhaustive()
    }
}

/// Sets up a [`Runtime`].
#[must_use]
pub struct RuntimeBuilder {
    config: Config,
    budget: Budget,
    registry: Option<ToolRegistry>,
    policy: Option<Box<dyn Policy>>,
    guards: Vec<Box<dyn Guard>>,
    hooks: Vec<AddedHook>,
    middleware: Vec<AroundPlace>,
    clock: Arc<dyn Clock>,
    seed: Option<u64>,
    nonces: Nonces,
    approvers: Vec<Box<dyn Approver>>,
    grants: Option<Arc<GrantStore>>,
    journal: Option<RuntimeJournal>,
    secrets: Secrets,
    bad_secret: Option<Error>,
    observers: Vec<Box<dyn Observer>>,
    artifacts: Option<Artifacts>,
    state: TypeMap,
}

impl RuntimeBuilder {
    /// Sets the limits.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets the budget of every run. A run may lower it, never raise it.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets the tools.
    pub fn registry(mut self, registry: ToolRegistry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Sets the policy. The default is [`DefaultPolicy`](crate::policy::DefaultPolicy).
    pub fn policy(mut self, policy: impl Policy) -> Self {
        self.policy = Some(Box::new(policy));
        self
    }

    /// Adds a guard for every call.
    pub fn guard(mut self, guard: impl Guard) -> Self {
        self.guards.push(Box::new(guard));
        self
    }

    /// Adds a guard for the tools whose name matches a pattern with `*` and `?`.
    pub fn guard_for(self, pattern: &str, guard: impl Guard) -> Self {
        self.guard(ForTools::new(pattern, guard))
    }

    /// Adds a hook around every call.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.hooks.push(AddedHook { hook: Box::new(hook), tools: None });
        self
    }

    /// Adds a hook around the calls of tools whose name matches, where `*` matches any text. Hooks
    /// run in the order they were added.
    pub fn hook_for(mut self, tools: impl Into<String>, hook: impl Hook) -> Self {
        self.hooks.push(AddedHook { hook: Box::new(hook), tools: Some(tools.into()) });
        self
    }

    /// Adds a middleware around the calls of all tools. The first one added is the outermost.
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        self.middleware.push(AroundPlace { middleware: Box::new(middleware), tools: None });
        self
    }

    /// Adds a middleware around the calls of tools whose name matches, where `*` matches any text.
    /// The first one added is the outermost.
    pub fn middleware_for(mut self, tools: impl Into<String>, middleware: impl Middleware) -> Self {
        let tools = Some(tools.into());
        self.middleware.push(AroundPlace { middleware: Box::new(middleware), tools });
        self
    }

    /// Replaces the clock.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Seeds the jitter between attempts, so that tests and replays are reproducible.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Adds a secret for every tool with `capabilities(secrets)`. Tools use it as `secret://name`
    /// in their arguments, or by [`ToolContext::secret`](haft_core::ToolContext::secret). Its value
    /// is redacted from all output.
    pub fn secret(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        let added = self.secrets.add(name, value);
        self.bad_secret = self.bad_secret.or(added.err());
        self
    }

    /// Adds a secret for the tools whose name matches, such as `mail_*`. They must declare
    /// `capabilities(secrets)` as well.
    pub fn secret_for(
        mut self,
        tools: impl Into<String>,
        name: impl Into<String>,
        value: impl Into<Secret>,
    ) -> Self {
        let added = self.secrets.add_for(tools, name, value);
        self.bad_secret = self.bad_secret.or(added.err());
        self
    }

    /// Replaces all secrets added so far. The set is shared, so more may be added later.
    pub fn secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// Replaces the nonces in the markers around results, so that tests and recordings are
    /// reproducible.
    pub fn nonces(mut self, nonces: Nonces) -> Self {
        self.nonces = nonces;
        self
    }

    /// Adds an approver. Without one, calls that need approval are denied. With several, all are
    /// asked at once and the first valid answer counts.
    pub fn approver(mut self, approver: impl Approver) -> Self {
        self.approvers.push(Box::new(approver));
        self
    }

    /// Sets the store of signed approvals. Without one, approvals end with the process.
    pub fn grants(mut self, grants: impl Into<Arc<GrantStore>>) -> Self {
        self.grants = Some(grants.into());
        self
    }

    /// Sets the journal. Without one, the last calls are kept in memory.
    pub fn journal(mut self, journal: impl Journal) -> Self {
        self.journal = Some(RuntimeJournal::new(journal));
        self
    }

    /// Adds an observer of events.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers.push(Box::new(observer));
        self
    }

    /// Sets the store for results that are too large for the model. Without one, they are kept in
    /// memory for an hour, up to [`Config::max_artifacts`].
    pub fn artifacts(mut self, artifacts: Artifacts) -> Self {
        self.artifacts = Some(artifacts);
        self
    }

    /// Supplies a value for tools (`State<T>`).
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.state.insert(value);
        self
    }

    /// Validates everything and builds the runtime.
    ///
    /// # Errors
    /// Fails for an invalid limit or secret, for a tool whose `State` is not supplied, for a hook,
    /// guard or middleware whose `name` panics, for two middleware with the same name, or if the
    /// system provides no randomness to sign approvals with.
    pub fn build(self) -> Result<Runtime, Error> {
        self.config.check()?;
        if let Some(error) = self.bad_secret {
            return Err(error);
        }
        let registry = match self.registry {
            Some(registry) => registry,
            None => ToolRegistry::builder().build()?,
        };
        for entry in registry.own() {
            let missing = entry
                .spec()
                .needs
                .iter()
                .find(|n| n.kind == DependencyKind::State && !self.state.has(n.type_id));
            if let Some(need) = missing {
                return Err(Error::new(
                    ErrorKind::MissingState,
                    format!("tool `{}` needs a `State<{}>`", entry.name(), need.type_name),
                )
                .hint("pass it to the runtime's builder with `.state(value)`"));
            }
        }
        let policy_timeout = self.config.policy_timeout;
        let hooks = self.hooks.into_iter().map(|place| NamedHook::new(place, policy_timeout));
        let journal = self.journal.unwrap_or_else(|| {
            let journal = MemoryJournal::new(self.config.max_records);
            let journal = journal.max_bytes(self.config.max_record_bytes);
            RuntimeJournal::Memory(journal.clock(Arc::clone(&self.clock)))
        });
        let grants = match self.grants {
            Some(grants) => grants,
            None => Arc::new(GrantStore::new()?.on_clock(Arc::clone(&self.clock))),
        };
        let redactor = RuntimeRedactor::new(self.secrets);
        redactor.prepare();
        let artifacts =
            self.artifacts.unwrap_or_else(|| Artifacts::memory(self.config.max_artifacts));
        let artifacts = RuntimeArtifacts::new(artifacts.with_clock(Arc::clone(&self.clock)))?;
        Ok(Runtime(Arc::new(Inner {
            artifacts,
            threads: Threads::new(self.config.max_threads),
            policy: RuntimePolicy::new(self.policy),
            guards: self.guards.into_iter().map(NamedGuard::new).collect::<Result<_, _>>()?,
            hooks: hooks.collect::<Result<_, _>>()?,
            middleware: Around::seat(self.middleware, policy_timeout)?,
            layers: RuntimeLayers::new(&self.config, self.seed),
            redactor: redactor.clone(),
            events: Events::new(self.observers, Arc::clone(&self.clock), redactor),
            clock: self.clock,
            nonces: self.nonces,
            approvals: ApprovalQueue::new(self.approvers, grants, &self.config),
            state: Arc::new(self.state),
            keys: Arc::default(),
            background: Background::default(),
            runs: AtomicU64::new(0),
            config: self.config,
            budget: self.budget,
            workspace: workspace(&registry),
            registry,
            journal,
        })))
    }
}

/// Returns the root directory of the tools; `None` if they have different ones.
fn workspace(registry: &ToolRegistry) -> Option<Arc<Path>> {
    let mut folders = registry.own().filter_map(|entry| entry.roots().first());
    let first = folders.next()?;
    folders.all(|folder| folder == first).then(|| first.as_path().into())
}

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeBuilder").field("config", &self.config).finish_non_exhaustive()
    }
}
