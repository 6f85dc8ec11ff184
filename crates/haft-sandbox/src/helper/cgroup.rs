//! A memory limit that the kernel enforces: a cgroup for one command.
//!
//! In: a directory that the operator delegated, and a number of bytes. Out: a child cgroup
//! `haft-…`. The command moves itself into it before it starts. The cgroup is removed when the
//! command has ended. One that a killed helper left behind is removed when the next command starts.
//!
//! FAIL CLOSED: a command that cannot be moved into its cgroup does not start.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::{fd::OwnedFd, unix::fs::FileExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::{FlockOperation, Mode, OFlags};

use super::SetupError;
use crate::protocol::HelperRequest;

/// Prefix of the cgroups of haft.
const PREFIX: &str = "haft-";
/// Entries that are scanned for stale cgroups.
const MAX_STALE_ENTRIES: usize = 1_024;
/// Attempts to remove a cgroup. It works once its last process has been reaped.
const MAX_REMOVE_ATTEMPTS: usize = 200;
/// Delay between two attempts.
const RETRY_DELAY: Duration = Duration::from_millis(1);
/// Bytes of a cgroup file that are read.
const MAX_TEXT_BYTES: u64 = 64 << 10;

/// The two cgroup interfaces of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The cgroup of one command. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Group {
    directory: PathBuf,
    version: Version,
    /// Holds a shared lock while the cgroup is in use.
    _lock: OwnedFd,
    /// `cgroup.procs`, open for writing.
    processes: File,
    /// The file with the counter of killed processes.
    events: File,
}

impl Group {
    /// Creates the cgroup of a command, if a delegated directory is configured or found.
    pub(super) fn of(orders: &HelperRequest) -> Result<Option<Self>, SetupError> {
        let limit = orders.profile.limits.resident;
        if limit == u64::MAX {
            return Ok(None);
        }
        match &orders.cgroup {
            Some(parent) => Self::make(parent, limit).map(Some).map_err(|e| {
                SetupError::profile(format!("the cgroup directory `{}`: {e}", parent.display()))
            }),
            // No cgroup was configured, so the memory is sampled if this fails.
            None => Ok(own_directory().and_then(|parent| Self::make(&parent, limit).ok())),
        }
    }

    fn make(parent: &Path, limit: u64) -> io::Result<Self> {
        use std::hash::{BuildHasher as _, RandomState};
        let version = version_of(parent)?;
        if version == Version::Two {
            delegate_memory(parent)?;
        }
        remove_stale(parent);
        let id = std::process::id();
        let name = format!("{PREFIX}{id}-{:016x}", RandomState::new().hash_one(id));
        let directory = parent.join(name);
        let guard = lock_parent(parent);
        fs::create_dir(&directory)?;
        let made = Self::open(&directory, version);
        drop(guard);
        let made = made.inspect_err(|_| {
            let _ = fs::remove_dir(&directory);
        })?;
        // From here on its drop removes the directory.
        made.limit(limit)?;
        Ok(made)
    }

    fn open(directory: &Path, version: Version) -> io::Result<Self> {
        let lock = open_directory(directory)?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared)?;
        let events = match version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let events = File::open(directory.join(events))?;
        if oom_kills(&events).is_none() {
            return Err(io::Error::other("this kernel does not count processes killed for memory"));
        }
        let processes = File::options().write(true).open(directory.join("cgroup.procs"))?;
        Ok(Self { directory: directory.to_owned(), version, _lock: lock, processes, events })
    }

    fn limit(&self, bytes: u64) -> io::Result<()> {
        let bytes = bytes.to_string();
        let set = |name: &str, text: &str| put(&self.directory.join(name), text);
        match self.version {
            Version::One => {
                set("memory.limit_in_bytes", &bytes)?;
                // Does not exist without swap accounting.
                let _ = set("memory.memsw.limit_in_bytes", &bytes);
                // It is inherited. If set, processes wait for memory and are not killed.
                set("memory.oom_control", "0")
            }
            Version::Two => {
                set("memory.max", &bytes)?;
                let _ = set("memory.swap.max", "0");
                let _ = set("memory.oom.group", "1");
                Ok(())
            }
        }
    }

    /// Returns the files that the processes inside need.
    pub(super) fn membership(&self) -> Result<Membership, SetupError> {
        let copy = |file: &File| file.try_clone().map_err(SetupError::machine("cgroup"));
        Ok(Membership { entry: copy(&self.processes)?, events: copy(&self.events)? })
    }

    /// Does not remove the cgroup; another process does.
    pub(super) fn leave(self) {
        std::mem::forget(self);
    }
}

/// The files of a cgroup that processes inside need.
#[derive(Debug)]
pub(super) struct Membership {
    /// A process that writes `0` here moves itself into the cgroup.
    pub(super) entry: File,
    /// Counts OOM kills.
    pub(super) events: File,
}

