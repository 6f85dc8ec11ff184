//! The directory walk that finds denied paths, by file descriptors (no TOCTOU on directories).

use std::{
    collections::HashSet,
    ffi::{CStr, OsStr},
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::{Path, PathBuf},
    time::Instant,
};

use haft_core::{DeniedPaths, DeniedPathsUnknown, Operation, Scope};
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags},
    io::Errno,
};
use smallvec::SmallVec;

use super::{Denial, MAX_PATHS, MAX_TIME, Rules, unknown};
use crate::pattern::{AbsolutePattern, Search as Wanted, States};

/// Maximum depth; each level holds a file descriptor.
const MAX_DEPTH: usize = 200;
/// Entries between two checks of the deadline.
const ENTRIES_PER_CLOCK_CHECK: usize = 256;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

type Result<T> = std::result::Result<T, DeniedPathsUnknown>;
type AllStates = SmallVec<[States; 4]>;
type Identity = (u64, u64);

/// What is searched, and where.
pub(super) struct Search<'a> {
    pub(super) rules: &'a Rules,
    pub(super) scope: &'a Scope,
    pub(super) patterns: &'a [AbsolutePattern],
    /// Without symlinks.
    pub(super) roots: &'a [PathBuf],
    pub(super) max_entries: usize,
}

/// What a walk may still visit.
struct Budget<'a> {
    max: usize,
    left: usize,
    now: &'a dyn Fn() -> Instant,
    end: Instant,
}

impl Budget<'_> {
    fn take(&mut self) -> Result<()> {
        self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| unknown(format!("there are more than {} files to check", self.max)))?;
        if self.left.is_multiple_of(ENTRIES_PER_CLOCK_CHECK) && (self.now)() > self.end {
            let limit = MAX_TIME.as_millis();
            return Err(unknown(format!("checking all files takes longer than {limit} ms")));
        }
        Ok(())
    }
}

/// What was found.
#[derive(Default)]
struct Found {
    read: Vec<PathBuf>,
    edit: Vec<PathBuf>,
    /// Files with more than one hard link.
    linked_read: HashSet<Identity>,
    linked_edit: HashSet<Identity>,
}

/// One directory of the walk.
struct Here<'a> {
    handle: &'a OwnedFd,
    path: &'a Path,
    states: &'a [States],
    /// Changing it is denied, as a whole.
    is_restricted: bool,
}

