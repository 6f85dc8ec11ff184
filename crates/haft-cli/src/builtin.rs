//! The tool registry of a command: the built-in tools, and the tools that configuration files
//! declare. Both work in the workspace: the directory of `--workspace`, else the current one.
//!
//! The sandbox is detected lazily: a call that starts no process does not probe the machine.
//! INVARIANT: settings, trust files and hook scripts are protected, also behind symlinks.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use haft::{
    RuntimeBuilder, ToolRegistry,
    events::Event,
    registry::{RegisteredTool, ToolRegistryBuilder},
};
use haft_sandbox::{Access, Helper, Workspace};
use haft_tools::{BuiltinTools, Fetch};

use crate::{
    args,
    error::Problem,
    git,
    host_env::HostEnv,
    session::Person,
    setup::{self, Setup},
    style::{self, BOLD},
    toolchains,
};

/// Returns the registry. The person answers questions of the model.
pub(crate) fn registry(setup: &Setup, person: &Person) -> Result<ToolRegistryBuilder, Problem> {
    let mut tools = builtin_tools(setup, person)?;
    if person.approves_all {
        // Every call is approved, so no command is sandboxed instead of being approved.
        tools = tools.confine_unasked(false);
    }
    Ok(ToolRegistry::builder().add(tools))
}

fn builtin_tools(setup: &Setup, person: &Person) -> Result<BuiltinTools, Problem> {
    let roots: Vec<PathBuf> = std::iter::once(setup.here().to_owned())
        .chain(setup.loaded.context.roots.iter().filter(|root| root.is_dir()).cloned())
        .collect();
    let mut workspace =
        Workspace::builder().protect(steering_names(setup, &roots)?).linked_worktrees();
    for root in &roots {
        workspace = workspace.root(root, Access::Write);
    }
    let workspace = workspace.build().map_err(problem)?;
    for note in workspace.git_notes() {
        setup.note(format!("git cannot commit in the workspace: {note}"));
    }
    let mut tools = BuiltinTools::new(workspace)
        .helper(Helper::ThisProgram)
        .variables(setup.variables().clone())
        .fetch(Fetch::new())
        .ask(person.ask_user())
        .declared(setup.loaded.tools.iter().cloned());
    tools = toolchains::configure(tools, setup)?;
    match git::identity(setup.variables()) {
        Ok(Some((name, email))) => tools = tools.git_identity(name, email),
        Ok(None) => {}
        Err(e) => setup.note(format!("commits have no author: {e}")),
    }
    Ok(tools)
}

/// Returns the names below the roots, besides those that are always protected, that no tool may
/// write: the person's settings, named configuration, and the scripts of hooks.
fn steering_names(setup: &Setup, roots: &[PathBuf]) -> Result<Vec<String>, Problem> {
    let mut names = Vec::new();
    for path in setup.steering_paths(roots).iter().flat_map(|path| with_symlinks(path)) {
        for root in roots.iter().map(|root| canonical(root)) {
            let Ok(name) = path.strip_prefix(&root) else { continue };
            match name.to_str() {
                Some("") => {
                    let shown = root.display();
                    let why = format!(
                        "`{shown}` is the directory of your settings, so it cannot be a workspace"
                    );
                    return Err(Problem::new(why).hint("choose another directory as the workspace"));
                }
                Some(name) if !names.iter().any(|known| known == name) => {
                    names.push(name.to_owned())
                }
                Some(_) => {}
                None => {
                    let shown = path.display();
                    let why =
                        format!("`{shown}` cannot be protected from tools: its name is not UTF-8");
                    return Err(
                        Problem::new(why).hint("rename it, or move it out of the workspace")
                    );
                }
            }
        }
    }
    Ok(names)
}

/// The limit on symlinks of a path, as in the kernel.
const MAX_SYMLINKS: usize = 40;

/// Returns every symlink of a path by its canonical location, and the target. A symlink that a tool
/// could replace would point to another file next time (TOCTOU).
fn with_symlinks(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![path.to_owned()];
    while let Some(path) = todo.pop() {
        let mut reached = PathBuf::new();
        for part in path.components() {
            reached.push(part);
            let Ok(target) = fs::read_link(&reached) else { continue };
            let link = match (reached.parent(), reached.file_name()) {
                (Some(above), Some(name)) => canonical(above).join(name),
                _ => reached.clone(),
            };
            if found.contains(&link) || found.len() >= MAX_SYMLINKS {
                continue;
            }
            // The target may lead through further symlinks.
            let above = link.parent().unwrap_or(Path::new("/")).to_owned();
            todo.push(above.join(target));
            found.push(link);
        }
    }
    found.push(canonical(path));
    found
}

/// The path with symlinks resolved, as far as it exists.
fn canonical(path: &Path) -> PathBuf {
    if let Ok(found) = path.canonicalize() {
        return found;
    }
    match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) => canonical(above).join(name),
        _ => path.to_owned(),
    }
}

