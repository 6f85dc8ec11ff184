//! Goes through a folder and what is below it, by handles, without following links.
//!
//! Entries come in the order of their names, folders before what is in them. There is a bound on
//! entries and on depth; whoever meets one is told. What an entry is was said by its folder; nothing
//! is asked about it by itself unless somebody wants to know more, and opening looks again.

use std::{
    ffi::{OsStr, OsString},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    sync::Arc,
};

use rustix::{
    fs::{AtFlags, FileType, OFlags},
    io::Errno,
};

use super::{
    FileKind, Meta, OpenFile, PathError, PathErrorKind, ResolvedPath, Workspace,
    handle::open_below,
    open::{self, meta},
};

/// How far a recursive operation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// So many entries.
    pub entries: usize,
    /// So many levels. One level is the folder alone.
    pub depth: usize,
    /// So many bytes, where bytes are moved.
    pub bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            entries: 200_000, // the sources of a large project, with what it depends on
            depth: 64,        // deeper than people go; each level holds a descriptor
            bytes: 4 << 30,   // more is a backup, not a copy
        }
    }
}

impl Bounds {
    /// The folder alone, nothing below its entries.
    #[must_use]
    pub fn flat(self) -> Self {
        Self { depth: 1, ..self }
    }
}

/// One entry on the way.
#[derive(Debug, Clone)]
pub struct Entry {
    place: ResolvedPath,
    kind: FileKind,
    folder: Arc<Here>,
    level: usize,
}

/// A folder on the way.
#[derive(Debug)]
struct Here {
    handle: OwnedFd,
    /// The device of the root.
    device: u64,
}

impl Entry {
    /// Returns where it is.
    #[must_use]
    pub fn place(&self) -> &ResolvedPath {
        &self.place
    }

    /// Returns what it was when its folder was read.
    #[must_use]
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// Says what it is now. A link is described, not followed.
    ///
    /// # Errors
    /// Fails when it is gone or cannot be looked at.
    pub fn meta(&self) -> Result<Meta, PathError> {
        let stat = rustix::fs::statat(&self.folder.handle, self.name(), AtFlags::SYMLINK_NOFOLLOW);
        Ok(meta(&stat.map_err(|errno| self.place.os(errno))?))
    }

    /// Returns how deep it is: 1 for entries of the folder the walk began in.
    #[must_use]
    pub fn level(&self) -> usize {
        self.level
    }

    /// Opens it for reading, from the handle of its folder: one step, whatever its depth.
    ///
    /// # Errors
    /// Refuses what is no regular file, also when it became so in the meantime.
    pub fn open(&self) -> Result<OpenFile, PathError> {
        let handle = open_below(self.folder.handle.as_fd(), self.name().as_ref(), OFlags::RDONLY);
        let handle = handle.map_err(|errno| self.place.os(errno))?;
        open::regular(handle, &self.place, self.folder.device)
    }

    /// Reads another file of the same folder, by its name. Nothing where there is none.
    ///
    /// # Errors
    /// Like [`open`](Self::open), and refuses what has more than `cap` bytes.
    pub fn read_beside(&self, name: &str, cap: usize) -> Result<Option<Vec<u8>>, PathError> {
        let place = self.place.with_name(name)?;
        match open_below(self.folder.handle.as_fd(), name.as_ref(), OFlags::RDONLY) {
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(place.os(errno)),
            Ok(handle) => {
                open::whole(open::regular(handle, &place, self.folder.device)?, &place, cap)
                    .map(Some)
            }
        }
    }

    fn name(&self) -> &OsStr {
        self.place.path.file_name().unwrap_or_default()
    }
}

impl Workspace {
    /// Goes through a folder and what is below it.
    ///
    /// # Errors
    /// Fails when the place is no folder or cannot be read.
    pub fn walk(&self, place: &ResolvedPath, bounds: Bounds) -> Result<Walk, PathError> {
        let root = self.folder(place)?;
        let how = OFlags::RDONLY | OFlags::DIRECTORY;
        let handle =
            open_below(root.handle.as_fd(), &place.path, how).map_err(|errno| place.os(errno))?;
        let mut walk = Walk {
            stack: Vec::new(),
            device: root.identity.0,
            left: bounds.entries,
            bounds,
            next: None,
            room: Vec::new(),
        };
        walk.enter(place.clone(), handle)?;
        Ok(walk)
    }

