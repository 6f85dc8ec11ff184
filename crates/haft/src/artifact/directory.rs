//! Artifacts in a directory that processes of one user share.
//!
//! One file each, named by its id: a line of metadata, then the content. It is written to a
//! temporary file and renamed, so that a crash leaves no partial artifact. A lock file makes quota
//! and expiry hold across processes. The modification time of a file is its expiry, so that a sweep
//! opens no files.
//!
//! Each process caches the directory listing (`Index`). The lock file contains a change counter,
//! and the directory has a modification time; while both are unchanged, the cache is valid and
//! `put` does not scan the directory.
//!
//! FAIL CLOSED: a directory that is a symlink, belongs to another user or is accessible to others
//! is not used.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Artifact, ArtifactId, ArtifactLimits, ArtifactMeta, NotKept, Store};

/// A directory of artifacts. It is checked before each use, so that it cannot be swapped (TOCTOU).
pub(super) struct DirectoryStore {
    path: PathBuf,
    #[cfg_attr(not(unix), expect(dead_code, reason = "no directory is used there"))]
    limits: ArtifactLimits,
    #[cfg(unix)]
    known: unix::Known,
}

impl DirectoryStore {
    pub(super) fn new(path: PathBuf, limits: ArtifactLimits) -> Self {
        Self {
            path,
            limits,
            #[cfg(unix)]
            known: unix::Known::default(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    #[cfg(not(unix))]
    pub(super) fn open_place(&self, _make: bool) -> io::Result<()> {
        Err(io::Error::other("haft cannot check on this system whether other users can access it"))
    }
}

#[cfg(not(unix))]
impl Store for DirectoryStore {
    fn put(&self, _: &ArtifactMeta, _: &Arc<[u8]>, _: u64) -> Result<(), NotKept> {
        let why = "haft cannot check on this system whether other users can access it";
        Err(NotKept::Trouble(format!("{}: {why}", self.path.display())))
    }

    fn open(&self, _: ArtifactId, _: u64) -> io::Result<Option<Artifact>> {
        Ok(None)
    }

    fn list(&self, _: u64) -> io::Result<Vec<ArtifactMeta>> {
        Ok(Vec::new())
    }

    fn is_blocking(&self) -> bool {
        true
    }
}

#[cfg(unix)]
mod unix {
    use std::{
        collections::BTreeMap,
        fs::{DirBuilder, File, Metadata, OpenOptions},
        io::{BufRead as _, BufReader, Read as _, Write as _},
        os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _},
        sync::{Mutex, MutexGuard, OnceLock},
        time::{Duration, SystemTime},
    };

    use haft_core::sync::lock;

    use super::{
        super::{Body, MAX_ARTIFACTS, OVERHEAD},
        *,
    };

    /// The lock file; held by the process that changes the directory.
    const LOCK_FILE: &str = "lock";
    /// The suffix of a file while it is written.
    const PARTIAL_SUFFIX: &str = ".part";
    /// Maximum length of the metadata line; it contains names of sessions and users.
    const MAX_HEADER_BYTES: u64 = 64 << 10;

    /// Minimum interval, in milliseconds, between full scans before the store is reported as full:
    /// files may have been deleted by hand.
    const RESCAN_INTERVAL_MS: u64 = 60_000;

    /// State that this process caches.
    #[derive(Default)]
    pub(in super::super) struct Known {
        /// `None` until the first scan, and again after an error.
        index: Mutex<Option<Index>>,
        /// The user id of this process.
        uid: OnceLock<u32>,
    }

    impl Known {
        fn index(&self) -> MutexGuard<'_, Option<Index>> {
            lock(&self.index)
        }
    }

    /// The files in the directory, in the order of expiry.
    struct Index {
        /// The length of each file.
        by_end: BTreeMap<(u64, ArtifactId), u64>,
        used: u64,
        /// The change counter and the modification time of the directory, as of our last change.
        changes: u64,
        stamp: (i64, i64),
        /// When the directory was scanned.
        scanned_at: u64,
    }

    impl Index {
        fn add(&mut self, end: u64, id: ArtifactId, length: u64) {
            self.by_end.insert((end, id), length);
            self.used = self.used.saturating_add(length).saturating_add(OVERHEAD);
        }

        fn remove(&mut self, key: &(u64, ArtifactId)) {
            if let Some(length) = self.by_end.remove(key) {
                self.used = self.used.saturating_sub(length.saturating_add(OVERHEAD));
            }
        }
    }

    impl DirectoryStore {
        /// Checks that the directory is accessible to this user only, and creates it if `make` is
        /// set.
        pub(in super::super) fn open_place(&self, make: bool) -> io::Result<()> {
            if make {
                DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
            }
            let found = std::fs::symlink_metadata(&self.path)?;
            if !found.is_dir() {
                return Err(io::Error::other("it is not a directory, or it is a symlink"));
            }
            if found.mode() & 0o077 != 0 {
                return Err(io::Error::other(format!(
                    "other users can access it (mode {:o})",
                    found.mode() & 0o777
                )));
            }
            let lock = self.lock_file()?.metadata()?;
            if lock.uid() != found.uid() || found.uid() != self.own_uid()? {
                return Err(io::Error::other("it belongs to another user"));
            }
            Ok(())
        }

        /// The user id of this process: the owner of a file that it has just created.
        fn own_uid(&self) -> io::Result<u32> {
            if let Some(uid) = self.known.uid.get() {
                return Ok(*uid);
            }
            let id = ArtifactId::random().map_err(|_| io::Error::other("no randomness"))?;
            let path = self.path.join(format!("{id}{PARTIAL_SUFFIX}"));
            let made = create(&path)?.metadata()?;
            let _ = std::fs::remove_file(&path);
            Ok(*self.known.uid.get_or_init(|| made.uid()))
        }

        fn lock_file(&self) -> io::Result<File> {
            let path = self.path.join(LOCK_FILE);
            match create(&path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => open_regular(&path, true),
                made => made,
            }
        }

        /// Locks the directory for this process until the file is dropped.
        fn locked(&self) -> io::Result<File> {
            self.open_place(true)?;
            let lock = self.lock_file()?;
            lock.lock()?;
            Ok(lock)
        }

        fn path_of(&self, id: ArtifactId) -> PathBuf {
            self.path.join(id.to_string())
        }

        /// Every artifact file, with its metadata from the file system.
        fn files(&self) -> io::Result<Vec<(ArtifactId, Metadata)>> {
            let mut all = Vec::new();
            for entry in std::fs::read_dir(&self.path)? {
                let entry = entry?;
                let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
                // It may have been removed meanwhile.
                let Some((id, found)) = id.zip(entry.metadata().ok()) else { continue };
                if found.is_file() {
                    all.push((id, found));
                }
            }
            Ok(all)
        }

        /// The modification time of the directory.
        fn stamp(&self) -> io::Result<(i64, i64)> {
            let found = std::fs::symlink_metadata(&self.path)?;
            Ok((found.mtime(), found.mtime_nsec()))
        }

        /// Returns the cached index if it is still valid, or scans again. The caller must hold the
        /// lock; the same goes for the following functions.
        fn index(&self, lock: &File, now: u64) -> io::Result<Index> {
            let changes = count(lock)?;
            match self.known.index().take() {
                Some(index) if index.changes == changes && index.stamp == self.stamp()? => {
                    Ok(index)
                }
                _ => self.scan(changes, now),
            }
        }

        /// Scans the directory, and removes partial files that a crash left.
        fn scan(&self, changes: u64, now: u64) -> io::Result<Index> {
            for entry in std::fs::read_dir(&self.path)? {
                let entry = entry?;
                // Writers hold the lock, and this process holds it now.
                if entry.file_name().to_str().is_some_and(is_part) {
                    let _ = std::fs::remove_file(entry.path());
                }
            }
            let mut index =
                Index { by_end: BTreeMap::new(), used: 0, changes, stamp: (0, 0), scanned_at: now };
            for (id, found) in self.files()? {
                index.add(found.modified().map_or(0, millis), id, found.len());
            }
            Ok(index)
        }

        /// Removes expired artifacts.
        fn sweep(&self, index: &mut Index, now: u64) -> io::Result<()> {
            while let Some(key) = index.by_end.first_key_value().map(|(key, _)| *key)
                && key.0 <= now
            {
                let _ = std::fs::remove_file(self.path_of(key.1));
                index.remove(&key);
            }
            let most = u64::try_from(self.limits.expiry.as_millis()).unwrap_or(u64::MAX);
            // A date in the far future is verified: the clock may have been set back.
            while let Some(key) = index.by_end.last_key_value().map(|(key, _)| *key)
                && key.0.saturating_sub(now) > most
                && self.peek(key.1, now)?.is_none()
            {
                let _ = std::fs::remove_file(self.path_of(key.1));
                index.remove(&key);
            }
            Ok(())
        }

        /// Opens an artifact that is complete and not expired.
        fn peek(&self, id: ArtifactId, now: u64) -> io::Result<Option<Artifact>> {
            let file = match open_regular(&self.path_of(id), false) {
                Ok(file) => file,
                Err(e) if is_none(&e) => return Ok(None),
                Err(e) => return Err(e),
            };
            let length = file.metadata()?.len();
            let mut header = Vec::new();
            BufReader::new((&file).take(MAX_HEADER_BYTES)).read_until(b'\n', &mut header)?;
            let start = header.len() as u64;
            let Ok(facts) = serde_json::from_slice::<ArtifactMeta>(&header) else {
                return Ok(None);
            };
            let is_whole = header.ends_with(b"\n")
                && facts.id == id
                && start.checked_add(facts.bytes) == Some(length);
            Ok((is_whole && facts.is_alive(now))
                .then_some(Artifact { facts, body: Body::File { file, start } }))
        }

        fn write(&self, facts: &ArtifactMeta, body: &[u8]) -> io::Result<u64> {
            let mut header = serde_json::to_vec(facts)?;
            header.push(b'\n');
            if header.len() as u64 > MAX_HEADER_BYTES {
                return Err(io::Error::other("its metadata is too long"));
            }
            let part = self.path.join(format!("{}{PARTIAL_SUFFIX}", facts.id));
            let written = create(&part).and_then(|mut file| {
                file.write_all(&header)?;
                file.write_all(body)?;
                let date = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(facts.expires));
                file.set_modified(
                    date.ok_or_else(|| io::Error::other("the expiry date is out of range"))?,
                )?;
                std::fs::rename(&part, self.path_of(facts.id))
            });
            if written.is_err() {
                let _ = std::fs::remove_file(&part);
            }
            written.map(|()| (header.len() + body.len()) as u64)
        }

        fn store_file(&self, facts: &ArtifactMeta, body: &[u8], now: u64) -> io::Result<bool> {
            let lock = self.locked()?;
            let mut index = self.index(&lock, now)?;
            // Counted before any change: after a crash, other processes scan again.
            index.changes = index.changes.wrapping_add(1);
            lock.write_all_at(&index.changes.to_le_bytes(), 0)?;
            let needs = facts.bytes.saturating_add(OVERHEAD);
            let fits = |index: &Index| {
                index.by_end.len() < MAX_ARTIFACTS
                    && index.used.saturating_add(needs) <= self.limits.quota
            };
            self.sweep(&mut index, now)?;
            if !fits(&index) && now.abs_diff(index.scanned_at) >= RESCAN_INTERVAL_MS {
                index = self.scan(index.changes, now)?;
                self.sweep(&mut index, now)?;
            }
            let is_in = fits(&index);
            if is_in {
                let length = self.write(facts, body)?;
                index.add(facts.expires, facts.id, length);
            }
            index.stamp = self.stamp()?;
            *self.known.index() = Some(index);
            drop(lock);
            Ok(is_in)
        }
    }

