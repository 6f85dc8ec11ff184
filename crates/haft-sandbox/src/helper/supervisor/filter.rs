//! The seccomp filter that selects the supervised syscalls: those that create, replace or remove a
//! name, and opens that write. Reads never leave the kernel.
//!
//! The flags of `open` are in a register, so the filter can check them. Syscalls with flags in
//! memory (`openat2`, `io_uring`) are `ENOSYS` inside, see `seccomp.rs`.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::OwnedFd,
};

use super::super::{SetupError, seccomp::CHMOD_CALLS, sys};
use crate::protocol::Fault;

/// Syscalls that are always supervised.
const ALWAYS_SUPERVISED: &[libc::c_long] = &[
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_truncate,
    // It changes no name: the supervisor invalidates its cached umask.
    libc::SYS_umask,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
];

/// Syscalls that are supervised if they write or create, with the index of their flags.
const OPEN_CALLS: &[(libc::c_long, u32)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];

/// The bit that only `O_TMPFILE` has.
const TMPFILE: libc::c_int = 0o20_000_000;
/// Flags of an open that writes or creates.
const WRITE_FLAGS: libc::c_int =
    libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | TMPFILE;

/// Offsets of the syscall number, the architecture, and the low half of an argument.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const fn argument(index: u32) -> u32 {
    16 + 8 * index + if cfg!(target_endian = "big") { 4 } else { 0 }
}

/// `AUDIT_ARCH_X86_64`, `AUDIT_ARCH_AARCH64`.
#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const NATIVE: u32 = 0;

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

fn step(code: u32, yes: u8, no: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: u16::try_from(code).unwrap_or_default(), jt: yes, jf: no, k }
}

fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

/// Returns the BPF program. Each test is followed by its own return, so that no jump is long.
fn program() -> Vec<libc::sock_filter> {
    let notify = step(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF);
    let allow = step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW);
    let mut all = vec![
        step(LOAD, 0, 0, ARCHITECTURE),
        // The other filters kill syscalls of another ABI.
        step(IF_EQUAL, 1, 0, NATIVE),
        allow,
        step(LOAD, 0, 0, NUMBER),
    ];
    for (call, flags) in OPEN_CALLS {
        all.extend([
            step(IF_EQUAL, 0, 5, number(*call)),
            step(LOAD, 0, 0, argument(*flags)),
            // With `O_PATH` the kernel ignores the other flags; the file descriptor cannot write.
            step(IF_ANY_BIT, 2, 0, libc::O_PATH.unsigned_abs()),
            step(IF_ANY_BIT, 0, 1, WRITE_FLAGS.unsigned_abs()),
            notify,
            allow,
        ]);
    }
    for call in ALWAYS_SUPERVISED.iter().chain(CHMOD_CALLS) {
        all.extend([step(IF_EQUAL, 0, 1, number(*call)), notify]);
    }
    all.push(allow);
    all
}

/// Puts this process under supervision, for good. Needs `no_new_privs`.
pub(super) fn install() -> io::Result<OwnedFd> {
    sys::notifying_filter(&mut program())
}

/// Whether this machine supports supervision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::helper) enum Availability {
    Yes,
    /// The kernel does not support it.
    No,
}

impl Availability {
    pub(in crate::helper) fn is_yes(self) -> bool {
        self == Self::Yes
    }

    /// Detects it.
    ///
    /// FAIL CLOSED: fails if this process is supervised itself. The outer supervisor makes syscalls
    /// with its own rights, so Landlock rules that are added here would not apply to them.
    pub(in crate::helper) fn find() -> Result<Self, SetupError> {
        // A process without a filter has no outer supervisor and needs no trial.
        let is_filtered = status_line("Seccomp:").is_none_or(|mode| mode != "0");
        if is_filtered && trial() == Some(libc::EBUSY) {
            return Err(SetupError {
                step: "supervisor",
                message: "this process runs in a sandbox that supervises it, so it cannot start \
                          another sandbox"
                    .to_owned(),
                fault: Fault::Machine,
            });
        }
        let is_known = NATIVE != 0 && is_new_enough() && sys::has_notifications();
        let is_hindered = || trial().is_some() || !has_needed_syscalls();
        Ok(if is_known && !(is_filtered && is_hindered()) { Self::Yes } else { Self::No })
    }
}

