//! A second process whose paths are resolved, and which opens the same paths with the kernel.
//!
//! It is this test program, started again for one test: `/proc/self` must be another process than
//! the one with the role of the supervisor. Requests and answers go through a socket, its standard
//! input.

use std::{
    ffi::OsStr,
    io::{Read as _, Write as _},
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::{ffi::OsStrExt as _, net::UnixStream},
    },
    path::PathBuf,
    process::{Child, Stdio},
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags},
    io::Errno,
    thread::{CapabilitySet, CapabilitySets},
};

use super::super::{CallingThread, kind, real_path};

/// Set if this program was started as the second process.
const VARIABLE: &str = "HAFT_TEST_KERNEL";
/// Without these, root needs the permission to search a directory too.
const SEARCH: [CapabilitySet; 2] = [CapabilitySet::DAC_OVERRIDE, CapabilitySet::DAC_READ_SEARCH];

/// What the second process does with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// Opens it with `O_PATH`, following symlinks.
    Follow = 1,
    /// The same with `O_NOFOLLOW`.
    NoFollow,
    /// Creates a new file there with `O_EXCL`, and removes it.
    CreateNew,
    /// The same without `O_EXCL`, so that a dangling symlink is followed.
    Create,
    /// Makes it the working directory.
    Enter,
    /// Like `Follow`, and keeps the file descriptor.
    Keep,
    /// Like `NoFollow`, and keeps the file descriptor.
    KeepNoFollow,
    /// Creates a pipe and keeps both ends.
    KeepPipe,
    /// Makes it the working directory and closes all kept file descriptors.
    Close,
}

const QUESTIONS: [Question; 9] = [
    Question::Follow,
    Question::NoFollow,
    Question::CreateNew,
    Question::Create,
    Question::Enter,
    Question::Keep,
    Question::KeepNoFollow,
    Question::KeepPipe,
    Question::Close,
];

/// What a path resolves to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    /// Device and inode. Those of `/proc` are not stable, so they are not compared.
    pub(super) file: Option<(u64, u64)>,
    pub(super) kind: u32,
}

impl Found {
    pub(super) fn of(fd: BorrowedFd<'_>) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(fd)?;
        let path = real_path(fd)?;
        let is_proc = path.starts_with("/proc");
        let kind = kind(fd)?.as_raw_mode();
        Ok(Self { path, file: (!is_proc).then_some((stat.st_dev, stat.st_ino)), kind })
    }
}

/// The second process.
pub(super) struct Kernel {
    child: Child,
    socket: UnixStream,
    tid: u32,
}

impl Kernel {
    /// Starts it with the capabilities of this thread. `test` is the full name of the calling test.
    pub(super) fn start(test: &str) -> Self {
        drop_search_rights();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(VARIABLE, "1")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut kernel = Self { child, socket: ours, tid: 0 };
        kernel.tid = u32::from_ne_bytes(kernel.read());
        kernel
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns what a path resolves to, and the file descriptor if it is kept.
    pub(super) fn ask(
        &mut self,
        question: Question,
        base: i32,
        path: &[u8],
    ) -> Result<(Found, i32), Errno> {
        self.send(question, base, path);
        self.receive()
    }

    pub(super) fn send(&mut self, question: Question, base: i32, path: &[u8]) {
        let len = u32::try_from(path.len()).unwrap();
        let mut request = vec![question as u8];
        request.extend(base.to_ne_bytes());
        request.extend(len.to_ne_bytes());
        request.extend(path);
        self.socket.write_all(&request).unwrap();
    }

    /// Reads the answer to the oldest open question.
    pub(super) fn receive(&mut self) -> Result<(Found, i32), Errno> {
        match i32::from_ne_bytes(self.read()) {
            0 => {}
            errno => return Err(Errno::from_raw_os_error(errno)),
        }
        let fd = i32::from_ne_bytes(self.read());
        let kind = u32::from_ne_bytes(self.read());
        let is_compared = self.read::<1>() != [0];
        let file = (u64::from_ne_bytes(self.read()), u64::from_ne_bytes(self.read()));
        let mut path = vec![0; usize::try_from(u32::from_ne_bytes(self.read())).unwrap()];
        self.socket.read_exact(&mut path).unwrap();
        let path = PathBuf::from(OsStr::from_bytes(&path));
        Ok((Found { path, file: is_compared.then_some(file), kind }, fd))
    }

    fn read<const N: usize>(&mut self) -> [u8; N] {
        read(&mut self.socket).expect("the second process ended")
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // It exits when the socket is closed.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let _ = self.child.wait();
    }
}

impl CallingThread for Kernel {
    fn tid(&self) -> u32 {
        self.tid
    }

    fn tgid(&mut self) -> Result<u32, Errno> {
        Ok(self.pid())
    }

