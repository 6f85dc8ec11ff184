//! `RemoteServer`: one MCP server as a source of tools.
//!
//! INVARIANT: no text of a server reaches a model before it was admitted, and no tool whose
//! definition changed since it was pinned is offered.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use haft::{
    BoxFuture, Error,
    registry::ToolSource,
    tool::{BoxError, DynTool},
};
use rmcp::model::Tool;
use serde::Serialize;
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use super::{
    admission::{self, KnownTools},
    config::{Era, Pinning, ServerConfig},
    host::ClientHost,
    identity,
    pins::{self, PinChange, PinState, PinnedServer, PinnedTool},
    remote_tool,
    supervisor::{State, Supervisor},
};

/// One MCP server: a source of tools for a registry. A clone is the same server.
///
/// Opening it returns at once. The first turn waits a moment for its tools
/// ([`ServerConfig::start_wait`]); later turns take what is there. A server that is dead or slow
/// never delays the others.
#[derive(Clone)]
pub struct RemoteServer(Arc<Inner>);

struct Inner {
    supervisor: Arc<Supervisor>,
    pins: Mutex<Option<PinnedServer>>,
    offered: Mutex<Option<Offered>>,
    /// The thread that writes down the first pins.
    keeping: Mutex<Option<JoinHandle<()>>>,
}

/// What was made of a list of definitions.
#[derive(Clone)]
struct Offered {
    definitions: Arc<Vec<Tool>>,
    tools: Vec<DynTool>,
    withheld: Vec<WithheldTool>,
}

impl RemoteServer {
    /// Makes a server. Nothing is started before a registry opens it.
    ///
    /// # Errors
    /// Fails as [`ServerConfig::check`] does.
    pub fn new(config: ServerConfig) -> Result<Self, Error> {
        Self::with(config, ClientHost::default())
    }

    /// Makes a server that may use what the host provides.
    ///
    /// # Errors
    /// Fails as [`ServerConfig::check`] does.
    pub fn with(config: ServerConfig, host: ClientHost) -> Result<Self, Error> {
        config.check()?;
        Ok(Self(Arc::new(Inner {
            supervisor: Supervisor::new(config, host),
            pins: Mutex::default(),
            offered: Mutex::default(),
            keeping: Mutex::default(),
        })))
    }

