//! Content of MCP as blocks of haft, and back.
