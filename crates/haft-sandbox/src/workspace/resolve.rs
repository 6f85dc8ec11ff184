//! Finds where a path leads: the same path without links and without steps up.
//!
//! In: text, and the folder it starts in. Out: a [`Place`]. Links are read here and followed on paper
//! only; whatever is done at a place is done without following any, so that a link that is swapped
//! in later gives an error and no escape.
//!
//! FAIL CLOSED: a link that leads out of every root, and a circle, are refused.

use std::{
    collections::VecDeque,
    ffi::OsString,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
};

use super::{
    Cause, Place, Refusal, Workspace,
    handle::SEARCH,
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
    start: Option<&Place>,
    path: &Path,
    last: Last,
) -> Result<Place, Refusal> {
    let shown = path.to_string_lossy();
    let refuse = |cause| Refusal::new(cause, &*shown);
    name::sound(path).map_err(refuse)?;
    if name::is_home(path) {
        return Err(refuse(Cause::OutsideWorkspace));
    }
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
        None => workspace.below(path).ok_or_else(|| refuse(Cause::OutsideWorkspace))?,
    };
    let mut rest: VecDeque<Step> = steps.into();
    let mut walk = Walk { workspace, root, stack: Vec::new() };
    let (mut links, mut taken) = (0, 0);
    // What does not exist is only written down; nothing can be a link below it.
    let mut missing: Vec<OsString> = Vec::new();
    while let Some(step) = rest.pop_front() {
        taken += 1;
        if taken > STEPS || walk.stack.len() + missing.len() > DEEP {
            return Err(refuse(Cause::NameInvalid));
        }
        let name = match step {
            Step::Up if !missing.is_empty() => return Err(refuse(Cause::NotFound)),
            Step::Up => match walk.stack.pop() {
                Some((_, Some(_))) => continue,
                Some((_, None)) => return Err(refuse(Cause::NotAFolder)),
                None => return Err(refuse(Cause::OutsideWorkspace)),
            },
            Step::Down(name) => name,
        };
        if !missing.is_empty() {
            missing.push(name);
            continue;
        }
        let seen = walk.look(&name).map_err(|errno| match errno {
            // It was a link, or a folder, a moment ago.
            Errno::AGAIN | Errno::INVAL => refuse(Cause::Changed),
            errno => Refusal::os(&shown, errno),
        });
        match seen? {
            Seen::Nothing => missing.push(name),
            Seen::Folder(handle) => walk.stack.push((name, Some(handle))),
            Seen::Link(_) if rest.is_empty() && last == Last::Keep => walk.stack.push((name, None)),
            Seen::Other => walk.stack.push((name, None)),
            Seen::Link(target) => {
                links += 1;
                if links > LINKS {
                    return Err(refuse(Cause::LinkLoop));
                }
                // A link with a bad target leads nowhere that could be inside.
                name::sound(&target).map_err(|_| refuse(Cause::OutsideWorkspace))?;
                let steps = match name::steps(&target) {
                    Some(steps) => steps,
                    None => {
                        let (other, steps) = workspace
                            .below(&target)
                            .ok_or_else(|| refuse(Cause::OutsideWorkspace))?;
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
        return Err(refuse(Cause::NameInvalid));
    }
    Ok(Place { root, base: workspace.base(root), path, exists })
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
