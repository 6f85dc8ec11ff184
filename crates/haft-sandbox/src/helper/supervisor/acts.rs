//! Does what a caller asked for, after a look at the names.
//!
//! Each call is done with a directory that is held open and with the name that was copied. An existing
//! file is opened through the handle that was looked at. No symlink is followed by the kernel here.

use std::{
    io::Read as _,
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
};

use haft_core::protected_names::Change;
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags},
    io::Errno,
};

use super::{
    caller::Caller,
    locate::{Entry, Located, Locator, look, own_link},
    names::Names,
};

/// What the caller gets.
pub(super) enum Answer {
    Done,
    Descriptor {
        fd: OwnedFd,
        is_closed_on_exec: bool,
    },
    /// A FIFO: opening it may wait for the other end, and must not hold up other calls.
    Waits {
        file: OwnedFd,
        flags: OFlags,
        is_closed_on_exec: bool,
    },
}

/// One call with its paths still in the caller's memory.
pub(super) struct Act<'a, 'b> {
    pub(super) caller: &'a mut Caller<'b>,
    pub(super) names: &'a Names,
    /// The largest file that may be made.
    pub(super) file_size: u64,
}

/// How often a file that appears and disappears is looked at again.
const TRIES: u32 = 16;
/// Longer files are not compared: the configuration of a repository is shorter.
const MAX_COMPARED_BYTES: u64 = 256 << 10;
/// Set-user-id and set-group-id.
const SET_ID: u32 = 0o6000;
/// The bit of `O_TMPFILE` that is its own.
const TMPFILE: u32 = 0o20_000_000;

type Outcome = Result<Answer, Errno>;

impl Act<'_, '_> {
    fn locate(&mut self, base: i32, path: &[u8]) -> Result<Located, Errno> {
        Locator::new(self.caller).locate(base, path)
    }

    /// Finds an entry that is to be made, moved or removed. Directories without a name are not.
    fn entry(&mut self, base: i32, address: u64, otherwise: Errno) -> Result<Entry, Errno> {
        let path = self.caller.path(address)?;
        match self.locate(base, &path)? {
            Located::Entry(entry) => Ok(entry),
            Located::Directory(_) | Located::Open(_) => Err(otherwise),
        }
    }

    fn mode(&mut self, mode: u64) -> Result<Mode, Errno> {
        rustix::process::umask(self.caller.status()?.umask);
        let mode = u32::try_from(mode & 0o7777).unwrap_or_default();
        Ok(Mode::from_raw_mode(mode & !SET_ID))
    }

    pub(super) fn open(&mut self, base: i32, address: u64, flags: u64, mode: u64) -> Outcome {
        let path = self.caller.path(address)?;
        let raw = low(flags);
        let flags = OFlags::from_bits_retain(raw) | OFlags::NOCTTY;
        // With this flag the kernel ignores all others that could write.
        if flags.contains(OFlags::PATH) {
            let located = self.locate(base, &path)?;
            let (fd, _) = Locator::new(self.caller).existing(located)?;
            return Ok(descriptor(fd, flags));
        }
        if raw & TMPFILE != 0 {
            let mode = self.mode(mode)?;
            let located = self.locate(base, &path)?;
            let (directory, _) = Locator::new(self.caller).existing(located)?;
            let flags_inside = flags | OFlags::CLOEXEC;
            let fd = rustix::fs::openat(&directory, ".", flags_inside, mode)?;
            return Ok(descriptor(fd, flags));
        }
        let mode = match flags.contains(OFlags::CREATE) {
            true => Some(self.mode(mode)?),
            false => None,
        };
        let mut locator = Locator::new(self.caller);
        let mut located = locator.locate(base, &path)?;
        for _ in 0..TRIES {
            let entry = match located {
                Located::Entry(entry) => entry,
                Located::Directory(_) if mode.is_some() => return Err(Errno::ISDIR),
                Located::Directory(_) | Located::Open(_) => {
                    let (fd, path) = locator.existing(located)?;
                    return self.open_again(fd, &path, flags);
                }
            };
            if let Some(mode) = mode {
                if entry.is_directory {
                    return Err(Errno::ISDIR);
                }
                match self.names.create(&entry, flags, mode) {
                    Err(Errno::EXIST) if !flags.contains(OFlags::EXCL) => {}
                    result => return result.map(|fd| descriptor(fd, flags)),
                }
            }
            let (fd, kind) = match look(&entry) {
                // It was there a moment ago.
                Err(Errno::NOENT) if mode.is_some() => {
                    located = Located::Entry(entry);
                    continue;
                }
                found => found?,
            };
            match kind {
                FileType::Symlink if flags.contains(OFlags::NOFOLLOW) && !entry.is_directory => {
                    return Err(Errno::LOOP);
                }
                FileType::Symlink => located = locator.follow(&entry)?,
                kind if entry.is_directory && kind != FileType::Directory => {
                    return Err(Errno::NOTDIR);
                }
                _ => return self.open_again(fd, &entry.path, flags),
            }
        }
        Err(Errno::AGAIN)
    }

