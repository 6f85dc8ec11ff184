//! The text of an approval question: what would run, why it is asked, and the complete arguments or
//! the diff of an edit.

use std::path::Path;

use anstyle::Style;
use haft::{approval::ApprovalRequest, tool::Preview};
use serde_json::Value;

use crate::{
    escape, location, schema,
    style::{self, BAD, BOLD, DIM, GOOD, NAME, WARN, one_line},
};

/// The text of an approval question, without the keys.
pub(super) fn page(
    question: &ApprovalRequest<'_>,
    preview: Option<&Preview>,
    here: &Path,
    width: usize,
) -> String {
    let (entry, arguments) = (question.call.tool(), question.call.redacted_arguments());
    let explanation = question.explanation;
    let known = schema::parameters(entry.input_schema());
    let is_secret = |key: &str| known.iter().any(|p| p.name == key && p.is_secret());
    let command =
        arguments.get("command").and_then(Value::as_str).filter(|_| !is_secret("command"));

    let mut risk: Vec<String> = explanation.touches.iter().map(|r| one_line(r)).collect();
    let own = command.map(|command| format!("run `{}`", one_line(command.trim())));
    risk.retain(|word| Some(word) != own.as_ref());
    let head = command.unwrap_or(entry.name().as_str());
    if command.is_some() {
        risk.insert(0, entry.name().to_string());
    }
    let mut out = String::from("\n");
    out += &headline(&style::visible(head), &risk.join(" · "), command.is_some(), width);

    out += "  asked because  ";
    match &explanation.deciding {
        Some(rule) => {
            out += &format!(
                "{}  {} \"{}\"\n",
                style::paint(NAME, location::at(&rule.location, here)),
                rule.decision,
                one_line(&rule.pattern),
            );
            let reason = one_line(&question.verdict.reason);
            out += &format!("                 {}\n", style::paint(WARN, reason));
        }
        None => {
            let reason = one_line(&question.verdict.reason);
            let source = one_line(&question.verdict.source);
            out += &style::paint(WARN, reason);
            out += &format!(" {}\n", style::paint(DIM, format_args!("({source})")));
        }
    }
    let path = &question.call.context().scope().agent_path;
    if !path.is_empty() {
        out += &format!("  asked by       agent {}\n", one_line(&path.join(" > ")));
    }
    for taint in &explanation.tainted_by {
        let shown = format!("the run has read untrusted text: {}", one_line(taint));
        out += &format!("  {}\n", style::paint(WARN, shown));
    }
    for origin in origins(question, &is_secret) {
        out += &format!("  {}\n", style::paint(WARN, one_line(&origin)));
    }
    if question.waiting > 0 {
        let waiting = style::count(question.waiting, "more question");
        out += &format!("  {}\n", style::paint(DIM, format_args!("{waiting} waiting")));
    }
    for (key, value) in arguments.as_object().into_iter().flatten() {
        let is_shown = command.is_some() && key == "command";
        if !is_shown && !preview.is_some_and(|preview| preview.replaces(key)) {
            out += &argument(key, value, is_secret(key), width);
        }
    }
    if let Some(preview) = preview {
        out += &diff(&preview.diff, width);
    }
    let shown = |(key, _): &(&String, &Value)| !is_secret(key);
    let texts = arguments.as_object().into_iter().flatten().filter(shown);
    let mut warnings: Vec<String> = texts.flat_map(|(_, v)| escape::lookalikes(&text(v))).collect();
    warnings.dedup();
    for warning in warnings {
        out += &format!("  {}\n", style::paint(BAD, format_args!("! {warning}")));
    }
    out
}

