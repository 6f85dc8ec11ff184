//! Names that need a grant of their own, wherever they stand and whether they exist or not.
//!
//! They are files that make some other program run something: hooks, tasks, pipelines, our own
//! configuration. Matching is pure and errs on the strict side: case, ignorable characters and the
//! short names of other systems make no difference.
//!
//! INVARIANT: a path that any file system could take for a protected one is protected.

use std::{ffi::OsStr, path::Path};

/// The names that are protected unless a host says otherwise.
pub const PROTECTED: &[&str] = &[
    // Git runs what these say.
    ".git/hooks",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/modules",
    // Our own configuration, and that of other agents.
    ".haft",
    "haft.toml",
    "haft.local.toml",
    ".claude",
    ".codex",
    ".cursor",
    ".mcp.json",
    // Shells and editors run these when a folder is opened.
    ".envrc",
    ".vscode",
    ".idea",
    ".devcontainer",
    // Pipelines run these with secrets.
    ".github/workflows",
    ".gitlab-ci.yml",
    ".circleci",
];

/// How a path stands to the protected names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has nothing to do with them.
    Free,
    /// A protected name would lie below it: moving or replacing it would get around the protection.
    Above,
    /// It is one, or lies below one.
    Protected,
}

/// A set of protected names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Protected {
    names: Vec<Vec<String>>,
    given: Vec<String>,
}

impl Protected {
    pub(crate) fn new(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let given: Vec<String> = names.into_iter().map(Into::into).collect();
        let names = given.iter().map(|name| folded(Path::new(name))).filter(|n| !n.is_empty());
        Self { names: names.collect(), given }
    }

    pub(super) fn names(&self) -> &[String] {
        &self.given
    }

    /// Says how a path without links, relative to its root, stands to the names. They count at any
    /// depth: a repository inside the workspace has hooks too.
    pub(super) fn standing(&self, path: &Path) -> Standing {
        let parts = folded(path);
        let mut standing = Standing::Free;
        for start in 0..parts.len() {
            for name in &self.names {
                let here = &parts[start..];
                if here.starts_with(name) {
                    return Standing::Protected;
                }
                if name.starts_with(here) {
                    standing = Standing::Above;
                }
            }
        }
        standing
    }
}

/// What is done to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    CreateDir,
    CreateFile,
    CreateLink,
    Write,
    Remove,
    MoveTo,
    MoveFrom,
}
pub(crate) struct Refusal {
    pub(crate) reason: &'static str,
}
impl Protected {
    pub(crate) fn check(&self, path: &Path, change: Change) -> Result<(), Refusal> {
        match (self.standing(path), change) {
            (Standing::Protected, _) => Err(Refusal { reason: "protected" }),
            (Standing::Above, Change::CreateDir | Change::Remove) => Ok(()),
            (Standing::Above, _) => Err(Refusal { reason: "above" }),
            _ => Ok(()),
        }
    }
    pub(crate) fn is_move_allowed(from: &Path, to: &Path) -> bool {
        let git = |path: &Path| path.iter().any(|part| part == ".git");
        git(from) == git(to)
    }
}

fn folded(path: &Path) -> Vec<String> {
    path.components().map(|part| fold(part.as_os_str())).collect()
}

/// Brings a name to the form in which a forgiving file system would compare it.
fn fold(name: &OsStr) -> String {
    let text = name.to_string_lossy();
    // NTFS: `name::$INDEX_ALLOCATION` and `name:stream` are the same file.
    let text = text.split(':').next().unwrap_or_default();
    let folded: String = text
        .chars()
        .filter(|c| !is_ignorable(*c))
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect();
    let folded = folded.trim_end_matches(['.', ' ']);
    // The short name that NTFS gives to `.git`; the others have no fixed one.
    if folded.strip_prefix("git~").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit())) {
        return ".git".to_owned();
    }
    folded.to_owned()
}

/// What HFS+ leaves out when it compares names, and what nobody sees.
fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(path: &str) -> Standing {
        Protected::new(PROTECTED.iter().copied()).standing(Path::new(path))
    }

    #[test]
    fn a_protected_name_is_one_in_any_spelling_and_at_any_depth() {
        for path in [
            ".git/hooks",
            ".git/hooks/pre-commit",
            ".GIT/Hooks/x",
            "sub/deep/.git/config",
            "haft.toml",
            ".HAFT/rules",
            ".g\u{200c}it/hooks",
            "git~1/hooks",
            ".git./hooks ",
            ".envrc",
            "a/.envrc",
            ".git::$INDEX_ALLOCATION/config",
            ".vscode/tasks.json",
            ".github/workflows/ci.yml",
            ".g\u{131}t/../haft.toml",
            "HAFT.TOML",
            ".\u{feff}haft",
            "\u{212a}/.envrc",
        ] {
            assert_eq!(standing(path), Standing::Protected, "{path}");
        }
    }

    #[test]
    fn every_file_that_configures_haft_is_protected_at_any_depth() {
        use haft_core::config_files::{CONFIG_FILES, RESERVED_DIRECTORY};
        let files = CONFIG_FILES.iter().map(|file| file.path);
        for path in files.chain([RESERVED_DIRECTORY]) {
            assert_eq!(standing(path), Standing::Protected, "{path}");
            assert_eq!(standing(&format!("sub/deep/{path}")), Standing::Protected, "{path}");
        }
    }

    #[test]
    fn what_a_protected_name_would_lie_below_is_told_apart() {
        for path in [".git", "sub/.git", ".github", "GIT~1"] {
            assert_eq!(standing(path), Standing::Above, "{path}");
        }
        for path in [".gitignore", "src/haft.toml.rs", ".git/index", "hooks", "config", ".github/x"]
        {
            assert_eq!(standing(path), Standing::Free, "{path}");
        }
    }
}
