//! Finds where a path leads: the same path without links and without steps up.
//!
//! In: text, and the folder it starts in. Out: a [`ResolvedPath`]. A path without links is known by
//! one call of the kernel. All others are walked: links are read here and followed on paper only;
//! whatever is done at a place is done without following any, so that a link that is swapped in
//! later gives an error and no escape.
//!
//! FAIL CLOSED: a link that leads out of every root, and a circle, are refused.

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
    handle::{SEARCH, leads_straight},
    name::{self, DEEP, Step},
};

/// More links than this are a circle, or meant to be taken for one. The same as Linux allows.
const LINKS: usize = 40;
/// No path takes more steps, links included.
const STEPS: usize = 16 << 10;

/// What happens to a link that is the last part of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// It is followed: the file is meant.
    Follow,
    /// It is kept: the link itself is meant.
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
    name::sound(path).map_err(refuse)?;
    if name::is_home(path) {
        return Err(refuse(PathErrorKind::OutsideWorkspace));
    }
    match straight(workspace, start, path) {
        Some(place) => Ok(place),
        None => step_by_step(workspace, start, path, last),
    }
}

/// Walks a path by handles, one part after the other, and follows links on paper.
fn step_by_step(
    workspace: &Workspace,
    start: Option<&ResolvedPath>,
    path: &Path,
    last: Last,
) -> Result<ResolvedPath, PathError> {
    let shown = path.to_string_lossy();
    let refuse = |cause| PathError::new(cause, &*shown);
    // Who writes `link/` or `link/.` means what the link leads to.
    let last = if ends_in_folder(path) { Last::Follow } else { last };
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
    // What does not exist is only written down; nothing can be a link below it.
    let mut missing: Vec<OsString> = Vec::new();
    while let Some(step) = rest.pop_front() {
        taken += 1;
        if taken > STEPS || walk.stack.len() + missing.len() > DEEP {
            return Err(refuse(PathErrorKind::NameInvalid));
        }
        let name = match step {
            Step::Up if !missing.is_empty() => return Err(refuse(PathErrorKind::NotFound)),
            Step::Up => match walk.stack.pop() {
                Some((_, Some(_))) => continue,
                Some((_, None)) => return Err(refuse(PathErrorKind::NotAFolder)),
                None => return Err(refuse(PathErrorKind::OutsideWorkspace)),
            },
            Step::Down(name) => name,
        };
        if !missing.is_empty() {
            missing.push(name);
            continue;
        }
        let seen = walk.look(&name).map_err(|errno| match errno {
            // It was a link, or a folder, a moment ago.
            Errno::AGAIN | Errno::INVAL => refuse(PathErrorKind::Changed),
            errno => PathError::os(&shown, errno),
        });
        match seen? {
            Seen::Nothing => missing.push(name),
            Seen::Folder(handle) => walk.stack.push((name, Some(handle))),
            Seen::Link(_) if rest.is_empty() && last == Last::Keep => walk.stack.push((name, None)),
            Seen::Other => walk.stack.push((name, None)),
            Seen::Link(target) => {
                links += 1;
                if links > LINKS {
                    return Err(refuse(PathErrorKind::LinkLoop));
                }
                // A link with a bad target leads nowhere that could be inside.
                name::sound(&target).map_err(|_| refuse(PathErrorKind::OutsideWorkspace))?;
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
    if path.as_os_str().len() >= name::LONG {
        return Err(refuse(PathErrorKind::NameInvalid));
    }
    Ok(ResolvedPath { root, base: workspace.base(root), path, exists })
}

/// Finds a path that exists and has neither links nor steps up in it, which is nearly every one: the
/// kernel says so in one call, however deep it is. Everything else is for the walk, which also finds
/// the words for what is wrong.
fn straight(
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
    if whole.as_os_str().len() >= name::LONG || whole.components().count() > DEEP {
        return None;
    }
    let is_straight =
        whole.as_os_str().is_empty() || leads_straight(workspace.handle(root)?, &whole);
    is_straight.then(|| ResolvedPath {
        root,
        base: workspace.base(root),
        path: whole,
        exists: true,
    })
}

/// Finds the root an absolute path is in, and the steps from there.
fn below(workspace: &Workspace, path: &Path) -> Option<(usize, Vec<Step>)> {
    let (root, rest) = workspace.below(path)?;
    Some((root, name::steps(rest)?))
}

fn ends_in_folder(path: &Path) -> bool {
    let text = path.as_os_str().as_encoded_bytes();
    text.ends_with(b"/") || text.ends_with(b"/.")
}

/// Where we stand: the names from the root down, with a handle for each that is a folder.
struct Walk<'w> {
    workspace: &'w Workspace,
    root: usize,
    stack: Vec<(OsString, Option<OwnedFd>)>,
}

enum Seen {
    Nothing,
    Folder(OwnedFd),
    Link(PathBuf),
    Other,
}

impl Walk<'_> {
    fn look(&self, name: &OsString) -> Result<Seen, Errno> {
        let here: BorrowedFd<'_> = match self.stack.last() {
            None => self.workspace.handle(self.root).ok_or(Errno::NOENT)?,
            Some((_, Some(handle))) => handle.as_fd(),
            Some((_, None)) => return Err(Errno::NOTDIR),
        };
        let stat = match rustix::fs::statat(here, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(Seen::Nothing),
            stat => stat?,
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let how = SEARCH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                match rustix::fs::openat(here, name, how, Mode::empty()) {
                    Ok(handle) => Ok(Seen::Folder(handle)),
                    // It was a folder a moment ago.
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Err(Errno::AGAIN),
                    Err(errno) => Err(errno),
                }
            }
            FileType::Symlink => {
                use std::os::unix::ffi::OsStringExt as _;
                let target = rustix::fs::readlinkat(here, name, Vec::new())?;
                Ok(Seen::Link(OsString::from_vec(target.into_bytes()).into()))
            }
            _ => Ok(Seen::Other),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;
    use crate::Access;

    #[test]
    fn where_the_kernel_answers_at_once_the_walk_gives_the_same_place() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
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
        let (mut at_once, mut walked) = (0, 0);
        for path in paths.iter().map(Path::new) {
            for start in [None, Some(&start)] {
                for last in [Last::Follow, Last::Keep] {
                    let walk = step_by_step(&workspace, start, path, last);
                    match straight(&workspace, start, path) {
                        Some(place) => {
                            at_once += 1;
                            assert_eq!(walk.unwrap(), place, "{}", path.display());
                        }
                        None => walked += 1,
                    }
                }
            }
        }
        assert!(at_once > 30 && walked > 30, "{at_once} {walked}");
        for through in ["link", "link/file", "a/alias", "out", "out/passwd", "a/up", "a/up/a/file"]
        {
            assert_eq!(straight(&workspace, None, Path::new(through)), None, "{through}");
        }
    }
}
