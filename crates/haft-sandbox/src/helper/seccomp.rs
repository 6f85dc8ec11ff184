//! Seccomp filters: which syscalls a sandboxed process may not make.
//!
//! It is a denylist: syscalls that reach other processes, change mounts, create namespaces, open
//! sockets, or were often used for sandbox escapes fail with `EPERM`. Syscalls that programs can do
//! without fail with `ENOSYS`, so that they fall back to another one.
//!
//! A filter sees registers and never memory. So `clone3`, which has its flags in memory, is
//! `ENOSYS`.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition as If,
    SeccompFilter, SeccompRule, TargetArch,
};

use super::sys;
use crate::{Level, Network};

/// Syscalls that fail with `EPERM`.
const REFUSED: &[libc::c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // Mounts and file handles.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // Namespaces.
    libc::SYS_unshare,
    libc::SYS_setns,
    // Parts of the kernel that were often used for sandbox escapes.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_lookup_dcookie,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
];

/// System V and POSIX IPC. Without an IPC namespace it is shared with the host.
const IPC: &[libc::c_long] =
    &[libc::SYS_shmget, libc::SYS_shmat, libc::SYS_semget, libc::SYS_msgget, libc::SYS_mq_open];

/// Modes, owners and attributes of files. Landlock does not check them, so without read-only mounts
/// a command could make every file of its user world-readable.
const ATTRIBUTES: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    FILE_SETATTR,
];
/// Extended attributes. They fail with `EOPNOTSUPP`, as on a file system without them: `cp -a` then
/// copies the mode instead of an access control list.
const EXTENDED_ATTRIBUTES: &[libc::c_long] = &[
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
];
/// `chmod` calls that the supervisor can check.
pub(crate) const CHMOD_CALLS: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
];
/// Too new for `libc`. Syscalls from 424 on have the same number on every architecture.
const FCHMODAT2: libc::c_long = 452;
const SETXATTRAT: libc::c_long = 463;
const REMOVEXATTRAT: libc::c_long = 466;
const FILE_SETATTR: libc::c_long = 469;

