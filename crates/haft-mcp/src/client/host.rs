//! What the program around the client provides to its servers.

use std::{fmt, path::PathBuf, sync::Arc};

use haft::tool::BoxError;

use crate::server::Changes;

use super::{
    admission::KnownTools,
    elicitation::Elicitor,
    oauth::{Browser, Credentials},
    pins::PinnedServer,
};

/// What servers share and may use. Without a value, what needs it is refused.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ClientHost {
    /// The names of all tools, so that one server cannot speak about those of another.
    pub known: KnownTools,
    /// Asks a person on behalf of servers.
    pub elicitor: Option<Arc<dyn Elicitor>>,
    /// Keeps the tokens of servers.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// Whether questions of servers go to the MCP client behind a call, if there is one: for a
    /// gateway.
    pub forward_questions: bool,
    /// Whether URIs of resources in results get the name of their server, as a gateway has them.
    pub prefix_resources: bool,
    /// Announces changes of servers to the clients of a gateway.
    pub changes: Option<Changes>,
    /// Lets a person log in whenever a server wants it. Without one, a server that wants a login
    /// fails and says so.
    pub browser: Option<Arc<dyn Browser>>,
    /// Keeps what is pinned of a server that had no pins.
    pub pins: Option<Arc<dyn PinStore>>,
    /// The program that sets up sandboxes of servers. `None` means this program, which calls
    /// `haft_sandbox::init()` first in `main`.
    pub sandbox_helper: Option<PathBuf>,
}

/// Keeps what is pinned of servers.
pub trait PinStore: Send + Sync + 'static {
    /// Keeps the first definitions of a server.
    ///
    /// # Errors
    /// Fails if they cannot be kept. They count until the program ends.
    fn keep_first(&self, server: &str, pins: &PinnedServer) -> Result<(), BoxError>;
}

impl fmt::Debug for dyn PinStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PinStore")
    }
}