    /// Lists a folder by name.
    ///
    /// # Errors
    /// Like [`walk`](Self::walk), and refuses a folder with more entries than `entries`.
    pub fn list(&self, place: &ResolvedPath, entries: usize) -> Result<Vec<Entry>, PathError> {
        self.walk(place, Bounds { entries, ..Bounds::default() }.flat())?.collect()
    }
}

/// The way through a folder. Trouble with one entry is told and gone past; a bound ends the way.
#[derive(Debug)]
pub struct Walk {
    stack: Vec<Level>,
    device: u64,
    bounds: Bounds,
    left: usize,
    /// The folder that was shown last, to be entered unless somebody says no.
    next: Option<(ResolvedPath, Arc<Here>)>,
    /// What folders are read into.
    room: Room,
}

#[derive(Debug)]
struct Level {
    place: ResolvedPath,
    here: Arc<Here>,
    /// By name, last first.
    names: Vec<(OsString, FileType)>,
}

impl Walk {
    /// Leaves out what is below the folder that was shown last.
    pub fn pass_by(&mut self) {
        self.next = None;
    }

    fn enter(&mut self, place: ResolvedPath, handle: OwnedFd) -> Result<(), PathError> {
        let mut names: Vec<(OsString, FileType)> = Vec::new();
        let left = &mut self.left;
        let is_whole = names_of(&handle, &mut self.room, |name, kind| {
            if name == b"." || name == b".." {
                return true;
            }
            // Before they are kept, so that a huge folder costs no more than the bound.
            let is_room = *left > 0;
            if is_room {
                *left -= 1;
                names.push((OsStr::from_bytes(name).to_owned(), kind));
            }
            is_room
        });
        if !is_whole.map_err(|errno| place.os(errno))? {
            return Err(place.refuse(PathErrorKind::TooMany));
        }
        names.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
        let here = Arc::new(Here { handle, device: self.device });
        self.stack.push(Level { place, here, names });
        Ok(())
    }

    fn step(&mut self) -> Result<Option<Entry>, PathError> {
        if let Some((place, folder)) = self.next.take() {
            if self.stack.len() >= self.bounds.depth {
                // One level alone was asked for: that is no bound that was met.
                if self.bounds.depth > 1 {
                    self.stack.clear();
                    return Err(place.refuse(PathErrorKind::TooMany));
                }
            } else {
                let how = OFlags::RDONLY | OFlags::DIRECTORY;
                let name = place.path.file_name().unwrap_or_default();
                let handle = open_below(folder.handle.as_fd(), name.as_ref(), how)
                    .map_err(|errno| place.os(errno))?;
                self.enter(place, handle).inspect_err(|refusal| {
                    if refusal.cause() == PathErrorKind::TooMany {
                        self.stack.clear();
                    }
                })?;
            }
        }
        loop {
            let level = self.stack.len();
            let Some(Level { place, here, names }) = self.stack.last_mut() else { return Ok(None) };
            let Some((name, kind)) = names.pop() else {
                self.stack.pop();
                continue;
            };
            let (root, base, path) = (place.root, place.base.clone(), place.path.join(&name));
            let place = ResolvedPath { root, base, path, exists: true };
            let kind = match kind {
                // Some file systems do not say it with the name.
                FileType::Unknown => {
                    match rustix::fs::statat(&here.handle, &name, AtFlags::SYMLINK_NOFOLLOW) {
                        Err(Errno::NOENT) => continue, // gone since the folder was read
                        stat => meta(&stat.map_err(|errno| place.os(errno))?).kind,
                    }
                }
                kind => kind.into(),
            };
            if kind == FileKind::Folder {
                self.next = Some((place.clone(), here.clone()));
            }
            return Ok(Some(Entry { place, kind, folder: here.clone(), level }));
        }
    }
}

