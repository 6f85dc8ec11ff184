//! Protected names of a workspace: the list and the matcher that rules and sandbox share.

use std::{os::fd::AsFd as _, path::Path};

pub use haft_core::protected_names::{PROTECTED, ProtectedName};
pub(crate) use haft_core::protected_names::{Protected, Standing, is_move_allowed};

use super::{ResolvedPath, Workspace, git_config};

impl Workspace {
    /// Says how a place relates to the protected names, unless it was granted.
    pub(super) fn standing(&self, place: &ResolvedPath) -> Standing {
        if self.is_granted(place) {
            return Standing::Free;
        }
        match self.inner.protected.at(&place.base).standing(&place.path) {
            Standing::Free if self.is_beside_head(place) => Standing::Protected,
            standing => standing,
        }
    }

    /// Returns why a place needs a grant of its own that this workspace does not have: it is
    /// protected, or a protected name would lie below it.
    #[must_use]
    pub fn protection(&self, place: &ResolvedPath) -> Option<&str> {
        match self.standing(place) {
            Standing::Free => None,
            _ => {
                let reason = self.inner.protected.at(&place.base).reason(&place.path);
                Some(reason.unwrap_or(BARE_REPOSITORY))
            }
        }
    }

    /// Returns whether the name that protects a place is one of [`PROTECTED`]: policies know these and
    /// ask about them. A name that only this workspace protects is refused whatever a policy says.
    #[must_use]
    pub fn is_listed(&self, place: &ResolvedPath) -> bool {
        let pattern = self.inner.protected.at(&place.base).pattern(&place.path);
        pattern.is_some_and(|pattern| PROTECTED.iter().any(|name| name.pattern == pattern))
    }

    /// Returns the protected names of a command that starts now: those of the workspace, and what the
    /// configuration of its repositories names.
    pub(crate) fn names_at_launch(&self) -> Vec<String> {
        let mut names = self.protected_names();
        for folder in self.inner.roots.iter() {
            let more = git_config::named_files(&folder.path, folder.handle.as_fd());
            names.extend(more.filter(|name| !names.contains(name)).collect::<Vec<_>>());
        }
        names
    }

    fn is_granted(&self, place: &ResolvedPath) -> bool {
        let covers =
            |grant: &ResolvedPath| grant.root == place.root && place.path.starts_with(&grant.path);
        self.granted.iter().any(covers)
    }

    /// Whether a place belongs to a bare repository: git obeys `config` and `hooks` beside a `HEAD`.
    fn is_beside_head(&self, place: &ResolvedPath) -> bool {
        let has_head = |directory: &Path| {
            let head = ResolvedPath { path: directory.join("HEAD"), ..place.clone() };
            self.meta(&head).is_ok()
        };
        self.inner.protected.beside_head(&place.path).any(has_head)
    }

    /// Whether a rename would carry something into a `.git` directory or out of it.
    pub(super) fn crosses_git(&self, from: &ResolvedPath, to: &ResolvedPath) -> bool {
        let is_granted = self.is_granted(from) || self.is_granted(to);
        !is_granted && !is_move_allowed(&from.absolute(), &to.absolute())
    }
}

/// The reason of `config` and `hooks` beside a `HEAD`.
const BARE_REPOSITORY: &str = "git obeys it: the directory has a `HEAD`, so it is a repository";
