//! What can be written after `haft`: the commands, their options, their help.
//!
//! Types and texts only. Each command's work is in the file of its name.

use std::path::PathBuf;

use clap::{
    Args, Command, CommandFactory as _, Parser, Subcommand, ValueHint,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use haft::{Dialect, PromptCacheTtl, StrictMode, ToolSearch};

use crate::style;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "haft",
    version,
    about = "The runtime between a language model and the world: list, try, plan and dispatch tool calls.",
    styles = style::HELP,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  haft demo                              everything at once; needs no key and no network
  haft tools list                        what can be called
  haft call read_note name=garden        one call
  haft call shell command='ls -l' --workspace .    the same with a shell, files and search
  haft tools export --dialect openai-chat    the tools as a provider wants them
  haft plan response.json                what would run together, and why
  haft dispatch response.json --dialect anthropic
  haft explain delete_note name=trip     whether it would run, and why
  haft policy test                       whether the rules do what they promise
  haft doctor                            what confines commands on this machine

Data goes to stdout and talk to stderr; `--json` makes the data one line of JSON."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Cmd,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Cmd {
    /// Play a recorded model response through the whole runtime and show what happens
    #[command(after_help = "Examples:
  haft demo
  haft demo --json | jq .message         what the model would be sent back")]
    Demo {
        #[command(flatten)]
        output: Output,
    },
    /// Look at the tools there are
    #[command(
        subcommand,
        after_help = "Examples:
  haft tools list
  haft tools show write_note
  haft tools export --dialect gemini
  haft tools check --tools tools.jsonl --calls calls.jsonl
  haft tools lint"
    )]
    Tools(Tools),
    /// Call one tool, with all that comes between a model and a tool
    #[command(after_help = "How arguments are written:
  key=text      read as the tool's schema says: a number where it wants a number, else text
  key=@file     the text of a file
  key:=json     JSON
  key:=@file    JSON from a file

Examples:
  haft call add a=2 b=40
  haft call search_notes query=rain limit=1
  haft call write_note name=todo text=@todo.txt --yes
  haft call read_note --args-json '{\"name\": \"garden\"}' --json
  haft call search_notes query=rain --trace
  haft call shell command='ls -l' --workspace .
  haft call write_file file_path=todo.txt content='water the beans' --workspace . --yes

A call that needs permission asks at a terminal. Elsewhere it is denied unless `--yes` answers for
it; `--yes` never overrides a deny. `haft exit-codes` lists what the exit code says.")]
    Call(Call),
    /// Say in which batches the calls of a response would run, and why; run nothing
    #[command(after_help = "Examples:
  haft plan response.json
  haft plan response.json --workspace .
  curl … | haft plan --json")]
    Plan(Plan),
    /// Run the calls of a provider's response and print the message that answers them
    #[command(after_help = "Examples:
  haft dispatch response.json --dialect anthropic
  curl … | haft dispatch --dialect openai-responses --json
  curl -N … | haft dispatch --dialect anthropic --stream

Every call is answered, in order, whatever happens to it; so the exit code is 0 whenever there is a
message. Calls that need permission ask at a terminal if the response comes from a file; elsewhere
they are denied unless `--yes` answers for all of them.")]
    Dispatch(Dispatch),
    /// Read a result that was too large to show as a whole
    #[command(after_help = "Examples:
  haft result list
  haft result ID                       all of it
  haft result ID --range 1:40          some lines, both ends included
  haft result ID --grep 'error|warn'   the lines that match
  haft result ID --pointer /rows/0     a part of JSON
  haft result ID --head 5              the columns and first rows of a table or list

`haft call` and `haft dispatch` name the id on stderr. Results are kept for two days in `haft/artifacts`
below `$XDG_STATE_HOME` (`~/.local/state`), for nobody else's eyes.")]
    Result(Result),
    /// Say what would become of a call and why; ask nobody, run nothing
    #[command(after_help = "Examples:
  haft explain delete_note name=trip
  haft explain Bash command='git push origin main'
  haft explain mcp__github__create_issue title=x --tainted --json
  haft explain WebFetch url=https://example.org/ --secret --cwd ../other

Every check in order, the rule that decided with its file and line, rules that nearly did, what the
call would touch, and the smallest change that flips it. `Bash`, `Read`, `Edit`, `Write`, `Glob`,
`Grep`, `WebFetch` and `mcp__server__tool` are judged by stand-ins. The exit code is 0 whenever there
is an explanation.")]
    Explain(Explain),
    /// Look after the rules of this folder
    #[command(
        subcommand,
        after_help = "Examples:
  haft policy check
  haft policy test
  haft policy suggest --from decisions.jsonl

