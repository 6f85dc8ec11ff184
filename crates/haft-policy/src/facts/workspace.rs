//! The directories of a call: the base of its relative paths, and the workspace.

use std::path::Path;

use super::Facts;
use crate::path_resolver::{start, works_in};

impl Facts<'_> {
    /// Returns the base of relative paths: the working directory of the run, unless the tool is
    /// limited to other directories.
    pub(crate) fn base(&self) -> Result<&Path, &str> {
        let own = &self.scope.working_directory;
        if own.is_absolute() && self.roots.is_empty() {
            return Ok(own);
        }
        let find = || start(self.roots, own, &*self.context.resolver);
        self.base.get_or_init(find).as_deref().map_err(String::as_str)
    }

    /// Returns this base with symlinks resolved.
    pub(crate) fn root(&self) -> Result<&Path, &str> {
        let resolve = || self.context.resolver.resolve(self.base()?);
        self.root.get_or_init(resolve).as_deref().map_err(String::as_str)
    }

    /// Returns whether a resolved path is in the workspace: the run's directory, a root of the
    /// rules, or one that the tool is limited to.
    pub(crate) fn is_inside(&self, path: &Path) -> bool {
        let resolver = &*self.context.resolver;
        let below = |root: &Path| resolver.resolve(root).is_ok_and(|root| path.starts_with(root));
        let work = &self.scope.working_directory;
        works_in(self.roots, work, resolver) && below(work)
            || self.context.roots.iter().chain(self.roots).any(|root| below(root))
    }
}
