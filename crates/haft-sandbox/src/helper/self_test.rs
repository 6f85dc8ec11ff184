//! The table of sandbox escape attempts of the self-test: name, group, what is tried, expectation.
//!
//! Each act runs inside the sandbox, in its own process, because some acts kill it. The errno of a
//! refused act is recorded. Syscalls that a filter must stop are made with harmless arguments; only
//! `EPERM`, `ENOSYS` and `ESRCH` count as stopped.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
    os::{
        fd::{AsRawFd as _, BorrowedFd},
        unix::{
            fs::{OpenOptionsExt as _, PermissionsExt as _, chown, symlink},
            net::{UnixDatagram, UnixStream},
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags, XattrFlags},
    process::{Pid, Resource, Rlimit},
};

use super::sys;
use crate::{DoctorFinding, ExpectedResult, Level, ObservedResult, Profile, protocol::Scene};

use ExpectedResult::{Allowed, Refused};

type Attempt = io::Result<()>;

/// One act of the self-test.
struct Act {
    name: &'static str,
    group: &'static str,
    tried: &'static str,
    expected: ExpectedResult,
    run: fn(&Scene) -> Attempt,
}

const fn act(
    group: &'static str,
    name: &'static str,
    tried: &'static str,
    expected: ExpectedResult,
    run: fn(&Scene) -> Attempt,
) -> Act {
    Act { name, group, tried, expected, run }
}

/// Exit code of an act that cannot be tried here.
const SKIPPED: i32 = 254;
/// Exit code for an error without an errno.
const NO_ERRNO: i32 = 253;
/// Timeout of one act.
const TIMEOUT_SECONDS: u32 = 10;

