//! A call that its server made a task of: polled to its end, with its questions answered.
//!
//! For a gateway the call becomes a task of its own, whose client asks the gateway. INVARIANT: a
//! call that ends before its task cancels the task at the server.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use haft::{Failure, FailureCode, Output, ToolContext};
use rmcp::{
    ErrorData,
    model::{
        CancelTaskParams, CancelTaskRequest, ClientRequest, GetTaskParams, GetTaskRequest,
        ServerResult, Task, TaskPayload, UpdateTaskParams, UpdateTaskRequest,
    },
    service::{PeerRequestOptions, ServiceError},
};
use serde_json::Value;

use super::{call::RemoteTool, connection::Connection};
use crate::server::CallPeer;

/// How often a task is polled, whatever its server says.
const MIN_INTERVAL: Duration = Duration::from_millis(20);
const MAX_INTERVAL: Duration = Duration::from_secs(10);
/// How often it is polled if its server says nothing.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// How long one request about a task may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A task at a server. Dropping it before its end cancels it there.
struct OpenTask {
    connection: Arc<Connection>,
    client: Option<CallPeer>,
    id: String,
    has_ended: bool,
}

impl OpenTask {
    async fn send(&self, request: ClientRequest) -> Result<ServerResult, ServiceError> {
        let options = PeerRequestOptions::with_timeout(REQUEST_TIMEOUT);
        let options = self.connection.options(options, self.client.as_ref());
        let peer = &self.connection.peer;
        peer.send_cancellable_request(request, options).await?.await_response().await
    }
}

impl Drop for OpenTask {
    fn drop(&mut self) {
        if self.has_ended || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let task = Self {
            connection: Arc::clone(&self.connection),
            client: self.client.clone(),
            id: std::mem::take(&mut self.id),
            has_ended: true,
        };
        super::task::spawn(async move {
            let params = CancelTaskParams::new(&task.id);
            let request = ClientRequest::CancelTaskRequest(CancelTaskRequest::new(params));
            let _ = task.send(request).await;
        });
    }
}

impl RemoteTool {
    /// Follows a task until it ends.
    pub(super) async fn follow_task(
        &self,
        connection: &Arc<Connection>,
        task: Task,
        cx: &ToolContext,
    ) -> Result<Output, Failure> {
        let client = self.client(cx);
        if let Some(client) = &client {
            client.become_task().await;
        }
        let (connection, id) = (Arc::clone(connection), task.task_id.clone());
        let mut open = OpenTask { connection, client, id, has_ended: false };
        tokio::select! {
            biased;
            () = cx.cancelled() => Err(self.cancelled()),
            () = tokio::time::sleep(self.server.config.max_timeout) => {
                let timeout = self.server.config.max_timeout;
                Err(self.failure(ServiceError::Timeout { timeout }))
            }
            ended = self.poll_task(&mut open, task, cx) => ended,
        }
    }

    async fn poll_task(
        &self,
        open: &mut OpenTask,
        mut task: Task,
        cx: &ToolContext,
    ) -> Result<Output, Failure> {
        let mut answered = BTreeSet::new();
        loop {
            let interval = task.poll_interval_ms.map_or(DEFAULT_INTERVAL, Duration::from_millis);
            tokio::time::sleep(interval.clamp(MIN_INTERVAL, MAX_INTERVAL)).await;
            let request = GetTaskRequest::new(GetTaskParams::new(&open.id));
            let found = open.send(ClientRequest::GetTaskRequest(request)).await;
            let ServerResult::GetTaskResult(found) = found.map_err(|error| self.failure(error))?
            else {
                return Err(self.failure(ServiceError::UnexpectedResponse));
            };
            task = found.task.task;
            match found.task.payload {
                TaskPayload::InputRequired { mut input_requests } => {
                    // The server may still show what was answered a moment ago.
                    input_requests.retain(|key, _| !answered.contains(key));
                    if input_requests.is_empty() {
                        continue;
                    }
                    answered.extend(input_requests.keys().cloned());
                    let responses = self.answer_all(input_requests, cx).await?;
                    let params = UpdateTaskParams::new(&open.id, responses);
                    let request = ClientRequest::UpdateTaskRequest(UpdateTaskRequest::new(params));
                    open.send(request).await.map_err(|error| self.failure(error))?;
                }
                TaskPayload::Completed { result } => {
                    open.has_ended = true;
                    let result = serde_json::from_value(Value::Object(result));
                    return self.output(result.map_err(|why| {
                        let what = "the server sent a result that cannot be read";
                        Failure::new(FailureCode::BadOutput, what).with_source(why)
                    })?);
                }
                TaskPayload::Failed { error } => {
                    open.has_ended = true;
                    let error = serde_json::from_value(Value::Object(error));
                    let error = error.unwrap_or_else(|_| {
                        ErrorData::internal_error("the task failed without a reason", None)
                    });
                    return Err(self.rejected(ServiceError::McpError(error), cx));
                }
                TaskPayload::Cancelled => {
                    open.has_ended = true;
                    let name = &self.server.config.name;
                    let what = format!("MCP server `{name}` cancelled the task");
                    return Err(Failure::new(FailureCode::UnknownOutcome, what));
                }
                _ => {}
            }
        }
    }
}
