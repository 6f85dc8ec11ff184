//! The `haft` program: reads its arguments and its environment, does one thing, says how it went.
//!
//! This file is the only one that reads the environment. Each command has the file of its name.

mod args;
mod demo;
mod tools;
mod tool_list;
mod export;
mod check;
mod lint;
mod call;
mod trace;
#[cfg(feature = "otlp")]
mod otlp;
mod plan;
mod dispatch;
mod result;
mod explain;
mod policy;
mod trust;
mod trust_file;
mod inventory;
mod hooks;
mod shell;
mod doctor;
mod setup;
mod site;
mod scripts;
mod session;
mod prompt;
mod live;
mod live_lines;
mod screen;
mod decisions;
mod stub_tools;
mod demo_tools;
mod builtin;
mod toolchains;
mod git;
mod schema;
mod input;
mod style;
mod escape;
mod error;

use std::{path::PathBuf, process::ExitCode};

use clap::{CommandFactory as _, FromArgMatches as _};
use haft::{Config, FailureCode};
use serde_json::{Value, json};

use crate::{
    args::{Cli, Cmd},
    error::Problem,
    setup::{Around, Setup},
};

fn main() -> ExitCode {
    // First of all: this program is its own helper for sandboxes, and then it is nothing else.
    haft_sandbox::init();
    let matches = args::command().try_get_matches_from(std::env::args_os());
    let cli = match matches.and_then(|mut m| Cli::from_arg_matches_mut(&mut m)) {
        Ok(cli) => cli,
        Err(error) => return error::usage(&error),
    };
    keep_quiet_about_tools();
    run(&cli.command).unwrap_or_else(Problem::tell)
}

fn run(command: &Cmd) -> Result<ExitCode, Problem> {
    match command {
        Cmd::Demo { output } => return demo::run(*output, config_of_env()?),
        Cmd::Call(args) => {
            let around = around_in(&args.place)?;
            return call::run(args, Setup::open(&around, &args.rules)?, &around);
        }
        Cmd::Dispatch(args) => {
            let around = around_in(&args.place)?;
            return dispatch::run(args, Setup::open(&around, &args.rules)?, &around);
        }
        Cmd::Result(args) => return result::run(args, &around()?),
        Cmd::Plan(args) => {
            plan::run(args, &Setup::open(&around_in(&args.place)?, &args.rules)?)?;
        }
        Cmd::Explain(args) => {
            return explain::run(args, &Setup::open(&around_in(&args.place)?, &args.rules)?);
        }
        Cmd::Doctor { output } => return doctor::run(*output, &around()?),
        Cmd::Policy(args) => return policy::run(args, &around()?),
        Cmd::Trust(args) => return trust::run(args, &around()?),
        Cmd::Hooks(args) => return hooks::run(args, &around()?),
        Cmd::Shell(args) => return shell::run(args),
        Cmd::Tools(args) => {
            return tools::run(args, |place, rules| Setup::open(&around_in(place)?, rules));
        }
        Cmd::Completions { shell } => {
            // Written to memory first: the generator panics when a pipe is closed.
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "haft", &mut script);
            style::say(String::from_utf8_lossy(&script))?;
        }
        Cmd::ExitCodes { output } if output.json => {
            let codes: Vec<Value> = FailureCode::ALL
                .iter()
                .map(|c| json!({"code": c, "exit_code": c.exit_code(), "retry": c.retry(), "execution": c.execution()}))
                .collect();
            style::say(format_args!("{}\n", Value::Array(codes)))?;
        }
        Cmd::ExitCodes { .. } => style::say(style::exit_codes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the limits from the environment. What is not UTF-8 is no number either, and is told so.
fn config_of_env() -> Result<Config, Problem> {
    Ok(Config::from_env(variables())?)
}

fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().map(|(name, value)| {
        (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
    })
}

/// Looks where the command was started, and what the environment says of this person.
#[expect(clippy::disallowed_methods, reason = "this is where the command looks around")]
fn around() -> Result<Around, Problem> {
    let here = std::env::current_dir()
        .map_err(|e| Problem::new(format!("cannot find the working directory: {e}")))?;
    // A relative folder would mean another one in every place; it counts as none.
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|f| f.is_absolute());
    let home = folder("HOME");
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    let state = folder("XDG_STATE_HOME").or_else(|| Some(home.as_ref()?.join(".local/state")));
    Ok(Around {
        state: state.map(|state| state.join("haft")),
        user: config.map(|config| config.join("haft")),
        managed: std::env::var_os("HAFT_MANAGED_FILE").filter(|f| !f.is_empty()).map(Into::into),
        says_concurrency: std::env::var_os("HAFT_MAX_CONCURRENCY").is_some(),
        variables: variables().collect(),
        config: config_of_env()?,
        home,
        here,
    })
}

/// The same, as if the command had been started in the workspace it is given: the rules there count,
/// and relative paths start there.
fn around_in(place: &args::Place) -> Result<Around, Problem> {
    let mut around = around()?;
    around.here = place.folder()?.unwrap_or(around.here);
    Ok(around)
}

/// A panic of a tool is an answer; its noise does not belong on the terminal. All others stay loud,
/// without what looks like a key: a tool may have threads of its own.
fn keep_quiet_about_tools() {
    let loud = haft::Redactor::default().panic_hook(|text| {
        style::talk(text);
        let trace = std::backtrace::Backtrace::capture();
        if trace.status() == std::backtrace::BacktraceStatus::Captured {
            style::talk(trace);
        }
    });
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some(session::THREAD) {
            loud(panic);
        }
    }));
}
