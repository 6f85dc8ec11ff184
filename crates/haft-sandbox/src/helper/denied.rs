//! Denied paths, as mounts of one command.
//!
//! A denied file is covered by a regular file of mode 000, a denied directory by an empty file system
//! of mode 000, both read-only: every access is EACCES, also for root's number without capabilities.
//! Nothing looks empty or absent, so that git does not take a denied file for a deleted one. What may
//! be read and not changed is bound to itself, read-only.
//!
//! INVARIANT: a directory whose name decides about a denied path below it cannot be renamed.
//! FAIL CLOSED: a denied path that is there and cannot be masked ends the launch.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
    mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags},
};

use super::{
    Trouble,
    mounts::{NO_DEVICES, NO_SET_UID, READ_ONLY, change, in_memory},
};
use crate::{DeniedNames, Profile};

/// More mounts than this make every start slow. Directories are masked instead.
const MAX_MASKS: usize = 1_000;

const STEP: &str = "mounts: denied paths";
/// Where the covers are made. The names are gone before the command starts.
const COVER_FILE: &str = "/tmp/.haft-denied-file";
const COVER_DIRECTORY: &str = "/tmp/.haft-denied-directory";

/// Masks what the profile denies. Returns what the user should know about it.
pub(super) fn mask(profile: &Profile) -> Result<Vec<String>, Trouble> {
    let denied = &profile.denied;
    let names = DeniedNames::new(&denied.new).map_err(Trouble::profile)?;
    if denied.read.is_empty() && denied.edit.is_empty() {
        return Ok(Vec::new());
    }
    let mut notes = Vec::new();
    let read = plan(&denied.read, profile, &mut notes)?;
    let is_below = |path: &&PathBuf| !read.iter().any(|mask| path.starts_with(mask));
    let edit: Vec<PathBuf> = denied.edit.iter().filter(is_below).cloned().collect();
    let edit = plan(&edit, profile, &mut notes)?;
    hold_above(read.iter().chain(&edit), profile, &names)?;
    for path in &edit {
        if let Some(target) = open(path, profile)? {
            bind(&target, READ_ONLY).map_err(named(path))?;
        }
    }
    if !read.is_empty() {
        let covers = Covers::make().map_err(Trouble::machine(STEP))?;
        for path in &read {
            if let Some(target) = open(path, profile)? {
                covers.put_over(&target).map_err(named(path))?;
            }
        }
    }
    Ok(notes)
}

fn named(path: &Path) -> impl FnOnce(io::Error) -> Trouble {
    let message = format!("`{}` cannot be masked", path.display());
    move |e| Trouble::machine(STEP)(io::Error::new(e.kind(), format!("{message}: {e}")))
}

/// Returns what is masked: none below another, and directories in place of too many entries.
fn plan(
    paths: &[PathBuf],
    profile: &Profile,
    notes: &mut Vec<String>,
) -> Result<Vec<PathBuf>, Trouble> {
    if let Some(odd) = paths.iter().find(|path| !path.is_absolute()) {
        return Err(Trouble::profile(format!("the denied path `{}` is relative", odd.display())));
    }
    let all: BTreeSet<PathBuf> = paths.iter().cloned().collect();
    let before = all.len();
    let may_cover = |directory: &Path| {
        profile.roots.iter().any(|root| directory.starts_with(&root.path))
            && !profile.roots.iter().any(|root| root.path.starts_with(directory))
    };
    let Some(planned) = fold(all, MAX_MASKS, &may_cover) else {
        return Err(Trouble::profile(format!(
            "{before} paths are denied; more than {MAX_MASKS} cannot be masked"
        )));
    };
    if before > MAX_MASKS {
        notes.push(format!(
            "{before} paths are denied, more than {MAX_MASKS}: directories around them are masked as a whole"
        ));
    }
    Ok(planned.into_iter().collect())
}

/// Puts directories in place of entries until there are no more than `max`. `None` where that cannot
/// be without a root of the workspace.
fn fold(
    mut paths: BTreeSet<PathBuf>,
    max: usize,
    may_cover: &dyn Fn(&Path) -> bool,
) -> Option<BTreeSet<PathBuf>> {
    loop {
        without_nested(&mut paths);
        if paths.len() <= max {
            return Some(paths);
        }
        let mut groups: BTreeMap<&Path, usize> = BTreeMap::new();
        for parent in paths.iter().filter_map(|path| path.parent()).filter(|p| may_cover(p)) {
            *groups.entry(parent).or_default() += 1;
        }
        let depth = |path: &Path| path.components().count();
        let largest = groups.iter().max_by_key(|(path, count)| (**count, depth(path)))?;
        let folded: Vec<PathBuf> = match largest {
            (path, 2..) => vec![path.to_path_buf()],
            // Each is alone in its directory: the deepest ones go up a step.
            (path, _) => {
                let deepest = depth(path);
                let all = groups.keys().filter(|path| depth(path) == deepest);
                all.map(|path| path.to_path_buf()).collect()
            }
        };
        paths.extend(folded);
    }
}

/// Takes out what lies below another.
fn without_nested(paths: &mut BTreeSet<PathBuf>) {
    let mut kept: Option<PathBuf> = None;
    // A directory sorts before what is below it, with nothing else in between.
    paths.retain(|path| match &kept {
        Some(kept) if path.starts_with(kept) => false,
        _ => {
            kept = Some(path.clone());
            true
        }
    });
}

