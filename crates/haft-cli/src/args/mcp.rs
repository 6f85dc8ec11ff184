//! The options of `haft mcp`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::{
    Output, Rules, WorkspaceArgs,
    serve::{WRAP_HELP, Wrap},
};

pub(crate) const MCP_HELP: &str = "Examples:
  haft mcp list                                     the servers, and whether they answer
  haft mcp add files -- npx -y @modelcontextprotocol/server-filesystem .
  haft mcp get files                                its tools, and which are withheld
  haft mcp diff                                     what has changed since it was pinned
  haft mcp pin files                                accept its tools as they are now

Servers are read from `[mcp.servers.*]` of `haft.toml`, from `.mcp.json`, `.cursor/mcp.json` and
`.vscode/mcp.json` of the directory, and from your own files of Claude Code, Cursor and codex.
Servers of a directory start only after you trust it: see `haft trust`.";

/// Commands about MCP servers.
#[derive(Debug, Subcommand)]
pub(crate) enum Mcp {
    /// Serve one MCP server to a client, under the rules of the directory
    #[command(after_help = WRAP_HELP)]
    Wrap(Wrap),
    /// List the servers of all files, and whether they answer
    #[command(after_help = "Examples:
  haft mcp list
  haft mcp list --no-start              only what the files say
  haft mcp list --json | jq '.[] | select(.state != \"ready\")'")]
    List {
        /// Start no server
        #[arg(long)]
        no_start: bool,
        #[command(flatten)]
        location: WorkspaceArgs,
        #[command(flatten)]
        rules: Rules,
        #[command(flatten)]
        output: Output,
    },
    /// Show one server: its tools, those that are withheld, its standard error
    #[command(after_help = "Examples:
  haft mcp get files
  haft mcp get files --json")]
    Get {
        /// The server
        server: String,
        #[command(flatten)]
        location: WorkspaceArgs,
        #[command(flatten)]
        rules: Rules,
        #[command(flatten)]
        output: Output,
    },
    /// Add a server to a configuration file
    #[command(after_help = "Examples:
  haft mcp add memory -- npx -y @modelcontextprotocol/server-memory
  haft mcp add hub --url https://hub.example/mcp --token-env HUB_TOKEN --to .mcp.json

Without `--to` it is added to your own file, `~/.config/haft/config.toml`.")]
    Add(AddServer),
    /// Remove a server from a configuration file
    #[command(after_help = "Examples:
  haft mcp remove files
  haft mcp remove hub --from .mcp.json")]
    Remove {
        /// The server
        server: String,
        /// The file; without it, your own file
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        from: Option<PathBuf>,
        #[command(flatten)]
        output: Output,
    },
    /// Accept the tools of a server as they are now
    #[command(after_help = "Examples:
  haft mcp pin files
  haft mcp pin files read_file      only this tool, also if it looks suspicious

The definitions are kept in `haft.lock`. A tool that changes, or that is new, is withheld until it
is pinned. Pinning a tool by its name also admits one that was withheld as suspicious: read it
first with `haft mcp get`.")]
    Pin {
        /// The server
        server: String,
        /// The tools; without them all, except those that look suspicious
        tools: Vec<String>,
        #[command(flatten)]
        location: WorkspaceArgs,
        #[command(flatten)]
        rules: Rules,
        #[command(flatten)]
        output: Output,
    },
    /// Show what has changed since servers were pinned
    #[command(after_help = "Examples:
  haft mcp diff
  haft mcp diff files --json

The exit code is 0 if nothing has changed, and 2 if something has.")]
    Diff {
        /// The server; without it, all
        server: Option<String>,
        #[command(flatten)]
        location: WorkspaceArgs,
        #[command(flatten)]
        rules: Rules,
        #[command(flatten)]
        output: Output,
    },
    /// Log in to a server with a browser
    #[command(after_help = "Examples:
  haft mcp login hub
  haft mcp login hub --out              forget the login")]
    Login {
        /// The server
        server: String,
        /// Forget the login
        #[arg(long)]
        out: bool,
        #[command(flatten)]
        location: WorkspaceArgs,
        #[command(flatten)]
        rules: Rules,
        #[command(flatten)]
        output: Output,
    },
}

impl Mcp {
    /// The workspace whose servers are used.
    pub(crate) fn location(&self) -> WorkspaceArgs {
        match self {
            Self::Wrap(args) => args.place.clone(),
            Self::List { location, .. }
            | Self::Get { location, .. }
            | Self::Pin { location, .. }
            | Self::Diff { location, .. }
            | Self::Login { location, .. } => location.clone(),
            Self::Add(_) | Self::Remove { .. } => WorkspaceArgs::default(),
        }
    }
}

/// Options of `haft mcp add`.
#[derive(Debug, Args)]
pub(crate) struct AddServer {
    /// The name: the prefix of its tools
    pub(crate) server: String,
    /// The URL of a server that speaks streamable HTTP
    #[arg(long, conflicts_with = "command")]
    pub(crate) url: Option<String>,
    /// The variable with the bearer token of a URL
    #[arg(long, value_name = "NAME", requires = "url")]
    pub(crate) token_env: Option<String>,
    /// A variable that is passed on to the program
    #[arg(long, value_name = "NAME")]
    pub(crate) pass_env: Vec<String>,
    /// The file: `haft.toml`, `.mcp.json`, …
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) to: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
    /// The program and its arguments
    #[arg(last = true)]
    pub(crate) command: Vec<String>,
}
