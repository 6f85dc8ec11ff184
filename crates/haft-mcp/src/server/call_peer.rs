//! The client behind a call: a tool, an approver or a provider asks it, and logs to it.
//!
//! In: questions and log entries of the running call. Out: messages to the job, which alone talks
//! to the client, because a notification belongs to the stream of its request.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft::{Failure, FailureCode, ToolContext, tool::CallId};
use rmcp::model::ClientCapabilities;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::client_request::{ClientRequest, RequestKind};

/// How many messages of a call wait for its client. Log entries beyond are dropped.
const MAX_MESSAGES: usize = 64;

/// The client of one call. A clone is the same client.
#[derive(Clone)]
pub struct CallPeer(Arc<Link>);

struct Link {
    support: ClientSupport,
    log_level: Option<LogLevel>,
    messages: mpsc::Sender<Message>,
    /// The protocol error that answers the call if it fails.
    rejection: Mutex<Option<Rejection>>,
}

/// What the client of a request declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ClientSupport {
    pub(super) form: bool,
    pub(super) url: bool,
    pub(super) sampling: bool,
    pub(super) roots: bool,
    pub(super) tasks: bool,
}

impl ClientSupport {
    pub(super) fn of(declared: Option<&ClientCapabilities>) -> Self {
        let Some(declared) = declared else { return Self::default() };
        let elicitation = declared.elicitation.as_ref();
        Self {
            // An empty object declares forms, as clients did before there were modes.
            form: elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none()),
            url: elicitation.is_some_and(|modes| modes.url.is_some()),
            sampling: declared.sampling.is_some(),
            roots: declared.roots.is_some(),
            tasks: declared.supports_tasks(),
        }
    }

    fn has(self, kind: RequestKind) -> bool {
        match kind {
            RequestKind::Form => self.form,
            RequestKind::Url => self.url,
            RequestKind::Sampling => self.sampling,
            RequestKind::Roots => self.roots,
        }
    }
}

/// The severity of a log entry, as in syslog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// For finding a fault.
    Debug,
    /// Normal work.
    Info,
    /// Normal and significant.
    Notice,
    /// Something may be wrong.
    Warning,
    /// Something failed.
    Error,
    /// Something important failed.
    Critical,
    /// An operator must act.
    Alert,
    /// The system is unusable.
    Emergency,
}

/// A JSON-RPC error that answers a call in place of its result.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rejection {
    pub(super) code: i32,
    pub(super) message: String,
    pub(super) data: Option<Value>,
}

/// What a running call sends to its job.
pub(super) enum Message {
    Ask(Vec<Question>),
    Log(LogEntry),
    BecomeTask,
}

/// One question of a call.
pub(super) struct Question {
    pub(super) key: String,
    pub(super) request: ClientRequest,
    pub(super) answer: oneshot::Sender<Value>,
    /// Whether its call has not started, so that it can be written down.
    pub(super) can_park: bool,
}

/// One log entry of a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LogEntry {
    pub(super) level: LogLevel,
    pub(super) logger: String,
    pub(super) data: Value,
}

impl CallPeer {
    pub(super) fn new(
        support: ClientSupport,
        log_level: Option<LogLevel>,
    ) -> (Self, mpsc::Receiver<Message>) {
        let (messages, receiver) = mpsc::channel(MAX_MESSAGES);
        let rejection = Mutex::default();
        (Self(Arc::new(Link { support, log_level, messages, rejection })), receiver)
    }

    /// Returns the client of a call that came over MCP; `None` for any other call.
    #[must_use]
    pub fn of(cx: &ToolContext) -> Option<Self> {
        let peers = cx.run_state::<Arc<CallPeers>>().ok()?;
        peers.get(cx.call_id())
    }

    /// Returns whether the client can answer such a question.
    #[must_use]
    pub fn supports(&self, kind: RequestKind) -> bool {
        self.0.support.has(kind)
    }

    /// Returns whether the client knows tasks.
    #[must_use]
    pub fn supports_tasks(&self) -> bool {
        self.0.support.tasks
    }

    /// Asks one question and waits for the answer: the result of the request, as JSON.
    ///
    /// # Errors
    /// Fails if the client did not declare the capability, or goes away.
    pub async fn ask(&self, key: &str, request: ClientRequest) -> Result<Value, Failure> {
        let mut answers = self.ask_all([(key.to_owned(), request)]).await?;
        answers.remove(key).ok_or_else(gone)
    }

    /// Asks whether a call may start, and waits for the answer. The call may be written down
    /// meanwhile.
    pub(super) async fn ask_before(
        &self,
        key: &str,
        request: ClientRequest,
        can_park: bool,
    ) -> Result<Value, Failure> {
        let mut answers = self.send([(key.to_owned(), request)], can_park).await?;
        answers.remove(key).ok_or_else(gone)
    }

    /// Asks several questions in one round and waits for all answers.
    ///
    /// # Errors
    /// Fails if the client did not declare a capability that is needed, or goes away.
    pub async fn ask_all(
        &self,
        requests: impl IntoIterator<Item = (String, ClientRequest)>,
    ) -> Result<BTreeMap<String, Value>, Failure> {
        self.send(requests, false).await
    }