    /// Opens an existing file that is held by a handle.
    fn open_again(&self, file: OwnedFd, path: &Path, flags: OFlags) -> Outcome {
        self.names.check(path, Change::Write)?;
        let own = (flags - (OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW)) | OFlags::CLOEXEC;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
        if kind == FileType::Fifo {
            let is_closed_on_exec = flags.contains(OFlags::CLOEXEC);
            return Ok(Answer::Waits { file, flags: own, is_closed_on_exec });
        }
        let fd = rustix::fs::open(own_link(file.as_fd()), own, Mode::empty())?;
        Ok(descriptor(fd, flags))
    }

    pub(super) fn make_directory(&mut self, base: i32, address: u64, mode: u64) -> Outcome {
        let entry = self.entry(base, address, Errno::EXIST)?;
        let mode = self.mode(mode)?;
        // `mkdir -p` and git make directories that exist, and take this answer for a success.
        if !self.names.is_allowed(&entry.path, Change::CreateDir) && look(&entry).is_ok() {
            return Err(Errno::EXIST);
        }
        self.names.check(&entry.path, Change::CreateDir)?;
        rustix::fs::mkdirat(&entry.parent, &entry.name, mode)?;
        Ok(Answer::Done)
    }

    pub(super) fn make_node(&mut self, base: i32, address: u64, mode: u64) -> Outcome {
        let entry = self.entry(base, address, Errno::EXIST)?;
        no_slash(&entry)?;
        self.names.check(&entry.path, Change::CreateFile)?;
        let raw = low(mode);
        // No kind at all means a regular file.
        let kind = match FileType::from_raw_mode(raw) {
            FileType::Unknown if raw & 0o170_000 == 0 => FileType::RegularFile,
            kind @ (FileType::RegularFile | FileType::Fifo | FileType::Socket) => kind,
            FileType::CharacterDevice | FileType::BlockDevice => return Err(Errno::PERM),
            _ => return Err(Errno::INVAL),
        };
        let mode = self.mode(mode)?;
        rustix::fs::mknodat(&entry.parent, &entry.name, kind, mode, 0)?;
        Ok(Answer::Done)
    }

    pub(super) fn make_symlink(&mut self, target: u64, base: i32, address: u64) -> Outcome {
        let target = self.caller.path(target)?;
        let entry = self.entry(base, address, Errno::EXIST)?;
        no_slash(&entry)?;
        self.names.check(&entry.path, Change::CreateLink)?;
        rustix::fs::symlinkat(target.as_slice(), &entry.parent, &entry.name)?;
        Ok(Answer::Done)
    }