Rules are in `haft.toml`, `haft.local.toml`, `.claude/settings.json` and
`.claude/settings.local.json` of the folder, in `config.toml` of `~/.config/haft`, in
`~/.claude/settings.json`, and in the organisation's files."
    )]
    Policy(Policy),
    /// Trust a folder, so that its allows, hooks and roots count
    #[command(after_help = "Examples:
  haft trust                     this folder; shows what that brings and asks
  haft trust ../other --yes
  haft trust --revoke
  haft trust --list --json

A folder that somebody else wrote may deny and ask whatever it likes; what it allows, and what it
wants to run, counts only once you trust it. Trust covers the files that you were shown, as they were;
what is new or has changed later is shown and asked about again.")]
    Trust(Trust),
    /// Look at the hooks of this folder, and try them
    #[command(
        subcommand,
        after_help = "Examples:
  haft hooks list
  haft hooks test PreToolUse --tool Bash < fixture.json"
    )]
    Hooks(Hooks),
    /// Look at shell commands without running them
    #[command(
        subcommand,
        after_help = "Examples:
  haft shell explain 'sort -u names | head'
  haft shell explain < commands.jsonl"
    )]
    Shell(Shell),
    /// Say what confines processes on this machine, and try everything that is forbidden
    #[command(after_help = "Examples:
  haft doctor
  haft doctor --json | jq .tier

The exit code is 0 if all went as it should, 2 if nothing confines processes here, so that tools which
start one are refused, and 5 if something was let through or did not work.")]
    Doctor {
        #[command(flatten)]
        output: Output,
    },
    /// Print a completion script
    #[command(after_help = "Examples:
  haft completions bash > ~/.local/share/bash-completion/completions/haft
  haft completions fish > ~/.config/fish/completions/haft.fish")]
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
    /// List the exit codes and what they mean
    #[command(after_help = "Examples:
  haft exit-codes
  haft call delete_note name=trip || test $? -eq 2")]
    ExitCodes {
        #[command(flatten)]
        output: Output,
    },
}

/// How the data is written.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Output {
    /// Write the data as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to know about the tools.
#[derive(Debug, Subcommand)]
pub(crate) enum Tools {
    /// List the tools: name, class, what to know, what they do
    #[command(after_help = "Examples:
  haft tools list
  haft tools list --json | jq -r '.[].name'
  haft tools list --workspace .")]
    List {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        rules: Rules,
        #[command(flatten)]
        output: Output,
    },
    /// Show everything one tool declares
    #[command(after_help = "Examples:
  haft tools show delete_note
  haft tools show edit_file --workspace .
  haft tools show add --json | jq .input_schema")]
    Show {
        /// Name of the tool
        tool: String,
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        rules: Rules,
        #[command(flatten)]
        output: Output,
    },
    /// Write the tools as a provider wants them, and say what each one lost on the way
    #[command(after_help = "Examples:
  haft tools export --dialect anthropic
  haft tools export --dialect openai-responses --strict on --tools tools.jsonl --json
  haft tools export --dialect bedrock --request --choice any --cache 1h
  haft tools export --dialect anthropic --workspace .
  haft tools export --dialect mcp --inline                for a client that follows no `$ref`

The tools go to stdout and the losses to stderr. With `--json` every tool is a line of its own:
{id, provider, tool, strict, name, report}. A line of the file that makes no tool is refused in its
report and stops nothing; the exit code is 0 whenever there is an answer.")]
    Export(Export),
    /// Say whether calls fit the schemas of their tools, and what is wrong with those that do not
    #[command(after_help = "Examples:
  haft tools check --tools tools.jsonl --calls calls.jsonl
  haft tools check --tools tools.jsonl --calls calls.jsonl --repair --json
  haft tools check --workspace . --calls calls.jsonl

A call is a line {schema_ref, arguments}; `schema_ref` is the `id` of a tool, or its name. With
`--json` every call is answered with a line {schema_ref, valid, problems, repairs}. Schemas are
taken as they are; `format` is a remark unless `--formats` is given. The exit code is 0 whenever
there is an answer.")]
    Check(Check),
    /// Say what would make the tools easier to choose, cheaper to show and safer to run
    #[command(after_help = "Examples:
  haft tools lint
  haft tools lint --workspace .
  haft tools lint --tools tools.jsonl --dialect gemini
  haft tools lint --tools tools.jsonl --deny       exits with 1 if there are findings

Tokens are an estimate: a quarter of the bytes of the exported JSON.")]
    Lint(Lint),
}