/// Returns the note of the tier about the memory limit.
pub(super) fn note(group: Option<&Group>, limit: u64) -> Option<String> {
    match group {
        Some(group) => {
            let version = if group.version == Version::One { 1 } else { 2 };
            Some(format!("the memory limit is enforced by the kernel (cgroup v{version})"))
        }
        None if limit == u64::MAX => None,
        None => Some("the memory limit is sampled every 50 ms (no cgroup is delegated)".to_owned()),
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..MAX_REMOVE_ATTEMPTS {
            match fs::remove_dir(&self.directory) {
                Err(e) if e.raw_os_error() == Some(libc::EBUSY) => pause(),
                _ => return,
            }
        }
    }
}

/// Moves this process into a cgroup.
pub(super) fn enter(mut entry: &File) -> Result<(), SetupError> {
    entry.write_all(b"0").map_err(SetupError::machine("cgroup"))
}

/// Returns the number of OOM kills in a cgroup.
pub(super) fn oom_kills(events: &File) -> Option<u64> {
    let mut bytes = [0; 1_024];
    let len = events.read_at(&mut bytes, 0).ok()?;
    let text = String::from_utf8_lossy(bytes.get(..len)?).into_owned();
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// Returns the interface of a directory. Rejects anything but a cgroup with the memory controller.
fn version_of(directory: &Path) -> io::Result<Version> {
    const MAGIC_ONE: u64 = 0x0027_e0eb;
    const MAGIC_TWO: u64 = 0x6367_7270;
    if !directory.is_absolute() {
        return Err(io::Error::other("the path is not absolute"));
    }
    let kind = rustix::fs::statfs(directory)?.f_type;
    match u64::try_from(kind).unwrap_or_default() {
        MAGIC_TWO => Ok(Version::Two),
        MAGIC_ONE if directory.join("memory.limit_in_bytes").exists() => Ok(Version::One),
        MAGIC_ONE => Err(io::Error::other("it has no memory controller")),
        _ => Err(io::Error::other("it is not in a cgroup file system")),
    }
}

/// Enables the memory controller for the children of a cgroup.
fn delegate_memory(parent: &Path) -> io::Result<()> {
    if lists_memory(&parent.join("cgroup.subtree_control")) {
        return Ok(());
    }
    if !lists_memory(&parent.join("cgroup.controllers")) {
        return Err(io::Error::other("`memory` is not among its `cgroup.controllers`"));
    }
    put(&parent.join("cgroup.subtree_control"), "+memory").map_err(|e| match e.raw_os_error() {
        Some(libc::EBUSY) => io::Error::other(
            "it has processes of its own, so its children get no memory controller; delegate an \
             empty directory",
        ),
        _ => e,
    })
}

/// Returns the cgroup of this process, if its children already have the memory controller.
fn own_directory() -> Option<PathBuf> {
    let text = text(Path::new("/proc/self/cgroup"))?;
    let own = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(|at| Path::new(at).join(own));
    mounts.into_iter().find(|directory| {
        lists_memory(&directory.join("cgroup.subtree_control"))
            && version_of(directory).is_ok_and(|version| version == Version::Two)
    })
}

fn lists_memory(file: &Path) -> bool {
    text(file).is_some_and(|text| text.split_ascii_whitespace().any(|word| word == "memory"))
}

/// Removes cgroups that no helper uses any more. The kernel keeps a cgroup with processes in it.
fn remove_stale(parent: &Path) {
    let Ok(lock) = open_directory(parent) else { return };
    // A helper that creates a cgroup holds this lock until the new cgroup has its own lock.
    if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return;
    }
    let Ok(entries) = parent.read_dir() else { return };
    for entry in entries.flatten().take(MAX_STALE_ENTRIES) {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let Ok(group) = open_directory(&entry.path()) else { continue };
        if rustix::fs::flock(&group, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Blocks the removal of cgroups while one is created. Others hold the lock for microseconds.
fn lock_parent(parent: &Path) -> Option<OwnedFd> {
    let lock = open_directory(parent).ok()?;
    for _ in 0..MAX_REMOVE_ATTEMPTS {
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).is_ok() {
            return Some(lock);
        }
        pause();
    }
    // Without the lock the new cgroup may be removed at once. Then the command does not start.
    None
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(text.as_bytes())
}

fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_TEXT_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

fn pause() {
    let pause = rustix::event::Timespec::try_from(RETRY_DELAY).ok();
    let _ = rustix::event::poll(&mut [], pause.as_ref());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_outside_the_cgroup_file_system_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let error = Group::make(directory.path(), 1 << 20).unwrap_err();
        assert!(error.to_string().contains("not in a cgroup file system"), "{error}");
        assert_eq!(directory.path().read_dir().unwrap().count(), 0, "nothing was made in it");
        let error = Group::make(Path::new("relative"), 1 << 20).unwrap_err();
        assert!(error.to_string().contains("not absolute"), "{error}");
    }

    #[test]
    fn oom_counter_is_parsed_for_both_cgroup_versions() {
        let counter = |text: &str| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            oom_kills(&file)
        };
        assert_eq!(counter("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
        assert_eq!(counter("low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\n"), Some(1));
        assert_eq!(counter("oom_kill_disable 0\nunder_oom 0\n"), None);
    }
}
