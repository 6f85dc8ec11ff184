//! MCP for haft: tools of MCP servers become tools of a registry ([`client`]), and a registry is
//! served to MCP clients ([`server`]). Both sides know the protocols 2025-11-25 and 2026-07-28.
//!
//! The official SDK is inside; none of its types is public here. This crate reads no configuration
//! file and no environment.

mod content;
mod resource_uri;

pub mod client;
pub mod config;
pub mod gateway;
pub mod server;

// The programs of the guide run as doc tests.
#[cfg(doctest)]
mod doctests {
    #[doc = include_str!("../../../docs/guide/mcp-tools.md")]
    pub struct McpTools;
}
