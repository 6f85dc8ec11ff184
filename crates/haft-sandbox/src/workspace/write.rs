//! Atomic writes: an exclusive temporary file next to the target, `fsync`, then one rename.
//!
//! Readers see the old contents or the new, never a part. If the target is a hard link, only this
//! name gets the new contents; the other names keep the old file.

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
    FileKind, FileMeta, FileVersion, PathError, PathErrorKind, ResolvedPath, Workspace, name,
    open::meta,
    open_beneath::{SEARCH, open_below},
};

/// What may happen to an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// The write is refused.
    Never,
    /// It is replaced.
    Always,
    /// It is replaced if it still has this version (compare and swap).
    If(FileVersion),
}

/// A file that is being written under a temporary name. Dropping it deletes the temporary file.
#[derive(Debug)]
pub struct AtomicWrite {
    resolved: ResolvedPath,
    directory: OwnedFd,
    name: OsString,
    temporary: Option<OsString>,
    file: File,
    replace: Replace,
    /// It replaces an existing file and keeps its permissions.
    replaces: bool,
    /// Bytes written so far.
    written: u64,
}

impl Workspace {
    /// Writes a whole file. Its directory must exist. Returns the metadata of the new file.
    ///
    /// # Errors
    /// Refuses protected names, read-only roots, special files, and what `replace` forbids.
    pub fn write(
        &self,
        resolved: &ResolvedPath,
        bytes: &[u8],
        replace: Replace,
    ) -> Result<FileMeta, PathError> {
        let mut start_write = self.start_write(resolved, replace)?;
        start_write.write_all(bytes).map_err(|e| resolved.io(e))?;
        start_write.commit()
    }

    /// Starts a file that is written in pieces and put in place by [`AtomicWrite::commit`].
    ///
    /// # Errors
    /// Like [`write`](Self::write).
    pub fn start_write(
        &self,
        resolved: &ResolvedPath,
        replace: Replace,
    ) -> Result<AtomicWrite, PathError> {
        self.may_write(resolved)?;
        if self.is_protected_file(resolved) {
            return Err(resolved.refuse(PathErrorKind::Protected));
        }
        let (directory, name) = self.parent_and_name(resolved)?;
        let old = existing_entry(&directory, &name, resolved)?;
        check_replace(resolved, old.as_ref(), replace)?;
        if old.is_none() && !name::is_allowed_for_new(&name) {
            return Err(resolved.refuse(PathErrorKind::NameInvalid));
        }
        let (temporary, file) = temporary(&directory, resolved)?;
        let (resolved, replaces) = (resolved.clone(), old.is_some());
        let temporary = Some(temporary);
        let start_write = AtomicWrite {
            resolved,
            directory,
            name,
            temporary,
            file,
            replace,
            replaces,
            written: 0,
        };
        if let Some(old) = old {
            start_write.copy_permissions(&old);
        }
        Ok(start_write)
    }

    /// Creates a directory and its parents. An existing directory is no error.
    ///
    /// # Errors
    /// Refuses protected names, read-only roots, and existing files.
    pub fn make_directory(&self, resolved: &ResolvedPath) -> Result<(), PathError> {
        let root = self.directory(resolved)?;
        if resolved.path.as_os_str().is_empty() {
            return Ok(());
        }
        self.may_write(resolved)?;
        let mut here: Option<OwnedFd> = None;
        for name in resolved.path.iter() {
            let from = here.as_ref().map_or(root.handle.as_fd(), |fd| fd.as_fd());
            let next = match open_below(from, Path::new(name), SEARCH) {
                Err(Errno::NOENT) => {
                    if !name::is_allowed_for_new(name) {
                        return Err(resolved.refuse(PathErrorKind::NameInvalid));
                    }
                    match rustix::fs::mkdirat(from, name, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(resolved.os(errno)),
                    }
                    open_below(from, Path::new(name), SEARCH)
                }
                next => next,
            };
            here = Some(next.map_err(|errno| resolved.os(errno))?);
        }
        Ok(())
    }

    /// Moves an entry. A symlink itself is moved. Both paths may be in different roots of one disk.
    ///
    /// # Errors
    /// Refuses protected names as source and target, directories that contain one or would become
    /// one, an existing target unless `replace` allows it, and another disk. Only a file can be
    /// [carried](Self::move_across_devices) to another disk.
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
        let (from_directory, from_name) = self.parent_and_name(from)?;
        let (to_directory, to_name) = self.parent_and_name(to)?;
        let old = existing_entry(&to_directory, &to_name, to)?;
        check_replace(to, old.as_ref(), replace)?;
        if old.is_none() && !name::is_allowed_for_new(&to_name) {
            return Err(to.refuse(PathErrorKind::NameInvalid));
        }
        let moved = match replace {
            Replace::Never => rename_new(&from_directory, &from_name, &to_directory, &to_name),
            _ => rustix::fs::renameat(&from_directory, &from_name, &to_directory, &to_name),
        };
        moved.map_err(|errno| match errno {
            Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR => to.os(errno),
            // Two disks, not an escape from the root.
            Errno::XDEV => to.refuse(PathErrorKind::CrossDevice).because(errno.into()),
            errno => from.os(errno),
        })?;
        let _ = rustix::fs::fsync(&to_directory);
        Ok(())
    }

    pub(super) fn open_parent(&self, resolved: &ResolvedPath) -> Result<OwnedFd, PathError> {
        let root = self.directory(resolved)?;
        let parent = resolved.path.parent().unwrap_or(Path::new(""));
        open_below(root.handle.as_fd(), parent, OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(|errno| resolved.os(errno))
    }

    pub(super) fn parent_and_name(
        &self,
        resolved: &ResolvedPath,
    ) -> Result<(OwnedFd, OsString), PathError> {
        let name = resolved
            .path
            .file_name()
            .ok_or_else(|| resolved.refuse(PathErrorKind::IsADirectory))?;
        Ok((self.open_parent(resolved)?, name.to_owned()))
    }
}

