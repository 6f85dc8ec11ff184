//! Decides which names a command may create, change and remove.
//!
//! In: the real path of an entry and the change. Out: allowed, or an errno and an entry in the list
//! of refusals. Checks the real path, so a symlink or another spelling cannot bypass a protected
//! name.

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::HashMap,
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use haft_core::protected_names::{Change, ProtectedNames, is_move_allowed, is_spelling_of};
use rustix::io::Errno;

use super::super::SetupError;
use crate::{
    DeniedNames, GitDirectory, Profile, RefusedChange, Root,
    workspace::{NAMED_BY_GIT, NamedFiles},
};

/// Refusals that are kept per command.
const MAX_REFUSALS: usize = 16;
/// Directories whose git configuration is cached.
const MAX_CACHED_DIRECTORIES: usize = 4096;

const BARE_REPOSITORY: &str = "git takes the directory for a repository and obeys it";
const TARGET: &str = "a protected name is a symlink to it";
/// The name of a git directory.
const GIT: &str = ".git";
/// The protected name of the git directories of submodules.
const MODULES: &str = ".git/modules";
/// Why a denied name is refused.
const DENIED: &str = "a rule denies it";

/// The refusals of one command, shared with the process that reports them.
#[derive(Debug, Clone, Default)]
pub(in crate::helper) struct Refusals(Arc<Mutex<Vec<RefusedChange>>>);

impl Refusals {
    fn add(&self, path: &Path, reason: &str) {
        // The report is JSON: one path that is not UTF-8 would lose the whole report.
        let path = PathBuf::from(path.to_string_lossy().into_owned());
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() < MAX_REFUSALS && list.iter().all(|known| known.path != path) {
            list.push(RefusedChange { path, reason: reason.to_owned() });
        }
    }

    pub(in crate::helper) fn take(&self) -> Vec<RefusedChange> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The name rules of one command.
pub(in crate::helper) struct Names {
    roots: Vec<(PathBuf, Option<GitDirectory>)>,
    /// Targets of protected names that are symlinks.
    targets: Vec<PathBuf>,
    protected: ProtectedNames,
    exceptions: Vec<String>,
    /// Names that the configuration of git protects, by directory.
    named: RefCell<HashMap<PathBuf, Option<Arc<ProtectedNames>>>>,
    denied: DeniedNames,
    /// Where modes may be changed if no mounts limit it: the roots and the temporary directory.
    modes: Option<Vec<PathBuf>>,
    refusals: Refusals,
}

impl Names {
    pub(in crate::helper) fn new(
        profile: &Profile,
        scratch: Option<Option<PathBuf>>,
        refusals: Refusals,
    ) -> Result<Self, SetupError> {
        let roots = profile.writable().map(|root| root.path.clone());
        Ok(Self {
            roots: profile
                .writable()
                .map(|root| (root.path.clone(), profile.git_directory(root).cloned()))
                .collect(),
            targets: targets(profile),
            protected: ProtectedNames::new(&profile.protected, exceptions(profile)),
            exceptions: exceptions(profile),
            named: RefCell::default(),
            denied: DeniedNames::new(&profile.denied.new).map_err(SetupError::profile)?,
            modes: scratch.map(|scratch| roots.chain(scratch).collect()),
            refusals,
        })
    }

    /// Checks whether a change is allowed at a path, and records a refusal.
    pub(super) fn check(&self, path: &Path, change: Change) -> Result<(), Errno> {
        match self.refusal(path, change) {
            None => Ok(()),
            Some(reason) => Err(self.refuse(path, &reason)),
        }
    }

    /// Records that a path was refused.
    pub(super) fn refuse(&self, path: &Path, reason: &str) -> Errno {
        self.refusals.add(path, reason);
        Errno::ACCESS
    }

    /// Returns why a change at a path would be refused.
    pub(super) fn refusal(&self, path: &Path, change: Change) -> Option<Cow<'static, str>> {
        self.evaluate(path, change).err()
    }

