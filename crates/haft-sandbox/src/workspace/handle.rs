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

/// Adds what every descriptor is opened with. Non-blocking, because a pipe with no writer would hold
/// us; not for a folder that is only passed through, where the kernel takes it for a mistake.
fn always(flags: OFlags) -> OFlags {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    #[cfg(target_os = "linux")]
    if flags.contains(OFlags::PATH) {
        return flags;
    }
    flags | OFlags::NONBLOCK | OFlags::NOCTTY
}

/// A folder that is only passed through.
#[cfg(target_os = "linux")]
pub(crate) const SEARCH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
#[cfg(not(target_os = "linux"))]
pub(crate) const SEARCH: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Opens a path below a root. `LOOP` says that there is a link in it.
pub(crate) fn open_below(
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
        match rustix::fs::openat2(root, path, always(flags), Mode::empty(), how) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

/// Returns whether something is there that is reached without a single link, the last part included.
/// No says nothing: it may be missing, closed, or this system may not be able to tell at once.
pub(super) fn leads_straight(root: BorrowedFd<'_>, path: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        // With `NOFOLLOW` a link at the end would be opened itself; without it, it is refused.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        rustix::fs::openat2(root, path, flags, Mode::empty(), how).is_ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (root, path);
        false
    }
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
        let next = rustix::fs::openat(from, name, always(how), Mode::empty());
        here = Some(next.map_err(|errno| link_or(from, name, errno))?);
    }
    match here {
        Some(fd) => Ok(fd),
        None => rustix::fs::openat(root, ".", always(flags), Mode::empty()),
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn one_call_and_many_steps_give_the_same_answers() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path();
        fs::create_dir_all(base.join("a/b")).unwrap();
        fs::File::create(base.join("a/file")).unwrap();
        std::os::unix::fs::symlink("a", base.join("link")).unwrap();
        std::os::unix::fs::symlink("/etc", base.join("a/out")).unwrap();
        std::os::unix::fs::symlink("file", base.join("a/alias")).unwrap();
        let root = fs::File::open(base).unwrap();
        let paths = [
            "",
            "a",
            "a/b",
            "a/file",
            "link",
            "link/file",
            "a/out",
            "a/out/passwd",
            "a/alias",
            "gone",
            "a/gone",
            "gone/x",
            "a/file/x",
            "..",
            "../x",
            "a/../..",
        ];
        let kinds = [OFlags::RDONLY, OFlags::RDONLY | OFlags::DIRECTORY, SEARCH];
        for path in paths.map(Path::new) {
            for flags in kinds {
                let id =
                    |fd: Result<OwnedFd, Errno>| fd.map(|fd| rustix::fs::fstat(fd).unwrap().st_ino);
                let one = id(at_once(root.as_fd(), path, flags));
                let many = id(step_by_step(root.as_fd(), path, flags));
                match (one, many) {
                    // Whether a link is called a link or no folder depends on what was asked for.
                    (Err(Errno::LOOP | Errno::NOTDIR), Err(Errno::LOOP | Errno::NOTDIR)) => {}
                    (one, many) => assert_eq!(one, many, "{} {flags:?}", path.display()),
                }
            }
        }
    }
}
