//! The MCP client and server, against peers that behave well and badly.

mod kit;
mod stdio;
mod http;
mod faults;
mod many;
mod pinning;
mod server;
