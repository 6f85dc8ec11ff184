//! Resolves a path of the caller to an open directory and a name in it.
//!
//! In: a directory and a path. Out: an [`Entry`], on which the supervisor acts without following a
//! symlink. Symlinks in the path are followed here, one by one, because `/proc/self` must be the
//! caller and never the supervisor. A path without symlinks takes one syscall.
//!
//! INVARIANT: the supervisor's own process directory in `/proc` is never reached (confused deputy).

use std::{
    cell::Cell,
    ffi::{CString, OsStr},
    io,
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

use super::super::sys;

#[cfg(test)]
mod tests;

thread_local! {
    /// Whether this thread has a working directory of its own.
    static HAS_OWN_DIRECTORY: Cell<bool> = const { Cell::new(false) };
}

/// Gives this thread its own umask and working directory. The latter changes with each path that is
/// located (`directory_path`).
pub(super) fn unshare_fs() -> io::Result<()> {
    sys::unshare_fs()?;
    HAS_OWN_DIRECTORY.set(true);
    Ok(())
}

/// Symlinks in one path, the same as in the kernel.
const MAX_SYMLINKS: u32 = 40;
/// The type of `/proc` in `fstatfs`.
const PROC_MAGIC: u32 = 0x9fa0;
/// The inode at the top of every `/proc`.
const PROC_ROOT: u64 = 1;
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A name in an open directory.
pub(super) struct Entry {
    pub(super) parent: OwnedFd,
    pub(super) name: CString,
    /// The path ended in `/`, so it must be a directory.
    pub(super) is_directory: bool,
    /// Its real path.
    pub(super) path: PathBuf,
}

/// What a path resolves to.
pub(super) enum Located {
    Entry(Entry),
    /// A directory without a name in the path: `/`, `.`, `..`.
    Directory(OwnedFd),
    /// The file behind a magic link in `/proc`, such as `/proc/self/fd/3`.
    Open(OwnedFd),
}

/// The thread whose paths are resolved: where a relative path starts, and what `/proc/self` is.
pub(super) trait CallingThread {
    fn tid(&self) -> u32;

    /// Returns the pid of its process.
    fn tgid(&mut self) -> Result<u32, Errno>;

    /// Opens the directory where a relative path starts: the working directory or a file
    /// descriptor. The caller may have ended meanwhile.
    fn directory(&mut self, fd: i32) -> Result<OwnedFd, Errno>;

    /// Fails if the caller no longer waits. Then what was read before may be another process's.
    fn check(&self) -> Result<(), Errno>;
}

/// Resolves the paths of one syscall.
pub(super) struct Locator<'a, T> {
    caller: &'a mut T,
    symlinks: u32,
}

impl<'a, T: CallingThread> Locator<'a, T> {
    pub(super) fn new(caller: &'a mut T) -> Self {
        Self { caller, symlinks: 0 }
    }

    pub(super) fn caller(&mut self) -> &mut T {
        self.caller
    }

