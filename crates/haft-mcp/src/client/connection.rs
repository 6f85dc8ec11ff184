//! One open connection: connects, detects the protocol, lists tools, calls one.
//!
//! In: the configuration of a server. Out: definitions of tools and results, as the SDK has them.
//! Every wait has a timeout, and every list a bound.

use std::{sync::Arc, time::Duration};

use futures_util::{
    FutureExt as _,
    future::{Fuse, FusedFuture as _},
};
use haft::BoxFuture;
use rmcp::{
    Peer, RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, ClientRequest, PaginatedRequestParams,
        ProtocolVersion, ServerNotification, ServerResult, SubscriptionFilter, Tool,
    },
    service::ClientServiceExt as _,
    service::{
        ClientLifecycleMode, PeerRequestOptions, RunningServiceCancellationToken, ServiceError,
    },
    transport::{
        AuthClient, async_rw::AsyncRwTransport,
        streamable_http_client::StreamableHttpClientTransport,
    },
};

use super::{
    bounded_http::BoundedHttp,
    bounded_lines::BoundedLines,
    config::{Era, ServerConfig, ServerTransport},
    connect_error::{ConnectError, challenge_of, reason_of_request},
    handler::{Handler, Notifications},
    host::ClientHost,
    http,
    oauth::ServerAuth,
    ordered::OrderedTransport,
    process::{ServerProcess, StderrTail},
};
use crate::server::{CallPeer, Changes, ListChange};

/// The longest message of a server. The call of a longer one fails.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// How many tools of one server are read.
pub(super) const MAX_TOOLS: usize = 10_000;
/// How many pages of one list are read.
const MAX_PAGES: usize = 1_000;
/// How long a server may take to confirm a subscription.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause before an ended subscription is made again.
const SUBSCRIBE_PAUSE: Duration = Duration::from_secs(1);
/// How long one page of a list may take.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// An open connection.
pub(crate) struct Connection {
    pub(crate) peer: Peer<RoleClient>,
    pub(super) notifications: Arc<Notifications>,
    pub(super) era: Era,
    /// Whether questions go to the MCP client behind a call.
    pub(super) forwards: bool,
    changes: Option<Changes>,
}

/// What keeps a connection open; its supervisor owns it.
pub(super) struct OpenConnection {
    /// Ends when the connection does.
    service: Fuse<BoxFuture<'static, ()>>,
    token: RunningServiceCancellationToken,
    process: Option<ServerProcess>,
}

