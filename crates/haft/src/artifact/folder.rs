//! Artifacts in a folder that processes of one person share.
//!
//! One file each, named by its id: a line of facts, then the content. It is written beside and
//! renamed, so a crash leaves nothing that looks whole. A lock file makes quota and expiry hold
//! across processes. The time of change of a file is the moment it expires, so that a sweep opens
//! nothing.
//!
//! Each process knows by heart what is there (`Index`). The lock file counts the changes that anybody
//! made, and the folder itself has a time of change; while both are as we left them, so is the rest,
//! and nobody looks at all files to take one in.
//!
//! FAIL CLOSED: a folder that others could look into, or that is not ours, is not used.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Artifact, ArtifactId, ArtifactLimits, ArtifactMeta, NotKept, Store};

/// A folder of artifacts. It is looked at before each use, so that it cannot be exchanged.
pub(super) struct Folder {
    path: PathBuf,
    #[cfg_attr(not(unix), expect(dead_code, reason = "no folder is used there"))]
    limits: ArtifactLimits,
    #[cfg(unix)]
    known: unix::Known,
}

impl Folder {
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
        Err(io::Error::other("whether others may look into it cannot be told on this system"))
    }
}

#[cfg(not(unix))]
impl Store for Folder {
    fn put(&self, _: &ArtifactMeta, _: &Arc<[u8]>, _: u64) -> Result<(), NotKept> {
        let why = "whether others may look into it cannot be told on this system";
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
        sync::{Mutex, MutexGuard, OnceLock, PoisonError},
        time::{Duration, SystemTime},
    };

    use super::{
        super::{Body, MOST, OVERHEAD},
        *,
    };

    /// The file that whoever changes the folder holds.
    const LOCK: &str = "lock";
    /// How a file is called while it is written.
    const PART: &str = ".part";
    /// The longest line of facts; names of sessions and users are in it.
    const HEADER: u64 = 64 << 10;

    /// So often everything is looked at before a store is said to be full: somebody may have made
    /// room by hand.
    const LOOK_AGAIN: u64 = 60_000;

    /// What this process remembers.
    #[derive(Default)]
    pub(in super::super) struct Known {
        /// Nothing until it has looked, and again after trouble.
        index: Mutex<Option<Index>>,
        /// Who we are.
        uid: OnceLock<u32>,
    }

    impl Known {
        fn index(&self) -> MutexGuard<'_, Option<Index>> {
            self.index.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// What is in the folder, in the order it expires.
    struct Index {
        /// How long each file is.
        by_end: BTreeMap<(u64, ArtifactId), u64>,
        used: u64,
        /// What the lock file counts, and when the folder was changed, as we left it.
        changes: u64,
        stamp: (i64, i64),
        /// When everything was looked at.
        looked: u64,
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

    impl Folder {
        /// Checks that the folder is ours alone, and makes it if it may.
        pub(in super::super) fn open_place(&self, make: bool) -> io::Result<()> {
            if make {
                DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
            }
            let found = std::fs::symlink_metadata(&self.path)?;
            if !found.is_dir() {
                return Err(io::Error::other("it is no folder, or a link to one"));
            }
            if found.mode() & 0o077 != 0 {
                return Err(io::Error::other(format!(
                    "others may look into it (mode {:o})",
                    found.mode() & 0o777
                )));
            }
            let lock = self.lock_file()?.metadata()?;
            if lock.uid() != found.uid() || found.uid() != self.own_uid()? {
                return Err(io::Error::other("it belongs to somebody else"));
            }
            Ok(())
        }

        /// Who we are: the owner of a file that we have just made.
        fn own_uid(&self) -> io::Result<u32> {
            if let Some(uid) = self.known.uid.get() {
                return Ok(*uid);
            }
            let id = ArtifactId::random().map_err(|_| io::Error::other("no randomness"))?;
            let path = self.path.join(format!("{id}{PART}"));
            let made = create(&path)?.metadata()?;
            let _ = std::fs::remove_file(&path);
            Ok(*self.known.uid.get_or_init(|| made.uid()))
        }

        fn lock_file(&self) -> io::Result<File> {
            let path = self.path.join(LOCK);
            match create(&path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => opened(&path, true),
                made => made,
            }
        }

        /// Holds the folder for this process until the file is dropped.
        fn locked(&self) -> io::Result<File> {
            self.open_place(true)?;
            let lock = self.lock_file()?;
            lock.lock()?;
            Ok(lock)
        }

        fn place_of(&self, id: ArtifactId) -> PathBuf {
            self.path.join(id.to_string())
        }

        /// Every artifact's file, with what the system says about it.
        fn files(&self) -> io::Result<Vec<(ArtifactId, Metadata)>> {
            let mut all = Vec::new();
            for entry in std::fs::read_dir(&self.path)? {
                let entry = entry?;
                let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
                // It may have gone meanwhile.
                let Some((id, found)) = id.zip(entry.metadata().ok()) else { continue };
                if found.is_file() {
                    all.push((id, found));
                }
            }
            Ok(all)
        }

        /// When the folder was changed last.
        fn stamp(&self) -> io::Result<(i64, i64)> {
            let found = std::fs::symlink_metadata(&self.path)?;
            Ok((found.mtime(), found.mtime_nsec()))
        }

        /// Returns what is there, as remembered if nobody changed it since. Only for whoever holds
        /// the lock, as is all that follows.
        fn index(&self, lock: &File, now: u64) -> io::Result<Index> {
            let changes = count(lock)?;
            match self.known.index().take() {
                Some(index) if index.changes == changes && index.stamp == self.stamp()? => {
                    Ok(index)
                }
                _ => self.look(changes, now),
            }
        }

