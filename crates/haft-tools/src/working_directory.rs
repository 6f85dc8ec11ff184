//! Where the relative paths of a call start: in the run's working directory if it is inside the
//! workspace.
//!
//! INVARIANT: files and processes start in the same directory, and the policy resolves paths from
//! there too (`DynTool::within`). For a run outside the workspace it is the first root.

use std::path::Path;

use haft_sandbox::{ResolvedPath, Workspace};

/// Resolves the run's working directory; `None` if it is outside the workspace.
pub(crate) fn resolve_working_directory(
    workspace: &Workspace,
    here: &Path,
) -> Option<ResolvedPath> {
    let known = here.is_absolute().then(|| workspace.resolve(here).ok()).flatten();
    known.or_else(|| workspace.resolve(here.canonicalize().ok()?).ok())
}
