//! Reads input files and stdin.
//!
//! INVARIANT: every read is bounded, and text must be UTF-8. The error for a missing file suggests
//! the most similar name.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, IsTerminal as _, Read},
    path::Path,
};

use serde_json::Value;

use crate::{error::Problem, style};

/// The limit on one input; more than any model writes.
const MAX_INPUT_BYTES: u64 = 64 << 20;

/// Reads a file's text.
pub(crate) fn file(path: &Path) -> Result<String, Problem> {
    let file = File::open(path).map_err(|e| unreadable(path, &e))?;
    text(file, &format!("`{}`", path.display()), |e| unreadable(path, &e))
}

/// Reads a configuration file that was named, so it must exist.
pub(crate) fn named_config(path: &Path) -> Result<String, Problem> {
    match haft::policy::read_config_file(path)? {
        Some(text) => Ok(text),
        None if path.is_dir() => Err(Problem::new(format!("`{}` is a directory", path.display()))),
        None => Err(unreadable(path, &io::Error::from(io::ErrorKind::NotFound))),
    }
}

/// The error for an unreadable file.
fn unreadable(path: &Path, error: &io::Error) -> Problem {
    let shown = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => Problem::new(format!("there is no file `{shown}`"))
            .similar(similar_file(path).as_deref()),
        io::ErrorKind::IsADirectory => Problem::new(format!("`{shown}` is a directory")),
        _ => Problem::new(format!("cannot read `{shown}`: {error}")),
    }
}

/// Reads all of stdin.
pub(crate) fn stdin() -> Result<String, Problem> {
    text(io::stdin().lock(), "stdin", |e| Problem::new(format!("cannot read stdin: {e}")))
}

/// Opens a body that may still grow: a file, `-` for stdin, or piped stdin. The read is bounded.
pub(crate) fn body(from: Option<&Path>) -> Result<Box<dyn Read + Send>, Problem> {
    let body: Box<dyn Read + Send> = match from {
        Some(path) if path != Path::new("-") => {
            Box::new(File::open(path).map_err(|e| unreadable(path, &e))?)
        }
        None if io::stdin().is_terminal() => {
            return Err(Problem::new("no stream was given")
                .hint("name a file, or pipe a provider's stream to stdin"));
        }
        _ => Box::new(io::stdin()),
    };
    Ok(Box::new(body.take(MAX_INPUT_BYTES + 1)))
}

/// The lines of a file, or of stdin for `-`, one at a time.
pub(crate) struct Lines {
    from: BufReader<Box<dyn Read + Send>>,
    name: String,
    at: usize,
}

/// One line that is not empty: its number, counted from one, and its bytes.
pub(crate) type Line = (usize, Vec<u8>);

/// One line that is not empty; `None` for the bytes of a line that is too long.
pub(crate) type ShortLine = (usize, Option<Vec<u8>>);

impl Lines {
    pub(crate) fn open(path: &Path) -> Result<Self, Problem> {
        let (from, name): (Box<dyn Read + Send>, String) = if path == Path::new("-") {
            (Box::new(io::stdin()), "stdin".to_owned())
        } else {
            let file = File::open(path).map_err(|e| unreadable(path, &e))?;
            (Box::new(file), format!("`{}`", path.display()))
        };
        Ok(Self { from: BufReader::new(from), name, at: 0 })
    }

    fn line(&mut self) -> Result<Option<Line>, Problem> {
        loop {
            let mut line = Vec::new();
            let read = (&mut self.from).take(MAX_INPUT_BYTES + 1).read_until(b'\n', &mut line);
            let read = read.map_err(|e| Problem::new(format!("cannot read {}: {e}", self.name)))?;
            self.at += 1;
            if read as u64 > MAX_INPUT_BYTES {
                return Err(Problem::new(format!(
                    "line {} of {} is larger than {} MiB",
                    self.at,
                    self.name,
                    MAX_INPUT_BYTES >> 20
                )));
            }
            if self.at == 1 && line.starts_with(b"\xef\xbb\xbf") {
                line.drain(..3); // the byte order mark of some editors
            }
            if read == 0 || !line.trim_ascii().is_empty() {
                return Ok((read > 0).then_some((self.at, line)));
            }
        }
    }
}

impl Lines {
    /// Returns the next line that is not empty. The bytes of a line longer than `most` are skipped,
    /// and reading continues with the next line.
    pub(crate) fn short_line(&mut self, most: u64) -> Result<Option<ShortLine>, Problem> {
        loop {
            let mut line = self.piece(most + 1)?;
            if line.is_empty() {
                return Ok(None);
            }
            self.at += 1;
            if self.at == 1 && line.starts_with(b"\xef\xbb\xbf") {
                line.drain(..3); // the byte order mark of some editors
            }
            if line.len() as u64 > most {
                let mut last = line;
                while !last.is_empty() && !last.ends_with(b"\n") {
                    last = self.piece(most)?;
                }
                return Ok(Some((self.at, None)));
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some((self.at, Some(line))));
            }
        }
    }

    /// Returns whether the next line is not buffered yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.from.buffer().is_empty()
    }

    fn piece(&mut self, most: u64) -> Result<Vec<u8>, Problem> {
        let mut piece = Vec::new();
        let read = (&mut self.from).take(most).read_until(b'\n', &mut piece);
        read.map_err(|e| Problem::new(format!("cannot read {}: {e}", self.name)))?;
        Ok(piece)
    }
}

impl Iterator for Lines {
    type Item = Result<Line, Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        self.line().transpose()
    }
}

/// Reads a response: a file, `-` for stdin, or piped stdin.
pub(crate) fn response(from: Option<&Path>) -> Result<Value, Problem> {
    let (text, name) = match from {
        Some(path) if path != Path::new("-") => (file(path)?, format!("`{}`", path.display())),
        None if io::stdin().is_terminal() => {
            return Err(Problem::new("no response was given")
                .hint("name a file, or pipe a provider's response to stdin"));
        }
        _ => (stdin()?, "stdin".to_owned()),
    };
    json(&text, &name).map_err(|problem| {
        let events =
            text.trim_start().starts_with("data:") || text.trim_start().starts_with("event:");
        if events {
            problem.hint("this looks like a stream; read it with `haft dispatch --stream`")
        } else {
            problem.hint("give the complete response, as one JSON object")
        }
    })
}

/// Parses JSON; the error names the source.
pub(crate) fn json(text: &str, from: &str) -> Result<Value, Problem> {
    if text.trim().is_empty() {
        Err(Problem::new(format!("{from} is empty")))
    } else {
        serde_json::from_str(text).map_err(|e| Problem::new(format!("{from} is not JSON: {e}")))
    }
}

fn text(
    from: impl Read,
    name: &str,
    cannot: impl Fn(io::Error) -> Problem,
) -> Result<String, Problem> {
    let mut bytes = Vec::new();
    from.take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > MAX_INPUT_BYTES {
        return Err(Problem::new(format!("{name} is larger than {} MiB", MAX_INPUT_BYTES >> 20)));
    }
    String::from_utf8(bytes).map_err(|e| {
        Problem::new(format!(
            "{name} is not UTF-8: invalid byte at offset {}",
            e.utf8_error().valid_up_to()
        ))
    })
}

/// The file in the same directory with the most similar name.
fn similar_file(path: &Path) -> Option<String> {
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
