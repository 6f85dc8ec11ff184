//! Protected files that a command is known to change: `git remote add` writes `.git/config`,
//! `cargo new` creates a repository, and `echo x > .envrc` writes the file that it names.
//!
//! In: a command text and its directory. Out: the files, named in the approval request, and
//! patterns that unprotect exactly these in the sandbox.
//!
//! FAIL CLOSED: no exception if anything but git or cargo may write, or for a git command that is
//! not literal, takes configuration from its options, or runs another program. A redirection gets
//! an exception only for a literal target outside of `.git`.

mod cargo;
mod git_writes;
#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

use haft_core::{
    Effect, Effects, ToolContext,
    host::HostContext,
    protected_names::{ProtectedNames, Protection},
};
use haft_sandbox::{Access, FileKind, ResolvedPath, Workspace};
use haft_shell::{Kind, RedirectKind, SimpleCommand, Word, classify};

use self::git_writes::{
    Changed::{self, InGit, NewRepository, Submodule, Worktree},
    GIT_WRITES, GitWrite, HARMLESS_SUBCOMMANDS, OPTIONS_WITH_VALUE, UNSAFE_OPTIONS, When,
};
use super::shell::Shell;

/// A protected path that a command needs to change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Exception {
    /// Pattern for the profile: the path below the root, as in `./.git/config`.
    pattern: String,
    /// The path without symlinks, for declaration and approval.
    file: PathBuf,
}

/// The protected names. They are prepared once, because every command needs them.
static NAMES: LazyLock<ProtectedNames> = LazyLock::new(ProtectedNames::standard);

impl Shell {
    /// Returns the protected files that git commands, redirections and the call itself name, for
    /// the approval request.
    pub(super) fn protected_effects(
        &self,
        text: &str,
        named: &[String],
        cwd: Option<&str>,
        cx: &ToolContext,
    ) -> Effects {
        let start = super::find(&self.workspace, cx.working_directory(), cwd.unwrap_or("."));
        let Ok(start) = start else { return Effects::Undeclared };
        let needed = self.all_exceptions(text, named, &start).into_iter();
        let file = |needed: Exception| needed.file.into_os_string().into_string().ok();
        let files: Vec<Effect> = needed.filter_map(file).map(Effect::write).collect();
        if files.is_empty() { Effects::Undeclared } else { files.into() }
    }

    /// Returns the protected names that this call may change: those allowed by a person or a rule.
    pub(super) fn exceptions(
        &self,
        text: &str,
        named: &[String],
        start: &ResolvedPath,
        cx: &ToolContext,
    ) -> Vec<String> {
        let is_allowed = |needed: &Exception| cx.may_change_protected(&needed.file);
        let needed = self.all_exceptions(text, named, start).into_iter().filter(is_allowed);
        needed.map(|needed| needed.pattern).collect()
    }

    /// Returns all protected files that a command may need to change, without duplicates.
    fn all_exceptions(&self, text: &str, named: &[String], start: &ResolvedPath) -> Vec<Exception> {
        let redirect_targets = redirect_targets(text);
        let redirect_targets: Vec<String> = redirect_targets.into_iter().flatten().collect();
        let mut all = self.needed(text, start);
        // Git's own files are changed by git, or named by the call; never by a redirection.
        let is_in_git = |one: &Exception| one.file.iter().any(|p| p.eq_ignore_ascii_case(".git"));
        let redirect_targets =
            self.named_by_call(&redirect_targets, start).filter(|one| !is_in_git(one));
        for one in self.named_by_call(named, start).chain(redirect_targets) {
            if !all.contains(&one) {
                all.push(one);
            }
        }
        all
    }