impl Search<'_> {
    pub(super) fn run(&self, now: &dyn Fn() -> Instant, denied: &mut DeniedPaths) -> Result<()> {
        let mut budget =
            Budget { max: self.max_entries, left: self.max_entries, now, end: now() + MAX_TIME };
        let mut found = Found::default();
        let root = rustix::fs::open("/", DIRECTORY, Mode::empty())
            .map_err(|e| unknown(format!("the root directory cannot be opened: {e}")))?;
        let states: AllStates = self.patterns.iter().map(AbsolutePattern::root).collect();
        let here =
            Here { handle: &root, path: Path::new("/"), states: &states, is_restricted: false };
        self.look(&here, 0, &mut budget, &mut found)?;
        if !found.linked_read.is_empty() || !found.linked_edit.is_empty() {
            // Everything is searched once more, within the same deadline.
            budget.left = budget.max;
            self.find_hard_links(&root, &mut budget, &mut found)?;
        }
        if found.read.len() + found.edit.len() > MAX_PATHS {
            return Err(unknown(format!("there are more than {MAX_PATHS} of them")));
        }
        for (mut list, into) in [(found.read, &mut denied.read), (found.edit, &mut denied.edit)] {
            list.sort_unstable();
            list.dedup();
            into.extend(list);
        }
        Ok(())
    }

    fn is_in_root(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }

    /// Searches one directory for what the patterns match there.
    fn look(
        &self,
        here: &Here<'_>,
        depth: usize,
        budget: &mut Budget<'_>,
        found: &mut Found,
    ) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(unknown(format!("directories are more than {MAX_DEPTH} levels deep")));
        }
        let pairs = || self.patterns.iter().zip(here.states.iter().copied());
        let is_in_root = self.is_in_root(here.path);
        // `**` is searched in the roots alone; outside, only the path to them is followed.
        let wanted = pairs().map(|(pattern, states)| match pattern.search(states) {
            Wanted::Tree if !is_in_root => Wanted::Names,
            wanted => wanted,
        });
        let mut below = Vec::new();
        match wanted.max() {
            None => return Ok(()),
            Some(Wanted::Tree | Wanted::Entries) => {}
            Some(Wanted::Names) => {
                let mut names: Vec<Vec<u8>> = pairs()
                    .flat_map(|(pattern, states)| pattern.names(states))
                    .map(|name| name.as_bytes().to_vec())
                    .collect();
                let ways = self.roots.iter().filter_map(|root| root.strip_prefix(here.path).ok());
                names.extend(ways.filter_map(|way| Some(way.iter().next()?.as_bytes().to_vec())));
                names.sort_unstable();
                names.dedup();
                for name in names {
                    budget.take()?;
                    if let Some(kind) = kind_of(here.handle, OsStr::from_bytes(&name)) {
                        self.visit(here, &name, kind, budget, found, &mut below)?;
                    }
                }
                return self.descend(here, depth, below, budget, found);
            }
        }
        let listed =
            rustix::fs::openat(here.handle, c".", DIRECTORY, Mode::empty()).and_then(Dir::new);
        let entries = match listed {
            Ok(entries) => entries,
            Err(Errno::NOENT) => return Ok(()),
            // The process is the same user, and can change nothing outside the roots.
            Err(Errno::ACCESS | Errno::PERM) if !is_in_root => return Ok(()),
            Err(e) => return Err(cannot_look(here.path, e)),
        };
        for entry in entries {
            let entry = entry.map_err(|e| cannot_look(here.path, e))?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            budget.take()?;
            let kind = match entry.file_type() {
                FileType::Unknown => match kind_of(here.handle, os(name)) {
                    Some(kind) => kind,
                    None => continue,
                },
                kind => kind,
            };
            self.visit(here, name.to_bytes(), kind, budget, found, &mut below)?;
        }
        self.descend(here, depth, below, budget, found)
    }

    /// Judges one entry, and queues it if the walk continues below it.
    fn visit(
        &self,
        here: &Here<'_>,
        name: &[u8],
        kind: FileType,
        budget: &mut Budget<'_>,
        found: &mut Found,
        below: &mut Vec<(Vec<u8>, AllStates, bool)>,
    ) -> Result<()> {
        let text = String::from_utf8_lossy(name);
        let states: AllStates = self
            .patterns
            .iter()
            .zip(here.states)
            .map(|(pattern, states)| pattern.next(*states, &text))
            .collect();
        let is_directory = kind == FileType::Directory;
        if states.iter().all(|states| *states == 0) {
            return Ok(());
        }
        let is_hit = self.patterns.iter().zip(&states).any(|(p, states)| p.is_matched(*states));
        let mut is_restricted = here.is_restricted;
        if is_hit {
            let path = here.path.join(OsStr::from_bytes(name));
            match self.rules.denial(Operation::Read, &path, self.scope) {
                Denial::Whole if is_directory => {
                    self.collect_links(here.handle, name, budget, &mut found.linked_read, 0)?;
                    found.read.push(path);
                    return Ok(());
                }
                Denial::Whole | Denial::Entry if !is_directory => {
                    found.linked_read.extend(linked(here.handle, OsStr::from_bytes(name)));
                    found.read.push(path);
                    return Ok(());
                }
                _ => {}
            }
            let denial = if is_restricted {
                Denial::None
            } else {
                self.rules.denial(Operation::Write, &path, self.scope)
            };
            match denial {
                Denial::Whole if is_directory => {
                    self.collect_links(here.handle, name, budget, &mut found.linked_edit, 0)?;
                    found.edit.push(path);
                    is_restricted = true;
                }
                Denial::Whole | Denial::Entry if !is_directory => {
                    found.linked_edit.extend(linked(here.handle, OsStr::from_bytes(name)));
                    found.edit.push(path);
                }
                _ => {}
            }
            if found.read.len() + found.edit.len() > MAX_PATHS {
                return Err(unknown(format!("there are more than {MAX_PATHS} of them")));
            }
        }
        if is_directory {
            below.push((name.to_vec(), states, is_restricted));
        }
        Ok(())
    }

    fn descend(
        &self,
        here: &Here<'_>,
        depth: usize,
        below: Vec<(Vec<u8>, AllStates, bool)>,
        budget: &mut Budget<'_>,
        found: &mut Found,
    ) -> Result<()> {
        for (name, states, is_restricted) in below {
            let name = OsStr::from_bytes(&name);
            let path = here.path.join(name);
            let is_in_root = self.is_in_root(&path);
            // Outside the roots a directory may be traversed without being listed.
            let flags = if is_in_root { DIRECTORY } else { pass() };
            match rustix::fs::openat(here.handle, name, flags, Mode::empty()) {
                Ok(handle) => {
                    let here =
                        Here { handle: &handle, path: &path, states: &states, is_restricted };
                    self.look(&here, depth + 1, budget, found)?;
                }
                // FAIL CLOSED: its owner could open it, so it is denied as a whole.
                Err(Errno::ACCESS | Errno::PERM) if is_in_root => found.read.push(path),
                // An entry that was removed, or is no longer a directory, has nothing below it.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::PERM) => {}
                Err(e) => return Err(cannot_look(&path, e)),
            }
        }
        Ok(())
    }

    /// Collects the files with more than one hard link below a denied directory.
    fn collect_links(
        &self,
        parent: &OwnedFd,
        name: &[u8],
        budget: &mut Budget<'_>,
        into: &mut HashSet<Identity>,
        depth: usize,
    ) -> Result<()> {
        each_below(parent, OsStr::from_bytes(name), budget, depth, &mut |_, _, file| {
            into.extend(file);
        })
    }

    /// Finds the hard links of denied files in the roots.
    fn find_hard_links(
        &self,
        root: &OwnedFd,
        budget: &mut Budget<'_>,
        found: &mut Found,
    ) -> Result<()> {
        for start in self.roots {
            let mut path = start.clone();
            let (read, edit) = (&found.linked_read, &found.linked_edit);
            let (mut more_read, mut more_edit) = (Vec::new(), Vec::new());
            let Ok(relative) = start.strip_prefix("/") else { continue };
            each_below(root, relative.as_os_str(), budget, 0, &mut |above, name, file| {
                let Some(file) = file else { return };
                if read.contains(&file) {
                    path.clone_from(start);
                    path.extend([above, Path::new(name)]);
                    more_read.push(path.clone());
                } else if edit.contains(&file) {
                    path.clone_from(start);
                    path.extend([above, Path::new(name)]);
                    more_edit.push(path.clone());
                }
            })?;
            let is_new = |list: &[PathBuf], path: &PathBuf| {
                !list.iter().any(|denied| path.starts_with(denied))
            };
            more_read.retain(|path| is_new(&found.read, path));
            more_edit.retain(|path| is_new(&found.edit, path) && is_new(&found.read, path));
            found.read.append(&mut more_read);
            found.edit.append(&mut more_edit);
        }
        Ok(())
    }
}

