//! Syscalls without a safe wrapper elsewhere. The only module of the project with `unsafe` code.
//!
//! Each function takes and returns owned or borrowed Rust values, so that its caller cannot misuse
//! a pointer. The helper has one thread, or a second one that forks while the first is in the
//! kernel. So it may allocate after a fork.
#![allow(unsafe_code, reason = "syscalls without a safe wrapper; each block says why it is sound")]

use std::{
    ffi::{CString, c_int, c_long, c_uint, c_void},
    io,
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
    path::Path,
    time::{Duration, Instant},
};

/// Returns the monotonic time. The runtime's clock is in another process.
#[expect(clippy::disallowed_methods, reason = "the helper has no runtime and no clock of one")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

fn check(result: c_long) -> io::Result<c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Which side of a fork this is.
pub(crate) enum Side {
    /// The new process.
    Child,
    /// The old process, with the pid of the new one.
    Parent(i32),
}

/// Forks this process. The flags put the child into new namespaces.
pub(crate) fn clone(flags: c_int) -> io::Result<Side> {
    let flags = c_long::from(flags | libc::SIGCHLD);
    // SAFETY: without `CLONE_VM` the child has a copy of everything, so no memory is shared; a null
    // stack means that it continues with its copy of this one. No other thread runs user code
    // meanwhile, so no lock is held by a thread that does not exist in the child.
    let pid = check(unsafe {
        libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize)
    })?;
    match c_int::try_from(pid).unwrap_or_default() {
        0 => Ok(Side::Child),
        pid => Ok(Side::Parent(pid)),
    }
}

/// Exits without running destructors or exit handlers.
pub(crate) fn exit(code: c_int) -> ! {
    // SAFETY: ends the process; nothing after it runs.
    unsafe { libc::_exit(code) }
}

/// Waits for a signal that kills this process.
pub(crate) fn sleep_forever() -> ! {
    loop {
        // SAFETY: has no arguments and no side effects.
        unsafe { libc::pause() };
    }
}

/// Sets close-on-exec on every file descriptor from this one on.
pub(crate) fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    let first = c_long::from(first);
    // SAFETY: takes three numbers. File descriptors stay open, so their owners stay valid.
    let result = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            c_long::from(c_uint::MAX),
            c_long::from(libc::CLOSE_RANGE_CLOEXEC),
        )
    };
    check(result).map(drop)
}

/// Closes every file descriptor from this one on. Only at the start, when none has an owner.
pub(crate) fn close_from(first: RawFd) -> io::Result<()> {
    let first = c_long::from(first);
    // SAFETY: called before any file descriptor from `first` on has an owner in this process.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, c_long::from(c_uint::MAX), 0_i64) })
        .map(drop)
}

/// Closes one file descriptor that has no owner.
pub(crate) fn close(fd: RawFd) {
    // SAFETY: the caller is about to exit and guarantees that the number is not used again.
    unsafe { libc::close(fd) };
}

/// Kills this process after this many seconds.
pub(crate) fn alarm(seconds: c_uint) {
    // SAFETY: takes a number; the default action of that signal is to kill the process.
    unsafe { libc::alarm(seconds) };
}

/// Takes ownership of a file descriptor that this process was started with.
pub(crate) fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes a number; one that is not open gives an error.
    check(c_long::from(unsafe { libc::fcntl(fd, libc::F_GETFD) }))?;
    // SAFETY: it is open, it was inherited, and this is called once for each.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Duplicates a file descriptor to another number, without close-on-exec.
pub(crate) fn dup_to(fd: BorrowedFd<'_>, at: RawFd) -> io::Result<()> {
    // SAFETY: the target numbers have no owner in this process.
    check(c_long::from(unsafe { libc::dup2(fd.as_raw_fd(), at) })).map(drop)
}

