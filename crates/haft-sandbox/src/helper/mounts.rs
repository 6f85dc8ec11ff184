//! The mounts of tier A, in a mount namespace that ends with the command.
//!
//! Everything is read-only. The roots are mounted on top, writable if the profile says so.
//! Protected names in them are bind-mounted on themselves, read-only. Temporary directories, `/run`
//! and `/dev` are private.
//!
//! INVARIANT: a root is opened before anything is mounted over it, and its device and inode are
//! those that were authorized (TOCTOU).

use std::{
    collections::BTreeSet,
    ffi::CString,
    fs::{self, DirBuilder},
    io,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
};

use haft_core::protected_names::{Change, ProtectedNames};
use rustix::{
    fs::{CWD, Mode, OFlags},
    mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags},
};

use super::{SetupError, mask_mounts, sys};
use crate::{Access, GitDirectory, Network, Profile, Root};

pub(super) const READ_ONLY: u64 = 0x1;
pub(super) const NO_SET_UID: u64 = 0x2;
pub(super) const NO_DEVICES: u64 = 0x4;
const MAPPED: u64 = 0x0010_0000;
const PRIVATE: u64 = 1 << 18;

/// Harmless devices that programs expect.
pub(super) const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Private pseudo-terminals, for programs such as `script`.
pub(super) const TERMINALS: &str = "/dev/pts";

/// Shared, world-writable directories.
pub(super) const TEMPORARY: &[&str] = &["/tmp", "/var/tmp", "/dev/shm"];

/// Entries at the top of a git directory that are mounted one by one. The supervisor protects the
/// rest.
const MAX_GIT_ENTRIES: usize = 256;
/// Directories below `.git/modules` that are scanned. The supervisor protects the rest.
const MAX_MODULES: usize = 256;

/// Files for DNS lookup; `/etc/resolv.conf` is often a symlink to them.
pub(super) const RESOLVERS: &[&str] =
    &["/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager"];

/// What the mounts are built from.
pub(super) struct View<'a> {
    pub(super) profile: &'a Profile,
    /// The id mapping of each root.
    pub(super) mappings: &'a [Option<OwnedFd>],
    /// The uid of the command, if it is another user.
    pub(super) user: Option<u32>,
}

/// The result: what could not be mounted and does not matter for security.
#[derive(Debug, Default)]
pub(super) struct Built {
    pub(super) notes: Vec<String>,
    pub(super) has_own_proc: bool,
    /// A root cannot be id-mapped.
    pub(super) is_unmapped: bool,
}

/// Builds the mounts. The process must be alone in its mount namespace.
pub(super) fn build(view: &View<'_>) -> Result<Built, SetupError> {
    let mut built = Built::default();
    let all = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", all).map_err(SetupError::os("mounts: private"))?;

    let mut roots = Vec::new();
    for (index, root) in view.profile.roots.iter().enumerate() {
        let mapping = view.mappings.get(index).and_then(Option::as_ref);
        let (mount, is_mapped) = clone_root(root, mapping)?;
        built.is_unmapped |= mapping.is_some() && !is_mapped;
        roots.push((root, mount));
    }
    // Outer roots first, so that inner ones end up on top.
    roots.sort_by_key(|(root, _)| root.path.components().count());
    let devices: Vec<_> = DEVICES
        .iter()
        .filter_map(|path| Some((*path, clone_mount(Path::new(path)).ok()?)))
        .collect();
    let resolvers: Vec<_> = match view.profile.network {
        Network::Host => RESOLVERS
            .iter()
            .filter_map(|path| Some((*path, clone_mount(Path::new(path)).ok()?)))
            .collect(),
        Network::None | Network::Proxy => Vec::new(),
    };

    let whole = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(SetupError::os("mounts: root"))?;
    change(whole.as_fd(), READ_ONLY | NO_SET_UID, None)
        .map_err(SetupError::machine("mounts: read-only"))?;

    cover_temporary(view)?;
    cover_run(&resolvers)?;
    cover_devices(&devices)?;
    if let Some(user) = view.user {
        cover_private_parents(view.profile, user)?;
    }
    for (root, mount) in &roots {
        let step = "mounts: roots";
        if !root.path.is_dir() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o755)
                .create(&root.path)
                .map_err(SetupError::machine(step))?;
        }
        attach(mount.as_fd(), &root.path).map_err(SetupError::machine(step))?;
    }
    for (path, is_whole) in protected_mounts(view.profile) {
        bind_on_itself(&path, is_whole, "mounts: protected names")?;
    }
    let protected = ProtectedNames::new(&view.profile.protected, &view.profile.exceptions);
    for root in view.profile.writable() {
        match view.profile.git_directory(root) {
            Some(git) => protect_git(git)?,
            None => protect_modules(&root.path, &protected)?,
        }
    }
    built.notes.extend(mask_mounts::mask(view.profile)?);
    mount_proc(&mut built);
    Ok(built)
}