#[rustfmt::skip] // a table
const ACTS: &[Act] = &[
    // These must work, otherwise the rest proves nothing.
    act("works", "write-inside", "create a file in the workspace", Allowed, |s| write(s.inside.join("sub/made"))),
    act("works", "change-inside", "change a file of the workspace", Allowed, |s| overwrite(s.inside.join("notes.txt"))),
    act("works", "move-inside", "move a file within the workspace", Allowed, |s| fs::rename(s.inside.join("sub/old"), s.inside.join("sub/new"))),
    act("works", "delete-inside", "delete a file of the workspace", Allowed, |s| fs::remove_file(s.inside.join("sub/gone"))),
    act("works", "directory-inside", "create a directory in the workspace", Allowed, |s| fs::create_dir(s.inside.join("sub/directory"))),
    act("works", "read-system", "read /etc/passwd", Allowed, |_| read("/etc/passwd")),
    act("works", "null-device", "write to /dev/null", Allowed, |_| overwrite("/dev/null")),
    act("works", "random-device", "read /dev/urandom", Allowed, |_| read_some("/dev/urandom")),
    act("works", "program-inside", "create a file that may be executed", Allowed, |s| File::options().write(true).create_new(true).mode(0o755).open(s.inside.join("sub/program")).map(drop)),
    act("works", "run-program", "execute /bin/true", Allowed, |_| program("/bin/true")),
    act("works", "pair-of-sockets", "create a pair of sockets", Allowed, |_| UnixStream::pair().map(drop)),
    // Files outside.
    act("files", "create-outside", "create a file next to the workspace", Refused, |s| write(s.outside.join("new"))),
    act("files", "overwrite-outside", "open a file outside for writing", Refused, |s| overwrite(s.outside.join("secret.txt"))),
    act("files", "append-outside", "append to a file outside", Refused, |s| File::options().append(true).open(s.outside.join("secret.txt")).and_then(|mut f| f.write_all(b"x"))),
    act("files", "truncate-outside", "truncate a file outside", Refused, |s| File::options().write(true).truncate(true).open(s.outside.join("secret.txt")).map(drop)),
    act("files", "delete-outside", "delete a file outside", Refused, |s| fs::remove_file(s.outside.join("secret.txt"))),
    act("files", "move-in", "move a file from outside into the workspace", Refused, |s| fs::rename(s.outside.join("secret.txt"), s.inside.join("sub/stolen"))),
    act("files", "move-out", "move a file out of the workspace", Refused, |s| fs::rename(s.inside.join("sub/stay"), s.outside.join("moved"))),
    act("files", "hard-link-in", "create a hard link to a file outside", Refused, |s| fs::hard_link(s.outside.join("secret.txt"), s.inside.join("sub/hard"))),
    act("files", "through-link", "write through a symlink to the outside", Refused, |s| { symlink(s.outside.join("linked"), s.inside.join("sub/link"))?; write(s.inside.join("sub/link")) }),
    act("files", "through-directory-link", "write through a symlink to a directory outside", Refused, |s| { symlink(&s.outside, s.inside.join("sub/dir"))?; write(s.inside.join("sub/dir/linked")) }),
    act("files", "directory-outside", "create a directory outside", Refused, |s| fs::create_dir(s.outside.join("directory"))),
    act("files", "mode-outside", "make a file outside world-writable", Refused, |s| fs::set_permissions(s.outside.join("secret.txt"), fs::Permissions::from_mode(0o777))),
    act("files", "owner-outside", "change the group of a file outside", Refused, |s| chown(s.outside.join("secret.txt"), None, Some(rustix::process::getgid().as_raw()))),
    act("files", "attribute-outside", "set an extended attribute of a file outside", Refused, |s| rustix::fs::setxattr(s.outside.join("secret.txt"), "user.haft", b"x", XattrFlags::empty()).map_err(Into::into)),
    act("files", "up-and-out", "write to ../outside", Refused, |s| write(s.inside.join("../outside/up"))),
    act("files", "through-proc-root", "write through /proc/self/root", Refused, |s| write(below("/proc/self/root", &s.outside).join("proc"))),
    act("files", "through-parents-root", "write through /proc/1/root", Refused, |s| write(below("/proc/1/root", &s.outside).join("proc"))),
    act("files", "through-parents-directory", "write through /proc/1/cwd", Refused, |_| write("/proc/1/cwd/haft-self-test")),
    act("files", "write-etc", "create a file in /etc", Refused, |_| write("/etc/haft-self-test")),
    act("files", "write-usr", "create a file in /usr/bin", Refused, |_| write("/usr/bin/haft-self-test")),
    act("files", "write-root", "create a file in /", Refused, |_| write("/haft-self-test")),
    act("files", "write-kernel-setting", "open a kernel setting for writing", Refused, |_| open_for_writing("/proc/sys/kernel/core_pattern")),
    act("files", "write-sysfs", "open a file of /sys for writing", Refused, |_| open_for_writing("/sys/kernel/mm/transparent_hugepage/enabled")),
    act("files", "write-control-group", "create a cgroup", Refused, |_| fs::create_dir("/sys/fs/cgroup/haft-self-test")),
    act("files", "set-uid", "set the set-uid bit of a copy of a program", Refused, |s| set_mode(s, 0o4755)),
    act("files", "set-gid", "set the set-gid bit of a copy of a program", Refused, |s| set_mode(s, 0o2755)),
    act("files", "create-set-uid", "create a file that has the set-uid bit", Refused, |s| File::options().write(true).create_new(true).mode(0o4755).open(s.inside.join("sub/set-uid")).map(drop)),
    act("files", "create-set-gid", "create a file that has the set-gid bit", Refused, |s| File::options().write(true).create_new(true).mode(0o2755).open(s.inside.join("sub/set-gid")).map(drop)),
    act("files", "unnamed-set-uid", "create a file without a name that has the set-uid bit", Refused, |s| rustix::fs::open(s.inside.join("sub"), OFlags::TMPFILE | OFlags::RDWR, Mode::from_raw_mode(0o4755)).map(drop).map_err(Into::into)),
    act("files", "node-set-uid", "create a file with the set-uid bit by mknod", Refused, |s| rustix::fs::mknodat(rustix::fs::CWD, s.inside.join("sub/node"), rustix::fs::FileType::RegularFile, Mode::from_raw_mode(0o4755), 0).map_err(Into::into)),
    act("files", "set-uid-new-call", "set the set-uid bit with fchmodat2", Refused, |_| filtered_syscall(452, [usize::MAX, 0, 0o4755, 0, 0, 0])),
    act("files", "open-past-filter", "open a file with flags that a filter cannot see (openat2)", Refused, |_| filtered_syscall(libc::SYS_openat2, [usize::MAX, 0, 0, 0, 0, 0])),
    act("files", "file-capability", "give a program a capability", Refused, |s| rustix::fs::setxattr(s.inside.join("notes.txt"), "security.capability", &FILE_CAPABILITY, XattrFlags::empty()).map_err(Into::into)),
    act("files", "read-shadow", "read the password file", Refused, |_| read("/etc/shadow")),
    // Protected names.
    act("protected", "new-hook", "create .git/hooks/pre-commit", Refused, |s| write(s.inside.join(".git/hooks/pre-commit"))),
    act("protected", "git-config", "change .git/config", Refused, |s| overwrite(s.inside.join(".git/config"))),
    act("protected", "replace-git-config", "move a file over .git/config", Refused, |s| fs::rename(s.inside.join("sub/stay"), s.inside.join(".git/config"))),
    act("protected", "delete-git-config", "delete .git/config", Refused, |s| fs::remove_file(s.inside.join(".git/config"))),
    act("protected", "move-git", "move .git away", Refused, |s| fs::rename(s.inside.join(".git"), s.inside.join("sub/git"))),
    act("protected", "own-directory", "create .haft/rules if there is no .haft", Refused, |s| { let _ = fs::create_dir(s.inside.join(".haft")); write(s.inside.join(".haft/rules")) }),
    act("protected", "own-file", "create haft.toml", Refused, |s| write(s.inside.join("haft.toml"))),
    act("protected", "own-file-moved", "move a file to haft.toml", Refused, |s| fs::rename(s.inside.join("sub/stay"), s.inside.join("haft.toml"))),
    act("protected", "own-local-file", "create haft.local.toml", Refused, |s| write(s.inside.join("haft.local.toml"))),
    act("protected", "own-local-file-moved", "move a file to haft.local.toml", Refused, |s| fs::rename(s.inside.join("sub/stay"), s.inside.join("haft.local.toml"))),
    act("protected", "own-local-pipe", "create a named pipe haft.local.toml", Refused, |s| rustix::fs::mknodat(rustix::fs::CWD, s.inside.join("haft.local.toml"), rustix::fs::FileType::Fifo, 0o666.into(), 0).map_err(Into::into)),
    act("protected", "agent-settings", "create .claude/settings.local.json if there is no .claude", Refused, |s| { let _ = fs::create_dir(s.inside.join(".claude")); write(s.inside.join(".claude/settings.local.json")) }),
    // Devices.
    act("devices", "make-device", "create a device file", Refused, |s| rustix::fs::mknodat(rustix::fs::CWD, s.inside.join("sub/device"), rustix::fs::FileType::CharacterDevice, 0o666.into(), rustix::fs::makedev(1, 3)).map_err(Into::into)),
    act("devices", "memory", "open /dev/mem", Refused, |_| read_some("/dev/mem")),
    act("devices", "kernel-log", "read /dev/kmsg", Refused, |_| open_for_writing("/dev/kmsg")),
    act("devices", "virtual-machines", "open /dev/kvm", Refused, |_| open_for_writing("/dev/kvm")),
    act("devices", "loop-devices", "open /dev/loop-control", Refused, |_| open_for_writing("/dev/loop-control")),
    act("devices", "fuse", "open /dev/fuse", Refused, |_| open_for_writing("/dev/fuse")),
    act("devices", "type-for-others", "inject input into a terminal (TIOCSTI)", Refused, |_| filtered_syscall(libc::SYS_ioctl, [0, 0x5412, 0, 0, 0, 0])),
    act("devices", "paste-for-others", "paste into a console (TIOCLINUX)", Refused, |_| filtered_syscall(libc::SYS_ioctl, [0, 0x541c, 0, 0, 0, 0])),
    // Network.
    act("network", "tcp-connect", "connect to a port of this machine", Refused, |s| TcpStream::connect((Ipv4Addr::LOCALHOST, s.tcp)).map(drop)),
    act("network", "tcp-listen", "listen on a port", Refused, |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map(drop)),
    act("network", "udp-send", "send a datagram", Refused, |s| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?.send_to(b"x", (Ipv4Addr::LOCALHOST, s.udp)).map(drop)),
    act("network", "ipv6", "listen on an IPv6 port", Refused, |_| TcpListener::bind(("::1", 0)).map(drop)),
    act("network", "raw-socket", "open a raw socket", Refused, |_| socket(libc::AF_INET, libc::SOCK_RAW, 1)),
    act("network", "packet-socket", "open a packet socket", Refused, |_| socket(libc::AF_PACKET, libc::SOCK_RAW, 0)),
    act("network", "netlink", "open a netlink socket", Refused, |_| socket(libc::AF_NETLINK, libc::SOCK_RAW, 0)),
    act("network", "virtual-socket", "open a socket to the host of a virtual machine", Refused, |_| socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0)),
    act("network", "crypto-socket", "open a socket to the kernel's ciphers", Refused, |_| socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0)),
    act("network", "unix-path", "connect to a socket of another program", Refused, |s| UnixStream::connect(&s.socket).map(drop)),
    act("network", "unix-abstract", "connect to an abstract socket", Refused, abstract_socket),
    act("network", "unix-datagram", "open a datagram socket", Refused, |_| UnixDatagram::unbound().map(drop)),
    // Other processes.
    act("processes", "signal", "signal a process outside", Refused, |s| rustix::process::test_kill_process(pid(s.victim)?).map_err(Into::into)),
    act("processes", "signal-parent", "signal the parent process", Refused, |_| filtered_syscall(libc::SYS_kill, [grandparent()?, 0, 0, 0, 0, 0])),
    act("processes", "signal-by-handle", "signal a process outside by a pidfd", Refused, signal_by_pidfd),
    act("processes", "trace", "trace a process outside", Refused, |s| filtered_syscall(libc::SYS_ptrace, [16, number(s.victim), 0, 0, 0, 0])),
    act("processes", "read-memory", "read the memory of a process outside", Refused, |s| filtered_syscall(libc::SYS_process_vm_readv, [number(s.victim), 0, 0, 0, 0, 0])),
    act("processes", "write-memory", "write the memory of a process outside", Refused, |s| filtered_syscall(libc::SYS_process_vm_writev, [number(s.victim), 0, 0, 0, 0, 0])),
    act("processes", "memory-file", "open the memory of a process outside as a file", Refused, |s| File::open(format!("/proc/{}/mem", s.victim)).map(drop)),
    act("processes", "environment", "read the variables of a process outside", Refused, |s| read(format!("/proc/{}/environ", s.victim))),
    act("processes", "descriptors", "see which file a process outside has open", Refused, |s| fs::read_link(format!("/proc/{}/fd/0", s.victim)).map(drop)),
    act("processes", "take-descriptor", "take an open file of a process", Refused, |_| filtered_syscall(libc::SYS_pidfd_getfd, [usize::MAX, 0, 0, 0, 0, 0])),
    act("processes", "priority-of-others", "change the priority of a process outside", Refused, |s| filtered_syscall(libc::SYS_setpriority, [0, number(s.victim), 1, 0, 0, 0])),
    act("processes", "io-priority-of-others", "change the disk priority of a process outside", Refused, |s| filtered_syscall(libc::SYS_ioprio_set, [1, number(s.victim), 2 << 13 | 7, 0, 0, 0])),
    act("processes", "limits-of-others", "change the limits of a process outside", Refused, |s| filtered_syscall(libc::SYS_prlimit64, [number(s.victim), 7, 0, 0, 0, 0])),
    // Namespaces and mounts.
    act("namespaces", "new-user-namespace", "create a user namespace", Refused, |_| filtered_syscall(libc::SYS_unshare, [flag(libc::CLONE_NEWUSER), 0, 0, 0, 0, 0])),
    act("namespaces", "new-mount-namespace", "create a mount namespace", Refused, |_| filtered_syscall(libc::SYS_unshare, [flag(libc::CLONE_NEWNS), 0, 0, 0, 0, 0])),
    act("namespaces", "clone-into-namespace", "start a process in a user namespace", Refused, |_| clone_with(libc::CLONE_NEWUSER)),
    act("namespaces", "clone-into-network", "start a process in a network namespace", Refused, |_| clone_with(libc::CLONE_NEWNET)),
    act("namespaces", "clone3", "start a process with flags that a filter cannot see (clone3)", Refused, |_| filtered_syscall(libc::SYS_clone3, [0; 6])),
    act("namespaces", "enter-namespace", "enter the namespaces of another process", Refused, |_| filtered_syscall(libc::SYS_setns, [usize::MAX, 0, 0, 0, 0, 0])),
    act("namespaces", "mount", "mount a file system", Refused, |_| filtered_syscall(libc::SYS_mount, [0; 6])),
    act("namespaces", "unmount", "unmount a file system", Refused, |_| filtered_syscall(libc::SYS_umount2, [0; 6])),
    act("namespaces", "pivot-root", "change the root of everything", Refused, |_| filtered_syscall(libc::SYS_pivot_root, [0; 6])),
    act("namespaces", "change-root", "change the root of this process", Refused, |_| filtered_syscall(libc::SYS_chroot, [0; 6])),
    act("namespaces", "copy-mount", "copy a mount", Refused, |_| filtered_syscall(libc::SYS_open_tree, [usize::MAX, 0, 0, 0, 0, 0])),
    act("namespaces", "change-mount", "make a mount writable", Refused, |_| filtered_syscall(libc::SYS_mount_setattr, [usize::MAX, 0, 0, 0, 0, 0])),
    act("namespaces", "new-file-system", "open a new file system", Refused, |_| filtered_syscall(libc::SYS_fsopen, [0; 6])),
    act("namespaces", "open-by-handle", "open a file by its file handle", Refused, |_| filtered_syscall(libc::SYS_open_by_handle_at, [usize::MAX, 0, 0, 0, 0, 0])),
    // The kernel.
    act("kernel", "bpf", "load a program into the kernel", Refused, |_| filtered_syscall(libc::SYS_bpf, [usize::MAX, 0, 0, 0, 0, 0])),
    act("kernel", "performance-events", "watch the whole machine", Refused, |_| filtered_syscall(libc::SYS_perf_event_open, [0; 6])),
    act("kernel", "user-faults", "handle page faults", Refused, |_| filtered_syscall(libc::SYS_userfaultfd, [usize::MAX, 0, 0, 0, 0, 0])),
    act("kernel", "io-uring", "make syscalls past the filter (io_uring)", Refused, |_| filtered_syscall(libc::SYS_io_uring_setup, [0; 6])),
    act("kernel", "keys", "look for keys of the user", Refused, |_| filtered_syscall(libc::SYS_keyctl, [usize::MAX, 0, 0, 0, 0, 0])),
    act("kernel", "add-key", "add a key", Refused, |_| filtered_syscall(libc::SYS_add_key, [0; 6])),
    act("kernel", "load-module", "load a module", Refused, |_| filtered_syscall(libc::SYS_finit_module, [usize::MAX, 0, 0, 0, 0, 0])),
    act("kernel", "new-kernel", "load another kernel", Refused, |_| filtered_syscall(libc::SYS_kexec_load, [0, usize::MAX, 0, 0, 0, 0])),
    act("kernel", "reboot", "restart the machine, with the wrong password", Refused, |_| filtered_syscall(libc::SYS_reboot, [0; 6])),
    act("kernel", "set-clock", "set the clock", Refused, |_| filtered_syscall(libc::SYS_settimeofday, [0; 6])),
    act("kernel", "host-name", "change the name of the machine", Refused, |_| filtered_syscall(libc::SYS_sethostname, [0, usize::MAX, 0, 0, 0, 0])),
    act("kernel", "kernel-messages", "read the messages of the kernel", Refused, |_| filtered_syscall(libc::SYS_syslog, [3, 0, 0, 0, 0, 0])),
    act("kernel", "watch-all-files", "watch all files", Refused, |_| filtered_syscall(libc::SYS_fanotify_init, [0; 6])),
    act("kernel", "old-calls", "make a syscall with the 32-bit ABI", Refused, call_with_32_bit_abi),
    act("kernel", "other-numbers", "make a syscall with the x32 ABI", Refused, |_| filtered_syscall(0x4000_0000 + 39, [0; 6])),
    // Privileges.
    act("privileges", "become-root", "become root", Refused, |_| if rustix::process::getuid().is_root() { Err(skipped()) } else { sys::raw_call(libc::SYS_setresuid, [0; 6]).map(drop) }),
    act("privileges", "capabilities", "have any capability", Refused, |_| forbidden_state(rustix::thread::capabilities(None).is_ok_and(|c| !c.effective.is_empty() || !c.permitted.is_empty()))),
    act("privileges", "new-privileges", "get privileges from a program", Refused, |_| forbidden_state(!rustix::thread::no_new_privs().unwrap_or(false))),
    act("privileges", "groups", "join a group", Refused, |_| rustix::thread::set_thread_groups(&[rustix::process::Gid::ROOT]).map_err(Into::into)),
    // Limits.
    act("limits", "raise-limit", "raise a limit", Refused, |s| rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(s.limits.open_files + 1), maximum: Some(s.limits.open_files + 1) }).map_err(Into::into)),
    act("limits", "too-much-memory", "allocate more memory than allowed", Refused, |s| reserve(s.limits.memory)),
    act("limits", "open-files", "open more files than allowed", Refused, |s| { let all: io::Result<Vec<_>> = (0..=s.limits.open_files).map(|_| File::open("/dev/null")).collect(); all.map(drop) }),
    act("limits", "file-size", "write a file that is too large", Refused, |s| { let f = File::create(s.inside.join("sub/large"))?; rustix::fs::ftruncate(f, s.limits.file_size + 1).map_err(Into::into) }),
    act("limits", "too-many-processes", "start more processes than allowed", Refused, fork_bomb),
    act("limits", "core-file", "leave a core file", Refused, |_| forbidden_state(rustix::process::getrlimit(Resource::Core).maximum != Some(0))),
    act("limits", "left-open", "inherit a file descriptor of the runtime", Refused, |_| forbidden_state(fs::read_dir("/proc/self/fd")?.flatten().filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok()).filter(|fd| *fd > 2).count() > 1)),
];

