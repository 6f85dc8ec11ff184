//! Content of MCP as blocks of haft, and back.

mod from_mcp;

pub(crate) use self::from_mcp::output;