/// Set-user-id and set-group-id. Such a file runs with the caller's rights for every other user of
/// the host, outside of the sandbox.
const SET_ID: [u64; 2] = [0o4000, 0o2000];
/// Syscalls that set a mode, with the index of that argument. The kernel drops the set-id bits for
/// `mkdir` itself.
const MODE_CALLS: &[(libc::c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];
/// Syscalls that use their mode only if they create a file, with the indexes of flags and mode.
/// Without these flags the register has an arbitrary value.
const OPEN_CALLS: &[(libc::c_long, u8, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
    (libc::SYS_openat, 2, 3),
];
/// `O_CREAT`, and the bit that only `O_TMPFILE` has.
const CREATE_FLAGS: [u64; 2] = [0o100, 0o20_000_000];

/// Syscalls that fail with `ENOSYS`: programs fall back to others.
const MISSING: &[libc::c_long] = &[
    libc::SYS_clone3,
    // Takes flags and mode in memory. Libraries fall back to `openat`.
    libc::SYS_openat2,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Flags of `clone` that create namespaces.
const NAMESPACES: &[libc::c_int] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// `ioctl` requests that inject input into a terminal or take it over: `TIOCSTI`, `TIOCLINUX`,
/// `TIOCCONS`, `TIOCSETD`.
const TERMINAL: &[u64] = &[0x5412, 0x541c, 0x541d, 0x5423];

/// `ioctl` requests that change file attributes: `FS_IOC_SETFLAGS` in both widths,
/// `FS_IOC_FSSETXATTR`.
const ATTRIBUTE_REQUESTS: &[u64] = &[0x4008_6602, 0x4004_6602, 0x401c_5820];

/// Compiled filters.
pub(crate) struct Filters(Vec<BpfProgram>);

impl Filters {
    /// Compiles the filters of a profile. A supervised command may use `chmod` without read-only
    /// mounts too, because the supervisor checks each call.
    pub(crate) fn of(level: Level, network: Network, is_supervised: bool) -> Result<Self, String> {
        let mut refused: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
        for call in REFUSED {
            refused.insert(*call, Vec::new());
        }
        refused.extend(set_id_rules()?);
        if level != Level::Namespaces {
            // An empty rule list refuses every use. These override the rules above.
            let is_kept = |call: &&libc::c_long| !is_supervised || !CHMOD_CALLS.contains(call);
            let more = IPC.iter().chain(ATTRIBUTES.iter().filter(is_kept));
            refused.extend(more.map(|call| (*call, Vec::new())));
            refused.extend(priority_rules()?);
        }
        let mut clones = Vec::new();
        for flag in NAMESPACES {
            let flag = u64::from(flag.unsigned_abs());
            clones
                .push(rule(vec![If::new(0, Len::Qword, Op::MaskedEq(flag), flag).map_err(text)?])?);
        }
        refused.insert(libc::SYS_clone, clones);
        let mut requests = Vec::new();
        let attributes = if level == Level::Namespaces { &[] } else { ATTRIBUTE_REQUESTS };
        for request in TERMINAL.iter().chain(attributes) {
            requests.push(rule(vec![If::new(1, Len::Dword, Op::Eq, *request).map_err(text)?])?);
        }
        refused.insert(libc::SYS_ioctl, requests);
        // The limits of other processes, including the runtime.
        let others = If::new(0, Len::Dword, Op::Ne, 0).map_err(text)?;
        refused.insert(libc::SYS_prlimit64, vec![rule(vec![others])?]);
        let sockets = match network {
            // No rule refuses every socket. `socketpair` is another syscall and stays allowed.
            Network::None => Vec::new(),
            Network::Proxy | Network::Host => {
                let kind = |family: libc::c_int| {
                    If::new(0, Len::Dword, Op::Ne, u64::from(family.unsigned_abs())).map_err(text)
                };
                // Address lookup needs `NETLINK_ROUTE`. All other netlink protocols are refused.
                let is_netlink = If::new(0, Len::Dword, Op::Eq, 16).map_err(text)?;
                let is_no_route = If::new(2, Len::Dword, Op::Ne, 0).map_err(text)?;
                let mut sockets = vec![
                    rule(vec![
                        kind(libc::AF_INET)?,
                        kind(libc::AF_INET6)?,
                        kind(libc::AF_NETLINK)?,
                    ])?,
                    rule(vec![is_netlink, is_no_route])?,
                ];
                if network == Network::Proxy {
                    sockets.extend(only_tcp()?);
                }
                sockets
            }
        };
        refused.insert(libc::SYS_socket, sockets);
        // A datagram socket of a pair can send to any path, whatever it is connected to. The kernel
        // treats a raw one as a datagram one.
        let kind = |kind: libc::c_int| {
            let value = u64::from(kind.unsigned_abs());
            rule(vec![If::new(1, Len::Dword, Op::MaskedEq(0xf), value).map_err(text)?])
        };
        let pairs = vec![kind(libc::SOCK_DGRAM)?, kind(libc::SOCK_RAW)?];
        refused.insert(libc::SYS_socketpair, pairs);
        let mut unknown: BTreeMap<i64, Vec<SeccompRule>> =
            MISSING.iter().map(|call| (*call, Vec::new())).collect();
        if is_supervised {
            // Libraries fall back to syscalls that the supervisor handles.
            refused.remove(&FCHMODAT2);
            unknown.insert(FCHMODAT2, Vec::new());
        }
        let mut all = vec![compile(refused, libc::EPERM)?, compile(unknown, libc::ENOSYS)?];
        if level != Level::Namespaces {
            let attributes = EXTENDED_ATTRIBUTES.iter().map(|call| (*call, Vec::new())).collect();
            all.push(compile(attributes, libc::EOPNOTSUPP)?);
        }
        Ok(Self(all))
    }

    /// Applies the filters to this process, for good. Needs `no_new_privs`.
    pub(crate) fn apply(&self) -> Result<(), String> {
        #[cfg(target_arch = "x86_64")]
        refuse_x32().map_err(|e| e.to_string())?;
        for filter in &self.0 {
            seccompiler::apply_filter(filter).map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}

fn text(error: seccompiler::BackendError) -> String {
    error.to_string()
}

fn rule(conditions: Vec<If>) -> Result<SeccompRule, String> {
    SeccompRule::new(conditions).map_err(text)
}

/// Refuses every internet socket that is not TCP: UDP, raw and others.
fn only_tcp() -> Result<Vec<SeccompRule>, String> {
    // The flags `SOCK_CLOEXEC` and `SOCK_NONBLOCK` are above these bits.
    const TYPE_MASK: u64 = 0xf;
    let stream = u64::from(libc::SOCK_STREAM.unsigned_abs());
    let mut rules = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let is_family =
            || If::new(0, Len::Dword, Op::Eq, u64::from(family.unsigned_abs())).map_err(text);
        for kind in (0..=TYPE_MASK).filter(|kind| *kind != stream) {
            let is_kind = If::new(1, Len::Dword, Op::MaskedEq(TYPE_MASK), kind).map_err(text)?;
            rules.push(rule(vec![is_family()?, is_kind])?);
        }
        // The protocol is the default of the type, or TCP: not MPTCP or SCTP.
        let (tcp, zero) = (u64::from(libc::IPPROTO_TCP.unsigned_abs()), 0);
        let is_other = |value| If::new(2, Len::Dword, Op::Ne, value).map_err(text);
        rules.push(rule(vec![is_family()?, is_other(zero)?, is_other(tcp)?])?);
    }
    Ok(rules)
}

/// Matches an argument that has all bits of a mask set.
fn has_bits(argument: u8, mask: u64) -> Result<If, String> {
    If::new(argument, Len::Dword, Op::MaskedEq(mask), mask).map_err(text)
}

/// Refuses set-user-id and set-group-id bits in every mode that reaches the disk.
fn set_id_rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>, String> {
    let mut all = BTreeMap::new();
    for (call, mode) in MODE_CALLS {
        let rules = SET_ID.iter().map(|bit| rule(vec![has_bits(*mode, *bit)?]));
        all.insert(*call, rules.collect::<Result<_, _>>()?);
    }
    for (call, flags, mode) in OPEN_CALLS {
        let mut rules = Vec::new();
        for creates in CREATE_FLAGS {
            for bit in SET_ID {
                rules.push(rule(vec![has_bits(*flags, creates)?, has_bits(*mode, bit)?])?);
            }
        }
        all.insert(*call, rules);
    }
    Ok(all)
}

/// Refuses to change priorities of other processes if no pid namespace hides them: by a pid other
/// than 0, or for all processes of the user.
fn priority_rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>, String> {
    const PRIO_USER: u64 = 2;
    const IOPRIO_WHO_USER: u64 = 3;
    let is = |argument, op, value| If::new(argument, Len::Dword, op, value).map_err(text);
    let named = |user: u64| -> Result<Vec<SeccompRule>, String> {
        Ok(vec![rule(vec![is(0, Op::Eq, user)?])?, rule(vec![is(1, Op::Ne, 0)?])?])
    };
    let others =
        || -> Result<Vec<SeccompRule>, String> { Ok(vec![rule(vec![is(0, Op::Ne, 0)?])?]) };
    Ok(BTreeMap::from([
        (libc::SYS_setpriority, named(PRIO_USER)?),
        (libc::SYS_ioprio_set, named(IOPRIO_WHO_USER)?),
        (libc::SYS_sched_setscheduler, others()?),
        (libc::SYS_sched_setparam, others()?),
        (libc::SYS_sched_setattr, others()?),
    ]))
}

fn compile(
    calls: BTreeMap<i64, Vec<SeccompRule>>,
    errno: libc::c_int,
) -> Result<BpfProgram, String> {
    let arch: TargetArch = std::env::consts::ARCH.try_into().map_err(|e| format!("{e}"))?;
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    let filter =
        SeccompFilter::new(calls, SeccompAction::Allow, refuse, arch).map_err(|e| e.to_string())?;
    filter.try_into().map_err(|e: seccompiler::BackendError| e.to_string())
}

/// Refuses the x32 ABI: a second set of syscall numbers that no rule above covers.
#[cfg(target_arch = "x86_64")]
fn refuse_x32() -> std::io::Result<()> {
    const X32: u32 = 0x4000_0000;
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt,
        jf,
        k,
    };
    let refuse = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    sys::raw_filter(&mut [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, refuse),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_has_filters_that_compile() {
        for level in [Level::Landlock, Level::Namespaces] {
            for network in [Network::None, Network::Proxy, Network::Host] {
                for is_supervised in [false, true] {
                    let filters = Filters::of(level, network, is_supervised).unwrap();
                    assert!(filters.0.iter().all(|filter| filter.len() > 4));
                }
            }
        }
    }
}