/// Tries all acts and prints one line of JSON for each.
pub(crate) fn run(scene: &Scene, _: &Profile, report: BorrowedFd<'_>) {
    // The pipe for setup errors is no longer needed; here it would count as an open file.
    sys::close(report.as_raw_fd());
    let _ = sys::close_from(3);
    let mut out = io::stdout().lock();
    for act in ACTS {
        let observed = match sys::clone(0) {
            Ok(sys::Side::Child) => sys::exit(exit_code(act, scene)),
            Ok(sys::Side::Parent(pid)) => observe(pid),
            Err(e) => ObservedResult::Skipped(e.to_string()),
        };
        let finding = DoctorFinding {
            name: act.name.to_owned(),
            group: act.group.to_owned(),
            tried: act.tried.to_owned(),
            expected: act.expected,
            observed,
        };
        if let Ok(line) = serde_json::to_string(&finding) {
            let _ = writeln!(out, "{line}");
        }
    }
    let _ = out.flush();
}

/// Runs one act in its own process and returns its exit code.
fn exit_code(act: &Act, scene: &Scene) -> i32 {
    sys::alarm(TIMEOUT_SECONDS);
    match (act.run)(scene) {
        Ok(()) => 0,
        Err(e) if e.kind() == io::ErrorKind::Unsupported && e.raw_os_error().is_none() => SKIPPED,
        Err(e) => e.raw_os_error().filter(|n| (1..NO_ERRNO).contains(n)).unwrap_or(NO_ERRNO),
    }
}