/// Executes a program in this process. Returns only with an error.
pub(crate) fn exec(program: &Path, argv: &[CString], environment: &[CString]) -> io::Error {
    use std::os::unix::ffi::OsStrExt as _;
    let Ok(program) = CString::new(program.as_os_str().as_bytes()) else {
        return io::Error::from_raw_os_error(libc::EINVAL);
    };
    let list = |texts: &[CString]| {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>()
    };
    let (argv, environment) = (list(argv), list(environment));
    // SAFETY: all three point to NUL-terminated strings, the lists end in null, and all of them
    // live to the end of this function.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

/// The argument of `mount_setattr`: `struct mount_attr`.
#[repr(C)]
pub(crate) struct MountAttributes {
    pub(crate) set: u64,
    pub(crate) clear: u64,
    pub(crate) propagation: u64,
    pub(crate) user_namespace: u64,
}

/// Changes a mount and the mounts below it.
pub(crate) fn change_mount(mount: BorrowedFd<'_>, attributes: &MountAttributes) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    // SAFETY: the path is a NUL-terminated string, and the structure has the given size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            c_long::from(mount.as_raw_fd()),
            c"".as_ptr(),
            c_long::from(flags),
            std::ptr::from_ref(attributes),
            size_of::<MountAttributes>(),
        )
    };
    check(result).map(drop)
}

/// A process that has ended.
pub(crate) struct Reaped {
    pub(crate) pid: i32,
    pub(crate) status: c_int,
    pub(crate) cpu: Duration,
    /// Bytes.
    pub(crate) memory: u64,
}

