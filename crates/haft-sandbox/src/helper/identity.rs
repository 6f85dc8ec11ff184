//! Who the command is.
//!
//! An ordinary user stays who they are. Root does not: limits on processes and permissions of files
//! mean nothing for root, so the command becomes a user that nobody else is. The folders it may use
//! are then shown to it as its own (an id-mapped mount), so it can work in them, and what it makes
//! there belongs on disk to whoever owns the folder. Where a file system cannot do that the command
//! becomes the owner of the folder, and where that is root it stays root by number only, without any
//! capability; the tier says so.

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

use super::{Trouble, sys};
use crate::Profile;

/// Who the command becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Identity {
    /// Who we are.
    Stay,
    /// A user of its own.
    Unused(u32),
    /// Who owns the folder.
    Owner(u32, u32),
    /// Root by number, without capabilities.
    BareRoot,
}

impl Identity {
    /// Returns whether the command keeps the number of root. It has no capabilities either way, but
    /// files of root's are its own to read.
    pub(super) fn is_root(self) -> bool {
        match self {
            Identity::Stay => rustix::process::getuid().is_root(),
            Identity::Unused(uid) | Identity::Owner(uid, _) => uid == 0,
            Identity::BareRoot => true,
        }
    }
}

/// Why that is worth saying.
pub(super) const ROOT_READS: &str =
    "the command has root's number, without capabilities: it may read what root may read";
pub(super) const ROOT_FORKS: &str = "the number of root's processes has no limit";

/// A number above those that people, services and containers get.
const UNUSED: u32 = 2_000_000_000;

/// Returns whether this process may change who it is and what is mounted.
pub(super) fn is_privileged() -> bool {
    may_change_user() && has(CapabilitySet::SYS_ADMIN)
}

/// Returns whether a command can be somebody else, and still be ended by us. Root in a container often
/// may do this and not mount.
pub(super) fn may_change_user() -> bool {
    rustix::process::geteuid().is_root()
        && has(CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::KILL)
}

/// Returns whether root's number here is that of the machine itself, whose processes the kernel does
/// not count. Only whoever has all numbers can give all of them on, so whoever has them has those.
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

/// Finds a user that nobody is, unlike those of other commands that run now.
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
    let wanted = UNUSED.checked_add(pid)?;
    if ranges.iter().any(|(first, count)| wanted >= *first && wanted - first < *count) {
        return Some(wanted);
    }
    // Inside a container there are fewer; the last ones of the largest range are hardly used.
    let (first, count) = ranges.into_iter().max_by_key(|(_, count)| *count)?;
    let spread = 1_000.min(count / 8);
    (count > 10_000).then(|| first + count - 2 - pid % spread.max(1))
}

/// Says who the command becomes when folders cannot be shown as its own.
pub(super) fn owner_of(profile: &Profile) -> Identity {
    let mut owners = profile.writable().filter_map(|root| root.path.metadata().ok());
    match owners.next().map(|meta| (meta.uid(), meta.gid())) {
        None => unused().map_or(Identity::BareRoot, Identity::Unused),
        Some((0, _)) => Identity::BareRoot,
        Some((uid, gid)) if owners.all(|meta| meta.uid() == uid) => Identity::Owner(uid, gid),
        Some(_) => Identity::BareRoot,
    }
}

/// Says for each root how to show it as the command's own, where that can be said. Roots of one owner
/// share it.
pub(super) fn mappings(profile: &Profile, uid: u32) -> Vec<Option<OwnedFd>> {
    let mut made: BTreeMap<(u32, u32), OwnedFd> = BTreeMap::new();
    let mut mapping_of = |folder: &Path| {
        let meta = folder.metadata()?;
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

/// Makes a user namespace that says: what belongs to this owner belongs to `uid`. It is never entered,
/// only used to show a folder in that way.
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

/// Says in a new user namespace that we are who we were.
pub(super) fn map_self(uid: u32, gid: u32) -> Result<(), Trouble> {
    let write = |name: &str, text: String| {
        File::options()
            .write(true)
            .open(format!("/proc/self/{name}"))
            .and_then(|mut file| file.write_all(text.as_bytes()))
    };
    // Without this the groups could not be written by an ordinary user.
    write("setgroups", "deny".to_owned()).map_err(Trouble::machine("user namespace"))?;
    write("uid_map", format!("{uid} {uid} 1\n")).map_err(Trouble::machine("user namespace"))?;
    write("gid_map", format!("{gid} {gid} 1\n")).map_err(Trouble::machine("user namespace"))
}

/// Returns whether no program could be given a capability any more.
fn has_nothing_to_gain() -> bool {
    let mut all = (0..64_u64).filter_map(|capability| CapabilitySet::from_bits(1 << capability));
    all.all(|one| !rustix::thread::capability_is_in_bounding_set(one).unwrap_or(false))
}

/// Gives the output of the command to the user that the command becomes, so that it can open it again
/// as `/dev/stdout`. It is a pair of pipes of the runtime; other files are left alone.
pub(super) fn give_output(identity: Identity) {
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

/// Gives up all other groups. Root of a user namespace that an ordinary user made (`unshare -Ur`) may
/// not: groups could be given up there to get around a file that is denied to them. That root is the
/// user who made the namespace, and the command keeps the groups of that user, like any command of an
/// ordinary user.
///
/// FAIL CLOSED: a command that becomes another user never keeps them.
fn drop_groups(identity: Identity) -> Result<(), Trouble> {
    let dropped = rustix::thread::set_thread_groups(&[]);
    if dropped.is_err() && identity == Identity::BareRoot && are_groups_fixed() {
        return Ok(());
    }
    dropped.map_err(Trouble::os("drop groups"))
}

/// Returns whether no process of this user namespace may change its groups.
fn are_groups_fixed() -> bool {
    let mut text = String::new();
    let read =
        File::open("/proc/self/setgroups").map(|file| file.take(16).read_to_string(&mut text));
    read.is_ok_and(|read| read.is_ok()) && text.trim() == "deny"
}

/// Becomes somebody and gives up every capability, for good.
pub(super) fn become_it(identity: Identity) -> Result<(), Trouble> {
    use rustix::thread::CapabilitiesSecureBits as Bits;
    // While we still may: nothing that is started later gets a capability for being root.
    for capability in 0..64_u64 {
        let Some(one) = CapabilitySet::from_bits(1 << capability) else { continue };
        let _ = rustix::thread::remove_capability_from_bounding_set(one);
    }
    let bits = Bits::NO_ROOT
        | Bits::NO_ROOT_LOCKED
        | Bits::NO_CAP_AMBIENT_RAISE
        | Bits::NO_CAP_AMBIENT_RAISE_LOCKED;
    let is_bound =
        rustix::thread::set_capabilities_secure_bits(bits).is_ok() || has_nothing_to_gain();
    let to = match identity {
        Identity::Stay => None,
        Identity::Unused(id) => Some((id, id)),
        Identity::Owner(uid, gid) => Some((uid, gid)),
        Identity::BareRoot => Some((0, 0)),
    };
    if let Some((uid, gid)) = to {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        drop_groups(identity)?;
        rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(Trouble::os("drop group"))?;
        rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(Trouble::os("drop user"))?;
    }
    let _ = rustix::thread::clear_ambient_capability_set();
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none).map_err(Trouble::os("drop capabilities"))?;
    // FAIL CLOSED: root by number would get everything back with the next program.
    if rustix::process::geteuid().is_root() && !is_bound {
        return Err(Trouble {
            step: "drop capabilities",
            message: "root stays root".to_owned(),
            fault: crate::orders::Fault::Machine,
        });
    }
    Ok(())
}
