//! Opens a path below a directory file descriptor and follows no symlink.
//!
//! In: a file descriptor and a relative path from `resolve`. Out: a file descriptor, or an errno.
//! Linux does it in one syscall (`openat2`). Other systems, and kernels without it, open component
//! by component, each relative to the one before.
//!
//! INVARIANT: no symlink is followed here. One that is swapped in after authorization (TOCTOU,
//! symlink race) gives an error.

use std::{
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
};

/// Adds the flags of every open. `O_NONBLOCK`, because opening a pipe without a writer would block.
/// The kernel rejects it together with `O_PATH`.
fn with_common_flags(flags: OFlags) -> OFlags {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    #[cfg(target_os = "linux")]
    if flags.contains(OFlags::PATH) {
        return flags;
    }
    flags | OFlags::NONBLOCK | OFlags::NOCTTY
}

/// Opens a directory only to look up names in it.
#[cfg(target_os = "linux")]
pub(crate) const SEARCH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
#[cfg(not(target_os = "linux"))]
pub(crate) const SEARCH: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Opens a path below a root. `LOOP` means that there is a symlink in it.
pub(crate) fn open_below(
    root: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    #[cfg(target_os = "linux")]
    match with_openat2(root, path, flags) {
        Err(Errno::NOSYS) => {}
        result => return result,
    }
    component_by_component(root, path, flags)
}

#[cfg(target_os = "linux")]
fn with_openat2(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    // `AGAIN` means that a directory was renamed during the syscall. Retry a few times.
    for _ in 0..8 {
        match rustix::fs::openat2(root, path, with_common_flags(flags), Mode::empty(), how) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

/// Returns whether a path exists and has no symlink in any component, the last one included.
/// `false` says nothing: it may be missing or inaccessible, or this system has no such syscall.
pub(super) fn exists_without_symlinks(root: BorrowedFd<'_>, path: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        // With `NOFOLLOW` a symlink at the end would be opened itself. Without it, it is refused.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        rustix::fs::openat2(root, path, flags, Mode::empty(), how).is_ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (root, path);
        false
    }
}

pub(super) fn component_by_component(
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
        let next = rustix::fs::openat(from, name, with_common_flags(how), Mode::empty());
        here = Some(next.map_err(|errno| symlink_errno(from, name, errno))?);
    }
    match here {
        Some(fd) => Ok(fd),
        None => rustix::fs::openat(root, ".", with_common_flags(flags), Mode::empty()),
    }
}

/// Normalizes the errno for a symlink in the place of a directory, which differs between systems.
fn symlink_errno(directory: BorrowedFd<'_>, name: &std::ffi::OsStr, errno: Errno) -> Errno {
    let is_link = || {
        rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
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
    fn openat2_and_component_walk_give_the_same_result() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path();
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
                let one = id(with_openat2(root.as_fd(), path, flags));
                let many = id(component_by_component(root.as_fd(), path, flags));
                match (one, many) {
                    // For a symlink, either errno is right; it depends on the flags.
                    (Err(Errno::LOOP | Errno::NOTDIR), Err(Errno::LOOP | Errno::NOTDIR)) => {}
                    (one, many) => assert_eq!(one, many, "{} {flags:?}", path.display()),
                }
            }
        }
    }
}
