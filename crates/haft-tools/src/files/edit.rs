//! `edit_file`: replaces an exact text in a file.
//!
//! The file is read, changed in memory and written back only if it did not change since (lost
//! update). All other bytes stay the same, including line endings.

use std::{borrow::Cow, io::Read as _};

use haft_core::{
    CallProfile, ConcurrencyClass, Failure, FailureCode, Operation, Preview, Tool, ToolContext,
    ToolSpec, schemars::JsonSchema, serde::Deserialize,
};
use haft_sandbox::{PathError, PathErrorKind, Replace};
use memchr::memmem;

use super::{
    diff, file_spec, nearest,
    paths::{self, Files, PathAccess, count, unreadable},
};

/// Larger files are refused.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// Maximum number of line numbers in a message.
const MAX_LINES_NAMED: usize = 20;

/// The tool `edit_file`.
#[derive(Debug)]
pub(super) struct EditFile(pub(super) Files);

/// Arguments of `edit_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(crate = "haft_core::serde")]
#[schemars(crate = "haft_core::schemars")]
pub(super) struct Args {
    /// Path of the file, absolute or relative to the working directory.
    #[schemars(length(min = 1), extend("x-haft" = "write_path"))]
    file_path: String,
    /// The exact text to replace, without line numbers.
    #[schemars(length(min = 1))]
    old_text: String,
    /// The replacement text.
    new_text: String,
    /// Replaces every occurrence. Without it there must be exactly one.
    #[serde(default)]
    all: bool,
}

impl Tool for EditFile {
    type Args = Args;
    type Output = String;

    const GUARDS: bool = false;

    fn spec(&self) -> ToolSpec {
        file_spec(
            "edit_file",
            "Replaces a text in a file. The old text must match exactly, and only once unless \
             `all` is set.",
        )
        .destructive(false)
        .class(ConcurrencyClass::WriteExclusive)
    }

    fn profile(&self, declared: CallProfile, args: &Args, cx: &ToolContext) -> CallProfile {
        let resolved = self.0.find(&args.file_path, cx).ok();
        let access = PathAccess { path: &args.file_path, operation: Operation::Write, resolved };
        paths::declare(declared, &[access])
    }

    async fn check(&self, args: &Args, cx: &ToolContext) -> Result<(), Failure> {
        let resolved = self.0.find(&args.file_path, cx)?;
        self.0.existing_whole(resolved, cx).map_err(|refusal| match refusal.cause() {
            PathErrorKind::NotFound => Failure::from(refusal)
                .with_next("create it with write_file, or list the directory to see what exists"),
            _ => refusal.into(),
        })?;
        if args.old_text == args.new_text {
            Err(Failure::new(FailureCode::InvalidValue, "`old_text` and `new_text` are the same")
                .with_next("set `new_text` to the replacement"))
        } else {
            Ok(())
        }
    }

