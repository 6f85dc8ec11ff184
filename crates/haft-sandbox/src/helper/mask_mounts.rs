//! Masks denied paths with mounts in the namespace of one command.
//!
//! A regular file of mode 000 covers a denied file, an empty file system of mode 000 covers a
//! denied directory. Both are read-only: every access fails with `EACCES`, also for uid 0 without
//! capabilities. A denied path never looks empty or missing, so git does not take it for deleted.
//! Read-only paths are bind-mounted on themselves.
//!
//! INVARIANT: a directory whose name decides about a denied path below it cannot be renamed.
//! FAIL CLOSED: if an existing denied path cannot be masked, the launch fails.

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
    SetupError,
    mounts::{NO_DEVICES, NO_SET_UID, READ_ONLY, change, mount_tmpfs},
};
use crate::{DeniedNames, Profile};

/// Mounts for denied paths. More make every start slow, so directories are masked instead.
const MAX_MASKS: usize = 1_000;

const STEP: &str = "mounts: denied paths";
/// Where the covers are created. The names are removed before the command starts.
const COVER_FILE: &str = "/tmp/.haft-denied-file";
const COVER_DIRECTORY: &str = "/tmp/.haft-denied-directory";

/// Masks what the profile denies. Returns notes for the tier.
pub(super) fn mask(profile: &Profile) -> Result<Vec<String>, SetupError> {
    let denied = &profile.denied;
    let names = DeniedNames::new(&denied.new).map_err(SetupError::profile)?;
    if denied.read.is_empty() && denied.edit.is_empty() {
        return Ok(Vec::new());
    }
    let mut notes = Vec::new();
    let read = plan(&denied.read, profile, &mut notes)?;
    let is_below = |path: &&PathBuf| !read.iter().any(|mask| path.starts_with(mask));
    let edit: Vec<PathBuf> = denied.edit.iter().filter(is_below).cloned().collect();
    let edit = plan(&edit, profile, &mut notes)?;
    pin_parents(read.iter().chain(&edit), profile, &names)?;
    for path in &edit {
        if let Some(target) = open(path, profile)? {
            bind(&target, READ_ONLY).map_err(named(path))?;
        }
    }
    if !read.is_empty() {
        let covers = Covers::make().map_err(SetupError::machine(STEP))?;
        for path in &read {
            if let Some(target) = open(path, profile)? {
                covers.put_over(&target).map_err(named(path))?;
            }
        }
    }
    Ok(notes)
}

fn named(path: &Path) -> impl FnOnce(io::Error) -> SetupError {
    let message = format!("`{}` cannot be masked", path.display());
    move |e| SetupError::machine(STEP)(io::Error::new(e.kind(), format!("{message}: {e}")))
}