    /// Returns whether a change is allowed, without recording a refusal.
    pub(super) fn is_allowed(&self, path: &Path, change: Change) -> bool {
        self.evaluate(path, change).is_ok()
    }

    fn evaluate(&self, path: &Path, change: Change) -> Result<(), Cow<'static, str>> {
        if self.targets.iter().any(|target| path.starts_with(target)) {
            return Err(TARGET.into());
        }
        if self.denied.matches(path) {
            return Err(DENIED.into());
        }
        for (root, git) in &self.roots {
            let Ok(below) = path.strip_prefix(root) else { continue };
            if let Some(git) = git {
                self.evaluate_git(git, below, change)?;
                if completes_repository(root, below, &Path::new(GIT).join(below), change) {
                    return Err(BARE_REPOSITORY.into());
                }
                continue;
            }
            if let (Some(parent), false) = (path.parent(), below.as_os_str().is_empty())
                && let Some(named) = self.named_by_git(root, parent)
                && named.check(below, change).is_err()
            {
                return Err(NAMED_BY_GIT.into());
            }
            if let Err(refused) = self.protected.at(root).check(below, change) {
                let Some(named) = self.in_module(root, below) else {
                    return Err(refused.reason.into());
                };
                self.protected.check(&named, change).map_err(|refused| refused.reason)?;
            }
            if self
                .protected
                .possible_git_directories(below)
                .any(|directory| self.has_head(root, directory))
            {
                return Err(BARE_REPOSITORY.into());
            }
            let named = self.in_module(root, below);
            // Only an exception allows a new submodule, and it covers all of it.
            if named.is_none() && self.is_in_modules(below) {
                continue;
            }
            if completes_repository(root, below, named.as_deref().unwrap_or(below), change) {
                return Err(BARE_REPOSITORY.into());
            }
        }
        Ok(())
    }

    /// Returns the names that the configuration of git protects for entries of a directory.
    ///
    /// They are read once: the command cannot change the configuration, and a moved directory
    /// empties the cache. A command with exceptions may change it, so nothing is cached then.
    fn named_by_git(&self, root: &Path, directory: &Path) -> Option<Arc<ProtectedNames>> {
        if !self.exceptions.is_empty() {
            return self.find_named(root, directory);
        }
        if let Some(known) = self.named.borrow().get(directory) {
            return known.clone();
        }
        let is_repository = directory.join(GIT).symlink_metadata().is_ok();
        let found = match directory.parent().filter(|_| directory != root && !is_repository) {
            Some(parent) => self.named_by_git(root, parent),
            None => self.find_named(root, directory),
        };
        let mut named = self.named.borrow_mut();
        if named.len() >= MAX_CACHED_DIRECTORIES {
            named.clear();
        }
        named.insert(directory.to_owned(), found.clone());
        found
    }

    fn find_named(&self, root: &Path, directory: &Path) -> Option<Arc<ProtectedNames>> {
        let NamedFiles { names, .. } = NamedFiles::find(root, directory);
        (!names.is_empty()).then(|| Arc::new(ProtectedNames::new(names, &self.exceptions)))
    }

    /// Forgets where repositories are, because a directory was moved.
    pub(super) fn forget_repositories(&self) {
        self.named.borrow_mut().clear();
    }

    /// Returns whether one of the two names of a move would be refused.
    pub(super) fn is_move_refused(&self, from: &Path, to: &Path) -> bool {
        self.refusal(from, Change::MoveFrom).is_some() || self.refusal(to, Change::MoveTo).is_some()
    }

    /// Checks whether the mode of an existing file may be changed. Landlock does not check modes.
    pub(super) fn check_mode(&self, path: &Path) -> Result<(), Errno> {
        if let Some(modes) = &self.modes
            && !modes.iter().any(|writable| path.starts_with(writable))
        {
            return Err(Errno::PERM);
        }
        self.check(path, Change::Write)
    }

    /// Checks a change in the git directory of a linked worktree. The directory of the worktree in
    /// it has the role of `.git`.
    fn evaluate_git(
        &self,
        git: &GitDirectory,
        below: &Path,
        change: Change,
    ) -> Result<(), Cow<'static, str>> {
        git.check(below, change)?;
        let own = below.strip_prefix(git.own()).ok();
        for below in [Some(below), own].into_iter().flatten() {
            if let Err(refused) = self.protected.check(&Path::new(GIT).join(below), change) {
                return Err(refused.reason.into());
            }
        }
        Ok(())
    }

    /// Returns a path in the git directory of an existing submodule as if that were a `.git`
    /// directory. So a commit in a submodule works, and its configuration, hooks and modules are
    /// protected. A directory without a `HEAD` is no such directory yet and is protected as a
    /// whole.
    fn in_module(&self, root: &Path, below: &Path) -> Option<PathBuf> {
        if self.protected.pattern(below) != Some(MODULES) {
            return None;
        }
        let parts: Vec<&OsStr> = below.iter().collect();
        let is_modules = |pair: &[&OsStr]| pair == [GIT, "modules"];
        let start = parts.windows(2).position(is_modules)? + 2;
        let mut directory = root.to_owned();
        directory.extend(parts.get(..start)?);
        let mut rest = parts.get(start..)?;
        loop {
            let (part, after) = rest.split_first()?;
            directory.push(part);
            rest = after;
            if !directory.join("HEAD").symlink_metadata().is_ok_and(|meta| meta.is_file()) {
                continue;
            }
            match rest.split_first()? {
                (first, after) if *first == "modules" => {
                    directory.push(first);
                    rest = after;
                }
                (first, after) if is_nested(first, after) => return None,
                // An exception that is anchored at the root applies to another repository.
                _ => return Some(Path::new("module").join(GIT).join(PathBuf::from_iter(rest))),
            }
        }
    }

    /// Returns whether a path is in a `.git/modules` directory.
    fn is_in_modules(&self, below: &Path) -> bool {
        let parts: Vec<&OsStr> = below.iter().collect();
        self.protected.names().iter().any(|name| name == MODULES)
            && parts.windows(2).any(|pair| pair == [GIT, "modules"])
    }

    /// Returns the part of a submodule's git directory that a path is in; files at its top are one
    /// part. Entries cannot be moved between parts: a directory that is prepared below `refs` would
    /// become a repository with its own configuration elsewhere.
    fn part_of_module(&self, path: &Path) -> Option<PathBuf> {
        let find = |(root, _): &(PathBuf, _)| self.in_module(root, path.strip_prefix(root).ok()?);
        let named = self.roots.iter().find_map(find)?;
        let parts: Vec<&OsStr> = named.iter().skip(2).collect();
        Some(if parts.len() > 1 { parts.first()?.into() } else { PathBuf::new() })
    }

    /// Returns a path as the protected names are matched against it.
    fn named(&self, path: &Path) -> PathBuf {
        let find = |(root, git): &(PathBuf, Option<GitDirectory>)| {
            let below = path.strip_prefix(root).ok()?;
            Some(if git.is_some() { Path::new(GIT).join(below) } else { below.to_owned() })
        };
        self.roots.iter().find_map(find).unwrap_or_else(|| path.to_owned())
    }

    /// Returns whether git takes a directory for a repository, unless an exception allows it.
    fn has_head(&self, root: &Path, directory: &Path) -> bool {
        let head = directory.join("HEAD");
        self.protected.check(&head, Change::CreateFile).is_err()
            && root.join(head).symlink_metadata().is_ok()
    }

    /// Checks whether an entry may be moved. `EXDEV` makes programs copy instead, and each file of
    /// the copy is checked.
    pub(super) fn check_move(&self, from: &Path, to: &Path) -> Result<(), Errno> {
        self.check(from, Change::MoveFrom)?;
        self.check(to, Change::MoveTo)?;
        // No entry below may get a denied name, or lose one.
        if !self.denied.may_move(from, to) || !self.denied.may_move(to, from) {
            self.refusals.add(to, DENIED);
            return Err(Errno::ACCESS);
        }
        // A directory from outside of the roots could contain names that were never checked.
        let is_crossing = |(root, _): &(PathBuf, _)| from.starts_with(root) != to.starts_with(root);
        if self.roots.iter().any(is_crossing) {
            return Err(Errno::XDEV);
        }
        let is_allowed = is_move_allowed(&self.named(from), &self.named(to))
            && self.part_of_module(from) == self.part_of_module(to);
        if is_allowed { Ok(()) } else { Err(Errno::XDEV) }
    }
}

