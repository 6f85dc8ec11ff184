//! `read_file`: some lines of a file, numbered.

use std::io::{Cursor, Read as _};

use haft_core::{
    CallProfile, Failure, FailureCode, Operation, ResultLimit, Tool, ToolContext, ToolSpec,
    schemars::JsonSchema, serde::Deserialize,
};
use haft_sandbox::{PathError, PathErrorKind};

use super::{
    binary,
    lines::{self, NoPage, Page, Range, Rest},
    looks,
    place::{self, Files, Touch, count, stopped, unreadable},
    wide::{self, Wide},
};

/// Lines of a page, unless more or fewer are asked for.
const LINES: u64 = 2_000;
/// Bytes of a page; about twenty-five thousand tokens, more than a model reads with care.
const ROOM: usize = 96_000;
/// What the last line of a page and the line below it may take besides.
const FOOTER: usize = lines::LONGEST + 1_000;

/// Reads a file of the workspace.
#[derive(Debug)]
pub(super) struct ReadFile(pub(super) Files);

/// What `read_file` is asked.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(crate = "haft_core::serde")]
#[schemars(crate = "haft_core::schemars")]
pub(super) struct Args {
    /// Path of the file, absolute or relative to the working folder.
    #[schemars(length(min = 1), extend("x-haft" = "read_path"))]
    file_path: String,
    /// Line to start at, from 1.
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// How many lines to return; 2000 when left out.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

impl Tool for ReadFile {
    type Args = Args;
    type Output = String;

    const GUARDS: bool = false;

    fn spec(&self) -> ToolSpec {
        looks(
            "read_file",
            "Reads a text file. Each line comes with its number and a tab before it. Large files are \
             read in parts with `offset` and `limit`; the answer says how to go on. A file that is \
             no text is described.",
        )
        .max_result(ResultLimit::Chars(ROOM + FOOTER))
    }

    fn profile(&self, declared: CallProfile, args: &Args, cx: &ToolContext) -> CallProfile {
        let place = self.0.find(&args.file_path, cx).ok();
        let touch = Touch { path: &args.file_path, operation: Operation::Read, place };
        place::claim(declared, &[touch])
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
    let place = files.judged(&args.file_path, cx)?;
    let mut opened =
        files.workspace().open(&place).map_err(|refusal| explain(refusal, files, args, cx))?;
    place::check_other_names(&place, &opened.meta, Operation::Read, cx)?;
    let size = opened.meta.size;
    let mut head = Vec::new();
    let io = |e| unreadable(&place, e);
    (&mut opened.file).take(binary::LOOK as u64).read_to_end(&mut head).map_err(io)?;
    let wide = wide::decoder(&head);
    if wide.is_none() && binary::is_binary(&head) {
        return Ok(binary::describe(&head, size));
    }
    let from = args.offset.unwrap_or(1);
    let mark = if wide.is_some() { 2 } else { 0 };
    if head.len() == mark && from == 1 {
        return Ok(format!("[{place}: the file is empty]"));
    }
    let range = Range { from, limit: args.limit.unwrap_or(LINES), room: ROOM };
    let stop = || cx.is_cancelled();
    let whole = Cursor::new(head.split_off(mark)).chain(opened.file);
    let is_wide = wide.is_some();
    let page = match wide {
        // How long it is in UTF-8 nobody knows; most of it is half as long.
        Some(decoder) => lines::page(Wide::new(whole, decoder), size / 2, range, &stop),
        None => lines::page(whole, size, range, &stop),
    };
    match page {
        Ok(page) => Ok(shown(page, &place.to_string(), from, is_wide)),
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

/// The page, and below it what is not to be seen from it.
fn shown(page: Page, path: &str, from: u64, is_wide: bool) -> String {
    let last = from + page.shown.saturating_sub(1);
    let mut notes = Vec::new();
    let follow = match page.rest {
        Rest::Nothing => None,
        Rest::Lines(1) => Some("1 more line follows".to_owned()),
        Rest::Lines(lines) => Some(format!("{lines} more lines follow")),
        Rest::Bytes(bytes) => Some(format!("{bytes} more bytes follow")),
    };
    if let Some(follow) = follow {
        notes.push(format!("lines {from} to {last}; {follow}; go on with offset {}", last + 1));
    }
    if page.cut > 0 {
        notes.push(format!("{} cut", count(page.cut, "long line")));
    }
    if page.carriage > 0 {
        notes.push("lines end with CRLF".to_owned());
    }
    if is_wide {
        notes.push("the file is UTF-16".to_owned());
    }
    let mut text = page.text;
    if !notes.is_empty() {
        text.push_str(&format!("\n[{path}: {}]", notes.join("; ")));
    }
    text
}

/// Adds the name that was meant, where one is close.
fn explain(refusal: PathError, files: &Files, args: &Args, cx: &ToolContext) -> Failure {
    match refusal.cause() {
        PathErrorKind::IsAFolder => Failure::from(refusal).with_next("list it with list_files"),
        PathErrorKind::NotFound => match files.similar(&args.file_path, cx) {
            Some(path) => Failure::from(refusal).with_next(format!("did you mean `{path}`?")),
            None => refusal.into(),
        },
        _ => refusal.into(),
    }
}
