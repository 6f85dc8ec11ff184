//! `list_files`: lists a directory with sizes, or finds files by glob.

use std::{fmt::Write as _, sync::Arc};

use haft_core::{
    CallProfile, Failure, Operation, OtherNames, ResultLimit, Tool, ToolContext, ToolSpec,
    schemars::JsonSchema, serde::Deserialize,
};
use haft_sandbox::{FileKind, PathErrorKind, WalkEntry};

use super::{
    filtered_walk::{EntryFilter, FilteredWalk},
    paths::{self, Files, PathAccess, count, stopped},
    read_only_spec,
};

/// Default number of entries.
const DEFAULT_ENTRIES: usize = 500;
/// Maximum number of entries.
const MAX_ENTRIES: usize = 5_000;
/// Maximum bytes of entries.
const MAX_LIST_BYTES: usize = 96_000;
/// Additional bytes for the last entry and the notes.
const NOTES_BYTES: usize = 5_000;

/// The tool `list_files`.
#[derive(Debug)]
pub(super) struct ListFiles(pub(super) Files);

/// Arguments of `list_files`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(crate = "haft_core::serde")]
#[schemars(crate = "haft_core::schemars")]
pub(super) struct Args {
    /// Directory to list; default: the working directory.
    #[schemars(length(min = 1), extend("x-haft" = "read_path"))]
    path: Option<String>,
    /// File pattern such as `*.rs` (at any depth) or `src/**/*.ts` (from the directory on).
    #[schemars(length(min = 1, max = 1000))]
    pattern: Option<String>,
    /// Maximum depth: 1 is the directory alone. Default: 1, or all levels with a pattern.
    #[schemars(range(min = 1, max = 64))]
    depth: Option<usize>,
    /// Also lists hidden files and files that ignore files exclude.
    #[serde(default)]
    all: bool,
    /// Maximum number of entries; default: 500.
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
        read_only_spec(
            "list_files",
            "Lists a directory, or finds files by a pattern. Each line is a path, a tab and a \
             size in bytes; directories end with a slash. Hidden and ignored files are skipped \
             unless `all` is set.",
        )
        .max_result(ResultLimit::Chars(MAX_LIST_BYTES + NOTES_BYTES))
    }

    fn profile(&self, declared: CallProfile, args: &Args, cx: &ToolContext) -> CallProfile {
        let resolved = self.0.find(args.path(), cx).ok();
        let access = PathAccess { path: args.path(), operation: Operation::Read, resolved };
        paths::declare(declared, &[access])
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
    let start = files.authorized(args.path(), cx)?;
    let mut wanted = EntryFilter::new(&start, args.pattern.as_slice(), None)?;
    wanted.all = args.all;
    wanted.depth = match (args.depth, &args.pattern) {
        (Some(depth), _) => depth,
        (None, None) => 1,
        (None, Some(_)) => wanted.depth,
    };
    let wanted = Arc::new(wanted);
    let mut visit = FilteredWalk::new(files.workspace(), &start, Arc::clone(&wanted), cx).map_err(
        |refusal| match refusal.cause() {
            PathErrorKind::NotADirectory => Failure::from(refusal)
                .with_next("name a directory, or read the file with read_file"),
            _ => refusal.into(),
        },
    )?;
    let limit = args.limit.unwrap_or(DEFAULT_ENTRIES).min(MAX_ENTRIES);
    let (mut text, mut shown, mut more, mut kept) = (String::new(), 0, false, 0);
    for entry in visit.by_ref() {
        if cx.is_cancelled() {
            return Err(stopped());
        }
        let is_directory = entry.kind() == FileKind::Directory;
        if !wanted.names(entry.resolved().relative(), is_directory) {
            continue;
        }
        if shown == limit || text.len() >= MAX_LIST_BYTES {
            more = true;
            break;
        }
        match write_entry(&mut text, &entry, cx) {
            EntryStatus::Line => shown += 1,
            EntryStatus::Gone => {}
            EntryStatus::Kept => kept += 1,
        }
    }
    let mut notes = Vec::new();
    if shown == 0 {
        notes.push(match &args.pattern {
            None => "no entries".to_owned(),
            Some(pattern) => format!("nothing matches `{pattern}`"),
        });
    }
    if more {
        notes.push(format!(
            "{} shown, and there are more; list a subdirectory, or use a pattern",
            count(shown as u64, "entry").replace("entrys", "entries")
        ));
    }
    if visit.is_cut {
        notes.push("the entry limit was reached; not all entries were visited".to_owned());
    }
    // A depth that the call requested needs no note.
    if visit.too_deep > 0 && args.depth.is_none() && args.pattern.is_some() {
        notes.push(paths::stopped_at_depth(wanted.depth, visit.too_deep, "listed"));
    }
    if visit.trouble + kept > 0 {
        notes.push(format!("{} could not be read", visit.trouble + kept));
    }
    if !notes.is_empty() {
        let _ = write!(text, "[{start}: {}]", notes.join("; "));
    }
    Ok(text.trim_end_matches('\n').to_owned())
}

/// What happened to an entry.
enum EntryStatus {
    Line,
    /// The file was deleted after its directory was read.
    Gone,
    /// A rule denies another name of the file (hard link).
    Kept,
}

/// Writes one line.
fn write_entry(text: &mut String, entry: &WalkEntry, cx: &ToolContext) -> EntryStatus {
    let path = paths::shown(entry.resolved());
    let _ = match entry.kind() {
        FileKind::File => match entry.meta() {
            Ok(meta) => {
                let others = paths::other_names(entry.resolved(), &meta, Operation::Read, cx);
                if others == OtherNames::Denied {
                    return EntryStatus::Kept;
                }
                writeln!(text, "{path}\t{}", meta.size)
            }
            Err(_) => return EntryStatus::Gone,
        },
        FileKind::Directory => writeln!(text, "{path}/"),
        FileKind::Symlink => writeln!(text, "{path}\tsymlink"),
        FileKind::Special => writeln!(text, "{path}\tspecial file"),
    };
    EntryStatus::Line
}