/// What would run, and what it accesses on the same line or below.
fn headline(head: &str, risk: &str, is_command: bool, width: usize) -> String {
    let shown = if is_command { BOLD } else { NAME.bold() };
    let lines = escape::wrap(head, columns_left(width, 5));
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        // Continuation lines start with a bar, so that arguments cannot forge a line of the prompt.
        out += &format!("  {}{}", if at == 0 { "" } else { "│ " }, style::paint(shown, line));
        let fits = lines.len() == 1 && escape::columns(line) + escape::columns(risk) + 6 <= width;
        if risk.is_empty() || at + 1 < lines.len() {
            out.push('\n');
        } else if fits {
            out += &format!("    {}\n", style::paint(WARN, risk));
        } else {
            out.push('\n');
            for line in escape::wrap(risk, columns_left(width, 2)) {
                out += &format!("  {}\n", style::paint(WARN, line));
            }
        }
    }
    out
}

/// The columns that are left after a margin.
pub(super) fn columns_left(width: usize, margin: usize) -> usize {
    width.saturating_sub(margin).max(1)
}

/// One argument, in full.
pub(super) fn argument(key: &str, value: &Value, is_secret: bool, width: usize) -> String {
    let key = style::visible(key).replace('\n', "<U+000A>");
    let shown = match value {
        _ if is_secret => "(hidden)".to_owned(),
        // Text of several lines is printed as lines, each behind a bar.
        Value::String(text) if text.contains('\n') => {
            let mut out = format!("    {key}:\n");
            for line in escape::wrap(&expand_tabs(&style::visible(text)), columns_left(width, 9)) {
                out += &format!("      │ {line}\n");
            }
            return out;
        }
        other => style::visible(&other.to_string()),
    };
    let mut out = String::new();
    for (at, line) in
        escape::wrap(&format!("{key}: {shown}"), columns_left(width, 7)).iter().enumerate()
    {
        out += &format!("    {}{line}\n", if at == 0 { "" } else { "│ " });
    }
    out
}

/// A unified diff, each line behind a bar. A folded line goes on behind `↳`, so that no text can
/// forge a changed line.
fn diff(diff: &str, width: usize) -> String {
    let mut out = String::new();
    for line in diff.strip_suffix('\n').unwrap_or(diff).split('\n') {
        let colour = match line.as_bytes().first() {
            Some(b'-') => BAD,
            Some(b'+') => GOOD,
            Some(b' ') => Style::new(),
            _ => DIM,
        };
        let (sign, text) = line.split_at(line.chars().next().map_or(0, char::len_utf8));
        let text = expand_tabs(&style::visible(text));
        for (at, part) in escape::wrap(&text, columns_left(width, 9)).iter().enumerate() {
            let sign = if at == 0 { sign } else { "↳" };
            out += &format!("    │ {}\n", style::paint(colour, format_args!("{sign}{part}")));
        }
    }
    out
}

/// Replaces tabs by blanks, because the width of a tab depends on the terminal.
fn expand_tabs(text: &str) -> String {
    text.replace('\t', "    ")
}

/// A value as plain text for the homoglyph check; JSON would escape some characters.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(text).collect::<Vec<_>>().join(" "),
        Value::Object(map) => map.values().map(text).collect::<Vec<_>>().join(" "),
        _ => String::new(),
    }
}

/// Which argument values come from earlier results (data flow).
fn origins(question: &ApprovalRequest<'_>, is_secret: &dyn Fn(&str) -> bool) -> Vec<String> {
    let arguments = question.call.arguments().as_object().into_iter().flatten();
    let open = arguments.filter(|(key, _)| !is_secret(key)).map(|(_, value)| value);
    let traced = question.call.taint().trace(open, usize::MAX);
    let redactor = question.call.redactor();
    let mut found: Vec<String> = Vec::new();
    for (value, taint) in traced.found {
        let origin = taint.origin.map_or_else(String::new, |origin| format!(", {origin}"));
        // Redacted before truncation: half a secret would not be recognized.
        let value = style::cell(&redactor.text(&value));
        found.push(format!("`{value}` comes from call {} of `{}`{origin}", taint.call, taint.tool));
    }
    if !traced.is_whole {
        found.push("not all values could be traced".to_owned());
    }
    found.dedup();
    found
}
