//! The MCP client against servers that behave well and badly.

mod kit;
mod stdio;
mod http;
mod faults;
mod many;
mod pinning;
