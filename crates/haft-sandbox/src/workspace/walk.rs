//! Walks a directory tree by file descriptors and follows no symlink.
//!
//! Entries are sorted by name, a directory comes before its contents. Entries and depth are
//! bounded; exceeding a bound is an error. The kind of an entry comes from `getdents`, without an
//! extra syscall per entry. Opening checks it again (TOCTOU).

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
    FileKind, FileMeta, OpenFile, PathError, PathErrorKind, ResolvedPath, Workspace,
    open::{self, meta},
    open_beneath::open_below,
};

/// Limits of a recursive operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkLimits {
    /// Maximum number of entries.
    pub entries: usize,
    /// Maximum depth. A depth of 1 is the directory alone.
    pub depth: usize,
    /// Maximum number of bytes that are copied.
    pub bytes: u64,
}

impl Default for WalkLimits {
    fn default() -> Self {
        Self {
            entries: 200_000, // the sources of a large project with its dependencies
            depth: 64,        // deeper than real trees; each level holds a file descriptor
            bytes: 4 << 30,   // more is a backup, not a copy
        }
    }
}

impl WalkLimits {
    /// Returns the limits for a directory alone, without the contents of its subdirectories.
    #[must_use]
    pub fn without_subdirectories(self) -> Self {
        Self { depth: 1, ..self }
    }
}

/// One entry of a walk.
#[derive(Debug, Clone)]
pub struct WalkEntry {
    resolved: ResolvedPath,
    kind: FileKind,
    directory: Arc<OpenDirectory>,
    level: usize,
}

/// A directory of the walk.
#[derive(Debug)]
struct OpenDirectory {
    handle: OwnedFd,
    /// The device of the root.
    device: u64,
}

impl WalkEntry {
    /// Returns its path.
    #[must_use]
    pub fn resolved(&self) -> &ResolvedPath {
        &self.resolved
    }

    /// Returns its kind when its directory was read.
    #[must_use]
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// Returns its current metadata. A symlink is not followed.
    ///
    /// # Errors
    /// Fails if it is gone or not accessible.
    pub fn meta(&self) -> Result<FileMeta, PathError> {
        let stat =
            rustix::fs::statat(&self.directory.handle, self.name(), AtFlags::SYMLINK_NOFOLLOW);
        Ok(meta(&stat.map_err(|errno| self.resolved.os(errno))?))
    }

    /// Returns its depth: 1 for entries of the directory where the walk started.
    #[must_use]
    pub fn level(&self) -> usize {
        self.level
    }

    /// Opens it for reading, relative to the file descriptor of its directory.
    ///
    /// # Errors
    /// Refuses anything but a regular file, even if it was swapped after the walk (TOCTOU).
    pub fn open(&self) -> Result<OpenFile, PathError> {
        let handle =
            open_below(self.directory.handle.as_fd(), self.name().as_ref(), OFlags::RDONLY);
        let handle = handle.map_err(|errno| self.resolved.os(errno))?;
        open::regular(handle, &self.resolved, self.directory.device)
    }

    /// Reads another file in the same directory. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// Like [`open`](Self::open). Refuses a file of more than `cap` bytes.
    pub fn read_sibling(&self, name: &str, cap: usize) -> Result<Option<Vec<u8>>, PathError> {
        let resolved = self.resolved.with_name(name)?;
        match open_below(self.directory.handle.as_fd(), name.as_ref(), OFlags::RDONLY) {
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(resolved.os(errno)),
            Ok(handle) => open::read_whole(
                open::regular(handle, &resolved, self.directory.device)?,
                &resolved,
                cap,
            )
            .map(Some),
        }
    }

    fn name(&self) -> &OsStr {
        self.resolved.path.file_name().unwrap_or_default()
    }
}

impl Workspace {
    /// Walks a directory tree.
    ///
    /// # Errors
    /// Fails if the path is not a directory or cannot be read.
    pub fn walk(&self, resolved: &ResolvedPath, bounds: WalkLimits) -> Result<Walk, PathError> {
        self.start_walk(resolved, bounds, false)
    }

    /// Starts a walk. With `may_cut`, entries beyond the bound are left out without an error.
    fn start_walk(
        &self,
        resolved: &ResolvedPath,
        bounds: WalkLimits,
        may_cut: bool,
    ) -> Result<Walk, PathError> {
        let root = self.directory(resolved)?;
        let how = OFlags::RDONLY | OFlags::DIRECTORY;
        let handle = open_below(root.handle.as_fd(), &resolved.path, how)
            .map_err(|errno| resolved.os(errno))?;
        let mut walk = Walk {
            stack: Vec::new(),
            device: root.identity.0,
            left: bounds.entries,
            bounds,
            may_cut,
            is_cut: false,
            next: None,
            buffer: Vec::new(),
        };
        walk.enter(resolved.clone(), handle)?;
        Ok(walk)
    }

