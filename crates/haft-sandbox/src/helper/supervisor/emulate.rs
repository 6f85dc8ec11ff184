//! Makes a syscall on behalf of the caller, after the check of its names.
//!
//! Each syscall uses the open directory and the copied name that were checked. An existing file is
//! opened again through the file descriptor that was checked. The kernel follows no symlink here,
//! so a swap after the check (TOCTOU) has no effect.

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
    locate::{CallingThread as _, Entry, Located, Locator, look, magic_link},
    names::Names,
};

/// What the caller gets.
pub(super) enum Answer {
    Done,
    /// The kernel continues the caller's own syscall. Only for one without a path.
    Continue,
    Descriptor {
        fd: OwnedFd,
        is_closed_on_exec: bool,
        /// The mode of the file has a bit for execution.
        is_executable: bool,
    },
    /// A FIFO: opening it may block until the other end is opened, and must not delay other
    /// syscalls.
    Waits {
        file: OwnedFd,
        flags: OFlags,
        is_closed_on_exec: bool,
    },
}

/// One syscall, with its paths still in the caller's memory.
pub(super) struct Act<'a, 'b> {
    pub(super) caller: &'a mut Caller<'b>,
    pub(super) names: &'a Names,
    /// Size limit of a file.
    pub(super) file_size: u64,
}

/// Attempts to open a file that appears and disappears.
const MAX_OPEN_ATTEMPTS: u32 = 16;
/// Size limit of files that are compared. The configuration of a repository is smaller.
const MAX_COMPARED_BYTES: u64 = 256 << 10;
/// Set-user-id and set-group-id.
const SET_ID: u32 = 0o6000;
/// The bit that only `O_TMPFILE` has.
const TMPFILE: u32 = 0o20_000_000;
/// Access modes that write.
const WRITE_MODES: u32 = OFlags::WRONLY.union(OFlags::RDWR).bits();
/// Flags of `renameat2` that are supported.
const RENAME_FLAGS: RenameFlags =
    RenameFlags::NOREPLACE.union(RenameFlags::EXCHANGE).union(RenameFlags::WHITEOUT);

type Outcome = Result<Answer, Errno>;

impl Act<'_, '_> {
    fn locate(&mut self, base: i32, path: &[u8]) -> Result<Located, Errno> {
        Locator::new(self.caller).locate(base, path)
    }

    /// Resolves an entry to create, move or remove. A directory without a name gives `otherwise`.
    fn entry(&mut self, base: i32, address: u64, otherwise: Errno) -> Result<Entry, Errno> {
        let path = self.caller.path(address)?;
        match self.locate(base, &path)? {
            Located::Entry(entry) => Ok(entry),
            Located::Directory(_) | Located::Open(_) => Err(otherwise),
        }
    }

    pub(super) fn open(&mut self, base: i32, address: u64, flags: u64, mode: u64) -> Outcome {
        let raw = low(flags);
        let flags = OFlags::from_bits_retain(raw) | OFlags::NOCTTY;
        let is_create = flags.contains(OFlags::CREATE);
        let is_tmpfile = raw & TMPFILE != 0;
        // FAIL CLOSED: the filter does not send `O_PATH` opens.
        if flags.contains(OFlags::PATH)
            || (is_create && flags.contains(OFlags::DIRECTORY))
            || (is_tmpfile && !(flags.contains(OFlags::DIRECTORY) && raw & WRITE_MODES != 0))
        {
            return Err(Errno::INVAL);
        }
        let path = self.caller.path(address)?;
        if is_tmpfile {
            return self.open_nameless(base, &path, flags, mode);
        }
        let mut locator = Locator::new(self.caller);
        let mut located = locator.locate(base, &path)?;
        let mode = if is_create { new_mode(locator.caller(), mode)? } else { Mode::empty() };
        let mut attempts = 0;
        while attempts < MAX_OPEN_ATTEMPTS {
            let entry = match located {
                Located::Entry(entry) => entry,
                Located::Directory(_) if flags.contains(OFlags::CREATE | OFlags::EXCL) => {
                    return Err(Errno::EXIST);
                }
                Located::Directory(_) | Located::Open(_) => {
                    let (fd, path) = locator.existing(located)?;
                    return self.open_again(fd, &path, flags);
                }
            };
            if is_create {
                if entry.is_directory {
                    // As in the kernel, a directory that is not searchable comes first.
                    let is_closed = matches!(look(&entry), Err(Errno::ACCESS));
                    return Err(if is_closed { Errno::ACCESS } else { Errno::ISDIR });
                }
                match self.names.create(&entry, flags, mode) {
                    Err(Errno::EXIST) if !flags.contains(OFlags::EXCL) => {}
                    result => return result.map(|fd| descriptor(fd, flags, mode)),
                }
            }
            let (fd, kind) = match look(&entry) {
                // It was removed between the two syscalls.
                Err(Errno::NOENT) if is_create => {
                    attempts += 1;
                    located = Located::Entry(entry);
                    continue;
                }
                found => found?,
            };
            match kind {
                FileType::Symlink if flags.contains(OFlags::NOFOLLOW) && !entry.is_directory => {
                    // The errno of the kernel if it expects a directory and finds a symlink.
                    let is_directory = flags.contains(OFlags::DIRECTORY);
                    return Err(if is_directory { Errno::NOTDIR } else { Errno::LOOP });
                }
                // The locator counts the symlinks.
                FileType::Symlink => located = locator.follow(&entry)?,
                kind if entry.is_directory && kind != FileType::Directory => {
                    return Err(Errno::NOTDIR);
                }
                _ => return self.open_again(fd, &entry.path, flags),
            }
        }
        Err(Errno::AGAIN)
    }

