//! Finds files that the git configuration of a repository names: hooks, attributes, programs of
//! drivers, aliases and helpers, included configuration. Git executes or obeys them like
//! `.git/config` itself.
//!
//! In: a root and a directory in it. Out: names below the root, which must be protected. File
//! tools, the launch of a command and the supervisor call the same function. It only reads, its
//! reads are bounded, and it never blocks on a FIFO.

use std::{
    fs::{File, Metadata},
    io::Read as _,
    os::unix::fs::MetadataExt as _,
    path::{Component, Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use haft_core::protected_names::ProtectedNames;
use rustix::fs::{Mode, OFlags};

/// Bytes of a configuration that are read.
const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// Configuration files that are read for one repository, includes counted.
const MAX_CONFIGS: usize = 16;
/// Names that are protected for one directory.
const MAX_NAMES: usize = 1024;
/// Repositories that are read for one directory.
const MAX_REPOSITORIES: usize = 64;
/// Bytes of a file with one path, such as `.git` or `commondir`.
const MAX_POINTER_BYTES: u64 = 8 << 10;
/// Entries that are read of `.git/worktrees` or of a directory of `.git/modules`.
const MAX_ENTRIES: usize = 256;

/// Why such a file is protected.
pub(crate) const NAMED_BY_GIT: &str =
    "the configuration of a git repository names it, and git runs or obeys it";

/// Files that git executes in a hooks directory, for a directory that cannot be protected as a
/// whole.
const HOOKS: &[&str] = &[
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-rewrite",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "prepare-commit-msg",
    "reference-transaction",
    "sendemail-validate",
];

/// Settings whose value is a command line or a program that git runs. The subsection is left out:
/// `filter.NAME.clean` is `filter.clean`.
const COMMANDS: &[&str] = &[
    "browser.cmd",
    "browser.path",
    "core.alternaterefscommand",
    "core.askpass",
    "core.editor",
    "core.fsmonitor",
    "core.gitproxy",
    "core.pager",
    "core.sshcommand",
    "credential.helper",
    "diff.command",
    "diff.external",
    "diff.textconv",
    "difftool.cmd",
    "difftool.path",
    "filter.clean",
    "filter.process",
    "filter.smudge",
    "gpg.defaultkeycommand",
    "gpg.program",
    "guitool.cmd",
    "hook.command",
    "interactive.difffilter",
    "lfs.clean",
    "lfs.path",
    "lfs.smudge",
    "man.cmd",
    "man.path",
    "merge.driver",
    "mergetool.cmd",
    "mergetool.path",
    "remote.receivepack",
    "remote.uploadpack",
    "sendemail.cccmd",
    "sendemail.headercmd",
    "sendemail.sendmailcmd",
    "sendemail.tocmd",
    "sequence.editor",
    "submodule.update",
    "tar.command",
    "trailer.cmd",
    "trailer.command",
    "uploadpack.packobjectshook",
];

/// Depth of command lines in words of a command line, as in `sh -c '…'`.
const MAX_NESTED_COMMANDS: u32 = 3;

/// The names for one directory, and the files that they were read from.
pub(crate) struct NamedFiles {
    /// Names below the root. They begin with `./`, because they hold at the root only.
    pub(crate) names: Vec<String>,
    seen: Vec<(PathBuf, Option<FileStat>)>,
}

/// The state of a file. If it is equal, the file was not changed.
type FileStat = [i64; 7];

/// The names for the directory that was asked about last.
#[derive(Default)]
pub(super) struct LastNamed(Mutex<Option<Last>>);

struct Last {
    root: PathBuf,
    directory: PathBuf,
    seen: Vec<(PathBuf, Option<FileStat>)>,
    names: Arc<ProtectedNames>,
}

impl LastNamed {
    /// Returns the protected names for entries of a directory. Reads the configuration again if it
    /// was changed.
    pub(super) fn of(&self, root: &Path, directory: &Path) -> Arc<ProtectedNames> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |last: &&mut Last| {
            let is_unchanged = |(path, known): &(PathBuf, _)| stamp(path) == *known;
            last.root == root && last.directory == directory && last.seen.iter().all(is_unchanged)
        };
        if let Some(last) = last.as_mut().filter(is_same) {
            return Arc::clone(&last.names);
        }
        let NamedFiles { names, seen } = NamedFiles::find(root, directory);
        let names = Arc::new(ProtectedNames::new(names, [] as [&str; 0]));
        let (root, directory) = (root.to_owned(), directory.to_owned());
        *last = Some(Last { root, directory, seen, names: Arc::clone(&names) });
        names
    }
}

impl NamedFiles {
    /// Finds the names for entries of a directory: those of each repository that the directory lies
    /// in, and of the submodules and linked worktrees of these repositories.
    pub(crate) fn find(root: &Path, directory: &Path) -> Self {
        let mut found = Self { names: Vec::new(), seen: Vec::new() };
        let mut todo: Vec<PathBuf> = Vec::new();
        for above in directory.ancestors() {
            let has_git = found.see(&above.join(".git")).is_some();
            if has_git {
                todo.push(above.to_owned());
            }
            // Of the directories above the root only the innermost repository contains it.
            if has_git && root.starts_with(above) {
                break;
            }
        }
        let mut at = 0;
        while let Some(worktree) = todo.get(at).filter(|_| at < MAX_REPOSITORIES).cloned() {
            at += 1;
            let Some((git, common)) = found.git_directories(&worktree) else { continue };
            found.read_repository(root, &worktree, &git, &common);
            for other in found.linked(&common) {
                if !todo.contains(&other) {
                    todo.push(other);
                }
            }
        }
        found.names.sort_unstable();
        found.names.dedup();
        found.names.truncate(MAX_NAMES);
        found
    }

    /// Returns the metadata of a path, and records that the result depends on it.
    fn see(&mut self, path: &Path) -> Option<Metadata> {
        self.seen.push((path.to_owned(), stamp(path)));
        path.metadata().ok()
    }

    /// Reads a file, and records that the result depends on it.
    fn read(&mut self, path: &Path, max_bytes: u64) -> Option<String> {
        self.seen.push((path.to_owned(), stamp(path)));
        read(path, max_bytes)
    }

    /// Returns the git directory of a working tree, and the common one of all its worktrees.
    fn git_directories(&mut self, worktree: &Path) -> Option<(PathBuf, PathBuf)> {
        let entry = worktree.join(".git");
        let git = if entry.is_dir() {
            entry
        } else {
            let text = self.read(&entry, MAX_POINTER_BYTES)?;
            worktree.join(text.strip_prefix("gitdir:")?.trim())
        };
        let common = match self.read(&git.join("commondir"), MAX_POINTER_BYTES) {
            Some(text) => git.join(text.trim()),
            None => git.clone(),
        };
        Some((git, common))
    }

    /// Returns the working trees of the submodules and linked worktrees of a repository.
    fn linked(&mut self, common: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in self.entries(&common.join("worktrees")) {
            let text = self.read(&entry.join("gitdir"), MAX_POINTER_BYTES);
            let git = text.map(|text| entry.join(text.trim()));
            found.extend(git.and_then(|git| Some(git.parent()?.to_owned())));
        }
        // The name of a submodule may have slashes, so its directory may be further down.
        let mut todo = self.entries(&common.join("modules"));
        let mut at = 0;
        while let Some(module) = todo.get(at).filter(|_| at < MAX_ENTRIES).cloned() {
            at += 1;
            match self.read(&module.join("config"), MAX_CONFIG_BYTES) {
                None => todo.extend(self.entries(&module)),
                Some(text) => {
                    let tree = settings(&text).into_iter().find(|(key, _)| key == "core.worktree");
                    let tree = tree.and_then(|(_, tree)| module.join(tree).canonicalize().ok());
                    found.extend(tree);
                    todo.extend(self.entries(&module.join("modules")));
                }
            }
        }
        found
    }

    fn entries(&mut self, directory: &Path) -> Vec<PathBuf> {
        if self.see(directory).is_none() {
            return Vec::new();
        }
        let entries = directory.read_dir().into_iter().flatten().take(MAX_ENTRIES);
        entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
    }

    /// Reads the configuration of a repository and what it includes.
    fn read_repository(&mut self, root: &Path, worktree: &Path, git: &Path, common: &Path) {
        let mut todo = vec![common.join("config"), git.join("config.worktree")];
        let mut at = 0;
        while let Some(config) = todo.get(at).filter(|_| at < MAX_CONFIGS).cloned() {
            at += 1;
            let Some(text) = self.read(&config, MAX_CONFIG_BYTES) else { continue };
            for (key, value) in settings(&text) {
                let Some(named) = Named::of(&key, &value) else { continue };
                let base = match named {
                    Named::Config => config.parent().unwrap_or(worktree),
                    Named::Path | Named::Hooks | Named::Command => worktree,
                };
                for path in named.paths(base, &value) {
                    if named == Named::Config && !todo.contains(&path) {
                        todo.push(path.clone());
                    }
                    self.protect(root, &path, named);
                }
            }
        }
    }

    /// Adds a path, if it is below the root: normalized as text, and with symlinks resolved.
    fn protect(&mut self, root: &Path, path: &Path, named: Named) {
        let canonical = path.canonicalize().ok();
        for path in [Some(path), canonical.as_deref()].into_iter().flatten() {
            let Ok(below) = path.strip_prefix(root) else { continue };
            let Some(below) = below.to_str() else { continue };
            match (below, named) {
                ("", Named::Hooks) => {
                    self.names.extend(HOOKS.iter().map(|hook| format!("./{hook}")));
                }
                ("", _) => {}
                (below, _) => self.names.push(format!("./{below}")),
            }
        }
    }
}

/// What the value of a setting names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    /// Another configuration file.
    Config,
    /// A file that git obeys.
    Path,
    /// A directory of programs that git runs.
    Hooks,
    /// A command line that git runs.
    Command,
}

