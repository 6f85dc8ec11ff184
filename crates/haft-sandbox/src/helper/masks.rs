//! Protected names that do not exist yet: an empty folder stands there while a command runs.
//!
//! Only a name that exists can be covered, so one is made, and taken away again when nobody needs it
//! any more. Several commands may share it: each holds a shared lock, and the last one, who gets the
//! lock alone, takes it away. Taking it away earlier would uncover it for the others.
//!
//! It is always a folder, because an empty one is invisible to version control.

use std::{
    ffi::OsStr,
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, FlockOperation, Mode, OFlags},
    io::Errno,
};

use super::Trouble;
use crate::{Profile, exhausted};

/// The folders that stand for missing names.
#[derive(Debug, Default)]
pub(super) struct Masks {
    held: Vec<Mask>,
    done: Vec<Mask>,
    /// Folders to be covered as a whole: a name below cannot be made now and could be later.
    sealed: Vec<PathBuf>,
    /// Names without a placeholder that were absent at the start and must be absent at the end.
    absent: Vec<(OwnedFd, std::ffi::OsString)>,
}

/// Protected names that get no placeholder while they are absent: git fails on a directory in their
/// place, also on the host. Where they exist they are read-only like the others.
const NO_PLACEHOLDER: &[&str] = &[".git/commondir", ".git/config.worktree", ".git/modules"];
/// The one of them that redirects git by itself (configuration and hooks of another directory). Git
/// never creates it in a directory of this name, so one that appeared is removed after the command.
const REDIRECT: &str = ".git/commondir";

/// The names of the table that get a placeholder where they are absent; so do the names that only
/// this workspace protects. Programs take a directory in place of one of the others for what it is
/// not: `.git/rebase-merge` means that a rebase was interrupted.
const PLACEHOLDER: &[&str] = &[
    ".git/hooks",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/modules",
    ".haft",
    "haft.toml",
    "haft.local.toml",
    ".claude",
    ".codex",
    ".cursor",
    ".mcp.json",
    ".envrc",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".github/workflows",
    ".gitlab-ci.yml",
    ".circleci",
];

/// The protected names that are covered where they exist: no exception of the profile frees them. A
/// name with `*` cannot be covered.
pub(super) fn covered_names(profile: &Profile) -> impl Iterator<Item = &str> {
    let is_free = |name: &str| {
        let free = |exception: &String| {
            Path::new(name).starts_with(exception.strip_prefix("./").unwrap_or(exception))
        };
        profile.exceptions.iter().any(free)
    };
    profile.protected.iter().map(String::as_str).filter(move |n| !n.contains('*') && !is_free(n))
}

fn placeholder_names(profile: &Profile) -> impl Iterator<Item = &str> {
    let in_table = |name: &str| crate::PROTECTED.iter().any(|known| known.pattern == name);
    covered_names(profile).filter(move |name| PLACEHOLDER.contains(name) || !in_table(name))
}

#[derive(Debug)]
struct Mask {
    path: PathBuf,
    parent: OwnedFd,
    lock: OwnedFd,
    name: std::ffi::OsString,
}

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Masks {
    /// Makes what is missing of the protected names below the writable roots.
    pub(super) fn put(profile: &Profile) -> Result<Self, Trouble> {
        let mut masks = Self::default();
        // The mode of a mask is what it is known by from its first moment on.
        let before = rustix::process::umask(Mode::empty());
        let mut all = profile
            .writable()
            .flat_map(|root| placeholder_names(profile).map(|name| (&root.path, Path::new(name))));
        let put = all.try_for_each(|(root, name)| masks.put_one(root, name));
        rustix::process::umask(before);
        put.map(|()| masks)
    }

    /// Returns the path of everything that is covered as a whole.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.held.iter().map(|mask| mask.path.clone()).chain(self.sealed.iter().cloned()).collect()
    }

    /// Takes away what nobody else holds. The handles stay open: closing the last one of a deleted
    /// folder is the slow part on some disks. While they are open nobody else gets the lock, so what
    /// is looked at is what is taken away; and it is done once, because after that the name may be
    /// somebody else's.
    pub(super) fn take_away(&mut self) {
        for (parent, name) in self.absent.drain(..) {
            // A directory stays: git does not take it for a redirection.
            let _ = rustix::fs::unlinkat(&parent, &name, AtFlags::empty());
        }
        for mask in self.held.drain(..).rev() {
            // Another holder's shared lock makes this fail; then it is theirs to take away.
            let alone = FlockOperation::NonBlockingLockExclusive;
            let is_ours = || is_there(&mask.parent, &mask.name, &mask.lock).unwrap_or(false);
            if rustix::fs::flock(mask.lock.as_fd(), alone).is_ok() && is_ours() {
                // Not if somebody has put something into it.
                let _ = rustix::fs::unlinkat(&mask.parent, &mask.name, AtFlags::REMOVEDIR);
            }
            self.done.push(mask);
        }
    }

    fn put_one(&mut self, root: &Path, name: &Path) -> Result<(), Trouble> {
        let trouble = |e: Errno| {
            if let Some(limit) = exhausted::limit(e) {
                return Trouble::transient("protected names", limit);
            }
            Trouble::profile(format!(
                "`{}` in `{}`: {}",
                name.display(),
                root.display(),
                std::io::Error::from(e)
            ))
        };
        let mut here = rustix::fs::open(root, FOLDER, Mode::empty()).map_err(trouble)?;
        let mut path = root.to_path_buf();
        for part in name.iter() {
            let folder = path.clone();
            path.push(part);
            let is_last = path.strip_prefix(root).is_ok_and(|whole| whole == name);
            if is_last && has_no_placeholder(name) && is_absent(&here, part) {
                if name == Path::new(REDIRECT) {
                    self.absent.push((here, part.to_owned()));
                }
                return Ok(());
            }
            if self.paths().contains(&path) || self.sealed.contains(&folder) {
                return Ok(());
            }
            match find(&here, part) {
                Ok(Found::Folder(handle)) => here = handle,
                Ok(Found::File) => return Ok(()),
                Ok(Found::Link) => {
                    return Err(Trouble::profile(format!(
                        "the protected name `{}` is a symlink, which cannot be held in its place; put \
                         the file or directory itself there, or work in another workspace",
                        path.display()
                    )));
                }
                Ok(Found::Mask(lock)) => {
                    self.held.push(Mask { path, parent: here, lock, name: part.to_owned() });
                    return Ok(());
                }
                // Nobody can make it on such a disk.
                Err(Errno::ROFS) => return Ok(()),
                Err(Errno::ACCESS | Errno::PERM) if folder != root => {
                    self.sealed.push(folder);
                    return Ok(());
                }
                Err(errno) => return Err(trouble(errno)),
            }
        }
        Ok(())
    }
}

