//! The command line: commands, options and help texts.
//!
//! Types and texts only. Each command is implemented in the file of its name.

mod agent;
mod explain;
#[cfg(feature = "mcp")]
mod mcp;
mod operator;
#[cfg(feature = "mcp")]
mod serve;
mod tools;

use std::path::PathBuf;

use clap::{
    Args, Command, CommandFactory as _, Parser, Subcommand, ValueHint,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use haft::Dialect;

pub(crate) use self::{
    agent::{AgentArgs, Chat, Run, Runs},
    explain::Explain,
    operator::{Audit, Hooks, ListTools, Policy, Shell},
    tools::{Artifacts, Check, Export, Lint},
};
#[cfg(feature = "mcp")]
pub(crate) use self::{
    mcp::{AddServer, Mcp},
    serve::{Install, McpClient, Serve, Wrap},
};
use crate::style;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "haft",
    version,
    about = "Runs tool calls for language models: checks, approves, sandboxes and logs each one.",
    styles = style::HELP,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  haft demo                              watch an agent at work; no key, no network
  haft run 'Fix the test.' --model script:agent.jsonl    run an agent on a task
  haft tools list                        list the tools, and what happens to their calls
  haft call read_file file_path=README.md    call one tool in this directory
  haft call shell command='ls -l'        run a command in the sandbox
  haft tools export --dialect openai-chat    print the tools in a provider's format
  haft plan response.json                show which calls would run in parallel
  haft dispatch response.json            run the calls and print the results message
  haft explain shell command='git push'  show whether a call is allowed, and why
  haft policy test                       run the examples that rules carry
  haft doctor                            test the sandbox of this machine

Data goes to stdout, messages go to stderr. `--json` prints the data as one line of JSON."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Cmd,
}

/// The command.
#[derive(Debug, Subcommand)]
pub(crate) enum Cmd {
    /// Watch an agent at work under rules: a scripted model, real tools, a real repository
    #[command(after_help = agent::DEMO_HELP)]
    Demo {
        #[command(flatten)]
        output: Output,
    },
    /// Run an agent on a task until it has answered
    #[command(after_help = agent::RUN_HELP)]
    Run(Box<Run>),
    /// Talk with an agent: each line is a message
    #[command(after_help = agent::CHAT_HELP)]
    Chat(Box<Chat>),
    /// List and show stored runs
    #[command(subcommand, after_help = agent::RUNS_HELP)]
    Runs(Runs),
    /// List, show, export, check and lint tools
    #[command(
        subcommand,
        after_help = "Examples:
  haft tools list
  haft tools show shell
  haft tools export --dialect gemini
  haft tools check --tools tools.jsonl --calls calls.jsonl
  haft tools lint"
    )]
    Tools(Tools),
    /// Call one tool: validate, authorize, approve, run
    #[command(after_help = "Arguments:
  key=text      a value of the type that the schema says: a number for a number, else text
  key=@file     the content of a file, as text
  key:=json     JSON
  key:=@file    JSON from a file

Examples:
  haft call read_file file_path=README.md limit=5
  haft call search_files pattern=TODO path=src --trace
  haft call read_file --args-json '{\"file_path\": \"README.md\"}' --json
  haft call write_file file_path=copy.md content=@README.md --yes
  haft call shell command='ls -l' --workspace src

The tools work in the workspace: the directory of `--workspace`, else the current one. A call that
needs approval asks at the terminal. Without a terminal it is denied, unless `--yes` approves it.
`--yes` never overrides a deny. `haft exit-codes` lists the exit codes.")]
    Call(Call),
    /// Show in which batches the calls of a response would run, and why; run nothing
    #[command(after_help = "Examples:
  haft plan response.json
  haft plan response.json --workspace src
  cat response.json | haft plan --json")]
    Plan(Plan),
    /// Run the calls of a provider's response and print the message with their results
    #[command(after_help = "Examples:
  haft dispatch response.json
  cat response.json | haft dispatch --dialect anthropic --json
  cat response.sse | haft dispatch --dialect anthropic --stream

Every call gets a result, in order, also when it fails. So the exit code is 0 whenever a message is
printed. Calls that need approval ask at the terminal if the response comes from a file. Without a
terminal they are denied, unless `--yes` approves all of them.

