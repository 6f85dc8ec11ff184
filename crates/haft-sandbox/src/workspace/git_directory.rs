//! The git directory of a linked worktree: finds it, and decides what a command may change in it.
//!
//! In: a root whose `.git` is a file. Out: the common directory of the repository, if that
//! repository lists the root as one of its worktrees. The `.git` file alone is not trusted: a file
//! from an archive could name any directory.
//!
//! FAIL CLOSED: a redirection is followed only if it is exactly what `git worktree add` writes.

use std::{
    fs::File,
    io::Read as _,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use haft_core::protected_names::{Change, is_spelling_of};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use serde::{Deserialize, Serialize};

use super::{Root, open::identity, open_beneath::open_below};

/// The common git directory of a linked worktree. It is also among the roots of the profile.
///
/// A command may change in it what a commit in that worktree needs: objects, refs, their logs, and
/// the directory of the worktree. Everything else is read-only: configuration, hooks, other
/// worktrees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitDirectory {
    /// The common directory, without symlinks, as it is among the roots.
    pub path: PathBuf,
    /// The name of the worktree, as in `worktrees/NAME`.
    pub worktree: String,
}

/// Size limit of a file with a path, such as `.git` or `commondir`.
const MAX_POINTER_BYTES: u64 = 8 << 10;

/// Directories of a repository that a commit writes to.
const DIRECTORIES: &[&str] = &["objects", "refs", "logs"];
/// Files next to them. Deleting a ref locks and replaces `packed-refs`; `git gc` has a lock and a
/// log; `git branch -d` locks the configuration without changing it.
const FILES: &[&str] = &[
    "config.lock",
    "packed-refs",
    "packed-refs.lock",
    "packed-refs.new",
    "gc.pid",
    "gc.pid.lock",
    "gc.log",
    "gc.log.lock",
];
/// Files of a worktree that say to git where its configuration is.
const REDIRECTIONS: &[&str] = &["gitdir", "commondir", "config.worktree"];

/// Why the rest of a git directory is read-only.
const SHARED: &str = "it belongs to the whole repository, and a command changes only what a commit in \
                      its worktree needs";
const NO_SYMLINKS: &str = "git follows symlinks in its directory";

impl GitDirectory {
    /// Returns whether an entry at the top of the directory may change.
    pub(crate) fn is_writable(name: &str) -> bool {
        DIRECTORIES.contains(&name) || FILES.contains(&name)
    }

    /// Returns the directory of the worktree, relative to the common directory.
    pub(crate) fn own(&self) -> PathBuf {
        Path::new("worktrees").join(&self.worktree)
    }

    /// Returns the read-only files of the worktree, relative to the common directory.
    pub(crate) fn redirections(&self) -> impl Iterator<Item = PathBuf> {
        REDIRECTIONS.iter().map(|name| self.own().join(name))
    }