    /// Creates a file without a name (`O_TMPFILE`). It gets one by `linkat`, which is checked.
    fn open_nameless(&mut self, base: i32, path: &[u8], flags: OFlags, mode: u64) -> Outcome {
        let mut locator = Locator::new(self.caller);
        let directory = match locator.locate(base, path)? {
            Located::Entry(entry)
                if flags.contains(OFlags::NOFOLLOW)
                    && !entry.is_directory
                    && look(&entry)?.1 == FileType::Symlink =>
            {
                return Err(Errno::NOTDIR);
            }
            located => locator.existing(located)?.0,
        };
        let mode = new_mode(self.caller, mode)?;
        let fd = rustix::fs::openat(&directory, ".", flags | OFlags::CLOEXEC, mode)?;
        Ok(descriptor(fd, flags, mode))
    }

    /// Opens an existing file again, through its `O_PATH` file descriptor.
    fn open_again(&self, file: OwnedFd, path: &Path, flags: OFlags) -> Outcome {
        let raw = rustix::fs::fstat(&file)?.st_mode;
        let kind = FileType::from_raw_mode(raw);
        if flags.contains(OFlags::CREATE) && kind == FileType::Directory {
            return Err(Errno::ISDIR);
        }
        let writes = flags.bits() & (WRITE_MODES | OFlags::TRUNC.bits()) != 0;
        if writes {
            self.names.check(path, Change::Write)?;
        }
        let dropped = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let own = (flags - dropped) | OFlags::CLOEXEC;
        if kind == FileType::Fifo && !flags.contains(OFlags::NONBLOCK) {
            let is_closed_on_exec = flags.contains(OFlags::CLOEXEC);
            return Ok(Answer::Waits { file, flags: own, is_closed_on_exec });
        }
        let fd = rustix::fs::open(magic_link(file.as_fd()), own, Mode::empty())?;
        Ok(descriptor(fd, flags, Mode::from_raw_mode(raw)))
    }

    /// Checks a name to create. An existing one gives `EEXIST`, protected or not.
    fn check_new(&self, entry: &Entry, change: Change) -> Result<(), Errno> {
        match self.names.refusal(&entry.path, change) {
            None => Ok(()),
            Some(_) if look(entry).is_ok() => Err(Errno::EXIST),
            Some(reason) => Err(self.names.refuse(&entry.path, &reason)),
        }
    }

    /// Checks a name to remove. A missing one gives `ENOENT`, protected or not.
    fn check_old(&self, entry: &Entry, change: Change) -> Result<(), Errno> {
        match self.names.refusal(&entry.path, change) {
            None => Ok(()),
            Some(reason) => {
                look(entry)?;
                Err(self.names.refuse(&entry.path, &reason))
            }
        }
    }

    pub(super) fn make_directory(&mut self, base: i32, address: u64, mode: u64) -> Outcome {
        let entry = self.entry(base, address, Errno::EXIST)?;
        let mode = new_mode(self.caller, mode)?;
        self.check_new(&entry, Change::CreateDir)?;
        rustix::fs::mkdirat(&entry.parent, &entry.name, mode)?;
        Ok(Answer::Done)
    }

