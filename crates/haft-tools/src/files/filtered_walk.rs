//! Goes through a folder and leaves out what nobody means: hidden entries, what ignore files name,
//! and what the patterns of a call do not want.
//!
//! Entries come from the workspace's walk, and ignore files are read through its handles too. A
//! pattern is text against text here; nothing is opened by a path.

use std::{path::Path, sync::Arc};

use haft_core::{Failure, Operation, ToolContext};
use haft_sandbox::{
    Bounds, Entry, FileKind, PathError, PathErrorKind, ResolvedPath, Walk, Workspace,
};
use ignore::{
    gitignore::{Gitignore, GitignoreBuilder},
    overrides::{Override, OverrideBuilder},
    types::{Types, TypesBuilder},
};

/// More entries than this are a disk, not a project.
const ENTRIES: usize = 1_000_000;
/// Larger ignore files are none.
const IGNORE_FILE: usize = 1 << 20;
/// Lines of ignore files at once: those of a folder and of all above it. Each costs some kilobytes
/// when it is compiled, and a hostile project has many.
const IGNORE_LINES: usize = 10_000;
/// Lines that are compiled on the way through a folder in all.
const IGNORE_LINES_IN_ALL: usize = 200_000;
/// The files that say what is left out, the stronger one last.
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];
/// More patterns than this are no question.
const PATTERNS: usize = 100;

/// What a call wants to see.
#[derive(Debug)]
pub(super) struct Wanted {
    globs: Override,
    types: Types,
    /// Hidden and ignored entries too.
    pub(super) all: bool,
    /// So many levels.
    pub(super) depth: usize,
}

impl Wanted {
    /// Reads the patterns of a call. They start at the folder that is gone through.
    pub(super) fn new(
        start: &ResolvedPath,
        globs: &[String],
        file_type: Option<&str>,
    ) -> Result<Self, Failure> {
        if globs.len() > PATTERNS {
            return Err(Failure::invalid(format!("there are more than {PATTERNS} patterns"))
                .with_next("use fewer"));
        }
        let bad = |glob: &str, e: &ignore::Error| {
            Failure::invalid(format!("`{glob}` is no file pattern: {e}"))
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
                    Failure::invalid(format!("`{name}` is no file type that is known here"))
                        .with_next(
                            "use a name such as `rust`, `py`, `ts`, `md`, or `globs` instead",
                        )
                })?
            }
        };
        Ok(Self { globs, types, all: false, depth: Bounds::default().depth })
    }

    /// Returns whether a pattern names this entry itself.
    pub(super) fn names(&self, path: &Path, is_folder: bool) -> bool {
        self.globs.is_empty() || self.globs.matched(path, is_folder).is_whitelist()
    }
}

/// The way through a folder.
#[derive(Debug)]
pub(super) struct Visit {
    wanted: Arc<Wanted>,
    walk: Walk,
    /// The call, which is not told of files that rules keep from it.
    cx: ToolContext,
    /// What is left out at each level; those above the start come first. A folder's files are read
    /// when its first entry comes.
    ignores: Vec<Option<Ignores>>,
    above: usize,
    /// So many lines of ignore files may still be compiled.
    lines_left: usize,
    /// There was more than is gone through.
    pub(super) is_cut: bool,
    /// So many directories were not entered, because they are as deep as the call goes.
    pub(super) too_deep: usize,
    /// Entries that could not be looked at.
    pub(super) trouble: usize,
}