    /// Lists a directory, sorted by name.
    ///
    /// # Errors
    /// Like [`walk`](Self::walk). Refuses a directory with more than `entries` entries.
    pub fn list(
        &self,
        resolved: &ResolvedPath,
        entries: usize,
    ) -> Result<Vec<WalkEntry>, PathError> {
        self.walk(
            resolved,
            WalkLimits { entries, ..WalkLimits::default() }.without_subdirectories(),
        )?
        .collect()
    }

    /// Lists at most `entries` entries of a directory, sorted by name, and returns whether there
    /// are more. The file system decides which entries of a larger directory are listed.
    ///
    /// # Errors
    /// Like [`walk`](Self::walk).
    pub fn list_at_most(
        &self,
        resolved: &ResolvedPath,
        entries: usize,
    ) -> Result<(Vec<WalkEntry>, bool), PathError> {
        let bounds = WalkLimits { entries, ..WalkLimits::default() }.without_subdirectories();
        let walk = self.start_walk(resolved, bounds, true)?;
        let is_cut = walk.is_cut;
        Ok((walk.collect::<Result<_, _>>()?, is_cut))
    }
}

/// Iterates over a directory tree. An error of one entry is returned and skipped; a bound ends it.
#[derive(Debug)]
pub struct Walk {
    stack: Vec<Level>,
    device: u64,
    bounds: WalkLimits,
    left: usize,
    /// Whether more entries than the bound are left out, instead of being an error.
    may_cut: bool,
    /// Whether entries were left out.
    is_cut: bool,
    /// The directory that was returned last. It is entered next unless it is skipped.
    next: Option<(ResolvedPath, Arc<OpenDirectory>)>,
    /// Buffer for directory entries.
    buffer: Buffer,
}

#[derive(Debug)]
struct Level {
    resolved: ResolvedPath,
    here: Arc<OpenDirectory>,
    /// Sorted by name, in reverse.
    names: Vec<(OsString, FileType)>,
}

impl Walk {
    /// Skips the contents of the directory that was returned last.
    pub fn skip_entry(&mut self) {
        self.next = None;
    }

    fn enter(&mut self, resolved: ResolvedPath, handle: OwnedFd) -> Result<(), PathError> {
        let mut names: Vec<(OsString, FileType)> = Vec::new();
        let left = &mut self.left;
        let is_whole = read_names(&handle, &mut self.buffer, |name, kind| {
            if name == b"." || name == b".." {
                return true;
            }
            // Checked before a name is stored, so that a huge directory costs no more than the
            // bound.
            let is_within_bound = *left > 0;
            if is_within_bound {
                *left -= 1;
                names.push((OsStr::from_bytes(name).to_owned(), kind));
            }
            is_within_bound
        });
        if !is_whole.map_err(|errno| resolved.os(errno))? {
            if !self.may_cut {
                return Err(resolved.refuse(PathErrorKind::TooMany));
            }
            self.is_cut = true;
        }
        names.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
        let here = Arc::new(OpenDirectory { handle, device: self.device });
        self.stack.push(Level { resolved, here, names });
        Ok(())
    }

    fn step(&mut self) -> Result<Option<WalkEntry>, PathError> {
        if let Some((resolved, directory)) = self.next.take() {
            if self.stack.len() >= self.bounds.depth {
                // A depth of 1 asks for the directory alone, so this is no exceeded bound.
                if self.bounds.depth > 1 {
                    self.stack.clear();
                    return Err(resolved.refuse(PathErrorKind::TooMany));
                }
            } else {
                let how = OFlags::RDONLY | OFlags::DIRECTORY;
                let name = resolved.path.file_name().unwrap_or_default();
                let handle = open_below(directory.handle.as_fd(), name.as_ref(), how)
                    .map_err(|errno| resolved.os(errno))?;
                self.enter(resolved, handle).inspect_err(|refusal| {
                    if refusal.cause() == PathErrorKind::TooMany {
                        self.stack.clear();
                    }
                })?;
            }
        }
        loop {
            let level = self.stack.len();
            let Some(Level { resolved, here, names }) = self.stack.last_mut() else {
                return Ok(None);
            };
            let Some((name, kind)) = names.pop() else {
                self.stack.pop();
                continue;
            };
            let (root, base, path) =
                (resolved.root, resolved.base.clone(), resolved.path.join(&name));
            let resolved = ResolvedPath { root, base, path, exists: true };
            let kind = match kind {
                // Some file systems do not return the type with the name.
                FileType::Unknown => {
                    match rustix::fs::statat(&here.handle, &name, AtFlags::SYMLINK_NOFOLLOW) {
                        Err(Errno::NOENT) => continue, // gone since the directory was read
                        stat => meta(&stat.map_err(|errno| resolved.os(errno))?).kind,
                    }
                }
                kind => kind.into(),
            };
            if kind == FileKind::Directory {
                self.next = Some((resolved.clone(), here.clone()));
            }
            return Ok(Some(WalkEntry { resolved, kind, directory: here.clone(), level }));
        }
    }
}

