//! Where paths lead. Rules match resolved paths, so that a link cannot carry a call past a rule.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use haft_core::Scope;

use super::rules::Ground;

/// Where paths lead.
pub trait World: fmt::Debug + Send + Sync + 'static {
    /// Returns where an absolute path leads, links followed as far as it exists.
    ///
    /// # Errors
    /// Fails, in words, when that cannot be found out; whoever asks takes the strict side.
    fn resolve(&self, path: &Path) -> Result<PathBuf, String>;
}

/// The disk of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl World for Disk {
    fn resolve(&self, path: &Path) -> Result<PathBuf, String> {
        path.canonicalize().map_err(|e| e.to_string())
    }
}

/// Returns whether a resolved path lies in the workspace: the run's folder, or a root.
pub(crate) fn is_inside(path: &Path, scope: &Scope, ground: &Ground) -> bool {
    let below = |root: &Path| ground.world.resolve(root).is_ok_and(|root| path.starts_with(root));
    below(&scope.working_directory) || ground.roots.iter().any(|root| below(root))
}