A response that was truncated, or that has no stop reason, is answered and none of its calls is run.
The assistant message alone, as a history has it, is accepted too: that form has no stop reason in
any provider's format, so it counts as complete, and a note says so.")]
    Dispatch(Dispatch),
    #[cfg(feature = "mcp")]
    /// Serve the tools to MCP clients, under the rules of the workspace
    #[command(after_help = serve::SERVE_HELP)]
    Serve(Serve),
    #[cfg(feature = "mcp")]
    /// Put the MCP servers of a client behind haft
    #[command(after_help = serve::INSTALL_HELP)]
    Install(Install),
    /// Read a stored result that was too large for the model
    #[command(after_help = "Examples:
  haft result list
  haft result ID                       the whole result
  haft result ID --range 1:40          lines 1 to 40
  haft result ID --grep 'error|warn'   the lines that match
  haft result ID --pointer /rows/0     one value of a JSON result

`haft call` and `haft dispatch` print the id to stderr. Results are stored for two days in
`haft/artifacts` below `$XDG_STATE_HOME` (`~/.local/state`), readable by you alone.")]
    Result(Result),
    /// Show whether a call is allowed, and why; run nothing
    #[command(after_help = "Examples:
  haft explain write_file file_path=notes.txt content=x
  haft explain Bash command='git push origin main'
  haft explain mcp__github__create_issue title=x --tainted --json
  haft explain WebFetch url=https://example.org/ --secret --cwd src
  haft explain Bash command='ls | wc -l' --exit-code
  haft explain --calls calls.jsonl

Prints every check in order, the rule that decided with its file and line, rules that nearly matched,
the hooks that would run, what the call would access, and the smallest change that flips the decision.
`Bash` is explained as `shell`. The other tools of Claude Code and `mcp__server__tool` are explained
with stub tools. The exit code is 0 whenever an explanation is printed, unless `--exit-code` is
given.")]
    Explain(Explain),
    /// Read the audit file: one line for every call
    #[command(subcommand, after_help = operator::AUDIT_HELP)]
    Audit(Audit),
    /// Check, test and suggest rules
    #[command(
        subcommand,
        after_help = "Examples:
  haft policy check
  haft policy test
  haft policy suggest --from decisions.jsonl

Rules are read from `haft.toml`, `haft.local.toml`, `.claude/settings.json` and
`.claude/settings.local.json` of the directory, from `~/.config/haft/config.toml`, from
`~/.claude/settings.json`, and from the files of the organisation."
    )]
    Policy(Policy),
    /// Trust a directory, so that its allow rules, hooks and roots take effect
    #[command(after_help = "Examples:
  haft trust                     this directory; lists its configuration and asks
  haft trust src --yes
  haft trust --revoke
  haft trust --list --json

Deny and ask rules of a directory always apply. Its allow rules, hooks, tools and roots apply only
after you trust it. Trust covers the files that were listed, with their content. A file that is new
or has changed is listed and asked about again.")]
    Trust(Trust),
    /// List and test the hooks of this directory
    #[command(subcommand, after_help = operator::HOOKS_HELP)]
    Hooks(Hooks),
    #[cfg(feature = "mcp")]
    /// List, add, pin, wrap and log in to MCP servers
    #[command(subcommand, after_help = mcp::MCP_HELP)]
    Mcp(Mcp),
    /// Classify shell commands without running them
    #[command(subcommand, after_help = operator::SHELL_HELP)]
    Shell(Shell),
    /// Show which sandbox this machine supports, and test it
    #[command(after_help = "Examples:
  haft doctor
  haft doctor --json | jq .tier

The exit code is 0 if every test passed, 2 if this machine has no sandbox (tools that start processes
are then refused), and 5 if a forbidden action was possible or an allowed one failed.")]
    Doctor {
        #[command(flatten)]
        output: Output,
    },
    /// Print a completion script
    #[command(after_help = "Examples:
  haft completions bash > ~/.local/share/bash-completion/completions/haft
  haft completions fish > ~/.config/fish/completions/haft.fish")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// List the exit codes and what they mean
    #[command(after_help = "Examples:
  haft exit-codes
  haft call delete_path path=README.md || test $? -eq 2")]
    ExitCodes {
        #[command(flatten)]
        output: Output,
    },
}

