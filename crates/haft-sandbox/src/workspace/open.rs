//! Looks at files and opens them for reading.
//!
//! Regular files and folders only: what was opened is looked at by its descriptor, so that the answer
//! is about the thing itself and not about its name.

use std::{
    fs::File,
    io::Read as _,
    os::fd::{AsFd as _, OwnedFd},
    time::{Duration, SystemTime},
};

use haft_core::HardLinked;
use rustix::fs::{AtFlags, FileType, OFlags, Stat};
use serde::Serialize;

use super::{PathError, PathErrorKind, ResolvedPath, Workspace, handle::open_below};

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link. It is never followed on the way.
    Link,
    /// A pipe, a socket, a device.
    Special,
}

impl From<FileType> for FileKind {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Folder,
            FileType::Symlink => FileKind::Link,
            _ => FileKind::Special,
        }
    }
}

/// Tells one state of a file from another. Equal stamps are as good as equal contents, for whoever
/// wants to know whether somebody wrote in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, u64),
    changed: (i64, u64),
}

/// What is known of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Meta {
    /// What it is.
    pub kind: FileKind,
    /// Bytes in it.
    pub size: u64,
    /// When its contents last changed.
    pub modified: Option<SystemTime>,
    /// Who may do what, as Unix writes it.
    pub mode: u32,
    /// How many names it has.
    pub links: u64,
    /// Its state.
    pub stamp: Stamp,
}

impl Meta {
    /// Returns which file it is, if it is a regular file with more than one name. A rule about another
    /// of its names holds for it too.
    #[must_use]
    pub fn hard_linked(&self) -> Option<HardLinked> {
        let Stamp { device, inode, changed, .. } = self.stamp;
        let is_linked = self.kind == FileKind::File && self.links > 1;
        is_linked.then_some(HardLinked { device, inode, links: self.links, changed })
    }
}

/// Device and inode: which file it is, whatever its name.
#[allow(clippy::unnecessary_cast, reason = "the fields have other widths on other systems")]
pub(super) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

#[allow(clippy::unnecessary_cast, reason = "the fields have other widths on other systems")]
pub(super) fn meta(stat: &Stat) -> Meta {
    let (device, inode) = identity(stat);
    let size = u64::try_from(stat.st_size).unwrap_or_default();
    let modified = (stat.st_mtime as i64, stat.st_mtime_nsec as u64);
    let changed = (stat.st_ctime as i64, stat.st_ctime_nsec as u64);
    let since = u64::try_from(modified.0).ok().map(Duration::from_secs);
    let nanos = Duration::from_nanos(modified.1);
    Meta {
        kind: FileType::from_raw_mode(stat.st_mode).into(),
        size,
        modified: since
            .and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since.checked_add(nanos)?)),
        mode: stat.st_mode as u32 & 0o7777,
        links: stat.st_nlink as u64,
        stamp: Stamp { device, inode, size, modified, changed },
    }
}

/// A file that was opened for reading.
#[derive(Debug)]
pub struct OpenFile {
    /// The file.
    pub file: File,
    /// What it is.
    pub meta: Meta,
}

impl Workspace {
    /// Says what is at a place. A link there is described, not followed.
    ///
    /// # Errors
    /// Fails when nothing is there or it cannot be looked at.
    pub fn meta(&self, place: &ResolvedPath) -> Result<Meta, PathError> {
        let folder = self.folder(place)?;
        let Some(name) = place.path.file_name() else {
            let stat = rustix::fs::fstat(&folder.handle).map_err(|errno| place.os(errno))?;
            return Ok(meta(&stat));
        };
        let parent = self.open_parent(place)?;
        let stat = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| place.os(errno))?;
        Ok(meta(&stat))
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// Refuses folders, links, pipes, sockets and devices, and what the kernel makes up on reading.
    pub fn open(&self, place: &ResolvedPath) -> Result<OpenFile, PathError> {
        let folder = self.folder(place)?;
        let handle = open_below(folder.handle.as_fd(), &place.path, OFlags::RDONLY)
            .map_err(|errno| place.os(errno))?;
        regular(handle, place, folder.identity.0)
    }

    /// Reads a whole file that has at most so many bytes.
    ///
    /// # Errors
    /// Like [`open`](Self::open), and refuses what is larger. It never holds more than `cap` bytes.
    pub fn read(&self, place: &ResolvedPath, cap: usize) -> Result<Vec<u8>, PathError> {
        whole(self.open(place)?, place, cap)
    }
}

/// Reads all of a file that has at most so many bytes.
pub(super) fn whole(
    opened: OpenFile,
    place: &ResolvedPath,
    cap: usize,
) -> Result<Vec<u8>, PathError> {
    if opened.meta.size > cap as u64 {
        return Err(place.refuse(PathErrorKind::TooLarge));
    }
    let mut bytes = Vec::new();
    // One more than may be: a file can grow while it is read.
    let mut limited = opened.file.take((cap as u64).saturating_add(1));
    limited.read_to_end(&mut bytes).map_err(|e| place.io(e))?;
    if bytes.len() > cap {
        return Err(place.refuse(PathErrorKind::TooLarge));
    }
    Ok(bytes)
}

/// Takes what was opened if it is a regular file. `device` is that of the root.
pub(super) fn regular(
    handle: OwnedFd,
    place: &ResolvedPath,
    device: u64,
) -> Result<OpenFile, PathError> {
    let stat = rustix::fs::fstat(&handle).map_err(|errno| place.os(errno))?;
    let meta = meta(&stat);
    match meta.kind {
        FileKind::File => {}
        FileKind::Folder => return Err(place.refuse(PathErrorKind::IsAFolder)),
        FileKind::Link | FileKind::Special => return Err(place.refuse(PathErrorKind::SpecialFile)),
    }
    // A root may have something mounted in it; only then is a second look worth its time.
    if identity(&stat).0 != device && is_made_up(&handle) {
        return Err(place.refuse(PathErrorKind::SpecialFile));
    }
    // Whoever reads expects to wait for the disk.
    let _ = rustix::fs::fcntl_setfl(&handle, OFlags::empty());
    Ok(OpenFile { file: handle.into(), meta })
}

/// Returns whether the kernel makes the contents up: `proc`, `sysfs` and their kin.
#[cfg(target_os = "linux")]
fn is_made_up(handle: &OwnedFd) -> bool {
    const MADE_UP: &[u32] = &[
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
        Ok(stat) => MADE_UP.contains(&(stat.f_type as u32)),
        Err(_) => true,
    }
}

#[cfg(not(target_os = "linux"))]
fn is_made_up(_: &OwnedFd) -> bool {
    false
}