/// Tools to write in a provider's words.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// For whom
    #[arg(long, value_parser = dialects())]
    pub(crate) dialect: Option<Dialect>,
    #[command(flatten)]
    pub(crate) from: From,
    /// Whether the provider shall hold the model to the schemas
    #[arg(long, default_value = "auto", value_parser = words(&[
        ("auto", StrictMode::Auto), ("on", StrictMode::On), ("off", StrictMode::Off),
    ]))]
    pub(crate) strict: StrictMode,
    /// Print everything a request says about tools, not the tools alone
    #[arg(long)]
    pub(crate) request: bool,
    /// Mark the tools for the provider's prompt cache
    #[arg(long, value_parser = words(&[("5m", PromptCacheTtl::FiveMinutes), ("1h", PromptCacheTtl::OneHour)]))]
    pub(crate) cache: Option<PromptCacheTtl>,
    /// Which tool the model shall call: auto, any, none or a name
    #[arg(long, value_name = "auto|any|none|NAME", requires = "request")]
    pub(crate) choice: Option<String>,
    /// Whether the model may call several tools at once
    #[arg(long, requires = "request")]
    pub(crate) parallel: Option<bool>,
    /// Leave deferred tools to a tool search
    #[arg(long, value_parser = words(&[
        ("regex", ToolSearch::Regex), ("ranked", ToolSearch::Ranked), ("own", ToolSearch::Own),
    ]))]
    pub(crate) search: Option<ToolSearch>,
    /// Write schemas without `$ref`, `$defs` and `allOf`
    #[arg(long)]
    pub(crate) inline: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Calls to hold against their tools.
#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) from: From,
    /// File with one call per line; `-` for stdin
    #[arg(long, value_name = "FILE.jsonl", value_hint = ValueHint::FilePath)]
    pub(crate) calls: PathBuf,
    /// Repair what loses nothing and leaves no doubt, and say so
    #[arg(long)]
    pub(crate) repair: bool,
    /// Take `format` for a rule, not for a remark
    #[arg(long)]
    pub(crate) formats: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Tools to look at with a critical eye.
#[derive(Debug, Args)]
pub(crate) struct Lint {
    #[command(flatten)]
    pub(crate) from: From,
    /// Look at one provider only
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
    /// File with one tool per line; `-` for stdin. When left out: this command's own tools, those of
    /// `--workspace`, and those that the folder's files declare
    #[arg(long, value_name = "FILE.jsonl", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["workspace", "config"])]
    pub(crate) tools: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) rules: Rules,
}

