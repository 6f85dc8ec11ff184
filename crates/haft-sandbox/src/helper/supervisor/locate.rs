//! Where a path of the caller leads: a directory that is held open, and a name in it.
//!
//! In: a directory and a path. Out: an [`Entry`] to act on without following a symlink. Symlinks on the
//! way are followed here, one by one, because `/proc/self` must mean the caller and never the
//! supervisor. A path without symlinks takes one call of the kernel.
//!
//! INVARIANT: nothing of the supervisor's own process directory is ever reached.

use std::{
    ffi::{CString, OsStr},
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};

#[cfg(test)]
mod tests;

/// As many as the kernel follows.
const MAX_SYMLINKS: u32 = 40;
/// What `fstatfs` says of `/proc`.
const PROC: u32 = 0x9fa0;
/// The inode at the top of every `/proc`.
const PROC_ROOT: u64 = 1;
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A name in a directory that is held open.
pub(super) struct Entry {
    pub(super) parent: OwnedFd,
    pub(super) name: CString,
    /// The path ended in `/`: only a directory is meant.
    pub(super) is_directory: bool,
    /// Where it really is.
    pub(super) path: PathBuf,
}

/// Where a path leads.
pub(super) enum Located {
    Entry(Entry),
    /// A directory without a name of its own here: `/`, `.`, `..`.
    Directory(OwnedFd),
    /// What a descriptor of a process leads to, by way of `/proc`.
    Open(OwnedFd),
}

/// The thread whose paths are followed: where a relative path starts, and what `/proc/self` means.
pub(super) trait CallingThread {
    fn tid(&self) -> u32;

    /// Returns the number of its process.
    fn tgid(&mut self) -> Result<u32, Errno>;

    /// Opens the directory that a relative path starts in: the working directory, or a descriptor.
    fn directory(&mut self, fd: i32) -> Result<OwnedFd, Errno>;
}

/// Follows the paths of one call.
pub(super) struct Locator<'a, T> {
    caller: &'a mut T,
    symlinks: u32,
}

impl<'a, T: CallingThread> Locator<'a, T> {
    pub(super) fn new(caller: &'a mut T) -> Self {
        Self { caller, symlinks: 0 }
    }

    /// Finds the entry that a path names, be it a symlink or not.
    pub(super) fn locate(&mut self, base: i32, path: &[u8]) -> Result<Located, Errno> {
        if path.starts_with(b"/") {
            return self.locate_from(None, path);
        }
        let start = self.caller.directory(base)?;
        match plain_name(path) {
            // The commonest case takes the fewest calls.
            Some(name) => entry(start, name, false),
            None => self.locate_from(Some(start.as_fd()), path),
        }
    }

    /// Follows the symlink at an entry.
    pub(super) fn follow(&mut self, entry: &Entry) -> Result<Located, Errno> {
        let mut target = match self.target(entry.parent.as_fd(), entry.name.as_bytes())? {
            Target::Path(target) => target,
            Target::Open(fd) if entry.is_directory && kind(fd.as_fd())? != FileType::Directory => {
                return Err(Errno::NOTDIR);
            }
            Target::Open(fd) => return Ok(Located::Open(fd)),
        };
        if entry.is_directory {
            target.push(b'/');
        }
        let start = if target.starts_with(b"/") { None } else { Some(entry.parent.as_fd()) };
        self.locate_from(start, &target)
    }

    /// Opens an existing file or directory, symlinks followed, to look at it and not to read it.
    pub(super) fn existing(&mut self, located: Located) -> Result<(OwnedFd, PathBuf), Errno> {
        let mut located = located;
        loop {
            let entry = match located {
                Located::Directory(fd) | Located::Open(fd) => {
                    let path = real_path(fd.as_fd())?;
                    refuse_own_process(fd.as_fd(), &path)?;
                    return Ok((fd, path));
                }
                Located::Entry(entry) => entry,
            };
            let (fd, kind) = look(&entry)?;
            if kind != FileType::Symlink {
                if entry.is_directory && kind != FileType::Directory {
                    return Err(Errno::NOTDIR);
                }
                return Ok((fd, entry.path));
            }
            located = self.follow(&entry)?;
        }
    }

