//! Paths that rules deny, for tools that start confined processes.

use std::{fmt, path::PathBuf};

/// Paths that deny rules are about, below some directories and beside them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeniedPaths {
    /// Existing files and directories that may not be read. Nothing below such a directory is listed.
    pub read: Vec<PathBuf>,
    /// Existing files and directories that may be read and not changed.
    pub edit: Vec<PathBuf>,
    /// Absolute patterns for names that may not be created. `*`, `?` and `[a-z]` stay within a
    /// component, `**` crosses components, `\` takes the meaning off the next character.
    pub new: Vec<String>,
}

impl DeniedPaths {
    /// Returns whether nothing that exists is denied.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read.is_empty() && self.edit.is_empty()
    }
}

/// Why the paths that rules deny are not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeniedPathsUnknown {
    /// What was in the way.
    pub why: String,
    /// They were not known for this call before, so that a guard could ask about it.
    pub is_repeated: bool,
    /// Those that were found before.
    pub found: DeniedPaths,
}

impl DeniedPathsUnknown {
    /// Says what was in the way.
    #[must_use]
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_repeated: false, found: DeniedPaths::default() }
    }
}

impl fmt::Display for DeniedPathsUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not every file that rules deny could be found: {}", self.why)
    }
}

impl std::error::Error for DeniedPathsUnknown {}
