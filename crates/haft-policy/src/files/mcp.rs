//! `[mcp.servers.*]`: MCP servers, as tables that the MCP client reads.
//!
//! In: the table of a file. Out: one value for each server with its location. What the keys mean is
//! not decided here; a server of an untrusted file does not apply.

use std::path::PathBuf;

use serde_json::Value;

use super::{
    ConfigFile,
    content::FileContent,
    node::{Node, Reader},
};
use crate::rule::{ConfigLayer, SourceLocation};

/// One MCP server of a file.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct McpServerTable {
    /// Its name.
    pub name: String,
    /// Its keys.
    pub table: Value,
    /// The location of its declaration.
    pub location: SourceLocation,
    /// The layer of the file that declares it.
    pub layer: ConfigLayer,
    /// The directory of that file.
    pub directory: PathBuf,
}

/// Reads the section.
pub(super) fn read(
    reader: &mut Reader<'_>,
    node: &Node,
    file: &ConfigFile,
    content: &mut FileContent,
) {
    let Some(fields) = reader.table(node, "`[mcp]`", &["servers"]) else { return };
    let Some(servers) = fields.get("servers") else { return };
    let Some(servers) = reader.any_table(servers, "`[mcp.servers]`") else { return };
    for entry in servers.iter() {
        let what = format!("`[mcp.servers.{}]`", entry.key);
        if reader.any_table(&entry.value, &what).is_none() {
            continue;
        }
        if let Some(table) = reader.value(&entry.value) {
            content.mcp_servers.push(McpServerTable {
                name: entry.key.clone(),
                table,
                location: reader.place(entry.at),
                layer: file.layer,
                directory: file.anchor.clone(),
            });
        }
    }
}
