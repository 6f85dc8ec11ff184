//! `haft hooks`: which hooks there are, and what each would say.

use std::{io::IsTerminal as _, process::ExitCode};

use anstyle::Style;
use haft::{Handler, HookSpec};
use haft_hooks::TrialResult;
use serde_json::{Map, Value, json};

use crate::{
    args,
    error::Problem,
    explain, input, session,
    setup::{Around, Setup},
    style::{self, BAD, DIM, GOOD, NAME, Table, WARN},
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
        style::talk("no hooks");
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
        _ => "(unknown handler)".to_owned(),
    }
}

/// Calls the hooks of an event, and says what came of each.
fn test(
    setup: &Setup,
    event: &str,
    tool: Option<&str>,
    output: args::Output,
) -> Result<ExitCode, Problem> {
    known(event)?;
    let fixture = fixture(event, tool)?;
    let (specs, place) = (setup.said.hooks.clone(), setup.project());
    let name = event.to_owned();
    let tried =
        session::work(async move { haft_hooks::try_out(&specs, &name, &fixture, &place).await })?;
    let called: Vec<&TrialResult> = tried.iter().filter(|one| one.skipped.is_none()).collect();
    let stops = called.iter().any(|one| one.stops());
    if output.json {
        let whole = json!({"event": event, "passes": !stops, "hooks": tried});
        style::say(format_args!("{whole}\n"))?;
    } else {
        let mut out = String::new();
        tried.iter().for_each(|one| out += &account(one, setup));
        style::say(out)?;
        let counted = style::count(called.len(), "hook");
        style::talk(format_args!(
            "{counted} called; {}",
            match stops {
                true => "the call would be blocked",
                false => "the call would not be blocked",
            }
        ));
    }
    Ok(ExitCode::from(if stops { BLOCKED } else { 0 }))
}

/// The exit code of a call that is not allowed.
const BLOCKED: u8 = 2;

/// The events that hooks are called for.
const EVENTS: [&str; 8] = [
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "SessionStart",
    "PermissionRequest",
    "PermissionDenied",
    "Notification",
];

fn known(event: &str) -> Result<(), Problem> {
    if EVENTS.contains(&event) {
        return Ok(());
    }
    Err(Problem::new(format!("haft does not support the event `{event}`"))
        .near(style::nearest(event, EVENTS))
        .hint(format!("the events are {}", style::either(&EVENTS))))
}

/// What hooks are told: stdin if something is piped in, else the least that an event has.
fn fixture(event: &str, tool: Option<&str>) -> Result<Value, Problem> {
    let mut fixture = match std::io::stdin().is_terminal() {
        true => Map::new(),
        false => match input::stdin()?.trim() {
            "" => Map::new(),
            text => match input::json(text, "stdin")? {
                Value::Object(map) => map,
                _ => {
                    return Err(Problem::new("stdin is not a JSON object")
                        .hint("give the input of a hook: {\"tool_name\": …, \"tool_input\": …}"));
                }
            },
        },
    };
    let mut default = |key: &str, value: Value| {
        fixture.entry(key).or_insert(value);
    };
    match event {
        "SessionStart" => default("source", json!("startup")),
        "Notification" => default("message", json!("a test")),
        "PostToolBatch" => default("tool_calls", json!([])),
        _ => {
            let tool = tool.unwrap_or("Bash");
            let input = match tool {
                "Bash" => json!({"command": "true"}),
                "WebFetch" => json!({"url": "https://example.org/"}),
                "Read" | "Edit" | "Write" => json!({"file_path": "README.md"}),
                _ => json!({}),
            };
            default("tool_name", json!(tool));
            default("tool_input", input);
            default("tool_use_id", json!("call"));
            match event {
                "PostToolUse" => default("tool_response", json!("ok")),
                "PostToolUseFailure" => default("error", json!("it failed")),
                _ => {}
            }
        }
    }
    if let Some(tool) = tool {
        fixture.insert("tool_name".to_owned(), json!(tool));
    }
    Ok(Value::Object(fixture))
}

/// What came of one hook, to be read.
fn account(one: &TrialResult, setup: &Setup) -> String {
    let here = format!("{}/", setup.here().display());
    let name = style::visible(&one.hook.replace(&here, ""));
    if let Some(why) = &one.skipped {
        return style::paint(DIM, format_args!("· {name}  not called: {}\n", style::visible(why)));
    }
    let (colour, mark) = match one.stops() {
        true => (BAD, "✗"),
        false if one.problem.is_some() => (WARN, "!"),
        false => (GOOD, "✓"),
    };
    let mut out = format!("{} {}", style::paint(colour, mark), style::paint(NAME, name));
    out += &match (one.exit_code, one.status) {
        (Some(code), _) => format!("  exit {code}"),
        (None, Some(status)) => format!("  status {status}"),
        (None, None) => String::new(),
    };
    out += &format!("  {} ms\n", one.took_ms);
    let decision = one.decision.map(str::to_owned);
    let json = |value: &Option<Value>| value.as_ref().map(Value::to_string);
    for (what, said) in [
        ("decides", &decision),
        ("because", &one.reason),
        ("input", &json(&one.rewrite)),
        ("output", &json(&one.output)),
        ("model reads", &one.context),
        ("person reads", &one.message),
        ("stops the run", &one.halt),
        ("problem", &one.problem),
    ] {
        if let Some(said) = said {
            out += &format!("    {what:<12}  {}\n", style::visible(said).replace('\n', " "));
        }
    }
    out
}
