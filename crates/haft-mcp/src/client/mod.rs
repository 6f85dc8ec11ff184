//! Tools of MCP servers as tools of a registry.
