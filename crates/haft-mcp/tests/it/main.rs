//! The MCP client and server, against peers that behave well and badly.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "the helpers belong to the tests; a test runs tasks of its own and prints figures"
)]

mod kit;
#[cfg(target_os = "linux")]
mod confined;
mod stdio;
mod http;
mod faults;
mod many;
mod pinning;
mod tasks;
mod attacks;
mod server;