    impl Store for DirectoryStore {
        fn put(&self, facts: &ArtifactMeta, body: &Arc<[u8]>, now: u64) -> Result<(), NotKept> {
            match self.store_file(facts, body, now) {
                Ok(true) => Ok(()),
                Ok(false) => Err(NotKept::Full),
                Err(e) if is_full(&e) => Err(NotKept::NoSpace),
                Err(e) => Err(NotKept::Trouble(format!("{}: {e}", self.path.display()))),
            }
        }

        fn open(&self, id: ArtifactId, now: u64) -> io::Result<Option<Artifact>> {
            match self.open_place(false) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
                checked => checked?,
            }
            let found = self.peek(id, now)?;
            if found.is_none() {
                // An artifact that was reported as expired stays expired, even if the clock is set
                // back. Removed under the lock, because only then no other process is just writing
                // it.
                let lock = self.locked()?;
                let place = self.path_of(id);
                if self.peek(id, now)?.is_none() && std::fs::symlink_metadata(&place).is_ok() {
                    lock.write_all_at(&count(&lock)?.wrapping_add(1).to_le_bytes(), 0)?;
                    let _ = std::fs::remove_file(place);
                }
            }
            Ok(found)
        }

        fn list(&self, now: u64) -> io::Result<Vec<ArtifactMeta>> {
            match self.open_place(false) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                checked => checked?,
            }
            let mut all = Vec::new();
            for (id, _) in self.files()? {
                all.extend(self.peek(id, now)?.map(|artifact| artifact.facts));
            }
            Ok(all)
        }

        fn is_blocking(&self) -> bool {
            true
        }
    }

    /// The change counter; 0 for an empty file.
    fn count(lock: &File) -> io::Result<u64> {
        let mut bytes = [0; 8];
        match lock.read_exact_at(&mut bytes, 0) {
            Ok(()) => Ok(u64::from_le_bytes(bytes)),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            Err(e) => Err(e),
        }
    }

    fn is_part(name: &str) -> bool {
        name.strip_suffix(PARTIAL_SUFFIX).is_some_and(|id| id.parse::<ArtifactId>().is_ok())
    }

    /// Whether the device or the disk quota is full.
    fn is_full(error: &io::Error) -> bool {
        matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// Whether the file does not exist or is not an artifact.
    fn is_none(error: &io::Error) -> bool {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData)
    }

    /// Creates a new file with mode 0600. `O_EXCL` does not follow symlinks.
    fn create(path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
    }

    /// Opens a regular file, not a symlink. The inode is compared after opening, so that a swapped
    /// file is refused (symlink race, TOCTOU).
    fn open_regular(path: &Path, write: bool) -> io::Result<File> {
        let seen = std::fs::symlink_metadata(path)?;
        let is_ours = |found: &Metadata| found.is_file() && found.mode() & 0o077 == 0;
        if !is_ours(&seen) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it is not a private regular file",
            ));
        }
        let file = OpenOptions::new().read(true).write(write).open(path)?;
        let found = file.metadata()?;
        if !is_ours(&found) || (found.dev(), found.ino()) != (seen.dev(), seen.ino()) {
            return Err(io::Error::other("it was replaced while it was opened"));
        }
        Ok(file)
    }

    fn millis(date: SystemTime) -> u64 {
        let since = date.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}
