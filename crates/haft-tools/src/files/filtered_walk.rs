//! Walks a directory and filters entries: hidden files, ignore files (`.gitignore`), globs and file
//! types of the call.
//!
//! Entries come from the workspace's walk, and ignore files are opened through its directory file
//! descriptors. Patterns only compare text; nothing is opened by path.

use std::{path::Path, sync::Arc};

use haft_core::{Failure, Operation, ToolContext};
use haft_sandbox::{
    FileKind, PathError, PathErrorKind, ResolvedPath, Walk, WalkEntry, WalkLimits, Workspace,
};
use ignore::{
    gitignore::{Gitignore, GitignoreBuilder},
    overrides::{Override, OverrideBuilder},
    types::{Types, TypesBuilder},
};

/// Maximum number of entries of one walk.
const MAX_ENTRIES: usize = 1_000_000;
/// Larger ignore files are skipped.
const MAX_IGNORE_FILE_BYTES: usize = 1 << 20;
/// Maximum number of ignore lines active at once, for a directory and its ancestors. Each costs
/// some kilobytes when compiled, and a hostile project has many.
const MAX_IGNORE_LINES: usize = 10_000;
/// Maximum number of ignore lines compiled in one walk.
const MAX_IGNORE_LINES_TOTAL: usize = 200_000;
/// Names of ignore files, the one with higher precedence last.
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];
/// Maximum number of globs of one call.
const MAX_GLOBS: usize = 100;

/// What a call wants to see.
#[derive(Debug)]
pub(super) struct EntryFilter {
    globs: Override,
    types: Types,
    /// Includes hidden and ignored entries.
    pub(super) all: bool,
    /// Maximum depth.
    pub(super) depth: usize,
}

impl EntryFilter {
    /// Compiles the globs of a call, relative to the start directory.
    pub(super) fn new(
        start: &ResolvedPath,
        globs: &[String],
        file_type: Option<&str>,
    ) -> Result<Self, Failure> {
        if globs.len() > MAX_GLOBS {
            return Err(Failure::invalid(format!("there are more than {MAX_GLOBS} patterns"))
                .with_next("use fewer"));
        }
        let bad = |glob: &str, e: &ignore::Error| {
            Failure::invalid(format!("`{glob}` is not a valid file pattern: {e}"))
                .with_next("write it like `*.rs`, `src/**/*.ts` or `!*.min.js`")
        };
        let mut builder = OverrideBuilder::new(start.relative());
        for glob in globs {
            builder.add(glob).map_err(|e| bad(glob, &e))?;
        }
        let globs = builder.build().map_err(|e| bad(&globs.join(" "), &e))?;
        let types = match file_type {
            None => Types::empty(),
            Some(name) => {
                let mut builder = TypesBuilder::new();
                builder.add_defaults().select(name);
                builder.build().map_err(|_| {
                    Failure::invalid(format!("`{name}` is not a known file type")).with_next(
                        "use a name such as `rust`, `py`, `ts`, `md`, or `globs` instead",
                    )
                })?
            }
        };
        Ok(Self { globs, types, all: false, depth: WalkLimits::default().depth })
    }

    /// Returns whether a glob matches this entry itself.
    pub(super) fn names(&self, path: &Path, is_directory: bool) -> bool {
        self.globs.is_empty() || self.globs.matched(path, is_directory).is_whitelist()
    }
}

/// A filtered walk through a directory.
#[derive(Debug)]
pub(super) struct FilteredWalk {
    wanted: Arc<EntryFilter>,
    walk: Walk,
    /// The call; used to skip paths that rules deny.
    cx: ToolContext,
    /// Ignore rules of each level; those above the start come first. A directory's files are read
    /// when its first entry arrives.
    ignores: Vec<Option<Ignores>>,
    above: usize,
    /// Ignore lines that may still be compiled.
    lines_left: usize,
    /// Whether the walk hit its entry limit.
    pub(super) is_cut: bool,
    /// Number of directories not entered because of the depth limit.
    pub(super) too_deep: usize,
    /// Number of entries that could not be read.
    pub(super) trouble: usize,
}

impl FilteredWalk {
    pub(super) fn new(
        workspace: &Workspace,
        start: &ResolvedPath,
        wanted: Arc<EntryFilter>,
        cx: &ToolContext,
    ) -> Result<Self, PathError> {
        let bounds = WalkLimits { entries: MAX_ENTRIES, ..WalkLimits::default() };
        let walk = workspace.walk(start, bounds)?;
        let mut ignores = Vec::new();
        if !wanted.all {
            let (mut directory, mut lines_left) = (Some(start.clone()), MAX_IGNORE_LINES);
            while let Some(resolved) = directory {
                directory = resolved.parent();
                ignores.push(Some(Ignores::of(workspace, &resolved, &mut lines_left)));
            }
            ignores.reverse();
        }
        let (above, lines_left) = (ignores.len(), MAX_IGNORE_LINES_TOTAL);
        let cx = cx.clone();
        Ok(Self {
            wanted,
            walk,
            cx,
            ignores,
            above,
            lines_left,
            is_cut: false,
            too_deep: 0,
            trouble: 0,
        })
    }