/// Reaps a child that has ended: this one, or any.
pub(crate) fn reap(pid: Option<i32>, is_waiting: bool) -> io::Result<Option<Reaped>> {
    let mut status: c_int = 0;
    // SAFETY: all zeroes are a valid value of this structure of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let how = if is_waiting { 0 } else { libc::WNOHANG } | libc::__WALL;
    loop {
        // SAFETY: both pointers point to local values of the right type.
        let result =
            unsafe { libc::wait4(pid.unwrap_or(-1), &raw mut status, how, &raw mut usage) };
        match check(c_long::from(result)) {
            Ok(0) => return Ok(None),
            Ok(pid) => {
                return Ok(Some(Reaped {
                    pid: i32::try_from(pid).unwrap_or_default(),
                    status,
                    cpu: time(usage.ru_utime) + time(usage.ru_stime),
                    memory: u64::try_from(usage.ru_maxrss).unwrap_or_default() << 10,
                }));
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

fn time(value: libc::timeval) -> Duration {
    let seconds = u64::try_from(value.tv_sec).unwrap_or_default();
    Duration::from_secs(seconds)
        + Duration::from_micros(u64::try_from(value.tv_usec).unwrap_or_default())
}

/// Blocks `SIGCHLD` and returns a signalfd for it.
pub(crate) fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: all zeroes are a valid value; the calls get a pointer to it.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        check(c_long::from(libc::sigprocmask(
            libc::SIG_BLOCK,
            &raw const set,
            std::ptr::null_mut(),
        )))?;
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        check(c_long::from(fd))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Resets every signal to its default action and unblocks all. Rust ignores `SIGPIPE`, and the
/// command would inherit that.
pub(crate) fn reset_signals() {
    let default = [0_u64; 4];
    for signal in 1..=64_usize {
        // SAFETY: the kernel's structure has at most 32 bytes, all zeroes mean the default handler,
        // which is no code of ours, and a signal set has eight bytes. It is a raw syscall, because
        // the C library reserves two signals. Signals that cannot be changed give an error that
        // does not matter.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, &raw const default, 0_usize, 8_usize)
        };
    }
    // SAFETY: all zeroes are a valid value, and it is filled in before it is used.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Ignores `SIGXFSZ`; a write beyond the file size limit then fails with `EFBIG`.
pub(crate) fn ignore_file_size_signal() {
    // SAFETY: sets an action that runs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Kills every process that this one may signal. Only for the first process of a pid namespace, or
/// for a process with an otherwise unused uid.
pub(crate) fn kill_all_in_reach() {
    // SAFETY: takes two numbers.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// Returns whether the parent leads the session of this process. A session from outside of the pid
/// namespace is 0, as is a parent there.
pub(crate) fn is_in_session_of_parent() -> bool {
    // SAFETY: both take numbers and return one.
    let (session, parent) = unsafe { (libc::getsid(0), libc::getppid()) };
    session > 0 && session == parent
}

/// Sends a signal to a process, or to a process group if the pid is negative.
pub(crate) fn signal(pid: i32, signal: c_int) {
    // SAFETY: takes two numbers.
    unsafe { libc::kill(pid, signal) };
}

/// Returns the Landlock version of this kernel, 0 if it has none.
pub(crate) fn landlock_version() -> i32 {
    // SAFETY: with a null pointer, size 0 and this flag the syscall only returns a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<c_void>(),
            0_usize,
            1_usize,
        )
    };
    i32::try_from(version).unwrap_or_default().max(0)
}

/// Brings up a network interface of this namespace. `name` has at most 15 bytes.
pub(crate) fn bring_up(socket: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    // SAFETY: all zeroes are a valid value of this structure of numbers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name[..15].iter_mut().zip(name) {
        *to = from.cast_signed() as _;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as _;
    // SAFETY: the kernel reads the structure behind the pointer; its name ends in a zero.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    check(c_long::from(result)).map(drop)
}

/// Makes a syscall with numbers only, for the self-test.
pub(crate) fn raw_call(number: c_long, args: [usize; 6]) -> io::Result<c_long> {
    // SAFETY: the self-test passes numbers and null pointers only; the kernel returns an error for
    // a bad address.
    check(unsafe { libc::syscall(number, args[0], args[1], args[2], args[3], args[4], args[5]) })
}

/// Installs a seccomp filter.
pub(crate) fn raw_filter(program: &mut [libc::sock_filter]) -> io::Result<()> {
    let Ok(len) = u16::try_from(program.len()) else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    // SAFETY: the structure has the number of instructions behind its pointer, and both live until
    // the syscall returns; the kernel checks the instructions.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER as usize,
            0_usize,
            &raw const program,
        )
    };
    check(result).map(drop)
}

/// A syscall of a supervised process that waits for its result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notification {
    pub(crate) id: u64,
    /// The calling thread.
    pub(crate) tid: u32,
    pub(crate) number: c_long,
    pub(crate) args: [u64; 6],
}

/// Returns whether this kernel's notification structures have the expected sizes.
pub(crate) fn has_notifications() -> bool {
    let mut sizes =
        libc::seccomp_notif_sizes { seccomp_notif: 0, seccomp_notif_resp: 0, seccomp_data: 0 };
    let operation = libc::SECCOMP_GET_NOTIF_SIZES as usize;
    // SAFETY: the kernel fills in the structure of three numbers behind the pointer.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, operation, 0_usize, &raw mut sizes) };
    result == 0
        && usize::from(sizes.seccomp_notif) == size_of::<libc::seccomp_notif>()
        && usize::from(sizes.seccomp_notif_resp) == size_of::<libc::seccomp_notif_resp>()
}

/// Installs a seccomp filter and returns the file descriptor of its notifications. A received
/// syscall can be interrupted by a fatal signal only, so that it is never made twice.
pub(crate) fn notifying_filter(program: &mut [libc::sock_filter]) -> io::Result<OwnedFd> {
    let Ok(len) = u16::try_from(program.len()) else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: the structure has the number of instructions behind its pointer, and both live until
    // the syscall returns; the kernel checks the instructions.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER as usize,
            flags,
            &raw const program,
        )
    };
    let fd = check(result)?;
    // SAFETY: the kernel has just created this file descriptor, so it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(c_int::try_from(fd).unwrap_or(-1)) })
}

/// Makes the kernel run both sides of a notification on one CPU, if it can.
pub(crate) fn wake_on_same_cpu(listener: BorrowedFd<'_>) {
    // SAFETY: takes a number. An older kernel refuses the request.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, 1_u64) };
}

/// Waits for the next notification.
pub(crate) fn receive(listener: BorrowedFd<'_>) -> io::Result<Notification> {
    // SAFETY: all zeroes are a valid value of this structure of numbers; the kernel requires them.
    let mut given: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills in a structure whose size was checked at the start.
    let result = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut given)
    };
    check(c_long::from(result))?;
    Ok(Notification {
        id: given.id,
        tid: given.pid,
        number: c_long::from(given.data.nr),
        args: given.data.args,
    })
}