/// Returns whether a path in a git directory would configure a repository inside of it. Branches
/// may have any name.
fn is_nested(first: &OsStr, after: &[&OsStr]) -> bool {
    const CONFIGURATION: [&str; 4] = ["config", "config.worktree", "hooks", "commondir"];
    let is_branch = first == "refs" || first == "logs";
    !is_branch && after.iter().any(|part| CONFIGURATION.iter().any(|s| is_spelling_of(part, s)))
}

/// Returns the exceptions. One inside of `.git` also applies to the directory of a linked worktree,
/// where git keeps, for example, `rebase-merge`.
fn exceptions(profile: &Profile) -> Vec<String> {
    let mut all = profile.exceptions.clone();
    for exception in &profile.exceptions {
        let anchored = exception.strip_prefix("./").unwrap_or(exception);
        let Some(below) = anchored.strip_prefix(".git/") else { continue };
        let own = |git: &GitDirectory| format!("./{GIT}/worktrees/{}/{below}", git.worktree);
        all.extend(profile.git_directories.iter().map(own));
    }
    all
}

/// Names that together make a directory a repository, and names that git obeys in it.
const REPOSITORY: [&str; 3] = ["HEAD", "objects", "refs"];
const OBEYED: [&str; 4] = ["config", "config.worktree", "hooks", "commondir"];