/// Clones the mount of a root, after a check that it is the directory that was authorized (TOCTOU).
fn clone_root(root: &Root, mapping: Option<&OwnedFd>) -> Result<(OwnedFd, bool), SetupError> {
    let shown = root.path.display();
    if !root.path.is_absolute() || root.path.parent().is_none() {
        return Err(SetupError::profile(format!("`{shown}` cannot be a root")));
    }
    let mount = clone_mount(&root.path)
        .map_err(|e| SetupError::profile(format!("the root `{shown}`: {e}")))?;
    let stat = rustix::fs::fstat(&mount).map_err(SetupError::os("mounts: roots"))?;
    if root.identity.is_some_and(|identity| identity != (stat.st_dev, stat.st_ino)) {
        return Err(SetupError::profile(format!(
            "`{shown}` was replaced by another directory after authorization"
        )));
    }
    let flags = NO_SET_UID | NO_DEVICES | if root.access == Access::Read { READ_ONLY } else { 0 };
    let is_mapped = match mapping {
        Some(mapping) => change(mount.as_fd(), MAPPED, Some(mapping.as_fd())).is_ok(),
        None => false,
    };
    change(mount.as_fd(), flags, None).map_err(SetupError::machine("mounts: roots"))?;
    Ok((mount, is_mapped))
}

/// Clones a mount without attaching it. Symlinks are not followed.
fn clone_mount(path: &Path) -> io::Result<OwnedFd> {
    let how = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    Ok(rustix::mount::open_tree(CWD, path, how)?)
}