/// Calls `visit` for each regular file below a directory: its relative directory, its name, and its
/// identity if it has more than one hard link. What cannot be opened is skipped: no name in it can
/// be reached.
fn each_below(
    parent: &OwnedFd,
    name: &OsStr,
    budget: &mut Budget<'_>,
    depth: usize,
    visit: &mut dyn FnMut(&Path, &OsStr, Option<Identity>),
) -> Result<()> {
    let mut above = PathBuf::new();
    below(parent, name, budget, depth, &mut above, visit)
}

fn below(
    parent: &OwnedFd,
    name: &OsStr,
    budget: &mut Budget<'_>,
    depth: usize,
    above: &mut PathBuf,
    visit: &mut dyn FnMut(&Path, &OsStr, Option<Identity>),
) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(unknown(format!("directories are more than {MAX_DEPTH} levels deep")));
    }
    let Ok(handle) = rustix::fs::openat(parent, name, DIRECTORY, Mode::empty()) else {
        return Ok(());
    };
    let Ok(entries) = Dir::read_from(&handle) else { return Ok(()) };
    let mut directories = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| cannot_look(above, e))?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        budget.take()?;
        let kind = match entry.file_type() {
            FileType::Unknown => kind_of(&handle, os(name)),
            kind => Some(kind),
        };
        match kind {
            Some(FileType::Directory) => directories.push(name.to_owned()),
            Some(FileType::RegularFile) => visit(above, os(name), linked(&handle, os(name))),
            _ => {}
        }
    }
    for name in directories {
        above.push(os(&name));
        below(&handle, os(&name), budget, depth + 1, above, visit)?;
        above.pop();
    }
    Ok(())
}

fn os(name: &CStr) -> &OsStr {
    OsStr::from_bytes(name.to_bytes())
}

/// The flags to open a directory that is only traversed.
fn pass() -> OFlags {
    #[cfg(target_os = "linux")]
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = DIRECTORY;
    flags
}

fn cannot_look(path: &Path, e: Errno) -> DeniedPathsUnknown {
    unknown(format!("`{}` cannot be read: {e}", path.display()))
}

fn kind_of(parent: &OwnedFd, name: &OsStr) -> Option<FileType> {
    let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode))
}

/// Returns the identity of a file, if it has more than one hard link.
fn linked(parent: &OwnedFd, name: &OsStr) -> Option<Identity> {
    let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
    let identity = (stat.st_dev as u64, stat.st_ino as u64);
    (is_file && stat.st_nlink > 1).then_some(identity)
}
