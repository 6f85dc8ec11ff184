//! Tests of the MCP server against clients.