    async fn preview(&self, args: &Args, cx: &ToolContext) -> Option<Preview> {
        let old = diff::content(&self.0, &args.file_path, cx)?;
        let change = change(&old, args).ok()?;
        let diff = Preview::diff(diff::unified(&old, &change.bytes)?);
        Some(diff.in_place_of(["old_text", "new_text", "all"]))
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, Failure> {
        let files = self.0.clone();
        cx.spawn_blocking(move |cx| edit(&files, &args, cx)).await?
    }
}

fn edit(files: &Files, args: &Args, cx: &ToolContext) -> Result<String, Failure> {
    let resolved = files.authorized(&args.file_path, cx)?;
    let opened = files.workspace().open(&resolved)?;
    paths::check_other_names(&resolved, &opened.meta, Operation::Write, cx)?;
    let too_large = || Failure::from(PathError::new(PathErrorKind::TooLarge, resolved.to_string()));
    if opened.meta.size > MAX_FILE_BYTES {
        return Err(too_large());
    }
    // TOCTOU: the stamp is from before the first read, so a concurrent write is detected.
    let stamp = opened.meta.stamp;
    let mut old = Vec::new();
    let mut limited = opened.file.take(MAX_FILE_BYTES + 1);
    limited.read_to_end(&mut old).map_err(|e| unreadable(&resolved, e))?;
    if old.len() as u64 > MAX_FILE_BYTES {
        return Err(too_large());
    }
    let change = change(&old, args).map_err(|no| no.failure(&resolved.to_string(), &old, args))?;
    files.granted(&[&resolved], cx)?.write(&resolved, &change.bytes, Replace::If(stamp))?;
    let lines: Vec<String> =
        change.lines.iter().take(MAX_LINES_NAMED).map(u64::to_string).collect();
    let occurrences = change.occurrences as u64;
    let dots = if change.occurrences > MAX_LINES_NAMED { ", …" } else { "" };
    let at = if occurrences == 1 { "line" } else { "lines" };
    Ok(format!(
        "replaced {} in `{resolved}`, at {at} {}{dots}",
        count(occurrences, "occurrence"),
        lines.join(", ")
    ))
}

/// A changed file.
#[derive(Debug)]
struct Change {
    bytes: Vec<u8>,
    occurrences: usize,
    lines: Vec<u64>,
}

/// Why a file was not changed.
#[derive(Debug)]
enum NoChange {
    /// The text does not occur.
    Missing,
    /// The text occurs more than once: how often, and the first lines.
    Several(usize, Vec<u64>),
    /// The file would become too large.
    TooLarge,
}

fn change(file: &[u8], args: &Args) -> Result<Change, NoChange> {
    // Models write LF. If the file uses CRLF, the model's LF is converted.
    let is_crlf = uses_crlf(file);
    let plain = (args.old_text.as_str(), with_line_endings(&args.new_text, is_crlf));
    let converted =
        (with_line_endings(&args.old_text, is_crlf), with_line_endings(&args.new_text, is_crlf));
    let mut found = occurrences(file, converted.0.as_bytes(), args.all);
    let (mut old, mut new) = (converted.0.as_ref(), converted.1);
    if found.1 == 0 && old != plain.0 {
        // Mixed line endings: the text may occur with LF.
        found = occurrences(file, plain.0.as_bytes(), args.all);
        (old, new) = (plain.0, Cow::Borrowed(args.new_text.as_str()));
    }
    let (first, total) = found;
    let lines = line_numbers(file, first);
    match (total, args.all) {
        (0, _) => Err(NoChange::Missing),
        (1, _) | (_, true) => {
            let grown = (new.len() as u64).saturating_mul(total as u64);
            if grown.saturating_add(file.len() as u64) > MAX_FILE_BYTES * 2 {
                return Err(NoChange::TooLarge);
            }
            let mut bytes = Vec::with_capacity(file.len());
            let mut from = 0;
            for start in memmem::find_iter(file, old) {
                bytes.extend_from_slice(&file[from..start]);
                bytes.extend_from_slice(new.as_bytes());
                from = start + old.len();
            }
            bytes.extend_from_slice(&file[from..]);
            Ok(Change { bytes, occurrences: total, lines })
        }
        (total, false) => Err(NoChange::Several(total, lines)),
    }
}

/// Finds the first occurrences of a text and counts all. Not all are kept: one byte may occur as
/// often as the file is long.
fn occurrences(file: &[u8], text: &[u8], all: bool) -> (Vec<usize>, usize) {
    if text.is_empty() {
        return (Vec::new(), 0);
    }
    let finder = memmem::Finder::new(text);
    let first: Vec<usize> = finder.find_iter(file).take(MAX_LINES_NAMED).collect();
    if let (false, [only]) = (all, first.as_slice()) {
        // An overlapping occurrence makes the replacement ambiguous.
        let rest = file.get(only + 1..).unwrap_or_default();
        if let Some(second) = finder.find(rest) {
            return (vec![*only, only + 1 + second], 2);
        }
    }
    let total =
        if first.len() < MAX_LINES_NAMED { first.len() } else { finder.find_iter(file).count() };
    (first, total)
}

/// Returns whether a file uses CRLF, judged by its first line.
fn uses_crlf(file: &[u8]) -> bool {
    memchr::memchr(b'\n', file).is_some_and(|at| at > 0 && file.get(at - 1) == Some(&b'\r'))
}

/// Converts a text to the line endings of the file.
fn with_line_endings(text: &str, is_crlf: bool) -> Cow<'_, str> {
    if is_crlf && text.contains('\n') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\n', "\r\n"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Returns the line numbers of sorted offsets, in one pass over the file.
fn line_numbers(file: &[u8], occurrences: impl IntoIterator<Item = usize>) -> Vec<u64> {
    let (mut line, mut from) = (1, 0);
    let number = |at: usize| {
        line += memchr::memchr_iter(b'\n', &file[from..at]).count() as u64;
        from = at;
        line
    };
    occurrences.into_iter().map(number).collect()
}

impl NoChange {
    fn failure(self, path: &str, file: &[u8], args: &Args) -> Failure {
        match self {
            Self::Missing => {
                let text = String::from_utf8_lossy(file);
                let near = nearest::nearest(&text, &args.old_text);
                let failure = format!("`old_text` was not found in `{path}`");
                match near {
                    Some(near) => Failure::invalid(format!("{failure}. {near}"))
                        .with_next("repeat the call with the exact text of the file"),
                    None => Failure::invalid(format!("{failure}, and there is no similar text"))
                        .with_next("read the file, then use its exact text"),
                }
            }
            Self::Several(total, lines) => {
                let dots = if total > lines.len() { ", …" } else { "" };
                let lines: Vec<String> = lines.iter().map(u64::to_string).collect();
                Failure::invalid(format!(
                    "`old_text` occurs {total} times in `{path}`: at lines {}{dots}",
                    lines.join(", ")
                ))
                .with_next("add surrounding lines until it is unique, or set `all`")
            }
            Self::TooLarge => Failure::invalid(format!("`{path}` would become too large"))
                .with_next("use a shorter `new_text`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(file: &str, old: &str, new: &str, all: bool) -> Result<String, NoChange> {
        let args = Args {
            file_path: "f".to_owned(),
            old_text: old.to_owned(),
            new_text: new.to_owned(),
            all,
        };
        change(file.as_bytes(), &args).map(|change| String::from_utf8(change.bytes).unwrap())
    }

    #[test]
    fn only_the_exact_text_is_replaced() {
        assert_eq!(changed("one two three", "two", "2", false).unwrap(), "one 2 three");
        assert_eq!(changed("a a a", "a", "bb", true).unwrap(), "bb bb bb");
        assert_eq!(changed("x", "x", "", false).unwrap(), "");
        assert!(matches!(changed("abc", "B", "", false), Err(NoChange::Missing)));
    }

    #[test]
    fn ambiguous_text_is_refused_with_its_lines() {
        let failure = changed("a\nb\na\n", "a", "c", false).unwrap_err();
        assert!(matches!(&failure, NoChange::Several(2, lines) if *lines == [1, 3]), "{failure:?}");
        let many = "a\n".repeat(1_000);
        let failure = changed(&many, "a", "c", false).unwrap_err();
        assert!(
            matches!(&failure, NoChange::Several(1_000, lines) if lines.len() == MAX_LINES_NAMED),
            "{failure:?}"
        );
        assert_eq!(changed(&many, "a", "bc", true).unwrap(), "bc\n".repeat(1_000));
        let overlapping = changed("aaa", "aa", "b", false).unwrap_err();
        assert!(matches!(overlapping, NoChange::Several(2, _)));
    }

    #[test]
    fn line_endings_are_preserved() {
        let file = "one\r\ntwo\r\nthree\r\n";
        assert_eq!(changed(file, "one\ntwo", "1\n2", false).unwrap(), "1\r\n2\r\nthree\r\n");
        assert_eq!(changed(file, "two", "2\n2b", false).unwrap(), "one\r\n2\r\n2b\r\nthree\r\n");
        assert_eq!(changed(file, "one\r\ntwo", "1\r\n2", false).unwrap(), "1\r\n2\r\nthree\r\n");
        assert_eq!(changed("a\nb\n", "a\n", "c\n", false).unwrap(), "c\nb\n");
        let mixed = "one\r\ntwo\nthree\n";
        assert_eq!(changed(mixed, "two\nthree", "2\n3", false).unwrap(), "one\r\n2\n3\n");
    }

    #[test]
    fn binary_bytes_are_preserved() {
        let file = b"\xff\xfe keep \x00 this";
        let args = Args {
            file_path: "f".to_owned(),
            old_text: "this".to_owned(),
            new_text: "that".to_owned(),
            all: false,
        };
        assert_eq!(change(file, &args).unwrap().bytes, b"\xff\xfe keep \x00 that");
    }
}
