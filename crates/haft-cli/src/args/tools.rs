//! The options of `haft tools export`, `haft tools check` and `haft tools lint`, and where results
//! are kept.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use haft::{
    Dialect,
    dialect::{PromptCacheTtl, StrictMode, ToolSearch},
};

use super::{Output, Rules, WorkspaceArgs, choices, dialects};

/// Where large results are kept.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Artifacts {
    /// Directory where results are stored that are too large to show; created if it does not exist
    #[arg(long = "artifacts", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: Option<PathBuf>,
}

/// Options of `haft tools export`.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The provider
    #[arg(long, value_parser = dialects())]
    pub(crate) dialect: Option<Dialect>,
    #[command(flatten)]
    pub(crate) from: From,
    /// Whether the provider enforces the schemas (strict mode)
    #[arg(long, default_value = "auto", value_parser = choices(&[
        ("auto", StrictMode::Auto), ("on", StrictMode::On), ("off", StrictMode::Off),
    ]))]
    pub(crate) strict: StrictMode,
    /// Print all tool-related fields of a request, not only the tools
    #[arg(long)]
    pub(crate) request: bool,
    /// Mark the tools for the provider's prompt cache
    #[arg(long, value_parser = choices(&[("5m", PromptCacheTtl::FiveMinutes), ("1h", PromptCacheTtl::OneHour)]))]
    pub(crate) cache: Option<PromptCacheTtl>,
    /// Which tool the model must call: auto, any, none or a name
    #[arg(long, value_name = "auto|any|none|NAME", requires = "request")]
    pub(crate) choice: Option<String>,
    /// Whether the model may call several tools in parallel
    #[arg(long, requires = "request")]
    pub(crate) parallel: Option<bool>,
    /// Load deferred tools through a tool search
    #[arg(long, value_parser = choices(&[
        ("regex", ToolSearch::Regex), ("ranked", ToolSearch::Ranked), ("own", ToolSearch::Own),
    ]))]
    pub(crate) search: Option<ToolSearch>,
    /// Write schemas without `$ref`, `$defs` and `allOf`
    #[arg(long)]
    pub(crate) inline: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Options of `haft tools check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) from: From,
    /// File with one call per line; `-` for stdin
    #[arg(long, value_name = "FILE.jsonl", value_hint = ValueHint::FilePath)]
    pub(crate) calls: PathBuf,
    /// Repair arguments where the repair is lossless and unambiguous, and report it
    #[arg(long)]
    pub(crate) repair: bool,
    /// Validate `format` too
    #[arg(long)]
    pub(crate) formats: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Options of `haft tools lint`.
#[derive(Debug, Args)]
pub(crate) struct Lint {
    #[command(flatten)]
    pub(crate) from: From,
    /// Check one provider only
    #[arg(long, value_parser = dialects())]
    pub(crate) dialect: Option<Dialect>,
    /// Exit with 1 if there are findings
    #[arg(long)]
    pub(crate) deny: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Which tools.
#[derive(Debug, Args)]
pub(crate) struct From {
    /// File with one tool per line; `-` for stdin. Default: the built-in tools, and the tools that
    /// configuration files declare
    #[arg(long, value_name = "FILE.jsonl", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["workspace", "config"])]
    pub(crate) tools: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) location: WorkspaceArgs,
    #[command(flatten)]
    pub(crate) rules: Rules,
}
