//! Confined processes: the shell, and tools that people declare as commands.
//!
//! In: a command, from a model or with places that a model fills. Out: what it printed and how it
//! ended. Everything runs in the sandbox or not at all (`boundary`), and nothing outlives its call
//! (`run`).

mod boundary;
mod confined;
mod denied;
mod exceptions;
mod git;
mod programs;
mod refusals;
mod run;
mod shell;
mod declared;

use std::{path::Path, sync::Arc};

use haft_core::{DynTool, Failure, ToolContext};
use haft_sandbox::{FileKind, PathError, PathErrorKind, ResolvedPath, Workspace};

pub(crate) use self::{
    boundary::Boundary, confined::Settings, declared::tool as declared, git::GitConfig,
};
use crate::{BuiltinTools, start::start};

/// Returns the tools.
pub(crate) fn tools(hands: &BuiltinTools) -> Vec<DynTool> {
    let shell = shell::Shell {
        workspace: Arc::clone(&hands.workspace),
        boundary: hands.boundary.clone(),
        environment: hands.environment.clone(),
        git: hands.git.clone(),
        network: hands.network,
        settings: hands.settings.clone(),
    };
    let mut tools = vec![DynTool::of(shell)];
    tools.extend(hands.declared.iter().map(|tool| declared(hands, tool.clone())));
    tools
}

/// Finds the folder that a command starts in: `cwd` seen from where the run works, or that itself.
async fn folder(
    workspace: &Arc<Workspace>,
    cwd: Option<&str>,
    cx: &ToolContext,
) -> Result<ResolvedPath, Failure> {
    let (workspace, cwd) = (Arc::clone(workspace), cwd.unwrap_or(".").to_owned());
    let here = cx.working_directory().to_owned();
    cx.spawn_blocking(move |_| find(&workspace, &here, &cwd)).await?
}

/// Relative paths start where judges read them from: where the run works, or in the first root where
/// that is no folder of the workspace.
fn find(workspace: &Workspace, here: &Path, cwd: &str) -> Result<ResolvedPath, Failure> {
    let place = match start(workspace, here) {
        Some(start) => workspace.resolve_from(&start, cwd)?,
        None => workspace.resolve(cwd)?,
    };
    match workspace.meta(&place)?.kind {
        FileKind::Folder => Ok(place),
        _ => Err(PathError::new(PathErrorKind::NotAFolder, cwd).into()),
    }
}
