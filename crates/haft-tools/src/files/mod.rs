//! Files of a workspace: read, write, edit, move, delete, list, search.
//!
//! Every path goes through the workspace's handles, once when the call is judged and once when it
//! runs; what leads elsewhere by then is refused. What is read is bounded, and says how to go on.
//! What is written appears as a whole or not at all.

mod place;
mod lines;
mod binary;
mod wide;
mod read;
mod write;
mod edit;
mod nearest;
mod moves;
mod rules;
mod list;
mod search;

use haft_core::{Capability, Confidentiality, DynTool, Label, ToolSpec, Trust};

use self::place::Files;
use crate::BuiltinTools;

/// Returns the tools.
pub(crate) fn tools(hands: &BuiltinTools) -> Vec<DynTool> {
    let files = Files::new(hands.workspace.clone());
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

/// Declares a tool that only looks.
fn looks(name: &str, description: &str) -> ToolSpec {
    touches(name, description).read_only()
}

/// Declares a tool that works on files.
fn touches(name: &str, description: &str) -> ToolSpec {
    let mut spec = ToolSpec::new(name, description).capabilities([Capability::Filesystem]);
    spec.read_only = Some(false); // those that only read say so
    spec.open_world = Some(false);
    spec.label = Label { trust: Trust::Workspace, confidentiality: Confidentiality::Internal };
    spec.per_call = vec!["effects", "keys", "destructive"];
    spec
}