/// The output format.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Output {
    /// Print the data, and errors, as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Commands about tools.
#[derive(Debug, Subcommand)]
pub(crate) enum Tools {
    /// List the tools: name, what happens to a call, properties, description
    #[command(after_help = "Examples:
  haft tools list
  haft tools list --json | jq -r '.[].name'
  haft tools list --workspace src
  haft tools list --cost

The second column is the verdict that the present rules, trust and sandbox give to an example call:
it runs without a question, it asks, it is denied, or the tool is hidden from the model. `runs or
asks` means that the tool classifies each call, `depends on the arguments` that rules decide by
them. `haft explain` shows the verdict of any call.")]
    List(ListTools),
    /// Print the names of the tools, one per line, for completion scripts
    #[command(hide = true)]
    Names {
        #[command(flatten)]
        location: WorkspaceArgs,
        #[command(flatten)]
        rules: Rules,
    },
    /// Show one tool: its arguments, what happens to a call here, and what it declares
    #[command(after_help = "Examples:
  haft tools show shell
  haft tools show edit_file --workspace src
  haft tools show read_file --json | jq .input_schema")]
    Show {
        /// Name of the tool
        tool: String,
        #[command(flatten)]
        location: WorkspaceArgs,
        #[command(flatten)]
        rules: Rules,
        #[command(flatten)]
        output: Output,
    },
    /// Print the tools in a provider's format, and report what the format cannot express
    #[command(after_help = "Examples:
  haft tools export --dialect anthropic
  haft tools export --dialect openai-responses --strict on --tools tools.jsonl --json
  haft tools export --dialect bedrock --request --choice any --cache 1h
  haft tools export --dialect anthropic --workspace src
  haft tools export --dialect mcp --inline    for a client without `$ref` support

The tools go to stdout and the loss report to stderr. With `--json` each tool is one line:
{id, provider, tool, strict, name, report}. A line of the file that is not a valid tool is reported
as refused, and the other lines are exported. The exit code is then still 0.")]
    Export(Export),
    /// Validate calls against the schemas of their tools
    #[command(after_help = "Examples:
  haft tools check --tools tools.jsonl --calls calls.jsonl
  haft tools check --tools tools.jsonl --calls calls.jsonl --repair --json
  haft tools check --calls calls.jsonl

A call is a line {schema_ref, arguments}; `schema_ref` is the `id` of a tool, or its name. With
`--json` each call gets a line {schema_ref, valid, problems, repairs}. Schemas are used unchanged.
`format` is not validated unless `--formats` is given. The exit code is 0 also if calls are invalid.")]
    Check(Check),
    /// Report what makes a tool hard to choose, expensive in tokens or unsafe, and how to fix it
    #[command(after_help = "Examples:
  haft tools lint
  haft tools lint --tools tools.jsonl --dialect gemini
  haft tools lint --tools tools.jsonl --deny       exits with 1 if there are findings

Tokens are an estimate: a quarter of the bytes of the exported JSON.")]
    Lint(Lint),
}

/// One call.
#[derive(Debug, Args)]
pub(crate) struct Call {
    /// Name of the tool
    pub(crate) tool: String,
    /// Arguments: key=text, key=@file, key:=json, key:=@file
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) pairs: Vec<String>,
    /// All arguments as a JSON object, from a file (`@file`) or stdin (`-`); pairs are added to it
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) args_json: Option<String>,
    /// Hosts that the command of this call may contact besides the configured ones, as in
    /// `packages.example`, or `all`; they need approval
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(crate) network: Vec<String>,
    /// Approve this call without asking; never overrides a deny
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print the phases of the call with their times to stderr; with `--json`, as part of the data
    #[arg(long)]
    pub(crate) trace: bool,
    /// Send spans and metrics to a collector (OTLP over HTTP), as in `http://127.0.0.1:4318`;
    /// default: the variable `OTEL_EXPORTER_OTLP_ENDPOINT`
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,
    /// Append each approval decision to this file, one per line
    #[arg(long, value_name = "FILE.jsonl", value_hint = ValueHint::FilePath)]
    pub(crate) decisions: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) artifacts: Artifacts,
    #[command(flatten)]
    pub(crate) location: WorkspaceArgs,
    #[command(flatten)]
    pub(crate) rules: Rules,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Where the built-in tools work.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WorkspaceArgs {
    /// The directory in which the tools work, with its rules; default: the current directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) workspace: Option<PathBuf>,
}

