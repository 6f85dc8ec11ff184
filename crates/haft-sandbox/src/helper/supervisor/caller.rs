//! Reads the calling process: its memory, directories, file descriptors and umask.
//!
//! Everything is read once and copied. Other threads of the caller may change its memory at any
//! time, so the copy is both checked and used (TOCTOU).
//!
//! INVARIANT: what was read is valid only if the caller still waits afterwards (`is_waiting`).
//! Otherwise its pid may have been reused by another process. `text` leaves this to what follows it
//! in each syscall, so that it is checked once: `Locator::locate` and `descriptor` check it, and no
//! syscall is made for the caller before one of them.

use std::{
    collections::{HashMap, HashSet},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};

use super::{
    super::sys::{self, Notification},
    locate::CallingThread,
};

/// Limit of a path, with its NUL byte.
const PATH_MAX: usize = 4096;
/// Bytes of the first read, which is enough for most paths.
const SHORT_PATH_BYTES: usize = 256;
/// Processes that are cached between syscalls.
const MAX_CACHED_PROCESSES: usize = 64;
/// Processes with a changing umask that are tracked. Beyond it, no umask is cached.
const MAX_CHANGING_PROCESSES: usize = 1024;

/// An open `/proc/PID` directory. It belongs to one process even if the pid is reused.
struct Process {
    directory: OwnedFd,
    status: OwnedFd,
    umask: Option<Mode>,
}

/// A cache of process directories, because opening them is slow.
#[derive(Default)]
pub(super) struct Processes {
    known: HashMap<u32, Process>,
    /// Processes (thread groups) that called `umask`. Their umask is read for each syscall, because
    /// another thread may change it.
    changing: HashSet<u32>,
    /// The umask that the supervisor has now. Only `apply_umask` changes it.
    applied: Option<Mode>,
}

/// The thread that waits for the result of its syscall.
pub(super) struct Caller<'a> {
    listener: BorrowedFd<'a>,
    id: u64,
    tid: u32,
    processes: &'a mut Processes,
    /// The cached process directory was used for this syscall and was not empty, so it belongs to
    /// the caller.
    is_known: bool,
}

/// Fields of `/proc/PID/status`.
pub(super) struct Status {
    pub(super) umask: Mode,
    pub(super) tgid: u32,
}

impl<'a> Caller<'a> {
    pub(super) fn new(
        listener: BorrowedFd<'a>,
        call: &Notification,
        processes: &'a mut Processes,
    ) -> Self {
        Self { listener, id: call.id, tid: call.tid, processes, is_known: false }
    }

    /// Copies a NUL-terminated string. The caller may have ended meanwhile.
    pub(super) fn text(&self, address: u64) -> Result<Vec<u8>, Errno> {
        let mut short = [0; SHORT_PATH_BYTES];
        let len = sys::read_memory(self.tid, address, &mut short).unwrap_or_default();
        let read = short.get(..len).unwrap_or_default();
        if let Some(end) = read.iter().position(|byte| *byte == 0) {
            return Ok(read.get(..end).unwrap_or_default().to_vec());
        }
        let mut buffer = vec![0; PATH_MAX];
        let len = sys::read_memory(self.tid, address, &mut buffer).map_err(|e| {
            match e.raw_os_error() {
                // The memory of a process that is not dumpable cannot be read.
                Some(libc::EPERM | libc::EACCES) => Errno::ACCESS,
                _ => Errno::FAULT,
            }
        })?;
        let read = buffer.get(..len).unwrap_or_default();
        match read.iter().position(|byte| *byte == 0) {
            Some(end) => {
                buffer.truncate(end);
                Ok(buffer)
            }
            None if len < PATH_MAX => Err(Errno::FAULT),
            None => Err(Errno::NAMETOOLONG),
        }
    }

    /// Copies a path. An empty one is `ENOENT`, except for `linkat`.
    pub(super) fn path(&self, address: u64) -> Result<Vec<u8>, Errno> {
        let path = self.text(address)?;
        if path.is_empty() { Err(Errno::NOENT) } else { Ok(path) }
    }

    /// Opens the file behind one of the caller's file descriptors.
    pub(super) fn descriptor(&mut self, fd: i32) -> Result<OwnedFd, Errno> {
        if fd < 0 {
            return Err(Errno::BADF);
        }
        let file = self.open(&format!("fd/{fd}"), OFlags::PATH | OFlags::CLOEXEC, Errno::BADF);
        self.check()?;
        file
    }

    fn open(&mut self, name: &str, flags: OFlags, missing: Errno) -> Result<OwnedFd, Errno> {
        let opened = self.with_process(|process| {
            rustix::fs::openat(&process.directory, name, flags, Mode::empty())
        });
        opened.map_err(|errno| if errno == Errno::NOENT { missing } else { errno })
    }

