//! Questions of a server that go to the MCP client behind a call, instead of to the host: for a
//! gateway.
//!
//! INVARIANT: a question reaches only the client whose call caused it. In the protocol of
//! 2025-11-25 a question does not name its call; it is passed on only if there is exactly one.

use std::{sync::Arc, time::Duration};

use haft::Failure;
use rmcp::{
    model::{
        ClientCapabilities, ClientRequest as SdkRequest, ErrorData, InputRequest, InputRequests,
        InputResponses, RequestMetaObject, ServerResult, TASKS_EXTENSION_ID,
    },
    service::{PeerRequestOptions, ServiceError},
};
use serde_json::{Value, json};

use super::{config::Era, connection::Connection, server::RemoteServer, supervisor::State};
use crate::server::{CallPeer, ClientRequest};

/// How long a request that is not a call may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// How often one request may ask for input.
const MAX_ROUNDS: usize = 10;

/// What a request says about the client behind it.
pub(super) fn meta(peer: &CallPeer) -> RequestMetaObject {
    let mut meta = RequestMetaObject::default();
    meta.set_client_capabilities(capabilities(peer));
    if let Some(level) = peer.sdk_log_level() {
        meta.set_log_level(level);
    }
    meta
}

/// What the client behind a call can do. A task of a server is one of the gateway's own.
fn capabilities(peer: &CallPeer) -> ClientCapabilities {
    let mut declared = json!({});
    let mut elicitation = json!({});
    for (kind, name) in
        [(crate::server::RequestKind::Form, "form"), (crate::server::RequestKind::Url, "url")]
    {
        if peer.supports(kind) {
            elicitation[name] = json!({});
        }
    }
    if elicitation != json!({}) {
        declared["elicitation"] = elicitation;
    }
    for kind in [crate::server::RequestKind::Sampling, crate::server::RequestKind::Roots] {
        if peer.supports(kind) {
            declared[kind.capability()] = json!({});
        }
    }
    if peer.supports_tasks() {
        declared["extensions"] = json!({TASKS_EXTENSION_ID: {}});
    }
    serde_json::from_value(declared).unwrap_or_default()
}

/// Passes on questions in one round.
pub(super) async fn ask_all(
    peer: &CallPeer,
    server: &str,
    requests: InputRequests,
) -> Result<InputResponses, Failure> {
    let mut questions = Vec::new();
    for (key, request) in requests {
        questions.push((key, question(server, &request)?));
    }
    peer.ask_all(questions).await
}

/// Passes on one question of a server of 2025-11-25.
pub(super) async fn ask_one(
    peer: &CallPeer,
    server: &str,
    request: InputRequest,
) -> Result<Value, ErrorData> {
    let refused = |failure: Failure| ErrorData::invalid_request(failure.to_string(), None);
    let question = question(server, &request).map_err(refused)?;
    peer.ask("question", question).await.map_err(refused)
}

/// A question as the gateway asks it. The user sees which server wants to know.
fn question(server: &str, request: &InputRequest) -> Result<ClientRequest, Failure> {
    let mut wire = serde_json::to_value(request).map_err(Failure::hidden)?;
    if let Some(Value::String(message)) = wire.pointer_mut("/params/message") {
        *message = format!("[MCP server {server}] {message}");
    }
    let params = wire.get("params").cloned().unwrap_or_else(|| json!({}));
    let method = wire["method"].as_str().unwrap_or_default();
    ClientRequest::from_wire(method, params)
        .ok_or_else(|| Failure::failed("the server asks for something unknown"))
}

impl RemoteServer {
    /// Returns the connection, if there is one right now. A server that is dead or slow is left
    /// out and never waited for.
    pub(crate) fn connection(&self) -> Option<Arc<Connection>> {
        match &*self.supervisor().state.borrow() {
            State::Ready(connection) => Some(Arc::clone(connection)),
            _ => None,
        }
    }

    /// Sends a request that is not a call, and passes on the questions that it leads to.
    pub(crate) async fn request(
        &self,
        make: impl Fn(Option<String>, Option<InputResponses>) -> SdkRequest,
        peer: &CallPeer,
    ) -> Result<ServerResult, ServiceError> {
        let connection = self.connection().ok_or(ServiceError::TransportClosed)?;
        let (mut state, mut responses) = (None, None);
        for _ in 0..MAX_ROUNDS {
            let result = connection.request(make(state.take(), responses.take()), peer).await?;
            let ServerResult::InputRequiredResult(asked) = result else { return Ok(result) };
            state = asked.request_state;
            if let Some(requests) = asked.input_requests {
                let answers = ask_all(peer, &self.config().name, requests).await;
                let error = |f: Failure| ErrorData::invalid_request(f.to_string(), None);
                responses = Some(answers.map_err(|f| ServiceError::McpError(error(f)))?);
            }
        }
        Err(ServiceError::UnexpectedResponse)
    }
}

impl Connection {
    /// Options of a request on behalf of a client.
    pub(super) fn options(
        &self,
        options: PeerRequestOptions,
        peer: Option<&CallPeer>,
    ) -> PeerRequestOptions {
        match peer {
            Some(peer) if self.era == Era::Modern => options.with_meta(meta(peer)),
            _ => options,
        }
    }

    async fn request(
        &self,
        request: SdkRequest,
        peer: &CallPeer,
    ) -> Result<ServerResult, ServiceError> {
        let options = self.options(PeerRequestOptions::with_timeout(REQUEST_TIMEOUT), Some(peer));
        self.peer.send_cancellable_request(request, options).await?.await_response().await
    }
}
