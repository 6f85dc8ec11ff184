//! Which calls the supervisor is asked about: those that create, replace or remove a name, and opens
//! that write. Plain reads never leave the kernel.
//!
//! The flags of `open` are in a register, so the filter can look at them. Calls that hide them in
//! memory (`openat2`, `io_uring`) do not exist inside, see `seccomp.rs`.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::OwnedFd,
};

use super::super::{Trouble, sys};
use crate::{orders::Fault, seccomp::CHANGES_OF_MODE};

/// Calls that are always asked about.
const ALWAYS: &[libc::c_long] = &[
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_truncate,
    // It changes no name: the supervisor learns that a umask it remembers no longer holds.
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

/// Calls that are asked about if they write or create, with the argument that holds their flags.
const OPENS: &[(libc::c_long, u32)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];

/// The bit of `O_TMPFILE` that is its own.
const TMPFILE: libc::c_int = 0o20_000_000;
/// Flags of an open that changes something.
const WRITES: libc::c_int = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | TMPFILE;

/// Where the kernel puts the number of a call, the processor, and the low half of an argument.
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

/// The program. Each test is followed by its own answer, so that no jump is long.
fn program() -> Vec<libc::sock_filter> {
    let ask = step(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF);
    let allow = step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW);
    let mut all = vec![
        step(LOAD, 0, 0, ARCHITECTURE),
        // Calls of another processor mode are killed by the other filters.
        step(IF_EQUAL, 1, 0, NATIVE),
        allow,
        step(LOAD, 0, 0, NUMBER),
    ];
    for (call, flags) in OPENS {
        all.extend([
            step(IF_EQUAL, 0, 5, number(*call)),
            step(LOAD, 0, 0, argument(*flags)),
            // The kernel ignores all others with it, and gives a handle that cannot write.
            step(IF_ANY_BIT, 2, 0, libc::O_PATH.unsigned_abs()),
            step(IF_ANY_BIT, 0, 1, WRITES.unsigned_abs()),
            ask,
            allow,
        ]);
    }
    for call in ALWAYS.iter().chain(CHANGES_OF_MODE) {
        all.extend([step(IF_EQUAL, 0, 1, number(*call)), ask]);
    }
    all.push(allow);
    all
}

/// Puts this process under supervision, for good. Needs `no_new_privs`.
pub(super) fn install() -> io::Result<OwnedFd> {
    sys::notifying_filter(&mut program())
}

/// Whether a process can be supervised here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::helper) enum Availability {
    Yes,
    /// The kernel cannot do it.
    No,
}

impl Availability {
    pub(in crate::helper) fn is_yes(self) -> bool {
        self == Self::Yes
    }

    /// Finds out.
    ///
    /// FAIL CLOSED: fails where this process is supervised itself. The supervisor above does its calls
    /// with its own rights, so Landlock rules that are added here would not hold for them.
    pub(in crate::helper) fn find() -> Result<Self, Trouble> {
        // A process without a filter has no supervisor above, and needs no trial.
        let is_filtered = status_line("Seccomp:").is_none_or(|mode| mode != "0");
        if is_filtered && trial() == Some(libc::EBUSY) {
            return Err(Trouble {
                step: "supervisor",
                message: "this process runs in a sandbox that supervises it, and cannot confine \
                          others there"
                    .to_owned(),
                fault: Fault::Machine,
            });
        }
        let is_known = NATIVE != 0 && is_new_enough() && sys::has_notifications();
        let is_hindered = || trial().is_some() || !has_calls();
        Ok(if is_known && !(is_filtered && is_hindered()) { Self::Yes } else { Self::No })
    }
}

/// Tries in a process of its own. Returns the error number, if it fails.
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

/// Returns whether the filters above let a supervisor work.
fn has_calls() -> bool {
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

/// Linux 5.19: a call that was received is interrupted by fatal signals only.
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

    /// Runs the program on one call, as the kernel would.
    fn asks(call: libc::c_long, args: [u32; 6]) -> bool {
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
    fn reads_are_not_asked_about_and_writes_are() {
        let flags = |flags: libc::c_int| [0, 0, flags.unsigned_abs(), 0, 0, 0];
        for quiet in [
            libc::O_RDONLY,
            libc::O_CLOEXEC | libc::O_DIRECTORY,
            libc::O_PATH,
            libc::O_PATH | libc::O_CREAT | libc::O_RDWR,
        ] {
            assert!(!asks(libc::SYS_openat, flags(quiet)), "{quiet:#o}");
        }
        for loud in [libc::O_WRONLY, libc::O_RDWR, libc::O_CREAT, libc::O_TRUNC, libc::O_TMPFILE] {
            assert!(asks(libc::SYS_openat, flags(loud)), "{loud:#o}");
        }
        for call in ALWAYS.iter().chain(CHANGES_OF_MODE) {
            assert!(asks(*call, [0; 6]), "{call}");
        }
        for call in [libc::SYS_read, libc::SYS_execve, libc::SYS_newfstatat, libc::SYS_clone] {
            assert!(!asks(call, [u32::MAX; 6]), "{call}");
        }
    }

    #[test]
    fn release_of_the_kernel_is_compared_by_numbers() {
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
    fn flags_of_the_older_open_are_its_second_argument() {
        assert!(asks(libc::SYS_open, [0, libc::O_CREAT.unsigned_abs(), 0, 0, 0, 0]));
        assert!(!asks(libc::SYS_open, [0, 0, libc::O_CREAT.unsigned_abs(), 0, 0, 0]));
    }
}
