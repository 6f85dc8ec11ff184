//! Opens files for reading and returns their metadata.
//!
//! Only regular files are opened. The type is checked with `fstat` on the open file descriptor and
//! not by path, so a swap between check and use (TOCTOU) has no effect.

use std::{
    fs::File,
    io::Read as _,
    os::fd::{AsFd as _, OwnedFd},
    time::{Duration, SystemTime},
};

use haft_core::HardLinkedFile;
use rustix::fs::{AtFlags, FileType, OFlags, Stat};
use serde::Serialize;

use super::{PathError, PathErrorKind, ResolvedPath, Workspace, open_beneath::open_below};

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symlink. It is never followed.
    Symlink,
    /// A pipe, a socket, a device.
    Special,
}

impl From<FileType> for FileKind {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Symlink,
            _ => FileKind::Special,
        }
    }
}

/// The version of a file. Equal stamps mean that it was not written in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct FileVersion {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, u64),
    changed: (i64, u64),
}

/// Metadata of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileMeta {
    /// What it is.
    pub kind: FileKind,
    /// Bytes in it.
    pub size: u64,
    /// When its contents last changed.
    pub modified: Option<SystemTime>,
    /// Its permission bits.
    pub mode: u32,
    /// The number of hard links.
    pub links: u64,
    /// Its version.
    pub stamp: FileVersion,
}

impl FileMeta {
    /// Returns its identity if it is a regular file with more than one hard link. A rule about
    /// another of its names applies to it too.
    #[must_use]
    pub fn hard_linked(&self) -> Option<HardLinkedFile> {
        let FileVersion { device, inode, changed, .. } = self.stamp;
        let is_linked = self.kind == FileKind::File && self.links > 1;
        is_linked.then_some(HardLinkedFile { device, inode, links: self.links, changed })
    }
}

/// Returns device and inode, which identify a file whatever its name.
#[allow(clippy::unnecessary_cast, reason = "the fields have other widths on other systems")]
pub(super) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

#[allow(clippy::unnecessary_cast, reason = "the fields have other widths on other systems")]
pub(super) fn meta(stat: &Stat) -> FileMeta {
    let (device, inode) = identity(stat);
    let size = u64::try_from(stat.st_size).unwrap_or_default();
    let modified = (stat.st_mtime as i64, stat.st_mtime_nsec as u64);
    let changed = (stat.st_ctime as i64, stat.st_ctime_nsec as u64);
    let since = u64::try_from(modified.0).ok().map(Duration::from_secs);
    let nanos = Duration::from_nanos(modified.1);
    FileMeta {
        kind: FileType::from_raw_mode(stat.st_mode).into(),
        size,
        modified: since
            .and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since.checked_add(nanos)?)),
        mode: stat.st_mode as u32 & 0o7777,
        links: stat.st_nlink as u64,
        stamp: FileVersion { device, inode, size, modified, changed },
    }
}

/// A file that was opened for reading.
#[derive(Debug)]
pub struct OpenFile {
    /// The file.
    pub file: File,
    /// What it is.
    pub meta: FileMeta,
}

impl Workspace {
    /// Returns the metadata of a path. A symlink is not followed.
    ///
    /// # Errors
    /// Fails if it does not exist or is not accessible.
    pub fn meta(&self, resolved: &ResolvedPath) -> Result<FileMeta, PathError> {
        let directory = self.directory(resolved)?;
        let Some(name) = resolved.path.file_name() else {
            let stat = rustix::fs::fstat(&directory.handle).map_err(|errno| resolved.os(errno))?;
            return Ok(meta(&stat));
        };
        let parent = self.open_parent(resolved)?;
        let stat = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| resolved.os(errno))?;
        Ok(meta(&stat))
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// Refuses directories, symlinks, pipes, sockets, devices, and pseudo files such as `/proc`.
    pub fn open(&self, resolved: &ResolvedPath) -> Result<OpenFile, PathError> {
        let directory = self.directory(resolved)?;
        let handle = open_below(directory.handle.as_fd(), &resolved.path, OFlags::RDONLY)
            .map_err(|errno| resolved.os(errno))?;
        regular(handle, resolved, directory.identity.0)
    }

    /// Reads a whole file of at most `cap` bytes.
    ///
    /// # Errors
    /// Like [`open`](Self::open). Refuses larger files and never buffers more than `cap` bytes.
    pub fn read(&self, resolved: &ResolvedPath, cap: usize) -> Result<Vec<u8>, PathError> {
        read_whole(self.open(resolved)?, resolved, cap)
    }
}

/// Reads a whole file of at most `cap` bytes.
pub(super) fn read_whole(
    opened: OpenFile,
    resolved: &ResolvedPath,
    cap: usize,
) -> Result<Vec<u8>, PathError> {
    if opened.meta.size > cap as u64 {
        return Err(resolved.refuse(PathErrorKind::TooLarge));
    }
    let mut bytes = Vec::new();
    // One byte more than allowed: the file can grow while it is read.
    let mut limited = opened.file.take((cap as u64).saturating_add(1));
    limited.read_to_end(&mut bytes).map_err(|e| resolved.io(e))?;
    if bytes.len() > cap {
        return Err(resolved.refuse(PathErrorKind::TooLarge));
    }
    Ok(bytes)
}

/// Accepts an open file descriptor if it is a regular file. `device` is the device of the root.
pub(super) fn regular(
    handle: OwnedFd,
    resolved: &ResolvedPath,
    device: u64,
) -> Result<OpenFile, PathError> {
    let stat = rustix::fs::fstat(&handle).map_err(|errno| resolved.os(errno))?;
    let meta = meta(&stat);
    match meta.kind {
        FileKind::File => {}
        FileKind::Directory => return Err(resolved.refuse(PathErrorKind::IsADirectory)),
        FileKind::Symlink | FileKind::Special => {
            return Err(resolved.refuse(PathErrorKind::SpecialFile));
        }
    }
    // Only a mount below the root can be a pseudo file system.
    if identity(&stat).0 != device && is_pseudo_file(&handle) {
        return Err(resolved.refuse(PathErrorKind::SpecialFile));
    }
    // It was opened with `O_NONBLOCK`; reads should block.
    let _ = rustix::fs::fcntl_setfl(&handle, OFlags::empty());
    Ok(OpenFile { file: handle.into(), meta })
}

/// Returns whether a file is on a pseudo file system such as `proc` or `sysfs`.
#[cfg(target_os = "linux")]
fn is_pseudo_file(handle: &OwnedFd) -> bool {
    const PSEUDO_FILE_SYSTEMS: &[u32] = &[
        0x9fa0,      // proc
        0x6265_6572, // sysfs
        0x6462_6720, // debugfs
        0x7472_6163, // tracefs
        0x0027_e0eb, // cgroup
        0x6367_7270, // cgroup2
        0x7363_6673, // securityfs
        0x6165_676c, // pstore
        0xde5e_81e4, // efivarfs
        0xcafe_4a11, // bpf
        0x6e73_6673, // namespaces
    ];
    match rustix::fs::fstatfs(handle) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "magic numbers are 32 bits wide"
        )]
        Ok(stat) => PSEUDO_FILE_SYSTEMS.contains(&(stat.f_type as u32)),
        Err(_) => true,
    }
}

#[cfg(not(target_os = "linux"))]
fn is_pseudo_file(_: &OwnedFd) -> bool {
    false
}
