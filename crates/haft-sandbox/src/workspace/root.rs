//! One root of a workspace or of a profile: a directory and what may be done in it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What may be done in a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read only.
    Read,
    /// Read, write, create, move and delete.
    Write,
}

/// One directory of a workspace or profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Root {
    /// Its path, without symlinks.
    pub path: PathBuf,
    /// Whether it may be written.
    pub access: Access,
    /// Device and inode at authorization time. Another directory in its place is refused (TOCTOU).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<(u64, u64)>,
}
