//! Tier B: no namespaces. Landlock and seccomp confine the command; a subreaper adopts every
//! orphan.
//!
//! There are two processes, the helper and its child, the watcher. The watcher is the subreaper of
//! all orphaned processes, so a process cannot escape by a double fork. At the end it kills its
//! children until none is left. Each of the two does so if the other one is killed: the watcher
//! holds a pidfd of the helper, and the helper adopts what the watcher leaves. With Landlock 6 the
//! command can signal neither of them.

use std::{
    fs,
    io::Read as _,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt as _, MetadataExt as _, chown},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustix::process::PidfdFlags;

use super::{
    Job, SetupError,
    cgroup::{self, Group},
    confine::{self, Setting},
    identity::{self, Identity},
    landlock,
    memory::{Memory, Tree},
    supervisor::{self, Availability, Refusals},
    sys::{self, Reaped},
    wait_for_exit::{Watch, release_output, wait_for_exit},
};
use crate::{
    Level, Network, Strength, Tier,
    protocol::{Fault, Report},
};

/// Time limit for killing all processes, which normally takes microseconds.
const KILL_TIMEOUT: Duration = Duration::from_secs(20);

/// Refuses a profile whose hosts this tier cannot filter.
fn refuse_proxy(job: &Job) -> Result<(), SetupError> {
    if job.task.orders.profile.network != Network::Proxy {
        return Ok(());
    }
    Err(SetupError::profile(
        "network by host needs the tier `namespaces`: Landlock filters ports, not hosts",
    ))
}

pub(super) fn run(job: &mut Job) -> Result<(), SetupError> {
    let version = sys::landlock_version();
    if version < 1 {
        return Err(SetupError {
            step: "landlock",
            message: "this kernel does not have it".to_owned(),
            fault: Fault::Machine,
        });
    }
    refuse_proxy(job)?;
    let availability = Availability::find()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(SetupError::os("reaper"))?;
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    check_roots(job)?;
    let profile = &job.task.orders.profile;
    let identity =
        if identity::may_change_user() { identity::owner_of(profile) } else { Identity::Stay };
    let scratch = Scratch::make(identity);
    identity::chown_output(identity);
    let others = match identity {
        Identity::Unused(_) => 0,
        // The kernel does not limit root's processes, so counting them (a millisecond) is useless.
        _ if identity.is_root() && identity::is_root_of_the_machine() => 0,
        Identity::Owner(uid, _) => processes_of(uid),
        Identity::Stay | Identity::BareRoot => processes_of(rustix::process::getuid().as_raw()),
    };
    let group = Group::of(&job.task.orders)?;
    let is_supervised = supervisor::is_needed(profile) && availability.is_yes();
    let mut tier = tier(job, version, identity, &scratch, is_supervised);
    tier.notes.extend(cgroup::note(group.as_ref(), profile.limits.resident));
    let membership = group.as_ref().map(Group::membership).transpose()?;
    let (entry, events) = membership.map(|files| (files.entry, files.events)).unzip();
    let setting = Setting {
        scratch: scratch.0.clone().ok(),
        others,
        identity: Some(identity),
        is_supervised,
        refusals: Refusals::default(),
        group: entry.map(Arc::new),
    };
    let above = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())
        .map_err(SetupError::os("pidfd"))?;
    match sys::clone(0).map_err(SetupError::machine("fork"))? {
        sys::Side::Parent(watcher) => {
            drop(above);
            release_output();
            let ended = sys::reap(Some(watcher), true);
            let is_killed = !matches!(ended, Ok(Some(it)) if libc::WIFEXITED(it.status));
            // We adopted what a killed watcher left.
            let is_all = kill_all_processes(identity, &mut |_| {});
            if is_killed && is_all {
                job.control.send(&lost());
            }
            drop(scratch);
            drop(group);
            job.control.send(&Report::Gone);
            Ok(())
        }
        sys::Side::Child => {
            // A signal to the helper's process group must not reach both.
            let _ = rustix::process::setsid();
            let result = run_watcher(job, &setting, tier, above, events);
            // The helper removes it.
            if let Some(group) = group {
                group.leave();
            }
            drop(scratch);
            match result {
                Ok(()) => sys::exit(0),
                Err(error) => {
                    job.control.refuse(error);
                    sys::exit(1)
                }
            }
        }
    }
}