    pub(super) fn make_node(&mut self, base: i32, address: u64, mode: u64) -> Outcome {
        let raw = low(mode);
        // Without a kind it is a regular file.
        let kind = match FileType::from_raw_mode(raw) {
            FileType::Unknown if raw & 0o170_000 == 0 => FileType::RegularFile,
            FileType::Unknown | FileType::Symlink => return Err(Errno::INVAL),
            FileType::Directory => return Err(Errno::PERM),
            kind => kind,
        };
        let entry = self.entry(base, address, Errno::EXIST)?;
        refuse_trailing_slash(&entry)?;
        self.check_new(&entry, Change::CreateFile)?;
        if matches!(kind, FileType::CharacterDevice | FileType::BlockDevice) {
            let is_there = look(&entry).is_ok();
            return Err(if is_there { Errno::EXIST } else { Errno::ACCESS });
        }
        let mode = new_mode(self.caller, mode)?;
        rustix::fs::mknodat(&entry.parent, &entry.name, kind, mode, 0)?;
        Ok(Answer::Done)
    }

    pub(super) fn make_symlink(&mut self, target: u64, base: i32, address: u64) -> Outcome {
        let target = self.caller.path(target)?;
        let entry = self.entry(base, address, Errno::EXIST)?;
        refuse_trailing_slash(&entry)?;
        self.check_new(&entry, Change::CreateLink)?;
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
            let file = match from.0 {
                libc::AT_FDCWD => self.caller.directory(from.0)?,
                fd => self.caller.descriptor(fd)?,
            };
            let real = super::locate::real_path(file.as_fd())?;
            (file, real)
        } else {
            let mut locator = Locator::new(self.caller);
            match locator.locate(from.0, &path)? {
                // A path that ends in `/` is always followed.
                Located::Entry(entry)
                    if !flags.contains(AtFlags::SYMLINK_FOLLOW) && !entry.is_directory =>
                {
                    (look(&entry)?.0, entry.path)
                }
                located => locator.existing(located)?,
            }
        };
        let entry = self.entry(to.0, to.1, Errno::EXIST)?;
        refuse_trailing_slash(&entry)?;
        self.check_new(&entry, Change::CreateFile)?;
        // A protected file could be written through a hard link.
        self.names.check(&real, Change::Write)?;
        let link = magic_link(file.as_fd());
        rustix::fs::linkat(CWD, link, &entry.parent, &entry.name, AtFlags::SYMLINK_FOLLOW)?;
        Ok(Answer::Done)
    }

    pub(super) fn rename(&mut self, from: (i32, u64), to: (i32, u64), flags: u64) -> Outcome {
        let flags = RenameFlags::from_bits_retain(low(flags));
        let is_exchange = flags.contains(RenameFlags::EXCHANGE);
        let is_new = flags.contains(RenameFlags::NOREPLACE);
        let is_invalid = is_exchange && (is_new || flags.contains(RenameFlags::WHITEOUT));
        if is_invalid || !(flags - RENAME_FLAGS).is_empty() {
            return Err(Errno::INVAL);
        }
        let path = self.caller.path(from.1)?;
        let from = self.locate(from.0, &path)?;
        if let Located::Entry(entry) = &from {
            // As in the kernel, a directory that is not searchable comes before errors of the
            // target.
            rustix::fs::statat(&entry.parent, ".", AtFlags::empty())?;
        }
        let to = self.entry(to.0, to.1, if is_new { Errno::EXIST } else { Errno::BUSY });
        let from = match (from, &to) {
            (Located::Entry(from), _) => from,
            (_, Err(errno)) if !matches!(*errno, Errno::EXIST | Errno::BUSY) => return Err(*errno),
            _ => return Err(Errno::BUSY),
        };
        let to = to?;
        if from.is_directory || to.is_directory {
            let (_, kind) = look(&from)?;
            let is_named_directory = from.is_directory || !is_exchange;
            if kind != FileType::Directory && is_named_directory {
                return Err(if is_new && look(&to).is_ok() { Errno::EXIST } else { Errno::NOTDIR });
            }
        }
        if is_exchange && to.is_directory && look(&to)?.1 != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        if self.names.is_move_refused(&from.path, &to.path) {
            look(&from)?;
            if is_new && look(&to).is_ok() {
                return Err(Errno::EXIST);
            }
        }
        if flags.is_empty() && self.changes_nothing(&from, &to) {
            rustix::fs::unlinkat(&from.parent, &from.name, AtFlags::empty())?;
            return Ok(Answer::Done);
        }
        self.names.check_move(&from.path, &to.path)?;
        if is_exchange {
            self.names.check_move(&to.path, &from.path)?;
        }
        rustix::fs::renameat_with(&from.parent, &from.name, &to.parent, &to.name, flags)?;
        // With an exchange each of the two may be a directory.
        if is_exchange || look(&to).is_ok_and(|(_, kind)| kind == FileType::Directory) {
            self.names.forget_repositories();
        }
        Ok(Answer::Done)
    }

    /// Returns whether a rename would replace a protected file by its lock file with the same
    /// contents. `git branch -d` and `-m` rewrite `.git/config` even if nothing changes. Then the
    /// lock file is removed and the protected file stays.
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
        if !(flags - AtFlags::REMOVEDIR).is_empty() {
            return Err(Errno::INVAL);
        }
        let is_directory = flags.contains(AtFlags::REMOVEDIR);
        let path = self.caller.path(address)?;
        let entry = match self.locate(base, &path)? {
            Located::Entry(entry) => entry,
            _ if !is_directory => return Err(Errno::ISDIR),
            _ => return Err(nameless_removal_error(&path)),
        };
        if entry.is_directory && !is_directory {
            let (_, kind) = look(&entry)?;
            return Err(if kind == FileType::Directory { Errno::ISDIR } else { Errno::NOTDIR });
        }
        // A file `.git` redirects git. Above protected names only an empty directory may be
        // removed.
        let change = if is_directory { Change::Remove } else { Change::Write };
        self.check_old(&entry, change)?;
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
        let fd = rustix::fs::open(magic_link(file.as_fd()), flags, Mode::empty())?;
        rustix::fs::ftruncate(fd, len)?;
        Ok(Answer::Done)
    }
}