    pub(super) fn make_link(&mut self, from: (i32, u64), to: (i32, u64), flags: u64) -> Outcome {
        let flags = AtFlags::from_bits_retain(low(flags));
        if !(flags - (AtFlags::EMPTY_PATH | AtFlags::SYMLINK_FOLLOW)).is_empty() {
            return Err(Errno::INVAL);
        }
        let path = self.caller.text(from.1)?;
        let (file, real) = if path.is_empty() {
            if !flags.contains(AtFlags::EMPTY_PATH) {
                return Err(Errno::NOENT);
            }
            let file = self.caller.descriptor(from.0)?;
            let real = super::locate::real_path(file.as_fd())?;
            (file, real)
        } else {
            let mut locator = Locator::new(self.caller);
            match locator.locate(from.0, &path)? {
                Located::Entry(entry) if !flags.contains(AtFlags::SYMLINK_FOLLOW) => {
                    let (file, kind) = look(&entry)?;
                    if entry.is_directory && kind != FileType::Directory {
                        return Err(Errno::NOTDIR);
                    }
                    (file, entry.path)
                }
                located => locator.existing(located)?,
            }
        };
        let entry = self.entry(to.0, to.1, Errno::EXIST)?;
        no_slash(&entry)?;
        // Under its other name a protected file could be written.
        self.names.check(&real, Change::Write)?;
        self.names.check(&entry.path, Change::CreateFile)?;
        let link = own_link(file.as_fd());
        rustix::fs::linkat(CWD, link, &entry.parent, &entry.name, AtFlags::SYMLINK_FOLLOW)?;
        Ok(Answer::Done)
    }

    pub(super) fn rename(&mut self, from: (i32, u64), to: (i32, u64), flags: u64) -> Outcome {
        let flags = RenameFlags::from_bits_retain(low(flags));
        let from = self.entry(from.0, from.1, Errno::BUSY)?;
        let to = self.entry(to.0, to.1, Errno::BUSY)?;
        if from.is_directory || to.is_directory {
            let (_, kind) = look(&from)?;
            if kind != FileType::Directory {
                return Err(Errno::NOTDIR);
            }
        }
        if flags.is_empty() && self.changes_nothing(&from, &to) {
            rustix::fs::unlinkat(&from.parent, &from.name, AtFlags::empty())?;
            return Ok(Answer::Done);
        }
        self.names.check_move(&from.path, &to.path)?;
        if flags.contains(RenameFlags::EXCHANGE) {
            self.names.check_move(&to.path, &from.path)?;
        }
        rustix::fs::renameat_with(&from.parent, &from.name, &to.parent, &to.name, flags)?;
        Ok(Answer::Done)
    }

    /// Whether a rename would replace a protected file by its lock with the same text. `git branch -d`
    /// and `-m` write `.git/config` anew, also where nothing in it changes; the lock is then removed
    /// and the protected file stays.
    fn changes_nothing(&self, from: &Entry, to: &Entry) -> bool {
        let mut lock = to.path.clone().into_os_string();
        lock.push(".lock");
        from.path == Path::new(&lock)
            && !self.names.is_allowed(&to.path, Change::MoveTo)
            && self.names.is_allowed(&from.path, Change::MoveFrom)
            && self.names.is_allowed(&from.path, Change::Remove)
            && is_same(from, to)
    }

    pub(super) fn remove(&mut self, base: i32, address: u64, flags: u64) -> Outcome {
        let flags = AtFlags::from_bits_retain(low(flags));
        let is_directory = flags.contains(AtFlags::REMOVEDIR);
        let path = self.caller.path(address)?;
        let entry = match self.locate(base, &path)? {
            Located::Entry(entry) => entry,
            _ if !is_directory => return Err(Errno::ISDIR),
            _ => return Err(nameless(&path)),
        };
        if entry.is_directory && !is_directory {
            let (_, kind) = look(&entry)?;
            return Err(if kind == FileType::Directory { Errno::ISDIR } else { Errno::NOTDIR });
        }
        self.names.check(&entry.path, Change::Remove)?;
        rustix::fs::unlinkat(&entry.parent, &entry.name, flags)?;
        Ok(Answer::Done)
    }

