//! Keeps the connection to one server open: connects, lists tools, and reconnects with back-off.
//!
//! A server that keeps failing is left alone for a while (circuit breaker): its calls fail at once,
//! and no other server waits for it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rmcp::model::Tool;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    config::{Era, ServerConfig, ServerTransport},
    connect_error::ConnectError,
    connection::{Connection, OpenConnection, connect},
    host::ClientHost,
    identity::{self, ServerIdentity},
    oauth::ServerAuth,
    process::StderrTail,
    task::spawn,
};
use crate::server::ListChange;

/// The first pause before a reconnect. It doubles with every failure.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause before a reconnect.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// After so many failures in a row, calls fail without waiting.
const BREAKER_FAILURES: u32 = 5;
/// How often one attempt to connect may log in.
const MAX_LOGINS: usize = 2;
/// A connection that lived so long was not a failure.
const STABLE: Duration = Duration::from_secs(10);
/// Changes of a list within this time are one change.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// The state of a server.
#[derive(Clone)]
pub(super) enum State {
    /// It was not started yet.
    Idle,
    /// It is starting, for the first time or again.
    Starting,
    /// It is connected and has listed its tools.
    Ready(Arc<Connection>),
    /// It failed; there will be another attempt.
    Failed {
        /// Why.
        error: Arc<ConnectError>,
        /// Whether calls fail at once.
        is_open: bool,
    },
    /// It was closed by us.
    Closed,
}