fn observe(pid: i32) -> ObservedResult {
    match sys::reap(Some(pid), true) {
        Ok(Some(reaped)) if libc::WIFSIGNALED(reaped.status) => {
            ObservedResult::Killed(libc::WTERMSIG(reaped.status))
        }
        Ok(Some(reaped)) => match libc::WEXITSTATUS(reaped.status) {
            0 => ObservedResult::Allowed,
            SKIPPED => ObservedResult::Skipped("not on this machine or at this level".to_owned()),
            errno => ObservedResult::Refused(errno),
        },
        _ => ObservedResult::Skipped("its result is unknown".to_owned()),
    }
}

fn skipped() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

/// Returns the result for a state that must not hold: if it does, the act was allowed.
fn forbidden_state(is_so: bool) -> Attempt {
    if is_so { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EPERM)) }
}

/// Makes a syscall that a filter must stop. Any other errno means that it reached the kernel.
fn filtered_syscall(number: libc::c_long, args: [usize; 6]) -> Attempt {
    match sys::raw_call(number, args) {
        Err(e) if matches!(e.raw_os_error(), Some(libc::EPERM | libc::ENOSYS | libc::ESRCH)) => {
            Err(e)
        }
        _ => Ok(()),
    }
}

fn write(path: impl AsRef<Path>) -> Attempt {
    File::options().write(true).create(true).truncate(false).open(path)?.write_all(b"haft")
}

