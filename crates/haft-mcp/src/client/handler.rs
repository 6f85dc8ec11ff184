//! What a server may send to us: progress of a call, changes of its list of tools, and questions.
//! Everything else is ignored or refused.

#![expect(deprecated, reason = "servers of 2025-11-25 have logging, sampling and roots")]

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use haft::ToolContext;
use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequest, CreateMessageRequestMethod,
        CreateMessageRequestParams, CreateMessageResult, ElicitRequest, ElicitRequestParams,
        ElicitResult, ElicitationCapability, ExtensionCapabilities, FormElicitationCapability,
        Implementation, InputRequest, ListRootsRequest, ListRootsResult, ProgressNotificationParam,
        ProgressToken, ProtocolVersion, ResourceUpdatedNotificationParam, RootsCapabilities,
        SamplingCapability, ServerNotification, TASKS_EXTENSION_ID, UrlElicitationCapability,
    },
    service::{NotificationContext, RequestContext},
};
use tokio::sync::Notify;

use super::{
    elicitation::{self, Elicitor},
    forward,
};
use crate::{
    resource_uri,
    server::{CallPeer, Changes, ListChange},
};

/// Longer messages of progress are cut.
const MAX_PROGRESS_CHARS: usize = 500;
/// How many notes are kept that arrive before their request is followed.
const MAX_EARLY_NOTES: usize = 64;

/// What the handler of one connection shares with its calls.
#[derive(Debug, Default)]
pub(super) struct Notifications {
    /// The list of tools has changed.
    pub(super) tools_changed: Notify,
    progress: Mutex<FollowedCalls>,
}

/// The calls that are running. The token of a request is known only after it was sent, when the
/// server may have answered already.
#[derive(Debug, Default)]
struct FollowedCalls {
    /// By the number of the guard.
    running: HashMap<u64, FollowedCall>,
    last: u64,
    /// Progress of requests whose token is not known yet.
    early: VecDeque<ProgressNotificationParam>,
}

#[derive(Debug)]
struct FollowedCall {
    cx: ToolContext,
    token: Option<ProgressToken>,
}

impl Notifications {
    /// Follows a call from before its request is sent, until the guard is dropped: what the server
    /// logs and asks at once is the call's too.
    pub(super) fn follow(self: &Arc<Self>, cx: &ToolContext) -> Following {
        let mut calls = self.lock();
        calls.last += 1;
        let number = calls.last;
        calls.running.insert(number, FollowedCall { cx: cx.clone(), token: None });
        Following { notifications: Arc::clone(self), number }
    }

    /// Reports progress to its call.
    fn progressed(&self, note: &ProgressNotificationParam) {
        let mut calls = self.lock();
        let mut all = calls.running.values();
        match all.find(|call| call.token.as_ref() == Some(&note.progress_token)) {
            Some(call) => {
                let cx = call.cx.clone();
                drop(calls);
                report(&cx, note);
            }
            None if calls.running.values().any(|call| call.token.is_none()) => {
                calls.early.push_back(note.clone());
                let excess = calls.early.len().saturating_sub(MAX_EARLY_NOTES);
                calls.early.drain(..excess);
            }
            // Of a call that has ended.
            None => {}
        }
    }

