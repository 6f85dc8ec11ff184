//! The user that the command runs as; drops groups and capabilities.
//!
//! An ordinary user stays the same. Root does not, because process limits and file permissions do
//! not apply to root: the command becomes an otherwise unused uid. The roots are id-mapped mounts,
//! so it owns them inside, and on disk its files belong to the owner of the root. If a file system
//! does not support that, the command becomes the owner of the root. If the owner is uid 0, it
//! keeps uid 0 without any capability, and the tier says so.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _, Write as _},
    os::{fd::OwnedFd, unix::fs::MetadataExt as _},
    path::Path,
};

use rustix::{
    process::{Gid, Uid},
    thread::{CapabilitySet, CapabilitySets},
};

use super::{SetupError, sys};
use crate::Profile;

/// The user that the command runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Identity {
    /// The current user.
    Stay,
    /// An otherwise unused uid.
    Unused(u32),
    /// The owner of the root.
    Owner(u32, u32),
    /// Uid 0 without capabilities.
    BareRoot,
}

impl Identity {
    /// Returns whether the command has uid 0. It has no capabilities either way, but can read files
    /// of root.
    pub(super) fn is_root(self) -> bool {
        match self {
            Identity::Stay => rustix::process::getuid().is_root(),
            Identity::Unused(uid) | Identity::Owner(uid, _) => uid == 0,
            Identity::BareRoot => true,
        }
    }
}

/// Notes of the tier about uid 0.
pub(super) const ROOT_READS: &str =
    "the command has uid 0 without capabilities: it can read files of root";
pub(super) const ROOT_FORKS: &str = "the kernel does not limit the number of root's processes";

/// Unused uids start here: above those of people, services and containers.
const FIRST_UNUSED_UID: u32 = 2_000_000_000;

/// Returns whether this process may change its user and mount file systems.
pub(super) fn is_privileged() -> bool {
    may_change_user() && has(CapabilitySet::SYS_ADMIN)
}

/// Returns whether a command can run as another user and still be killed by us. Root in a container
/// often may do this but not mount.
pub(super) fn may_change_user() -> bool {
    rustix::process::geteuid().is_root()
        && has(CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::KILL)
}

/// Returns whether uid 0 here is uid 0 of the host, whose processes the kernel does not limit. A
/// full uid map means the initial user namespace, because only a full map can be passed on in full.
pub(super) fn is_root_of_the_machine() -> bool {
    let mut text = String::new();
    let read =
        File::open("/proc/self/uid_map").map(|file| file.take(1 << 10).read_to_string(&mut text));
    let all = ["0", "0", "4294967295"];
    read.is_ok_and(|read| read.is_ok()) && text.split_ascii_whitespace().eq(all)
}

fn has(needed: CapabilitySet) -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// Finds an unused uid, different from those of other running commands.
pub(super) fn unused() -> Option<u32> {
    let pid = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
    let mut text = String::new();
    File::open("/proc/self/uid_map").ok()?.take(64 << 10).read_to_string(&mut text).ok()?;
    let ranges = text.lines().filter_map(|line| {
        let mut numbers = line.split_ascii_whitespace().map(|n| n.parse::<u32>().ok());
        let (first, _, count) = (numbers.next()??, numbers.next()??, numbers.next()??);
        Some((first, count))
    });
    let ranges: Vec<_> = ranges.collect();
    let wanted = FIRST_UNUSED_UID.checked_add(pid)?;
    if ranges.iter().any(|(first, count)| wanted >= *first && wanted - first < *count) {
        return Some(wanted);
    }
    // A container has fewer uids; the last ones of the largest range are hardly used.
    let (first, count) = ranges.into_iter().max_by_key(|(_, count)| *count)?;
    let spread = 1_000.min(count / 8);
    (count > 10_000).then(|| first + count - 2 - pid % spread.max(1))
}

/// Returns the identity if the roots cannot be id-mapped.
pub(super) fn owner_of(profile: &Profile) -> Identity {
    let mut owners = profile.writable().filter_map(|root| root.path.metadata().ok());
    match owners.next().map(|meta| (meta.uid(), meta.gid())) {
        None => unused().map_or(Identity::BareRoot, Identity::Unused),
        Some((0, _)) => Identity::BareRoot,
        Some((uid, gid)) if owners.all(|meta| meta.uid() == uid) => Identity::Owner(uid, gid),
        Some(_) => Identity::BareRoot,
    }
}

/// Returns the id mapping of each root, `None` if there is none. Roots of one owner share it.
pub(super) fn mappings(profile: &Profile, uid: u32) -> Vec<Option<OwnedFd>> {
    let mut made: BTreeMap<(u32, u32), OwnedFd> = BTreeMap::new();
    let mut mapping_of = |directory: &Path| {
        let meta = directory.metadata()?;
        let owner = (meta.uid(), meta.gid());
        if let Some(mapping) = made.get(&owner) {
            return mapping.try_clone();
        }
        let mapping = mapping(owner, uid)?;
        let other = mapping.try_clone();
        made.insert(owner, mapping);
        other
    };
    profile.roots.iter().map(|root| mapping_of(&root.path).ok()).collect()
}

