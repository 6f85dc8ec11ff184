//! File access confined to a set of roots, each held by a directory file descriptor.
//!
//! In: paths as a model writes them. Out: a [`ResolvedPath`] without symlinks and `..`, and file
//! operations on it. No operation takes a path of the host. Operations follow no symlink, open no
//! special file, and replace files atomically instead of writing into them.
//!
//! INVARIANT: nothing outside the roots is read or changed, even if a directory or symlink is
//! swapped between resolution and use (path traversal, TOCTOU). INVARIANT: protected names are
//! written only by a workspace that was granted them.

mod path_error;
mod root;
mod name;
mod protect;
mod deny_patterns;
mod git_config;
mod git_directory;
mod open_beneath;
mod resolve;
mod open;
mod write;
mod walk;
mod tree;

use std::{
    fmt,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::{Mode, OFlags};

pub(crate) use self::git_config::{NAMED_BY_GIT, NamedFiles};
pub(crate) use self::open_beneath::{SEARCH, open_below};
pub use self::{
    deny_patterns::DeniedNames,
    git_directory::GitDirectory,
    open::{FileKind, FileMeta, FileVersion, OpenFile},
    path_error::{PathError, PathErrorKind},
    protect::{PROTECTED, ProtectedName},
    root::{Access, Root},
    tree::{DeleteScope, TreeReport},
    walk::{Walk, WalkEntry, WalkLimits},
    write::{AtomicWrite, Replace},
};
use self::{
    git_config::LastNamed,
    name::Step,
    protect::{ProtectedNames, Protection},
    resolve::{Last, resolve},
};
use crate::{Error, ErrorKind};

/// The directories that a run may work in.
///
/// ```
/// use haft_sandbox::{Access, PathErrorKind, Replace, Workspace};
///
/// let directory = tempfile::tempdir().unwrap();
/// let workspace = Workspace::builder().root(directory.path(), Access::Write).build()?;
///
/// let notes = workspace.resolve("notes.txt").unwrap();
/// workspace.write(&notes, b"hello", Replace::Never).unwrap();
/// assert_eq!(workspace.read(&notes, 1_000).unwrap(), b"hello");
///
/// assert_eq!(workspace.resolve("../up").unwrap_err().cause(), PathErrorKind::OutsideWorkspace);
/// let hook = workspace.resolve(".git/hooks/pre-commit").unwrap();
/// assert_eq!(workspace.write(&hook, b"", Replace::Never).unwrap_err().cause(), PathErrorKind::Protected);
/// # Ok::<(), haft_sandbox::SandboxError>(())
/// ```
#[derive(Clone)]
pub struct Workspace {
    inner: Arc<Inner>,
    granted: Arc<[ResolvedPath]>,
}

struct Inner {
    roots: Vec<RootDirectory>,
    protected: ProtectedNames,
    /// Git directories of linked worktrees. Commands can use them, file tools cannot.
    git: Vec<(GitDirectory, Root)>,
    git_notes: Vec<String>,
    named: LastNamed,
}

/// One root, opened once.
struct RootDirectory {
    /// The path as it was given.
    named: PathBuf,
    /// The canonical path, without symlinks.
    path: Arc<Path>,
    access: Access,
    handle: OwnedFd,
    identity: (u64, u64),
}

impl RootDirectory {
    fn root(&self) -> Root {
        let identity = Some(self.identity);
        Root { path: self.path.to_path_buf(), access: self.access, identity }
    }
}

/// A path below one root, without symlinks and `..`. Created by [`Workspace::resolve`].
/// Authorization and execution use the same value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResolvedPath {
    root: usize,
    base: Arc<Path>,
    path: PathBuf,
    exists: bool,
}

impl ResolvedPath {
    /// Returns the path relative to its root, without symlinks and `..`. Empty for the root itself.
    #[must_use]
    pub fn relative(&self) -> &Path {
        &self.path
    }

    /// Returns the absolute path, for display and comparison. Do not open files with it.
    #[must_use]
    pub fn absolute(&self) -> PathBuf {
        if self.path.as_os_str().is_empty() {
            self.base.to_path_buf()
        } else {
            self.base.join(&self.path)
        }
    }