    fn locate_from(
        &mut self,
        start: Option<BorrowedFd<'_>>,
        path: &[u8],
    ) -> Result<Located, Errno> {
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
        let is_directory = end < path.len();
        let whole = path.get(..end).unwrap_or_default();
        let cut = whole.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let (above, name) = whole.split_at(cut);
        if matches!(name, b"" | b"." | b"..") {
            let directory = self.directory(start, path)?;
            refuse_own_process(directory.as_fd(), &real_path(directory.as_fd())?)?;
            return Ok(Located::Directory(directory));
        }
        let parent = self.directory(start, above)?;
        entry(parent, name, is_directory)
    }

    /// Opens a directory: in one call if no symlink is in the way, else step by step.
    fn directory(&mut self, start: Option<BorrowedFd<'_>>, path: &[u8]) -> Result<OwnedFd, Errno> {
        let at = start.unwrap_or(CWD);
        let how = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let text = match (path.is_empty(), start) {
            (true, Some(_)) => &b"."[..],
            (true, None) => &b"/"[..],
            (false, _) => path,
        };
        match rustix::fs::openat2(at, text, DIRECTORY, Mode::empty(), how) {
            Err(Errno::LOOP | Errno::AGAIN) => self.walk(start, path),
            result => result,
        }
    }

    fn walk(&mut self, start: Option<BorrowedFd<'_>>, path: &[u8]) -> Result<OwnedFd, Errno> {
        let root = || rustix::fs::open("/", DIRECTORY, Mode::empty());
        let mut here = match start {
            Some(start) => rustix::fs::openat(start, ".", DIRECTORY, Mode::empty())?,
            None => root()?,
        };
        // The next part is the last of the list. It has at most the parts of one path and of as many
        // targets as symlinks are followed, each shorter than a page.
        let mut parts = Vec::new();
        push_parts(&mut parts, path);
        while let Some(part) = parts.pop() {
            // The next part is looked for in the same directory, which must be searchable for that.
            if part == b"." && !parts.is_empty() {
                continue;
            }
            if part == b".." {
                here = rustix::fs::openat(&here, "..", DIRECTORY, Mode::empty())?;
                continue;
            }
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let next = rustix::fs::openat(&here, part.as_slice(), flags, Mode::empty())?;
            match kind(next.as_fd())? {
                FileType::Directory => here = next,
                FileType::Symlink => match self.target(here.as_fd(), &part)? {
                    Target::Open(fd) => {
                        if kind(fd.as_fd())? != FileType::Directory {
                            return Err(Errno::NOTDIR);
                        }
                        here = fd;
                    }
                    Target::Path(target) => {
                        if target.starts_with(b"/") {
                            here = root()?;
                        }
                        push_parts(&mut parts, &target);
                    }
                },
                _ => return Err(Errno::NOTDIR),
            }
        }
        refuse_own_process(here.as_fd(), &real_path(here.as_fd())?)?;
        Ok(here)
    }

    /// Reads where a symlink leads.
    fn target(&mut self, parent: BorrowedFd<'_>, name: &[u8]) -> Result<Target, Errno> {
        self.symlinks += 1;
        if self.symlinks > MAX_SYMLINKS {
            return Err(Errno::LOOP);
        }
        let file_system = rustix::fs::fstatfs(parent)?;
        if u32::try_from(file_system.f_type).unwrap_or_default() != PROC {
            let target = rustix::fs::readlinkat(parent, name, Vec::new())?.into_bytes();
            return match target.is_empty() {
                true => Err(Errno::NOENT),
                false => Ok(Target::Path(target)),
            };
        }
        // The text of these depends on the process that reads it, and this must be the caller.
        let tgid = self.caller.tgid()?;
        match name {
            b"self" => Ok(Target::Path(tgid.to_string().into_bytes())),
            b"thread-self" => {
                let path = format!("{tgid}/task/{}", self.caller.tid());
                Ok(Target::Path(path.into_bytes()))
            }
            _ if rustix::fs::readlinkat(parent, name, Vec::new())
                .is_ok_and(|text| is_relative_proc_link(text.as_bytes())) =>
            {
                // `/proc/mounts` and `/proc/net` lead to `self/…`.
                let text = rustix::fs::readlinkat(parent, name, Vec::new())?;
                Ok(Target::Path(text.into_bytes()))
            }
            _ => {
                refuse_own_process(parent, &real_path(parent)?)?;
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                Ok(Target::Open(rustix::fs::openat(parent, name, flags, Mode::empty())?))
            }
        }
    }
}