/// Opens a connection.
pub(super) async fn connect(
    config: &ServerConfig,
    era: Era,
    host: &ClientHost,
    stderr: &StderrTail,
) -> Result<(Connection, OpenConnection), ConnectError> {
    let notifications = Arc::new(Notifications::default());
    let handler = Handler {
        server: config.name.as_str().into(),
        notifications: Arc::clone(&notifications),
        elicitor: host.elicitor.clone(),
        forwards: host.forward_questions,
        changes: host.changes.clone(),
    };
    let mode = lifecycle(era);
    let (service, process) = match &config.transport {
        ServerTransport::Stdio(command) => {
            let helper = host.sandbox_helper.as_deref();
            let (process, streams) =
                ServerProcess::start(command, helper, stderr).await.map_err(|why| {
                    ConnectError::new(format!("`{}` cannot be started: {why}", command.program))
                })?;
            let lines = BoundedLines::new(streams.stdout, MAX_MESSAGE_BYTES);
            let transport = AsyncRwTransport::new_client(lines, streams.stdin)
                .with_max_line_length(MAX_MESSAGE_BYTES + 2);
            let transport = OrderedTransport::new(transport, &handler);
            (handler.serve_with_lifecycle(transport, mode).await?, Some(process))
        }
        ServerTransport::Http(endpoint) => {
            let merged = match &endpoint.headers_helper {
                Some(helper) => {
                    Some(helper.merged(&config.name, endpoint).await.map_err(ConnectError::new)?)
                }
                None => None,
            };
            let endpoint = merged.as_ref().unwrap_or(endpoint);
            let settings = http::transport_config(endpoint).map_err(ConnectError::new)?;
            let client = BoundedHttp(http::client(endpoint).map_err(ConnectError::new)?);
            let service = match &host.credentials {
                Some(credentials) if endpoint.token.is_none() => {
                    let auth = ServerAuth { server: &config.name, endpoint, credentials };
                    let manager = auth.manager().await;
                    let manager = manager.map_err(|why| ConnectError::new(why.to_string()))?;
                    let client = AuthClient::new(client, manager);
                    let transport = StreamableHttpClientTransport::with_client(client, settings);
                    let transport = OrderedTransport::new(transport, &handler);
                    handler.serve_with_lifecycle(transport, mode).await?
                }
                _ => {
                    let transport = StreamableHttpClientTransport::with_client(client, settings);
                    let transport = OrderedTransport::new(transport, &handler);
                    handler.serve_with_lifecycle(transport, mode).await?
                }
            };
            (service, None)
        }
    };
    let peer = service.peer().clone();
    let info = peer.peer_info();
    let is_modern = info.as_ref().is_some_and(|info| !info.protocol_version.has_initialize());
    let connection = Connection {
        peer,
        notifications,
        era: if is_modern { Era::Modern } else { Era::Legacy },
        forwards: host.forward_questions,
        changes: host.changes.clone(),
    };
    connection.subscribe().await;
    let token = service.cancellation_token();
    let waiting: BoxFuture<'static, ()> = Box::pin(async move {
        let _ = service.waiting().await;
    });
    let service = waiting.fuse();
    Ok((connection, OpenConnection { service, token, process }))
}

/// The changes that are subscribed to: those of tools, and for a gateway all that clients see.
fn wanted_changes(is_gateway: bool) -> SubscriptionFilter {
    let tools = SubscriptionFilter::builder().tools_list_changed();
    if is_gateway {
        return tools.prompts_list_changed().resources_list_changed().build();
    }
    tools.build()
}

/// Takes in a change of a modern server.
fn changed(change: &ServerNotification, notifications: &Notifications, changes: Option<&Changes>) {
    let announced = match change {
        ServerNotification::PromptListChangedNotification(_) => ListChange::Prompts,
        ServerNotification::ResourceListChangedNotification(_) => ListChange::Resources,
        _ => {
            notifications.tools_changed.notify_one();
            return;
        }
    };
    if let Some(changes) = changes {
        changes.announce(announced);
    }
}

fn lifecycle(era: Era) -> ClientLifecycleMode {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    match era {
        Era::Auto => ClientLifecycleMode::Auto {
            preferred_versions,
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        },
        Era::Legacy => ClientLifecycleMode::Initialize,
        Era::Modern => ClientLifecycleMode::Discover { preferred_versions },
    }
}

impl OpenConnection {
    /// Waits until the connection ends by itself; cancelling the wait keeps it open.
    pub(super) async fn ended(&mut self) {
        if !self.service.is_terminated() {
            (&mut self.service).await;
        }
    }

    /// Closes the connection and stops the process.
    pub(super) async fn close(self) {
        const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);
        self.token.cancel();
        if !self.service.is_terminated() {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.service).await;
        }
        if let Some(process) = self.process {
            process.stop().await;
        }
    }
}

impl Connection {
    /// The name that the server gives itself.
    pub(super) fn server_name(&self) -> Option<String> {
        self.peer.peer_info()?.server_info.as_ref().map(|info| info.name.clone())
    }

