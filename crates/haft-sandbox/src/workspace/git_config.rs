//! Finds files that the git configuration of a repository names: hooks, attributes, a file system
//! monitor, included configuration. Git executes or obeys them like `.git/config` itself.
//!
//! In: the root of a repository. Out: paths below that root, which must be protected. Reading is
//! bounded, and no symlink is followed.

use std::{
    fs::File,
    io::Read as _,
    os::fd::BorrowedFd,
    path::{Component, Path, PathBuf},
};

use rustix::fs::{FileType, OFlags};

use super::handle::open_below;

/// Bytes of a configuration that are read.
const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// Configuration files that are read for one repository, includes counted.
const MAX_CONFIGS: usize = 16;
/// Paths that are protected for one repository.
const MAX_PATHS: usize = 256;

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

/// Returns the files and directories below a root that its repository's configuration names.
pub(super) fn named_files(
    root: &Path,
    handle: BorrowedFd<'_>,
) -> impl Iterator<Item = String> + use<> {
    let mut todo: Vec<PathBuf> = vec![".git/config".into(), ".git/config.worktree".into()];
    let mut found: Vec<PathBuf> = Vec::new();
    let mut at = 0;
    while let Some(config) = todo.get(at).filter(|_| at < MAX_CONFIGS).cloned() {
        at += 1;
        let Some(text) = read(handle, &config) else { continue };
        let directory = config.parent().unwrap_or(Path::new("")).to_owned();
        for (key, value) in settings(&text) {
            let (base, value) = match &*key {
                "include.path" | "includeif.path" => (&*directory, &*value),
                "core.hookspath" | "core.attributesfile" => (Path::new(""), &*value),
                // Its value is a command line; the program may be a path in the workspace.
                "core.fsmonitor" => {
                    (Path::new(""), value.split_whitespace().next().unwrap_or_default())
                }
                _ => continue,
            };
            for path in below(root, base, value) {
                if key.starts_with("include") && !todo.contains(&path) {
                    todo.push(path.clone());
                }
                if path.as_os_str().is_empty() && key == "core.hookspath" {
                    found.extend(HOOKS.iter().map(PathBuf::from));
                } else if !path.as_os_str().is_empty() {
                    found.push(path);
                }
            }
        }
    }
    found.into_iter().take(MAX_PATHS).filter_map(|path| path.into_os_string().into_string().ok())
}

/// Returns a configured path relative to the root: normalized as text, and with symlinks resolved.
fn below(root: &Path, base: &Path, value: &str) -> Vec<PathBuf> {
    if value.is_empty() || value.starts_with('~') {
        return Vec::new();
    }
    let mut whole = PathBuf::new();
    for part in root.join(base).join(value).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                whole.pop();
            }
            other => whole.push(other),
        }
    }
    let canonical = root.join(base).join(value).canonicalize().ok();
    let mut all: Vec<PathBuf> = [Some(whole), canonical].into_iter().flatten().collect();
    all.dedup();
    all.iter().filter_map(|path| path.strip_prefix(root).ok()).map(Path::to_owned).collect()
}

/// Reads a regular file below the root. Does not block on a FIFO.
fn read(root: BorrowedFd<'_>, path: &Path) -> Option<String> {
    let file = open_below(root, path, OFlags::RDONLY).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::new();
    File::from(file).take(MAX_CONFIG_BYTES).read_to_end(&mut bytes).ok()?;
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
}
