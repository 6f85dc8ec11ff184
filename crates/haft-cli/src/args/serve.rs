//! The options of `haft serve`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{Artifacts, Rules, WorkspaceArgs};

/// The end of the help of `haft serve`.
pub(crate) const SERVE_HELP: &str = "Examples:
  haft serve --stdio --workspace src
  haft serve --http 127.0.0.1:8765
  haft serve --http 0.0.0.0:8765 --token-file tokens --allow-host tools.example.com

The tools are the built-in ones and those of the MCP servers that `haft mcp list` lists. An MCP
client starts the first form by itself. Each call is validated, authorized and recorded as in
`haft call`. A call that needs approval asks the user of the client; a client that cannot ask gets a
denial. Clients of 2025-11-25 and of 2026-07-28 are served at the same time.

The HTTP endpoint is `/mcp`; its URL goes to stdout. Without a token only a loopback address is
served. Tokens are in HAFT_SERVE_TOKEN, or in a file with a line `NAME TOKEN` for each caller.";

/// A server of MCP.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("transport").required(true))]
pub(crate) struct Serve {
    /// Serve one client over stdin and stdout
    #[arg(long, group = "transport")]
    pub(crate) stdio: bool,
    /// Serve clients over HTTP at this address, such as 127.0.0.1:8765; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", group = "transport")]
    pub(crate) http: Option<String>,
    /// File with a line `NAME TOKEN` for each caller that is accepted
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "http")]
    pub(crate) token_file: Option<PathBuf>,
    /// One more host name under which clients reach the server
    #[arg(long, value_name = "HOST", requires = "http")]
    pub(crate) allow_host: Vec<String>,
    /// One more origin of web pages that may use the server, such as https://app.example.com:443
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub(crate) allow_origin: Vec<String>,
    #[command(flatten)]
    pub(crate) place: WorkspaceArgs,
    #[command(flatten)]
    pub(crate) rules: Rules,
    #[command(flatten)]
    pub(crate) artifacts: Artifacts,
}

/// The end of the help of `haft mcp wrap`.
pub(crate) const WRAP_HELP: &str = "Examples:
  haft mcp wrap -- notes-server
  haft mcp wrap --name notes -- notes-server --readonly

Write it in front of the command in the configuration of an MCP client. The client sees the server's
tools, resources and prompts under their own names; each call is validated, authorized by the rules
of the directory, and recorded. Rules name a tool `mcp__NAME__TOOL`. `haft install` does it for a
whole file.";

/// One MCP server that is served to a client under rules.
#[derive(Debug, Args)]
pub(crate) struct Wrap {
    /// Name of the server in rules; default: the name of the program
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The command that starts the server, and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    #[command(flatten)]
    pub(crate) place: WorkspaceArgs,
    #[command(flatten)]
    pub(crate) rules: Rules,
    #[command(flatten)]
    pub(crate) artifacts: Artifacts,
}

/// The end of the help of `haft install`.
pub(crate) const INSTALL_HELP: &str = "Examples:
  haft install cursor --dry-run          show what would change
  haft install claude-code
  haft install claude-code --undo        put the old file back

Rewrites the configuration of an MCP client, so that each server that it starts runs behind
`haft mcp wrap`. Comments and layout of the file survive. The old file is kept next to it, with
`.before-haft` at the end of its name. Servers that are reached by a URL stay as they are.";

/// An MCP client whose servers are put behind haft.
#[derive(Debug, Args)]
pub(crate) struct Install {
    /// The client
    #[arg(value_parser = super::choices(&[
        ("claude-code", McpClient::ClaudeCode),
        ("claude-desktop", McpClient::ClaudeDesktop),
        ("codex", McpClient::Codex),
        ("cursor", McpClient::Cursor),
        ("vscode", McpClient::VsCode),
    ]))]
    pub(crate) client: McpClient,
    /// Change the client's file of this project instead of the user's
    #[arg(long)]
    pub(crate) project: bool,
    /// Change this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "project")]
    pub(crate) file: Option<PathBuf>,
    /// Show what would change, and change nothing
    #[arg(long, conflicts_with = "undo")]
    pub(crate) dry_run: bool,
    /// Put the old file back
    #[arg(long)]
    pub(crate) undo: bool,
    #[command(flatten)]
    pub(crate) output: super::Output,
}

/// A program that starts MCP servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum McpClient {
    ClaudeCode,
    ClaudeDesktop,
    Codex,
    Cursor,
    VsCode,
}