impl Visit {
    pub(super) fn new(
        workspace: &Workspace,
        start: &ResolvedPath,
        wanted: Arc<Wanted>,
        cx: &ToolContext,
    ) -> Result<Self, PathError> {
        let bounds = Bounds { entries: ENTRIES, ..Bounds::default() };
        let walk = workspace.walk(start, bounds)?;
        let mut ignores = Vec::new();
        if !wanted.all {
            let (mut folder, mut room) = (Some(start.clone()), IGNORE_LINES);
            while let Some(place) = folder {
                folder = place.parent();
                ignores.push(Some(Ignores::of(workspace, &place, &mut room)));
            }
            ignores.reverse();
        }
        let (above, lines_left) = (ignores.len(), IGNORE_LINES_IN_ALL);
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

    /// Returns the deepest level that is gone through.
    pub(super) fn depth(&self) -> usize {
        self.wanted.depth
    }

    /// Looks at an entry, decides whether its folder is entered, and whether it is meant.
    fn judge(&mut self, entry: &Entry) -> bool {
        let own = (self.above + entry.level()).checked_sub(2);
        if let Some(own) = own.filter(|own| matches!(self.ignores.get(*own), Some(None))) {
            let held: usize = self.ignores.iter().flatten().map(|ignores| ignores.lines).sum();
            let room = IGNORE_LINES.saturating_sub(held).min(self.lines_left);
            let mut left = room;
            self.ignores[own] = Some(Ignores::beside(entry, &mut left));
            self.lines_left -= room - left;
        }
        let path = entry.place().relative();
        let is_folder = entry.kind() == FileKind::Folder;
        let is_meant = self.is_meant(path, is_folder, entry.level());
        if is_folder {
            if !is_meant {
                self.walk.pass_by();
            } else if entry.level() >= self.wanted.depth {
                self.too_deep += 1;
                self.walk.pass_by();
            } else if !self.wanted.all {
                self.ignores.truncate(self.above + entry.level() - 1);
                self.ignores.push(None);
            }
        }
        is_meant
    }

    fn is_meant(&self, path: &Path, is_folder: bool, level: usize) -> bool {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        // What git keeps for itself is never meant.
        if name == b".git" {
            return false;
        }
        let globs = self.wanted.globs.matched(path, is_folder);
        if globs.is_ignore() || self.wanted.types.matched(path, is_folder).is_ignore() {
            return false;
        }
        if self.wanted.all || globs.is_whitelist() {
            return true;
        }
        let ignores = self.ignores.iter().take(self.above + level - 1).rev();
        match ignores.flatten().filter_map(|ignores| ignores.says(path, is_folder)).next() {
            Some(ignored) => !ignored,
            None => !name.starts_with(b"."),
        }
    }
}

impl Iterator for Visit {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            match self.walk.next()? {
                Ok(entry) => {
                    let is_meant = self.judge(&entry);
                    if is_meant
                        && self.cx.is_path_denied(Operation::Read, &entry.place().absolute())
                    {
                        // A folder is kept with everything in it.
                        if entry.kind() == FileKind::Folder {
                            self.walk.pass_by();
                        }
                        self.trouble += 1;
                    } else if is_meant {
                        return Some(entry);
                    }
                }
                Err(refusal) if refusal.cause() == PathErrorKind::TooMany => self.is_cut = true,
                Err(_) => self.trouble += 1,
            }
        }
    }
}

/// What the ignore files of one folder say.
#[derive(Debug)]
struct Ignores {
    files: Vec<Gitignore>,
    lines: usize,
}

impl Ignores {
    /// Reads them, as long as there is room for their lines.
    fn of(workspace: &Workspace, folder: &ResolvedPath, room: &mut usize) -> Self {
        let before = *room;
        let files = IGNORE_FILES.iter().filter_map(|name| read(workspace, folder, name, room));
        let files = files.collect();
        Self { files, lines: before - *room }
    }

    /// The same for the folder that an entry is in, by its handle: one look for each.
    fn beside(entry: &Entry, room: &mut usize) -> Self {
        let folder = entry.place().relative().parent().unwrap_or(Path::new(""));
        let before = *room;
        let read = |name: &&str| rules(folder, &entry.read_beside(name, IGNORE_FILE).ok()??, room);
        let files = IGNORE_FILES.iter().filter_map(read).collect();
        Self { files, lines: before - *room }
    }

    /// Returns whether an entry is ignored; nothing when no line is about it.
    fn says(&self, path: &Path, is_folder: bool) -> Option<bool> {
        let said = self.files.iter().rev().map(|file| file.matched(path, is_folder));
        said.filter(|said| !said.is_none()).map(|said| said.is_ignore()).next()
    }
}

/// Reads one ignore file. One that is a link, too large or unreadable says nothing.
fn read(
    workspace: &Workspace,
    folder: &ResolvedPath,
    name: &str,
    room: &mut usize,
) -> Option<Gitignore> {
    let place = workspace.resolve_entry_from(folder, name).ok().filter(ResolvedPath::exists)?;
    rules(folder.relative(), &workspace.read(&place, IGNORE_FILE).ok()?, room)
}

fn rules(folder: &Path, bytes: &[u8], room: &mut usize) -> Option<Gitignore> {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    *room = room.checked_sub(lines.clone().count())?;
    let mut builder = GitignoreBuilder::new(folder);
    for line in lines {
        // A line that is no pattern says nothing, as in git.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}