    async fn send(
        &self,
        requests: impl IntoIterator<Item = (String, ClientRequest)>,
        can_park: bool,
    ) -> Result<BTreeMap<String, Value>, Failure> {
        let (mut questions, mut waiting) = (Vec::new(), Vec::new());
        for (key, request) in requests {
            if !self.supports(request.kind()) {
                return Err(not_supported(request.kind()));
            }
            request.to_sdk()?;
            let (answer, answered) = oneshot::channel();
            waiting.push((key.clone(), answered));
            questions.push(Question { key, request, answer, can_park });
        }
        self.0.messages.send(Message::Ask(questions)).await.map_err(|_| gone())?;
        let mut answers = BTreeMap::new();
        for (key, answered) in waiting {
            answers.insert(key, answered.await.map_err(|_| gone())?);
        }
        Ok(answers)
    }

    /// Requires a capability. Without it the call is answered with the protocol error for a missing
    /// capability.
    ///
    /// # Errors
    /// Fails if the client did not declare it. The tool must return the failure.
    pub fn require(&self, kind: RequestKind) -> Result<(), Failure> {
        if self.supports(kind) {
            return Ok(());
        }
        let declared = serde_json::json!({kind.capability(): {}});
        let data = serde_json::json!({"requiredCapabilities": declared});
        let message = format!("this call needs the client capability `{}`", kind.capability());
        Err(self.reject(MISSING_CLIENT_CAPABILITY, message, Some(data)))
    }

    /// Answers the call with a JSON-RPC error instead of a result, if it fails. For a gateway that
    /// passes on the error of another server.
    pub fn reject(&self, code: i32, message: impl Into<String>, data: Option<Value>) -> Failure {
        let message = message.into();
        let failure = Failure::failed(message.clone());
        *lock(&self.0.rejection) = Some(Rejection { code, message, data });
        failure
    }

    /// Sends a log entry, if the client asked for entries of this level. An entry that the client
    /// is too slow for is dropped.
    pub fn log(&self, level: LogLevel, logger: &str, data: Value) {
        if self.0.log_level.is_some_and(|wanted| level >= wanted) {
            let entry = LogEntry { level, logger: logger.to_owned(), data };
            let _ = self.0.messages.try_send(Message::Log(entry));
        }
    }

    /// Returns the lowest level of log entries that the client wants; `None` if it wants none.
    #[must_use]
    pub fn log_level(&self) -> Option<LogLevel> {
        self.0.log_level
    }

    /// Answers the client with a task now, and lets the call go on in it. Nothing happens if the
    /// client does not know tasks.
    pub async fn become_task(&self) {
        if self.supports_tasks() {
            let _ = self.0.messages.send(Message::BecomeTask).await;
        }
    }

    /// Returns the level of log entries that the client wants, as the SDK has it.
    #[expect(deprecated, reason = "servers of 2025-11-25 have logging")]
    pub(crate) fn sdk_log_level(&self) -> Option<rmcp::model::LoggingLevel> {
        self.0.log_level.map(super::core::to_sdk_level)
    }

    /// Passes on a log entry of another server.
    #[expect(deprecated, reason = "servers of 2025-11-25 have logging")]
    pub(crate) fn log_sdk(
        &self,
        entry: rmcp::model::LoggingMessageNotificationParam,
        server: &str,
    ) {
        let logger = match entry.logger {
            Some(logger) => format!("{server}/{logger}"),
            None => server.to_owned(),
        };
        self.log(super::core::from_sdk_level(entry.level), &logger, entry.data);
    }

    pub(super) fn take_rejection(&self) -> Option<Rejection> {
        lock(&self.0.rejection).take()
    }
}

/// The code of the protocol error for a capability that the client did not declare.
const MISSING_CLIENT_CAPABILITY: i32 = -32021;

fn not_supported(kind: RequestKind) -> Failure {
    let capability = kind.capability();
    Failure::new(
        FailureCode::NeedsInteraction,
        format!("the client cannot be asked: it does not declare the capability `{capability}`"),
    )
}

fn gone() -> Failure {
    Failure::new(FailureCode::NeedsInteraction, "the client went away before it answered")
}

impl fmt::Debug for CallPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallPeer").field("support", &self.0.support).finish_non_exhaustive()
    }
}

/// The clients of the running calls of a run, by call.
#[derive(Default)]
pub(super) struct CallPeers(Mutex<HashMap<String, CallPeer>>);

impl CallPeers {
    /// Registers the client of a call until the guard is dropped.
    pub(super) fn register(self: &Arc<Self>, call: String, peer: CallPeer) -> RegisteredPeer {
        lock(&self.0).insert(call.clone(), peer);
        RegisteredPeer { peers: Arc::clone(self), call }
    }

    /// Returns the client of a call, also for a call nested in it.
    fn get(&self, call: &CallId) -> Option<CallPeer> {
        let outermost = call.as_str().split('>').next()?;
        lock(&self.0).get(outermost).cloned()
    }
}

/// Removes the client of a call when it is dropped.
pub(super) struct RegisteredPeer {
    peers: Arc<CallPeers>,
    call: String,
}

impl Drop for RegisteredPeer {
    fn drop(&mut self) {
        lock(&self.peers.0).remove(&self.call);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