    /// Returns the MCP client behind the only call that is running.
    fn only_client(&self) -> Option<CallPeer> {
        let calls = self.lock();
        let mut all = calls.running.values();
        match (all.next(), all.next()) {
            (Some(call), None) => CallPeer::of(&call.cx),
            _ => None,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FollowedCalls> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows a call until it is dropped.
pub(super) struct Following {
    notifications: Arc<Notifications>,
    number: u64,
}

impl Following {
    /// Sets the token of the request, and reports the progress that was faster.
    pub(super) fn sent(&self, token: &ProgressToken) {
        let mut calls = self.notifications.lock();
        let Some(call) = calls.running.get_mut(&self.number) else { return };
        call.token = Some(token.clone());
        let cx = call.cx.clone();
        let (own, others): (VecDeque<_>, _) = std::mem::take(&mut calls.early)
            .into_iter()
            .partition(|note: &ProgressNotificationParam| note.progress_token == *token);
        calls.early = others;
        // Under the lock, so that a later note cannot come before them.
        own.iter().for_each(|note| report(&cx, note));
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut calls = self.notifications.lock();
        calls.running.remove(&self.number);
        if calls.running.values().all(|call| call.token.is_some()) {
            calls.early.clear();
        }
    }
}

/// The client side of one connection.
#[derive(Debug, Clone)]
pub(super) struct Handler {
    pub(super) server: Arc<str>,
    pub(super) notifications: Arc<Notifications>,
    pub(super) elicitor: Option<Arc<dyn Elicitor>>,
    /// Whether questions go to the MCP client behind a call.
    pub(super) forwards: bool,
    pub(super) changes: Option<Changes>,
}

impl Handler {
    /// The client that a question is passed on to.
    fn client(&self) -> Option<CallPeer> {
        if self.forwards { self.notifications.only_client() } else { None }
    }

    /// Takes in a notification of a running call.
    pub(super) fn notified(&self, notification: &ServerNotification) {
        match notification {
            ServerNotification::ProgressNotification(note) => {
                self.notifications.progressed(&note.params);
            }
            ServerNotification::LoggingMessageNotification(entry) => {
                if let Some(peer) = self.client() {
                    peer.log_sdk(entry.params.clone(), &self.server);
                }
            }
            _ => {}
        }
    }

    fn announce(&self, change: ListChange) {
        if let Some(changes) = &self.changes {
            changes.announce(change);
        }
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if !self.forwards {
            // A call waits for its task. Behind a gateway, the client says whether it can.
            let tasks = (TASKS_EXTENSION_ID.to_owned(), serde_json::Map::new());
            capabilities.extensions = Some(ExtensionCapabilities::from_iter([tasks]));
        }
        if self.forwards {
            capabilities.sampling = Some(SamplingCapability::default());
            capabilities.roots = Some(RootsCapabilities::default());
        }
        if self.elicitor.is_some() || self.forwards {
            let elicitation = ElicitationCapability::new()
                .with_form(FormElicitationCapability::new().with_schema_validation(true))
                .with_url(UrlElicitationCapability::default());
            capabilities.elicitation = Some(elicitation);
        }
        ClientConfig::new(capabilities, Implementation::new("haft", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if let Some(peer) = self.client() {
            let request = InputRequest::Elicitation(ElicitRequest::new(request));
            let answer = forward::ask_one(&peer, &self.server, request).await?;
            return serde_json::from_value(answer).map_err(malformed);
        }
        Ok(elicitation::answer(&self.server, self.elicitor.as_deref(), request).await)
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let Some(peer) = self.client() else {
            return Err(ErrorData::method_not_found::<CreateMessageRequestMethod>());
        };
        let request = InputRequest::CreateMessage(CreateMessageRequest::new(params));
        let answer = forward::ask_one(&peer, &self.server, request).await?;
        serde_json::from_value(answer).map_err(malformed)
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        // The answer that shares nothing.
        let Some(peer) = self.client() else { return Ok(ListRootsResult::default()) };
        let request = InputRequest::ListRoots(ListRootsRequest::default());
        let answer = forward::ask_one(&peer, &self.server, request).await?;
        serde_json::from_value(answer).map_err(malformed)
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.announce(ListChange::Resource(resource_uri::uri(&self.server, &params.uri)));
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.announce(ListChange::Resources);
    }

    async fn on_prompt_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.announce(ListChange::Prompts);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.notifications.tools_changed.notify_one();
    }
}

/// Reports one note to a call.
fn report(call: &ToolContext, note: &ProgressNotificationParam) {
    let fraction = match note.total {
        Some(total) if total > 0.0 => note.progress / total,
        _ => f64::NAN, // how far it is remains unknown
    };
    let message = note.message.as_deref().unwrap_or_default();
    let cut = message.char_indices().nth(MAX_PROGRESS_CHARS).map_or(message.len(), |(at, _)| at);
    #[expect(clippy::cast_possible_truncation, reason = "a fraction for people")]
    call.progress(fraction as f32, message.get(..cut).unwrap_or_default());
}

fn malformed(error: serde_json::Error) -> ErrorData {
    ErrorData::internal_error(format!("the answer is malformed: {error}"), None)
}
