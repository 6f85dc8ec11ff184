//! `haft mcp`: lists and shows MCP servers, pins their tools, and shows what has changed.
//!
//! `add` and `remove` are in `mcp_edit`, `login` in `mcp_login`.

use std::{process::ExitCode, time::Duration};

use haft_mcp::client::{PinChange, RemoteServer, ServerConfig, ServerState, ServerStatus};
use serde_json::{Value, json};

use crate::{
    args::{self, Mcp},
    error::Problem,
    host_env::HostEnv,
    mcp_edit, mcp_login,
    mcp_servers::{self, McpEntry, PATIENCE, named},
    mcp_wrap, session,
    setup::Setup,
    style::{self, BAD, BOLD, DIM, GOOD, NAME, Table, WARN},
};

/// The exit code if something has changed since it was pinned.
const EXIT_CHANGED: u8 = 2;
/// The exit code if a server cannot be reached.
const EXIT_UNREACHABLE: u8 = 4;

pub(crate) fn run(args: &Mcp, host: &HostEnv) -> Result<ExitCode, Problem> {
    match args {
        Mcp::List { no_start, rules, output, .. } => {
            list(&Setup::open(host, rules)?, *no_start, *output)
        }
        Mcp::Get { server, rules, output, .. } => get(&Setup::open(host, rules)?, server, *output),
        Mcp::Wrap(args) => mcp_wrap::run(args, Setup::open(host, &args.rules)?, host),
        Mcp::Add(args) => mcp_edit::add(args, host),
        Mcp::Remove { server, from, output } => {
            mcp_edit::remove(server, from.as_deref(), host, *output)
        }
        Mcp::Pin { server, tools, rules, output, .. } => {
            pin(&Setup::open(host, rules)?, server, tools, *output)
        }
        Mcp::Diff { server, rules, output, .. } => {
            diff(&Setup::open(host, rules)?, server.as_deref(), *output)
        }
        Mcp::Login { server, out, rules, output, .. } => {
            mcp_login::run(&Setup::open(host, rules)?, server, *out, *output)
        }
    }
}

/// Starts servers in parallel, waits for all of them, and stops them.
fn start(servers: Vec<RemoteServer>) -> Result<Vec<ServerStatus>, Problem> {
    session::block_on(async move {
        servers.iter().for_each(RemoteServer::start);
        let mut statuses = Vec::with_capacity(servers.len());
        let began = tokio::time::Instant::now();
        for server in &servers {
            let until = began + patience(server.config());
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            statuses.push(server.wait(left).await);
        }
        mcp_servers::shut_down(servers).await;
        statuses
    })
}

/// How long a command waits for a server: longer if its file says that a first turn does.
fn patience(config: &ServerConfig) -> Duration {
    PATIENCE.max(config.start_wait)
}