/// Installs the filter in a child process. Returns the errno if it fails.
fn trial() -> Option<i32> {
    match sys::clone(0) {
        Ok(sys::Side::Child) => {
            let _ = rustix::thread::set_no_new_privs(true);
            let errno = install().err().map_or(0, |e| e.raw_os_error().unwrap_or(libc::EINVAL));
            sys::exit(errno & 0xff)
        }
        Ok(sys::Side::Parent(pid)) => match sys::reap(Some(pid), true) {
            Ok(Some(ended)) if libc::WIFEXITED(ended.status) => {
                Some(libc::WEXITSTATUS(ended.status)).filter(|errno| *errno != 0)
            }
            _ => Some(libc::EINVAL),
        },
        Err(_) => Some(libc::EINVAL),
    }
}

/// Returns whether the filters of this process allow the syscalls that a supervisor needs.
fn has_needed_syscalls() -> bool {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    let (text, mut copy) = (*b"text", [0; 4]);
    let me = std::process::id();
    openat2(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::empty()).is_ok()
        && sys::read_memory(me, text.as_ptr().addr() as u64, &mut copy).is_ok()
        && copy == text
}

fn status_line(name: &str) -> Option<String> {
    let mut text = String::new();
    File::open("/proc/self/status").ok()?.take(64 << 10).read_to_string(&mut text).ok()?;
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
}

/// Returns whether the kernel is Linux 5.19 or later: only fatal signals interrupt a received
/// syscall.
fn is_new_enough() -> bool {
    let mut text = String::new();
    let read = File::open("/proc/sys/kernel/osrelease")
        .and_then(|file| file.take(256).read_to_string(&mut text));
    read.is_ok() && is_release_new_enough(&text)
}

fn is_release_new_enough(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (5, 19),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the program on one syscall, as the kernel would.
    fn notifies(call: libc::c_long, args: [u32; 6]) -> bool {
        let program = program();
        let (mut at, mut value) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            match u32::from(step.code) {
                LOAD => {
                    value = match step.k {
                        NUMBER => number(call),
                        ARCHITECTURE => NATIVE,
                        other => args[usize::try_from((other - argument(0)) / 8).unwrap()],
                    }
                }
                IF_EQUAL => at += usize::from(if value == step.k { step.jt } else { step.jf }),
                IF_ANY_BIT => {
                    at += usize::from(if value & step.k != 0 { step.jt } else { step.jf })
                }
                RETURN => return step.k == libc::SECCOMP_RET_USER_NOTIF,
                other => panic!("{other:#x}"),
            }
        }
    }

    #[test]
    fn writes_are_supervised_and_reads_are_not() {
        let flags = |flags: libc::c_int| [0, 0, flags.unsigned_abs(), 0, 0, 0];
        for unsupervised in [
            libc::O_RDONLY,
            libc::O_CLOEXEC | libc::O_DIRECTORY,
            libc::O_PATH,
            libc::O_PATH | libc::O_CREAT | libc::O_RDWR,
        ] {
            assert!(!notifies(libc::SYS_openat, flags(unsupervised)), "{unsupervised:#o}");
        }
        for supervised in
            [libc::O_WRONLY, libc::O_RDWR, libc::O_CREAT, libc::O_TRUNC, libc::O_TMPFILE]
        {
            assert!(notifies(libc::SYS_openat, flags(supervised)), "{supervised:#o}");
        }
        for call in ALWAYS_SUPERVISED.iter().chain(CHMOD_CALLS) {
            assert!(notifies(*call, [0; 6]), "{call}");
        }
        for call in [libc::SYS_read, libc::SYS_execve, libc::SYS_newfstatat, libc::SYS_clone] {
            assert!(!notifies(call, [u32::MAX; 6]), "{call}");
        }
    }

    #[test]
    fn kernel_release_is_compared_by_numbers() {
        for (release, is) in [
            ("6.18.4-x\n", true),
            ("5.19", true),
            ("5.4.0-100", false),
            ("4.20", false),
            ("x", false),
        ] {
            assert_eq!(is_release_new_enough(release), is, "{release}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn flags_of_open_are_its_second_argument() {
        assert!(notifies(libc::SYS_open, [0, libc::O_CREAT.unsigned_abs(), 0, 0, 0, 0]));
        assert!(!notifies(libc::SYS_open, [0, 0, libc::O_CREAT.unsigned_abs(), 0, 0, 0]));
    }
}