/// `chmod`, only in tier `landlock`.
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
        rustix::fs::chmod(magic_link(file.as_fd()), mode)?;
        Ok(Answer::Done)
    }
}

impl Names {
    /// Creates a new file.
    fn create(&self, entry: &Entry, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        if let Some(reason) = self.refusal(&entry.path, Change::CreateFile) {
            // An existing file is checked later, for the access that is requested.
            let is_there = look(entry).is_ok();
            return Err(if is_there { Errno::EXIST } else { self.refuse(&entry.path, &reason) });
        }
        // With `EXCL` the kernel follows no symlink.
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        rustix::fs::openat(&entry.parent, &entry.name, flags, mode)
    }
}

/// Gives the supervisor the umask of the caller, and returns the mode of a new file. Called after
/// the path was located: by then the cached process is known to be the caller.
fn new_mode(caller: &mut Caller<'_>, mode: u64) -> Result<Mode, Errno> {
    caller.apply_umask()?;
    let mode = u32::try_from(mode & 0o7777).unwrap_or_default();
    Ok(Mode::from_raw_mode(mode & !SET_ID))
}

/// Returns whether two entries are regular files with the same contents. The protected one is never
/// changed, so a change of the other one meanwhile does not matter.
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

/// Returns the low half of an argument, as the kernel reads an `unsigned int`.
fn low(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).unwrap_or_default()
}

fn descriptor(fd: OwnedFd, flags: OFlags, mode: Mode) -> Answer {
    let is_executable = mode.intersects(Mode::XUSR | Mode::XGRP | Mode::XOTH);
    Answer::Descriptor { fd, is_closed_on_exec: flags.contains(OFlags::CLOEXEC), is_executable }
}

/// Refuses a path that ends in `/` for syscalls that create no directory.
fn refuse_trailing_slash(entry: &Entry) -> Result<(), Errno> {
    if !entry.is_directory {
        return Ok(());
    }
    look(entry)?;
    Err(Errno::EXIST)
}

/// Returns why `/`, `.` or `..` cannot be removed.
fn nameless_removal_error(path: &[u8]) -> Errno {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    match path.get(..end).unwrap_or_default() {
        path if path == b".." || path.ends_with(b"/..") => Errno::NOTEMPTY,
        path if path == b"." || path.ends_with(b"/.") => Errno::INVAL,
        _ => Errno::BUSY,
    }
}
