//! Tools of MCP servers as tools of a registry.
//!
//! A [`RemoteServer`] is a source of tools: it connects, lists, and calls. Its tools are ordinary
//! tools. What their server says about them tightens and never relaxes, unless the server is
//! trusted; their results are untrusted content.

mod task;
mod config;
mod identity;
mod elicitation;
mod forward;
mod handler;
mod bounded_http;
mod http;
mod headers_helper;
mod oauth_http;
mod oauth;
mod host;
mod confined;
mod process;
mod bounded_lines;
mod ordered;
mod connect_error;
mod connection;
mod supervisor;
mod admission;
mod pins;
mod call;
mod remote_task;
mod remote_tool;
mod server;

pub(crate) use self::admission::admit_listed;
pub use self::{
    admission::KnownTools,
    config::{
        Era, HeadersHelper, HttpEndpoint, Pinning, ServerConfig, ServerSandbox, ServerTransport,
        ServerTrust, StdioCommand, is_server_name,
    },
    elicitation::{ElicitationAnswer, ElicitationKind, ElicitationRequest, Elicitor},
    host::{ClientHost, PinStore},
    identity::PinnedProgram,
    oauth::{Browser, Credentials, OAuthSettings},
    pins::{FieldChange, Lockfile, PinChange, PinnedServer, PinnedTool},
    server::{RemoteServer, ServerState, ServerStatus, WithheldTool},
};
