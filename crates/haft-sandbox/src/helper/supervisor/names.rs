//! Which names a command may create, change and remove.
//!
//! In: the real path of an entry and what is to be done with it. Out: yes, or an error number and a line
//! in the list of refusals. Pure but for that list.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use haft_core::protected_names::{Change, Protected, is_move_allowed};
use rustix::io::Errno;

use super::super::Trouble;
use crate::{DeniedNames, Profile, Refused, Root};

/// So many refusals are remembered; a command that is refused once is often refused again.
const REMEMBERED: usize = 16;

const BARE_REPOSITORY: &str = "git takes the directory for a repository and obeys it";
const TARGET: &str = "a protected name is a symlink that leads here";
/// Why a denied name is refused.
const DENIED: &str = "a rule denies it";

/// The refusals of one command, shared with the process that reports them.
#[derive(Debug, Clone, Default)]
pub(in crate::helper) struct Refusals(Arc<Mutex<Vec<Refused>>>);

impl Refusals {
    fn add(&self, path: &Path, reason: &str) {
        // They are reported as JSON, which has text only: one path that is none would lose all.
        let path = PathBuf::from(path.to_string_lossy().into_owned());
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() < REMEMBERED && list.iter().all(|known| known.path != path) {
            list.push(Refused { path, reason: reason.to_owned() });
        }
    }

    pub(in crate::helper) fn take(&self) -> Vec<Refused> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The rules about names of one command.
pub(in crate::helper) struct Names {
    roots: Vec<PathBuf>,
    /// Where protected names that are symlinks lead.
    targets: Vec<PathBuf>,
    protected: Protected,
    denied: DeniedNames,
    /// Where modes may be changed, if no mounts say so: the roots and the temporary directory.
    modes: Option<Vec<PathBuf>>,
    refusals: Refusals,
}

impl Names {
    pub(in crate::helper) fn new(
        profile: &Profile,
        scratch: Option<Option<PathBuf>>,
        refusals: Refusals,
    ) -> Result<Self, Trouble> {
        let roots = profile.writable().map(|root| root.path.clone());
        Ok(Self {
            roots: profile.writable().map(|root| root.path.clone()).collect(),
            targets: targets(profile),
            protected: Protected::new(&profile.protected, &profile.exceptions),
            denied: DeniedNames::new(&profile.denied.new).map_err(Trouble::profile)?,
            modes: scratch.map(|scratch| roots.chain(scratch).collect()),
            refusals,
        })
    }

    /// Says whether a change is allowed at a path.
    pub(super) fn check(&self, path: &Path, change: Change) -> Result<(), Errno> {
        match self.refusal(path, change) {
            None => Ok(()),
            Some(reason) => Err(self.refuse(path, &reason)),
        }
    }

    /// Remembers that a path was refused.
    pub(super) fn refuse(&self, path: &Path, reason: &str) -> Errno {
        self.refusals.add(path, reason);
        Errno::ACCESS
    }

    /// Returns why a change at a path would be refused.
    pub(super) fn refusal(&self, path: &Path, change: Change) -> Option<Cow<'static, str>> {
        if self.targets.iter().any(|target| path.starts_with(target)) {
            return Some(TARGET.into());
        }
        if self.denied.matches(path) {
            return Some(DENIED.into());
        }
        for root in &self.roots {
            let Ok(below) = path.strip_prefix(root) else { continue };
            if let Err(refused) = self.protected.check(below, change) {
                return Some(refused.reason.into());
            }
            if self.protected.beside_head(below).any(|directory| self.has_head(root, directory)) {
                return Some(BARE_REPOSITORY.into());
            }
        }
        None
    }

    /// Returns whether one of the two names of a move would be refused.
    pub(super) fn is_move_refused(&self, from: &Path, to: &Path) -> bool {
        self.refusal(from, Change::MoveFrom).is_some() || self.refusal(to, Change::MoveTo).is_some()
    }

    /// Says whether the mode of an existing file may be changed. Landlock does not look at modes.
    pub(super) fn check_mode(&self, path: &Path) -> Result<(), Errno> {
        if let Some(modes) = &self.modes
            && !modes.iter().any(|writable| path.starts_with(writable))
        {
            return Err(Errno::PERM);
        }
        self.check(path, Change::Write)
    }

    /// Whether git takes a directory for a repository, unless an exception says that it may become one.
    fn has_head(&self, root: &Path, directory: &Path) -> bool {
        let head = directory.join("HEAD");
        self.protected.check(&head, Change::CreateFile).is_err()
            && root.join(head).symlink_metadata().is_ok()
    }

    /// Says whether an entry may be moved. `EXDEV` makes programs copy instead, and each file of the
    /// copy is checked.
    pub(super) fn check_move(&self, from: &Path, to: &Path) -> Result<(), Errno> {
        self.check(from, Change::MoveFrom)?;
        self.check(to, Change::MoveTo)?;
        // Neither may something below get a denied name, nor may it lose one.
        if !self.denied.may_move(from, to) || !self.denied.may_move(to, from) {
            self.refusals.add(to, DENIED);
            return Err(Errno::ACCESS);
        }
        // What was prepared where no name is checked would bring names that were never checked.
        let is_crossing = |root: &PathBuf| from.starts_with(root) != to.starts_with(root);
        if self.roots.iter().any(is_crossing) {
            return Err(Errno::XDEV);
        }
        let below = |path| self.roots.iter().find_map(|root| Path::strip_prefix(path, root).ok());
        let is_allowed = is_move_allowed(below(from).unwrap_or(from), below(to).unwrap_or(to));
        if is_allowed { Ok(()) } else { Err(Errno::XDEV) }
    }
}

/// Finds where the protected names at the top of each root lead, if they are symlinks. What another
/// program obeys is the file that they lead to.
fn targets(profile: &Profile) -> Vec<PathBuf> {
    let names =
        profile.writable().flat_map(|root| profile.protected.iter().map(move |n| (root, n)));
    let leads_elsewhere = |(root, name): (&Root, &String)| {
        let path = root.path.join(name);
        path.canonicalize().ok().filter(|target| *target != path && *target != root.path)
    };
    names.filter_map(leads_elsewhere).collect()
}
