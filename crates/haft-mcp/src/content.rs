//! Content of MCP as blocks of haft, and back.

mod from_mcp;
mod to_mcp;

pub(crate) use self::{from_mcp::output, to_mcp::to_mcp};