impl Iterator for Walk {
    type Item = Result<WalkEntry, PathError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

#[cfg(target_os = "linux")]
type Buffer = Vec<std::mem::MaybeUninit<u8>>;
#[cfg(not(target_os = "linux"))]
type Buffer = Vec<()>;

/// Size of the buffer for directory entries: some hundreds of names.
#[cfg(target_os = "linux")]
const BUFFER_BYTES: usize = 32 << 10;

/// Passes the names and types of a directory to `take` until it returns `false`. Returns whether
/// the end was reached. The file descriptor is read from its current position, once.
#[cfg(target_os = "linux")]
fn read_names(
    handle: &OwnedFd,
    buffer: &mut Buffer,
    mut take: impl FnMut(&[u8], FileType) -> bool,
) -> Result<bool, Errno> {
    buffer.resize(BUFFER_BYTES, std::mem::MaybeUninit::uninit());
    let mut directory = rustix::fs::RawDir::new(handle, buffer);
    while let Some(entry) = directory.next() {
        let entry = entry?;
        if !take(entry.file_name().to_bytes(), entry.file_type()) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(not(target_os = "linux"))]
fn read_names(
    handle: &OwnedFd,
    _: &mut Buffer,
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

    fn workspace_in_a_temporary_directory() -> (tempfile::TempDir, Workspace) {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::builder().root(directory.path(), Access::Write).build().unwrap();
        (directory, workspace)
    }

    fn put(path: std::path::PathBuf, text: &str) {
        use std::io::Write as _;
        fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn kinds_from_getdents_agree_with_stat() {
        let (directory, workspace) = workspace_in_a_temporary_directory();
        let base = directory.path();
        fs::create_dir(base.join("directory")).unwrap();
        put(base.join("directory/below"), "12345");
        symlink("directory", base.join("link")).unwrap();
        std::os::unix::net::UnixListener::bind(base.join("socket")).unwrap();
        let all = workspace.walk(&workspace.resolve(".").unwrap(), WalkLimits::default()).unwrap();
        let all: Vec<WalkEntry> = all.map(Result::unwrap).collect();
        let seen: Vec<_> =
            all.iter().map(|entry| (entry.resolved().to_string(), entry.kind())).collect();
        let wanted = [
            ("directory", FileKind::Directory),
            ("directory/below", FileKind::File),
            ("link", FileKind::Symlink),
            ("socket", FileKind::Special),
        ];
        assert_eq!(seen, wanted.map(|(path, kind)| (path.to_owned(), kind)));
        for entry in &all {
            assert_eq!(entry.meta().unwrap().kind, entry.kind());
        }
        assert_eq!(all[1].meta().unwrap().size, 5);
    }

    #[test]
    fn file_swapped_after_the_directory_was_read_is_not_opened() {
        let (directory, workspace) = workspace_in_a_temporary_directory();
        let path = directory.path().join("file");
        let see = || workspace.list(&workspace.resolve(".").unwrap(), 10).unwrap().pop().unwrap();
        put(path.clone(), "text");
        let entry = see();
        fs::remove_file(&path).unwrap();
        assert_eq!(entry.meta().unwrap_err().cause(), PathErrorKind::NotFound);
        symlink("/etc/passwd", &path).unwrap();
        assert_eq!(entry.open().unwrap_err().cause(), PathErrorKind::Changed);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(entry.open().unwrap_err().cause(), PathErrorKind::IsADirectory);
        assert_eq!(entry.kind(), FileKind::File, "it is what it was");
    }

    #[test]
    fn sibling_file_is_read_by_name_and_never_through_a_symlink() {
        let (directory, workspace) = workspace_in_a_temporary_directory();
        let base = directory.path();
        fs::create_dir(base.join("sub")).unwrap();
        put(base.join("sub/entry"), "");
        put(base.join("sub/rules"), "*.log");
        put(base.join("outside"), "secret");
        symlink("../outside", base.join("sub/link")).unwrap();
        let all = workspace.list(&workspace.resolve("sub").unwrap(), 10).unwrap();
        let read =
            |name: &str, cap| all[0].read_sibling(name, cap).map_err(|refusal| refusal.cause());
        assert_eq!(read("rules", 100), Ok(Some(b"*.log".to_vec())));
        assert_eq!(read("rules", 4), Err(PathErrorKind::TooLarge));
        assert_eq!(read("gone", 100), Ok(None));
        assert_eq!(read("link", 100), Err(PathErrorKind::Changed));
        for name in ["../outside", "..", ".", "", "/etc/passwd", "a\0b"] {
            assert_eq!(read(name, 100), Err(PathErrorKind::NameInvalid), "{name:?}");
        }
    }
}
