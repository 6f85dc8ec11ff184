//! The options of `haft explain`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{Output, Rules, WorkspaceArgs};

/// A call to explain.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Name of the tool
    #[arg(required_unless_present = "calls")]
    pub(crate) tool: Option<String>,
    /// Arguments, written as for `haft call`
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) pairs: Vec<String>,
    /// All arguments as a JSON object, from a file (`@file`) or stdin (`-`); pairs are added to it
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) args_json: Option<String>,
    /// Assume that the run has read untrusted text (this text, if given)
    #[arg(
        long,
        value_name = "TEXT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "some untrusted text"
    )]
    pub(crate) tainted: Option<String>,
    /// Assume that the run has read a secret
    #[arg(long)]
    pub(crate) secret: bool,
    /// Assume that the user has said this; values in it count as the user's own
    #[arg(long, value_name = "TEXT")]
    pub(crate) user_text: Option<String>,
    /// Assume that this agent makes the call
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Assume this working directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cwd: Option<PathBuf>,
    /// Explain all calls of a file (`-` is stdin), one JSON object per line: `tool`, `arguments`.
    /// Prints one line for each
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = ["tool", "args_json"]
    )]
    pub(crate) calls: Option<PathBuf>,
    /// Assume that the call runs outside of haft's sandbox, as the tools of another agent do.
    /// Without it, a command may be allowed because haft would confine it (`confined` in the JSON)
    #[arg(long)]
    pub(crate) unconfined: bool,
    /// Exit with 0 if the call is allowed, 2 if it is denied, 6 if it needs approval
    #[arg(long)]
    pub(crate) exit_code: bool,
    #[command(flatten)]
    pub(crate) location: WorkspaceArgs,
    #[command(flatten)]
    pub(crate) rules: Rules,
    #[command(flatten)]
    pub(crate) output: Output,
}