/// Returns the path itself if it is one name in the directory where it starts.
fn plain_name(path: &[u8]) -> Option<&[u8]> {
    let is_plain = !matches!(path, b"" | b"." | b"..") && !path.contains(&b'/');
    is_plain.then_some(path)
}

/// Names something in a directory that is held open.
fn entry(parent: OwnedFd, name: &[u8], is_directory: bool) -> Result<Located, Errno> {
    let mut path = real_path(parent.as_fd())?;
    refuse_own_process(parent.as_fd(), &path)?;
    refuse_own_directory(parent.as_fd(), OsStr::from_bytes(name))?;
    path.push(OsStr::from_bytes(name));
    let name = CString::new(name).map_err(|_| Errno::INVAL)?;
    Ok(Located::Entry(Entry { parent, name, is_directory, path }))
}

enum Target {
    Path(Vec<u8>),
    Open(OwnedFd),
}

fn is_relative_proc_link(text: &[u8]) -> bool {
    text.starts_with(b"self/") || text.starts_with(b"thread-self/")
}

fn push_parts(parts: &mut Vec<Vec<u8>>, path: &[u8]) {
    let new = path.split(|byte| *byte == b'/').rev();
    // A `.` stays: a path that ends in one needs a directory that may be searched.
    parts.extend(new.filter(|part| !part.is_empty()).map(<[u8]>::to_vec));
}

/// Opens a handle of an entry (`O_PATH`), symlinks not followed, and returns its kind.
pub(super) fn look(entry: &Entry) -> Result<(OwnedFd, FileType), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(&entry.parent, &entry.name, flags, Mode::empty())?;
    let kind = kind(fd.as_fd())?;
    Ok((fd, kind))
}

fn kind(fd: BorrowedFd<'_>) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode))
}

/// The name of our own descriptor, through which exactly what it holds can be opened again.
pub(super) fn own_link(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Where a descriptor really leads.
pub(super) fn real_path(fd: BorrowedFd<'_>) -> Result<PathBuf, Errno> {
    /// `/proc/self/fd`, opened once: each look from there takes one step instead of four.
    static OWN: OnceLock<OwnedFd> = OnceLock::new();
    let own = match OWN.get() {
        Some(own) => own,
        None => {
            let own = rustix::fs::open("/proc/self/fd", DIRECTORY, Mode::empty())?;
            OWN.get_or_init(|| own)
        }
    };
    let name = fd.as_raw_fd().to_string();
    let text = rustix::fs::readlinkat(own, name, Vec::with_capacity(256))?;
    Ok(PathBuf::from(OsStr::from_bytes(text.as_bytes())))
}

/// FAIL CLOSED: the supervisor's descriptors and memory are not the caller's to open, and the kernel
/// would let the supervisor do so. Its threads have directories of their own. `/proc` may be mounted
/// elsewhere too, so every component that is a number is compared. Whether it is one of `/proc` is asked
/// of what is held open: the path may lead elsewhere by now, or may not be searched.
fn refuse_own_process(fd: BorrowedFd<'_>, real: &Path) -> Result<(), Errno> {
    let is_refused = real.iter().any(is_own) && is_in_proc(fd);
    if is_refused { Err(Errno::ACCESS) } else { Ok(()) }
}

/// Refuses the supervisor's process directory itself. Only at the top of a `/proc` is a number a
/// process: elsewhere it may be a descriptor of the caller, such as `/proc/self/fd/1`.
fn refuse_own_directory(parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    let is_top = || rustix::fs::fstat(parent).is_ok_and(|stat| stat.st_ino == PROC_ROOT);
    let is_refused = is_own(name) && is_in_proc(parent) && is_top();
    if is_refused { Err(Errno::ACCESS) } else { Ok(()) }
}

/// Whether a component is the number of the supervisor's process or of one of its threads.
fn is_own(part: &OsStr) -> bool {
    part.to_str().and_then(|part| part.parse::<u32>().ok()).is_some_and(|number| {
        number == std::process::id()
            || rustix::fs::statat(CWD, format!("/proc/self/task/{number}"), AtFlags::empty())
                .is_ok()
    })
}

fn is_in_proc(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(fd).map_or(true, |it| u32::try_from(it.f_type) == Ok(PROC))
}