    /// Returns the depth limit.
    pub(super) fn depth(&self) -> usize {
        self.wanted.depth
    }

    /// Returns whether an entry is wanted, and skips a directory that must not be entered.
    fn accept(&mut self, entry: &WalkEntry) -> bool {
        let own = (self.above + entry.level()).checked_sub(2);
        if let Some(own) = own.filter(|own| matches!(self.ignores.get(*own), Some(None))) {
            let held: usize = self.ignores.iter().flatten().map(|ignores| ignores.lines).sum();
            let lines_left = MAX_IGNORE_LINES.saturating_sub(held).min(self.lines_left);
            let mut left = lines_left;
            self.ignores[own] = Some(Ignores::next_to(entry, &mut left));
            self.lines_left -= lines_left - left;
        }
        let path = entry.resolved().relative();
        let is_directory = entry.kind() == FileKind::Directory;
        let is_wanted = self.is_wanted(path, is_directory, entry.level());
        if is_directory {
            if !is_wanted {
                self.walk.skip_entry();
            } else if entry.level() >= self.wanted.depth {
                self.too_deep += 1;
                self.walk.skip_entry();
            } else if !self.wanted.all {
                self.ignores.truncate(self.above + entry.level() - 1);
                self.ignores.push(None);
            }
        }
        is_wanted
    }

    fn is_wanted(&self, path: &Path, is_directory: bool, level: usize) -> bool {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        // Git's own data is never wanted.
        if name == b".git" {
            return false;
        }
        let globs = self.wanted.globs.matched(path, is_directory);
        if globs.is_ignore() || self.wanted.types.matched(path, is_directory).is_ignore() {
            return false;
        }
        if self.wanted.all || globs.is_whitelist() {
            return true;
        }
        let ignores = self.ignores.iter().take(self.above + level - 1).rev();
        match ignores.flatten().filter_map(|ignores| ignores.is_ignored(path, is_directory)).next()
        {
            Some(ignored) => !ignored,
            None => !name.starts_with(b"."),
        }
    }
}

impl Iterator for FilteredWalk {
    type Item = WalkEntry;

    fn next(&mut self) -> Option<WalkEntry> {
        loop {
            match self.walk.next()? {
                Ok(entry) => {
                    let is_wanted = self.accept(&entry);
                    if is_wanted
                        && self.cx.is_path_denied(Operation::Read, &entry.resolved().absolute())
                    {
                        // A denied directory is skipped with its contents.
                        if entry.kind() == FileKind::Directory {
                            self.walk.skip_entry();
                        }
                        self.trouble += 1;
                    } else if is_wanted {
                        return Some(entry);
                    }
                }
                Err(refusal) if refusal.cause() == PathErrorKind::TooMany => self.is_cut = true,
                Err(_) => self.trouble += 1,
            }
        }
    }
}

/// The ignore files of one directory.
#[derive(Debug)]
struct Ignores {
    files: Vec<Gitignore>,
    lines: usize,
}

impl Ignores {
    /// Reads them, up to the remaining number of lines.
    fn of(workspace: &Workspace, directory: &ResolvedPath, lines_left: &mut usize) -> Self {
        let before = *lines_left;
        let files =
            IGNORE_FILES.iter().filter_map(|name| read(workspace, directory, name, lines_left));
        let files = files.collect();
        Self { files, lines: before - *lines_left }
    }

    /// The same for the directory of an entry, by its file descriptor: one syscall for each file.
    fn next_to(entry: &WalkEntry, lines_left: &mut usize) -> Self {
        let directory = entry.resolved().relative().parent().unwrap_or(Path::new(""));
        let before = *lines_left;
        let read = |name: &&str| {
            rules(directory, &entry.read_sibling(name, MAX_IGNORE_FILE_BYTES).ok()??, lines_left)
        };
        let files = IGNORE_FILES.iter().filter_map(read).collect();
        Self { files, lines: before - *lines_left }
    }

    /// Returns whether an entry is ignored; `None` if no line matches.
    fn is_ignored(&self, path: &Path, is_directory: bool) -> Option<bool> {
        let matched = self.files.iter().rev().map(|file| file.matched(path, is_directory));
        matched.filter(|matched| !matched.is_none()).map(|matched| matched.is_ignore()).next()
    }
}

/// Reads one ignore file. A symlink, a large or an unreadable file is skipped.
fn read(
    workspace: &Workspace,
    directory: &ResolvedPath,
    name: &str,
    lines_left: &mut usize,
) -> Option<Gitignore> {
    let resolved =
        workspace.resolve_entry_from(directory, name).ok().filter(ResolvedPath::exists)?;
    rules(directory.relative(), &workspace.read(&resolved, MAX_IGNORE_FILE_BYTES).ok()?, lines_left)
}

fn rules(directory: &Path, bytes: &[u8], lines_left: &mut usize) -> Option<Gitignore> {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    *lines_left = lines_left.checked_sub(lines.clone().count())?;
    let mut builder = GitignoreBuilder::new(directory);
    for line in lines {
        // An invalid line is skipped, as in git.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}
