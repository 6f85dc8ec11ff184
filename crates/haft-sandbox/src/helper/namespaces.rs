//! Tier A: a command in its own namespaces.
//!
//! There are three processes. The helper stays outside, waits, and cleans up. The first process of
//! the new namespaces builds the mounts, drops its privileges, and watches. The command is its
//! child. When the first process ends, the kernel kills everything else in the pid namespace,
//! daemons included.

use std::{io::Read as _, os::fd::OwnedFd, sync::Arc};

use rustix::process::{Pid, PidfdFlags, Signal};

use super::{
    Job, SetupError,
    cgroup::{self, Group, Membership},
    confine::{self, Setting},
    identity::{self, Identity},
    landlock,
    memory::{self, Memory},
    mounts::{self, Built, View},
    network,
    supervisor::{self, Availability, Refusals},
    sys,
    wait_for_exit::{Watch, release_output, wait_for_exit},
};
use crate::{Level, Network, Strength, Tier, protocol::Report};

pub(super) fn run(job: &mut Job) -> Result<(), SetupError> {
    if sys::landlock_version() < 1 {
        return Err(SetupError {
            step: "landlock",
            message: "this kernel does not have it".to_owned(),
            fault: crate::protocol::Fault::Machine,
        });
    }
    let availability = Availability::find()?;
    let profile = &job.task.orders.profile;
    let is_privileged = identity::is_privileged();
    let group = Group::of(&job.task.orders)?;
    let membership = group.as_ref().map(Group::membership).transpose()?;
    let memory_note = cgroup::note(group.as_ref(), profile.limits.resident);
    let mut identity = Identity::Stay;
    let mut mappings: Vec<Option<OwnedFd>> = Vec::new();
    if is_privileged {
        identity = identity::unused().map_or_else(|| identity::owner_of(profile), Identity::Unused);
        if let Identity::Unused(uid) = identity {
            mappings = identity::mappings(profile, uid);
        }
    }
    let mut flags = libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    if profile.network != Network::Host {
        flags |= libc::CLONE_NEWNET;
    }
    if !is_privileged {
        flags |= libc::CLONE_NEWUSER;
    }
    let me = Pid::from_raw(i32::try_from(std::process::id()).unwrap_or_default());
    let me = me.ok_or_else(|| SetupError::profile("the helper has no pid"))?;
    let above =
        rustix::process::pidfd_open(me, PidfdFlags::empty()).map_err(SetupError::os("pidfd"))?;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    match sys::clone(flags).map_err(no_namespaces)? {
        sys::Side::Parent(first) => {
            drop(above);
            release_output();
            let _ = sys::reap(Some(first), true);
            drop(group);
            job.control.send(&Report::Gone);
            Ok(())
        }
        sys::Side::Child => {
            if let Some(group) = group {
                group.leave();
            }
            let inside = Inside {
                is_privileged,
                uid,
                gid,
                identity,
                mappings,
                availability,
                membership,
                memory_note,
            };
            match inside.run_first_process(job, above) {
                Ok(()) => sys::exit(0),
                Err(error) => {
                    job.control.refuse(error);
                    sys::exit(1)
                }
            }
        }
    }
}

/// The work of the first process if bubblewrap created the namespaces and the mounts.
pub(super) fn run_first_process(
    job: &mut Job,
    membership: Option<Membership>,
    memory_note: Option<String>,
) -> Result<(), SetupError> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let inside = Inside {
        is_privileged: false,
        uid,
        gid,
        identity: Identity::Stay,
        mappings: Vec::new(),
        availability: Availability::find()?,
        membership,
        memory_note,
    };
    die_with_parent()?;
    identity::switch_to(Identity::Stay)?;
    let notes = vec!["bubblewrap created the namespaces".to_owned()];
    let is_supervised = inside.is_supervised(job, true);
    let built = Built { notes, has_own_proc: true, is_unmapped: false };
    let tier = inside.tier(job, built, is_supervised);
    let listener = network::listener(&job.task.orders.profile)?;
    inside.run_command(job, None, true, (tier, listener))
}

struct Inside {
    is_privileged: bool,
    uid: u32,
    gid: u32,
    identity: Identity,
    mappings: Vec<Option<OwnedFd>>,
    availability: Availability,
    membership: Option<Membership>,
    memory_note: Option<String>,
}

impl Inside {
    /// The work of the first process.
    fn run_first_process(mut self, job: &mut Job, above: OwnedFd) -> Result<(), SetupError> {
        die_with_parent()?;
        if !self.is_privileged {
            identity::map_self(self.uid, self.gid)?;
        }
        let user = match self.identity {
            Identity::Unused(uid) | Identity::Owner(uid, _) => Some(uid),
            Identity::Stay | Identity::BareRoot => None,
        };
        let profile = &job.task.orders.profile;
        let listener = network::listener(profile)?;
        let view = View { profile, mappings: &self.mappings, user };
        let built = mounts::build(&view)?;
        let is_unmapped = built.is_unmapped || self.mappings.iter().any(Option::is_none);
        if is_unmapped && matches!(self.identity, Identity::Unused(_)) {
            self.identity = identity::owner_of(profile);
        }
        identity::chown_output(self.identity);
        identity::switch_to(self.identity)?;
        // A change of user resets it.
        die_with_parent()?;
        let has_own_proc = built.has_own_proc;
        let is_supervised = self.is_supervised(job, has_own_proc);
        let tier = self.tier(job, built, is_supervised);
        self.run_command(job, Some(above), has_own_proc, (tier, listener))
    }

