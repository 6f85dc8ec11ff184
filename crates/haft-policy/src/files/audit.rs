//! `[audit]`: the file that every call is written to.

use std::path::PathBuf;

use super::{
    ConfigFile,
    content::FileContent,
    node::{Node, Reader},
    relative_path::directory,
};
use crate::{pattern::PathBase, rule::SourceLocation};

/// Reads the section. The path starts at the directory of the file.
pub(super) fn read(
    reader: &mut Reader<'_>,
    node: &Node,
    file: &ConfigFile,
    anchor: &PathBase,
    content: &mut FileContent,
) {
    let Some(fields) = reader.table(node, "`[audit]`", &["file"]) else { return };
    let Some(given) = fields.get("file") else { return };
    let Some(text) = reader.text(given, "`file` of `[audit]`") else { return };
    match directory(text, file, anchor) {
        Ok(path) => content.audit = Some((path, reader.location(given.at))),
        Err(why) => reader.wrong(
            given.at,
            format!("`file` of `[audit]`: {why}"),
            "write a path, as in `file = \".haft/audit.jsonl\"`",
        ),
    }
}

/// Takes the file of the strongest layer.
pub(super) fn merge(own: &mut Option<PathBuf>, file: Option<(PathBuf, SourceLocation)>) {
    if own.is_none() {
        *own = file.map(|(path, _)| path);
    }
}