impl Named {
    fn of(key: &str, value: &str) -> Option<Self> {
        Some(match key {
            "include.path" | "includeif.path" => Self::Config,
            "core.attributesfile" | "gpg.allowedsignersfile" | "init.templatedir" => Self::Path,
            "core.hookspath" => Self::Hooks,
            // Without a `!` it is a subcommand of git.
            key if key.starts_with("alias.") && !value.starts_with('!') => return None,
            key if key.starts_with("alias.") || key.starts_with("pager.") => Self::Command,
            key if COMMANDS.contains(&key) => Self::Command,
            _ => return None,
        })
    }

    /// Returns the absolute paths in a value, normalized as text.
    fn paths(self, base: &Path, value: &str) -> Vec<PathBuf> {
        if self != Self::Command {
            return normalized(base, value).into_iter().collect();
        }
        let mut found = Vec::new();
        command_paths(base, value, MAX_NESTED_COMMANDS, &mut found);
        found
    }
}

/// Collects the programs and scripts in a command line. A program is searched in `PATH` unless it
/// has a slash. Its arguments may be scripts, or command lines for a shell.
fn command_paths(base: &Path, line: &str, depth: u32, found: &mut Vec<PathBuf>) {
    for (is_program, word) in words(line) {
        if is_program && word.contains('/') || base.join(&word).is_file() {
            found.extend(normalized(base, &word));
        } else if depth > 0 && word.contains(is_separator) {
            command_paths(base, &word, depth - 1, found);
        }
    }
}

