//! Paths that rules deny, for tools that start sandboxed processes.

use std::{fmt, path::PathBuf};

/// Paths that deny rules match, below some directories and outside them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeniedPaths {
    /// Existing files and directories that may not be read. Entries below such a directory are not
    /// listed.
    pub read: Vec<PathBuf>,
    /// Existing files and directories that may be read but not changed.
    pub edit: Vec<PathBuf>,
    /// Absolute patterns for names that may not be created. `*`, `?` and `[a-z]` stay within a
    /// component, `**` crosses components, `\` escapes the next character.
    pub new: Vec<String>,
}

impl DeniedPaths {
    /// Returns whether nothing that exists is denied.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read.is_empty() && self.edit.is_empty()
    }
}

/// How many denied paths the sandbox of a call masks. A tool that starts processes sets it in its
/// check, for explanations, and computes it in the same way when it starts one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MaskedPaths {
    /// Paths that cannot be read.
    pub read: usize,
    /// Paths that can be read but not changed.
    pub edit: usize,
    /// Why some denied paths are not masked.
    pub missing: Option<String>,
}

impl fmt::Display for MaskedPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { read, edit, missing } = self;
        if let Some(missing) = missing {
            write!(f, "{missing}; ")?;
        }
        match read + edit {
            1 => f.write_str("1 file would be masked")?,
            n => write!(f, "{n} files would be masked")?,
        }
        write!(f, ": {read} cannot be read, {edit} cannot be changed")
    }
}

/// Why the denied paths could not be determined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeniedPathsUnknown {
    /// The reason.
    pub why: String,
    /// An earlier lookup for this call failed already, so that a guard could require approval.
    pub is_repeated: bool,
    /// The paths that were found before the error.
    pub found: DeniedPaths,
}

impl DeniedPathsUnknown {
    /// Makes an error with a reason.
    #[must_use]
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_repeated: false, found: DeniedPaths::default() }
    }
}

impl fmt::Display for DeniedPathsUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not find every file that rules deny: {}", self.why)
    }
}

impl std::error::Error for DeniedPathsUnknown {}