    /// Decides about a change, by the path relative to the common directory.
    pub(crate) fn check(&self, below: &Path, change: Change) -> Result<(), &'static str> {
        if change == Change::CreateLink {
            return Err(NO_SYMLINKS);
        }
        let mut parts = below.iter();
        let first = parts.next().and_then(|part| part.to_str()).ok_or(SHARED)?;
        let is_directory = DIRECTORIES.contains(&first);
        let is_inside = match first {
            _ if FILES.contains(&first) && change != Change::CreateDir => parts.next().is_none(),
            _ if is_directory => change == Change::CreateDir || parts.next().is_some(),
            "worktrees" => match below.strip_prefix(self.own()).ok().map(|own| own.iter().next()) {
                // The directory itself exists and may not change.
                None | Some(None) => false,
                Some(Some(name)) => !REDIRECTIONS.iter().any(|fixed| is_spelling_of(name, fixed)),
            },
            _ => false,
        };
        if is_inside { Ok(()) } else { Err(SHARED) }
    }

    /// Finds the git directory of a root, if the root is a linked worktree.
    ///
    /// # Errors
    /// Returns why a `.git` file is not followed.
    pub(crate) fn find(
        root: &Root,
        handle: BorrowedFd<'_>,
        roots: &[Root],
    ) -> Result<Option<(Self, Root)>, String> {
        let Some(text) = read_pointer(handle, ".git") else { return Ok(None) };
        let text = text.strip_prefix("gitdir: ").ok_or("it does not begin with `gitdir: `")?;
        let own = root.path.join(text).canonicalize().map_err(|e| format!("`{text}`: {e}"))?;
        let above =
            own.parent().filter(|above| above.file_name().is_some_and(|n| n == "worktrees"));
        let worktree = own.file_name().and_then(|name| name.to_str());
        let (Some(path), Some(worktree)) = (above.and_then(Path::parent), worktree) else {
            return Err(format!("`{text}` is not the directory of a worktree"));
        };
        // A git directory inside a root follows the rules of that root.
        if roots.iter().any(|root| path.starts_with(&root.path)) {
            return Ok(None);
        }
        if roots.iter().any(|root| root.path.starts_with(path)) {
            return Err("the repository that it names contains the workspace".to_owned());
        }
        let shown = path.display();
        let directory = open_directory(path).ok_or(format!("`{shown}` is not a directory"))?;
        let stat = rustix::fs::fstat(&directory).map_err(|e| e.to_string())?;
        let owner = rustix::fs::fstat(handle).map_err(|e| e.to_string())?.st_uid;
        if stat.st_uid != owner {
            return Err(format!("`{shown}` has another owner than the workspace"));
        }
        let found = Self { path: path.to_owned(), worktree: worktree.to_owned() };
        if !is_repository(directory.as_fd()) {
            return Err(format!("`{shown}` is not a git directory"));
        }
        let own = open_below(directory.as_fd(), &found.own(), DIRECTORY).ok();
        let own = own.ok_or(format!("`{shown}` has no worktree `{worktree}`"))?;
        if read_pointer(own.as_fd(), "commondir").as_deref() != Some("../..") {
            return Err(format!("`{shown}` is not the common directory of the worktree"));
        }
        let back = read_pointer(own.as_fd(), "gitdir").unwrap_or_default();
        if !leads_to(&found.path.join(found.own()).join(back), &root.path) {
            return Err(format!("`{shown}` does not list the workspace as its worktree"));
        }
        let identity = Some(identity(&stat));
        let root = Root { path: found.path.clone(), access: root.access, identity };
        Ok(Some((found, root)))
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

fn open_directory(path: &Path) -> Option<OwnedFd> {
    let flags = DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok()
}

/// Returns whether a file of the repository names the `.git` file of a root.
fn leads_to(file: &Path, root: &Path) -> bool {
    let directory = file.parent().and_then(|directory| directory.canonicalize().ok());
    file.file_name().is_some_and(|name| name == ".git")
        && directory.is_some_and(|directory| directory == root)
}

/// Returns whether a directory looks like a git directory, without a symlink where commits write.
fn is_repository(directory: BorrowedFd<'_>) -> bool {
    let is =
        |name: &str, wanted: FileType| stat(directory, name).is_some_and(|s| kind(&s) == wanted);
    let is_missing = |name: &str| stat(directory, name).is_none();
    is("HEAD", FileType::RegularFile)
        && is("config", FileType::RegularFile)
        && is("objects", FileType::Directory)
        && is("refs", FileType::Directory)
        && is("worktrees", FileType::Directory)
        && (is_missing("logs") || is("logs", FileType::Directory))
        && (is_missing("packed-refs") || is("packed-refs", FileType::RegularFile))
}

fn stat(directory: BorrowedFd<'_>, name: &str) -> Option<Stat> {
    rustix::fs::statat(directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).ok()
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Reads a file of one line. It must be a regular file, not a symlink. Does not block on a FIFO.
fn read_pointer(directory: BorrowedFd<'_>, name: &str) -> Option<String> {
    let file = open_below(directory, Path::new(name), OFlags::RDONLY).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let size = u64::try_from(stat.st_size).ok()?;
    if kind(&stat) != FileType::RegularFile || size > MAX_POINTER_BYTES {
        return None;
    }
    let mut text = String::new();
    File::from(file).take(MAX_POINTER_BYTES).read_to_string(&mut text).ok()?;
    let line = text.trim_end_matches(['\n', '\r']);
    let is_plain = !line.is_empty() && !line.contains(char::is_control);
    is_plain.then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_commit_needs_may_change() {
        let git = GitDirectory { path: "/r/.git".into(), worktree: "x".to_owned() };
        let check = |below: &str, change| git.check(Path::new(below), change).is_ok();
        for free in [
            "objects/ab/cdef",
            "refs/heads/main.lock",
            "logs/HEAD",
            "packed-refs.lock",
            "worktrees/x/HEAD",
            "worktrees/x/logs/HEAD",
            "gc.pid",
            "config.lock",
        ] {
            assert!(check(free, Change::CreateFile), "{free}");
            assert!(!check(free, Change::CreateLink), "{free}");
        }
        assert!(check("logs", Change::CreateDir));
        for fixed in [
            "",
            "config",
            "hooks/pre-commit",
            "HEAD",
            "index",
            "objects",
            "refs",
            "packed-refs/x",
            "worktrees",
            "worktrees/x",
            "worktrees/x/gitdir",
            "worktrees/x/CommonDir",
            "worktrees/x/config.worktree",
            "worktrees/y/HEAD",
            "modules/lib/config",
            "info/attributes",
        ] {
            for change in [Change::CreateFile, Change::Write, Change::Remove, Change::MoveTo] {
                assert!(!check(fixed, change), "{fixed}");
            }
        }
    }
}
