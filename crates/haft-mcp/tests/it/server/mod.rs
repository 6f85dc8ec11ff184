//! The MCP server against clients.

mod approvals;
mod calls;
mod client;
mod http;
mod results;