/// Splits a command line into words without quotes, and whether each is the first of a command.
/// Unquoted shell operators end a command, and so does the `!` of an alias.
fn words(line: &str) -> Vec<(bool, String)> {
    let (mut all, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut is_program = true;
    for c in line.chars().chain([' ']) {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => quote = Some(c),
            (c, None) if is_separator(c) => {
                if !word.is_empty() {
                    all.push((is_program, std::mem::take(&mut word)));
                    is_program = false;
                }
                is_program |= !matches!(c, ' ' | '\t');
            }
            (c, _) => word.push(c),
        }
    }
    all
}

fn is_separator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '{' | '}' | '!' | '<' | '>' | '`')
}

/// Joins a path without `.` and `..`. The home directory is not known here.
fn normalized(base: &Path, value: &str) -> Option<PathBuf> {
    if value.is_empty() || value.starts_with('~') {
        return None;
    }
    let mut whole = PathBuf::new();
    for part in base.join(value).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                whole.pop();
            }
            other => whole.push(other),
        }
    }
    Some(whole)
}

/// Returns the state of a file, `None` if there is none. Git changes the entries of a directory
/// `.git` all the time, so only its identity counts.
fn stamp(path: &Path) -> Option<FileStat> {
    let meta = path.metadata().ok()?;
    let (device, inode) = (meta.dev().cast_signed(), meta.ino().cast_signed());
    if meta.is_dir() && path.ends_with(".git") {
        return Some([device, inode, 0, 0, 0, 0, 0]);
    }
    let size = meta.size().cast_signed();
    let (modified, changed) = (meta.mtime(), meta.ctime());
    Some([device, inode, size, modified, meta.mtime_nsec(), changed, meta.ctime_nsec()])
}

