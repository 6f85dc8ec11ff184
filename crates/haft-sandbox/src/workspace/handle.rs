//! Opens what lies below a folder handle, without following a single link.
//!
//! In: a handle and a relative path that `resolve` found. Out: a descriptor, or what the system said.
//! Linux does it in one call (`openat2`). Other systems, and kernels without that call, go step by
//! step, each step relative to the handle of the one before.
//!
//! INVARIANT: no link is followed here, so whoever swaps one in after the path was judged gets an
//! error and nothing else.

use std::{
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
};

/// What every descriptor is opened with. Non-blocking, because a pipe with no writer would hold us.
const ALWAYS: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// A folder that is only passed through.
#[cfg(target_os = "linux")]
pub(super) const SEARCH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
#[cfg(not(target_os = "linux"))]
pub(super) const SEARCH: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Opens a path below a root. `LOOP` says that there is a link in it.
pub(super) fn open_below(
    root: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    #[cfg(target_os = "linux")]
    match at_once(root, path, flags) {
        Err(Errno::NOSYS) => {}
        result => return result,
    }
    step_by_step(root, path, flags)
}

#[cfg(target_os = "linux")]
fn at_once(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    // `AGAIN` means that something was renamed under the call; a few tries, then it is told.
    for _ in 0..8 {
        match rustix::fs::openat2(root, path, flags | ALWAYS, Mode::empty(), how) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

pub(super) fn step_by_step(
    root: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let mut here: Option<OwnedFd> = None;
    let mut parts = path.iter().peekable();
    while let Some(name) = parts.next() {
        if name == ".." || name == "/" {
            return Err(Errno::XDEV);
        }
        let from = here.as_ref().map_or(root, |fd| fd.as_fd());
        let how = if parts.peek().is_some() { SEARCH } else { flags };
        let next = rustix::fs::openat(from, name, how | ALWAYS, Mode::empty());
        here = Some(next.map_err(|errno| link_or(from, name, errno))?);
    }
    match here {
        Some(fd) => Ok(fd),
        None => rustix::fs::openat(root, ".", flags | ALWAYS, Mode::empty()),
    }
}

/// A link where a folder was wanted is told in several ways; here it is told in one.
fn link_or(folder: BorrowedFd<'_>, name: &std::ffi::OsStr, errno: Errno) -> Errno {
    let is_link = || {
        rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
    };
    match errno {
        Errno::NOTDIR | Errno::MLINK if is_link() => Errno::LOOP,
        errno => errno,
    }
}
