//! `read_file`: reads a range of numbered lines.

use std::io::{Cursor, Read as _};

use haft_core::{
    CallProfile, Failure, FailureCode, Operation, ResultLimit, Tool, ToolContext, ToolSpec,
    schemars::JsonSchema, serde::Deserialize,
};
use haft_sandbox::{PathError, PathErrorKind};

use super::{
    binary,
    lines::{self, NoPage, Page, Range, Rest},
    paths::{self, Files, PathAccess, count, stopped, unreadable},
    read_only_spec,
    utf16::{self, Utf16Reader},
};

/// Default number of lines.
const DEFAULT_LINES: u64 = 2_000;
/// Maximum bytes of a page: about twenty-five thousand tokens.
const MAX_PAGE_BYTES: usize = 96_000;
/// Additional bytes for the last line and the notes.
const NOTES_BYTES: usize = lines::MAX_LINE_BYTES + 1_000;

/// The tool `read_file`.
#[derive(Debug)]
pub(super) struct ReadFile(pub(super) Files);

/// Arguments of `read_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(crate = "haft_core::serde")]
#[schemars(crate = "haft_core::schemars")]
pub(super) struct Args {
    /// Path of the file, absolute or relative to the working directory.
    #[schemars(length(min = 1), extend("x-haft" = "read_path"))]
    file_path: String,
    /// Line to start at, from 1.
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// Maximum number of lines; default: 2000.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

impl Tool for ReadFile {
    type Args = Args;
    type Output = String;

    const GUARDS: bool = false;

    fn spec(&self) -> ToolSpec {
        read_only_spec(
            "read_file",
            "Reads a text file. Each line starts with its number and a tab. Large files are read \
             in parts with `offset` and `limit`; the result says how to continue. A binary file is \
             described.",
        )
        .max_result(ResultLimit::Chars(MAX_PAGE_BYTES + NOTES_BYTES))
    }

    fn profile(&self, declared: CallProfile, args: &Args, cx: &ToolContext) -> CallProfile {
        let resolved = self.0.find(&args.file_path, cx).ok();
        let access = PathAccess { path: &args.file_path, operation: Operation::Read, resolved };
        paths::declare(declared, &[access])
    }

    async fn check(&self, args: &Args, cx: &ToolContext) -> Result<(), Failure> {
        self.0.find(&args.file_path, cx)?;
        Ok(())
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, Failure> {
        let files = self.0.clone();
        cx.spawn_blocking(move |cx| read(&files, &args, cx)).await?
    }
}

fn read(files: &Files, args: &Args, cx: &ToolContext) -> Result<String, Failure> {
    let resolved = files.authorized(&args.file_path, cx)?;
    let mut opened =
        files.workspace().open(&resolved).map_err(|refusal| explain(refusal, files, args, cx))?;
    paths::check_other_names(&resolved, &opened.meta, Operation::Read, cx)?;
    let size = opened.meta.size;
    let mut head = Vec::new();
    let io = |e| unreadable(&resolved, e);
    (&mut opened.file).take(binary::INSPECTED_BYTES as u64).read_to_end(&mut head).map_err(io)?;
    let utf16_decoder = utf16::decoder(&head);
    if utf16_decoder.is_none() && binary::is_binary(&head) {
        return Ok(binary::describe(&head, size));
    }
    let from = args.offset.unwrap_or(1);
    let mark = if utf16_decoder.is_some() { 2 } else { 0 };
    if head.len() == mark && from == 1 {
        return Ok(format!("[{resolved}: the file is empty]"));
    }
    let range =
        Range { from, limit: args.limit.unwrap_or(DEFAULT_LINES), max_bytes: MAX_PAGE_BYTES };
    let stop = || cx.is_cancelled();
    let whole = Cursor::new(head.split_off(mark)).chain(opened.file);
    let is_utf16 = utf16_decoder.is_some();
    let page = match utf16_decoder {
        // The size in UTF-8 is unknown; for most texts it is half.
        Some(decoder) => lines::page(Utf16Reader::new(whole, decoder), size / 2, range, &stop),
        None => lines::page(whole, size, range, &stop),
    };
    match page {
        Ok(page) => Ok(shown(page, &resolved.to_string(), from, is_utf16)),
        Err(NoPage::PastEnd(0)) => Err(past_end(from, "is empty", "leave `offset` out")),
        Err(NoPage::PastEnd(lines)) => {
            let next = format!("use an `offset` from 1 to {lines}");
            Err(past_end(from, &format!("has {}", count(lines, "line")), &next))
        }
        Err(NoPage::Stopped) => Err(stopped()),
        Err(NoPage::Io(e)) => Err(io(e)),
    }
}

fn past_end(from: u64, has: &str, next: &str) -> Failure {
    Failure::new(FailureCode::InvalidValue, format!("`offset` is {from}, and the file {has}"))
        .with_next(next)
}

/// Formats the page and its notes.
fn shown(page: Page, path: &str, from: u64, is_utf16: bool) -> String {
    let last = from + page.shown.saturating_sub(1);
    let mut notes = Vec::new();
    let follow = match page.rest {
        Rest::Nothing => None,
        Rest::Lines(1) => Some("1 more line follows".to_owned()),
        Rest::Lines(lines) => Some(format!("{lines} more lines follow")),
        Rest::Bytes(bytes) => Some(format!("{bytes} more bytes follow")),
    };
    if let Some(follow) = follow {
        notes.push(format!("lines {from} to {last}; {follow}; continue with offset {}", last + 1));
    }
    if page.truncated > 0 {
        notes.push(format!("{} truncated", count(page.truncated, "long line")));
    }
    if page.crlf > 0 {
        notes.push("lines end with CRLF".to_owned());
    }
    if is_utf16 {
        notes.push("the file is UTF-16".to_owned());
    }
    let mut text = page.text;
    if !notes.is_empty() {
        text.push_str(&format!("\n[{path}: {}]", notes.join("; ")));
    }
    text
}

/// Adds a similar name, if there is one.
fn explain(refusal: PathError, files: &Files, args: &Args, cx: &ToolContext) -> Failure {
    match refusal.cause() {
        PathErrorKind::IsADirectory => Failure::from(refusal).with_next("list it with list_files"),
        PathErrorKind::NotFound => match files.similar(&args.file_path, cx) {
            Some(path) => Failure::from(refusal).with_next(format!("did you mean `{path}`?")),
            None => refusal.into(),
        },
        _ => refusal.into(),
    }
}
