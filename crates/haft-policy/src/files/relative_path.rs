//! Paths in configuration files: where relative ones start.

use std::path::PathBuf;

use super::{ConfigFile, config_path::normalize_lexically};
use crate::pattern::PathBase;

/// Reads a directory: absolute, below the home directory, or relative to the directory of the file.
pub(super) fn directory(
    text: &str,
    file: &ConfigFile,
    anchor: &PathBase,
) -> Result<PathBuf, &'static str> {
    let below_home = match text {
        "~" => Some(""),
        _ => text.strip_prefix("~/"),
    };
    if text.is_empty() || text.contains('\0') {
        return Err("it is empty or contains a NUL byte");
    }
    if let Some(rest) = below_home {
        let home = anchor.home.as_ref().ok_or("the home directory is not known")?;
        return Ok(normalize_lexically(&home.join(rest)));
    }
    let path = PathBuf::from(text);
    // A file that applies to all directories has no directory to resolve a relative path from.
    if path.is_absolute() || file.layer.is_from_project() {
        Ok(normalize_lexically(&file.anchor.join(path)))
    } else {
        Err("it is relative, and this file has no directory to resolve it from")
    }
}