/// Returns every tool, for commands that run none of them.
pub(crate) fn all(setup: &Setup) -> Result<ToolRegistryBuilder, Problem> {
    registry(setup, &Person::default())
}

/// The same for calls that are explained and never run.
pub(crate) fn all_explained(setup: &Setup) -> Result<ToolRegistryBuilder, Problem> {
    Ok(ToolRegistry::builder().add(builtin_tools(setup, &Person::default())?.explain_only()))
}

/// The same for calls that run outside of the sandbox, such as those of another agent: none of them
/// is allowed because it would be confined.
pub(crate) fn all_unconfined(setup: &Setup) -> Result<ToolRegistryBuilder, Problem> {
    Ok(ToolRegistry::builder().add(builtin_tools(setup, &Person::default())?.judge_only()))
}

/// Returns a tool by its name or an alias.
pub(crate) fn find<'a>(registry: &'a ToolRegistry, name: &str) -> Option<&'a RegisteredTool> {
    let is_called = |e: &&Arc<RegisteredTool>| {
        *e.name() == name || e.spec().aliases.iter().any(|alias| alias == name)
    };
    registry.own().find(is_called).map(|entry| &**entry)
}

/// Converts an error of the sandbox, with its hint.
pub(crate) fn problem(error: haft_sandbox::SandboxError) -> Problem {
    let text = error.to_string();
    let message = text.split("\nhint: ").next().unwrap_or_default();
    match error.hint_text() {
        Some(hint) => Problem::new(message).hint(hint),
        None => Problem::new(message),
    }
}

/// The names of the built-in tools, for completion scripts.
pub(crate) const NAMES: [&str; 11] = [
    "ask_user",
    "delete_path",
    "edit_file",
    "fetch_url",
    "list_files",
    "make_dir",
    "move_path",
    "read_file",
    "search_files",
    "shell",
    "write_file",
];

/// A hint for a missing tool that a directory declares and that trust would enable.
pub(crate) fn missing_hint(tool: &str, setup: &Setup) -> Option<String> {
    setup
        .site
        .would_bring(tool)
        .then(|| format!("this directory declares `{tool}`, but is not trusted: run `haft trust`"))
}

/// Prints the hint for missing tools of a response.
pub(crate) fn print_missing_hint<'a>(tools: impl IntoIterator<Item = &'a str>, setup: &Setup) {
    // One hint is enough: it is the same for all of them.
    if let Some(hint) = tools.into_iter().find_map(|tool| missing_hint(tool, setup)) {
        style::message(format_args!("{} {}", style::paint(BOLD, "note:"), style::visible(&hint)));
    }
}

/// Notes the workspace of a call that needs approval, if the command line does not name it.
pub(crate) fn note_workspace(
    runtime: RuntimeBuilder,
    location: &args::WorkspaceArgs,
    setup: &Setup,
) -> RuntimeBuilder {
    let Some(note) = setup.workspace_note().filter(|_| location.workspace.is_none()) else {
        return runtime;
    };
    let is_noted = AtomicBool::new(false);
    runtime.observer(move |event: &Event| {
        if matches!(event, Event::Asked { .. }) && !is_noted.swap(true, Ordering::Relaxed) {
            setup::print_notes(std::slice::from_ref(&note));
        }
    })
}

impl args::WorkspaceArgs {
    /// Refuses to run tools in a current directory that is rarely intended: the root of the
    /// file system, the home directory, and those above it. `--workspace .` states the intent.
    pub(crate) fn refuse_wide_default(&self, host: &HostEnv) -> Result<(), Problem> {
        if self.workspace.is_some() {
            return Ok(());
        }
        let here = canonical(&host.here);
        let home = host.home.as_deref().map(canonical);
        let what = if here.parent().is_none() {
            "the root of the file system"
        } else if home.as_ref() == Some(&here) {
            "your home directory"
        } else if home.is_some_and(|home| home.starts_with(&here)) {
            "above your home directory"
        } else {
            return Ok(());
        };
        Err(Problem::new(format!(
            "the current directory is {what}, so it is not used as the workspace"
        ))
        .hint("change to a project, or name the workspace: `--workspace DIR`"))
    }

    /// Returns the canonical path of the workspace.
    pub(crate) fn directory(&self) -> Result<Option<PathBuf>, Problem> {
        let find = |directory: &Path| {
            let cannot =
                |why: &str| Problem::new(format!("`--workspace {}`: {why}", directory.display()));
            let found = directory.canonicalize().map_err(|e| match e.kind() {
                ErrorKind::NotFound => cannot("there is no such directory")
                    .hint("name a directory that exists; `.` is the current one"),
                _ => cannot(&e.to_string()),
            })?;
            if found.is_dir() {
                Ok(found)
            } else {
                Err(cannot("it is not a directory")
                    .hint("name the directory that tools work in, not a file"))
            }
        };
        self.workspace.as_deref().map(find).transpose()
    }
}