    pub(super) fn truncate(&mut self, address: u64, len: u64) -> Outcome {
        if i64::try_from(len).is_err() {
            return Err(Errno::INVAL);
        }
        let path = self.caller.path(address)?;
        let mut locator = Locator::new(self.caller);
        let located = locator.locate(libc::AT_FDCWD, &path)?;
        let (file, path) = locator.existing(located)?;
        match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR),
            _ => return Err(Errno::INVAL),
        }
        self.names.check(&path, Change::Write)?;
        if len > self.file_size {
            return Err(Errno::FBIG);
        }
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(own_link(file.as_fd()), flags, Mode::empty())?;
        rustix::fs::ftruncate(fd, len)?;
        Ok(Answer::Done)
    }
}

/// Modes, in tier `landlock` alone.
impl Act<'_, '_> {
    pub(super) fn change_mode(&mut self, base: i32, address: u64, mode: u64) -> Outcome {
        let path = self.caller.path(address)?;
        let mut locator = Locator::new(self.caller);
        let located = locator.locate(base, &path)?;
        let (file, path) = locator.existing(located)?;
        self.set_mode(&file, &path, mode)
    }

    pub(super) fn change_open_mode(&mut self, fd: i32, mode: u64) -> Outcome {
        let file = self.caller.descriptor(fd)?;
        let path = super::locate::real_path(file.as_fd())?;
        self.set_mode(&file, &path, mode)
    }

    fn set_mode(&self, file: &OwnedFd, path: &Path, mode: u64) -> Outcome {
        self.names.check_mode(path)?;
        let mode = Mode::from_raw_mode(low(mode) & 0o7777 & !SET_ID);
        rustix::fs::chmod(own_link(file.as_fd()), mode)?;
        Ok(Answer::Done)
    }
}

impl Names {
    /// Makes a file that is not there yet.
    fn create(&self, entry: &Entry, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        // What exists is judged as a write, which is never stricter.
        if let Err(errno) = self.check(&entry.path, Change::CreateFile) {
            return match look(entry) {
                Ok(_) if !flags.contains(OFlags::EXCL) => Err(Errno::EXIST),
                _ => Err(errno),
            };
        }
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&entry.parent, &entry.name, flags, mode)
    }
}

/// Whether two entries are regular files with the same text. The one that is replaced is not touched,
/// so it does not matter what becomes of the other one meanwhile.
fn is_same(from: &Entry, to: &Entry) -> bool {
    let read = |entry: &Entry| {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&entry.parent, &entry.name, flags, Mode::empty()).ok()?;
        let stat = rustix::fs::fstat(&fd).ok()?;
        let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let mut text = Vec::new();
        let file = std::fs::File::from(fd);
        file.take(MAX_COMPARED_BYTES).read_to_end(&mut text).ok().filter(|_| is_regular)?;
        let is_whole = u64::try_from(text.len()).is_ok_and(|len| len < MAX_COMPARED_BYTES);
        is_whole.then_some((text, (stat.st_dev, stat.st_ino)))
    };
    match (read(from), read(to)) {
        (Some((one, first)), Some((other, second))) => first != second && one == other,
        _ => false,
    }
}

/// The low half of an argument, as the kernel reads an `unsigned int`.
fn low(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).unwrap_or_default()
}

fn descriptor(fd: OwnedFd, flags: OFlags) -> Answer {
    Answer::Descriptor { fd, is_closed_on_exec: flags.contains(OFlags::CLOEXEC) }
}

/// A path that ends in `/` names a directory, and this call makes none.
fn no_slash(entry: &Entry) -> Result<(), Errno> {
    if entry.is_directory { Err(Errno::NOENT) } else { Ok(()) }
}

/// Why a directory without a name cannot be removed.
fn nameless(path: &[u8]) -> Errno {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    match path.get(..end).unwrap_or_default() {
        path if path == b".." || path.ends_with(b"/..") => Errno::NOTEMPTY,
        path if path == b"." || path.ends_with(b"/.") => Errno::INVAL,
        _ => Errno::BUSY,
    }
}
