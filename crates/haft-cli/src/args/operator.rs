//! The options of `haft hooks`, `haft shell`, `haft audit`, `haft policy` and `haft tools list`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::{Output, Rules, WorkspaceArgs};

pub(super) const HOOKS_HELP: &str = "Examples:
  haft hooks list
  haft hooks test PreToolUse --tool Bash < fixture.json";

pub(super) const AUDIT_HELP: &str = "Examples:
  haft audit tail
  haft audit tail --lines 100 --json | jq -r 'select(.decision == \"deny\") | .tool'

`[audit] file = \".haft/audit.jsonl\"` in `haft.toml` turns it on.";

pub(super) const SHELL_HELP: &str = "Examples:
  haft shell explain 'sort -u names | head'
  haft shell explain < commands.jsonl";

/// Options of `haft tools list`.
#[derive(Debug, Args)]
pub(crate) struct ListTools {
    /// Print what the definitions cost in a request of `haft run`, and the search index
    #[arg(long)]
    pub(crate) cost: bool,
    #[command(flatten)]
    pub(crate) location: WorkspaceArgs,
    #[command(flatten)]
    pub(crate) rules: Rules,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Commands about the audit file.
#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// Print the last calls
    #[command(after_help = "Examples:
  haft audit tail
  haft audit tail --lines 3 --json")]
    Tail {
        /// How many calls to print
        #[arg(long, value_name = "N", default_value_t = 20)]
        lines: usize,
        /// The file to read, instead of the configured one
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: Option<PathBuf>,
        #[command(flatten)]
        rules: Rules,
        #[command(flatten)]
        output: Output,
    },
}

/// Commands about hooks.
#[derive(Debug, Subcommand)]
pub(crate) enum Hooks {
    /// List the hooks of all files
    #[command(after_help = "Examples:
  haft hooks list
  haft hooks list --json | jq -r '.[].command'")]
    List {
        #[command(flatten)]
        rules: Rules,
        #[command(flatten)]
        output: Output,
    },
    /// Call the hooks of an event with the input from stdin, and show what each one answers
    #[command(after_help = "Examples:
  haft hooks test PreToolUse --tool Bash
  haft hooks test PostToolUse < fixture.json
  echo '{\"tool_name\": \"Bash\", \"tool_input\": {\"command\": \"ls\"}}' | haft hooks test PreToolUse --json

The hooks are called; no tool is. The exit code is 0 if every hook lets the call pass, and 2 if one
blocks it. Without stdin a minimal input is generated for the event.")]
    Test {
        /// The event: PreToolUse, PostToolUse, …
        event: String,
        /// The tool name in the input
        #[arg(long)]
        tool: Option<String>,
        #[command(flatten)]
        rules: Rules,
        #[command(flatten)]
        output: Output,
    },
}

/// Commands about shell commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Shell {
    /// Classify commands: read-only, writes, destructive; and why
    #[command(after_help = "Examples:
  haft shell explain 'ls -la' 'find . -name x -delete'
  haft shell explain --json 'git status' | jq -r .why
  echo '{\"command\": \"cat notes | sort\"}' | haft shell explain

Each argument is one command. Without arguments, each line {command} of stdin gets a line
{command, kind, parts, why}; `kind` is read_only, writes, destructive or unparseable. An invalid line
gets {command: null, line, error}, the next lines are still read, and the exit code is 1. Nothing is
run.")]
    Explain {
        /// Commands, each one argument
        #[arg(value_name = "COMMAND", value_hint = ValueHint::CommandString)]
        commands: Vec<String>,
        #[command(flatten)]
        output: Output,
    },
}

/// Commands about rules.
#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    /// Load all rules, count them, and report mistakes and rules without effect
    #[command(after_help = "Examples:
  haft policy check
  haft policy check --config draft.toml --json | jq .findings

The exit code is 1 if a file has a mistake, and with `--deny` also if there are findings.")]
    Check {
        #[command(flatten)]
        rules: Rules,
        /// Exit with 1 if there are findings
        #[arg(long)]
        deny: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Run the examples that rules carry (`test.ask`, `test.skip`, …)
    #[command(after_help = "Examples:
  haft policy test
  haft policy test --config draft.toml --json

The exit code is 1 if an example fails.")]
    Test {
        #[command(flatten)]
        rules: Rules,
        #[command(flatten)]
        output: Output,
    },
    /// Suggest the narrowest rules for calls that were approved repeatedly
    #[command(after_help = "Examples:
  haft dispatch response.json --dialect anthropic --decisions decisions.jsonl
  haft policy suggest --from decisions.jsonl

No file is changed: copy the rules that you want.")]
    Suggest {
        /// File of decisions, one per line, as `--decisions` writes them; `-` for stdin
        #[arg(long, value_name = "FILE.jsonl", value_hint = ValueHint::FilePath)]
        from: PathBuf,
        #[command(flatten)]
        rules: Rules,
        #[command(flatten)]
        output: Output,
    },
}