fn list(setup: &Setup, no_start: bool, output: args::Output) -> Result<ExitCode, Problem> {
    let entries = mcp_servers::find_with(setup, !no_start)?;
    let host = mcp_servers::host(setup);
    let may_start = |entry: &&McpEntry| !no_start && entry.obstacle().is_none();
    let servers: Result<Vec<RemoteServer>, Problem> =
        entries.iter().filter(may_start).map(|entry| entry.server(&host)).collect();
    let servers = servers?;
    let statuses = if servers.is_empty() { Vec::new() } else { start(servers)? };
    let status_of = |entry: &McpEntry| statuses.iter().find(|s| s.name == entry.prefix());
    if output.json {
        let all = entries.iter().map(|entry| entry_json(entry, status_of(entry)));
        style::print(format_args!("{}\n", all.collect::<Value>()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(0);
    for entry in &entries {
        let (colour, state) = state_of(entry, status_of(entry), no_start);
        table.row([
            (NAME, entry.prefix().to_owned()),
            (colour, style::visible(&state).replace('\n', " ")),
            (DIM, style::visible(&entry.origin)),
        ]);
    }
    let empty = "no MCP servers; `haft mcp add NAME -- COMMAND` adds one\n";
    style::print_page(if entries.is_empty() { empty.to_owned() } else { table.to_string() })?;
    Ok(ExitCode::SUCCESS)
}

/// A number of tools.
fn tools(count: usize) -> String {
    if count == 1 { "1 tool".to_owned() } else { format!("{count} tools") }
}

fn state_of(
    entry: &McpEntry,
    status: Option<&ServerStatus>,
    no_start: bool,
) -> (anstyle::Style, String) {
    match (status, entry.obstacle()) {
        (_, Some(why)) => (if entry.waits_for_trust { WARN } else { DIM }, why),
        (None, None) if no_start => (DIM, "not started".to_owned()),
        (None, None) => (DIM, "not started".to_owned()),
        (Some(status), None) => match (status.state, &status.error) {
            (ServerState::Ready, _) => {
                let mut text = tools(status.tools);
                if !status.withheld.is_empty() {
                    text.push_str(&format!(", {} withheld", status.withheld.len()));
                }
                if let Some(era) = status.era {
                    text.push_str(&format!(", {era}"));
                }
                (if status.withheld.is_empty() { GOOD } else { WARN }, text)
            }
            (_, _) if status.needs_login => {
                (WARN, format!("needs a login: `haft mcp login {}`", entry.prefix()))
            }
            (_, Some(error)) => (BAD, error.clone()),
            (_, None) => {
                let waited = entry.found.config.as_ref().map_or(PATIENCE, patience);
                (WARN, format!("no answer within {} s", waited.as_secs()))
            }
        },
    }
}

fn entry_json(entry: &McpEntry, status: Option<&ServerStatus>) -> Value {
    let mut whole = match status {
        Some(status) => serde_json::to_value(status).unwrap_or_default(),
        None => json!({"name": entry.prefix(), "state": "not_started"}),
    };
    // `error` is the key of a failed command.
    if let Some(error) = whole.as_object_mut().and_then(|whole| whole.shift_remove("error")) {
        whole["problem"] = error;
    }
    whole["origin"] = json!(entry.origin);
    whole["enabled"] = json!(entry.found.is_enabled);
    whole["waits_for_trust"] = json!(entry.waits_for_trust);
    whole["notes"] = json!(entry.found.notes);
    if let Ok(config) = &entry.found.config {
        whole["identity"] = json!(config.transport.identity());
    }
    if let Some(why) = entry.obstacle() {
        whole["problem"] = json!(why);
    }
    whole
}

/// Starts one server, and returns what it is then.
fn open(setup: &Setup, name: &str) -> Result<(McpEntry, RemoteServer, ServerStatus), Problem> {
    let entry = named(setup, name)?;
    if let Some(why) = entry.obstacle() {
        return Err(Problem::new(format!("the MCP server `{name}` {why}")));
    }
    let server = entry.server(&mcp_servers::host(setup))?;
    let status = start(vec![server.clone()])?.pop();
    let status = status.ok_or_else(|| Problem::new("the server has no status"))?;
    Ok((entry, server, status))
}

/// An error for a server that does not answer.
fn check_ready(status: &ServerStatus) -> Result<(), Problem> {
    if status.state == ServerState::Ready {
        return Ok(());
    }
    let why = status.error.clone().unwrap_or_else(|| "no answer".to_owned());
    let problem = Problem::new(format!("the MCP server `{}` failed: {why}", status.name));
    Err(if status.needs_login {
        problem.hint(format!("log in with `haft mcp login {}`", status.name))
    } else {
        problem
    })
}

fn get(setup: &Setup, name: &str, output: args::Output) -> Result<ExitCode, Problem> {
    let (entry, server, status) = open(setup, name)?;
    let definitions = server.pinned_now().map(|pins| pins.tools).unwrap_or_default();
    let is_ready = status.state == ServerState::Ready;
    if output.json {
        let mut whole = entry_json(&entry, Some(&status));
        whole["definitions"] = definitions.values().map(|tool| tool.definition.clone()).collect();
        style::print(format_args!("{whole}\n"))?;
    } else {
        let (colour, state) = state_of(&entry, Some(&status), false);
        let mut page = format!(
            "{}  {}\n{}\n",
            style::paint(BOLD, entry.prefix()),
            style::paint(colour, style::visible(&state)),
            style::paint(DIM, style::visible(&entry.origin)),
        );
        let mut table = Table::new(2);
        for (tool, pin) in &definitions {
            let withheld = status.withheld.iter().find(|withheld| withheld.tool == *tool);
            let text = pin.definition["description"].as_str().unwrap_or_default();
            let text = style::visible(text).replace('\n', " ");
            table.row([
                (NAME, style::visible(tool)),
                match withheld {
                    Some(withheld) => (WARN, format!("withheld: {}", withheld.reasons.join("; "))),
                    None => (GOOD, "offered".to_owned()),
                },
                (anstyle::Style::new(), text),
            ]);
        }
        page.push_str(&table.to_string());
        if !is_ready && !status.stderr.is_empty() {
            page.push_str(&format!(
                "\n{}\n{}",
                style::paint(BOLD, "Standard error"),
                style::visible(&status.stderr)
            ));
        }
        style::print_page(page)?;
    }
    Ok(if is_ready { ExitCode::SUCCESS } else { ExitCode::from(EXIT_UNREACHABLE) })
}

fn pin(
    setup: &Setup,
    name: &str,
    tools: &[String],
    output: args::Output,
) -> Result<ExitCode, Problem> {
    let (entry, server, status) = open(setup, name)?;
    check_ready(&status)?;
    let changes = server.pin_changes();
    let mut now = server.pinned_now().ok_or_else(|| Problem::new("it listed no tools"))?;
    if !tools.is_empty() {
        if let Some(unknown) = tools.iter().find(|tool| !now.tools.contains_key(*tool)) {
            let names = now.tools.keys().map(String::as_str);
            return Err(Problem::new(format!("`{name}` has no tool called `{unknown}`"))
                .similar(style::nearest(unknown, names)));
        }
        // Only these tools change; the others stay as they were pinned.
        let before = server.pins().unwrap_or_default();
        now.tools.retain(|tool, _| tools.contains(tool) || before.tools.contains_key(tool));
        for (tool, pin) in &mut now.tools {
            match before.tools.get(tool) {
                _ if tools.contains(tool) => pin.reviewed = true,
                Some(old) => *pin = old.clone(),
                None => {}
            }
        }
    }
    let count = now.tools.len();
    let tools_text = self::tools(count);
    let file = entry.keep_pins(now)?;
    if output.json {
        let whole = json!({"server": name, "tools": count, "changes": changes, "file": file});
        style::print(format_args!("{whole}\n"))?;
    } else {
        style::print_page(format!(
            "{}pinned {} of {name} in {}\n",
            changes.iter().map(change_text).collect::<String>(),
            tools_text,
            style::visible(&file.display().to_string())
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn diff(setup: &Setup, name: Option<&str>, output: args::Output) -> Result<ExitCode, Problem> {
    let entries = match name {
        Some(name) => vec![named(setup, name)?],
        None => mcp_servers::find(setup)?,
    };
    let host = mcp_servers::host(setup);
    let entries = entries.into_iter().filter(|entry| entry.obstacle().is_none());
    let servers: Result<Vec<RemoteServer>, Problem> =
        entries.map(|entry| entry.server(&host)).collect();
    let servers = servers?;
    let statuses = if servers.is_empty() { Vec::new() } else { start(servers.clone())? };
    let mut found: Vec<(String, Vec<PinChange>)> = Vec::new();
    for (server, status) in servers.iter().zip(&statuses) {
        if let (Some(name), Err(problem)) = (name, check_ready(status)) {
            return Err(
                Problem::new(format!("`{name}` cannot be compared")).hint(problem.to_string())
            );
        }
        found.push((status.name.clone(), server.pin_changes()));
    }
    let is_same = found.iter().all(|(_, changes)| changes.is_empty());
    if output.json {
        let all: serde_json::Map<String, Value> =
            found.into_iter().map(|(name, changes)| (name, json!(changes))).collect();
        style::print(format_args!("{}\n", Value::Object(all)))?;
    } else {
        let mut page = String::new();
        for (name, changes) in found.iter().filter(|(_, changes)| !changes.is_empty()) {
            page.push_str(&format!("{}\n", style::paint(BOLD, name)));
            changes.iter().for_each(|change| page.push_str(&change_text(change)));
        }
        if is_same {
            page.push_str("nothing has changed\n");
        }
        style::print_page(page)?;
    }
    Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::from(EXIT_CHANGED) })
}

/// One change, for a person. Nothing of a server is printed unescaped.
fn change_text(change: &PinChange) -> String {
    let shown = |text: &str| style::visible(text).replace('\n', "\\n");
    match change {
        PinChange::Identity { part, before, after } => format!(
            "  the server itself: its {part}\n    {}\n    {}\n",
            style::paint(BAD, format!("- {}", shown(before))),
            style::paint(GOOD, format!("+ {}", shown(after)))
        ),
        PinChange::Added { tool, description } => {
            let line = format!("+ {}: {}", shown(tool), shown(description));
            format!("  {}\n", style::paint(GOOD, line))
        }
        PinChange::Removed { tool } => {
            format!("  {}\n", style::paint(BAD, format!("- {}", shown(tool))))
        }
        PinChange::Changed { tool, fields } => {
            let mut text = format!("  {}\n", style::paint(NAME, shown(tool)));
            for field in fields {
                text.push_str(&format!("    {}\n", style::paint(DIM, shown(&field.pointer))));
                let lines = [(BAD, "-", &field.before), (GOOD, "+", &field.after)];
                for (colour, mark, value) in lines {
                    if let Some(value) = value {
                        let line = format!("{mark} {}", shown(value));
                        text.push_str(&format!("      {}\n", style::paint(colour, line)));
                    }
                }
            }
            text
        }
        _ => String::new(),
    }
}
