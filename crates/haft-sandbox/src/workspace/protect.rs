//! Protected names of a workspace, such as `.git/hooks`: files that other programs execute or obey.
//! Rules and sandbox share the list and the matcher in `haft-core`.

use std::{path::Path, sync::Arc};

pub use haft_core::protected_names::{PROTECTED, ProtectedName};
pub(crate) use haft_core::protected_names::{ProtectedNames, Protection, is_move_allowed};

use super::{
    ResolvedPath, Workspace,
    git_config::{NAMED_BY_GIT, NamedFiles},
};

impl Workspace {
    /// Returns how a path relates to the protected names. A granted path is free.
    pub(super) fn protection_of(&self, resolved: &ResolvedPath) -> Protection {
        if self.is_granted(resolved) {
            return Protection::Unprotected;
        }
        match self.inner.protected.at(&resolved.base).protection(&resolved.path) {
            Protection::Protected => Protection::Protected,
            Protection::Unprotected if self.is_in_bare_repository(resolved) => {
                Protection::Protected
            }
            protection => match self.named_by_git(resolved).protection(&resolved.path) {
                Protection::Unprotected => protection,
                named => named,
            },
        }
    }

    /// Returns the names that the configuration of git protects next to a path.
    fn named_by_git(&self, resolved: &ResolvedPath) -> Arc<ProtectedNames> {
        let path = resolved.absolute();
        self.inner.named.of(&resolved.base, path.parent().unwrap_or(&resolved.base))
    }

    /// Returns why a path needs a grant that this workspace does not have: it is protected, or has
    /// a protected name below it.
    #[must_use]
    pub fn protection(&self, resolved: &ResolvedPath) -> Option<&str> {
        match self.protection_of(resolved) {
            Protection::Unprotected => None,
            _ => {
                let reason = self.inner.protected.at(&resolved.base).reason(&resolved.path);
                let is_named = || self.named_by_git(resolved).reason(&resolved.path).is_some();
                Some(match reason {
                    Some(reason) => reason,
                    None if is_named() => NAMED_BY_GIT,
                    None => BARE_REPOSITORY,
                })
            }
        }
    }

    /// Returns whether the name that protects a path is one of [`PROTECTED`]. Policies know these
    /// and request approval. A name that only this workspace protects is always refused.
    #[must_use]
    pub fn is_listed(&self, resolved: &ResolvedPath) -> bool {
        let pattern = self.inner.protected.at(&resolved.base).pattern(&resolved.path);
        pattern.is_some_and(|pattern| PROTECTED.iter().any(|name| name.pattern == pattern))
    }

    /// Returns the protected names for a command that starts now: those of the workspace, and the
    /// files that the configuration of its repositories names.
    pub(crate) fn names_at_launch(&self) -> Vec<String> {
        let mut names = self.protected_names();
        for directory in self.inner.roots.iter() {
            for name in NamedFiles::find(&directory.path, &directory.path).names {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names
    }

    fn is_granted(&self, resolved: &ResolvedPath) -> bool {
        let covers = |grant: &ResolvedPath| {
            grant.root == resolved.root && resolved.path.starts_with(&grant.path)
        };
        self.granted.iter().any(covers)
    }

    /// Returns whether a path belongs to a bare repository: git obeys `config` and `hooks` next to
    /// a `HEAD`.
    fn is_in_bare_repository(&self, resolved: &ResolvedPath) -> bool {
        let has_head = |directory: &Path| {
            let head = ResolvedPath { path: directory.join("HEAD"), ..resolved.clone() };
            self.meta(&head).is_ok()
        };
        self.inner.protected.possible_git_directories(&resolved.path).any(has_head)
    }

    /// Returns whether a rename would move an entry into a `.git` directory or out of one.
    pub(super) fn crosses_git(&self, from: &ResolvedPath, to: &ResolvedPath) -> bool {
        let is_granted = self.is_granted(from) || self.is_granted(to);
        !is_granted && !is_move_allowed(&from.absolute(), &to.absolute())
    }
}

/// The reason for `config` and `hooks` next to a `HEAD`.
const BARE_REPOSITORY: &str = "git obeys it: the directory has a `HEAD`, so it is a repository";
