//! Writes files: an exclusive temporary file beside the target, to the disk, then one rename.
//!
//! Readers see the old contents or the new, never half of either. A target with several names keeps
//! its other names as they were: the link is broken instead of written through.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    hash::{BuildHasher as _, RandomState},
    io::{self, Write},
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};

use super::{
    FileKind, Meta, PathError, PathErrorKind, ResolvedPath, Stamp, Workspace,
    handle::{SEARCH, open_below},
    name,
    open::meta,
};

/// What may happen to a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// Nothing: the write is refused.
    Never,
    /// It is replaced.
    Always,
    /// It is replaced if it is still in this state.
    If(Stamp),
}

/// A file that is being written and not yet in its place. Dropping it leaves nothing behind.
#[derive(Debug)]
pub struct AtomicWrite {
    place: ResolvedPath,
    folder: OwnedFd,
    name: OsString,
    temporary: Option<OsString>,
    file: File,
    replace: Replace,
    /// It takes the place of another file, and may be used as that was.
    replaces: bool,
    /// Bytes so far.
    written: u64,
}

impl Workspace {
    /// Writes a whole file. The folder it is in must exist. Returns what is there now.
    ///
    /// # Errors
    /// Refuses protected names, read-only roots, special files, and what `replace` forbids.
    pub fn write(
        &self,
        place: &ResolvedPath,
        bytes: &[u8],
        replace: Replace,
    ) -> Result<Meta, PathError> {
        let mut draft = self.draft(place, replace)?;
        draft.write_all(bytes).map_err(|e| place.io(e))?;
        draft.commit()
    }

    /// Starts a file that is written piece by piece, and put in its place by
    /// [`AtomicWrite::commit`].
    ///
    /// # Errors
    /// Like [`write`](Self::write).
    pub fn draft(&self, place: &ResolvedPath, replace: Replace) -> Result<AtomicWrite, PathError> {
        self.may_write(place)?;
        if self.is_protected_file(place) {
            return Err(place.refuse(PathErrorKind::Protected));
        }
        let (folder, name) = self.parent_and_name(place)?;
        let old = standing_there(&folder, &name, place)?;
        check_replace(place, old.as_ref(), replace)?;
        if old.is_none() && !name::may_be_made(&name) {
            return Err(place.refuse(PathErrorKind::NameInvalid));
        }
        let (temporary, file) = temporary(&folder, place)?;
        let (place, replaces) = (place.clone(), old.is_some());
        let temporary = Some(temporary);
        let draft =
            AtomicWrite { place, folder, name, temporary, file, replace, replaces, written: 0 };
        if let Some(old) = old {
            draft.look_like(&old);
        }
        Ok(draft)
    }

    /// Makes a folder and those above it. One that is there already is fine.
    ///
    /// # Errors
    /// Refuses protected names, read-only roots, and names of files.
    pub fn make_folder(&self, place: &ResolvedPath) -> Result<(), PathError> {
        let root = self.folder(place)?;
        if place.path.as_os_str().is_empty() {
            return Ok(());
        }
        self.may_write(place)?;
        let mut here: Option<OwnedFd> = None;
        for name in place.path.iter() {
            let from = here.as_ref().map_or(root.handle.as_fd(), |fd| fd.as_fd());
            let next = match open_below(from, Path::new(name), SEARCH) {
                Err(Errno::NOENT) => {
                    if !name::may_be_made(name) {
                        return Err(place.refuse(PathErrorKind::NameInvalid));
                    }
                    match rustix::fs::mkdirat(from, name, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(place.os(errno)),
                    }
                    open_below(from, Path::new(name), SEARCH)
                }
                next => next,
            };
            here = Some(next.map_err(|errno| place.os(errno))?);
        }
        Ok(())
    }

