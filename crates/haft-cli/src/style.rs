//! Text formatting: names, counts, times; and output to stdout and stderr.
//!
//! Text from outside goes through `visible`, which escapes control characters. `colour` has the
//! colours, `layout` the tables.

use std::{
    fmt,
    io::{IsTerminal as _, Write as _},
    time::Duration,
};

use anstyle::Style;
use haft::{FailureCode, policy::Decision, tool::ConcurrencyClass};
use haft_core::text::shortened;
use serde_json::Value;

pub(crate) use crate::{
    colour::{BAD, BOLD, DIM, GOOD, NAME, WARN, paint},
    escape::visible,
    layout::Table,
};
use crate::{layout, screen};

/// The colours of the help texts.
pub(crate) const HELP: clap::builder::Styles =
    clap::builder::Styles::styled().header(BOLD).usage(BOLD).literal(NAME).placeholder(DIM);

/// The colour of a decision.
pub(crate) fn decision(decision: &Decision) -> Style {
    match decision {
        Decision::Allow => GOOD,
        Decision::Ask | Decision::NeedInput(_) => WARN,
        Decision::Deny => BAD,
    }
}

/// The name of a concurrency class.
pub(crate) fn class(class: ConcurrencyClass) -> &'static str {
    match class {
        ConcurrencyClass::ReadOnly => "read_only",
        ConcurrencyClass::WriteExclusive => "write_exclusive",
        ConcurrencyClass::Unsafe => "unsafe",
    }
}

/// The list of exit codes with their failure codes.
pub(crate) fn exit_codes() -> String {
    let meanings = [
        (0, "success"),
        (1, "wrong command line, input or arguments"),
        (2, "not allowed"),
        (3, "not logged in"),
        (4, "temporarily unavailable"),
        (5, "the tool failed"),
        (6, "waiting for approval"),
        (7, "timeout"),
        (8, "unknown outcome: the tool may have run"),
        (130, "cancelled"),
    ];
    let mut out = String::new();
    for (exit, meaning) in meanings {
        let codes: Vec<&str> =
            FailureCode::ALL.iter().filter(|c| c.exit_code() == exit).map(|c| c.as_str()).collect();
        out += &format!("{}  {meaning}\n", paint(BOLD, format_args!("{exit:>3}")));
        for line in codes.chunks(4) {
            out += &format!("     {}\n", paint(DIM, line.join(", ")));
        }
    }
    out
}

/// How many characters a text has.
pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

/// A duration as text.
pub(crate) fn time(time: Duration) -> String {
    match time.as_micros() {
        0..1_000 => "under 1 ms".to_owned(),
        1_000..1_000_000 => format!("{} ms", time.as_millis()),
        _ => format!("{:.2} s", time.as_secs_f64()),
    }
}

/// A number and its noun, singular or plural.
pub(crate) fn count(n: usize, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

/// Arguments as a person writes them: `name: "garden", limit: 3`.
pub(crate) fn arguments(arguments: &Value) -> String {
    match arguments {
        Value::Object(map) => {
            map.iter().map(|(k, v)| visible(&format!("{k}: {v}"))).collect::<Vec<_>>().join(", ")
        }
        other => visible(&other.to_string()),
    }
}

/// Returns the most similar name, if one is similar enough.
pub(crate) fn nearest<'a>(
    wrong: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let near = |name: &&str| strsim::jaro_winkler(wrong, name) >= 0.8;
    names.into_iter().filter(near).min_by_key(|name| strsim::damerau_levenshtein(wrong, name))
}

/// Writes a page for a person to stdout; at a terminal it is wrapped. A closed pipe is no error,
/// as in [`print`].
pub(crate) fn print_page(text: impl fmt::Display) -> std::io::Result<()> {
    ignore_closed_pipe(print_page_or_stop(text))
}

/// Does the same, and fails if the pipe is closed: what follows would be done unseen.
pub(crate) fn print_page_or_stop(text: impl fmt::Display) -> std::io::Result<()> {
    match screen::page_width() {
        Some(width) => print_or_stop(layout::page(&text.to_string(), width)),
        None => print_or_stop(text),
    }
}

/// Writes data to stdout, unchanged. A pipe that its reader has closed is no error: the command
/// ends with its own exit code, so that a `deny` read by `head -1` is not reported as success.
pub(crate) fn print(text: impl fmt::Display) -> std::io::Result<()> {
    ignore_closed_pipe(print_or_stop(text))
}

/// Does the same, and fails if the pipe is closed, so that work for its reader can stop.
pub(crate) fn print_or_stop(text: impl fmt::Display) -> std::io::Result<()> {
    let mut out = anstream::stdout().lock();
    write!(out, "{text}")?;
    out.flush()
}

fn ignore_closed_pipe(printed: std::io::Result<()>) -> std::io::Result<()> {
    match printed {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

/// Writes JSON to stdout: on one line, or indented at a terminal.
pub(crate) fn print_json(value: &Value, on_one_line: bool) -> std::io::Result<()> {
    if std::io::stdout().is_terminal() && !on_one_line {
        print(format_args!("{value:#}\n"))
    } else {
        print(format_args!("{value}\n"))
    }
}

/// A buffered writer to stdout. The caller flushes it and handles the error.
pub(crate) fn stdout_writer() -> std::io::BufWriter<std::io::StdoutLock<'static>> {
    std::io::BufWriter::new(std::io::stdout().lock())
}

/// Joins names: `a, b or c`.
pub(crate) fn either(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// Sanitized text on one line.
pub(crate) fn one_line(text: &str) -> String {
    visible(text).replace('\n', " ")
}

/// A JSON pointer for display; the root is `/`.
pub(crate) fn location(pointer: &str) -> String {
    if pointer.is_empty() { "/".to_owned() } else { cell(pointer) }
}

/// Sanitized and truncated text for a table column: one long name must not widen every row.
pub(crate) fn cell(text: &str) -> String {
    let text = visible(text).replace('\n', " ");
    shortened(&text, MAX_CELL_CHARS)
}

/// The limit on characters of a table cell.
const MAX_CELL_CHARS: usize = 80;

/// Writes a message to stderr; at a terminal it is wrapped. Errors are ignored: a closed stderr
/// must not stop the command.
pub(crate) fn message(text: impl fmt::Display) {
    match screen::message_width() {
        Some(width) => screen::message(layout::page(&text.to_string(), width)),
        None => screen::message(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_its_exit_code_in_the_list() {
        let list = exit_codes();
        for code in FailureCode::ALL {
            assert!(list.contains(code.as_str()), "{code}");
        }
    }

    #[test]
    fn cell_is_truncated() {
        assert_eq!(cell("a\nb"), "a b");
        assert_eq!(width(&cell(&"é".repeat(100_000))), MAX_CELL_CHARS + 1);
        assert_eq!(location(""), "/");
    }
}