/// The work of the watcher: starts the command, waits for its end, kills what is left.
fn run_watcher(
    job: &mut Job,
    setting: &Setting,
    tier: Tier,
    above: OwnedFd,
    events: Option<fs::File>,
) -> Result<(), SetupError> {
    // A child does not inherit it.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(SetupError::os("reaper"))?;
    let identity = setting.identity.unwrap_or(Identity::Stay);
    let children = sys::child_signals().map_err(SetupError::machine("signals"))?;
    let mut started = confine::begin(&job.task, setting)?;
    release_output();
    started.wait()?;
    job.control.send(&Report::Started(tier));
    let command = started.pid;
    let deadline = job.task.orders.deadline_ms.map(Duration::from_millis);
    let memory = match events {
        Some(events) => Some(Memory::Cgroup(events)),
        None => Memory::of(job.task.orders.profile.limits.resident, Tree::Descendants),
    };
    let control = &mut job.control;
    let what = Watch { control, children, above: Some(above), command, deadline, memory };
    let mut is_all = true;
    let outcome = wait_for_exit(what, |count| is_all = kill_all_processes(identity, count));
    // Without a report the runtime assumes that processes may be left.
    if is_all {
        job.control.send(&outcome.report(setting.refusals.take()));
    }
    Ok(())
}

/// The report if only the end of the command is known.
fn lost() -> Report {
    let (exit, exit_reason) = (crate::Exit::Unknown, crate::ExitReason::HelperDied);
    Report::Ended { exit, exit_reason, cpu_us: 0, wall_us: 0, memory: 0, refused: Vec::new() }
}

/// Checks that each root is still the directory that was authorized (TOCTOU): without mounts it is
/// only a path.
fn check_roots(job: &Job) -> Result<(), SetupError> {
    let denied = &job.task.orders.profile.denied;
    if !denied.read.is_empty() || !denied.edit.is_empty() {
        return Err(SetupError::profile("denied paths can be masked only with namespaces"));
    }
    for root in &job.task.orders.profile.roots {
        let shown = root.path.display();
        let meta = root
            .path
            .symlink_metadata()
            .map_err(|e| SetupError::profile(format!("the root `{shown}`: {e}")))?;
        if !meta.is_dir() || !root.path.is_absolute() || root.path.parent().is_none() {
            return Err(SetupError::profile(format!("`{shown}` cannot be a root")));
        }
        if root.identity.is_some_and(|identity| identity != (meta.dev(), meta.ino())) {
            return Err(SetupError::profile(format!(
                "`{shown}` was replaced by another directory after authorization"
            )));
        }
    }
    Ok(())
}

/// Kills all descendants. Orphans become our children, so each round reaches those that the round
/// before could not. Returns whether all of them are gone.
fn kill_all_processes(identity: Identity, count: &mut dyn FnMut(Reaped)) -> bool {
    let began = sys::now();
    while began.elapsed() < KILL_TIMEOUT {
        match sys::reap(None, false) {
            Ok(Some(reaped)) => count(reaped),
            Ok(None) => {}
            // No children are left.
            Err(_) => return true,
        }
        if let Identity::Unused(_) = identity {
            kill_user(identity);
        }
        for child in children() {
            sys::signal(child, libc::SIGKILL);
        }
        loop {
            match sys::reap(None, false) {
                Ok(Some(reaped)) => count(reaped),
                Ok(None) => break,
                // No children are left.
                Err(_) => return true,
            }
        }
        // A killed process needs a moment to be gone.
        let _ = rustix::event::poll(
            &mut [],
            rustix::event::Timespec::try_from(Duration::from_micros(200)).ok().as_ref(),
        );
    }
    false
}

/// Kills all processes of an otherwise unused user, from a process of that user.
fn kill_user(identity: Identity) {
    match sys::clone(0) {
        Ok(sys::Side::Child) => {
            if identity::switch_to(identity).is_ok() && !rustix::process::getuid().is_root() {
                sys::kill_all_in_reach();
            }
            sys::exit(0)
        }
        Ok(sys::Side::Parent(pid)) => {
            let _ = sys::reap(Some(pid), true);
        }
        Err(_) => {}
    }
}