    /// Moves an entry. A link is moved itself. Both ends may be in different roots of one disk.
    ///
    /// # Errors
    /// Refuses protected names at both ends, and folders that have one below them or would become
    /// one; what is there already, unless it may be replaced; and another disk, which only a file can be
    /// [carried](Self::carry) to.
    pub fn rename(
        &self,
        from: &ResolvedPath,
        to: &ResolvedPath,
        replace: Replace,
    ) -> Result<(), PathError> {
        self.may_move(from)?;
        self.may_move(to)?;
        if self.crosses_git(from, to) {
            return Err(to.refuse(PathErrorKind::Protected));
        }
        if to.root == from.root && to.path.starts_with(&from.path) && to.path != from.path {
            return Err(to.refuse(PathErrorKind::NameInvalid));
        }
        let (from_folder, from_name) = self.parent_and_name(from)?;
        let (to_folder, to_name) = self.parent_and_name(to)?;
        let old = standing_there(&to_folder, &to_name, to)?;
        check_replace(to, old.as_ref(), replace)?;
        if old.is_none() && !name::may_be_made(&to_name) {
            return Err(to.refuse(PathErrorKind::NameInvalid));
        }
        let moved = match replace {
            Replace::Never => rename_new(&from_folder, &from_name, &to_folder, &to_name),
            _ => rustix::fs::renameat(&from_folder, &from_name, &to_folder, &to_name),
        };
        moved.map_err(|errno| match errno {
            Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR => to.os(errno),
            // Two disks, not a way out.
            Errno::XDEV => to.refuse(PathErrorKind::OtherDisk).because(errno.into()),
            errno => from.os(errno),
        })?;
        let _ = rustix::fs::fsync(&to_folder);
        Ok(())
    }

    pub(super) fn open_parent(&self, place: &ResolvedPath) -> Result<OwnedFd, PathError> {
        let root = self.folder(place)?;
        let parent = place.path.parent().unwrap_or(Path::new(""));
        open_below(root.handle.as_fd(), parent, OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(|errno| place.os(errno))
    }

    pub(super) fn parent_and_name(
        &self,
        place: &ResolvedPath,
    ) -> Result<(OwnedFd, OsString), PathError> {
        let name = place.path.file_name().ok_or_else(|| place.refuse(PathErrorKind::IsAFolder))?;
        Ok((self.open_parent(place)?, name.to_owned()))
    }
}

impl AtomicWrite {
    /// Puts the file in its place. Returns what is there now.
    ///
    /// # Errors
    /// Fails when the disk does, or when what `replace` asked for no longer holds.
    pub fn commit(mut self) -> Result<Meta, PathError> {
        let os = |errno| self.place.os(errno);
        rustix::fs::fsync(&self.file).map_err(os)?;
        // Once more: much may have happened while the contents were made.
        let old = standing_there(&self.folder, &self.name, &self.place)?;
        check_replace(&self.place, old.as_ref(), self.replace)?;
        let temporary = self.temporary.as_deref().unwrap_or_default();
        match self.replace {
            Replace::Never => rename_new(&self.folder, temporary, &self.folder, &self.name),
            _ => rustix::fs::renameat(&self.folder, temporary, &self.folder, &self.name),
        }
        .map_err(os)?;
        self.temporary = None;
        // The contents are safe already; the name is after this. Not every file system can.
        let _ = rustix::fs::fsync(&self.folder);
        let stat = rustix::fs::fstat(&self.file).map_err(|errno| self.place.os(errno))?;
        Ok(meta(&stat))
    }

    /// Whether another file was there when this one was begun.
    pub(super) fn replaces(&self) -> bool {
        self.replaces
    }

    /// Keeps what may be done with another file, but neither set-uid nor set-gid.
    pub(super) fn keep_mode(&self, other: &Meta) {
        #[allow(clippy::unnecessary_cast, reason = "modes are narrower on some systems")]
        let mode = Mode::from_raw_mode((other.mode & 0o777) as rustix::fs::RawMode);
        let _ = rustix::fs::fchmod(&self.file, mode);
    }

