//! Sandboxed processes: the shell, and tools declared as commands.
//!
//! In: a command from a model, or a declared one with placeholders. Out: its output and exit
//! status. Every process runs in the sandbox or not at all (`boundary`). No process outlives its
//! call (`run`).

mod boundary;
mod confined;
mod masks;
mod network;
mod plain_words;
mod exceptions;
mod git;
mod programs;
mod refusals;
mod run;
mod shell;
mod declared;

use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

use haft_core::{DynTool, Failure, ToolContext};
use haft_sandbox::{Environment, FileKind, PathError, PathErrorKind, ResolvedPath, Workspace};

pub(crate) use self::{
    boundary::Boundary, confined::Settings, declared::tool as declared, git::GitConfig,
    network::NetworkOptions,
};
use crate::working_directory::resolve_working_directory;

/// What the processes of all tools share.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProcessOptions {
    /// Sandbox for processes. Without one, tools that start processes are refused.
    pub(crate) boundary: Boundary,
    /// Environment variables of the processes.
    pub(crate) environment: Environment,
    /// Git configuration that processes see.
    pub(crate) git: GitConfig,
    /// What shell commands may contact.
    pub(crate) network: NetworkOptions,
    /// What commands may access outside the workspace, and whether they run confined without
    /// approval.
    pub(crate) settings: Settings,
}

/// Returns the shell of a workspace.
pub(crate) fn shell(workspace: &Arc<Workspace>, options: &ProcessOptions) -> DynTool {
    let ProcessOptions { boundary, environment, git, network, settings } = options.clone();
    let workspace = Arc::clone(workspace);
    let known_programs = OnceLock::new();
    DynTool::of(shell::Shell {
        workspace,
        boundary,
        environment,
        git,
        network,
        settings,
        known_programs,
    })
}

/// Resolves the directory in which a command starts: `cwd` relative to the run's working directory.
async fn start_directory(
    workspace: &Arc<Workspace>,
    cwd: Option<&str>,
    cx: &ToolContext,
) -> Result<ResolvedPath, Failure> {
    let (workspace, cwd) = (Arc::clone(workspace), cwd.unwrap_or(".").to_owned());
    let here = cx.working_directory().to_owned();
    cx.spawn_blocking(move |_| find(&workspace, &here, &cwd)).await?
}

/// Relative paths start where the policy resolves them: in the run's working directory, or in the
/// first root if that is outside the workspace.
fn find(workspace: &Workspace, here: &Path, cwd: &str) -> Result<ResolvedPath, Failure> {
    let resolved = match resolve_working_directory(workspace, here) {
        Some(start) => workspace.resolve_from(&start, cwd)?,
        None => workspace.resolve(cwd)?,
    };
    match workspace.meta(&resolved)?.kind {
        FileKind::Directory => Ok(resolved),
        _ => Err(PathError::new(PathErrorKind::NotADirectory, cwd).into()),
    }
}