    /// The protected files among the paths that a call names.
    fn named_by_call<'a>(
        &'a self,
        paths: &'a [String],
        start: &'a ResolvedPath,
    ) -> impl Iterator<Item = Exception> + 'a {
        let places =
            paths.iter().filter_map(|path| self.workspace.resolve_entry_from(start, path).ok());
        let listed = places.filter(move |resolved| {
            NAMES.at(resolved.base()).protection(resolved.relative()) == Protection::Protected
        });
        listed.filter_map(|resolved| exception(&resolved, "", &self.workspace))
    }

    fn needed(&self, text: &str, start: &ResolvedPath) -> Vec<Exception> {
        // FAIL CLOSED: a program of the workspace named `git` or `cargo` gets no exception.
        let programs = self.programs();
        let is_known = programs.has("git") && programs.has("cargo");
        if is_known { needed(text, start, &self.workspace) } else { Vec::new() }
    }
}

/// One git command of a text.
struct Git<'a> {
    /// The directory of `-C`, as written.
    directory: Option<&'a str>,
    subcommand: &'a str,
    /// The words after the subcommand.
    rest: Vec<&'a str>,
}

/// Commands that change the directory of later redirections.
const CHANGES_DIRECTORY: &[&str] =
    &["cd", "pushd", "popd", "eval", "source", ".", "builtin", "command"];

/// Returns the literal redirection targets that are written. A relative path counts only if no
/// command changes the directory.
fn redirect_targets(text: &str) -> Option<Vec<String>> {
    let script = haft_shell::parse(text).ok()?;
    let stays = |command: &SimpleCommand| match command.words.first() {
        Some(word) => word.literal().is_some_and(|name| !CHANGES_DIRECTORY.contains(&name)),
        None => true,
    };
    let stays_in_directory = script.commands.iter().all(stays);
    let redirects = script.commands.iter().flat_map(|command| &command.redirects);
    let writes = redirects
        .filter(|redirect| matches!(redirect.kind, RedirectKind::Write | RedirectKind::ReadWrite));
    let targets = writes.filter_map(|redirect| redirect.target.literal());
    let known = targets.filter(|target| stays_in_directory || target.starts_with('/'));
    Some(known.map(str::to_owned).collect())
}

/// Finds the protected files that a command needs to change.
fn needed(text: &str, start: &ResolvedPath, workspace: &Workspace) -> Vec<Exception> {
    find(text, start, workspace).unwrap_or_default()
}

fn find(text: &str, start: &ResolvedPath, workspace: &Workspace) -> Option<Vec<Exception>> {
    let script = haft_shell::parse(text).ok()?;
    let mut found = Vec::new();
    for command in &script.commands {
        let words = literal_words(command)?;
        if let Some(package) = cargo::NewPackage::of(&words) {
            found.extend(package.exception(start, workspace)?);
            continue;
        }
        let Some(git) = Git::of(&words) else {
            // A directory change makes the start of later commands unknown.
            let moves = matches!(words.first(), Some(&"cd" | &"pushd" | &"popd"));
            let is_harmless =
                !moves && classify(&haft_shell::quoted(&words)).kind == Kind::ReadOnly;
            is_harmless.then_some(())?;
            continue;
        };
        if git.may_have(UNSAFE_OPTIONS) {
            return None;
        }
        if classify(&haft_shell::quoted(&words)).kind == Kind::ReadOnly {
            continue;
        }
        let entry = GIT_WRITES.iter().find(|entry| entry.is_about(&git));
        let Some(entry) = entry else {
            HARMLESS_SUBCOMMANDS.contains(&git.subcommand).then_some(())?;
            continue;
        };
        if git.may_have(entry.never) {
            return None;
        }
        let here = match git.directory {
            Some(directory) => workspace.resolve_from(start, directory).ok()?,
            None => start.clone(),
        };
        for change in entry.changes {
            found.extend(change.exceptions(&git, &here, workspace)?);
        }
    }
    found.dedup();
    Some(found)
}

/// Returns the words of a command without redirections and assignments.
fn literal_words(command: &SimpleCommand) -> Option<Vec<&str>> {
    if !command.redirects.is_empty() || !command.assignments.is_empty() {
        return None;
    }
    command.words.iter().map(Word::literal).collect()
}

