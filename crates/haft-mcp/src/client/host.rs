//! What the program around the client provides to its servers.

use std::sync::Arc;

use crate::server::Changes;

use super::{
    admission::KnownTools,
    elicitation::Elicitor,
    oauth::{Browser, Credentials},
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
}
