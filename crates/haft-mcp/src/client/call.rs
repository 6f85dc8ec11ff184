//! One call of a remote tool: waits for the connection, sends the request, answers the server's
//! questions, and maps every end to an output or a failure.
//!
//! INVARIANT: a call whose end was not observed is `unknown_outcome`, unless the tool only reads.

use std::{sync::Arc, time::Duration};

use haft::{
    Failure, FailureCode, Output, ToolContext,
    tool::{Execution, RetryHint},
};
use rmcp::{
    model::{
        CallToolRequestParams, CallToolResult, ContentBlock, InputRequest, InputRequests,
        InputResponses, ServerResult, Tool,
    },
    service::ServiceError,
};
use serde_json::{Map, Value, json};

use super::{
    config::Pinning,
    connect_error::challenge_of,
    connection::Connection,
    elicitation, forward,
    identity::ServerIdentity,
    supervisor::{State, Supervisor},
};
use crate::{content, resource_uri, server::CallPeer};

/// How long a call waits for a server that is reconnecting.
const RECONNECT_WAIT: Duration = Duration::from_secs(30);
/// How many times one call may lead to a login, for more scopes or a new token.
const MAX_LOGINS: usize = 2;
/// How many times one call may ask for input.
const MAX_ROUNDS: usize = 10;

/// A remote tool, as the body of a call sees it.
pub(super) struct RemoteTool {
    pub(super) server: Arc<Supervisor>,
    /// What the server was when the tool was offered.
    pub(super) identity: Arc<ServerIdentity>,
    /// The server's own name of the tool.
    pub(super) name: String,
    /// The definition that was offered, and the list that it comes from.
    pub(super) definition: Tool,
    pub(super) listed: Arc<Vec<Tool>>,
    /// Whether the tool changes nothing, as far as its server is trusted to say so.
    pub(super) reads_only: bool,
}

impl RemoteTool {
    /// Calls the tool.
    pub(super) async fn call(
        &self,
        arguments: &Value,
        cx: &ToolContext,
    ) -> Result<Output, Failure> {
        let arguments: Map<String, Value> = arguments.as_object().cloned().unwrap_or_default();
        let mut connection = self.connected(cx).await?;
        self.check_definition()?;
        let mut params = CallToolRequestParams::new(self.name.clone()).with_arguments(arguments);
        let mut logins = 0;
        for _ in 0..MAX_ROUNDS {
            let response = tokio::select! {
                biased;
                // Dropping the other future cancels the request at the server.
                () = cx.cancelled() => return Err(self.cancelled()),
                response = connection.call(params.clone(), &self.server.config, cx) => response,
            };
            match response {
                Ok(ServerResult::CallToolResult(result)) => return self.output(result),
                Ok(ServerResult::InputRequiredResult(result)) => {
                    params.request_state = result.request_state.clone();
                    params.input_responses = match result.input_requests {
                        Some(requests) => Some(self.answer_all(requests, cx).await?),
                        None => None,
                    };
                }
                Ok(ServerResult::CreateTaskResult(created)) => {
                    return self.follow_task(&connection, created.task, cx).await;
                }
                Ok(_) => {
                    return Err(Failure::failed(format!(
                        "MCP server `{}` answered with something that is not a result of a tool",
                        self.server.config.name
                    )));
                }
                Err(error) => match challenge_of(&error) {
                    // The server refused the request, so nothing has happened yet.
                    Some(challenge) if logins < MAX_LOGINS => {
                        logins += 1;
                        connection = self.login(&connection, &challenge, cx).await?;
                    }
                    _ => return Err(self.rejected(error, cx)),
                },
            }
        }
        Err(Failure::failed(format!(
            "MCP server `{}` asked for input more than {MAX_ROUNDS} times",
            self.server.config.name
        )))
    }

    /// The connection, unless the call is cancelled before.
    async fn connected(&self, cx: &ToolContext) -> Result<Arc<Connection>, Failure> {
        tokio::select! {
            biased;
            () = cx.cancelled() => {
                Err(Failure::new(FailureCode::Cancelled, "cancelled before it was sent")
                    .with_execution(Execution::NotStarted))
            }
            connection = self.ready() => connection,
        }
    }

    /// FAIL CLOSED: what was approved is the definition that was offered. If the server has listed
    /// another one since, the call is not sent (rug pull, TOCTOU).
    fn check_definition(&self) -> Result<(), Failure> {
        let is_same =
            |now: &Arc<Vec<Tool>>| Arc::ptr_eq(now, &self.listed) || now.contains(&self.definition);
        let is_same_server = self.server.identity() == self.identity;
        if self.server.config.pinning != Pinning::Pin
            || is_same_server && self.server.definitions().as_ref().is_some_and(is_same)
        {
            return Ok(());
        }
        Err(Failure::new(
            FailureCode::NotOffered,
            "the server changed the definition of this tool, or itself, after it was offered",
        )
        .with_next("continue without it"))
    }

    /// Waits for the connection, if the server is about to have one.
    async fn ready(&self) -> Result<Arc<Connection>, Failure> {
        let mut state = self.server.state.subscribe();
        let wait = async {
            loop {
                match &*state.borrow_and_update() {
                    State::Ready(connection) => return Ok(Arc::clone(connection)),
                    State::Failed { error, is_open: true } => {
                        return Err(self.unreachable(&error.message));
                    }
                    State::Closed | State::Idle => {
                        return Err(self.unreachable("it is closed"));
                    }
                    State::Failed { .. } => self.server.want(),
                    State::Starting => {}
                }
                if state.changed().await.is_err() {
                    return Err(self.unreachable("it is closed"));
                }
            }
        };
        tokio::time::timeout(RECONNECT_WAIT, wait)
            .await
            .unwrap_or_else(|_| Err(self.unreachable("it is still starting")))
    }

