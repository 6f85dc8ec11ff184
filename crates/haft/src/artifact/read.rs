//! Queries an artifact: lines, lines that match a regex, the target of a JSON pointer. The result
//! is bounded, and says how to continue.
//!
//! INVARIANT: memory is bounded by the size of the page, not by the artifact. A pointer loads the
//! artifact, up to [`MAX_POINTER_BYTES`].

use std::{
    collections::VecDeque,
    fmt,
    io::{self, BufRead, BufReader, Read as _},
};

use regex::bytes::{Regex, RegexBuilder};
use serde_json::Value;

use super::{Artifact, json, preview};
use crate::text::shortened;

/// A query of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultQuery {
    /// Lines from a position on.
    Lines {
        /// Where to start.
        from: ResultPosition,
        /// Maximum number of lines.
        limit: u64,
    },
    /// The lines that match a regular expression.
    Pattern {
        /// The expression; it is matched line by line, in linear time.
        pattern: String,
        /// How many lines to show before and after each match.
        context: usize,
        /// The line to start at, from 1.
        offset: u64,
        /// Maximum number of matching lines.
        limit: u64,
    },
    /// The target of a JSON pointer such as `/rows/0/name`.
    Pointer(String),
}

/// A position in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultPosition {
    /// The line, from 1.
    pub line: u64,
    /// The character in it, from 1.
    pub column: u64,
}

impl ResultPosition {
    /// The first character.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// The result of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResultPage {
    /// The text.
    pub text: String,
    /// A one-line description of it.
    pub summary: String,
    /// Where to continue; `None` at the end.
    pub next: Option<ResultPosition>,
}

/// Why a query failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadArtifactError {
    /// It is not text but an image or audio.
    NotText,
    /// The pattern is not a valid regular expression.
    BadPattern(String),
    /// The pointer has no target.
    NoSuchValue(String),
    /// It is not JSON, so a pointer cannot be used.
    NotJson(String),
    /// It is too large for a pointer; it can be read by lines and searched.
    TooLarge,
    /// The query was cancelled.
    Cancelled,
    /// Reading the store failed.
    Io(io::Error),
}

impl fmt::Display for ReadArtifactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotText => f.write_str("it is not text"),
            Self::BadPattern(why) => {
                write!(f, "the pattern is not a valid regular expression: {why}")
            }
            Self::NoSuchValue(why) => write!(f, "the pointer has no target: {why}"),
            Self::NotJson(why) => write!(f, "it is not valid JSON: {why}"),
            Self::TooLarge => {
                write!(f, "a pointer works up to {} MiB", MAX_POINTER_BYTES >> 20)
            }
            Self::Cancelled => f.write_str("reading was stopped"),
            Self::Io(e) => write!(f, "it cannot be read: {e}"),
        }
    }
}

impl std::error::Error for ReadArtifactError {}

impl From<io::Error> for ReadArtifactError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The largest artifact that a JSON pointer can address. Data takes up to forty times the memory of
/// its text.
const MAX_POINTER_BYTES: u64 = 4 << 20;
/// Size of the read buffer.
const READ_BUFFER_BYTES: usize = 64 << 10;
/// A longer line is searched in pieces of this size, so that a search can be cancelled.
const MAX_LINE_BYTES: u64 = 256 << 10;
/// Maximum compiled size of a regex (ReDoS). The search time is at most this times the text.
const MAX_REGEX_BYTES: usize = 256 << 10;
/// Maximum length of a pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1_000;
/// How much of a long line is shown on each side of a match, in bytes.
const CONTEXT_BYTES: usize = 200;

impl Artifact {
    /// Runs a query. The result has at most `max_chars` characters.
    ///
    /// # Errors
    /// Fails if the artifact is not text, or the query has no result.
    pub fn read(
        &self,
        query: &ResultQuery,
        max_chars: usize,
    ) -> Result<ResultPage, ReadArtifactError> {
        self.read_until(query, max_chars, &|| false)
    }