/// A result to read.
#[derive(Debug, Args)]
pub(crate) struct Result {
    /// Id of the result, or `list`
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Lines, counted from 1: 10:20, 10:, :20 or 10
    #[arg(long, value_name = "A:B", group = "look", allow_hyphen_values = true)]
    pub(crate) range: Option<String>,
    /// The lines that match a regular expression
    #[arg(long, value_name = "REGEX", group = "look", allow_hyphen_values = true)]
    pub(crate) grep: Option<String>,
    /// Lines to show before and after each match
    #[arg(long, value_name = "N", default_value_t = 0, requires = "grep")]
    pub(crate) context: usize,
    /// The value at a JSON pointer
    #[arg(long, value_name = "/POINTER", group = "look")]
    pub(crate) pointer: Option<String>,
    #[command(flatten)]
    pub(crate) artifacts: Artifacts,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Rule files in addition to those of the directory and of the user.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Rules {
    /// One more rule file (`haft.toml` or Claude Code settings); overrides those of the directory
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Print no notes and no live output; errors are always printed
    #[arg(long)]
    pub(crate) quiet: bool,
}

impl Rules {
    /// The same without notes.
    pub(crate) fn quiet(self) -> Self {
        Self { quiet: true, ..self }
    }
}

/// Options of `haft trust`.
#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// The directory; default: the current directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: Option<PathBuf>,
    /// Remove the trust
    #[arg(long)]
    pub(crate) revoke: bool,
    /// List the trusted directories
    #[arg(long, conflicts_with_all = ["revoke", "directory"])]
    pub(crate) list: bool,
    /// Trust without asking
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// A response to plan.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// File with a provider's complete response; default or `-`: stdin
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// The provider's format; default: detected from the response
    #[arg(long, value_parser = dialects())]
    pub(crate) dialect: Option<Dialect>,
    #[command(flatten)]
    pub(crate) location: WorkspaceArgs,
    #[command(flatten)]
    pub(crate) rules: Rules,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// A response to answer.
#[derive(Debug, Args)]
pub(crate) struct Dispatch {
    /// File with a provider's response; default or `-`: stdin
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// The provider's format; default: detected from the response; required with `--stream`
    #[arg(long, value_parser = dialects())]
    pub(crate) dialect: Option<Dialect>,
    /// Read a stream (server-sent events or JSON lines), and run calls while it arrives
    #[arg(long)]
    pub(crate) stream: bool,
    /// Print the assistant message for the history too: {message, answer}
    #[arg(long)]
    pub(crate) echo: bool,
    /// Approve these calls without asking; never overrides a deny
    #[arg(long)]
    pub(crate) yes: bool,
    /// Append each approval decision to this file, one per line
    #[arg(long, value_name = "FILE.jsonl", value_hint = ValueHint::FilePath)]
    pub(crate) decisions: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) artifacts: Artifacts,
    #[command(flatten)]
    pub(crate) location: WorkspaceArgs,
    #[command(flatten)]
    pub(crate) rules: Rules,
    #[command(flatten)]
    pub(crate) output: Output,
}

fn dialects() -> impl clap::builder::TypedValueParser<Value = Dialect> {
    PossibleValuesParser::new(Dialect::ALL.iter().map(|d| d.as_str()))
        .try_map(|name| name.parse::<Dialect>())
}

/// Parses one of a few names.
fn choices<T: Clone + Send + Sync + 'static>(
    known: &'static [(&'static str, T)],
) -> impl clap::builder::TypedValueParser<Value = T> {
    PossibleValuesParser::new(known.iter().map(|(name, _)| *name)).try_map(move |name| {
        let found = known.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone()).ok_or("unknown value")
    })
}

/// Returns the whole command, with the list of exit codes where its help shows it.
pub(crate) fn command() -> Command {
    Cli::command()
        .mut_subcommand("exit-codes", |c| c.before_help(style::exit_codes().trim_end().to_owned()))
}