    /// Returns the umask. Reading it takes 10 µs, because the kernel formats the whole status, so
    /// it is cached.
    fn umask(&mut self) -> Result<Mode, Errno> {
        // The directory of a process that ended is empty, even if its pid is reused. One that is
        // not empty was the caller's before this syscall and still is.
        let is_alive = |directory: &OwnedFd| {
            rustix::fs::statat(directory, "cwd", AtFlags::SYMLINK_NOFOLLOW).is_ok()
        };
        if let Some(Process { directory, umask: Some(umask), .. }) =
            self.processes.known.get(&self.tid)
            && (self.is_known || is_alive(directory))
        {
            return Ok(*umask);
        }
        let status = self.status()?;
        let Processes { known, changing, .. } = &mut *self.processes;
        let is_changing =
            changing.contains(&status.tgid) || changing.len() >= MAX_CHANGING_PROCESSES;
        if !is_changing && let Some(process) = known.get_mut(&self.tid) {
            process.umask = Some(status.umask);
        }
        Ok(status.umask)
    }

    /// Gives the supervisor the umask of the caller.
    pub(super) fn apply_umask(&mut self) -> Result<(), Errno> {
        let umask = self.umask()?;
        if self.processes.applied != Some(umask) {
            rustix::process::umask(umask);
            self.processes.applied = Some(umask);
        }
        Ok(())
    }

    /// Records that the caller's process changes its umask, from now on at any time.
    pub(super) fn changes_umask(&mut self) {
        if let Ok(status) = self.status()
            && self.processes.changing.len() < MAX_CHANGING_PROCESSES
        {
            self.processes.changing.insert(status.tgid);
        }
        for process in self.processes.known.values_mut() {
            process.umask = None;
        }
    }

    /// Reads the umask and the pid of the process.
    pub(super) fn status(&mut self) -> Result<Status, Errno> {
        let mut text = [0; 256];
        let len = self.with_process(|process| {
            // Both lines are near the start, so a short read is enough.
            match rustix::io::pread(&process.status, &mut text, 0) {
                Ok(0) => Err(Errno::SRCH),
                read => read,
            }
        })?;
        self.check()?;
        let text = text.get(..len).unwrap_or_default();
        let umask = value(text, b"Umask:").and_then(|text| u32::from_str_radix(text, 8).ok());
        let tgid = value(text, b"Tgid:").and_then(|text| text.parse().ok());
        match (umask, tgid) {
            (Some(umask), Some(tgid)) => Ok(Status { umask: Mode::from_raw_mode(umask), tgid }),
            // FAIL CLOSED: the kernel always writes both.
            _ => Err(Errno::ACCESS),
        }
    }

    /// Calls a function with the process directory. A cached one may belong to an earlier process
    /// with this pid; then it is empty and is opened again.
    fn with_process<T>(
        &mut self,
        mut what: impl FnMut(&Process) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if let Some(process) = self.processes.known.get(&self.tid) {
            match what(process) {
                Err(Errno::NOENT | Errno::SRCH) => {}
                result => {
                    self.is_known |= result.is_ok();
                    return result;
                }
            }
        }
        self.is_known = false;
        if self.processes.known.len() >= MAX_CACHED_PROCESSES {
            self.processes.known.clear();
        }
        let process = Process::open(self.tid)?;
        let result = what(&process);
        self.processes.known.insert(self.tid, process);
        result
    }
}

impl CallingThread for Caller<'_> {
    fn tid(&self) -> u32 {
        self.tid
    }

    fn tgid(&mut self) -> Result<u32, Errno> {
        Ok(self.status()?.tgid)
    }

    fn check(&self) -> Result<(), Errno> {
        if sys::is_waiting(self.listener, self.id) { Ok(()) } else { Err(Errno::SRCH) }
    }

    fn directory(&mut self, fd: i32) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match fd {
            libc::AT_FDCWD => self.open("cwd", flags, Errno::NOENT),
            fd if fd < 0 => Err(Errno::BADF),
            fd => self.open(&format!("fd/{fd}"), flags, Errno::BADF),
        }
    }
}

/// Returns the value of a line. The name of the program comes first and may contain any byte except
/// a newline, so it may look like another line.
fn value<'t>(text: &'t [u8], name: &[u8]) -> Option<&'t str> {
    let mut lines = text.split(|byte| *byte == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(name))?;
    Some(std::str::from_utf8(value).ok()?.trim())
}

impl Process {
    fn open(tid: u32) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(format!("/proc/{tid}"), flags, Mode::empty())?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let status = rustix::fs::openat(directory.as_fd(), "status", flags, Mode::empty())?;
        Ok(Self { directory, status, umask: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_name_cannot_fake_a_status_line() {
        let text = b"Name:\tTgid:\t1 \xc3\nUmask:\t0027\nState:\tR (running)\nTgid:\t77\nNg";
        assert_eq!(value(text, b"Tgid:"), Some("77"));
        assert_eq!(value(text, b"Umask:"), Some("0027"));
        assert_eq!(value(text, b"Pid:"), None);
    }
}
