//! The `haft` command: parses arguments, reads the environment, runs one command, returns an exit
//! code.
//!
//! INVARIANT: only this file reads the environment. Each command has the file of its name.

mod args;
mod audit;
mod run;
mod chat;
mod runs;
#[cfg(feature = "mcp")]
mod serve;
#[cfg(feature = "mcp")]
mod client_question;
#[cfg(feature = "mcp")]
mod mcp_wrap;
#[cfg(feature = "mcp")]
mod waiting_calls;
#[cfg(feature = "mcp")]
mod task_files;
#[cfg(feature = "mcp")]
mod install;
#[cfg(feature = "mcp")]
mod install_edit;
mod agent_setup;
mod model;
mod model_key;
mod proxy;
mod agent_tools;
mod agent_output;
mod progress;
mod run_store;
mod demo;
mod tools;
mod skills;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "mcp")]
mod mcp_credentials;
#[cfg(feature = "mcp")]
mod mcp_edit;
#[cfg(feature = "mcp")]
mod mcp_login;
#[cfg(feature = "mcp")]
mod mcp_servers;
#[cfg(feature = "mcp")]
mod mcp_files;
#[cfg(feature = "mcp")]
mod mcp_inputs;
#[cfg(feature = "mcp")]
mod mcp_lock;
#[cfg(feature = "mcp")]
mod remote_call;
#[cfg(not(feature = "mcp"))]
mod mcp_off;
mod tool_cost;
mod tool_list;
mod tool_status;
mod export;
mod check;
mod lint;
mod call;
mod called_tool;
mod arguments;
mod trace;
#[cfg(feature = "otlp")]
mod otlp;
mod plan;
mod dispatch;
mod bare_message;
mod result;
mod explain;
mod explain_calls;
mod explanation;
mod policy;
mod trust;
mod trust_effects;
mod trust_file;
mod inventory;
mod hooks;
mod shell;
mod doctor;
mod setup;
mod shown_notes;
mod host_env;
mod site;
mod location;
mod scripts;
#[cfg(feature = "mcp")]
mod server_question;
mod session;
mod signals;
mod prompt;
mod keyboard;
mod tty_mode;
mod live;
mod live_lines;
mod screen;
mod layout;
mod decisions;
mod stub_tools;
mod batch_policy;
mod builtin;
mod toolchains;
mod git;
mod schema;
mod input;
mod style;
mod sub_agents;
mod colour;
mod completions;
mod escape;
mod error;
mod yes_approver;

#[cfg(not(feature = "mcp"))]
use mcp_off as mcp_servers;
#[cfg(not(feature = "mcp"))]
use mcp_off as remote_call;

use std::{path::PathBuf, process::ExitCode};

use clap::FromArgMatches as _;
use haft::{Config, FailureCode};
use serde_json::{Value, json};

use crate::{
    args::{Cli, Cmd},
    error::Problem,
    host_env::HostEnv,
    setup::Setup,
};

fn main() -> ExitCode {
    // Must come first: the sandbox starts this program again as its helper process.
    haft_sandbox::init();
    error::detect_json(std::env::args_os().skip(1));
    if let Some(columns) = variable("COLUMNS").and_then(|text| text.trim().parse().ok()) {
        screen::set_named_columns(columns);
    }
    let matches = args::command().try_get_matches_from(std::env::args_os());
    let cli = match matches.and_then(|mut m| Cli::from_arg_matches_mut(&mut m)) {
        Ok(cli) => cli,
        Err(error) => return error::usage(&error),
    };
    keep_quiet_about_tools();
    run(&cli.command).unwrap_or_else(Problem::report)
}

