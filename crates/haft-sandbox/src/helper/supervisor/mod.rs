//! The supervisor: a thread that makes the syscalls which create, change and remove names, on
//! behalf of a command.
//!
//! The kernel sends each such syscall to it (seccomp user notification) and the caller waits. The
//! thread copies the path, opens its directory, checks the real path against protected names and
//! denied patterns, and then makes the syscall itself. It never lets the kernel continue a syscall
//! with a path: another thread of the caller could change the path after the check (TOCTOU).
//!
//! The thread has the user, the mounts and the Landlock rules of the command, so it has no more
//! rights than the command (confused deputy). It is outside the command's Landlock domain, so the
//! command can neither signal nor trace it. If it ends, the kernel kills the command (parent death
//! signal).

mod emulate;
mod caller;
mod filter;
mod locate;
mod names;
mod cpu_affinity;

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags,
    },
};

use self::{
    caller::{Caller, Processes},
    cpu_affinity::CpuAffinity,
    emulate::{Act, Answer},
    locate::magic_link,
};
pub(super) use self::{
    filter::Availability,
    names::{Names, Refusals},
};
use super::{
    SetupError,
    sys::{self, Notification},
};
use crate::Profile;

/// Opens of a FIFO that may wait at the same time.
const MAX_WAITING_OPENS: usize = 32;

/// Delay between two attempts to open a FIFO for writing, doubled up to the maximum.
const MIN_FIFO_DELAY: Duration = Duration::from_micros(200);
const MAX_FIFO_DELAY: Duration = Duration::from_millis(5);

/// Notes of the tier if a command cannot be supervised.
pub(super) const MISSING: [&str; 2] = [
    "commands cannot be supervised here (needs Linux 5.19 and no outer supervisor): protected names \
     are enforced at the top of each root, and new files next to them are refused",
    "no new files can be created in `.git`, so `git add` and `git commit` fail",
];

/// Returns whether a command with this profile needs a supervisor.
pub(super) fn is_needed(profile: &Profile) -> bool {
    profile.writable().next().is_some()
        && !(profile.protected.is_empty()
            && profile.denied.new.is_empty()
            && profile.git_directories.is_empty())
}

/// The command's end of the socket that carries the listener.
pub(super) struct Supervised(OwnedFd);

/// The supervisor's end.
pub(super) struct Listening(OwnedFd);

/// Creates the socket pair through which the listener is passed.
pub(super) fn connection() -> Result<(Listening, Supervised), SetupError> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(SetupError::os("supervisor"))?;
    Ok((Listening(ours), Supervised(theirs)))
}

impl Supervised {
    /// Puts this process under supervision, for good.
    pub(super) fn install(self) -> Result<(), SetupError> {
        let listener = filter::install().map_err(SetupError::machine("supervisor"))?;
        let fds = [listener.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut message = SendAncillaryBuffer::new(&mut space);
        message.push(SendAncillaryMessage::ScmRights(&fds));
        let byte = [io::IoSlice::new(b"l")];
        rustix::net::sendmsg(&self.0, &byte, &mut message, SendFlags::empty())
            .map_err(SetupError::os("supervisor"))?;
        Ok(())
    }
}

impl Listening {
    /// Waits for the listener. Returns `None` if the command failed before.
    pub(super) fn listener(self) -> Option<OwnedFd> {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut message = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut data = [io::IoSliceMut::new(&mut byte)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        rustix::net::recvmsg(&self.0, &mut data, &mut message, flags).ok()?;
        message.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        })
    }
}

/// Runs a part of the start in a new thread, which then becomes the supervisor. The calling thread
/// does nothing meanwhile: the other one forks, and a lock that is held then would be held in the
/// child for good (deadlock).
pub(super) fn in_thread<T: Send + 'static>(
    start: impl FnOnce() -> Result<(T, Option<Supervisor>), SetupError> + Send + 'static,
) -> Result<T, SetupError> {
    let pipe = || {
        let flags = rustix::pipe::PipeFlags::CLOEXEC;
        let (read, write) = rustix::pipe::pipe_with(flags).map_err(SetupError::os("supervisor"))?;
        Ok((File::from(read), File::from(write)))
    };
    let (mut begin, mut ready) = pipe()?;
    let (mut done, finish) = pipe()?;
    let slot = Arc::new(Mutex::new(None));
    let result = Arc::clone(&slot);
    std::thread::Builder::new()
        .name("supervisor".to_owned())
        .spawn(move || {
            let finish = Finish(finish);
            let _ = begin.read_exact(&mut [0]);
            let mut supervisor = None;
            let started = start().map(|(value, next)| {
                supervisor = next;
                value
            });
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
            drop(result);
            drop(finish);
            if let Some(supervisor) = supervisor {
                supervisor.run();
            }
            // The kernel kills the command when the thread that started it ends.
            sys::sleep_forever()
        })
        .map_err(SetupError::machine("supervisor"))?;
    // From here on this thread is in the kernel until the other one has finished.
    let waited = ready.write_all(b"b").and_then(|()| done.read_exact(&mut [0]));
    waited.map_err(SetupError::machine("supervisor"))?;
    let started = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    started.unwrap_or_else(|| {
        Err(SetupError::message("supervisor")("the supervisor panicked".to_owned()))
    })
}