    /// Does the same, with cancellation.
    pub(crate) fn read_until(
        &self,
        query: &ResultQuery,
        max_chars: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<ResultPage, ReadArtifactError> {
        if self.facts.chars.is_none() {
            return Err(ReadArtifactError::NotText);
        }
        let reader = || Cancellable { from: self.reader(), stop };
        let text = || BufReader::with_capacity(READ_BUFFER_BYTES, reader());
        let read = match query {
            ResultQuery::Lines { from, limit } => {
                lines(text(), *from, *limit, max_chars, self.lines())
            }
            ResultQuery::Pattern { pattern, context, offset, limit } => {
                let search = Search { context: (*context).min(20), offset: *offset, limit: *limit };
                search.run(text(), &compiled(pattern)?, max_chars)
            }
            ResultQuery::Pointer(_) if self.facts.bytes > MAX_POINTER_BYTES => {
                Err(ReadArtifactError::TooLarge)
            }
            ResultQuery::Pointer(pointer) => point(reader(), pointer, max_chars),
        };
        if stop() { Err(ReadArtifactError::Cancelled) } else { read }
    }

    fn lines(&self) -> u64 {
        self.facts.lines.unwrap_or(0)
    }
}

/// A reader that stops on cancellation.
struct Cancellable<'a, R> {
    from: R,
    stop: &'a dyn Fn() -> bool,
}

impl<R: io::Read> io::Read for Cancellable<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if (self.stop)() {
            return Err(io::Error::other("stopped"));
        }
        self.from.read(into)
    }
}

/// Returns lines from a position on, as many as fit.
fn lines(
    mut from: impl BufRead,
    place: ResultPosition,
    limit: u64,
    max_chars: usize,
    of: u64,
) -> Result<ResultPage, ReadArtifactError> {
    let start = ResultPosition { line: place.line.max(1), column: place.column.max(1) };
    skip_lines(&mut from, start.line - 1)?;
    skip_columns(&mut from, start.column - 1)?;
    let mut taken: Vec<u8> = Vec::new();
    let mut at = start;
    // Where the last whole line ended.
    let mut border = None;
    let mut chars = 0;
    let mut next = None;
    'pages: while at.line - start.line < limit {
        let buffer = from.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        let mut used = 0;
        for &byte in buffer {
            let is_start = byte & 0xc0 != 0x80;
            if is_start && chars == max_chars {
                next = Some(at);
                break 'pages;
            }
            chars += usize::from(is_start);
            used += 1;
            taken.push(byte);
            if byte == b'\n' {
                at = ResultPosition { line: at.line + 1, column: 1 };
                border = Some((taken.len(), at));
                if at.line - start.line >= limit {
                    break;
                }
            } else if is_start {
                at.column += 1;
            }
        }
        from.consume(used);
    }
    if next.is_none() && !from.fill_buf()?.is_empty() {
        next = Some(at);
    }
    // A line that does not fit is left to the next page, unless it is longer than half of the page.
    if let (Some(place), Some((end, line))) = (next, border)
        && place.column > 1
        && taken.len() - end < taken.len() / 2
    {
        taken.truncate(end);
        next = Some(line);
        at = line;
    }
    let text = String::from_utf8_lossy(&taken).into_owned();
    let last = if at.column == 1 && at.line > start.line { at.line - 1 } else { at.line };
    let summary = match (text.is_empty(), start.column) {
        (true, _) => format!("no such line: it has {of} lines"),
        (false, 1) => format!("lines {} to {last} of {of}", start.line),
        (false, column) => {
            format!("lines {} (from character {column}) to {last} of {of}", start.line)
        }
    };
    Ok(ResultPage { text, summary, next })
}

fn skip_lines(from: &mut impl BufRead, mut lines: u64) -> io::Result<()> {
    while lines > 0 {
        let buffer = from.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let mut used = buffer.len();
        for end in memchr::memchr_iter(b'\n', buffer) {
            lines -= 1;
            if lines == 0 {
                used = end + 1;
                break;
            }
        }
        from.consume(used);
    }
    Ok(())
}

/// Skips characters of a line; a position beyond its end is its end.
fn skip_columns(from: &mut impl BufRead, mut columns: u64) -> io::Result<()> {
    while columns > 0 {
        let buffer = from.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let mut used = 0;
        for &byte in buffer {
            let is_start = byte & 0xc0 != 0x80;
            if byte == b'\n' || is_start && columns == 0 {
                columns = 0;
                break;
            }
            columns -= u64::from(is_start);
            used += 1;
        }
        // Skip the remaining bytes of the last character.
        let is_done = columns == 0;
        from.consume(used);
        if is_done {
            while from.fill_buf()?.first().is_some_and(|byte| byte & 0xc0 == 0x80) {
                from.consume(1);
            }
        }
    }
    Ok(())
}

fn compiled(pattern: &str) -> Result<Regex, ReadArtifactError> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(ReadArtifactError::BadPattern(format!(
            "it is longer than {MAX_PATTERN_BYTES} bytes"
        )));
    }
    RegexBuilder::new(pattern)
        .size_limit(MAX_REGEX_BYTES)
        .build()
        .map_err(|e| ReadArtifactError::BadPattern(last_line(&e.to_string())))
}

