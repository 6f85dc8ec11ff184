//! The tool registry of a command: the built-in tools with `--workspace`, the example tools without it,
//! and the tools that configuration files declare.
//!
//! The sandbox is detected lazily: a call that starts no process does not probe the machine.
//! INVARIANT: settings, trust files and hook scripts are protected, also behind symlinks.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Duration,
};

use haft::{ToolRegistry, registry::ToolRegistryBuilder};
use haft_sandbox::{Access, Helper, Workspace};
use haft_tools::{BuiltinTools, Fetch};

use crate::{
    args, demo_tools,
    error::Problem,
    git,
    session::Person,
    setup::Setup,
    style::{self, BOLD},
    toolchains,
};

/// Returns the tools. The person answers questions of the model.
pub(crate) fn registry(
    setup: &Setup,
    place: &args::WorkspaceArgs,
    person: &Person,
) -> Result<ToolRegistryBuilder, Problem> {
    let declared = &setup.loaded.tools;
    let (root, registry) = match &place.workspace {
        // The example tools would only distract in a real workspace.
        Some(_) => (setup.here().to_owned(), ToolRegistry::builder()),
        None if declared.is_empty() => return Ok(demo_tools::builder(Duration::ZERO)),
        None => (setup.site.project.clone(), demo_tools::builder(Duration::ZERO)),
    };
    let roots: Vec<PathBuf> = std::iter::once(root)
        .chain(setup.loaded.ground.roots.iter().filter(|root| root.is_dir()).cloned())
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
        .declared(declared.iter().cloned());
    tools = toolchains::configure(tools, setup)?;
    if person.approves_all {
        // Every call is approved, so no command is sandboxed instead of being approved.
        tools = tools.confine_unasked(false);
    }
    match git::identity(setup.variables()) {
        Ok(Some((name, email))) => tools = tools.git_identity(name, email),
        Ok(None) => {}
        Err(e) => setup.note(format!("commits have no author: {e}")),
    }
    Ok(match place.workspace {
        Some(_) => registry.add(tools),
        None => registry.add(tools.only_declared()),
    })
}

/// Returns the names below the roots, besides those that are always protected, that no tool may write:
/// the person's settings, named configuration, and the scripts of hooks.
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

/// Returns every symlink of a path by its canonical location, and the target. A symlink that a tool could
/// replace would point to another file next time (TOCTOU).
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
pub(crate) fn all(
    setup: &Setup,
    place: &args::WorkspaceArgs,
) -> Result<ToolRegistryBuilder, Problem> {
    registry(setup, place, &Person::default())
}

/// Converts an error of the sandbox, with its hint.
pub(crate) fn problem(error: haft_sandbox::Error) -> Problem {
    let text = error.to_string();
    let message = text.split("\nhint: ").next().unwrap_or_default();
    match error.hint_text() {
        Some(hint) => Problem::new(message).hint(hint),
        None => Problem::new(message),
    }
}

/// The names of the built-in tools, for hints without a workspace.
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

/// A hint for a missing tool: a built-in tool without `--workspace`, an example tool with it, or a tool of
/// a directory that is not trusted.
pub(crate) fn missing_hint(
    tool: &str,
    place: &args::WorkspaceArgs,
    setup: &Setup,
) -> Option<String> {
    if place.workspace.is_none() && NAMES.contains(&tool) {
        return Some(format!(
            "`{tool}` needs a workspace: add `--workspace DIR`, as in `--workspace .`"
        ));
    }
    if place.workspace.is_some() && demo_tools::has(tool) {
        return Some(format!("`{tool}` is an example tool: leave out `--workspace`"));
    }
    setup
        .site
        .would_bring(tool)
        .then(|| format!("this directory declares `{tool}`, but is not trusted: run `haft trust`"))
}

/// Prints the hint for missing tools of a response.
pub(crate) fn print_missing_hint<'a>(
    tools: impl IntoIterator<Item = &'a str>,
    place: &args::WorkspaceArgs,
    setup: &Setup,
) {
    // One hint is enough: it is the same for all of them.
    if let Some(hint) = tools.into_iter().find_map(|tool| missing_hint(tool, place, setup)) {
        style::message(format_args!("{} {}", style::paint(BOLD, "note:"), style::visible(&hint)));
    }
}

/// The command line that shows a tool.
pub(crate) fn show_command(tool: &str) -> String {
    if NAMES.contains(&tool) {
        format!("haft tools show {tool} --workspace .")
    } else {
        format!("haft tools show {tool}")
    }
}

impl args::WorkspaceArgs {
    /// Returns the canonical path of the workspace.
    pub(crate) fn directory(&self) -> Result<Option<PathBuf>, Problem> {
        let find = |folder: &Path| {
            let cannot =
                |why: &str| Problem::new(format!("`--workspace {}`: {why}", folder.display()));
            let found = folder.canonicalize().map_err(|e| match e.kind() {
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