/// Returns whether the caller still waits. If so, its pid was not reused by another process.
pub(crate) fn is_waiting(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the kernel reads one number through the pointer.
    let result = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id)
    };
    result == 0
}

/// Completes a syscall with a result or an errno.
pub(crate) fn answer(listener: BorrowedFd<'_>, id: u64, result: Result<i64, i32>) {
    send(
        listener,
        libc::seccomp_notif_resp {
            id,
            val: result.unwrap_or_default(),
            error: result.err().map_or(0, |errno| -errno),
            flags: 0,
        },
    );
}

/// Lets the kernel continue the caller's own syscall. Only allowed if no decision depended on the
/// caller's memory: another thread could change it in between (TOCTOU).
pub(crate) fn let_continue(listener: BorrowedFd<'_>, id: u64) {
    let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or_default();
    send(listener, libc::seccomp_notif_resp { id, val: 0, error: 0, flags });
}

fn send(listener: BorrowedFd<'_>, mut answer: libc::seccomp_notif_resp) {
    // SAFETY: the kernel reads the structure behind the pointer. A caller that is gone needs no
    // result.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
}

/// `SECCOMP_ADDFD_FLAG_SEND`, since Linux 5.14.
const ADDFD_SEND: u32 = 2;

/// Installs a file descriptor in the caller, at the lowest free number, and returns that number.
/// `is_answer`: it is also the result of the syscall, unless this fails.
pub(crate) fn add_descriptor(
    listener: BorrowedFd<'_>,
    id: u64,
    fd: BorrowedFd<'_>,
    is_closed_on_exec: bool,
    is_answer: bool,
) -> io::Result<i64> {
    let given = libc::seccomp_notif_addfd {
        id,
        flags: if is_answer { ADDFD_SEND } else { 0 },
        srcfd: fd.as_raw_fd().unsigned_abs(),
        newfd: 0,
        newfd_flags: if is_closed_on_exec { libc::O_CLOEXEC.unsigned_abs() } else { 0 },
    };
    // SAFETY: the kernel reads the structure behind the pointer; the file descriptor is open.
    let result = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const given)
    };
    check(c_long::from(result))
}

/// Copies memory of another process. Returns how many bytes were read; the end may be missing.
pub(crate) fn read_memory(tid: u32, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
    const PAGE: usize = 4096;
    let Ok(start) = usize::try_from(address) else {
        return Err(io::Error::from_raw_os_error(libc::EFAULT));
    };
    // Two pieces, so that a missing second page does not lose the first.
    let first = (PAGE - start % PAGE).min(buffer.len());
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let remote = [
        libc::iovec { iov_base: start as *mut c_void, iov_len: first },
        libc::iovec {
            iov_base: start.wrapping_add(first) as *mut c_void,
            iov_len: buffer.len() - first,
        },
    ];
    // SAFETY: the local piece is our buffer with its length; the kernel checks the remote
    // addresses.
    let result = unsafe {
        libc::process_vm_readv(
            tid.cast_signed(),
            &raw const local,
            1,
            remote.as_ptr(),
            remote.len() as libc::c_ulong,
            0,
        )
    };
    check(result as c_long).map(|len| usize::try_from(len).unwrap_or_default())
}

/// Gives this thread its own working directory and umask.
pub(crate) fn unshare_fs() -> io::Result<()> {
    // SAFETY: takes a number and changes this thread alone.
    check(c_long::from(unsafe { libc::unshare(libc::CLONE_FS) })).map(drop)
}

/// Makes a syscall with the 32-bit ABI (`int 0x80`), where number 20 is `getpid`.
#[cfg(target_arch = "x86_64")]
pub(crate) fn call_32_bit() -> c_int {
    let mut result: c_int = 20;
    // SAFETY: `getpid` has no arguments and touches no memory. A filter that forbids it kills the
    // process.
    unsafe {
        std::arch::asm!("int 0x80", inout("eax") result, lateout("r8") _, lateout("r9") _, lateout("r10") _, lateout("r11") _);
    }
    result
}
