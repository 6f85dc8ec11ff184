//! `haft runs`: lists the stored runs of a workspace and shows one.

use std::path::Path;

use anstyle::Style;
use haft::{
    agent::{RunStatus, RunStore as _, SavedRun},
    history::{AssistantPart, ContentPart, Message},
    turn::Arguments,
};
use serde_json::{Value, json};

use crate::{
    args,
    error::Problem,
    run_store::WorkspaceRuns,
    session,
    style::{self, BAD, BOLD, DIM, GOOD, NAME, Table, WARN},
};

/// How many characters of a result are shown.
const MAX_RESULT_CHARS: usize = 400;

pub(crate) fn run(args: &args::Runs, workspace: &Path) -> Result<(), Problem> {
    let runs = WorkspaceRuns::find(workspace)?;
    match args {
        args::Runs::List { output, .. } => list(&runs, output.json),
        args::Runs::Show { run, output, .. } => {
            if !runs.names().contains(run) {
                return Err(runs.unknown(run));
            }
            let (store, id) = (runs.store(), run.clone());
            let saved = session::block_on(async move { store.load(&id.as_str().into()).await })??;
            let saved = saved.ok_or_else(|| runs.unknown(run))?;
            if output.json {
                style::print(format_args!("{}\n", saved.to_json()))?;
            } else {
                style::print_page(page(&saved))?;
            }
            Ok(())
        }
    }
}

fn list(runs: &WorkspaceRuns, is_json: bool) -> Result<(), Problem> {
    let (store, names) = (runs.store(), runs.names());
    let loaded = session::block_on(async move {
        let mut loaded = Vec::new();
        for name in names {
            let saved = store.load(&name.as_str().into()).await;
            loaded.push((name, saved));
        }
        loaded
    })?;
    let mut table = Table::new(0);
    let mut data = Vec::new();
    for (name, saved) in loaded {
        match saved {
            Ok(Some(saved)) => {
                data.push(json!({
                    "run": name,
                    "state": saved.state,
                    "model": saved.model,
                    "task": task(&saved),
                    "usage": saved.usage,
                }));
                let (colour, state) = state(&saved);
                table.row([
                    (NAME, name),
                    (colour, state.to_owned()),
                    (DIM, style::count(saved.usage.turns as usize, "turn")),
                    (Style::new(), style::cell(&task(&saved))),
                ]);
            }
            Ok(None) => {}
            Err(error) => {
                data.push(json!({"run": name, "error": error.message()}));
                let why = style::cell(error.message());
                table.row([
                    (NAME, name),
                    (BAD, "unreadable".to_owned()),
                    (DIM, String::new()),
                    (DIM, why),
                ]);
            }
        }
    }
    if is_json {
        style::print(format_args!("{}\n", Value::Array(data)))?;
    } else if data.is_empty() {
        style::message("no run is stored here yet; `haft run` stores its runs in `.haft/runs`");
    } else {
        style::print_page(table)?;
    }
    Ok(())
}

/// The state of a run; a run without one was at work when its process ended.
fn state(saved: &SavedRun) -> (Style, &'static str) {
    match saved.state {
        Some(RunStatus::Completed) => (GOOD, "completed"),
        Some(RunStatus::Degraded) => (WARN, "degraded"),
        Some(RunStatus::Waiting) => (WARN, "waiting"),
        Some(RunStatus::Failed) => (BAD, "failed"),
        Some(RunStatus::Cancelled) => (BAD, "cancelled"),
        None => (WARN, "unfinished"),
    }
}

/// The first message of the user.
fn task(saved: &SavedRun) -> String {
    let first = saved.history.messages.iter().find_map(|message| match message {
        Message::User(parts) => Some(text(parts)),
        _ => None,
    });
    style::one_line(&first.unwrap_or_default())
}

fn text(parts: &[ContentPart]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        ContentPart::Text { text, .. } => Some(text.clone()),
        ContentPart::Json(value) => Some(value.to_string()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// The whole conversation, and what waits.
fn page(saved: &SavedRun) -> String {
    let (colour, state) = state(saved);
    let usage = &saved.usage;
    let mut out = format!(
        "{}  {}\n{}\n",
        style::paint(NAME, &saved.run),
        style::paint(colour, state),
        style::paint(
            DIM,
            format_args!(
                "model {}, {}, {}, {} tokens, {}",
                style::cell(&saved.model),
                style::count(usage.turns as usize, "turn"),
                style::count(usize::try_from(usage.calls).unwrap_or(usize::MAX), "call"),
                usage.tokens.total(),
                style::time(usage.elapsed),
            ),
        ),
    );
    for message in &saved.history.messages {
        out += &shown(message);
    }
    if let Some(open) = &saved.open {
        out += &shown(&Message::Assistant(open.message.clone()));
        out += &shown(&Message::Results(open.results.clone()));
    }
    for call in saved.pending() {
        let why = match &call.question {
            Some(question) => format!("because {}", question.reason),
            None => "behind the call before it".to_owned(),
        };
        out += &format!(
            "{} {} {}({}), {}\n",
            style::paint(WARN.bold(), "waits"),
            style::visible(call.call.as_str()),
            style::paint(NAME, style::visible(call.tool.as_str())),
            style::arguments(&call.arguments),
            style::one_line(&why),
        );
    }
    out
}

/// One message of the conversation.
fn shown(message: &Message) -> String {
    match message {
        Message::System(_) => String::new(),
        Message::User(parts) => quote("you", &text(parts)),
        Message::Assistant(parts) => {
            let mut out = String::new();
            for part in parts {
                match part {
                    AssistantPart::Part(part) => {
                        out += &quote("model", &text(std::slice::from_ref(part)))
                    }
                    AssistantPart::Call(call) => {
                        let arguments = match &call.arguments {
                            Arguments::Json(json) => style::arguments(json),
                            Arguments::Text(text) => style::one_line(text),
                        };
                        let name = style::paint(NAME, style::visible(call.name.as_str()));
                        let id = style::paint(DIM, style::visible(call.id.as_str()));
                        out += &format!("  → {name}({arguments})  {id}\n");
                    }
                }
            }
            out
        }
        Message::Results(results) => {
            let mut out = String::new();
            for result in results {
                let (colour, mark) = if result.is_error { (BAD, "✗") } else { (GOOD, "✓") };
                let id = style::paint(DIM, style::visible(result.id.as_str()));
                out += &format!("  {} {id}\n", style::paint(colour, mark));
                let whole = text(&result.parts);
                let short: String = whole.chars().take(MAX_RESULT_CHARS).collect();
                let more = if short.len() < whole.len() { "…" } else { "" };
                for line in style::visible(&short).lines() {
                    out += &format!("    {} {line}\n", style::paint(colour, "│"));
                }
                if !more.is_empty() {
                    out += &format!("    {} {more}\n", style::paint(colour, "│"));
                }
            }
            out
        }
    }
}

fn quote(label: &str, text: &str) -> String {
    let mut label = style::paint(BOLD, format_args!("{label:5}"));
    let mut out = String::new();
    for line in style::visible(text.trim_end()).lines() {
        out += &format!("{label} {} {line}\n", style::paint(DIM, "│"));
        label = "     ".to_owned();
    }
    out
}
