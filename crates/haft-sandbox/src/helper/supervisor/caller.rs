//! The process that made a call: its memory, its directories, its descriptors, its umask.
//!
//! Everything is read once and copied. The caller's other threads may change their memory at any time,
//! and what was copied is what is checked and what is done (no TOCTOU).
//!
//! INVARIANT: what was read counts only while the caller still waits (`is_waiting`): otherwise its
//! number may belong to another process by now.

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

/// No path is longer, its end included.
const PATH_MAX: usize = 4096;
/// Most paths are shorter, so a first read of this many bytes is nearly always enough.
const SHORT_PATH: usize = 256;
/// So many processes are remembered between calls.
const REMEMBERED: usize = 64;
/// So many processes that change their umask are remembered. With more, no umask is remembered.
const MAX_CHANGING: usize = 1024;

/// One process directory of `/proc`, which stays that of one process.
struct Process {
    directory: OwnedFd,
    status: OwnedFd,
    umask: Option<Mode>,
}

/// Directories of processes that made calls before. Opening them takes longer than asking them.
#[derive(Default)]
pub(super) struct Processes {
    known: HashMap<u32, Process>,
    /// Processes (thread groups) that called `umask`. Theirs is read for each call: another of their
    /// threads may be about to change it.
    changing: HashSet<u32>,
}

/// The thread that waits for an answer.
pub(super) struct Caller<'a> {
    listener: BorrowedFd<'a>,
    id: u64,
    tid: u32,
    processes: &'a mut Processes,
}

/// What the kernel says of a thread.
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
        Self { listener, id: call.id, tid: call.tid, processes }
    }

    /// Fails if the caller no longer waits.
    pub(super) fn check(&self) -> Result<(), Errno> {
        if sys::is_waiting(self.listener, self.id) { Ok(()) } else { Err(Errno::SRCH) }
    }

    /// Copies a text that ends in NUL.
    pub(super) fn text(&self, address: u64) -> Result<Vec<u8>, Errno> {
        let mut short = [0; SHORT_PATH];
        let len = sys::read_memory(self.tid, address, &mut short).unwrap_or_default();
        let read = short.get(..len).unwrap_or_default();
        if let Some(end) = read.iter().position(|byte| *byte == 0) {
            self.check()?;
            return Ok(read.get(..end).unwrap_or_default().to_vec());
        }
        let mut buffer = vec![0; PATH_MAX];
        let len = sys::read_memory(self.tid, address, &mut buffer).map_err(|e| {
            match e.raw_os_error() {
                // The memory of a program that may not be read cannot be looked at.
                Some(libc::EPERM | libc::EACCES) => Errno::ACCESS,
                _ => Errno::FAULT,
            }
        })?;
        self.check()?;
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

    /// Copies a path. An empty one is `ENOENT` everywhere but for `linkat`.
    pub(super) fn path(&self, address: u64) -> Result<Vec<u8>, Errno> {
        let path = self.text(address)?;
        if path.is_empty() { Err(Errno::NOENT) } else { Ok(path) }
    }

    /// Opens what one of the caller's descriptors leads to.
    pub(super) fn descriptor(&mut self, fd: i32) -> Result<OwnedFd, Errno> {
        if fd < 0 {
            return Err(Errno::BADF);
        }
        self.open(&format!("fd/{fd}"), OFlags::PATH | OFlags::CLOEXEC, Errno::BADF)
    }

    fn open(&mut self, name: &str, flags: OFlags, missing: Errno) -> Result<OwnedFd, Errno> {
        let opened = self.with_process(|process| {
            rustix::fs::openat(&process.directory, name, flags, Mode::empty())
        });
        self.check()?;
        opened.map_err(|errno| if errno == Errno::NOENT { missing } else { errno })
    }

    /// Returns the umask. It takes 10 µs to read, because the kernel writes the whole status for it.
    pub(super) fn umask(&mut self) -> Result<Mode, Errno> {
        if let Some(Process { directory, umask: Some(umask), .. }) =
            self.processes.known.get(&self.tid)
            // The directory of a process that ended gives nothing, also if its number is used again.
            && rustix::fs::statat(directory, "cwd", AtFlags::SYMLINK_NOFOLLOW).is_ok()
        {
            let umask = *umask;
            self.check()?;
            return Ok(umask);
        }
        let status = self.status()?;
        let Processes { known, changing } = &mut *self.processes;
        let is_changing = changing.contains(&status.tgid) || changing.len() >= MAX_CHANGING;
        if !is_changing && let Some(process) = known.get_mut(&self.tid) {
            process.umask = Some(status.umask);
        }
        Ok(status.umask)
    }

    /// Remembers that the caller's process is about to change its umask, from now on at any time.
    pub(super) fn changes_umask(&mut self) {
        if let Ok(status) = self.status()
            && self.processes.changing.len() < MAX_CHANGING
        {
            self.processes.changing.insert(status.tgid);
        }
        for process in self.processes.known.values_mut() {
            process.umask = None;
        }
    }

    /// Reads the umask and the number of the process.
    pub(super) fn status(&mut self) -> Result<Status, Errno> {
        let mut text = [0; 256];
        let len = self.with_process(|process| {
            // Both lines are among the first, so the beginning is enough.
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
            // FAIL CLOSED: the kernel gives both.
            _ => Err(Errno::ACCESS),
        }
    }

    /// Does something with the process directory. One that is remembered may be that of an earlier
    /// process of this number; then it gives nothing and is opened again.
    fn with_process<T>(
        &mut self,
        mut what: impl FnMut(&Process) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if let Some(process) = self.processes.known.get(&self.tid) {
            match what(process) {
                Err(Errno::NOENT | Errno::SRCH) => {}
                result => return result,
            }
        }
        if self.processes.known.len() >= REMEMBERED {
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

    fn directory(&mut self, fd: i32) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match fd {
            libc::AT_FDCWD => self.open("cwd", flags, Errno::NOENT),
            fd if fd < 0 => Err(Errno::BADF),
            fd => self.open(&format!("fd/{fd}"), flags, Errno::BADF),
        }
    }
}

/// Finds the value of a line. The name of the program comes first and may have any bytes but a newline
/// in it: it need be no text, and it may look like another line.
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
    fn name_of_a_program_is_never_taken_for_another_line() {
        let text = b"Name:\tTgid:\t1 \xc3\nUmask:\t0027\nState:\tR (running)\nTgid:\t77\nNg";
        assert_eq!(value(text, b"Tgid:"), Some("77"));
        assert_eq!(value(text, b"Umask:"), Some("0027"));
        assert_eq!(value(text, b"Pid:"), None);
    }
}
