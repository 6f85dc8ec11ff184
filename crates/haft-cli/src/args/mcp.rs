//! The options of `haft mcp`.

use clap::Subcommand;

use super::serve::{WRAP_HELP, Wrap};

/// The end of the help of `haft mcp`.
pub(crate) const MCP_HELP: &str = "Examples:
  haft mcp wrap -- notes-server";

/// Commands about MCP servers.
#[derive(Debug, Subcommand)]
pub(crate) enum Mcp {
    /// Serve one MCP server to a client, under the rules of the directory
    #[command(after_help = WRAP_HELP)]
    Wrap(Wrap),
}