impl AtomicWrite {
    /// Moves the file to its final name. Returns its metadata.
    ///
    /// # Errors
    /// Fails on a disk error, or if the target no longer satisfies `replace`.
    pub fn commit(mut self) -> Result<FileMeta, PathError> {
        let os = |errno| self.resolved.os(errno);
        rustix::fs::fsync(&self.file).map_err(os)?;
        // Check again: the target may have changed while the contents were written (TOCTOU).
        let old = existing_entry(&self.directory, &self.name, &self.resolved)?;
        check_replace(&self.resolved, old.as_ref(), self.replace)?;
        let temporary = self.temporary.as_deref().unwrap_or_default();
        match self.replace {
            Replace::Never => rename_new(&self.directory, temporary, &self.directory, &self.name),
            _ => rustix::fs::renameat(&self.directory, temporary, &self.directory, &self.name),
        }
        .map_err(os)?;
        self.temporary = None;
        // The contents are durable already; this makes the name durable. Not every file system can.
        let _ = rustix::fs::fsync(&self.directory);
        let stat = rustix::fs::fstat(&self.file).map_err(|errno| self.resolved.os(errno))?;
        Ok(meta(&stat))
    }

    /// Returns whether another file existed when this write was started.
    pub(super) fn replaces(&self) -> bool {
        self.replaces
    }

    /// Copies the mode of another file, without set-user-id and set-group-id.
    pub(super) fn keep_mode(&self, other: &FileMeta) {
        #[allow(clippy::unnecessary_cast, reason = "modes are narrower on some systems")]
        let mode = Mode::from_raw_mode((other.mode & 0o777) as rustix::fs::RawMode);
        let _ = rustix::fs::fchmod(&self.file, mode);
    }

    /// Copies mode and owner of the old file, without set-user-id and set-group-id. Best effort.
    fn copy_permissions(&self, old: &FileMeta) {
        self.keep_mode(old);
        if let Ok(stat) = rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW)
        {
            let owner = rustix::process::Uid::from_raw(stat.st_uid);
            let group = rustix::process::Gid::from_raw(stat.st_gid);
            let _ = rustix::fs::fchown(&self.file, Some(owner), Some(group));
        }
    }
}

impl Write for AtomicWrite {
    /// A write beyond `RLIMIT_FSIZE` would kill the process with `SIGXFSZ`. So the limit is checked
    /// first and gives `EFBIG`.
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
            let _ = rustix::fs::unlinkat(&self.directory, &temporary, AtFlags::empty());
        }
    }
}

/// Returns the metadata of the existing entry at a path that is about to be written.
fn existing_entry(
    directory: &OwnedFd,
    name: &OsStr,
    resolved: &ResolvedPath,
) -> Result<Option<FileMeta>, PathError> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(meta(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(resolved.os(errno)),
    }
}

fn check_replace(
    resolved: &ResolvedPath,
    old: Option<&FileMeta>,
    replace: Replace,
) -> Result<(), PathError> {
    match (old, replace) {
        (None, Replace::Never | Replace::Always) => Ok(()),
        (None, Replace::If(_)) => Err(resolved.refuse(PathErrorKind::Changed)),
        (Some(old), replace) => match (old.kind, replace) {
            (FileKind::Directory, _) => Err(resolved.refuse(PathErrorKind::IsADirectory)),
            (FileKind::Special, _) => Err(resolved.refuse(PathErrorKind::SpecialFile)),
            (_, Replace::Never) => Err(resolved.refuse(PathErrorKind::Exists)),
            // The path was resolved without a symlink at its end, so one was swapped in (TOCTOU).
            (FileKind::Symlink, _) => Err(resolved.refuse(PathErrorKind::Changed)),
            (FileKind::File, Replace::If(stamp)) if stamp != old.stamp => {
                Err(resolved.refuse(PathErrorKind::Changed))
            }
            (FileKind::File, _) => Ok(()),
        },
    }
}

/// Creates a new file exclusively (`O_EXCL`), under a random name.
fn temporary(directory: &OwnedFd, resolved: &ResolvedPath) -> Result<(OsString, File), PathError> {
    let how = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for turn in 0..16_u32 {
        let name: OsString = format!(".haft-{:016x}.tmp", RandomState::new().hash_one(turn)).into();
        match rustix::fs::openat(directory, &name, how, Mode::from_raw_mode(0o666)) {
            Ok(file) => return Ok((name, file.into())),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(resolved.os(errno)),
        }
    }
    Err(resolved.refuse(PathErrorKind::Failed))
}

/// Renames without replacing anything, atomically if the system can.
fn rename_new(from: &OwnedFd, old: &OsStr, to: &OwnedFd, new: &OsStr) -> Result<(), Errno> {
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    {
        let only_new = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(from, old, to, new, only_new) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            result => return result,
        }
    }
    // A hard link first: it fails if the target exists. Directories cannot have hard links.
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