/// Wakes the first thread, even if the second one panics.
struct Finish(File);

impl Drop for Finish {
    fn drop(&mut self) {
        let _ = self.0.write_all(b"d");
    }
}

/// The state of one supervisor.
pub(super) struct Supervisor {
    listener: Arc<OwnedFd>,
    names: Names,
    file_size: u64,
    waiting: Arc<AtomicUsize>,
}

impl Supervisor {
    pub(super) fn new(listener: OwnedFd, names: Names, profile: &Profile) -> Self {
        Self {
            listener: Arc::new(listener),
            names,
            file_size: profile.limits.file_size,
            waiting: Arc::default(),
        }
    }

    /// Handles syscalls until there is no caller left.
    fn run(self) {
        // FAIL CLOSED: without its own umask it would create files with the wrong mode.
        if locate::unshare_fs().is_err() {
            return;
        }
        sys::wake_on_same_cpu(self.listener.as_fd());
        let mut processes = Processes::default();
        let mut affinity = CpuAffinity::new();
        loop {
            match sys::receive(self.listener.as_fd()) {
                Ok(call) => self.answer(&call, &mut processes, &mut affinity),
                // The caller was killed before its syscall was read, or a signal arrived.
                Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => {}
                Err(_) => return,
            }
        }
    }

    fn answer(&self, call: &Notification, processes: &mut Processes, affinity: &mut CpuAffinity) {
        let listener = self.listener.as_fd();
        affinity.begin(call.tid);
        let mut caller = Caller::new(listener, call, processes);
        let act = Act { caller: &mut caller, names: &self.names, file_size: self.file_size };
        let answer = act.perform(call);
        match answer {
            Ok(Answer::Done) => sys::answer(listener, call.id, Ok(0)),
            Ok(Answer::Continue) => sys::let_continue(listener, call.id),
            Ok(Answer::Descriptor { fd, is_closed_on_exec, is_executable: true }) => {
                give_descriptor(listener, call, fd, is_closed_on_exec, Some(affinity));
            }
            Ok(Answer::Descriptor { fd, is_closed_on_exec, is_executable: false }) => {
                send_descriptor(listener, call, fd, is_closed_on_exec, affinity);
            }
            Ok(Answer::Waits { file, flags, is_closed_on_exec }) => {
                self.wait_for_fifo(call, file, flags, is_closed_on_exec);
            }
            Err(errno) => sys::answer(listener, call.id, Err(errno.raw_os_error())),
        }
    }

    /// Opens a FIFO in a new thread, because it blocks until the other end is opened.
    fn wait_for_fifo(
        &self,
        call: &Notification,
        file: OwnedFd,
        flags: OFlags,
        is_closed_on_exec: bool,
    ) {
        let call = *call;
        let refuse = |errno: Errno| {
            sys::answer(self.listener.as_fd(), call.id, Err(errno.raw_os_error()));
        };
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING_OPENS {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return refuse(Errno::AGAIN);
        }
        let (listener, waiting) = (Arc::clone(&self.listener), Arc::clone(&self.waiting));
        let thread = std::thread::Builder::new().spawn(move || {
            match open_fifo(listener.as_fd(), call.id, &file, flags) {
                Ok(fd) => give_descriptor(listener.as_fd(), &call, fd, is_closed_on_exec, None),
                Err(errno) => sys::answer(listener.as_fd(), call.id, Err(errno.raw_os_error())),
            }
            waiting.fetch_sub(1, Ordering::Relaxed);
        });
        if thread.is_err() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            refuse(Errno::AGAIN);
        }
    }
}

