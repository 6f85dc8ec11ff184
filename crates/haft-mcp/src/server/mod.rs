//! A registry as an MCP server.
//!
//! Every call goes through the runtime: it is validated, authorized, bounded and recorded like any
//! other. Clients of the protocol of 2025-11-25 and of 2026-07-28 are served at the same time.
//!
//! ```no_run
//! use haft::{Runtime, ToolRegistry};
//! use haft_mcp::server::{ClientApprover, McpServer};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), haft::Error> {
//! let registry = ToolRegistry::builder().build()?;
//! let runtime = Runtime::builder().registry(registry).approver(ClientApprover).build()?;
//! let server = McpServer::builder(runtime).build()?;
//! server.serve(tokio::io::stdin(), tokio::io::stdout()).await
//! # }
//! ```

mod approver;
mod call;
mod call_peer;
mod changes;
mod client_request;
mod content_read;
mod conversation;
mod core;
mod handler;
mod http;
mod job;
mod owned_task;
mod pages;
mod parked;
mod parked_call;
mod parked_store;
mod progress;
mod provider;
mod request_streams;
mod results;
mod seal;
mod task_store;
mod tasks;
mod timestamp;
mod tool_list;

use std::{fmt, sync::Arc, time::Duration};

use haft::{Error, ErrorKind, Runtime, host::RunBuilder, registry::ToolView, tool::BoxError};
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Semaphore,
};

pub(crate) use self::core::to_sdk_level;
pub use self::{
    approver::{ClientApprover, QuestionApprover, QuestionTool},
    call_peer::{CallPeer, LogLevel},
    changes::{Changes, ListChange},
    client_request::{ClientRequest, RequestKind},
    content_read::{ContentKind, ContentRead},
    http::HttpOptions,
    parked_store::ParkedCallStore,
    provider::{ContentOrigin, ContentProvider, Offers, ProviderError, ProviderRequest},
    task_store::{StoredTask, TaskStore},
};
use self::{
    content_read::ContentLog,
    conversation::Principal,
    core::{ServerCore, Settings},
    handler::Handler,
    parked::ParkedJobs,
    parked_store::MemoryStore,
    seal::Sealer,
};

/// The longest line that a connection may send.
const MAX_LINE_BYTES: usize = 8 << 20;
/// How many calls run at once, over all clients.
const MAX_CALLS: usize = 256;

/// Serves the tools of a runtime to MCP clients. A clone is the same server.
#[derive(Clone)]
pub struct McpServer(Arc<ServerCore>);

impl McpServer {
    /// Starts setting up a server. Add [`ClientApprover`] to the runtime, so that clients can
    /// approve calls.
    pub fn builder(runtime: Runtime) -> McpServerBuilder {
        let question_timeout = runtime.config().approval_timeout;
        McpServerBuilder {
            runtime,
            settings: Settings {
                name: "haft".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                instructions: None,
                view: Arc::new(|_| ToolView::all()),
                run: Arc::new(|run| run),
                // A client that polls should not do so for calls of the usual length.
                task_after: Duration::from_secs(10),
                question_timeout,
                content_log: None,
            },
            provider: None,
            changes: Changes::default(),
            max_calls: MAX_CALLS,
            parked: None,
            tasks: None,
        }
    }

    /// Serves one client over a pair of streams, such as standard input and output, until the
    /// client closes it. Nothing else may write to `output`.
    ///
    /// # Errors
    /// Fails if the first message is not one of MCP.
    pub async fn serve(
        &self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<(), Error> {
        self.warm_up().await;
        let transport =
            AsyncRwTransport::new_server(input, output).with_max_line_length(MAX_LINE_BYTES);
        let handler = Handler::new(Arc::clone(&self.0), false);
        let running = match rmcp::serve_server(handler, transport).await {
            Ok(running) => running,
            // A client that leaves at once is not a fault.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(e) => {
                let message = format!("the client does not speak MCP: {e}");
                return Err(Error::new(ErrorKind::BadResponse, message));
            }
        };
        let ended = running.waiting().await;
        ended
            .map(drop)
            .map_err(|e| Error::new(ErrorKind::BadConfig, format!("the server failed: {e}")))
    }

    /// Returns what announces changes to all clients.
    #[must_use]
    pub fn changes(&self) -> &Changes {
        &self.0.changes
    }