/// Reads a regular file. Does not block on a FIFO.
fn read(path: &Path, max_bytes: u64) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Parses a configuration into `section.key`, in lower case and without the subsection, and values.
/// Invalid lines are skipped.
fn settings(text: &str) -> Vec<(String, String)> {
    // A backslash at the end continues the line.
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace("\\\n", "");
    let mut all = Vec::new();
    let mut section = String::new();
    for line in text.lines() {
        let mut line = line.trim_start();
        if let Some(rest) = line.strip_prefix('[') {
            let Some((head, after)) = section_end(rest) else { continue };
            let name = head.split(|c: char| c.is_whitespace() || c == '.' || c == '"').next();
            section = name.unwrap_or_default().to_ascii_lowercase();
            line = after.trim_start();
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let key = key.trim();
        if key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            continue;
        }
        all.push((format!("{section}.{}", key.to_ascii_lowercase()), unquoted(value)));
    }
    all
}

/// Splits after the bracket that closes a section header. A quoted bracket does not close it.
fn section_end(text: &str) -> Option<(&str, &str)> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let at = text.char_indices().find(|(_, c)| {
        let is_end = *c == ']' && !is_quoted;
        is_quoted ^= *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_end
    })?;
    Some((text.get(..at.0)?, text.get(at.0 + 1..)?))
}

/// Removes quotes, escapes and a comment from a value.
fn unquoted(value: &str) -> String {
    let (mut text, mut is_quoted) = (String::new(), false);
    // The length without trailing blanks, which count only in quotes.
    let mut kept = 0;
    let mut chars = value.trim_start().chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => break,
            '\\' => match chars.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some(other) => text.push(other),
                None => break,
            },
            c => text.push(c),
        }
        if is_quoted || !c.is_whitespace() {
            kept = text.len();
        }
    }
    text.truncate(kept);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_parsed_like_git_does() {
        let text = "\u{feff}# a comment\n[core]\n\tbare = false\n\thooksPath = \"my hooks\" ; x\n\
                    [CORE] HooksPath = a\\\nb\n[includeIf \"gitdir:[x]/\"]\n path = c#d\n\
                    [include]path=e\\\\f  \n[broken\n[remote \"o\"]\n\turl = x=y\n";
        let found = settings(text);
        let found: Vec<(&str, &str)> = found.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(
            found,
            [
                ("core.bare", "false"),
                ("core.hookspath", "my hooks"),
                ("core.hookspath", "ab"),
                ("includeif.path", "c"),
                ("include.path", "e\\f"),
                ("remote.url", "x=y"),
            ]
        );
    }

    #[test]
    fn command_lines_name_programs_and_existing_scripts() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        for file in ["a.sh", "b.sh", "c d.sh"] {
            File::create(base.join(file)).unwrap();
        }
        let named = |value: &str| -> Vec<String> {
            let paths = Named::Command.paths(&base, value);
            paths
                .iter()
                .map(|path| path.strip_prefix(&base).unwrap().display().to_string())
                .collect()
        };
        for (value, wanted) in [
            ("git-x status", &[][..]),
            ("!./new.sh status", &["new.sh"]),
            ("!f() { ./x/y \"$@\"; sh b.sh; }; f", &["x/y", "b.sh"]),
            ("python3 a.sh %f", &["a.sh"]),
            ("sh -c 'cd sub && ./x.sh'", &["x.sh"]),
            ("'./c d.sh' --now", &["c d.sh"]),
            ("true|./p&&./q", &["p", "q"]),
            ("echo sub/free", &[]),
        ] {
            assert_eq!(named(value), wanted, "{value}");
        }
    }

    #[test]
    fn settings_that_run_programs_are_known_by_any_subsection() {
        let text = "[credential \"https://x\"]\nhelper = !./c\n[alias]\nst = !./s\nl = log x\n[alias \"q\"]\n\
                    command = !./q\n[core]\nsshCommand = ./ssh\nautocrlf = ./no\n[pager]\nlog = ./p\n";
        let is_command = |(key, value): (String, String)| {
            (Named::of(&key, &value) == Some(Named::Command)).then_some(value)
        };
        let found: Vec<String> = settings(text).into_iter().filter_map(is_command).collect();
        assert_eq!(found, ["!./c", "!./s", "!./q", "./ssh", "./p"]);
    }
}