    /// Resolves a path to its entry. A symlink at the end is not followed.
    pub(super) fn locate(&mut self, base: i32, path: &[u8]) -> Result<Located, Errno> {
        if path.starts_with(b"/") {
            self.caller.check()?;
            return self.locate_from(None, path);
        }
        let start = self.caller.directory(base);
        self.caller.check()?;
        let start = start?;
        match plain_name(path) {
            // The most common case takes the fewest syscalls.
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

    /// Opens an existing file or directory with `O_PATH`, symlinks followed.
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

    /// Opens a directory: with one syscall if the path has no symlink, otherwise component by
    /// component.
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
        // A stack: the next component is the last one. It is bounded by one path and `MAX_SYMLINKS`
        // targets, each shorter than a page.
        let mut parts = Vec::new();
        push_parts(&mut parts, path);
        while let Some(part) = parts.pop() {
            // A `.` can be skipped: the lookup of the next component checks the same permission.
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

    /// Reads the target of a symlink.
    fn target(&mut self, parent: BorrowedFd<'_>, name: &[u8]) -> Result<Target, Errno> {
        self.symlinks += 1;
        if self.symlinks > MAX_SYMLINKS {
            return Err(Errno::LOOP);
        }
        let file_system = rustix::fs::fstatfs(parent)?;
        if u32::try_from(file_system.f_type).unwrap_or_default() != PROC_MAGIC {
            let target = rustix::fs::readlinkat(parent, name, Vec::new())?.into_bytes();
            return if target.is_empty() { Err(Errno::NOENT) } else { Ok(Target::Path(target)) };
        }
        // The target depends on the reading process, which must be the caller.
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
                // `/proc/mounts` and `/proc/net` are symlinks to `self/…`.
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

/// Returns the path itself if it is a single name.
fn plain_name(path: &[u8]) -> Option<&[u8]> {
    let is_plain = !matches!(path, b"" | b"." | b"..") && !path.contains(&b'/');
    is_plain.then_some(path)
}

/// Creates the entry for a name in an open directory.
fn entry(parent: OwnedFd, name: &[u8], is_directory: bool) -> Result<Located, Errno> {
    let mut path = directory_path(parent.as_fd())?;
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
    // A `.` is kept: a path that ends in one needs a searchable directory.
    parts.extend(new.filter(|part| !part.is_empty()).map(<[u8]>::to_vec));
}

/// Opens an entry with `O_PATH`, without following a symlink, and returns its kind.
pub(super) fn look(entry: &Entry) -> Result<(OwnedFd, FileType), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(&entry.parent, &entry.name, flags, Mode::empty())?;
    let kind = kind(fd.as_fd())?;
    Ok((fd, kind))
}

pub(super) fn kind(fd: BorrowedFd<'_>) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode))
}

/// Returns the magic link of our own file descriptor, which opens the same file again.
pub(super) fn magic_link(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Returns the real path of a file descriptor.
pub(super) fn real_path(fd: BorrowedFd<'_>) -> Result<PathBuf, Errno> {
    /// `/proc/self/fd`, opened once: each lookup has one component instead of four.
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

/// Returns the real path of an open directory.
///
/// To enter it and ask for the working directory takes a third of the time of reading a link in
/// `/proc`. The link is the fallback: for a directory that is removed, not searchable, or not below
/// the root of this process.
fn directory_path(directory: BorrowedFd<'_>) -> Result<PathBuf, Errno> {
    if HAS_OWN_DIRECTORY.get()
        && rustix::process::fchdir(directory).is_ok()
        && let Ok(path) = rustix::process::getcwd(Vec::with_capacity(256))
        && path.as_bytes().starts_with(b"/")
    {
        return Ok(PathBuf::from(OsStr::from_bytes(path.as_bytes())));
    }
    real_path(directory)
}

/// Refuses files in the supervisor's own `/proc` directory.
///
/// FAIL CLOSED: the caller must not open the supervisor's file descriptors and memory, but the
/// kernel would allow it to the supervisor. Its threads have directories too. `/proc` may be
/// mounted elsewhere, so every numeric component is compared. The file descriptor says whether it
/// is in `/proc`: the path may have been swapped (TOCTOU) or may not be searchable.
fn refuse_own_process(fd: BorrowedFd<'_>, real: &Path) -> Result<(), Errno> {
    let is_refused = real.iter().any(is_own) && is_in_proc(fd);
    if is_refused { Err(Errno::ACCESS) } else { Ok(()) }
}

/// Refuses the supervisor's process directory itself. A number is a process only at the top of
/// `/proc`: elsewhere it may be a file descriptor of the caller, such as `/proc/self/fd/1`.
fn refuse_own_directory(parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    let is_top = || rustix::fs::fstat(parent).is_ok_and(|stat| stat.st_ino == PROC_ROOT);
    let is_refused = is_own(name) && is_in_proc(parent) && is_top();
    if is_refused { Err(Errno::ACCESS) } else { Ok(()) }
}

/// Returns whether a component is the pid of the supervisor or the tid of one of its threads.
fn is_own(part: &OsStr) -> bool {
    part.to_str().and_then(|part| part.parse::<u32>().ok()).is_some_and(|number| {
        number == std::process::id()
            || rustix::fs::statat(CWD, format!("/proc/self/task/{number}"), AtFlags::empty())
                .is_ok()
    })
}

fn is_in_proc(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(fd).map_or(true, |it| u32::try_from(it.f_type) == Ok(PROC_MAGIC))
}