/// A file capability in version 2: effective, `CAP_SETUID`.
const FILE_CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Creates a plain file, then sets its mode.
fn set_mode(scene: &Scene, mode: u32) -> Attempt {
    let path = scene.inside.join(format!("sub/mode-{mode:o}"));
    File::create(&path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn overwrite(path: impl AsRef<Path>) -> Attempt {
    File::options().write(true).open(path)?.write_all(b"haft")
}

/// Opens a file for writing without writing to it, because a write would have an effect.
fn open_for_writing(path: impl AsRef<Path>) -> Attempt {
    File::options().write(true).open(path).map(drop)
}

fn read(path: impl AsRef<Path>) -> Attempt {
    let mut byte = [0];
    File::open(path)?.read(&mut byte).map(drop)
}

fn read_some(path: impl AsRef<Path>) -> Attempt {
    read(path)
}

fn program(path: &str) -> Attempt {
    match sys::clone(0)? {
        sys::Side::Child => {
            let name = std::ffi::CString::new(path).unwrap_or_default();
            let _ = sys::exec(Path::new(path), &[name], &[]);
            sys::exit(127)
        }
        sys::Side::Parent(pid) => match sys::reap(Some(pid), true)? {
            Some(reaped)
                if libc::WIFEXITED(reaped.status) && libc::WEXITSTATUS(reaped.status) == 0 =>
            {
                Ok(())
            }
            _ => Err(io::ErrorKind::Other.into()),
        },
    }
}

fn below(root: &str, path: &Path) -> PathBuf {
    Path::new(root).join(path.strip_prefix("/").unwrap_or(path))
}

fn number(pid: i32) -> usize {
    usize::try_from(pid).unwrap_or_default()
}

fn flag(flag: libc::c_int) -> usize {
    flag.unsigned_abs() as usize
}

fn pid(number: i32) -> io::Result<Pid> {
    Pid::from_raw(number).ok_or_else(skipped)
}

/// Returns the parent of the process that runs the acts: the helper, or the first process of the
/// namespace.
fn grandparent() -> io::Result<usize> {
    let parent = rustix::process::getppid().ok_or_else(skipped)?;
    let mut text = String::new();
    File::open(format!("/proc/{}/stat", parent.as_raw_nonzero()))?
        .take(4096)
        .read_to_string(&mut text)?;
    let above = text
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_ascii_whitespace().nth(1)?.parse().ok());
    match above {
        Some(0) | None => Err(skipped()),
        Some(pid) => Ok(pid),
    }
}

fn socket(family: libc::c_int, kind: libc::c_int, protocol: usize) -> Attempt {
    let made = sys::raw_call(libc::SYS_socket, [flag(family), flag(kind), protocol, 0, 0, 0]);
    match made {
        // The kernel does not have it, so the sandbox did not refuse it.
        Err(e) if e.raw_os_error() == Some(libc::EAFNOSUPPORT) => Ok(()),
        made => made.map(drop),
    }
}

fn abstract_socket(scene: &Scene) -> Attempt {
    use std::os::linux::net::SocketAddrExt as _;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&scene.abstract_name)?;
    UnixStream::connect_addr(&address).map(drop)
}

