//! The options of `haft serve`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{Artifacts, Rules, WorkspaceArgs};

/// The end of the help of `haft serve`.
pub(crate) const SERVE_HELP: &str = "Examples:
  haft serve --stdio --workspace src
  haft serve --http 127.0.0.1:8765
  haft serve --http 0.0.0.0:8765 --token-file tokens --allow-host tools.example.com

An MCP client starts the first form by itself. Each call is validated, authorized and recorded as in
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