/// Creates a user namespace that maps the owner to `uid`. It is never entered, only used for an
/// id-mapped mount.
fn mapping(owner: (u32, u32), uid: u32) -> io::Result<OwnedFd> {
    let child = match sys::clone(libc::CLONE_NEWUSER)? {
        sys::Side::Child => sys::sleep_forever(),
        sys::Side::Parent(child) => child,
    };
    let made = (|| {
        let write = |name: &str, from: u32| {
            let mut file = File::options().write(true).open(format!("/proc/{child}/{name}"))?;
            file.write_all(format!("{from} {uid} 1\n").as_bytes())
        };
        write("uid_map", owner.0)?;
        write("gid_map", owner.1)?;
        Ok(OwnedFd::from(File::open(format!("/proc/{child}/ns/user"))?))
    })();
    sys::signal(child, libc::SIGKILL);
    let _ = sys::reap(Some(child), true);
    made
}

/// Maps our uid and gid to themselves in a new user namespace.
pub(super) fn map_self(uid: u32, gid: u32) -> Result<(), SetupError> {
    let write = |name: &str, text: String| {
        File::options()
            .write(true)
            .open(format!("/proc/self/{name}"))
            .and_then(|mut file| file.write_all(text.as_bytes()))
    };
    // The kernel requires it before an ordinary user may write `gid_map`.
    write("setgroups", "deny".to_owned()).map_err(SetupError::machine("user namespace"))?;
    write("uid_map", format!("{uid} {uid} 1\n")).map_err(SetupError::machine("user namespace"))?;
    write("gid_map", format!("{gid} {gid} 1\n")).map_err(SetupError::machine("user namespace"))
}

/// Returns whether the bounding set is empty: no program can gain a capability.
fn is_bounding_set_empty() -> bool {
    let mut all = (0..64_u64).filter_map(|capability| CapabilitySet::from_bits(1 << capability));
    all.all(|one| !rustix::thread::capability_is_in_bounding_set(one).unwrap_or(false))
}

/// Changes the owner of the output pipes to the user of the command, so that it can open
/// `/dev/stdout`. Only pipes are changed.
pub(super) fn chown_output(identity: Identity) {
    let uid = match identity {
        Identity::Unused(uid) | Identity::Owner(uid, _) => Uid::from_raw(uid),
        Identity::Stay | Identity::BareRoot => return,
    };
    for stream in [rustix::stdio::stdout(), rustix::stdio::stderr()] {
        let kind =
            rustix::fs::fstat(stream).map(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode));
        if kind == Ok(rustix::fs::FileType::Fifo) {
            let _ = rustix::fs::fchown(stream, Some(uid), None);
        }
    }
}

/// Drops all supplementary groups. Root of a user namespace that an ordinary user created (`unshare
/// -Ur`) may not, because dropping a group could bypass a file that denies that group. That root is
/// the user who created the namespace, and the command keeps the groups of that user, like any
/// command of an ordinary user.
///
/// FAIL CLOSED: a command that becomes another user never keeps them.
fn drop_groups(identity: Identity) -> Result<(), SetupError> {
    let dropped = rustix::thread::set_thread_groups(&[]);
    if dropped.is_err() && identity == Identity::BareRoot && are_groups_fixed() {
        return Ok(());
    }
    dropped.map_err(SetupError::os("drop groups"))
}

/// Returns whether no process of this user namespace may change its groups.
fn are_groups_fixed() -> bool {
    let mut text = String::new();
    let read =
        File::open("/proc/self/setgroups").map(|file| file.take(16).read_to_string(&mut text));
    read.is_ok_and(|read| read.is_ok()) && text.trim() == "deny"
}

/// Switches to a user and drops every capability, for good.
pub(super) fn switch_to(identity: Identity) -> Result<(), SetupError> {
    use rustix::thread::CapabilitiesSecureBits as Bits;
    // While this is still allowed: no program that is executed later gains capabilities from uid 0.
    for capability in 0..64_u64 {
        let Some(one) = CapabilitySet::from_bits(1 << capability) else { continue };
        let _ = rustix::thread::remove_capability_from_bounding_set(one);
    }
    let bits = Bits::NO_ROOT
        | Bits::NO_ROOT_LOCKED
        | Bits::NO_CAP_AMBIENT_RAISE
        | Bits::NO_CAP_AMBIENT_RAISE_LOCKED;
    let is_bound =
        rustix::thread::set_capabilities_secure_bits(bits).is_ok() || is_bounding_set_empty();
    let to = match identity {
        Identity::Stay => None,
        Identity::Unused(id) => Some((id, id)),
        Identity::Owner(uid, gid) => Some((uid, gid)),
        Identity::BareRoot => Some((0, 0)),
    };
    if let Some((uid, gid)) = to {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        drop_groups(identity)?;
        rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(SetupError::os("drop group"))?;
        rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(SetupError::os("drop user"))?;
    }
    let _ = rustix::thread::clear_ambient_capability_set();
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none).map_err(SetupError::os("drop capabilities"))?;
    // FAIL CLOSED: uid 0 would regain all capabilities with the next `exec`.
    if rustix::process::geteuid().is_root() && !is_bound {
        return Err(SetupError {
            step: "drop capabilities",
            message: "uid 0 would regain capabilities".to_owned(),
            fault: crate::protocol::Fault::Machine,
        });
    }
    Ok(())
}