fn run(command: &Cmd) -> Result<ExitCode, Problem> {
    match command {
        Cmd::Demo { output } => return demo::run(*output, &host_env()?),
        Cmd::Run(args) => {
            let host = host_env_in(&args.agent.location)?;
            return run::run(args, Setup::open(&host, &args.agent.rules)?, &host);
        }
        Cmd::Chat(args) => {
            let host = host_env_in(&args.agent.location)?;
            let setup = Setup::open(&host, &args.agent.rules)?;
            return chat::run(args, setup, &host);
        }
        Cmd::Runs(args) => runs::run(args, &host_env_in(args.location())?.here)?,
        Cmd::Call(args) => {
            let host = host_env_in(&args.location)?;
            return call::run(args, Setup::open(&host, &args.rules)?, &host);
        }
        #[cfg(feature = "mcp")]
        Cmd::Serve(args) => {
            let host = host_env_in(&args.place)?;
            return serve::run(args, Setup::open(&host, &args.rules)?, &host);
        }
        #[cfg(feature = "mcp")]
        Cmd::Install(args) => return install::run(args, &host_env()?),
        Cmd::Dispatch(args) => {
            let host = host_env_in(&args.location)?;
            return dispatch::run(args, Setup::open(&host, &args.rules)?, &host);
        }
        Cmd::Result(args) => return result::run(args, &host_env()?),
        Cmd::Plan(args) => {
            plan::run(args, &Setup::open(&host_env_in(&args.location)?, &args.rules)?)?;
        }
        Cmd::Explain(args) => {
            let setup = Setup::open(&host_env_in(&args.location)?, &args.rules)?;
            return match &args.calls {
                Some(calls) => explain_calls::run(args, calls, &setup),
                None => explain::run(args, &setup),
            };
        }
        Cmd::Doctor { output } => return doctor::run(*output, &host_env()?),
        Cmd::Audit(args) => return audit::run(args, &host_env()?),
        Cmd::Policy(args) => return policy::run(args, &host_env()?),
        Cmd::Trust(args) => return trust::run(args, &host_env()?),
        Cmd::Hooks(args) => return hooks::run(args, &host_env()?),
        #[cfg(feature = "mcp")]
        Cmd::Mcp(args) => return mcp::run(args, &host_env_in(&args.location())?),
        Cmd::Shell(args) => return shell::run(args),
        Cmd::Tools(args) => {
            return tools::run(args, |location, rules| Setup::open(&host_env_in(location)?, rules));
        }
        Cmd::Completions { shell } => {
            style::print(completions::script(*shell))?;
        }
        Cmd::ExitCodes { output } if output.json => {
            let codes: Vec<Value> = FailureCode::ALL
                .iter()
                .map(|c| json!({"code": c, "exit_code": c.exit_code(), "retry": c.retry(), "execution": c.execution()}))
                .collect();
            style::print(format_args!("{}\n", Value::Array(codes)))?;
        }
        Cmd::ExitCodes { .. } => style::print_page(style::exit_codes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the limits from the environment. A value that is not UTF-8 is an error, as any other
/// non-number.
fn config_of_env() -> Result<Config, Problem> {
    Ok(Config::from_env(variables())?)
}

fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().map(|(name, value)| {
        (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
    })
}

#[expect(clippy::disallowed_methods, reason = "the one file that reads the environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Reads the working directory and the environment.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
fn host_env() -> Result<HostEnv, Problem> {
    let here = std::env::current_dir()
        .map_err(|e| Problem::new(format!("cannot find the working directory: {e}")))?;
    // A relative directory would depend on the working directory; it is ignored.
    let directory =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|f| f.is_absolute());
    let home = directory("HOME");
    let config = directory("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    let state = directory("XDG_STATE_HOME").or_else(|| Some(home.as_ref()?.join(".local/state")));
    Ok(HostEnv {
        state: state.map(|state| state.join("haft")),
        user: config.map(|config| config.join("haft")),
        managed: std::env::var_os("HAFT_MANAGED_FILE").filter(|f| !f.is_empty()).map(Into::into),
        says_concurrency: std::env::var_os("HAFT_MAX_CONCURRENCY").is_some(),
        variables: variables().collect(),
        config: config_of_env()?,
        person: person(),
        home,
        here,
    })
}

/// The user of this process. `USER` is not asked: a program can set it to any name.
#[cfg(unix)]
fn person() -> Option<String> {
    let user = rustix::process::getuid().as_raw();
    let known = input::file(std::path::Path::new("/etc/passwd")).unwrap_or_default();
    let name = known.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(user)).then(|| name.to_owned())
    });
    Some(name.unwrap_or_else(|| format!("uid {user}")))
}

#[cfg(not(unix))]
fn person() -> Option<String> {
    None
}

/// The same with the workspace as working directory: its rules apply, and relative paths start
/// there.
fn host_env_in(location: &args::WorkspaceArgs) -> Result<HostEnv, Problem> {
    let mut host = host_env()?;
    host.here = location.directory()?.unwrap_or(host.here);
    Ok(host)
}

/// Installs a panic hook. A panic of a tool becomes its result and is not printed. Other panics are
/// printed with secrets redacted, because a tool may have threads of its own.
fn keep_quiet_about_tools() {
    let loud = haft::secrets::Redactor::default().panic_hook(|text| {
        style::message(text);
        let trace = std::backtrace::Backtrace::capture();
        if trace.status() == std::backtrace::BacktraceStatus::Captured {
            style::message(trace);
        }
    });
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some(session::THREAD) {
            loud(panic);
        }
    }));
}
