//! Compares what the model was shown with what a script expects, and describes the difference.

use std::fmt::Write as _;

use haft_core::{Error, ErrorKind};
use haft_dialect::history::{Message, PastResult};

use super::{
    super::{conversation::text_of, model::ModelRequest},
    format::Expect,
    template::content,
};

/// How much of a text a message shows.
const MAX_SHOWN_CHARS: usize = 400;

/// Fails with a readable difference.
pub(super) fn check(
    expect: &Expect,
    request: &ModelRequest<'_>,
    number: usize,
) -> Result<(), Error> {
    let mut problems = String::new();
    let messages = &request.history.messages;
    let is_new = |message: &&Message| !matches!(message, Message::Assistant(_));
    let new: Vec<&Message> = messages.iter().rev().take_while(is_new).collect();
    let results: Vec<&PastResult> = new
        .iter()
        .filter_map(|message| match message {
            Message::Results(results) => Some(results),
            _ => None,
        })
        .flatten()
        .collect();
    let shown = || {
        let texts = new.iter().rev().map(|message| match message {
            Message::System(parts) | Message::User(parts) => text_of(parts),
            Message::Results(results) => results.iter().map(content).collect::<Vec<_>>().join("\n"),
            Message::Assistant(_) => String::new(),
        });
        texts.collect::<Vec<_>>().join("\n")
    };
    for wanted in &expect.shown {
        if !shown().contains(wanted) {
            add(&mut problems, "it must be shown", wanted, &shown());
        }
    }
    for unwanted in &expect.not_shown {
        if shown().contains(unwanted) {
            add(&mut problems, "it must not be shown", unwanted, &shown());
        }
    }
    for wanted in &expect.instructions {
        if !request.instructions.contains(wanted) {
            add(&mut problems, "the instructions must have", wanted, request.instructions);
        }
    }
    let offered: Vec<&str> =
        request.tools.exported_tools().iter().map(|tool| tool.tool_name.as_str()).collect();
    let has = |tool: &String| offered.contains(&tool.as_str());
    for wanted in expect.tools.iter().filter(|tool| !has(tool)) {
        add(&mut problems, "it must be offered", wanted, &offered.join(", "));
    }
    for unwanted in expect.not_tools.iter().filter(|tool| has(tool)) {
        add(&mut problems, "it must not be offered", unwanted, &offered.join(", "));
    }
    for wanted in &expect.results {
        let Some(result) = results.iter().find(|result| result.id == *wanted.id) else {
            let ids: Vec<&str> = results.iter().map(|result| result.id.as_str()).collect();
            add(&mut problems, "it must have a result", &wanted.id, &ids.join(", "));
            continue;
        };
        let text = content(result);
        if wanted.is_error.is_some_and(|is_error| is_error != result.is_error) {
            let kind = if result.is_error { "must succeed" } else { "must fail" };
            add(&mut problems, &format!("the call {kind}"), &wanted.id, &text);
        }
        if let Some(part) = wanted.contains.as_ref().filter(|part| !text.contains(*part)) {
            add(&mut problems, &format!("the result of `{}` must have", wanted.id), part, &text);
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    let why = format!("message {number} of the script expected something else:{problems}");
    Err(Error::new(ErrorKind::BadResponse, why))
}

fn add(problems: &mut String, rule: &str, wanted: &str, shown: &str) {
    let short: String = shown.chars().take(MAX_SHOWN_CHARS).collect();
    let rest = if short.len() < shown.len() { " …" } else { "" };
    let short = short.replace('\n', "\n      ");
    let _ = write!(problems, "\n  - {rule}: {wanted}\n  + {short}{rest}");
}