/// One call.
#[derive(Debug, Args)]
pub(crate) struct Call {
    /// Name of the tool
    pub(crate) tool: String,
    /// Arguments: key=text, key=@file, key:=json, key:=@file
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) pairs: Vec<String>,
    /// All arguments as one JSON object, from a file (`@file`) or stdin (`-`); pairs are added to it
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) args_json: Option<String>,
    /// Answer yes to whatever this one call asks; never overrides a deny
    #[arg(long)]
    pub(crate) yes: bool,
    /// Show the walk of the call with its times, on stderr; with `--json` it is part of the data
    #[arg(long)]
    pub(crate) trace: bool,
    /// Send spans and metrics to a collector (OTLP over HTTP), as in `http://127.0.0.1:4318`; else
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` counts
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,
    /// Append what people decide to this file, one line each
    #[arg(long, value_name = "FILE.jsonl", value_hint = ValueHint::FilePath)]
    pub(crate) decisions: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) artifacts: Artifacts,
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) rules: Rules,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Where the built-in tools work.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Place {
    /// Add the built-in tools (files, search, shell, fetch, ask), at work in this folder; its rules
    /// count
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) workspace: Option<PathBuf>,
}

/// Where large results are kept.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Artifacts {
    /// Folder where results are kept that are too large to show; made if it is not there
    #[arg(long = "artifacts", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: Option<PathBuf>,
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
    /// What a JSON pointer leads to
    #[arg(long, value_name = "/POINTER", group = "look")]
    pub(crate) pointer: Option<String>,
    /// The columns and so many first rows
    #[arg(long, value_name = "N", group = "look")]
    pub(crate) head: Option<usize>,
    #[command(flatten)]
    pub(crate) artifacts: Artifacts,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Which files of rules count besides those of the folder and of the person.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Rules {
    /// One more file of rules (`haft.toml` or settings of Claude Code), stronger than the folder's
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Show no notes about files that count for nothing, and no live output; errors are always shown
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// A call to explain.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Name of the tool
    pub(crate) tool: String,
    /// Arguments, written as for `haft call`
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) pairs: Vec<String>,
    /// All arguments as one JSON object, from a file (`@file`) or stdin (`-`); pairs are added to it
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) args_json: Option<String>,
    /// As if the run had read untrusted text, this one if it is given
    #[arg(
        long,
        value_name = "TEXT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "some text from somewhere"
    )]
    pub(crate) tainted: Option<String>,
    /// As if the run had read a secret
    #[arg(long)]
    pub(crate) secret: bool,
    /// As if the user had said this: values in it are the user's own
    #[arg(long, value_name = "TEXT")]
    pub(crate) user_said: Option<String>,
    /// As if this agent called
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// As if the run worked in this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) cwd: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) rules: Rules,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// What to do with the rules.
#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    /// Load all rules and say what is in them, what counts for nothing, and what is wrong
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
    /// Try the examples that the rules carry (`test.ask`, `test.skip`, …)
    #[command(after_help = "Examples:
  haft policy test
  haft policy test --config draft.toml --json

The exit code is 1 if an example does not hold.")]
    Test {
        #[command(flatten)]
        rules: Rules,
        #[command(flatten)]
        output: Output,
    },
    /// Suggest the narrowest rules for what was approved again and again
    #[command(after_help = "Examples:
  haft dispatch response.json --dialect anthropic --decisions decisions.jsonl
  haft policy suggest --from decisions.jsonl

Nothing is written: put the rules you want into a file yourself.")]
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

/// A folder to trust.
#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// The folder; the one the command is started in when left out
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) folder: Option<PathBuf>,
    /// Trust it no longer
    #[arg(long)]
    pub(crate) revoke: bool,
    /// List the folders that are trusted
    #[arg(long, conflicts_with_all = ["revoke", "folder"])]
    pub(crate) list: bool,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// What to do with the hooks.
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
    /// Call the hooks of an event with what is on stdin, and say what each one answers
    #[command(after_help = "Examples:
  haft hooks test PreToolUse --tool Bash
  haft hooks test PostToolUse < fixture.json
  echo '{\"tool_name\": \"Bash\", \"tool_input\": {\"command\": \"ls\"}}' | haft hooks test PreToolUse --json

The hooks are really called; no tool is. The exit code is 0 if all would let it pass and 2 if one
would block it. Without stdin a small fixture is made for the event.")]
    Test {
        /// The event: PreToolUse, PostToolUse, …
        event: String,
        /// The tool that the fixture is about
        #[arg(long)]
        tool: Option<String>,
        #[command(flatten)]
        rules: Rules,
        #[command(flatten)]
        output: Output,
    },
}

/// What to do with shell commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Shell {
    /// Say what commands would do: only read, write, or destroy; and why
    #[command(after_help = "Examples:
  haft shell explain 'ls -la' 'find . -name x -delete'
  haft shell explain --json 'git status' | jq -r .why
  echo '{\"command\": \"cat notes | sort\"}' | haft shell explain

Each argument is one command. Without arguments stdin is read, and every line {command} is answered
with a line {command, kind, parts, why}; `kind` is read_only, writes, destructive or unparseable. A
line that is no command is answered with {command: null, line, error} and stops nothing; the exit code
is then 1. Nothing is run.")]
    Explain {
        /// Commands, each one argument
        #[arg(value_name = "COMMAND", value_hint = ValueHint::CommandString)]
        commands: Vec<String>,
        #[command(flatten)]
        output: Output,
    },
}

/// A response to plan.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// File with a provider's complete response; `-` or nothing for stdin
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// Whose response it is; seen from the response when left out
    #[arg(long, value_parser = dialects())]
    pub(crate) dialect: Option<Dialect>,
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) rules: Rules,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// A response to answer.
#[derive(Debug, Args)]
pub(crate) struct Dispatch {
    /// File with a provider's response; `-` or nothing for stdin
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// Whose response it is
    #[arg(long, value_parser = dialects())]
    pub(crate) dialect: Option<Dialect>,
    /// Read a stream (server-sent events or JSON lines), and run calls while it is still coming
    #[arg(long)]
    pub(crate) stream: bool,
    /// Print the model's own message too, as the history wants it: {message, answer}
    #[arg(long)]
    pub(crate) echo: bool,
    /// Answer yes to whatever these calls ask; never overrides a deny
    #[arg(long)]
    pub(crate) yes: bool,
    /// Append what people decide to this file, one line each
    #[arg(long, value_name = "FILE.jsonl", value_hint = ValueHint::FilePath)]
    pub(crate) decisions: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) artifacts: Artifacts,
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) rules: Rules,
    #[command(flatten)]
    pub(crate) output: Output,
}

fn dialects() -> impl clap::builder::TypedValueParser<Value = Dialect> {
    PossibleValuesParser::new(Dialect::ALL.iter().map(|d| d.as_str()))
        .try_map(|name| name.parse::<Dialect>())
}

/// Reads one of a few words.
fn words<T: Clone + Send + Sync + 'static>(
    known: &'static [(&'static str, T)],
) -> impl clap::builder::TypedValueParser<Value = T> {
    PossibleValuesParser::new(known.iter().map(|(word, _)| *word)).try_map(move |word| {
        let meant = known.iter().find(|(known, _)| *known == word);
        meant.map(|(_, value)| value.clone()).ok_or("no such word")
    })
}

/// Returns the whole command, with the list of exit codes where its help shows it.
pub(crate) fn command() -> Command {
    Cli::command()
        .mut_subcommand("exit-codes", |c| c.before_help(style::exit_codes().trim_end().to_owned()))
}