impl Iterator for Walk {
    type Item = Result<Entry, PathError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

#[cfg(target_os = "linux")]
type Room = Vec<std::mem::MaybeUninit<u8>>;
#[cfg(not(target_os = "linux"))]
type Room = Vec<()>;

/// Bytes that a folder is read into: some hundreds of names at once.
#[cfg(target_os = "linux")]
const ROOM: usize = 32 << 10;

/// Takes the names of a folder and what the file system says each one is, until one is not wanted.
/// Returns whether it came to the end. The handle is read from as it is, and only once.
#[cfg(target_os = "linux")]
fn names_of(
    handle: &OwnedFd,
    room: &mut Room,
    mut take: impl FnMut(&[u8], FileType) -> bool,
) -> Result<bool, Errno> {
    room.resize(ROOM, std::mem::MaybeUninit::uninit());
    let mut folder = rustix::fs::RawDir::new(handle, room);
    while let Some(entry) = folder.next() {
        let entry = entry?;
        if !take(entry.file_name().to_bytes(), entry.file_type()) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(not(target_os = "linux"))]
fn names_of(
    handle: &OwnedFd,
    _: &mut Room,
    mut take: impl FnMut(&[u8], FileType) -> bool,
) -> Result<bool, Errno> {
    for entry in rustix::fs::Dir::read_from(handle)? {
        let entry = entry?;
        if !take(entry.file_name().to_bytes(), entry.file_type()) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;
    use crate::Access;

    fn room() -> (tempfile::TempDir, Workspace) {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::builder().root(folder.path(), Access::Write).build().unwrap();
        (folder, workspace)
    }

    fn put(path: std::path::PathBuf, text: &str) {
        use std::io::Write as _;
        fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn what_a_folder_says_of_its_entries_is_what_they_say_themselves() {
        let (folder, workspace) = room();
        let base = folder.path();
        fs::create_dir(base.join("folder")).unwrap();
        put(base.join("folder/below"), "12345");
        symlink("folder", base.join("link")).unwrap();
        std::os::unix::net::UnixListener::bind(base.join("socket")).unwrap();
        let all = workspace.walk(&workspace.resolve(".").unwrap(), Bounds::default()).unwrap();
        let all: Vec<Entry> = all.map(Result::unwrap).collect();
        let seen: Vec<_> =
            all.iter().map(|entry| (entry.place().to_string(), entry.kind())).collect();
        let wanted = [
            ("folder", FileKind::Folder),
            ("folder/below", FileKind::File),
            ("link", FileKind::Link),
            ("socket", FileKind::Special),
        ];
        assert_eq!(seen, wanted.map(|(path, kind)| (path.to_owned(), kind)));
        for entry in &all {
            assert_eq!(entry.meta().unwrap().kind, entry.kind());
        }
        assert_eq!(all[1].meta().unwrap().size, 5);
    }

    #[test]
    fn a_file_that_became_something_else_since_its_folder_was_read_is_not_opened() {
        let (folder, workspace) = room();
        let path = folder.path().join("file");
        let see = || workspace.list(&workspace.resolve(".").unwrap(), 10).unwrap().pop().unwrap();
        put(path.clone(), "text");
        let entry = see();
        fs::remove_file(&path).unwrap();
        assert_eq!(entry.meta().unwrap_err().cause(), PathErrorKind::NotFound);
        symlink("/etc/passwd", &path).unwrap();
        assert_eq!(entry.open().unwrap_err().cause(), PathErrorKind::Changed);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(entry.open().unwrap_err().cause(), PathErrorKind::IsAFolder);
        assert_eq!(entry.kind(), FileKind::File, "it is what it was");
    }

    #[test]
    fn a_file_beside_an_entry_is_read_by_its_name_and_never_through_a_link() {
        let (folder, workspace) = room();
        let base = folder.path();
        fs::create_dir(base.join("sub")).unwrap();
        put(base.join("sub/entry"), "");
        put(base.join("sub/rules"), "*.log");
        put(base.join("outside"), "secret");
        symlink("../outside", base.join("sub/link")).unwrap();
        let all = workspace.list(&workspace.resolve("sub").unwrap(), 10).unwrap();
        let read =
            |name: &str, cap| all[0].read_beside(name, cap).map_err(|refusal| refusal.cause());
        assert_eq!(read("rules", 100), Ok(Some(b"*.log".to_vec())));
        assert_eq!(read("rules", 4), Err(PathErrorKind::TooLarge));
        assert_eq!(read("gone", 100), Ok(None));
        assert_eq!(read("link", 100), Err(PathErrorKind::Changed));
        for name in ["../outside", "..", ".", "", "/etc/passwd", "a\0b"] {
            assert_eq!(read(name, 100), Err(PathErrorKind::NameInvalid), "{name:?}");
        }
    }
}