    /// Returns whether the command is supervised. Without `/proc` the paths of a caller cannot be
    /// resolved.
    fn is_supervised(&self, job: &Job, has_own_proc: bool) -> bool {
        has_own_proc
            && supervisor::is_needed(&job.task.orders.profile)
            && self.availability.is_yes()
    }

    /// Starts the command and waits for its end.
    fn run_command(
        self,
        job: &mut Job,
        above: Option<OwnedFd>,
        has_own_proc: bool,
        (tier, listener): (Tier, Option<OwnedFd>),
    ) -> Result<(), SetupError> {
        let is_supervised = self.is_supervised(job, has_own_proc);
        let _ =
            rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
        let memory = Memory::of(job.task.orders.profile.limits.resident, memory::Tree::Namespace);
        let mut memory = memory.filter(|_| has_own_proc);
        let mut group = None;
        if let Some(membership) = self.membership {
            memory = Some(Memory::Cgroup(membership.events));
            group = Some(Arc::new(membership.entry));
        }
        let children = sys::child_signals().map_err(SetupError::machine("signals"))?;
        let setting = Setting {
            scratch: Some("/tmp".into()),
            others: 0,
            identity: None,
            is_supervised,
            refusals: Refusals::default(),
            group,
        };
        let mut started = confine::begin(&job.task, &setting)?;
        release_output();
        started.wait()?;
        job.control.send_started(tier, listener);
        let command = started.pid;
        let deadline = job.task.orders.deadline_ms.map(std::time::Duration::from_millis);
        let control = &mut job.control;
        let what = Watch { control, children, above, command, deadline, memory };
        let outcome = wait_for_exit(what, |count| {
            // All except us: this is the first process of the pid namespace.
            sys::kill_all_in_reach();
            while let Ok(Some(reaped)) = sys::reap(None, true) {
                count(reaped);
            }
        });
        job.control.send(&outcome.report(setting.refusals.take()));
        Ok(())
    }

    fn tier(&self, job: &Job, built: Built, is_supervised: bool) -> Tier {
        let version = sys::landlock_version();
        let mut notes = built.notes;
        let mut fs = Strength::Enforced;
        let mut limits = Strength::Enforced;
        if !built.has_own_proc && self.membership.is_none() {
            limits = Strength::Partial(memory::NOT_COUNTED.to_owned());
        }
        if self.identity.is_root() {
            fs = Strength::Partial(identity::ROOT_READS.to_owned());
            limits = Strength::Partial(identity::ROOT_FORKS.to_owned());
        }
        if landlock::strength(version) != Strength::Enforced {
            notes.push(format!(
                "Landlock {version}: files are protected by mounts, Landlock adds less"
            ));
        }
        if supervisor::is_needed(&job.task.orders.profile) && !is_supervised {
            notes.extend(supervisor::MISSING.map(str::to_owned));
        }
        notes.extend(self.memory_note.clone());
        notes.extend(match job.task.orders.profile.network {
            Network::None => None,
            Network::Proxy => Some("the profile allows a proxy, and no other network".to_owned()),
            Network::Host => Some("the profile allows network".to_owned()),
        });
        Tier {
            level: Level::Namespaces,
            fs,
            net_ip: Strength::Enforced,
            net_unix: Strength::Enforced,
            pids: Strength::Enforced,
            limits,
            notes,
        }
    }
}

/// Converts an error of `clone`. `ENOSPC` means too many namespaces, or that the machine allows
/// none.
fn no_namespaces(error: std::io::Error) -> SetupError {
    const KINDS: [&str; 7] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];
    if error.raw_os_error() != Some(libc::ENOSPC) {
        return SetupError::machine("namespaces")(error);
    }
    let is_none = |kind: &&str| {
        let mut text = String::new();
        let file = std::fs::File::open(format!("/proc/sys/user/max_{kind}_namespaces"));
        let read = file.and_then(|mut file| file.read_to_string(&mut text));
        read.is_ok() && text.trim() == "0"
    };
    match KINDS.iter().find(|kind| is_none(kind)) {
        Some(kind) => SetupError {
            step: "namespaces",
            message: format!("`user.max_{kind}_namespaces` is 0"),
            fault: crate::protocol::Fault::Machine,
        },
        None => SetupError::transient(
            "namespaces",
            "too many namespaces: the limits are `user.max_*_namespaces`".to_owned(),
        ),
    }
}

/// Makes the kernel kill this process when its parent dies. If the parent is dead already, the
/// watch detects it by the pidfd.
fn die_with_parent() -> Result<(), SetupError> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(SetupError::os("death signal"))
}