    /// Keeps who may use the file, but neither set-uid nor set-gid. What is not possible is left.
    fn look_like(&self, old: &Meta) {
        self.keep_mode(old);
        if let Ok(stat) = rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            let owner = rustix::process::Uid::from_raw(stat.st_uid);
            let group = rustix::process::Gid::from_raw(stat.st_gid);
            let _ = rustix::fs::fchown(&self.file, Some(owner), Some(group));
        }
    }
}

impl Write for AtomicWrite {
    /// A write beyond `RLIMIT_FSIZE` would end the process by `SIGXFSZ`, so the limit is looked at
    /// first and answered as `EFBIG`.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let largest = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        let end = self.written.saturating_add(bytes.len() as u64);
        if largest.is_some_and(|largest| end > largest) {
            return Err(Errno::FBIG.into());
        }
        let count = self.file.write(bytes)?;
        self.written = self.written.saturating_add(count as u64);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for AtomicWrite {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            let _ = rustix::fs::unlinkat(&self.folder, &temporary, AtFlags::empty());
        }
    }
}

/// Looks at what stands at a place that is about to be written. Only a file may be replaced.
fn standing_there(
    folder: &OwnedFd,
    name: &OsStr,
    place: &ResolvedPath,
) -> Result<Option<Meta>, PathError> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(meta(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(place.os(errno)),
    }
}

fn check_replace(
    place: &ResolvedPath,
    old: Option<&Meta>,
    replace: Replace,
) -> Result<(), PathError> {
    match (old, replace) {
        (None, Replace::Never | Replace::Always) => Ok(()),
        (None, Replace::If(_)) => Err(place.refuse(PathErrorKind::Changed)),
        (Some(old), replace) => match (old.kind, replace) {
            (FileKind::Folder, _) => Err(place.refuse(PathErrorKind::IsAFolder)),
            (FileKind::Special, _) => Err(place.refuse(PathErrorKind::SpecialFile)),
            (_, Replace::Never) => Err(place.refuse(PathErrorKind::Exists)),
            // The place was found without a link at its end; somebody put one there.
            (FileKind::Link, _) => Err(place.refuse(PathErrorKind::Changed)),
            (FileKind::File, Replace::If(stamp)) if stamp != old.stamp => {
                Err(place.refuse(PathErrorKind::Changed))
            }
            (FileKind::File, _) => Ok(()),
        },
    }
}

/// Makes a file that nobody else has, under a name that nobody can guess.
fn temporary(folder: &OwnedFd, place: &ResolvedPath) -> Result<(OsString, File), PathError> {
    let how = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for turn in 0..16_u32 {
        let name: OsString = format!(".haft-{:016x}.tmp", RandomState::new().hash_one(turn)).into();
        match rustix::fs::openat(folder, &name, how, Mode::from_raw_mode(0o666)) {
            Ok(file) => return Ok((name, file.into())),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(place.os(errno)),
        }
    }
    Err(place.refuse(PathErrorKind::Failed))
}

/// Renames without replacing anything, in one step where the system can.
fn rename_new(from: &OwnedFd, old: &OsStr, to: &OwnedFd, new: &OsStr) -> Result<(), Errno> {
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    {
        let only_new = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(from, old, to, new, only_new) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            result => return result,
        }
    }
    // A second name first: that fails when one is there. Folders have no second name.
    match rustix::fs::linkat(from, old, to, new, AtFlags::empty()) {
        Ok(()) => rustix::fs::unlinkat(from, old, AtFlags::empty()),
        Err(Errno::PERM | Errno::ISDIR | Errno::NOTSUP) => {
            match rustix::fs::statat(to, new, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => rustix::fs::renameat(from, old, to, new),
                Err(errno) => Err(errno),
                Ok(_) => Err(Errno::EXIST),
            }
        }
        Err(errno) => Err(errno),
    }
}
