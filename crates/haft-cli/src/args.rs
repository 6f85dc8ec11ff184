//! What can be written after `haft`: the commands, their options, their help.
//!
//! Types and texts only. Each command's work is in the file of its name.

use std::path::PathBuf;

use clap::{
    Args, Command, CommandFactory as _, Parser, Subcommand, ValueHint,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use haft::Dialect;

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
  haft plan response.json                what would run together, and why
  haft dispatch response.json --dialect anthropic

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
  haft tools show write_note"
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

A call that needs permission asks at a terminal. Elsewhere it is denied unless `--yes` answers for
it; `--yes` never overrides a deny. `haft exit-codes` lists what the exit code says.")]
    Call(Call),
    /// Say in which batches the calls of a response would run, and why; run nothing
    #[command(after_help = "Examples:
  haft plan response.json
  curl … | haft plan --json")]
    Plan(Plan),
    /// Run the calls of a provider's response and print the message that answers them
    #[command(after_help = "Examples:
  haft dispatch response.json --dialect anthropic
  curl … | haft dispatch --dialect openai-responses --json

Every call is answered, in order, whatever happens to it; so the exit code is 0 whenever there is a
message. Calls that need permission ask at a terminal if the response comes from a file; elsewhere
they are denied unless `--yes` answers for all of them.")]
    Dispatch(Dispatch),
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
  haft tools list --json | jq -r '.[].name'")]
    List {
        #[command(flatten)]
        output: Output,
    },
    /// Show everything one tool declares
    #[command(after_help = "Examples:
  haft tools show delete_note
  haft tools show add --json | jq .input_schema")]
    Show {
        /// Name of the tool
        tool: String,
        #[command(flatten)]
        output: Output,
    },
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
    #[command(flatten)]
    pub(crate) output: Output,
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
    pub(crate) output: Output,
}

/// A response to answer.
#[derive(Debug, Args)]
pub(crate) struct Dispatch {
    /// File with a provider's complete response; `-` or nothing for stdin
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// Whose response it is
    #[arg(long, value_parser = dialects())]
    pub(crate) dialect: Option<Dialect>,
    /// Answer yes to whatever these calls ask; never overrides a deny
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

fn dialects() -> impl clap::builder::TypedValueParser<Value = Dialect> {
    PossibleValuesParser::new(Dialect::ALL.iter().map(|d| d.as_str()))
        .try_map(|name| name.parse::<Dialect>())
}

/// Returns the whole command, with the list of exit codes where its help shows it.
pub(crate) fn command() -> Command {
    Cli::command()
        .mut_subcommand("exit-codes", |c| c.before_help(style::exit_codes().trim_end().to_owned()))
}