    /// Lists all tools of the server. A server without tools has an empty list.
    pub(super) async fn list_tools(&self) -> Result<Vec<Tool>, ConnectError> {
        let mut tools = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let mut params = PaginatedRequestParams::default();
            params.cursor = cursor.clone();
            let page = tokio::time::timeout(PAGE_TIMEOUT, self.peer.list_tools(Some(params)))
                .await
                .map_err(|_| {
                    ConnectError::new(format!("no list of tools within {PAGE_TIMEOUT:?}"))
                })?
                .map_err(|why| {
                    let challenge = challenge_of(&why);
                    let why = reason_of_request(&why);
                    let message = format!("it did not list its tools: {why}");
                    ConnectError { message, needs_login: challenge.is_some(), challenge }
                })?;
            tools.extend(page.tools);
            if tools.len() > MAX_TOOLS {
                let message = format!("it lists more than {MAX_TOOLS} tools");
                return Err(ConnectError::new(message));
            }
            match page.next_cursor {
                // A cursor that does not move would never end.
                Some(next) if cursor.as_ref() == Some(&next) => {
                    return Err(ConnectError::new("its list of tools has a cursor that repeats"));
                }
                Some(next) => cursor = Some(next),
                None => return Ok(tools),
            }
        }
        Err(ConnectError::new(format!("its list of tools has more than {MAX_PAGES} pages")))
    }

    /// Waits until the list of tools changes.
    pub(super) async fn tools_changed(&self) {
        self.notifications.tools_changed.notified().await;
    }

    /// Asks a modern server to report changes. It is asked before the first list, so that no change
    /// after the list is missed.
    async fn subscribe(&self) {
        let offers = self.peer.peer_info().is_some_and(|info| {
            info.capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true))
        });
        if self.era != Era::Modern || !offers {
            return;
        }
        let (peer, notifications) = (self.peer.clone(), Arc::clone(&self.notifications));
        let changes = self.changes.clone();
        let wanted = wanted_changes(changes.is_some());
        let first = tokio::time::timeout(SUBSCRIBE_TIMEOUT, peer.listen(wanted.clone())).await;
        let Ok(Ok(mut subscription)) = first else { return };
        super::task::spawn(async move {
            loop {
                while let Ok(Some(change)) = subscription.next().await {
                    changed(&change, &notifications, changes.as_ref());
                }
                // The stream ended. Without one, a change is seen at the next connection.
                tokio::time::sleep(SUBSCRIBE_PAUSE).await;
                let again = tokio::time::timeout(SUBSCRIBE_TIMEOUT, peer.listen(wanted.clone()));
                let Ok(Ok(next)) = again.await else { return };
                subscription = next;
                notifications.tools_changed.notify_one();
            }
        });
    }

    /// Sends one `tools/call` and waits for its response. Dropping the future cancels the request.
    pub(super) async fn call(
        &self,
        params: CallToolRequestParams,
        config: &ServerConfig,
        cx: &haft::ToolContext,
    ) -> Result<ServerResult, ServiceError> {
        let options = PeerRequestOptions::with_timeout(config.timeout)
            .reset_timeout_on_progress()
            .with_max_total_timeout(config.max_timeout);
        let options = self.options(options, CallPeer::of(cx).filter(|_| self.forwards).as_ref());
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        // From before the request: the server may log, ask and report before this task goes on.
        let following = self.notifications.follow(cx);
        let handle = self.peer.send_cancellable_request(request, options).await?;
        following.sent(&handle.progress_token);
        let mut guard = CancelOnDrop::new(&self.peer, handle.id.clone());
        let response = handle.await_response().await;
        guard.disarm();
        response
    }
}

/// Sends `notifications/cancelled` when dropped before the response arrived.
struct CancelOnDrop {
    peer: Peer<RoleClient>,
    id: Option<rmcp::model::RequestId>,
}

impl CancelOnDrop {
    fn new(peer: &Peer<RoleClient>, id: rmcp::model::RequestId) -> Self {
        Self { peer: peer.clone(), id: Some(id) }
    }

    fn disarm(&mut self) {
        self.id = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let peer = self.peer.clone();
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        super::task::spawn(async move {
            let params = rmcp::model::CancelledNotificationParam::new(
                Some(id),
                Some("the call was cancelled".to_owned()),
            );
            let _ = peer.notify_cancelled(params).await;
        });
    }
}
