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

use haft_core::{Context, DynTool, Failure};
use haft_sandbox::{Cause, Kind, Place, Refusal, Workspace};

pub(crate) use self::{
    boundary::Boundary, confined::Settings, declared::tool as declared, git::GitConfig,
};
use crate::{Hands, start::start};

/// Returns the tools.
pub(crate) fn tools(hands: &Hands) -> Vec<DynTool> {
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
    cx: &Context,
) -> Result<Place, Failure> {
    let (workspace, cwd) = (Arc::clone(workspace), cwd.unwrap_or(".").to_owned());
    let here = cx.working_directory().to_owned();
    cx.block(move |_| find(&workspace, &here, &cwd)).await?
}

/// Relative paths start where judges read them from: where the run works, or in the first root where
/// that is no folder of the workspace.
fn find(workspace: &Workspace, here: &Path, cwd: &str) -> Result<Place, Failure> {
    let place = match start(workspace, here) {
        Some(start) => workspace.find_from(&start, cwd)?,
        None => workspace.find(cwd)?,
    };
    match workspace.meta(&place)?.kind {
        Kind::Folder => Ok(place),
        _ => Err(Refusal::new(Cause::NotAFolder, cwd).into()),
    }
}