fn attach(mount: BorrowedFd<'_>, at: &Path) -> io::Result<()> {
    Ok(rustix::mount::move_mount(mount, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

pub(super) fn change(
    mount: BorrowedFd<'_>,
    set: u64,
    mapping: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    let user_namespace = mapping.map_or(0, |fd| u64::from(fd.as_raw_fd().unsigned_abs()));
    sys::change_mount(
        mount,
        &sys::MountAttributes { set, clear: 0, propagation: PRIVATE, user_namespace },
    )
}

pub(super) fn mount_tmpfs(at: &Path, options: &str) -> io::Result<()> {
    let options = CString::new(options).map_err(|_| io::ErrorKind::InvalidInput)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(rustix::mount::mount("tmpfs", at, "tmpfs", flags, options.as_c_str())?)
}

fn is_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_dir())
}

/// Mounts one tmpfs over all temporary directories.
fn cover_temporary(view: &View<'_>) -> Result<(), SetupError> {
    let step = "mounts: temporary directories";
    let mut first: Option<&Path> = None;
    for path in TEMPORARY.iter().map(Path::new).filter(|path| is_directory(path)) {
        match first {
            None => {
                let size = view.profile.limits.scratch;
                mount_tmpfs(path, &format!("size={size},nr_inodes=100k,mode=1777"))
                    .map_err(SetupError::machine(step))?;
                first = Some(path);
            }
            // `/dev` gets its own mount, which contains this.
            Some(_) if path.starts_with("/dev") => {}
            Some(first) => {
                let same = clone_mount(first).map_err(SetupError::machine(step))?;
                attach(same.as_fd(), path).map_err(SetupError::machine(step))?;
            }
        }
    }
    Ok(())
}

/// Mounts a tmpfs over `/run`, where other programs have their sockets.
fn cover_run(resolvers: &[(&str, OwnedFd)]) -> Result<(), SetupError> {
    let step = "mounts: /run";
    let run = Path::new("/run");
    if !is_directory(run) {
        return Ok(());
    }
    mount_tmpfs(run, "size=64k,nr_inodes=64,mode=755").map_err(SetupError::machine(step))?;
    for (path, mount) in resolvers {
        DirBuilder::new().recursive(true).create(path).map_err(SetupError::machine(step))?;
        change(mount.as_fd(), READ_ONLY | NO_SET_UID | NO_DEVICES, None)
            .map_err(SetupError::machine(step))?;
        attach(mount.as_fd(), Path::new(path)).map_err(SetupError::machine(step))?;
    }
    remount_read_only(run).map_err(SetupError::machine(step))
}

/// Mounts a tmpfs over `/dev` with a few devices and no disks.
fn cover_devices(devices: &[(&str, OwnedFd)]) -> Result<(), SetupError> {
    let step = "mounts: /dev";
    let dev = Path::new("/dev");
    mount_tmpfs(dev, "size=64k,nr_inodes=64,mode=755").map_err(SetupError::machine(step))?;
    for (path, mount) in devices {
        fs::File::create_new(path).map_err(SetupError::machine(step))?;
        attach(mount.as_fd(), Path::new(path)).map_err(SetupError::machine(step))?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        std::os::unix::fs::symlink(target, dev.join(name)).map_err(SetupError::machine(step))?;
    }
    for name in ["shm", "pts"] {
        fs::create_dir(dev.join(name)).map_err(SetupError::machine(step))?;
    }
    std::os::unix::fs::symlink("pts/ptmx", dev.join("ptmx")).map_err(SetupError::machine(step))?;
    remount_read_only(dev).map_err(SetupError::machine(step))?;
    // A private instance: the terminals of the host are not in it. A machine that forbids the mount
    // has no pseudo-terminals inside.
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let options = c"newinstance,ptmxmode=0666,mode=0620";
    let _ = rustix::mount::mount("devpts", TERMINALS, "devpts", flags, options);
    if let Ok(same) = clone_mount(Path::new("/tmp")) {
        attach(same.as_fd(), &dev.join("shm")).map_err(SetupError::machine(step))?;
    }
    Ok(())
}

/// Makes one mount read-only, without the mounts below it.
fn remount_read_only(at: &Path) -> io::Result<()> {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::BIND;
    Ok(rustix::mount::mount_remount(at, flags, c"")?)
}

/// Makes roots reachable below a directory that only its owner may enter, such as `/root`. The
/// command is another user, so a tmpfs is mounted there that contains only the path to the root.
fn cover_private_parents(profile: &Profile, user: u32) -> Result<(), SetupError> {
    let mut closed: Vec<PathBuf> = Vec::new();
    for root in &profile.roots {
        let mut above: Vec<_> = root.path.ancestors().skip(1).collect();
        above.reverse();
        for directory in above {
            let Ok(meta) = directory.metadata() else { break };
            let may_pass = meta.permissions().mode() & 0o001 != 0 || meta.uid() == user;
            if !may_pass && !closed.iter().any(|closed| directory.starts_with(closed)) {
                closed.push(directory.to_path_buf());
                break;
            }
        }
    }
    for directory in closed {
        mount_tmpfs(&directory, "size=256k,nr_inodes=256,mode=755")
            .map_err(SetupError::machine("mounts: parents of roots"))?;
    }
    Ok(())
}

/// Returns the protected names that exist at the top of each writable root, and the directories
/// above them, outer ones first, each with whether it is read-only as a whole. The others are
/// mounted on themselves, because a mount point cannot be moved. The supervisor refuses the same
/// changes; the mounts are a second line of defence. Exceptions are left to the supervisor.
pub(super) fn protected_mounts(profile: &Profile) -> Vec<(PathBuf, bool)> {
    let protected = ProtectedNames::new(&profile.protected, &profile.exceptions);
    let (mut known, mut all) = (BTreeSet::new(), Vec::new());
    for root in profile.writable().filter(|root| profile.git_directory(root).is_none()) {
        // Commits in a submodule write below `.git/modules`.
        let names = profile.protected.iter().filter(|name| *name != ".git/modules");
        let names = names.flat_map(|name| Profile::names_below(root, name));
        let is_kept = |name: &&Path| protected.at(&root.path).check(name, Change::Write).is_err();
        for name in names.filter(is_kept) {
            let mut path = root.path.clone();
            let mut parts = name.iter().peekable();
            while let Some(part) = parts.next() {
                path.push(part);
                let Ok(meta) = path.symlink_metadata() else { break };
                // A mount would cover the target of a symlink.
                if meta.is_symlink() {
                    break;
                }
                let is_whole = parts.peek().is_none() || !meta.is_dir();
                if known.insert(path.clone()) {
                    all.push((path.clone(), is_whole));
                }
                if is_whole {
                    break;
                }
            }
        }
    }
    all
}

/// Mounts read-only what may not change in the git directory of a linked worktree. The supervisor
/// refuses the same changes; the mounts are a second line of defence.
fn protect_git(git: &GitDirectory) -> Result<(), SetupError> {
    let step = "mounts: git directory";
    let own_path = git.path.join(git.own());
    let own = clone_mount(&own_path).map_err(SetupError::machine(step))?;
    let entries = git.path.read_dir().map_err(SetupError::machine(step))?;
    for entry in entries.take(MAX_GIT_ENTRIES) {
        let entry = entry.map_err(SetupError::machine(step))?;
        let is_symlink = entry.file_type().map_err(SetupError::machine(step))?.is_symlink();
        let name = entry.file_name();
        if !is_symlink && !name.to_str().is_some_and(GitDirectory::is_writable) {
            bind_on_itself(&entry.path(), true, step)?;
        }
    }
    attach(own.as_fd(), &own_path).map_err(SetupError::machine(step))?;
    for path in git.redirections().map(|name| git.path.join(name)) {
        if path.symlink_metadata().is_ok_and(|meta| !meta.is_symlink()) {
            bind_on_itself(&path, true, step)?;
        }
    }
    Ok(())
}

/// Mounts read-only the configuration and hooks of each submodule at the top of a root.
fn protect_modules(root: &Path, protected: &ProtectedNames) -> Result<(), SetupError> {
    const FIXED: [&str; 4] = ["config", "config.worktree", "hooks", "commondir"];
    let is_file = |path: PathBuf| path.symlink_metadata().is_ok_and(|meta| meta.is_file());
    let git = root.join(".git");
    let mut todo = vec![git.join("modules")];
    if !is_directory(&git) {
        return Ok(());
    }
    let mut seen = 0;
    while let Some(directory) = todo.pop().filter(|_| seen < MAX_MODULES) {
        seen += 1;
        if !is_directory(&directory) {
            continue;
        }
        if is_file(directory.join("HEAD")) {
            for path in FIXED.map(|name| directory.join(name)) {
                let below = path.strip_prefix(root).unwrap_or(&path);
                let is_protected = protected.check(below, Change::Write).is_err();
                if is_protected && path.symlink_metadata().is_ok_and(|meta| !meta.is_symlink()) {
                    bind_on_itself(&path, true, "mounts: submodules")?;
                }
            }
            todo.push(directory.join("modules"));
            continue;
        }
        let entries = directory.read_dir().map_err(SetupError::machine("mounts: submodules"))?;
        todo.extend(entries.take(MAX_MODULES).filter_map(|entry| Some(entry.ok()?.path())));
    }
    Ok(())
}

/// Bind-mounts a path on itself, read-only or not. A file that was removed meanwhile needs no
/// mount.
fn bind_on_itself(path: &Path, is_read_only: bool, step: &'static str) -> Result<(), SetupError> {
    let mount = match clone_mount(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        mount => mount.map_err(SetupError::machine(step))?,
    };
    let flags = NO_SET_UID | NO_DEVICES | if is_read_only { READ_ONLY } else { 0 };
    change(mount.as_fd(), flags, None).map_err(SetupError::machine(step))?;
    match attach(mount.as_fd(), path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(SetupError::machine(step)),
    }
}

/// Mounts a new `/proc`, which shows only the processes of the command, if the kernel allows it.
fn mount_proc(built: &mut Built) {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    match rustix::mount::mount("proc", "/proc", "proc", flags, None) {
        Ok(()) => built.has_own_proc = true,
        Err(errno) => built
            .notes
            .push(format!("`/proc` is the host's, read-only: {}", io::Error::from(errno))),
    }
}
