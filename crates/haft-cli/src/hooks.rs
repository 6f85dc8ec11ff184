//! `haft hooks`: which hooks there are, and what each would say.

use std::process::ExitCode;

use anstyle::Style;
use haft::{Handler, HookSpec};
use serde_json::{Value, json};

use crate::{
    args, explain,
    problem::Problem,
    setup::{Around, Setup},
    style::{self, DIM, NAME, Table, WARN},
};

pub(crate) fn run(args: &args::Hooks, around: &Around) -> Result<ExitCode, Problem> {
    match args {
        args::Hooks::List { rules, output } => list(&Setup::open(around, rules)?, *output),
        args::Hooks::Test { event, tool, rules, output } => {
            test(&Setup::open(around, rules)?, event, tool.as_deref(), *output)
        }
    }
}

fn list(setup: &Setup, output: args::Output) -> Result<ExitCode, Problem> {
    let hooks = &setup.said.hooks;
    if output.json {
        let list: Vec<Value> = hooks.iter().map(|hook| as_json(hook, setup)).collect();
        style::say(format_args!("{}\n", Value::Array(list)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(0);
    for hook in hooks {
        table.row([
            (NAME, style::cell(&hook.event)),
            (Style::new(), style::cell(&about(hook))),
            (Style::new(), style::cell(&called(&hook.handler))),
            (if hook.fails_closed { DIM } else { WARN }, fails(hook).to_owned()),
            (DIM, explain::at(&hook.place, setup.here())),
        ]);
    }
    style::say(table)?;
    if hooks.is_empty() {
        style::talk("there are no hooks");
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(hook: &HookSpec, setup: &Setup) -> Value {
    json!({
        "event": hook.event,
        "matcher": hook.matcher,
        "if": hook.only_if,
        "command": called(&hook.handler),
        "timeout_ms": u64::try_from(hook.timeout.as_millis()).unwrap_or(u64::MAX),
        "fails_closed": hook.fails_closed,
        "at": explain::at(&hook.place, setup.here()),
        "layer": hook.layer,
    })
}

/// About which calls a hook is.
fn about(hook: &HookSpec) -> String {
    let tools = hook.matcher.as_deref().filter(|m| !m.is_empty()).unwrap_or("*");
    match &hook.only_if {
        Some(only_if) => format!("{tools} if {only_if}"),
        None => tools.to_owned(),
    }
}

fn fails(hook: &HookSpec) -> &'static str {
    if hook.fails_closed { "fails closed" } else { "fails open" }
}

/// What a hook calls, in words.
pub(crate) fn called(handler: &Handler) -> String {
    match handler {
        Handler::Command { command, args: None } => command.clone(),
        Handler::Command { command, args: Some(args) } => format!("{command} {}", args.join(" ")),
        Handler::Http { url, .. } => format!("POST {url}"),
        Handler::Other(value) => value.to_string(),
        _ => "something else".to_owned(),
    }
}

fn test(
    _setup: &Setup,
    _event: &str,
    _tool: Option<&str>,
    _output: args::Output,
) -> Result<ExitCode, Problem> {
    Err(Problem::new("hooks cannot be tried yet"))
}