    /// Returns the path of its root.
    #[must_use]
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Returns the index of its root, in the order they were added.
    #[must_use]
    pub fn root(&self) -> usize {
        self.root
    }

    /// Returns whether it existed when it was resolved.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.exists
    }

    /// Returns its parent directory, `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<ResolvedPath> {
        let path = self.path.parent()?.to_path_buf();
        Some(ResolvedPath { root: self.root, base: self.base.clone(), path, exists: self.exists })
    }

    /// Returns the path of another name in the same directory.
    fn with_name(&self, name: &str) -> Result<ResolvedPath, PathError> {
        let is_name = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
        if !is_name || name::check(Path::new(name)).is_err() {
            return Err(self.refuse(PathErrorKind::NameInvalid));
        }
        let path = self.path.with_file_name(name);
        Ok(ResolvedPath { root: self.root, base: self.base.clone(), path, exists: true })
    }

    fn shown(&self) -> String {
        if self.path.as_os_str().is_empty() {
            ".".to_owned()
        } else {
            self.path.to_string_lossy().into_owned()
        }
    }

    fn refuse(&self, cause: PathErrorKind) -> PathError {
        PathError::new(cause, self.shown())
    }

    /// Converts an I/O error at this path.
    fn io(&self, error: std::io::Error) -> PathError {
        PathError::io(&self.shown(), error)
    }

    /// Converts an errno at this path. A symlink here was swapped in after the path was resolved.
    fn os(&self, errno: rustix::io::Errno) -> PathError {
        match errno {
            rustix::io::Errno::LOOP | rustix::io::Errno::AGAIN => {
                self.refuse(PathErrorKind::Changed)
            }
            errno => PathError::os(&self.shown(), errno),
        }
    }
}

impl fmt::Display for ResolvedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl Workspace {
    /// Creates a builder without roots.
    #[must_use]
    pub fn builder() -> WorkspaceBuilder {
        WorkspaceBuilder::default()
    }

    /// Resolves a path. Relative paths start at the first root. A symlink at the end is followed.
    /// The path does not have to exist.
    ///
    /// # Errors
    /// Rejects paths outside every root (path traversal), symlink loops, and invalid paths.
    pub fn resolve(&self, path: impl AsRef<Path>) -> Result<ResolvedPath, PathError> {
        resolve(self, None, path.as_ref(), Last::Follow)
    }

    /// Resolves an entry itself: a symlink at the end is not followed. For moving and deleting.
    ///
    /// # Errors
    /// Like [`resolve`](Self::resolve).
    pub fn resolve_entry(&self, path: impl AsRef<Path>) -> Result<ResolvedPath, PathError> {
        resolve(self, None, path.as_ref(), Last::Keep)
    }

    /// Resolves a path relative to another one.
    ///
    /// # Errors
    /// Like [`resolve`](Self::resolve).
    pub fn resolve_from(
        &self,
        start: &ResolvedPath,
        path: impl AsRef<Path>,
    ) -> Result<ResolvedPath, PathError> {
        resolve(self, Some(start), path.as_ref(), Last::Follow)
    }

    /// Like [`resolve_from`](Self::resolve_from), for the entry itself.
    ///
    /// # Errors
    /// Like [`resolve`](Self::resolve).
    pub fn resolve_entry_from(
        &self,
        start: &ResolvedPath,
        path: impl AsRef<Path>,
    ) -> Result<ResolvedPath, PathError> {
        resolve(self, Some(start), path.as_ref(), Last::Keep)
    }

    /// Returns whether a write here needs a grant that this workspace does not have.
    #[must_use]
    pub fn is_protected(&self, resolved: &ResolvedPath) -> bool {
        self.protection_of(resolved) == Protection::Protected
    }

    /// Returns whether a file here needs such a grant. A file in the place of a directory with
    /// protected names does too: a file `.git` says in which directory the hooks are.
    #[must_use]
    pub fn is_protected_file(&self, resolved: &ResolvedPath) -> bool {
        self.protection_of(resolved) != Protection::Unprotected
    }