        /// Looks at everything, and removes what was left by a crash.
        fn look(&self, changes: u64, now: u64) -> io::Result<Index> {
            for entry in std::fs::read_dir(&self.path)? {
                let entry = entry?;
                // Whoever writes holds the lock, and that is us.
                if entry.file_name().to_str().is_some_and(is_part) {
                    let _ = std::fs::remove_file(entry.path());
                }
            }
            let mut index =
                Index { by_end: BTreeMap::new(), used: 0, changes, stamp: (0, 0), looked: now };
            for (id, found) in self.files()? {
                index.add(found.modified().map_or(0, millis), id, found.len());
            }
            Ok(index)
        }

        /// Removes what has expired.
        fn sweep(&self, index: &mut Index, now: u64) -> io::Result<()> {
            while let Some(key) = index.by_end.first_key_value().map(|(key, _)| *key)
                && key.0 <= now
            {
                let _ = std::fs::remove_file(self.place_of(key.1));
                index.remove(&key);
            }
            let most = u64::try_from(self.limits.expiry.as_millis()).unwrap_or(u64::MAX);
            // A date in the far future is looked at twice: the clock may have been set back.
            while let Some(key) = index.by_end.last_key_value().map(|(key, _)| *key)
                && key.0.saturating_sub(now) > most
                && self.peek(key.1, now)?.is_none()
            {
                let _ = std::fs::remove_file(self.place_of(key.1));
                index.remove(&key);
            }
            Ok(())
        }

        /// Opens an artifact that is whole and alive.
        fn peek(&self, id: ArtifactId, now: u64) -> io::Result<Option<Artifact>> {
            let file = match opened(&self.place_of(id), false) {
                Ok(file) => file,
                Err(e) if is_none(&e) => return Ok(None),
                Err(e) => return Err(e),
            };
            let length = file.metadata()?.len();
            let mut header = Vec::new();
            BufReader::new((&file).take(HEADER)).read_until(b'\n', &mut header)?;
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
            if header.len() as u64 > HEADER {
                return Err(io::Error::other("its names are too long"));
            }
            let part = self.path.join(format!("{}{PART}", facts.id));
            let written = create(&part).and_then(|mut file| {
                file.write_all(&header)?;
                file.write_all(body)?;
                let date = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(facts.expires));
                file.set_modified(date.ok_or_else(|| io::Error::other("no such date"))?)?;
                std::fs::rename(&part, self.place_of(facts.id))
            });
            if written.is_err() {
                let _ = std::fs::remove_file(&part);
            }
            written.map(|()| (header.len() + body.len()) as u64)
        }

        fn take_in(&self, facts: &ArtifactMeta, body: &[u8], now: u64) -> io::Result<bool> {
            let lock = self.locked()?;
            let mut index = self.index(&lock, now)?;
            // Counted before anything changes: whoever comes after a crash looks for themselves.
            index.changes = index.changes.wrapping_add(1);
            lock.write_all_at(&index.changes.to_le_bytes(), 0)?;
            let needs = facts.bytes.saturating_add(OVERHEAD);
            let has_room = |index: &Index| {
                index.by_end.len() < MOST && index.used.saturating_add(needs) <= self.limits.quota
            };
            self.sweep(&mut index, now)?;
            if !has_room(&index) && now.abs_diff(index.looked) >= LOOK_AGAIN {
                index = self.look(index.changes, now)?;
                self.sweep(&mut index, now)?;
            }
            let is_in = has_room(&index);
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

    impl Store for Folder {
        fn put(&self, facts: &ArtifactMeta, body: &Arc<[u8]>, now: u64) -> Result<(), NotKept> {
            match self.take_in(facts, body, now) {
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
                // Whoever saw it gone never sees it again, even if the clock is set back. Under the
                // lock, because only whole files are called by their id, and none is just coming.
                let lock = self.locked()?;
                let place = self.place_of(id);
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

    /// How many changes were counted. A file that counts nothing yet counts none.
    fn count(lock: &File) -> io::Result<u64> {
        let mut bytes = [0; 8];
        match lock.read_exact_at(&mut bytes, 0) {
            Ok(()) => Ok(u64::from_le_bytes(bytes)),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            Err(e) => Err(e),
        }
    }

    fn is_part(name: &str) -> bool {
        name.strip_suffix(PART).is_some_and(|id| id.parse::<ArtifactId>().is_ok())
    }

    /// Whether the device or the quota is used up.
    fn is_full(error: &io::Error) -> bool {
        matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// Whether there is nothing, or something that was never an artifact.
    fn is_none(error: &io::Error) -> bool {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData)
    }

    /// Makes a file that was not there, for nobody else's eyes. This follows no link.
    fn create(path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
    }

    /// Opens a file that is one, and no link to one, even if it is exchanged meanwhile.
    fn opened(path: &Path, write: bool) -> io::Result<File> {
        let seen = std::fs::symlink_metadata(path)?;
        let is_ours = |found: &Metadata| found.is_file() && found.mode() & 0o077 == 0;
        if !is_ours(&seen) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no file of ours"));
        }
        let file = OpenOptions::new().read(true).write(write).open(path)?;
        let found = file.metadata()?;
        if !is_ours(&found) || (found.dev(), found.ino()) != (seen.dev(), seen.ino()) {
            return Err(io::Error::other("it was exchanged while it was opened"));
        }
        Ok(file)
    }

    fn millis(date: SystemTime) -> u64 {
        let since = date.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}
