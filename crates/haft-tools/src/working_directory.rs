//! Where the relative paths of a call start: where the run works, if that is a folder of the workspace.
//!
//! INVARIANT: files and processes start at the same place, and judges read paths from there too
//! (`DynTool::within`). Where the run works elsewhere, that is the first root.

use std::path::Path;

use haft_sandbox::{ResolvedPath, Workspace};

/// Finds the folder that the run works in, or nothing if the workspace does not hold it.
pub(crate) fn start(workspace: &Workspace, here: &Path) -> Option<ResolvedPath> {
    let known = here.is_absolute().then(|| workspace.resolve(here).ok()).flatten();
    known.or_else(|| workspace.resolve(here.canonicalize().ok()?).ok())
}
