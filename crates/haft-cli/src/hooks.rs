//! `haft hooks`: lists the hooks of all files, and calls them with a test input.

use std::{io::IsTerminal as _, process::ExitCode};

use anstyle::Style;
use haft::policy::{Handler, HookSpec};
use haft_hooks::HookTestResult;
use serde_json::{Map, Value, json};

use crate::{
    args,
    error::Problem,
    host_env::HostEnv,
    input, location, session,
    setup::{self, Setup},
    style::{self, BAD, DIM, GOOD, NAME, Table, WARN},
};

pub(crate) fn run(args: &args::Hooks, host: &HostEnv) -> Result<ExitCode, Problem> {
    match args {
        args::Hooks::List { rules, output } => list(&Setup::open_for_review(host, rules)?, *output),
        args::Hooks::Test { event, tool, rules, output } => {
            test(&Setup::open(host, rules)?, event, tool.as_deref(), *output)
        }
    }
}

fn list(setup: &Setup, output: args::Output) -> Result<ExitCode, Problem> {
    setup::print_notes(&setup.notes);
    let hooks = &setup.loaded.hooks;
    let untrusted = setup.site.untrusted_hooks(hooks);
    if output.json {
        let trusted = hooks.iter().map(|hook| as_json(hook, setup, true));
        let untrusted = untrusted.iter().map(|hook| as_json(hook, setup, false));
        let list: Vec<Value> = trusted.chain(untrusted).collect();
        style::print(format_args!("{}\n", Value::Array(list)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(0);
    for hook in hooks {
        table.row([
            (NAME, style::cell(&hook.event)),
            (Style::new(), style::cell(&about(hook))),
            (Style::new(), style::cell(&called(&hook.handler))),
            (if hook.fails_closed { DIM } else { WARN }, fails(hook).to_owned()),
            (DIM, location::at(&hook.location, setup.here())),
        ]);
    }
    for hook in &untrusted {
        table.row([
            (NAME, style::cell(&hook.event)),
            (Style::new(), style::cell(&about(hook))),
            (Style::new(), style::cell(&called(&hook.handler))),
            (BAD, "not trusted, does not run".to_owned()),
            (DIM, location::at(&hook.location, setup.here())),
        ]);
    }
    style::print_page(table)?;
    if hooks.is_empty() && untrusted.is_empty() {
        style::message("no hooks");
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(hook: &HookSpec, setup: &Setup, is_trusted: bool) -> Value {
    json!({
        "event": hook.event,
        "matcher": hook.matcher,
        "if": hook.only_if,
        "command": called(&hook.handler),
        "timeout_ms": u64::try_from(hook.timeout.as_millis()).unwrap_or(u64::MAX),
        "fails_closed": hook.fails_closed,
        "at": location::at(&hook.location, setup.here()),
        "layer": hook.layer,
        "trusted": is_trusted,
    })
}

/// Which calls a hook matches.
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

/// What a hook calls, as text.
pub(crate) fn called(handler: &Handler) -> String {
    match handler {
        Handler::Command { command, args: None } => command.clone(),
        Handler::Command { command, args: Some(args) } => format!("{command} {}", args.join(" ")),
        Handler::Http { url, .. } => format!("POST {url}"),
        Handler::Other(value) => value.to_string(),
        _ => "(unknown handler)".to_owned(),
    }
}

/// Calls the hooks of an event, and prints each result.
fn test(
    setup: &Setup,
    event: &str,
    tool: Option<&str>,
    output: args::Output,
) -> Result<ExitCode, Problem> {
    known(event)?;
    let mut fixture = fixture(event, tool)?;
    if let Value::Object(fields) = &mut fixture {
        fields.entry("session_id").or_insert_with(|| json!(setup.session()));
    }
    let (specs, location) = (setup.loaded.hooks.clone(), setup.project());
    let name = event.to_owned();
    let tried = session::block_on(async move {
        haft_hooks::test_hooks(&specs, &name, &fixture, &location).await
    })?;
    let called: Vec<&HookTestResult> = tried.iter().filter(|one| one.skipped.is_none()).collect();
    let stops = called.iter().any(|one| one.stops());
    if output.json {
        let whole = json!({"event": event, "passes": !stops, "hooks": tried});
        style::print(format_args!("{whole}\n"))?;
    } else {
        let mut out = String::new();
        tried.iter().for_each(|one| out += &account(one, setup));
        style::print_page(out)?;
        let counted = style::count(called.len(), "hook");
        style::message(format_args!(
            "{counted} called; {}",
            if stops { "the call would be blocked" } else { "the call would not be blocked" }
        ));
    }
    Ok(ExitCode::from(if stops { BLOCKED } else { 0 }))
}

/// The exit code of a blocked call.
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
        .similar(style::nearest(event, EVENTS))
        .hint(format!("the events are {}", style::either(&EVENTS))))
}

/// The input of the hooks: stdin if it is piped, else a minimal input for the event.
fn fixture(event: &str, tool: Option<&str>) -> Result<Value, Problem> {
    let mut fixture = if std::io::stdin().is_terminal() {
        Map::new()
    } else {
        match input::stdin()?.trim() {
            "" => Map::new(),
            text => match input::json(text, "stdin")? {
                Value::Object(map) => map,
                _ => {
                    return Err(Problem::new("stdin is not a JSON object")
                        .hint("give the input of a hook: {\"tool_name\": …, \"tool_input\": …}"));
                }
            },
        }
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

/// The result of one hook as text.
fn account(one: &HookTestResult, setup: &Setup) -> String {
    let here = format!("{}/", setup.here().display());
    let name = style::visible(&one.hook.replace(&here, ""));
    if let Some(why) = &one.skipped {
        return style::paint(DIM, format_args!("· {name}  not called: {}\n", style::visible(why)));
    }
    let (colour, mark) = if one.stops() {
        (BAD, "✗")
    } else if one.problem.is_some() {
        (WARN, "!")
    } else {
        (GOOD, "✓")
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
    for (what, text) in [
        ("decides", &decision),
        ("because", &one.reason),
        ("input", &json(&one.rewrite)),
        ("output", &json(&one.output)),
        ("model reads", &one.context),
        ("person reads", &one.message),
        ("stops the run", &one.halt),
        ("problem", &one.problem),
    ] {
        if let Some(text) = text {
            out += &format!("    {what:<12}  {}\n", style::visible(text).replace('\n', " "));
        }
    }
    out
}
