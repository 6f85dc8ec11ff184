//! Resolves a path to one without symlinks and `..`, and rejects path traversal.
//!
//! In: text, and the directory it starts in. Out: a [`ResolvedPath`]. A path without symlinks needs
//! one syscall (`openat2`). All others are walked component by component: symlinks are read and
//! substituted in the path, but the kernel never follows one. Later operations follow none either,
//! so a symlink that is swapped in after this check (TOCTOU) gives an error and no escape.
//!
//! FAIL CLOSED: a symlink that leads out of every root, and a symlink loop, are rejected.

use std::{
    collections::VecDeque,
    ffi::OsString,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
};

use super::{
    PathError, PathErrorKind, ResolvedPath, Workspace,
    name::{self, MAX_DEPTH, Step},
    open_beneath::{SEARCH, exists_without_symlinks},
};

/// Symlinks that one path may go through, the same as in Linux. More count as a loop.
const MAX_SYMLINKS: usize = 40;
/// Components that one path may have, with the targets of its symlinks.
const MAX_STEPS: usize = 16 << 10;

/// What happens to a symlink that is the last component of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// It is followed.
    Follow,
    /// It is not followed: the result is the symlink itself.
    Keep,
}

pub(super) fn resolve(
    workspace: &Workspace,
    start: Option<&ResolvedPath>,
    path: &Path,
    last: Last,
) -> Result<ResolvedPath, PathError> {
    let shown = path.to_string_lossy();
    let refuse = |cause| PathError::new(cause, &*shown);
    name::check(path).map_err(refuse)?;
    if name::is_home(path) {
        return Err(refuse(PathErrorKind::OutsideWorkspace));
    }
    match without_symlinks(workspace, start, path) {
        Some(resolved) => Ok(resolved),
        None => component_by_component(workspace, start, path, last),
    }
}

/// Walks a path by file descriptors, component by component, and substitutes symlinks.
fn component_by_component(
    workspace: &Workspace,
    start: Option<&ResolvedPath>,
    path: &Path,
    last: Last,
) -> Result<ResolvedPath, PathError> {
    let shown = path.to_string_lossy();
    let refuse = |cause| PathError::new(cause, &*shown);
    // `link/` and `link/.` refer to the target of the symlink.
    let last = if ends_in_directory(path) { Last::Follow } else { last };
    let (mut root, steps) = match name::steps(path) {
        Some(steps) => {
            let mut all: Vec<Step> = Vec::new();
            if let Some(start) = start {
                all.extend(name::steps(&start.path).into_iter().flatten());
            }
            all.extend(steps);
            (start.map_or(0, |start| start.root), all)
        }
        None => below(workspace, path).ok_or_else(|| refuse(PathErrorKind::OutsideWorkspace))?,
    };
    let mut rest: VecDeque<Step> = steps.into();
    let mut walk = Walk { workspace, root, stack: Vec::new() };
    let (mut links, mut taken) = (0, 0);
    // Components that do not exist. There can be no symlink below the first of them.
    let mut missing: Vec<OsString> = Vec::new();
    while let Some(step) = rest.pop_front() {
        taken += 1;
        if taken > MAX_STEPS || walk.stack.len() + missing.len() > MAX_DEPTH {
            return Err(refuse(PathErrorKind::NameInvalid));
        }
        let name = match step {
            Step::Up if !missing.is_empty() => return Err(refuse(PathErrorKind::NotFound)),
            Step::Up => match walk.stack.pop() {
                Some((_, Some(_))) => continue,
                Some((_, None)) => return Err(refuse(PathErrorKind::NotADirectory)),
                None => return Err(refuse(PathErrorKind::OutsideWorkspace)),
            },
            Step::Down(name) => name,
        };
        if !missing.is_empty() {
            missing.push(name);
            continue;
        }
        let seen = walk.look_up(&name).map_err(|errno| match errno {
            // It was a symlink or a directory when it was checked (TOCTOU).
            Errno::AGAIN | Errno::INVAL => refuse(PathErrorKind::Changed),
            errno => PathError::os(&shown, errno),
        });
        match seen? {
            Found::Missing => missing.push(name),
            Found::Directory(handle) => walk.stack.push((name, Some(handle))),
            Found::Link(_) if rest.is_empty() && last == Last::Keep => {
                walk.stack.push((name, None))
            }
            Found::Other => walk.stack.push((name, None)),
            Found::Link(target) => {
                links += 1;
                if links > MAX_SYMLINKS {
                    return Err(refuse(PathErrorKind::SymlinkLoop));
                }
                // An invalid target cannot be inside.
                name::check(&target).map_err(|_| refuse(PathErrorKind::OutsideWorkspace))?;
                let steps = match name::steps(&target) {
                    Some(steps) => steps,
                    None => {
                        let (other, steps) = below(workspace, &target)
                            .ok_or_else(|| refuse(PathErrorKind::OutsideWorkspace))?;
                        root = other;
                        walk = Walk { workspace, root, stack: Vec::new() };
                        steps
                    }
                };
                for step in steps.into_iter().rev() {
                    rest.push_front(step);
                }
            }
        }
    }
    let exists = missing.is_empty();
    let names = walk.stack.into_iter().map(|(name, _)| name).chain(missing);
    let path: PathBuf = names.collect();
    if path.as_os_str().len() >= name::MAX_PATH_BYTES {
        return Err(refuse(PathErrorKind::NameInvalid));
    }
    Ok(ResolvedPath { root, base: workspace.base(root), path, exists })
}

