//! Locations of rules and paths of files for display, relative to a directory.

use std::path::Path;

use haft::policy::SourceLocation;

use crate::style;

/// The location of a rule, relative to a directory.
pub(crate) fn at(location: &SourceLocation, here: &Path) -> String {
    match &location.file {
        Some(file) => format!("{}:{}", short(file, here), location.line),
        None => location.to_string(),
    }
}

/// A path, relative to a directory.
pub(crate) fn short(path: &Path, here: &Path) -> String {
    let shown = match path.strip_prefix(here) {
        Ok(below) if below != Path::new("") => below,
        _ => path,
    };
    style::visible(&shown.display().to_string()).replace('\n', "<U+000A>")
}