    /// Sets what is pinned of it. Tools that differ are withheld from the next turn on. Without
    /// pins, the first list that the server sends is pinned.
    pub fn set_pins(&self, pins: Option<PinnedServer>) {
        let era = pins.as_ref().and_then(|pins| Era::parse(pins.era.as_deref()?));
        if let Some(era) = era {
            self.0.supervisor.expect_era(era);
        }
        *lock(&self.0.pins) = pins;
        *lock(&self.0.offered) = None;
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &ServerConfig {
        &self.0.supervisor.config
    }

    pub(super) fn supervisor(&self) -> &Arc<Supervisor> {
        &self.0.supervisor
    }

    /// Starts it, if it was not started. Returns at once.
    pub fn start(&self) {
        self.0.supervisor.start();
    }

    /// Starts it and waits until it is ready or has failed, at most so long.
    pub async fn wait(&self, limit: Duration) -> ServerStatus {
        self.start();
        self.settled(Instant::now() + limit).await;
        self.status()
    }

    async fn settled(&self, until: Instant) {
        let mut state = self.0.supervisor.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, State::Idle | State::Starting));
        let _ = timeout_at(until, settled).await;
    }

    /// Closes it and waits until its process has ended.
    pub async fn shut_down(&self) {
        self.0.supervisor.stop();
        self.0.supervisor.closed().await;
        let keeping = lock(&self.0.keeping).take();
        if let Some(keeping) = keeping {
            let _ = keeping.await;
        }
    }

    /// Returns what is known about it right now.
    #[must_use]
    pub fn status(&self) -> ServerStatus {
        let supervisor = &self.0.supervisor;
        let (state, error, needs_login) = match &*supervisor.state.borrow() {
            State::Idle => (ServerState::Idle, None, false),
            State::Starting => (ServerState::Starting, None, false),
            State::Ready(_) => (ServerState::Ready, None, false),
            State::Failed { error, .. } => {
                (ServerState::Failed, Some(error.message.clone()), error.needs_login)
            }
            State::Closed => (ServerState::Closed, None, false),
        };
        let offered = self.offered();
        ServerStatus {
            name: self.config().name.clone(),
            state,
            error,
            needs_login,
            era: supervisor.era().as_str(),
            tools: offered.as_ref().map_or(0, |offered| offered.tools.len()),
            withheld: offered.map(|offered| offered.withheld).unwrap_or_default(),
            is_pinned: lock(&self.0.pins).is_some(),
            stderr: supervisor.stderr.text(),
        }
    }

    /// Returns what is pinned of it.
    #[must_use]
    pub fn pins(&self) -> Option<PinnedServer> {
        lock(&self.0.pins).clone()
    }

    /// Returns what to pin of the server as it is now; `None` before its first list.
    #[must_use]
    pub fn pinned_now(&self) -> Option<PinnedServer> {
        let definitions = self.0.supervisor.definitions()?;
        let before = lock(&self.0.pins).clone();
        Some(self.pin(&definitions, before.as_ref()))
    }

    fn pin(&self, definitions: &[Tool], before: Option<&PinnedServer>) -> PinnedServer {
        let tools = definitions.iter().map(|tool| {
            let definition = pins::definition(tool);
            let hash = pins::hash_of(&definition);
            let pin = before.and_then(|pins| pins.tools.get(&*tool.name));
            let reviewed = pin.is_some_and(|pin| pin.reviewed && pin.hash == hash);
            (tool.name.to_string(), PinnedTool { hash, reviewed, definition })
        });
        let now = self.0.supervisor.identity();
        let same = before.filter(|pins| pins.identity == now.command);
        // What was pinned on other machines stays.
        let mut programs = same.map(|pins| pins.programs.clone()).unwrap_or_default();
        programs.remove(&identity::platform());
        programs.extend(now.program.clone().map(|program| (identity::platform(), program)));
        PinnedServer {
            identity: now.command.clone(),
            name: now.name.clone(),
            programs,
            era: self.0.supervisor.era().as_str().map(str::to_owned),
            tools: tools.collect::<BTreeMap<_, _>>(),
        }
    }

    /// Lists what has changed since it was pinned; empty if nothing is pinned or listed.
    #[must_use]
    pub fn pin_changes(&self) -> Vec<PinChange> {
        match (&*lock(&self.0.pins), self.0.supervisor.definitions()) {
            (Some(pins), Some(now)) => pins::changes(pins, &self.0.supervisor.identity(), &now),
            _ => Vec::new(),
        }
    }

    /// The tools that are offered, and those that are not. `None` before the first list.
    fn offered(&self) -> Option<Offered> {
        let definitions = self.0.supervisor.definitions()?;
        let mut offered = lock(&self.0.offered);
        match &*offered {
            Some(known) if Arc::ptr_eq(&known.definitions, &definitions) => {}
            _ => *offered = Some(self.admit(definitions)),
        }
        offered.clone()
    }

    fn admit(&self, definitions: Arc<Vec<Tool>>) -> Offered {
        let config = self.config();
        let names = definitions.iter().map(|tool| tool.name.to_string());
        self.known().set(&config.name, names.collect());
        let pins = self.pins_or_first(&definitions);
        let mut offered = Offered {
            definitions: Arc::clone(&definitions),
            tools: Vec::new(),
            withheld: Vec::new(),
        };
        let mut folded = BTreeSet::new();
        for tool in definitions.iter().filter(|tool| config.uses(&tool.name)) {
            let mut withhold = |reasons: Vec<String>| {
                offered.withheld.push(WithheldTool { tool: tool.name.to_string(), reasons });
            };
            if !folded.insert(tool.name.to_lowercase()) {
                withhold(vec!["another tool of this server has the same name".to_owned()]);
                continue;
            }
            let reviewed = match self.pin_state(pins.as_ref(), tool) {
                Ok(reviewed) => reviewed,
                Err(reason) => {
                    withhold(vec![reason]);
                    continue;
                }
            };
            match admission::review(tool, &config.name, self.known()) {
                Err(reasons) if !reviewed => withhold(reasons),
                review => {
                    let texts = review.unwrap_or_else(|_| admission::texts_of(tool, &config.name));
                    offered.tools.push(remote_tool::dyn_tool(
                        &self.0.supervisor,
                        &definitions,
                        tool,
                        texts,
                    ));
                }
            }
        }
        offered
    }

    /// The pins; if there are none, these first definitions become the pins.
    fn pins_or_first(&self, definitions: &[Tool]) -> Option<PinnedServer> {
        let mut pins = lock(&self.0.pins);
        if pins.is_none() && self.config().pinning != Pinning::Off {
            let first = self.pin(definitions, None);
            self.keep_first(&first);
            *pins = Some(first);
        }
        pins.clone()
    }

    /// Writes down the first pins. It may wait for a disk, so that a thread does it; `shut_down`
    /// waits for it. If they cannot be kept, they count at least until the program ends.
    fn keep_first(&self, first: &PinnedServer) {
        let Some(store) = self.0.supervisor.host.pins.clone() else { return };
        let (name, first) = (self.config().name.clone(), first.clone());
        let keep = move || drop(store.keep_first(&name, &first));
        match tokio::runtime::Handle::try_current() {
            Ok(threads) => *lock(&self.0.keeping) = Some(threads.spawn_blocking(keep)),
            Err(_) => keep(),
        }
    }

    pub(crate) fn known(&self) -> &KnownTools {
        &self.0.supervisor.host.known
    }

    /// Returns whether a person has reviewed a definition, or why pinning withholds it.
    fn pin_state(&self, pins: Option<&PinnedServer>, tool: &Tool) -> Result<bool, String> {
        let reason = match pins::compare(pins, &self.0.supervisor.identity(), tool) {
            PinState::NoPins => return Ok(false),
            PinState::Same { reviewed } => return Ok(reviewed),
            PinState::New => "it is new since the server was pinned".to_owned(),
            PinState::Changed => "its definition changed since it was pinned".to_owned(),
            PinState::OtherServer(part) => {
                format!("the {part} of the server changed since it was pinned")
            }
        };
        match self.config().pinning {
            Pinning::Pin => {
                let name = &self.config().name;
                Err(format!("{reason}; see `haft mcp diff {name}`"))
            }
            Pinning::Warn | Pinning::Off => Ok(false),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ToolSource for RemoteServer {
    fn name(&self) -> &str {
        &self.config().name
    }

    fn open(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        self.start();
        Box::pin(async { Ok(()) })
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<DynTool>, BoxError>> {
        Box::pin(async move {
            if self.0.supervisor.definitions().is_none()
                && let Some(started) = self.0.supervisor.started()
            {
                self.settled(started + self.config().start_wait).await;
            }
            match self.offered() {
                Some(offered) => Ok(offered.tools),
                None => {
                    let status = self.status();
                    Err(status.error.unwrap_or_else(|| "it is still starting".to_owned()).into())
                }
            }
        })
    }

    /// The first list waits for the server, which may take longer than a check of the runtime:
    /// `npx` installs it first.
    fn list_timeout(&self) -> Option<Duration> {
        const MARGIN: Duration = Duration::from_secs(5);
        self.0.supervisor.definitions().is_none().then(|| self.config().start_wait + MARGIN)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.shut_down())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The supervisor's task has its own reference; it ends and stops the process.
        self.supervisor.stop();
    }
}

impl fmt::Debug for RemoteServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteServer").field("config", self.config()).finish_non_exhaustive()
    }
}

/// What is known about a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ServerStatus {
    /// Its configured name.
    pub name: String,
    /// Whether it is connected.
    pub state: ServerState,
    /// Why it failed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether it wants an OAuth login.
    pub needs_login: bool,
    /// The protocol that it speaks, once known.
    pub era: Option<&'static str>,
    /// How many tools are offered.
    pub tools: usize,
    /// The tools that are not offered, with the reasons.
    pub withheld: Vec<WithheldTool>,
    /// Whether its definitions are compared with pinned ones.
    pub is_pinned: bool,
    /// The end of its standard error.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stderr: String,
}

/// Whether a server is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerState {
    /// It was not started.
    Idle,
    /// It is starting.
    Starting,
    /// It is connected and has listed its tools.
    Ready,
    /// It failed. There will be another attempt.
    Failed,
    /// It was closed.
    Closed,
}

/// A tool that is not offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WithheldTool {
    /// The server's own name of it.
    pub tool: String,
    /// Why.
    pub reasons: Vec<String>,
}

impl Era {
    /// Returns the era of a revision's name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            "2025-11-25" => Some(Self::Legacy),
            "2026-07-28" => Some(Self::Modern),
            _ => None,
        }
    }
}