/// Returns our children, from the kernel's list or by a scan of all processes.
pub(super) fn children() -> Vec<i32> {
    let me = std::process::id();
    // Each thread has its own list, and the supervisor thread starts the command.
    if small_file(&format!("/proc/self/task/{me}/children")).is_some() {
        let threads = Path::new("/proc/self/task").read_dir().into_iter().flatten().flatten();
        let lists = threads
            .filter_map(|thread| small_file(&thread.path().join("children").to_string_lossy()));
        let pids = |list: String| {
            list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        };
        return lists.flat_map(pids).collect();
    }
    let is_ours = |pid: &i32| stat(*pid).is_some_and(|stat| parent(&stat) == Some(me));
    all_processes().filter(is_ours).collect()
}

pub(super) fn all_processes() -> impl Iterator<Item = i32> {
    let entries = Path::new("/proc").read_dir().ok().into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns `/proc/PID/stat`: one line, which one read returns as a whole.
fn stat(pid: i32) -> Option<String> {
    let mut line = [0; 4096];
    let len = fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
    Some(String::from_utf8_lossy(line.get(..len)?).into_owned())
}

/// Returns the parent of a process.
pub(super) fn parent_of(pid: i32) -> Option<u32> {
    parent(&stat(pid)?)
}

/// Returns the parent: the second field after the name, which may contain any character.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Counts the processes of a user, with their threads, which count against the limit too.
fn processes_of(uid: u32) -> u64 {
    let threads =
        |stat: &str| stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(17)?.parse::<u64>().ok();
    let is_theirs =
        |pid: &i32| fs::metadata(format!("/proc/{pid}")).is_ok_and(|meta| meta.uid() == uid);
    all_processes().filter(is_theirs).filter_map(|pid| threads(&stat(pid)?)).sum()
}

fn small_file(path: &str) -> Option<String> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(1 << 20).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A private temporary directory of the command, deleted at the end. `Err` says why there is none.
struct Scratch(Result<PathBuf, String>);

impl Scratch {
    fn make(identity: Identity) -> Self {
        use std::hash::{BuildHasher as _, RandomState};
        let name = format!("haft-{:016x}", RandomState::new().hash_one(std::process::id()));
        let path = Path::new("/tmp").join(name);
        // It fails if the name exists, so another user cannot have prepared it.
        if let Err(e) = fs::DirBuilder::new().mode(0o700).create(&path) {
            return Self(Err(e.to_string()));
        }
        let owner = match identity {
            Identity::Unused(id) => Some((id, id)),
            Identity::Owner(uid, gid) => Some((uid, gid)),
            Identity::Stay | Identity::BareRoot => None,
        };
        let made = Self(Ok(path.clone()));
        let owned = owner.map_or(Ok(()), |(uid, gid)| chown(&path, Some(uid), Some(gid)));
        match owned {
            Ok(()) => made,
            Err(e) => Self(Err(e.to_string())),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Ok(path) = &self.0 {
            // Does not follow symlinks. All processes that could write there are gone.
            let _ = fs::remove_dir_all(path);
        }
    }
}

fn tier(
    job: &Job,
    version: i32,
    identity: Identity,
    scratch: &Scratch,
    is_supervised: bool,
) -> Tier {
    let profile = &job.task.orders.profile;
    let mut notes = Vec::new();
    let mut fs = landlock::strength(version);
    if identity.is_root() {
        fs = Strength::Partial(identity::ROOT_READS.to_owned());
    }
    if supervisor::is_needed(profile) && !is_supervised {
        notes.extend(supervisor::MISSING.map(str::to_owned));
    }
    let fixed = if is_supervised { "owners" } else { "modes and owners" };
    notes.push(format!("{fixed} of files cannot be changed; times of the user's files can"));
    if let Err(why) = &scratch.0 {
        notes.push(format!("there is no temporary directory: `/tmp`: {why}"));
    }
    if profile.network == Network::Host {
        notes.push("the profile allows network".to_owned());
    }
    let pids = if version >= 6 {
        Strength::Enforced
    } else {
        Strength::Partial(
            "the kernel does not refuse signals to processes of the same user; Linux 6.12 does"
                .to_owned(),
        )
    };
    let limits = match identity {
        _ if identity.is_root() => Strength::Partial(identity::ROOT_FORKS.to_owned()),
        Identity::Unused(_) => Strength::Enforced,
        _ => Strength::Partial(
            "other processes of the same user share the limit on processes".to_owned(),
        ),
    };
    Tier {
        level: Level::Landlock,
        fs,
        net_ip: Strength::Enforced,
        net_unix: Strength::Enforced,
        pids,
        limits,
        notes,
    }
}