/// Gives the caller a file descriptor. The supervisor closes its own before the caller continues: a
/// program that was just written cannot be executed while it is open for writing here (`ETXTBSY`).
fn give_descriptor(
    listener: BorrowedFd<'_>,
    call: &Notification,
    fd: OwnedFd,
    is_closed_on_exec: bool,
    affinity: Option<&mut CpuAffinity>,
) {
    let pinned = affinity.and_then(|affinity| affinity.pin(call.tid));
    let added = sys::add_descriptor(listener, call.id, fd.as_fd(), is_closed_on_exec, false);
    drop(fd);
    drop(pinned);
    // A caller at its limit of file descriptors gets that error. One that is gone needs no result.
    let result = added.map_err(|e| e.raw_os_error().unwrap_or(libc::EMFILE));
    sys::answer(listener, call.id, result);
}

/// Gives the caller a file descriptor as the result of its syscall, in one step. The supervisor
/// closes its own after the caller continues. The file cannot be executed before that: it needs a
/// `chmod` first, which this thread handles after this syscall.
fn send_descriptor(
    listener: BorrowedFd<'_>,
    call: &Notification,
    fd: OwnedFd,
    is_closed_on_exec: bool,
    affinity: &mut CpuAffinity,
) {
    match sys::add_descriptor(listener, call.id, fd.as_fd(), is_closed_on_exec, true) {
        Ok(_) => {}
        // Linux before 5.14 cannot do both in one step.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
            give_descriptor(listener, call, fd, is_closed_on_exec, Some(affinity));
        }
        Err(e) => {
            let errno = e.raw_os_error().unwrap_or(libc::EMFILE);
            sys::answer(listener, call.id, Err(errno));
        }
    }
}

/// Waits for the reader of a FIFO that is opened for writing. A blocking open would count as a
/// writer while it waits, even after its caller was killed. So a non-blocking open is retried.
#[expect(clippy::disallowed_methods, reason = "the helper has no runtime and no clock of one")]
fn open_fifo(
    listener: BorrowedFd<'_>,
    id: u64,
    file: &OwnedFd,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let path = magic_link(file.as_fd());
    if flags & OFlags::RWMODE != OFlags::WRONLY {
        return rustix::fs::open(path, flags, Mode::empty());
    }
    let mut delay = MIN_FIFO_DELAY;
    loop {
        match rustix::fs::open(&path, flags | OFlags::NONBLOCK, Mode::empty()) {
            Err(Errno::NXIO) if sys::is_waiting(listener, id) => {
                std::thread::sleep(delay);
                delay = (delay * 2).min(MAX_FIFO_DELAY);
            }
            opened => {
                let fd = opened?;
                let kept = rustix::fs::fcntl_getfl(&fd)? - OFlags::NONBLOCK;
                rustix::fs::fcntl_setfl(&fd, kept)?;
                return Ok(fd);
            }
        }
    }
}

/// Returns the low half of an argument, as the kernel reads an `int`.
fn int(value: u64) -> i32 {
    u32::try_from(value & u64::from(u32::MAX)).unwrap_or_default().cast_signed()
}

impl Act<'_, '_> {
    /// Makes one syscall on behalf of the caller.
    fn perform(mut self, call: &Notification) -> Result<Answer, Errno> {
        const CWD: i32 = libc::AT_FDCWD;
        let [a, b, c, d, e, _] = call.args;
        match call.number {
            libc::SYS_openat => self.open(int(a), b, c, d),
            libc::SYS_mkdirat => self.make_directory(int(a), b, c),
            libc::SYS_mknodat => self.make_node(int(a), b, c),
            libc::SYS_symlinkat => self.make_symlink(a, int(b), c),
            libc::SYS_linkat => self.make_link((int(a), b), (int(c), d), e),
            libc::SYS_renameat2 => self.rename((int(a), b), (int(c), d), e),
            libc::SYS_unlinkat => self.remove(int(a), b, c),
            libc::SYS_truncate => self.truncate(a, b),
            libc::SYS_umask => {
                self.caller.changes_umask();
                Ok(Answer::Continue)
            }
            libc::SYS_fchmod => self.change_open_mode(int(a), b),
            libc::SYS_fchmodat => self.change_mode(int(a), b, c),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod => self.change_mode(CWD, a, b),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => self.open(CWD, a, b, c),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                self.open(CWD, a, u64::from(flags.unsigned_abs()), b)
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir => self.make_directory(CWD, a, b),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mknod => self.make_node(CWD, a, b),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_symlink => self.make_symlink(a, CWD, b),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_link => self.make_link((CWD, a), (CWD, b), 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => self.rename((CWD, a), (CWD, b), 0),
            libc::SYS_renameat => self.rename((int(a), b), (int(c), d), 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink => self.remove(CWD, a, 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rmdir => self.remove(CWD, a, u64::from(libc::AT_REMOVEDIR.unsigned_abs())),
            // FAIL CLOSED: the filter sends no other syscall.
            _ => Err(Errno::NOSYS),
        }
    }
}