    /// Returns a workspace that may also write at and below these paths, protected or not. This
    /// workspace does not change.
    #[must_use]
    pub fn with_writable(&self, places: impl IntoIterator<Item = ResolvedPath>) -> Workspace {
        let granted = self.granted.iter().cloned().chain(places).collect();
        Workspace { inner: self.inner.clone(), granted }
    }

    /// Returns the roots for a profile.
    #[must_use]
    pub fn roots(&self) -> Vec<Root> {
        self.inner.roots.iter().map(RootDirectory::root).collect()
    }

    /// Returns the git directories of roots that are linked worktrees, each with its root for a
    /// profile. See [`WorkspaceBuilder::linked_worktrees`].
    pub(crate) fn git_directories(&self) -> impl Iterator<Item = &(GitDirectory, Root)> {
        self.inner.git.iter()
    }

    /// Returns why `.git` files of roots were not followed, one line each.
    #[must_use]
    pub fn git_notes(&self) -> &[String] {
        &self.inner.git_notes
    }

    /// Returns the protected names, as they were given.
    #[must_use]
    pub fn protected_names(&self) -> Vec<String> {
        self.inner.protected.names().to_vec()
    }

    /// FAIL CLOSED: called before every write.
    fn may_write(&self, resolved: &ResolvedPath) -> Result<(), PathError> {
        let directory = self.directory(resolved)?;
        if directory.access != Access::Write {
            return Err(resolved.refuse(PathErrorKind::ReadOnly));
        }
        if resolved.path.as_os_str().is_empty() {
            return Err(resolved.refuse(PathErrorKind::IsADirectory));
        }
        match self.protection_of(resolved) {
            Protection::Protected => Err(resolved.refuse(PathErrorKind::Protected)),
            Protection::Contains | Protection::Unprotected => Ok(()),
        }
    }

    /// Called before an entry is deleted, moved or replaced. A directory with protected names below
    /// it may not be moved: its files would lose their protection.
    fn may_move(&self, resolved: &ResolvedPath) -> Result<(), PathError> {
        self.may_write(resolved)?;
        match self.protection_of(resolved) {
            Protection::Unprotected => Ok(()),
            Protection::Contains | Protection::Protected => {
                Err(resolved.refuse(PathErrorKind::Protected))
            }
        }
    }

    fn directory(&self, resolved: &ResolvedPath) -> Result<&RootDirectory, PathError> {
        let directory =
            self.inner.roots.get(resolved.root).filter(|directory| directory.path == resolved.base);
        directory.ok_or_else(|| resolved.refuse(PathErrorKind::OutsideWorkspace))
    }

    fn handle(&self, root: usize) -> Option<BorrowedFd<'_>> {
        self.inner.roots.get(root).map(|directory| directory.handle.as_fd())
    }

    fn base(&self, root: usize) -> Arc<Path> {
        self.inner
            .roots
            .get(root)
            .map_or_else(|| Path::new("").into(), |directory| directory.path.clone())
    }

    /// Finds the root of an absolute path, by whole components. The innermost root wins.
    fn below<'p>(&self, path: &'p Path) -> Option<(usize, &'p Path)> {
        let in_root = |(root, directory): (usize, &RootDirectory)| {
            let rest =
                path.strip_prefix(&directory.path).or_else(|_| path.strip_prefix(&directory.named));
            rest.ok().map(|rest| (root, rest))
        };
        let all = self.inner.roots.iter().enumerate().filter_map(in_root);
        all.min_by_key(|(_, rest)| rest.components().count())
    }
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roots = self.inner.roots.iter().map(|directory| (&directory.path, directory.access));
        f.debug_struct("Workspace")
            .field("roots", &roots.collect::<Vec<_>>())
            .field("granted", &self.granted)
            .finish_non_exhaustive()
    }
}

/// A workspace grants single paths, see [`Workspace::with_writable`].
const NO_EXCEPTIONS: [&str; 0] = [];

