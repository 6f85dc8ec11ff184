//! The MCP server against clients.

mod approvals;
mod attacks;
mod calls;
pub(crate) mod client;
pub(crate) mod gateway;
mod http;
mod results;