/// What the supervisor shares with the calls of its server.
pub(super) struct Supervisor {
    pub(super) config: ServerConfig,
    pub(super) state: watch::Sender<State>,
    /// The tools as the server defined them last; `None` before the first list.
    definitions: Mutex<Option<Arc<Vec<Tool>>>>,
    /// What the server was at its last start.
    identity: Mutex<Arc<ServerIdentity>>,
    pub(super) stderr: StderrTail,
    pub(super) host: ClientHost,
    /// The detected era, so that a reconnect need not ask again.
    era: Mutex<Era>,
    /// A call waits for a reconnect.
    wanted: Notify,
    /// A call needs a connection with new headers.
    renewed: Notify,
    stop: CancellationToken,
    started: Mutex<Option<Instant>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Supervisor {
    pub(super) fn new(config: ServerConfig, host: ClientHost) -> Arc<Self> {
        let (state, _) = watch::channel(State::Idle);
        Arc::new(Self {
            era: Mutex::new(config.era),
            identity: Mutex::new(Arc::new(ServerIdentity {
                command: config.transport.identity(),
                ..ServerIdentity::default()
            })),
            config,
            state,
            definitions: Mutex::default(),
            stderr: StderrTail::default(),
            host,
            wanted: Notify::new(),
            renewed: Notify::new(),
            stop: CancellationToken::new(),
            started: Mutex::default(),
        })
    }

    /// Starts to connect, once. Returns at once.
    pub(super) fn start(self: &Arc<Self>) {
        let mut started = lock(&self.started);
        if started.is_none() {
            *started = Some(Instant::now());
            self.state.send_replace(State::Starting);
            let supervisor = Arc::clone(self);
            spawn(async move { supervisor.run().await });
        }
    }

    /// When [`Supervisor::start`] was called.
    pub(super) fn started(&self) -> Option<Instant> {
        *lock(&self.started)
    }

    /// The era that was detected, or the configured one.
    pub(super) fn era(&self) -> Era {
        *lock(&self.era)
    }

    /// Sets the era to try first, unless one is configured. If it fails, the server is asked.
    pub(super) fn expect_era(&self, era: Era) {
        if self.config.era == Era::Auto {
            *lock(&self.era) = era;
        }
    }

    pub(super) fn definitions(&self) -> Option<Arc<Vec<Tool>>> {
        lock(&self.definitions).clone()
    }

    pub(super) fn identity(&self) -> Arc<ServerIdentity> {
        Arc::clone(&lock(&self.identity))
    }

    /// Asks for an attempt to connect without waiting for the pause to end.
    pub(super) fn want(&self) {
        self.wanted.notify_one();
    }

    /// Makes a new connection with new headers, if a command makes them. `old` is the connection
    /// whose headers a server refused; `false` if there is no such command.
    pub(super) async fn renew(&self, old: &Arc<Connection>) -> bool {
        let ServerTransport::Http(endpoint) = &self.config.transport else { return false };
        if endpoint.headers_helper.is_none() {
            return false;
        }
        let is_old = |state: &State| matches!(state, State::Ready(connection) if Arc::ptr_eq(connection, old));
        let mut state = self.state.subscribe();
        if is_old(&state.borrow_and_update()) {
            self.renewed.notify_one();
            self.want();
        }
        state.wait_for(|state| !is_old(state)).await.is_ok()
    }

    /// Asks the supervisor to end. It closes the connection and stops the process.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until the supervisor has ended.
    pub(super) async fn closed(&self) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| matches!(state, State::Closed | State::Idle)).await;
    }

    async fn run(self: Arc<Self>) {
        let mut failures = 0;
        while !self.stop.is_cancelled() {
            let attempt = tokio::time::timeout(self.config.start_timeout, self.open());
            let opened = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                opened = attempt => opened,
            };
            let error = match opened {
                Ok(Ok((connection, open))) => {
                    let since = Instant::now();
                    self.keep(connection, open).await;
                    if since.elapsed() >= STABLE {
                        failures = 0;
                    }
                    ConnectError::new(self.with_stderr("the connection ended"))
                }
                Ok(Err(error)) => {
                    let message = self.with_stderr(&error.message);
                    ConnectError { message, ..error }
                }
                Err(_) => ConnectError::new(self.with_stderr(&format!(
                    "it did not start within {:?}",
                    self.config.start_timeout
                ))),
            };
            failures += 1;
            self.pause(failures, error).await;
        }
        self.state.send_replace(State::Closed);
    }

    /// Connects and lists the tools, with a login if the server wants one and there is a browser.
    async fn open(&self) -> Result<(Connection, OpenConnection), ConnectError> {
        let mut logins = 0;
        loop {
            let error = match self.open_once().await {
                Ok(opened) => return Ok(opened),
                Err(error) => error,
            };
            let Some(challenge) = error.challenge.clone().filter(|_| logins < MAX_LOGINS) else {
                // What was detected may be wrong after an update of the server.
                if self.era() != self.config.era {
                    *lock(&self.era) = self.config.era;
                    continue;
                }
                return Err(error);
            };
            logins += 1;
            self.login(&challenge).await.map_err(|why| ConnectError {
                message: format!("{}; {why}", error.message),
                needs_login: true,
                challenge: None,
            })?;
        }
    }

    async fn open_once(&self) -> Result<(Connection, OpenConnection), ConnectError> {
        // The file is read while the server starts.
        let transport = self.config.transport.clone();
        let program = tokio::task::spawn_blocking(move || identity::program(&transport));
        let (connection, open) =
            connect(&self.config, self.era(), &self.host, &self.stderr).await?;
        let tools = match connection.list_tools().await {
            Ok(tools) => tools,
            Err(error) => {
                open.close().await;
                return Err(error);
            }
        };
        let command = self.config.transport.identity();
        let (program, name) = (program.await.unwrap_or_default(), connection.server_name());
        *lock(&self.identity) = Arc::new(ServerIdentity { command, program, name });
        *lock(&self.era) = connection.era;
        *lock(&self.definitions) = Some(Arc::new(tools));
        Ok((connection, open))
    }

    /// Logs in after a challenge of the server.
    pub(super) async fn login(&self, challenge: &str) -> Result<(), String> {
        let (Some(browser), Some(auth)) = (&self.host.browser, self.auth()) else {
            return Err(format!("log in with `haft mcp login {}`", self.config.name));
        };
        auth.login(&**browser, Some(challenge)).await.map_err(|why| why.to_string())
    }

    fn auth(&self) -> Option<ServerAuth<'_>> {
        let ServerTransport::Http(endpoint) = &self.config.transport else { return None };
        let credentials = self.host.credentials.as_ref()?;
        Some(ServerAuth { server: &self.config.name, endpoint, credentials })
    }

    /// Keeps a connection until it ends or the supervisor is stopped, and closes it.
    async fn keep(&self, connection: Connection, mut open: OpenConnection) {
        let connection = Arc::new(connection);
        self.state.send_replace(State::Ready(Arc::clone(&connection)));
        if let Some(changes) = &self.host.changes {
            for change in [ListChange::Tools, ListChange::Prompts, ListChange::Resources] {
                changes.announce(change);
            }
        }
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                () = open.ended() => break,
                () = self.renewed.notified() => break,
                () = connection.tools_changed() => {
                    tokio::time::sleep(DEBOUNCE).await;
                    // If the list fails, the last one stays.
                    if let Ok(tools) = connection.list_tools().await {
                        *lock(&self.definitions) = Some(Arc::new(tools));
                        self.state.send_modify(|_| {});
                        if let Some(changes) = &self.host.changes {
                            changes.announce(ListChange::Tools);
                        }
                    }
                }
            }
        }
        // New calls wait for the next connection.
        self.state.send_replace(State::Starting);
        open.close().await;
    }

    /// Waits before the next attempt.
    async fn pause(&self, failures: u32, error: ConnectError) {
        let is_open = failures >= BREAKER_FAILURES || error.needs_login;
        self.state.send_replace(State::Failed { error: Arc::new(error), is_open });
        let pause = self.pause_after(failures);
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
            () = self.wanted.notified(), if !is_open => {}
        }
        self.state.send_replace(State::Starting);
    }

    /// The pause after so many failures, spread so that many servers do not reconnect at once.
    fn pause_after(&self, failures: u32) -> Duration {
        let doubled = FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(16));
        let spread = self
            .config
            .name
            .bytes()
            .fold(failures, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
        doubled.min(MAX_PAUSE).mul_f64(1.0 + f64::from(spread % 100) / 400.0)
    }

    fn with_stderr(&self, message: &str) -> String {
        let stderr = self.stderr.text();
        match stderr.trim().lines().next_back() {
            Some(line) => format!("{message}; its last output: {line}"),
            None => message.to_owned(),
        }
    }
}
