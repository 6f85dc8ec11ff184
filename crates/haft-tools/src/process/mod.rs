//! Confined processes: the shell, and tools that people declare as commands.
//!
//! In: a command, from a model or with places that a model fills. Out: what it printed and how it
//! ended. Everything runs in the sandbox or not at all (`boundary`), and nothing outlives its call
//! (`run`).

mod boundary;
mod run;
mod shell;
mod declared;

use std::{path::Path, sync::Arc};

use haft_core::{Code, Context, DynTool, Failure};
use haft_sandbox::{Cause, Kind, Place, Refusal, Workspace};

pub(crate) use self::{boundary::Boundary, declared::tool as declared};
use crate::Hands;

/// Returns the tools.
pub(crate) fn tools(hands: &Hands) -> Vec<DynTool> {
    let shell = shell::Shell {
        workspace: Arc::clone(&hands.workspace),
        boundary: hands.boundary.clone(),
        environment: hands.environment.clone(),
        network: hands.network,
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

/// FAIL CLOSED: judges read the relative paths of a command from where the run works. Where that is no
/// folder of the workspace the command would start elsewhere, and read other files than were judged.
fn find(workspace: &Workspace, here: &Path, cwd: &str) -> Result<Place, Failure> {
    let place = match Path::new(cwd).is_absolute() {
        true => workspace.find(cwd)?,
        false => workspace.find_from(&start(workspace, here)?, cwd)?,
    };
    match workspace.meta(&place)?.kind {
        Kind::Folder => Ok(place),
        _ => Err(Refusal::new(Cause::NotAFolder, cwd).into()),
    }
}

/// Finds where the run works, by the path that judges see.
fn start(workspace: &Workspace, here: &Path) -> Result<Place, Failure> {
    let known = here.is_absolute().then(|| workspace.find(here).ok()).flatten();
    let real = || workspace.find(here.canonicalize().ok()?).ok();
    known.or_else(real).ok_or_else(|| {
        Failure::new(
            Code::OutsideWorkspace,
            "commands start where the run works, and that is no folder of the workspace",
        )
        .with_next("give `cwd` as a whole path inside the workspace, or tell the user")
        .with_source("the run's `working_directory` lies in none of the roots; set it to one")
    })
}