/// Returns the paths to mask: none below another, and directories instead of too many entries.
fn plan(
    paths: &[PathBuf],
    profile: &Profile,
    notes: &mut Vec<String>,
) -> Result<Vec<PathBuf>, SetupError> {
    if let Some(odd) = paths.iter().find(|path| !path.is_absolute()) {
        return Err(SetupError::profile(format!(
            "the denied path `{}` is relative",
            odd.display()
        )));
    }
    let all: BTreeSet<PathBuf> = paths.iter().cloned().collect();
    let before = all.len();
    let may_cover = |directory: &Path| {
        profile.roots.iter().any(|root| directory.starts_with(&root.path))
            && !profile.roots.iter().any(|root| root.path.starts_with(directory))
    };
    let Some(planned) = fold(all, MAX_MASKS, &may_cover) else {
        return Err(SetupError::profile(format!(
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

/// Replaces entries by their directories until there are at most `max`. Returns `None` if that is
/// impossible without masking a root.
fn fold(
    mut paths: BTreeSet<PathBuf>,
    max: usize,
    may_cover: &dyn Fn(&Path) -> bool,
) -> Option<BTreeSet<PathBuf>> {
    loop {
        remove_nested(&mut paths);
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
            // Each is alone in its directory: replace the deepest ones by their parents.
            (path, _) => {
                let deepest = depth(path);
                let all = groups.keys().filter(|path| depth(path) == deepest);
                all.map(|path| path.to_path_buf()).collect()
            }
        };
        paths.extend(folded);
    }
}

/// Removes paths that are below another one.
fn remove_nested(paths: &mut BTreeSet<PathBuf>) {
    let mut kept: Option<PathBuf> = None;
    // A directory sorts directly before the paths below it.
    paths.retain(|path| match &kept {
        Some(kept) if path.starts_with(kept) => false,
        _ => {
            kept = Some(path.clone());
            true
        }
    });
}

/// Bind-mounts each directory that must keep its name: renaming a mount point fails with `EBUSY`.
fn pin_parents<'p>(
    paths: impl Iterator<Item = &'p PathBuf>,
    profile: &Profile,
    names: &DeniedNames,
) -> Result<(), SetupError> {
    let mut pinned = BTreeSet::new();
    for path in paths {
        for root in profile.writable() {
            let inside = |above: &&Path| *above != root.path && above.starts_with(&root.path);
            let above = path.ancestors().skip(1).take_while(inside);
            pinned.extend(above.filter(|above| names.depends_on(&root.path, above)));
        }
    }
    if pinned.len() > MAX_MASKS {
        return Err(SetupError::profile(format!(
            "denied paths are below {} directories; more than {MAX_MASKS} cannot be pinned",
            pinned.len()
        )));
    }
    for directory in pinned {
        if let Some(target) = open(directory, profile)? {
            bind(&target, 0).map_err(named(directory))?;
        }
    }
    Ok(())
}

/// Opens a path without following symlinks. Returns `None` if it does not exist.
fn open(path: &Path, profile: &Profile) -> Result<Option<OwnedFd>, SetupError> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    let is_in_root = || profile.writable().any(|root| path.starts_with(&root.path));
    match opened {
        Ok(target) => Ok(Some(target)),
        // FAIL CLOSED: it existed at authorization time and may have been renamed since (TOCTOU).
        Err(Errno::NOENT | Errno::NOTDIR)
            if profile.roots.iter().any(|root| path.starts_with(&root.path)) =>
        {
            let path = path.display();
            Err(SetupError::transient(
                STEP,
                format!("the denied path `{path}` was moved; try again"),
            ))
        }
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        // The command has at most our rights, so it cannot access it either.
        Err(Errno::ACCESS) if !is_in_root() => Ok(None),
        Err(Errno::LOOP) => Err(SetupError::profile(format!(
            "a directory above the denied path `{}` is a symlink now; try again",
            path.display()
        ))),
        Err(errno) => Err(named(path)(errno.into())),
    }
}

/// Bind-mounts a path on itself.
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

/// The mounts that cover denied files and directories.
struct Covers {
    file: OwnedFd,
    directory: OwnedFd,
}

impl Covers {
    fn make() -> io::Result<Self> {
        let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o000).open(COVER_FILE);
        drop(made?);
        fs::DirBuilder::new().mode(0o700).create(COVER_DIRECTORY)?;
        mount_tmpfs(Path::new(COVER_DIRECTORY), "size=4k,nr_inodes=2,mode=0")?;
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
    /// Removes the names of the covers. The attached mounts stay.
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
    fn entries_below_a_masked_directory_get_no_mask() {
        let paths = ["/w/a", "/w/a/b", "/w/a/c/d", "/w/ab"];
        assert_eq!(folded(&paths, 10).unwrap(), ["/w/a", "/w/ab"]);
    }

    #[test]
    fn too_many_entries_are_replaced_by_their_directory() {
        let paths = ["/w/keys/1", "/w/keys/2", "/w/keys/3", "/w/.env", "/w/x/y/z"];
        assert_eq!(folded(&paths, 3).unwrap(), ["/w/.env", "/w/keys", "/w/x/y/z"]);
        let alone = ["/w/p/a/.env", "/w/p/b/.env", "/w/p/c/.env"];
        assert_eq!(folded(&alone, 1).unwrap(), ["/w/p"]);
    }

    #[test]
    fn root_is_never_masked_for_its_entries() {
        assert_eq!(folded(&["/w/1", "/w/2", "/w/3"], 2), None);
    }
}
