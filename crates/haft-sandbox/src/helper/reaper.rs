//! Tier B: no namespaces. Landlock and seccomp hold the command; the helper takes in every orphan.
//!
//! The helper is the parent of whatever loses its parent, so nothing can hide by forking twice. When
//! it is time it kills its children until there are none. A command cannot signal the helper: with
//! Landlock 6 the kernel refuses signals out of the sandbox.

use std::{
    fs,
    io::Read as _,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, chown},
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    Job, Trouble,
    confine::{self, Setting},
    identity::{self, Identity},
    masks,
    sys::{self, Reaped},
    watch::{Watch, let_go_of_output, watch},
};
use crate::{
    Level, Network, Strength, Tier, landlock,
    orders::{Fault, Report},
};

/// So long it is tried to end everything. Killing takes microseconds.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn run(job: &mut Job) -> Result<(), Trouble> {
    let version = sys::landlock_version();
    if version < 1 {
        return Err(Trouble {
            step: "landlock",
            message: "this kernel does not have it".to_owned(),
            fault: Fault::Machine,
        });
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(Trouble::os("reaper"))?;
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    check_roots(job)?;
    masks::remove_stale(&job.orders.profile);
    let profile = &job.orders.profile;
    let identity =
        if identity::may_change_user() { identity::owner_of(profile) } else { Identity::Stay };
    let scratch = Scratch::make(identity);
    let others = match identity {
        Identity::Unused(_) => 0,
        // Going through all processes takes a millisecond, and here the number would mean nothing.
        _ if identity.is_root() && identity::is_root_of_the_machine() => 0,
        Identity::Owner(uid, _) => processes_of(uid),
        Identity::Stay | Identity::BareRoot => processes_of(rustix::process::getuid().as_raw()),
    };
    let tier = tier(job, version, identity, scratch.0.is_some());
    let setting = Setting { scratch: scratch.0.clone(), others, identity: Some(identity) };

    let children = sys::child_signals().map_err(Trouble::machine("signals"))?;
    let mut begun = confine::begin(job, &setting)?;
    let_go_of_output();
    begun.wait()?;
    job.control.say(&Report::Started(tier));
    let command = begun.pid;
    let deadline = job.orders.deadline_ms.map(Duration::from_millis);
    let what = Watch { control: &mut job.control, children, above: None, command, deadline };
    let course = watch(what, |count| end_everything(identity, count));
    drop(scratch);
    job.control.say(&course.report());
    job.control.say(&Report::Gone);
    Ok(())
}

/// Without mounts a root is only a path; it must still be the folder that was judged.
fn check_roots(job: &Job) -> Result<(), Trouble> {
    if !job.orders.profile.hidden.is_empty() {
        return Err(Trouble::profile(
            "hidden paths need namespaces; name what may be read instead",
        ));
    }
    for root in &job.orders.profile.roots {
        let shown = root.path.display();
        let meta = root
            .path
            .symlink_metadata()
            .map_err(|e| Trouble::profile(format!("the root `{shown}`: {e}")))?;
        if !meta.is_dir() || !root.path.is_absolute() || root.path.parent().is_none() {
            return Err(Trouble::profile(format!("`{shown}` cannot be a root")));
        }
        if root.identity.is_some_and(|identity| identity != (meta.dev(), meta.ino())) {
            return Err(Trouble::profile(format!(
                "`{shown}` is another folder than the one that was judged"
            )));
        }
    }
    Ok(())
}

/// Kills until there is nobody left. Whoever loses its parent becomes our child, so each round gets
/// those that the round before could not reach.
fn end_everything(identity: Identity, count: &mut dyn FnMut(Reaped)) {
    let began = sys::now();
    while began.elapsed() < PATIENCE {
        if let Identity::Unused(_) = identity {
            end_user(identity);
        }
        for child in children() {
            sys::signal(child, libc::SIGKILL);
        }
        loop {
            match sys::reap(None, false) {
                Ok(Some(reaped)) => count(reaped),
                Ok(None) => break,
                // There are no children any more.
                Err(_) => return,
            }
        }
        // A killed process needs a moment to be gone.
        let _ = rustix::event::poll(
            &mut [],
            rustix::event::Timespec::try_from(Duration::from_micros(200)).ok().as_ref(),
        );
    }
}

/// A user that nobody else is can be ended as a whole, by somebody who is that user.
fn end_user(identity: Identity) {
    match sys::clone(0) {
        Ok(sys::Side::Child) => {
            if identity::become_it(identity).is_ok() && !rustix::process::getuid().is_root() {
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

/// Our children, as the kernel lists them, or found by going through all processes.
fn children() -> Vec<i32> {
    let me = std::process::id();
    if let Some(text) = small_file(&format!("/proc/self/task/{me}/children")) {
        return text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    }
    let is_ours = |pid: &i32| stat(*pid).is_some_and(|stat| parent(&stat) == Some(me));
    all_processes().filter(is_ours).collect()
}

fn all_processes() -> impl Iterator<Item = i32> {
    let entries = Path::new("/proc").read_dir().ok().into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// What the kernel says of a process: one line, which is given whole by one read.
fn stat(pid: i32) -> Option<String> {
    let mut line = [0; 4096];
    let len = fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
    Some(String::from_utf8_lossy(line.get(..len)?).into_owned())
}

/// The parent is the second field after the name, which may have anything in it.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Threads count against the limit, so they are counted here.
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

/// A temporary folder of the command's own, taken away at the end.
struct Scratch(Option<PathBuf>);

impl Scratch {
    fn make(identity: Identity) -> Self {
        use std::hash::{BuildHasher as _, RandomState};
        let name = format!("haft-{:016x}", RandomState::new().hash_one(std::process::id()));
        let path = Path::new("/tmp").join(name);
        // It fails if anything is there, so nobody can have prepared it.
        if fs::DirBuilder::new().mode(0o700).create(&path).is_err() {
            return Self(None);
        }
        let owner = match identity {
            Identity::Unused(id) => Some((id, id)),
            Identity::Owner(uid, gid) => Some((uid, gid)),
            Identity::Stay | Identity::BareRoot => None,
        };
        let made = Self(Some(path.clone()));
        match owner {
            Some((uid, gid)) if chown(&path, Some(uid), Some(gid)).is_err() => Self(None),
            _ => made,
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // Does not follow links. Everybody who could write there is gone.
            let _ = fs::remove_dir_all(path);
        }
    }
}

fn tier(job: &Job, version: i32, identity: Identity, has_scratch: bool) -> Tier {
    let profile = &job.orders.profile;
    let mut notes = Vec::new();
    let mut fs = landlock::strength(version);
    if identity.is_root() {
        fs = Strength::Partial(identity::ROOT_READS.to_owned());
    }
    if profile.writable().next().is_some() && !profile.protected.is_empty() {
        notes.push("new files beside protected names are refused".to_owned());
        notes.push("`.git` takes no new files, so `git add` and `git commit` fail".to_owned());
    }
    notes.push(
        "modes and owners of files cannot be changed; times of the user's files can".to_owned(),
    );
    if !has_scratch {
        notes.push("there is no temporary folder".to_owned());
    }
    if profile.network == Network::Host {
        notes.push("the profile has network".to_owned());
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