/// Returns whether a new name would make its directory a repository that git obeys, also inside of
/// a `.git` directory, which a symlink could lead to. Syscalls are handled one after the other, so
/// two names cannot complete it at once (race). Spellings that a case-folding file system treats as
/// the name count too. `named` is the path as protected names are matched against it: in a git
/// directory that git knows, they apply already.
fn completes_repository(root: &Path, below: &Path, named: &Path, change: Change) -> bool {
    let (Some(name), Some(parent)) = (below.file_name(), below.parent()) else { return false };
    let is_name = |known: &&str| is_spelling_of(name, known);
    let is_new = !matches!(change, Change::Remove | Change::MoveFrom);
    if !is_new || !REPOSITORY.iter().chain(&OBEYED).any(is_name) {
        return false;
    }
    let known: Vec<&OsStr> = named.iter().rev().skip(1).take(3).collect();
    let is_known = known.first().is_some_and(|part| *part == GIT)
        || known.get(1..) == Some(&["worktrees".as_ref(), GIT.as_ref()]);
    if is_known {
        return false;
    }
    let directory = root.join(parent);
    let has = |known: &str| is_name(&known) || directory.join(known).symlink_metadata().is_ok();
    has("HEAD")
        && OBEYED.iter().any(|known| has(known))
        && (has("commondir") || has("objects") && has("refs"))
}

/// Returns the targets of protected names at the top of each root that are symlinks. Other programs
/// obey the target.
fn targets(profile: &Profile) -> Vec<PathBuf> {
    let names = profile.writable().flat_map(|root| {
        let below = profile.protected.iter().flat_map(|name| Profile::names_below(root, name));
        below.map(move |name| (root, name))
    });
    let target_elsewhere = |(root, name): (&Root, &Path)| {
        let path = root.path.join(name);
        path.canonicalize().ok().filter(|target| *target != path && *target != root.path)
    };
    names.filter_map(target_elsewhere).collect()
}