    /// Makes the first list, which the validation of HTTP headers uses.
    async fn warm_up(&self) {
        let conversation = self.0.shared_conversation(&Principal::default());
        if let Ok(turn) = conversation.run.turn().await {
            self.0.lists.of(turn.snapshot());
        }
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer").field("name", &self.0.settings.name).finish_non_exhaustive()
    }
}

/// Sets up an [`McpServer`].
#[must_use]
pub struct McpServerBuilder {
    runtime: Runtime,
    settings: Settings,
    provider: Option<Arc<dyn ContentProvider>>,
    changes: Changes,
    max_calls: usize,
    parked: Option<([u8; 32], Box<dyn ParkedCallStore>)>,
    tasks: Option<Box<dyn TaskStore>>,
}

impl McpServerBuilder {
    /// Sets the name and version that clients see.
    pub fn name(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self.settings.version = version.into();
        self
    }

    /// Sets what a client's model should know about the tools as a whole.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.settings.instructions = Some(text.into());
        self
    }

    /// Sets the tools that each caller sees, by the name of its token; the local user is `local`.
    pub fn view(mut self, view: impl Fn(&str) -> ToolView + Send + Sync + 'static) -> Self {
        self.settings.view = Arc::new(view);
        self
    }

    /// Sets up each client's run: its working directory, its budget.
    pub fn run(
        mut self,
        set_up: impl Fn(RunBuilder) -> RunBuilder + Send + Sync + 'static,
    ) -> Self {
        self.settings.run = Arc::new(set_up);
        self
    }

    /// Adds resources, prompts and completions.
    pub fn provider(mut self, provider: impl ContentProvider) -> Self {
        self.provider = Some(Arc::new(provider));
        self
    }

    /// Writes down every read of a resource or a prompt. A read that cannot be written down fails.
    pub fn content_log(
        mut self,
        log: impl Fn(&ContentRead) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.settings.content_log = Some(ContentLog(Arc::new(log)));
        self
    }

    /// Sets what announces changes, if something else announces them as well.
    pub fn changes(mut self, changes: Changes) -> Self {
        self.changes = changes;
        self
    }

    /// Sets how long a call may take before a client that knows tasks gets one. The default is ten
    /// seconds.
    pub fn task_after(mut self, time: Duration) -> Self {
        self.settings.task_after = time;
        self
    }

    /// Sets how many calls run at once, over all clients. The default is 256.
    pub fn max_calls(mut self, calls: usize) -> Self {
        self.max_calls = calls;
        self
    }

    /// Keeps calls that wait for an approval outside of this process, so that another one can
    /// finish them. All of them need the same key here and for the grants of their runtime
    /// ([`GrantStore::with_key`](haft::approval::GrantStore::with_key)). Without it, such calls end
    /// with this process.
    pub fn parked_calls(mut self, key: [u8; 32], store: impl ParkedCallStore) -> Self {
        self.parked = Some((key, Box::new(store)));
        self
    }

    /// Keeps the states and results of tasks outside of this process, so that their clients get an
    /// answer after it has ended. Without it, tasks end with this process.
    pub fn task_records(mut self, store: impl TaskStore) -> Self {
        self.tasks = Some(Box::new(store));
        self
    }

    /// Builds the server.
    ///
    /// # Errors
    /// Fails if the system provides no random numbers.
    pub fn build(self) -> Result<McpServer, Error> {
        let (sealer, store) = match self.parked {
            Some((key, store)) => (Sealer::with_key(key)?, store),
            None => (Sealer::new()?, Box::new(MemoryStore::default()) as Box<_>),
        };
        let parked = ParkedJobs::new(self.settings.question_timeout, sealer, store);
        Ok(McpServer(Arc::new(ServerCore {
            runtime: self.runtime,
            settings: self.settings,
            provider: self.provider,
            lists: tool_list::ToolLists::default(),
            parked,
            tasks: Arc::new(tasks::Tasks::new(self.tasks)),
            changes: self.changes,
            results: results::OffloadedResults::default(),
            shared: std::sync::Mutex::default(),
            calls: std::sync::atomic::AtomicU64::new(0),
            slots: Arc::new(Semaphore::new(self.max_calls.min(Semaphore::MAX_PERMITS))),
        })))
    }
}

impl fmt::Debug for McpServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServerBuilder").finish_non_exhaustive()
    }
}