/// Collects the roots of a workspace.
#[derive(Debug, Clone)]
pub struct WorkspaceBuilder {
    roots: Vec<(PathBuf, Access)>,
    protected: Vec<String>,
    has_linked_worktrees: bool,
}

impl Default for WorkspaceBuilder {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            protected: PROTECTED.iter().map(|name| name.pattern.to_owned()).collect(),
            has_linked_worktrees: false,
        }
    }
}

impl WorkspaceBuilder {
    /// Adds a root, by an absolute path. Relative paths start at the first one.
    #[must_use]
    pub fn root(mut self, path: impl Into<PathBuf>, access: Access) -> Self {
        self.roots.push((path.into(), access));
        self
    }

    /// Protects these names too, below every root, at any depth. A component `*` matches any name.
    /// A name that begins with `./` holds at the top of each root only.
    #[must_use]
    pub fn protect(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.protected.extend(names.into_iter().map(Into::into));
        self
    }

    /// Protects these names and no others.
    #[must_use]
    pub fn protect_only(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.protected = names.into_iter().map(Into::into).collect();
        self
    }

    /// Lets commands commit in a root that is a linked worktree (`git worktree add`) of a
    /// repository outside of the roots. They can read its git directory and write what a commit
    /// needs.
    ///
    /// The repository must have the same owner and must list the root as its worktree. The `.git`
    /// file of the root alone grants nothing. Use it for directories that the user chose.
    #[must_use]
    pub fn linked_worktrees(mut self) -> Self {
        self.has_linked_worktrees = true;
        self
    }

    /// Opens the roots.
    ///
    /// # Errors
    /// Fails if there is no root, a root is not a directory or cannot be opened, or a protected
    /// name is not a plain relative path.
    pub fn build(self) -> Result<Workspace, Error> {
        let bad = |message: String| Error::new(ErrorKind::BadProfile, message);
        if self.roots.is_empty() {
            return Err(bad("a workspace needs at least one root".to_owned()));
        }
        for name in &self.protected {
            let steps =
                name::check(Path::new(name)).ok().and_then(|()| name::steps(Path::new(name)));
            let is_plain =
                steps.is_some_and(|steps| !steps.is_empty() && !steps.contains(&Step::Up));
            if !is_plain {
                return Err(bad(format!(
                    "the protected name `{name}` is not a plain relative path"
                )));
            }
        }
        let mut roots = Vec::new();
        for (named, access) in self.roots {
            let shown = named.display().to_string();
            if !named.is_absolute() {
                return Err(bad(format!("the root `{shown}` is not absolute"))
                    .hint("`std::path::absolute` returns an absolute path"));
            }
            let cannot = |e: std::io::Error| {
                bad(format!("the root `{shown}` cannot be opened: {e}")).because(e)
            };
            let path = named.canonicalize().map_err(cannot)?;
            let how = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let handle =
                rustix::fs::open(&path, how, Mode::empty()).map_err(|e| cannot(e.into()))?;
            let stat = rustix::fs::fstat(&handle).map_err(|e| cannot(e.into()))?;
            let identity = open::identity(&stat);
            roots.push(RootDirectory { named, path: path.into(), access, handle, identity });
        }
        let protected = ProtectedNames::new(self.protected, NO_EXCEPTIONS);
        let (mut git, mut git_notes) = (Vec::new(), Vec::new());
        if self.has_linked_worktrees {
            let all: Vec<Root> = roots.iter().map(RootDirectory::root).collect();
            for (root, directory) in all.iter().zip(&roots) {
                match GitDirectory::find(root, directory.handle.as_fd(), &all) {
                    Ok(found) => git.extend(found),
                    Err(why) => {
                        let file = root.path.join(".git");
                        git_notes.push(format!("`{}` is not followed: {why}", file.display()));
                    }
                }
            }
        }
        let inner = Inner { roots, protected, git, git_notes, named: LastNamed::default() };
        Ok(Workspace { inner: Arc::new(inner), granted: Arc::new([]) })
    }
}