impl<'a> Git<'a> {
    /// Parses a `git` command with no option before its subcommand except `-C` and the pager.
    fn of(words: &[&'a str]) -> Option<Self> {
        let mut words = words.iter().copied();
        (words.next() == Some("git")).then_some(())?;
        let mut directory = None;
        loop {
            match words.next()? {
                "-C" if directory.is_none() => directory = Some(words.next()?),
                "-P" | "--no-pager" => {}
                option if option.starts_with('-') => return None,
                subcommand => return Some(Self { directory, subcommand, rest: words.collect() }),
            }
        }
    }

    fn has_option(&self, options: &[&str]) -> bool {
        self.rest.iter().any(|word| {
            let name = word.split('=').next().unwrap_or(word);
            options.contains(&name)
        })
    }

    /// Whether `git config` changes a setting.
    fn sets(&self) -> bool {
        let positional = self.positional();
        let changes = ["--add", "--unset", "--unset-all", "--replace-all", "--rename-section"];
        let reads = ["get", "list", "edit"].map(Some).contains(&positional.first().copied())
            || self.rest.iter().any(|word| word.starts_with("--get"));
        !reads
            && (positional.len() > 1
                || self.has_option(&changes)
                || self.has_option(&["--remove-section"]))
    }

    /// Whether one of these options may be given: git accepts `--exe` for `--exec`, and `-qx` for
    /// `-q -x`.
    fn may_have(&self, options: &[&str]) -> bool {
        self.rest.iter().any(|word| {
            let name = word.split('=').next().unwrap_or(word);
            let is_same = |option: &&str| match option.strip_prefix("--") {
                Some(_) => name.len() > 2 && option.starts_with(name),
                None => !word.starts_with("--") && word.contains(option.trim_start_matches('-')),
            };
            word.starts_with('-') && options.iter().any(is_same)
        })
    }

    /// The words that are neither options nor option values.
    fn positional(&self) -> Vec<&'a str> {
        let mut words = self.rest.iter().copied();
        let mut found = Vec::new();
        while let Some(word) = words.next() {
            if OPTIONS_WITH_VALUE.contains(&word) {
                words.next();
            } else if !word.starts_with('-') {
                found.push(word);
            }
        }
        found
    }
}

impl GitWrite {
    fn is_about(&self, git: &Git<'_>) -> bool {
        self.subcommand == git.subcommand
            && match self.when {
                When::Always => true,
                When::Word(words) => git.positional().first().is_some_and(|w| words.contains(w)),
                When::Option(options) => git.has_option(options),
                When::Sets => git.sets(),
            }
    }
}

impl Changed {
    /// The exceptions of one change. `None` if the changed file is unknown.
    fn exceptions(
        &self,
        git: &Git<'_>,
        here: &ResolvedPath,
        workspace: &Workspace,
    ) -> Option<Vec<Exception>> {
        let positional = git.positional();
        match self {
            InGit(name) => {
                let git = repository(here, workspace)?;
                Some(vec![exception(&git, name, workspace)?])
            }
            NewRepository => {
                let directory = match git.subcommand {
                    "clone" => match positional[..] {
                        [url] => clone_directory(url)?,
                        [_, directory] => directory,
                        _ => return None,
                    },
                    _ => match positional[..] {
                        [] => ".",
                        [directory] => directory,
                        _ => return None,
                    },
                };
                Some(vec![new_repository(here, directory, workspace)?])
            }
            Worktree => {
                let named = positional.get(1..).unwrap_or_default();
                let last = if positional.first() == Some(&"move") { 2 } else { 1 };
                // A worktree inside of a `.git` directory could add files that git executes.
                let is_inside = |path: &&str| {
                    let resolved = workspace.resolve_from(here, path);
                    resolved
                        .is_ok_and(|resolved| resolved.absolute().iter().any(|part| part == ".git"))
                };
                if named.iter().take(last).any(is_inside) {
                    return None;
                }
                let places = named.iter().take(last).filter_map(|path| {
                    let resolved = git_entry(here, path, workspace)?;
                    let is_directory =
                        workspace.meta(&resolved).is_ok_and(|m| m.kind == FileKind::Directory);
                    // A `.git` directory is a repository, not a worktree.
                    if is_directory { None } else { exception(&resolved, "", workspace) }
                });
                Some(places.collect())
            }
            Submodule => {
                let path = match positional[..] {
                    ["add", url] => clone_directory(url)?,
                    ["add", _, path] => path,
                    _ => return Some(Vec::new()),
                };
                Some(vec![new_repository(here, path, workspace)?])
            }
        }
    }
}

