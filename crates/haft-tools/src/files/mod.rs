//! File tools of a workspace: read, write, edit, move, delete, list, search.
//!
//! Every path is resolved through directory file descriptors, once for authorization and again at
//! execution. A path that resolves differently by then is refused (symlink race, TOCTOU, path
//! traversal). Reads are bounded and say how to continue. Writes are atomic.

pub(crate) mod paths;
mod lines;
mod binary;
mod utf16;
mod read;
mod diff;
mod write;
mod edit;
mod nearest;
mod moves;
mod filtered_walk;
mod list;
mod search;

use std::sync::Arc;

use haft_core::{Capability, Confidentiality, DynTool, Label, ToolSpec, Trust};
use haft_sandbox::Workspace;

use self::paths::Files;

/// Returns the tools of a workspace.
pub(crate) fn tools(workspace: Arc<Workspace>) -> Vec<DynTool> {
    let files = Files::new(workspace);
    vec![
        DynTool::of(read::ReadFile(files.clone())),
        DynTool::of(write::WriteFile(files.clone())),
        DynTool::of(edit::EditFile(files.clone())),
        DynTool::of(moves::MovePath(files.clone())),
        DynTool::of(moves::DeletePath(files.clone())),
        DynTool::of(write::MakeDir(files.clone())),
        DynTool::of(list::ListFiles(files.clone())),
        DynTool::of(search::SearchFiles(files)),
    ]
}

/// Declares a read-only file tool.
fn read_only_spec(name: &str, description: &str) -> ToolSpec {
    file_spec(name, description).read_only()
}

/// Declares a file tool.
fn file_spec(name: &str, description: &str) -> ToolSpec {
    let mut spec = ToolSpec::new(name, description).capabilities([Capability::Filesystem]);
    spec.read_only = Some(false); // read-only tools override it
    spec.open_world = Some(false);
    spec.label = Label { trust: Trust::Workspace, confidentiality: Confidentiality::Internal };
    spec.per_call = vec!["effects", "keys", "destructive"];
    spec
}