    fn check(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn directory(&mut self, fd: i32) -> Result<OwnedFd, Errno> {
        let (name, missing) = match fd {
            libc::AT_FDCWD => ("cwd".to_owned(), Errno::NOENT),
            fd => (format!("fd/{fd}"), Errno::BADF),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(format!("/proc/{}/{name}", self.tid), flags, Mode::empty())
            .map_err(|errno| if errno == Errno::NOENT { missing } else { errno })
    }
}

/// Returns whether this is the second process. If so, answers questions until the socket is closed.
pub(super) fn is_second_process() -> bool {
    if std::env::var_os(VARIABLE).is_none() {
        return false;
    }
    let input = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 0).unwrap();
    let mut socket = UnixStream::from(input);
    let tid = rustix::thread::gettid().as_raw_nonzero().get();
    socket.write_all(&tid.to_ne_bytes()).unwrap();
    let mut kept = Vec::new();
    while let Some([question]) = read(&mut socket) {
        let question = QUESTIONS.into_iter().find(|known| *known as u8 == question).unwrap();
        let base = i32::from_ne_bytes(read(&mut socket).unwrap());
        let len = u32::from_ne_bytes(read(&mut socket).unwrap());
        let mut path = vec![0; usize::try_from(len).unwrap()];
        socket.read_exact(&mut path).unwrap();
        let mut answer = Vec::new();
        match reply(question, base, &path, &mut kept) {
            Err(errno) => answer.extend(errno.raw_os_error().to_ne_bytes()),
            Ok((found, fd)) => {
                let (device, inode) = found.file.unwrap_or_default();
                let path = found.path.as_os_str().as_bytes();
                answer.extend(0_i32.to_ne_bytes());
                answer.extend(fd.to_ne_bytes());
                answer.extend(found.kind.to_ne_bytes());
                answer.push(u8::from(found.file.is_some()));
                answer.extend(device.to_ne_bytes());
                answer.extend(inode.to_ne_bytes());
                answer.extend(u32::try_from(path.len()).unwrap().to_ne_bytes());
                answer.extend(path);
            }
        }
        socket.write_all(&answer).unwrap();
    }
    true
}

fn reply(
    question: Question,
    base: i32,
    path: &[u8],
    kept: &mut Vec<OwnedFd>,
) -> Result<(Found, i32), Errno> {
    let look = OFlags::PATH | OFlags::CLOEXEC;
    let create = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = match question {
        Question::Follow | Question::Keep | Question::Enter | Question::Close => look,
        Question::NoFollow | Question::KeepNoFollow => look | OFlags::NOFOLLOW,
        Question::CreateNew => create | OFlags::EXCL,
        Question::Create => create,
        Question::KeepPipe => {
            let (reader, writer) = rustix::pipe::pipe().unwrap();
            let answer = (Found::of(reader.as_fd())?, reader.as_raw_fd());
            kept.extend([reader, writer]);
            return Ok(answer);
        }
    };
    let mode = Mode::RUSR | Mode::WUSR;
    let fd = match kept.iter().find(|fd| fd.as_raw_fd() == base) {
        _ if path.starts_with(b"/") || base == libc::AT_FDCWD => {
            rustix::fs::openat(CWD, path, flags, mode)
        }
        Some(base) => rustix::fs::openat(base, path, flags, mode),
        None => Err(Errno::BADF),
    }?;
    let found = Found::of(fd.as_fd())?;
    match question {
        Question::CreateNew | Question::Create if found.path.starts_with(std::env::temp_dir()) => {
            rustix::fs::unlinkat(CWD, &found.path, AtFlags::empty())?;
        }
        Question::Close => {
            kept.clear();
            rustix::process::fchdir(&fd)?;
        }
        Question::Enter => rustix::process::fchdir(&fd)?,
        Question::Keep | Question::KeepNoFollow => {
            let number = fd.as_raw_fd();
            kept.push(fd);
            return Ok((found, number));
        }
        _ => {}
    }
    Ok((found, -1))
}

/// Reads a value. Returns `None` at the end.
fn read<const N: usize>(socket: &mut UnixStream) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    socket.read_exact(&mut bytes).ok().map(|()| bytes)
}

/// Drops the capabilities to search every directory, for this thread and its children.
fn drop_search_rights() {
    for right in SEARCH {
        // A thread that may not do this has no such capability.
        let _ = rustix::thread::remove_capability_from_bounding_set(right);
    }
    let Ok(own) = rustix::thread::capabilities(None) else { return };
    let without = |set: CapabilitySet| SEARCH.into_iter().fold(set, |set, right| set - right);
    let sets = CapabilitySets {
        effective: without(own.effective),
        permitted: without(own.permitted),
        inheritable: without(own.inheritable),
    };
    rustix::thread::set_capabilities(None, sets).unwrap();
}