/// The last line of a regex error says what is wrong; the lines before it show the position.
fn last_line(text: &str) -> String {
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// A search for lines.
struct Search {
    context: usize,
    offset: u64,
    limit: u64,
}

impl Search {
    fn run(
        &self,
        mut from: impl BufRead,
        regex: &Regex,
        max_chars: usize,
    ) -> Result<ResultPage, ReadArtifactError> {
        skip_lines(&mut from, self.offset.saturating_sub(1))?;
        let mut number = self.offset.max(1);
        let (mut text, mut chars) = (String::new(), 0);
        let mut before: VecDeque<(u64, String)> = VecDeque::new();
        let (mut shown, mut found) = (0u64, 0u64);
        let (mut after, mut last_shown) = (0, 0);
        let mut next = None;
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut from).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
            if read == 0 {
                break;
            }
            let is_end = line.last() == Some(&b'\n');
            let body = if is_end { &line[..line.len() - 1] } else { &line[..] };
            let hit = regex.find(body);
            found += u64::from(hit.is_some());
            let is_open = next.is_none();
            if let Some(hit) = hit.filter(|_| is_open) {
                let mut lines: Vec<String> = Vec::new();
                if last_shown > 0 && before.front().map_or(number, |(n, _)| *n) > last_shown + 1 {
                    lines.push("--".to_owned());
                }
                lines.extend(before.drain(..).map(|(n, text)| format!("{n}- {text}")));
                lines.push(format!("{number}: {}", around(body, hit.start(), hit.end())));
                let more: usize = lines.iter().map(|line| line.chars().count() + 1).sum();
                if shown == self.limit || chars + more > max_chars {
                    // The rest of a line that is split into pieces cannot be requested; continue
                    // with the next line.
                    next = Some(ResultPosition { line: number.max(last_shown + 1), column: 1 });
                } else {
                    chars += more;
                    lines.iter().for_each(|line| text.extend([line, "\n"]));
                    shown += 1;
                    (after, last_shown) = (self.context, number);
                }
            } else if is_open && hit.is_none() && self.context > 0 {
                let shown_line = around(body, 0, 0);
                let more = shown_line.chars().count() + 24;
                if after > 0 && chars + more <= max_chars {
                    text.push_str(&format!("{number}- {shown_line}\n"));
                    chars += more;
                    after -= 1;
                    last_shown = number;
                } else {
                    if before.len() == self.context {
                        before.pop_front();
                    }
                    before.push_back((number, shown_line));
                }
            }
            number += u64::from(is_end);
        }
        let summary = match self.offset {
            0 | 1 if found == 0 => "no line matches".to_owned(),
            0 | 1 => format!("{shown} of {found} matching lines"),
            from => format!("{shown} of {found} matching lines from line {from} on"),
        };
        Ok(ResultPage { text, summary, next })
    }
}

/// A line as it is shown: whole, or the part around a match.
fn around(line: &[u8], start: usize, end: usize) -> String {
    let from = start.saturating_sub(CONTEXT_BYTES);
    let until = (end.min(start + 2 * CONTEXT_BYTES) + CONTEXT_BYTES).min(line.len());
    let text = String::from_utf8_lossy(&line[from..until]);
    // A split character can only be at the ends.
    let text = text.trim_matches(|c| c == '\u{fffd}' && (from > 0 || until < line.len()));
    let (head, tail) = (if from > 0 { "…" } else { "" }, if until < line.len() { "…" } else { "" });
    format!("{head}{text}{tail}")
}

/// Loads the data and returns the target of a JSON pointer.
fn point(
    mut from: impl io::Read,
    pointer: &str,
    max_chars: usize,
) -> Result<ResultPage, ReadArtifactError> {
    let mut text = Vec::new();
    from.read_to_end(&mut text)?;
    let data: Value =
        serde_json::from_slice(&text).map_err(|e| ReadArtifactError::NotJson(e.to_string()))?;
    let value = json::target(&data, pointer).map_err(ReadArtifactError::NoSuchValue)?;
    Ok(part(value, pointer, max_chars))
}

/// A part of JSON data as a page.
fn part(value: &Value, pointer: &str, max_chars: usize) -> ResultPage {
    let size = preview::rendered_chars(value);
    let (text, what) = if size <= max_chars {
        (value.to_string(), "all of it".to_owned())
    } else {
        (
            preview::fit(value, max_chars).to_string(),
            "too large to show in full, so parts are omitted; use a deeper pointer".to_owned(),
        )
    };
    let at = if pointer.is_empty() {
        "the whole".to_owned()
    } else {
        format!("`{}`", shortened(pointer, 100))
    };
    ResultPage { text, summary: format!("{at}: {what}"), next: None }
}
