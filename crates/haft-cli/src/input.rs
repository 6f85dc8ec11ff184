//! Reads what a person points at: a file, or stdin. The one room that touches either.
//!
//! Everything read is bounded and must be UTF-8; what is not is told, with the nearest name for a
//! file that is not there.

use std::{
    fs::File,
    io::{self, IsTerminal as _, Read},
    path::Path,
};

use serde_json::Value;

use crate::{problem::Problem, style};

/// More than any model writes; a larger file was pointed at by mistake.
const LIMIT: u64 = 64 << 20;

/// Reads a file's text.
pub(crate) fn file(path: &Path) -> Result<String, Problem> {
    let shown = path.display();
    let cannot = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound => {
            Problem::new(format!("there is no file `{shown}`")).near(neighbour(path).as_deref())
        }
        io::ErrorKind::IsADirectory => Problem::new(format!("`{shown}` is a directory")),
        _ => Problem::new(format!("cannot read `{shown}`: {e}")),
    };
    let file = File::open(path).map_err(cannot)?;
    text(file, &format!("`{shown}`"), cannot)
}

/// Reads all of stdin.
pub(crate) fn stdin() -> Result<String, Problem> {
    text(io::stdin().lock(), "stdin", |e| Problem::new(format!("cannot read stdin: {e}")))
}

/// Reads a response: a file, `-` for stdin, or stdin when something is piped in.
pub(crate) fn response(from: Option<&Path>) -> Result<Value, Problem> {
    let (text, name) = match from {
        Some(path) if path != Path::new("-") => (file(path)?, format!("`{}`", path.display())),
        None if io::stdin().is_terminal() => {
            return Err(Problem::new("there is no response to read")
                .hint("name a file, or pipe a provider's response in"));
        }
        _ => (stdin()?, "stdin".to_owned()),
    };
    json(&text, &name).map_err(|problem| {
        let events =
            text.trim_start().starts_with("data:") || text.trim_start().starts_with("event:");
        match events {
            true => problem
                .hint("this looks like a stream; the whole response is wanted, as one JSON object"),
            false => problem.hint("the whole response is wanted, as one JSON object"),
        }
    })
}

/// Parses JSON and says where it came from if it is none.
pub(crate) fn json(text: &str, from: &str) -> Result<Value, Problem> {
    match text.trim().is_empty() {
        true => Err(Problem::new(format!("{from} is empty"))),
        false => {
            serde_json::from_str(text).map_err(|e| Problem::new(format!("{from} is not JSON: {e}")))
        }
    }
}

fn text(
    from: impl Read,
    name: &str,
    cannot: impl Fn(io::Error) -> Problem,
) -> Result<String, Problem> {
    let mut bytes = Vec::new();
    from.take(LIMIT + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > LIMIT {
        return Err(Problem::new(format!("{name} is larger than {} MiB", LIMIT >> 20)));
    }
    String::from_utf8(bytes).map_err(|e| {
        Problem::new(format!(
            "{name} is not UTF-8: the byte at {} belongs to no character",
            e.utf8_error().valid_up_to()
        ))
    })
}

/// The file in the same directory whose name is nearest.
fn neighbour(path: &Path) -> Option<String> {
    let wrong = path.file_name()?.to_str()?;
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let names: Vec<String> = std::fs::read_dir(directory)
        .ok()?
        .take(10_000)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    let near = style::nearest(wrong, names.iter().map(String::as_str))?;
    Some(path.with_file_name(near).display().to_string())
}