/// The exception for the `.git` of a repository that does not exist yet. An existing one has hooks
/// already, and git does not create them again.
fn new_repository(
    here: &ResolvedPath,
    directory: &str,
    workspace: &Workspace,
) -> Option<Exception> {
    let resolved = git_entry(here, directory, workspace)?;
    (!resolved.exists()).then_some(())?;
    exception(&resolved, "", workspace)
}

/// The directory name that git derives from a URL.
fn clone_directory(url: &str) -> Option<&str> {
    let url = url.trim_end_matches('/');
    let name = url.rsplit(['/', ':']).next()?;
    let name = name.strip_suffix(".git").unwrap_or(name);
    (!name.is_empty() && name != "." && name != "..").then_some(name)
}

/// The entry `.git` of a directory.
fn git_entry(here: &ResolvedPath, directory: &str, workspace: &Workspace) -> Option<ResolvedPath> {
    let directory = workspace.resolve_from(here, directory).ok()?;
    workspace.resolve_entry_from(&directory, ".git").ok()
}

/// Finds the `.git` directory that git would use, inside the workspace. Follows a `.git` file.
fn repository(here: &ResolvedPath, workspace: &Workspace) -> Option<ResolvedPath> {
    let mut here = Some(here.clone());
    while let Some(directory) = here {
        let git = workspace.resolve_entry_from(&directory, ".git").ok()?;
        match workspace.meta(&git).ok().map(|meta| meta.kind) {
            Some(FileKind::Directory) => return Some(git),
            Some(FileKind::File) => {
                let text =
                    String::from_utf8(workspace.read(&git, MAX_GIT_FILE_BYTES).ok()?).ok()?;
                let git_dir = directory.absolute().join(text.strip_prefix("gitdir:")?.trim());
                // A worktree uses the configuration of the main repository:
                // `…/.git/worktrees/name`.
                let main = git_dir.ancestors().find(|path| path.ends_with(".git"))?;
                let git = workspace.resolve_entry(main).ok()?;
                let is_directory = workspace.meta(&git).ok()?.kind == FileKind::Directory;
                return is_directory.then_some(git);
            }
            Some(_) => return None,
            None => here = directory.parent(),
        }
    }
    None
}

/// A `.git` file has one line.
const MAX_GIT_FILE_BYTES: usize = 4_096;

fn exception(resolved: &ResolvedPath, below: &str, workspace: &Workspace) -> Option<Exception> {
    let relative = resolved.relative().join(below);
    let file = resolved.absolute().join(below);
    // The pattern would unprotect the same name in other roots.
    let is_elsewhere = |path: &Path| {
        let found = workspace.resolve_entry(path.join(resolved.relative()));
        found.is_ok_and(|found| found.root() != resolved.root() && found.exists())
    };
    let mut writable = workspace.roots().into_iter().filter(|root| root.access == Access::Write);
    if writable.any(|root| is_elsewhere(&root.path)) {
        return None;
    }
    let text = relative.to_str()?.trim_end_matches('/');
    let has_wildcard = resolved.relative().to_str()?.split('/').any(|part| part == "*");
    (!has_wildcard).then(|| Exception { pattern: format!("./{text}"), file })
}