fn signal_by_pidfd(scene: &Scene) -> Attempt {
    let handle =
        rustix::process::pidfd_open(pid(scene.victim)?, rustix::process::PidfdFlags::empty())?;
    let harmless = rustix::process::Signal::CONT;
    rustix::process::pidfd_send_signal(handle, harmless).map_err(Into::into)
}

fn clone_with(flags: libc::c_int) -> Attempt {
    match sys::clone(flags)? {
        sys::Side::Child => sys::exit(0),
        sys::Side::Parent(pid) => sys::reap(Some(pid), true).map(drop),
    }
}

fn call_with_32_bit_abi(_: &Scene) -> Attempt {
    #[cfg(target_arch = "x86_64")]
    {
        // A kernel without this ABI kills the process too, with another signal.
        if sys::call_32_bit() > 0 {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::ENOSYS))
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    Err(skipped())
}

fn reserve(bytes: u64) -> Attempt {
    let mut all: Vec<u8> = Vec::new();
    all.try_reserve_exact(usize::try_from(bytes).unwrap_or(usize::MAX / 2))
        .map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))
}

/// Starts processes until one is refused (fork bomb), and kills them again.
fn fork_bomb(scene: &Scene) -> Attempt {
    // Elsewhere other processes of the user share the limit, or it does not apply; the tier says
    // so.
    if scene.level != Some(Level::Namespaces) || rustix::process::getuid().is_root() {
        return Err(skipped());
    }
    let mut all = Vec::new();
    let mut result = Ok(());
    for _ in 0..=scene.limits.processes {
        match sys::clone(0) {
            Ok(sys::Side::Child) => sys::sleep_forever(),
            Ok(sys::Side::Parent(pid)) => all.push(pid),
            Err(e) => {
                result = Err(e);
                break;
            }
        }
    }
    for pid in all {
        sys::signal(pid, libc::SIGKILL);
        let _ = sys::reap(Some(pid), true);
    }
    result
}
