//! `haft shell explain`: classifies shell commands, and says why. Runs nothing.
//!
//! In: arguments, or JSON lines on stdin. Each line is answered as it arrives, so memory is bounded
//! by the longest line. An invalid line gets an error, and the next lines are still read.

use std::{
    io::{IsTerminal as _, Write as _},
    path::Path,
    process::ExitCode,
};

use anstyle::Style;
use haft_shell::{Classification, Kind, Part, classify};
use serde_json::{Value, json};

use crate::{
    args,
    error::Problem,
    input::Lines,
    style::{self, BAD, BOLD, DIM, GOOD, Table, WARN},
};

/// The longest line of JSON; many times the longest command that is parsed.
const MAX_LINE_BYTES: u64 = 1 << 20;

pub(crate) fn run(args: &args::Shell) -> Result<ExitCode, Problem> {
    let args::Shell::Explain { commands, output } = args;
    match &**commands {
        [] if std::io::stdin().is_terminal() => Err(Problem::new("no command was given")
            .hint("give commands as arguments, each in quotes, or as JSON lines on stdin")),
        [] => answer_lines(),
        commands if output.json => {
            let mut out = style::stdout_writer();
            for command in commands {
                writeln!(out, "{}", line(command, &classify(command)))?;
            }
            out.flush()?;
            Ok(ExitCode::SUCCESS)
        }
        commands => {
            let pages: Vec<String> =
                commands.iter().map(|command| page(command, &classify(command))).collect();
            style::print_page(pages.join("\n"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Prints one line for each line of stdin.
fn answer_lines() -> Result<ExitCode, Problem> {
    let mut lines = Lines::open(Path::new("-"))?;
    let mut out = style::stdout_writer();
    let mut code = ExitCode::SUCCESS;
    while let Some((at, bytes)) = lines.short_line(MAX_LINE_BYTES)? {
        let answer = match bytes.as_deref().map(command_of) {
            Some(Ok(command)) => line(&command, &classify(&command)),
            Some(Err(why)) => wrong(at, &why),
            None => wrong(at, &format!("it is longer than {MAX_LINE_BYTES} bytes")),
        };
        if answer.get("error").is_some() {
            code = ExitCode::from(1);
        }
        writeln!(out, "{answer}")?;
        // An interactive caller waits for the answer to each line.
        if lines.is_waiting() {
            out.flush()?;
        }
    }
    out.flush()?;
    Ok(code)
}

/// Parses the command of a line.
fn command_of(line: &[u8]) -> Result<String, String> {
    let mut value: Value =
        serde_json::from_slice(line).map_err(|e| format!("it is not JSON: {e}"))?;
    match value.get_mut("command").map(Value::take) {
        Some(Value::String(command)) => Ok(command),
        Some(_) => Err("`command` must be a string".to_owned()),
        None => Err("it must be an object with a `command`".to_owned()),
    }
}

fn wrong(at: usize, why: &str) -> Value {
    json!({"command": null, "line": at, "error": why})
}

/// A command and its classification as JSON.
fn line(command: &str, found: &Classification) -> Value {
    let part =
        |part: &Part| json!({"words": part.words, "kind": part.kind.as_str(), "why": part.why});
    let parts: Vec<Value> = found.parts.iter().map(part).collect();
    json!({"command": command, "kind": found.kind.as_str(), "parts": parts, "why": found.why})
}

/// A command and its classification as text.
fn page(command: &str, found: &Classification) -> String {
    let kind = style::paint(colour(found.kind).bold(), name(found.kind));
    let command = style::paint(BOLD, style::visible(command));
    let mut page = format!("{kind}: {command}\n  {}\n", style::visible(&found.why));
    if found.parts.len() > 1 {
        let mut table = Table::new(4);
        for part in &found.parts {
            table.row([
                (colour(part.kind), name(part.kind).to_owned()),
                (Style::new(), style::cell(&part.words.join(" "))),
                (DIM, style::visible(&part.why)),
            ]);
        }
        page += &table.to_string();
    }
    page
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::ReadOnly => "read-only",
        Kind::Writes => "writes",
        Kind::Destructive => "destructive",
        Kind::Unparseable => "unparseable",
    }
}

fn colour(kind: Kind) -> Style {
    match kind {
        Kind::ReadOnly => GOOD,
        Kind::Writes => WARN,
        Kind::Destructive | Kind::Unparseable => BAD,
    }
}
