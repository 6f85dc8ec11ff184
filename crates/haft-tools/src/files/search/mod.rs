//! `search_files`: searches files for a regular expression.
//!
//! Uses ripgrep's searcher and matcher on bytes. The workspace opens each entry without following a
//! symlink. Matching takes linear time (no ReDoS).

mod parallel;
mod matches;
mod report;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use haft_core::{
    CallProfile, Failure, Operation, Output, ResultLimit, Tool, ToolContext, ToolSpec,
    schemars::JsonSchema, serde::Deserialize,
};
use haft_sandbox::{FileKind, ResolvedPath};

use self::parallel::ParallelSearch;
use super::{
    filtered_walk::EntryFilter,
    paths::{self, Files, PathAccess},
    read_only_spec,
};

/// Default number of matching lines or files.
const DEFAULT_LIMIT: u64 = 200;
/// Maximum bytes of matches.
const MAX_TEXT_BYTES: usize = 64_000;
/// Additional bytes for the last lines and the notes.
const NOTES_BYTES: usize = 5_000;
/// Maximum size of a compiled expression.
const MAX_REGEX_BYTES: usize = 10 << 20;

/// The tool `search_files`.
#[derive(Debug)]
pub(super) struct SearchFiles(pub(super) Files);

/// Arguments of `search_files`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(crate = "haft_core::serde")]
#[schemars(crate = "haft_core::schemars")]
pub(super) struct Args {
    /// Regular expression, matched line by line.
    #[schemars(length(min = 1, max = 4000))]
    pattern: String,
    /// File or directory to search; default: the working directory.
    #[schemars(length(min = 1), extend("x-haft" = "read_path"))]
    path: Option<String>,
    /// Treats the pattern as plain text.
    #[serde(default)]
    literal: bool,
    /// Ignores case.
    #[serde(default)]
    ignore_case: bool,
    /// Only files that match one of these patterns: `*.rs`, `src/**`; `!*.md` excludes files.
    #[serde(default)]
    globs: Vec<String>,
    /// Only files of this type: `rust`, `py`, `ts`, `md`, ….
    #[serde(rename = "type")]
    file_type: Option<String>,
    /// Lines to show before and after each match.
    #[schemars(range(max = 20))]
    context: Option<usize>,
    /// What to return.
    #[serde(default)]
    mode: Mode,
    /// Maximum number of matching lines or files; default: 200.
    #[schemars(range(min = 1, max = 2000))]
    limit: Option<u64>,
    /// Also searches hidden files and files that ignore files exclude.
    #[serde(default)]
    all: bool,
}

/// What a search returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(crate = "haft_core::serde", rename_all = "snake_case")]
#[schemars(crate = "haft_core::schemars")]
enum Mode {
    /// The matching lines, with their numbers.
    #[default]
    Lines,
    /// The paths of files with a match.
    Files,
    /// The number of matching lines of each file.
    Count,
}

impl Args {
    fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(".")
    }
}

impl Tool for SearchFiles {
    type Args = Args;
    type Output = Output;

    const GUARDS: bool = false;

    fn spec(&self) -> ToolSpec {
        read_only_spec(
            "search_files",
            "Searches files for a regular expression. Matching lines are listed below the path of \
             their file, as `number:text`. Hidden, ignored and binary files are skipped; `all` \
             includes the first two. Narrow the search with `path`, `globs` or `type`.",
        )
        .max_result(ResultLimit::Chars(MAX_TEXT_BYTES + NOTES_BYTES))
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

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<Output, Failure> {
        let matcher = compile_regex(&args)?;
        let search = ParallelSearch::new(self.0.clone(), args, matcher);
        search.run(cx).await
    }
}

/// Where a search starts.
enum Start {
    File(ResolvedPath),
    Directory(ResolvedPath),
}

impl Start {
    fn find(files: &Files, args: &Args, cx: &ToolContext) -> Result<Self, Failure> {
        let resolved = files.authorized(args.path(), cx)?;
        match files.workspace().meta(&resolved)?.kind {
            FileKind::Directory => Ok(Self::Directory(resolved)),
            _ => Ok(Self::File(resolved)),
        }
    }
}

fn wanted(start: &ResolvedPath, args: &Args) -> Result<EntryFilter, Failure> {
    let mut wanted = EntryFilter::new(start, &args.globs, args.file_type.as_deref())?;
    wanted.all = args.all;
    Ok(wanted)
}

fn compile_regex(args: &Args) -> Result<RegexMatcher, Failure> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(args.ignore_case)
        .fixed_strings(args.literal)
        .line_terminator(Some(b'\n'))
        .size_limit(MAX_REGEX_BYTES)
        .dfa_size_limit(MAX_REGEX_BYTES);
    builder.build(&args.pattern).map_err(|e| {
        let why = e.to_string();
        // The text before it shows the expression as wrapped by the searcher, not as the model
        // wrote it.
        let why = why.rsplit("error: ").next().unwrap_or_default().trim();
        Failure::invalid(format!("`pattern` is not a valid regular expression: {why}")).with_next(
            "fix it, or set `literal` to search for plain text; a pattern is matched within one \
             line, without look-around or back-references",
        )
    })
}
