//! The MCP server against clients.

mod approvals;
mod attacks;
mod calls;
mod client;
mod gateway;
mod http;
mod results;