    fn unreachable(&self, why: &str) -> Failure {
        let name = &self.server.config.name;
        Failure::new(FailureCode::CircuitOpen, format!("MCP server `{name}` is not reachable"))
            .with_next("continue without this server, or try again later")
            .with_source(why.to_owned())
    }

    pub(super) fn output(&self, result: CallToolResult) -> Result<Output, Failure> {
        if result.is_error == Some(true) {
            return Err(Failure::failed(error_text(&result)));
        }
        let output = content::output(result).map_err(|why| {
            Failure::new(FailureCode::BadOutput, "the server sent a result that cannot be read")
                .with_source(why)
        })?;
        Ok(if self.server.host.prefix_resources {
            resource_uri::prefix_resources(output, &self.server.config.name)
        } else {
            output
        })
    }

    /// The failure of a call that its server refused. Behind a gateway, the client gets the error
    /// itself.
    pub(super) fn rejected(&self, error: ServiceError, cx: &ToolContext) -> Failure {
        match (error, self.client(cx)) {
            (ServiceError::McpError(error), Some(peer)) => {
                peer.reject(error.code.0, error.message.to_string(), error.data)
            }
            (error, _) => self.failure(error),
        }
    }

    /// Answers the questions of a server, as far as a person can be asked.
    pub(super) async fn answer_all(
        &self,
        requests: InputRequests,
        cx: &ToolContext,
    ) -> Result<InputResponses, Failure> {
        if let Some(peer) = self.client(cx) {
            let name = &self.server.config.name;
            return tokio::select! {
                () = cx.cancelled() => Err(self.cancelled()),
                answers = forward::ask_all(&peer, name, requests) => answers,
            };
        }
        let mut answers = InputResponses::new();
        for (key, request) in requests {
            let answer = match request {
                InputRequest::Elicitation(request) => {
                    let name = &self.server.config.name;
                    let asked = elicitation::answer(
                        name,
                        self.server.host.elicitor.as_deref(),
                        request.params,
                    );
                    let answer = tokio::select! {
                        () = cx.cancelled() => return Err(self.cancelled()),
                        answer = asked => answer,
                    };
                    serde_json::to_value(answer)
                }
                // The answer that shares nothing.
                InputRequest::ListRoots(_) => Ok(json!({"roots": []})),
                _ => {
                    return Err(Failure::new(
                        FailureCode::NeedsInteraction,
                        "the server wants to use the model itself (sampling), which is not allowed",
                    ));
                }
            };
            answers.insert(key, answer.map_err(Failure::hidden)?);
        }
        Ok(answers)
    }

    /// The MCP client that questions and errors are passed on to.
    pub(super) fn client(&self, cx: &ToolContext) -> Option<CallPeer> {
        if self.server.host.forward_questions { CallPeer::of(cx) } else { None }
    }

    /// Logs in for more scopes or a new token, or asks a command for new headers. Returns the
    /// connection that has them.
    async fn login(
        &self,
        old: &Arc<Connection>,
        challenge: &str,
        cx: &ToolContext,
    ) -> Result<Arc<Connection>, Failure> {
        let refused = |why: String| {
            let name = &self.server.config.name;
            Failure::new(
                FailureCode::NeedsInteraction,
                format!("MCP server `{name}` wants a login with more rights"),
            )
            .with_source(why)
        };
        let renewed = async {
            if self.server.renew(old).await {
                return self.ready().await;
            }
            self.server.login(challenge).await.map_err(refused)?;
            Ok(Arc::clone(old))
        };
        let connection = tokio::select! {
            () = cx.cancelled() => Err(Failure::new(FailureCode::Cancelled, "cancelled in a login")
                .with_execution(Execution::NotStarted)),
            connection = renewed => connection,
        }?;
        // A new connection may be to another server.
        self.check_definition()?;
        Ok(connection)
    }

    pub(super) fn cancelled(&self) -> Failure {
        if self.reads_only {
            Failure::new(FailureCode::Cancelled, "cancelled; the server was asked to stop")
        } else {
            self.unknown("the call was cancelled, and the server did not confirm that it stopped")
        }
    }

    fn unknown(&self, what: &str) -> Failure {
        Failure::new(FailureCode::UnknownOutcome, what)
            .with_next("check what it did before you call it again")
    }

    pub(super) fn failure(&self, error: ServiceError) -> Failure {
        let name = &self.server.config.name;
        match error {
            ServiceError::McpError(error) => Failure::failed(format!(
                "MCP server `{name}` refused the call with error {}: {}",
                error.code.0, error.message
            )),
            ServiceError::Timeout { timeout } => {
                let what = format!("MCP server `{name}` did not answer within {timeout:?}");
                if self.reads_only {
                    Failure::new(FailureCode::TimedOut, what)
                } else {
                    self.unknown(&what)
                }
            }
            ServiceError::Cancelled { .. } => self.cancelled(),
            error => {
                let what = format!("the connection to MCP server `{name}` was lost in the call");
                let failure = if self.reads_only {
                    Failure::failed(what).with_retry(RetryHint::Later)
                } else {
                    self.unknown(&what)
                };
                failure.with_source(error)
            }
        }
    }
}

/// The text of a result that is an error.
fn error_text(result: &CallToolResult) -> String {
    let texts: Vec<&str> = result
        .content
        .iter()
        .filter_map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        })
        .collect();
    match (texts.is_empty(), &result.structured_content) {
        (true, Some(json)) => json.to_string(),
        (true, None) => "the tool failed without a message".to_owned(),
        (false, _) => texts.join("\n"),
    }
}
