//! `list_files`: what is in a folder, by name, with sizes.

use std::{fmt::Write as _, sync::Arc};

use haft_core::{
    CallProfile, Failure, Operation, OtherNames, ResultLimit, Tool, ToolContext, ToolSpec,
    schemars::JsonSchema, serde::Deserialize,
};
use haft_sandbox::{Entry, FileKind, PathErrorKind};

use super::{
    looks,
    place::{self, Files, Touch, count, stopped},
    rules::{Visit, Wanted},
};

/// Entries of an answer, unless more or fewer are asked for.
const ENTRIES: usize = 500;
/// The most that can be asked for.
const MOST: usize = 5_000;
/// Bytes of an answer.
const ROOM: usize = 96_000;
/// What the last entry and the line below may take besides.
const FOOTER: usize = 5_000;

/// Lists files of the workspace.
#[derive(Debug)]
pub(super) struct ListFiles(pub(super) Files);

/// What `list_files` is asked.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(crate = "haft_core::serde")]
#[schemars(crate = "haft_core::schemars")]
pub(super) struct Args {
    /// Folder to list; the working folder when left out.
    #[schemars(length(min = 1), extend("x-haft" = "read_path"))]
    path: Option<String>,
    /// File pattern such as `*.rs` (at any depth) or `src/**/*.ts` (from the folder on).
    #[schemars(length(min = 1, max = 1000))]
    pattern: Option<String>,
    /// How many levels to go down: 1 is the folder alone. Without it 1, or all with a pattern.
    #[schemars(range(min = 1, max = 64))]
    depth: Option<usize>,
    /// Also lists hidden files and those that ignore files name.
    #[serde(default)]
    all: bool,
    /// How many entries to return; 500 when left out.
    #[schemars(range(min = 1, max = 5000))]
    limit: Option<usize>,
}

impl Args {
    fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(".")
    }
}

impl Tool for ListFiles {
    type Args = Args;
    type Output = String;

    const GUARDS: bool = false;

    fn spec(&self) -> ToolSpec {
        looks(
            "list_files",
            "Lists a folder, or finds files by a pattern. Each line is a path, a tab and a size in \
             bytes; folders end with a slash. Hidden and ignored files are left out unless `all` is \
             set.",
        )
        .max_result(ResultLimit::Chars(ROOM + FOOTER))
    }

    fn profile(&self, declared: CallProfile, args: &Args, cx: &ToolContext) -> CallProfile {
        let place = self.0.find(args.path(), cx).ok();
        let touch = Touch { path: args.path(), operation: Operation::Read, place };
        place::claim(declared, &[touch])
    }

    async fn check(&self, args: &Args, cx: &ToolContext) -> Result<(), Failure> {
        self.0.find(args.path(), cx)?;
        Ok(())
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, Failure> {
        let files = self.0.clone();
        cx.spawn_blocking(move |cx| list(&files, &args, cx)).await?
    }
}

fn list(files: &Files, args: &Args, cx: &ToolContext) -> Result<String, Failure> {
    let start = files.judged(args.path(), cx)?;
    let mut wanted = Wanted::new(&start, args.pattern.as_slice(), None)?;
    wanted.all = args.all;
    wanted.depth = match (args.depth, &args.pattern) {
        (Some(depth), _) => depth,
        (None, None) => 1,
        (None, Some(_)) => wanted.depth,
    };
    let wanted = Arc::new(wanted);
    let mut visit =
        Visit::new(files.workspace(), &start, Arc::clone(&wanted), cx).map_err(|refusal| {
            match refusal.cause() {
                PathErrorKind::NotAFolder => Failure::from(refusal)
                    .with_next("name a folder, or read the file with read_file"),
                _ => refusal.into(),
            }
        })?;
    let limit = args.limit.unwrap_or(ENTRIES).min(MOST);
    let (mut text, mut shown, mut more, mut kept) = (String::new(), 0, false, 0);
    for entry in visit.by_ref() {
        if cx.is_cancelled() {
            return Err(stopped());
        }
        let is_folder = entry.kind() == FileKind::Folder;
        if !wanted.names(entry.place().relative(), is_folder) {
            continue;
        }
        if shown == limit || text.len() >= ROOM {
            more = true;
            break;
        }
        match write_entry(&mut text, &entry, cx) {
            Written::Line => shown += 1,
            Written::Gone => {}
            Written::Kept => kept += 1,
        }
    }
    let mut notes = Vec::new();
    if shown == 0 {
        notes.push(match &args.pattern {
            None => "nothing is there".to_owned(),
            Some(pattern) => format!("nothing matches `{pattern}`"),
        });
    }
    if more {
        notes.push(format!(
            "{} shown, and there are more; list a folder below, or use a pattern",
            count(shown as u64, "entry").replace("entrys", "entries")
        ));
    }
    if visit.is_cut {
        notes.push("there is more or deeper than is gone through".to_owned());
    }
    // A depth that the call asked for is no news.
    if visit.too_deep > 0 && args.depth.is_none() && args.pattern.is_some() {
        notes.push(place::stopped_at_depth(wanted.depth, visit.too_deep, "listed"));
    }
    if visit.trouble + kept > 0 {
        notes.push(format!("{} could not be looked at", visit.trouble + kept));
    }
    if !notes.is_empty() {
        let _ = write!(text, "[{start}: {}]", notes.join("; "));
    }
    Ok(text.trim_end_matches('\n').to_owned())
}

/// What became of an entry.
enum Written {
    Line,
    /// The file is gone since its folder was read.
    Gone,
    /// A rule keeps the file under another of its names.
    Kept,
}

/// Writes one line.
fn write_entry(text: &mut String, entry: &Entry, cx: &ToolContext) -> Written {
    let path = place::shown(entry.place());
    let _ = match entry.kind() {
        FileKind::File => match entry.meta() {
            Ok(meta) => {
                let others = place::other_names(entry.place(), &meta, Operation::Read, cx);
                if others == OtherNames::Kept {
                    return Written::Kept;
                }
                writeln!(text, "{path}\t{}", meta.size)
            }
            Err(_) => return Written::Gone,
        },
        FileKind::Folder => writeln!(text, "{path}/"),
        FileKind::Link => writeln!(text, "{path}\tlink"),
        FileKind::Special => writeln!(text, "{path}\tspecial file"),
    };
    Written::Line
}
