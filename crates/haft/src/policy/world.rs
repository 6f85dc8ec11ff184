//! Where paths lead. Rules match resolved paths, so that a link cannot carry a call past a rule.

use std::{
    fmt,
    path::{Path, PathBuf},
};

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