/// Makes a mount of each directory that must keep its name: a rename of it is EBUSY then.
fn hold_above<'p>(
    paths: impl Iterator<Item = &'p PathBuf>,
    profile: &Profile,
    names: &DeniedNames,
) -> Result<(), Trouble> {
    let mut held = BTreeSet::new();
    for path in paths {
        for root in profile.writable() {
            let inside = |above: &&Path| *above != root.path && above.starts_with(&root.path);
            let above = path.ancestors().skip(1).take_while(inside);
            held.extend(above.filter(|above| names.depends_on(&root.path, above)));
        }
    }
    if held.len() > MAX_MASKS {
        return Err(Trouble::profile(format!(
            "denied paths lie below {} directories; more than {MAX_MASKS} cannot be held in place",
            held.len()
        )));
    }
    for directory in held {
        if let Some(target) = open(directory, profile)? {
            bind(&target, 0).map_err(named(directory))?;
        }
    }
    Ok(())
}

/// Opens a path without following symlinks. `None` where nothing is there.
fn open(path: &Path, profile: &Profile) -> Result<Option<OwnedFd>, Trouble> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    let is_in_root = || profile.writable().any(|root| path.starts_with(&root.path));
    match opened {
        Ok(target) => Ok(Some(target)),
        // FAIL CLOSED: it was there when the rules were asked, and may be under another name now.
        Err(Errno::NOENT | Errno::NOTDIR)
            if profile.roots.iter().any(|root| path.starts_with(&root.path)) =>
        {
            let path = path.display();
            Err(Trouble::transient(STEP, format!("the denied path `{path}` was moved; try again")))
        }
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        // The command is the same user or a weaker one, and can change nothing there.
        Err(Errno::ACCESS) if !is_in_root() => Ok(None),
        Err(Errno::LOOP) => Err(Trouble::profile(format!(
            "a directory above the denied path `{}` is a symlink now; try again",
            path.display()
        ))),
        Err(errno) => Err(named(path)(errno.into())),
    }
}

/// Binds something to itself.
fn bind(target: &OwnedFd, flags: u64) -> io::Result<()> {
    let mount = clone(target)?;
    change(mount.as_fd(), NO_SET_UID | NO_DEVICES | flags, None)?;
    put(&mount, target)
}

fn clone(of: &OwnedFd) -> io::Result<OwnedFd> {
    let how = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(rustix::mount::open_tree(of, "", how)?)
}

fn put(mount: &OwnedFd, over: &OwnedFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(rustix::mount::move_mount(mount, "", over, "", flags)?)
}

/// What is put over denied files and directories.
struct Covers {
    file: OwnedFd,
    directory: OwnedFd,
}

impl Covers {
    fn make() -> io::Result<Self> {
        let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o000).open(COVER_FILE);
        drop(made?);
        fs::DirBuilder::new().mode(0o700).create(COVER_DIRECTORY)?;
        in_memory(Path::new(COVER_DIRECTORY), "size=4k,nr_inodes=2,mode=0")?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self {
            file: rustix::fs::open(COVER_FILE, flags, Mode::empty())?,
            directory: rustix::fs::open(COVER_DIRECTORY, flags, Mode::empty())?,
        })
    }

    fn put_over(&self, target: &OwnedFd) -> io::Result<()> {
        let stat = rustix::fs::fstat(target)?;
        let cover = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => &self.directory,
            _ => &self.file,
        };
        let mount = clone(cover)?;
        change(mount.as_fd(), READ_ONLY | NO_SET_UID | NO_DEVICES, None)?;
        put(&mount, target)
    }
}

impl Drop for Covers {
    /// The covers stay where they were put; only their first names go.
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(COVER_DIRECTORY, UnmountFlags::DETACH);
        let _ = fs::remove_dir(COVER_DIRECTORY);
        let _ = fs::remove_file(COVER_FILE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(paths: &[&str], max: usize) -> Option<Vec<String>> {
        let paths = paths.iter().map(PathBuf::from).collect();
        let may_cover = |path: &Path| path.starts_with("/w") && path != Path::new("/w");
        let folded = fold(paths, max, &may_cover)?;
        Some(folded.iter().map(|path| path.display().to_string()).collect())
    }

    #[test]
    fn entries_below_a_masked_directory_need_no_mask_of_their_own() {
        let paths = ["/w/a", "/w/a/b", "/w/a/c/d", "/w/ab"];
        assert_eq!(folded(&paths, 10).unwrap(), ["/w/a", "/w/ab"]);
    }

    #[test]
    fn too_many_entries_become_the_directory_that_holds_most_of_them() {
        let paths = ["/w/keys/1", "/w/keys/2", "/w/keys/3", "/w/.env", "/w/x/y/z"];
        assert_eq!(folded(&paths, 3).unwrap(), ["/w/.env", "/w/keys", "/w/x/y/z"]);
        let alone = ["/w/p/a/.env", "/w/p/b/.env", "/w/p/c/.env"];
        assert_eq!(folded(&alone, 1).unwrap(), ["/w/p"]);
    }

    #[test]
    fn a_root_is_never_masked_for_its_entries() {
        assert_eq!(folded(&["/w/1", "/w/2", "/w/3"], 2), None);
    }
}