/// Resolves a path that exists and has neither symlinks nor `..`, as most have: one syscall, at any
/// depth. Returns `None` for all others; the walk resolves them or says what is wrong.
fn without_symlinks(
    workspace: &Workspace,
    start: Option<&ResolvedPath>,
    path: &Path,
) -> Option<ResolvedPath> {
    let (root, mut whole, rest) = if path.is_absolute() {
        let (root, rest) = workspace.below(path)?;
        (root, PathBuf::new(), rest)
    } else {
        let (root, from) = start.map_or((0, Path::new("")), |start| (start.root, &start.path));
        let mut whole = PathBuf::with_capacity(from.as_os_str().len() + path.as_os_str().len() + 1);
        whole.push(from);
        (root, whole, path)
    };
    for part in rest.components() {
        match part {
            Component::Normal(name) => whole.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    if whole.as_os_str().len() >= name::MAX_PATH_BYTES || whole.components().count() > MAX_DEPTH {
        return None;
    }
    let is_direct =
        whole.as_os_str().is_empty() || exists_without_symlinks(workspace.handle(root)?, &whole);
    is_direct.then(|| ResolvedPath { root, base: workspace.base(root), path: whole, exists: true })
}

/// Finds the root of an absolute path, and the steps from there.
fn below(workspace: &Workspace, path: &Path) -> Option<(usize, Vec<Step>)> {
    let (root, rest) = workspace.below(path)?;
    Some((root, name::steps(rest)?))
}

fn ends_in_directory(path: &Path) -> bool {
    let text = path.as_os_str().as_encoded_bytes();
    text.ends_with(b"/") || text.ends_with(b"/.")
}

/// The current position: the names from the root down, with a file descriptor for each directory.
struct Walk<'w> {
    workspace: &'w Workspace,
    root: usize,
    stack: Vec<(OsString, Option<OwnedFd>)>,
}

enum Found {
    Missing,
    Directory(OwnedFd),
    Link(PathBuf),
    Other,
}

impl Walk<'_> {
    fn look_up(&self, name: &OsString) -> Result<Found, Errno> {
        let here: BorrowedFd<'_> = match self.stack.last() {
            None => self.workspace.handle(self.root).ok_or(Errno::NOENT)?,
            Some((_, Some(handle))) => handle.as_fd(),
            Some((_, None)) => return Err(Errno::NOTDIR),
        };
        let stat = match rustix::fs::statat(here, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(Found::Missing),
            stat => stat?,
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let how = SEARCH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                match rustix::fs::openat(here, name, how, Mode::empty()) {
                    Ok(handle) => Ok(Found::Directory(handle)),
                    // It was a directory when it was checked (TOCTOU).
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Err(Errno::AGAIN),
                    Err(errno) => Err(errno),
                }
            }
            FileType::Symlink => {
                use std::os::unix::ffi::OsStringExt as _;
                let target = rustix::fs::readlinkat(here, name, Vec::new())?;
                Ok(Found::Link(OsString::from_vec(target.into_bytes()).into()))
            }
            _ => Ok(Found::Other),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;
    use crate::Access;

    #[test]
    fn fast_path_and_component_walk_resolve_to_the_same_path() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("one/a/b")).unwrap();
        fs::create_dir_all(base.join("two/a")).unwrap();
        fs::File::create(base.join("one/a/file")).unwrap();
        fs::File::create(base.join("two/a/file")).unwrap();
        for (target, link) in
            [("a", "one/link"), ("file", "one/a/alias"), ("/etc", "one/out"), ("..", "one/a/up")]
        {
            symlink(target, base.join(link)).unwrap();
        }
        let build = Workspace::builder().root(base.join("one"), Access::Write);
        let workspace = build.root(base.join("two"), Access::Read).build().unwrap();
        let start = workspace.resolve("a").unwrap();
        let deep = "a/".repeat(300);
        let mut paths: Vec<String> = [
            ".",
            "a",
            "a/",
            "a/.",
            "./a//b",
            "a/file",
            "a/file/",
            "a/file/x",
            "b",
            "gone",
            "a/gone/x",
            "..",
            "a/..",
            "a/../a/file",
            "link",
            "link/file",
            "a/alias",
            "out",
            "out/passwd",
            "a/up/a/file",
            "one",
            &deep,
        ]
        .map(str::to_owned)
        .into();
        for root in ["one", "two"] {
            for below in ["", "/", "/a", "/a/file", "/a/../a", "/link", "/gone"] {
                paths.push(format!("{}/{root}{below}", base.display()));
            }
        }
        let (mut direct, mut walked) = (0, 0);
        for path in paths.iter().map(Path::new) {
            for start in [None, Some(&start)] {
                for last in [Last::Follow, Last::Keep] {
                    let walk = component_by_component(&workspace, start, path, last);
                    match without_symlinks(&workspace, start, path) {
                        Some(resolved) => {
                            direct += 1;
                            assert_eq!(walk.unwrap(), resolved, "{}", path.display());
                        }
                        None => walked += 1,
                    }
                }
            }
        }
        assert!(direct > 30 && walked > 30, "{direct} {walked}");
        for through in ["link", "link/file", "a/alias", "out", "out/passwd", "a/up", "a/up/a/file"]
        {
            assert_eq!(without_symlinks(&workspace, None, Path::new(through)), None, "{through}");
        }
    }
}