fn has_no_placeholder(name: &Path) -> bool {
    NO_PLACEHOLDER.iter().any(|other| name == Path::new(other))
}

fn is_absent(parent: &OwnedFd, name: &OsStr) -> bool {
    matches!(rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
}

/// Removes placeholders that a killed helper left behind: empty, with the mode of one, and locked by
/// no running command. What cannot be removed stays.
pub(super) fn remove_stale(profile: &Profile) {
    for root in &profile.roots {
        let Ok(root) = rustix::fs::open(&root.path, FOLDER, Mode::empty()) else { continue };
        let names =
            profile.protected.iter().map(String::as_str).chain(NO_PLACEHOLDER.iter().copied());
        for name in names {
            // A placeholder stands at the first part of a name that was missing.
            let Ok(mut here) = root.try_clone() else { return };
            for part in Path::new(name).iter() {
                match remove_stale_one(&here, part) {
                    Some(directory) => here = directory,
                    None => break,
                }
            }
        }
    }
}

/// Removes one entry if it is a stale placeholder. Returns any other directory, to go on below it.
fn remove_stale_one(parent: &OwnedFd, name: &OsStr) -> Option<OwnedFd> {
    let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return None;
    }
    let handle = rustix::fs::openat(parent, name, FOLDER, Mode::empty()).ok()?;
    if rustix::fs::fstat(&handle).ok()?.st_mode & 0o1777 != MASK {
        return Some(handle);
    }
    let alone = FlockOperation::NonBlockingLockExclusive;
    if rustix::fs::flock(&handle, alone).is_ok() && is_there(parent, name, &handle) == Ok(true) {
        // Fails if something is in it.
        let _ = rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
    }
    None
}

/// What stands at a name.
enum Found {
    Folder(OwnedFd),
    File,
    Link,
    /// An empty folder that stands for a missing name, ours or somebody else's, and held by us now.
    Mask(OwnedFd),
}

/// The mode that tells a mask from a folder of the user's. Nobody makes such folders, and one that a
/// killed helper left behind is known by it and taken away by the next.
const MASK: u32 = 0o1555;

/// Looks what stands at a name, and makes a mask where there is nothing. The last holder of a mask may
/// take it away between two of our steps, so it is looked at again once it is held.
fn find(parent: &OwnedFd, name: &OsStr) -> Result<Found, Errno> {
    for _ in 0..256 {
        let stat = match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {
                match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(MASK)) {
                    Ok(()) | Err(Errno::EXIST) => continue,
                    Err(errno) => return Err(errno),
                }
            }
            stat => stat?,
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {}
            FileType::Symlink => return Ok(Found::Link),
            _ => return Ok(Found::File),
        }
        let handle = match rustix::fs::openat(parent, name, FOLDER, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
            handle => handle?,
        };
        // What a folder inherits from the one above does not count.
        if rustix::fs::fstat(&handle)?.st_mode & 0o1777 != MASK {
            return Ok(Found::Folder(handle));
        }
        rustix::fs::flock(&handle, FlockOperation::LockShared)?;
        if is_there(parent, name, &handle)? {
            return Ok(Found::Mask(handle));
        }
    }
    Err(Errno::AGAIN)
}

/// Returns whether a name still leads to what is held.
fn is_there(parent: &OwnedFd, name: &OsStr, held: &OwnedFd) -> Result<bool, Errno> {
    let ours = rustix::fs::fstat(held)?;
    let there = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
    Ok(there.is_ok_and(|there| (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)))
}

impl Drop for Masks {
    fn drop(&mut self) {
        self.take_away();
    }
}
