//! Commands that run without approval, because the sandbox prevents all effects.
//!
//! In: a profile and the operator's settings. Out: the profile of a confined run, the reason why a
//! command cannot be confined, and a note for the model if a confined run needed more.
//!
//! INVARIANT: a confined profile has no writable root and no network. It shows only the system, the
//! roots and the program directories.

use std::path::{Path, PathBuf};

use haft_core::Confinement;
use haft_sandbox::{
    Access, Environment, Level, Network, ProcessResult, Profile, ReadableFiles, Root, Sandbox,
};

use super::programs::Programs;

/// Resident memory in bytes for all processes of a command that runs without approval.
pub(super) const MAX_CONFINED_RESIDENT: u64 = 512 << 20;

/// The operator's settings for commands.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Whether a command that is not known to write runs confined instead of asking for approval.
    pub(crate) confine_unasked: bool,
    /// Whether commands are only explained, and none runs.
    pub(crate) explains_only: bool,
    /// Whether another program runs the commands, outside of the sandbox.
    pub(crate) runs_elsewhere: bool,
    /// Additional roots of commands: toolchains to read, caches to write.
    pub(crate) roots: Vec<Root>,
    /// Files and directories below these roots that no command may read.
    pub(crate) hidden: Vec<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            confine_unasked: true,
            explains_only: false,
            runs_elsewhere: false,
            roots: Vec::new(),
            hidden: Vec::new(),
        }
    }
}

impl Settings {
    /// Adds a root with its current inode. A root that is replaced later is refused when a command
    /// starts (TOCTOU).
    pub(crate) fn add_root(&mut self, path: PathBuf, access: Access) {
        use std::os::unix::fs::MetadataExt as _;
        let identity = path.symlink_metadata().ok().map(|meta| (meta.dev(), meta.ino()));
        self.roots.push(Root { path, access, identity });
    }

    /// Returns the additional roots that commands may write.
    pub(super) fn writable(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().filter(|root| root.access == Access::Write).map(|root| &*root.path)
    }

    /// Adds the configured roots to a profile. Secrets in them are hidden if the sandbox supports
    /// it.
    pub(super) fn apply(&self, mut profile: Profile, level: Level) -> Profile {
        let own = |root: &&Root| !profile.roots.iter().any(|known| known.path == root.path);
        let more: Vec<Root> = self.roots.iter().filter(own).cloned().collect();
        profile.roots.extend(more);
        // Without namespaces nothing can be hidden, and the user's files are readable anyway.
        if level == Level::Namespaces {
            let is_there = |path: &&PathBuf| path.symlink_metadata().is_ok();
            profile.denied.read.extend(self.hidden.iter().filter(is_there).cloned());
        }
        profile
    }

    /// Returns what a confined run could read, or why no command can be confined.
    pub(super) fn confinement(
        &self,
        sandbox: &Sandbox,
        profile: &Profile,
        programs: &Programs,
    ) -> Result<Confinement, String> {
        let level = sandbox.tier().level;
        if !self.confine_unasked {
            return Err("`[sandbox] confine_unasked` is off".to_owned());
        }
        if level != Level::Namespaces {
            return Err(format!("the tier of the sandbox is `{level}`, not `namespaces`"));
        }
        let confined = confined(profile.clone(), programs);
        let shown = match confined.reads {
            ReadableFiles::Only(paths) => paths,
            ReadableFiles::Everything => {
                return Err("the sandbox would not restrict reads".to_owned());
            }
        };
        let roots = confined.roots.into_iter().map(|root| root.path);
        Ok(Confinement {
            readable: roots.chain(shown).collect(),
            system: ReadableFiles::SYSTEM.iter().map(PathBuf::from).collect(),
        })
    }
}

/// Removes all effects from a profile, and everything from its view that programs in the workspace
/// do not need.
pub(super) fn confined(profile: Profile, programs: &Programs) -> Profile {
    let mut profile = Profile { network: Network::None, ..profile.read_only() };
    profile.limits.resident = MAX_CONFINED_RESIDENT;
    profile.reads = ReadableFiles::Only(programs.directories().collect());
    profile
}

/// Git subcommands that print no file of an earlier commit.
const GIT_WITHOUT_HISTORY: &[&str] =
    &["status", "branch", "ls-files", "rev-parse", "remote", "tag", "describe", "version"];

/// Returns whether a command may print files from git's history, which masks do not cover.
pub(super) fn prints_history(text: &str) -> bool {
    let Ok(script) = haft_shell::parse(text) else { return true };
    script.commands.iter().any(|command| {
        let words: Option<Vec<&str>> = command.words.iter().map(|word| word.literal()).collect();
        let Some(words) = words else { return text.contains("git") };
        let is_git = words.iter().any(|word| word.rsplit('/').next() == Some("git"));
        is_git
            && match &words[..] {
                ["git", "--no-pager", rest @ ..] | ["git", rest @ ..] => prints_contents(rest),
                _ => true,
            }
    })
}

/// Options of `git log` and `git diff` that print no contents of files, up to their `=`.
const WITHOUT_CONTENTS: &[&str] = &[
    "--abbrev-commit",
    "--after",
    "--all",
    "--author",
    "--before",
    "--cached",
    "--date",
    "--decorate",
    "--first-parent",
    "--format",
    "--graph",
    "--grep",
    "--max-count",
    "--merges",
    "--name-only",
    "--name-status",
    "--no-color",
    "--no-merges",
    "--numstat",
    "--oneline",
    "--pretty",
    "--quiet",
    "--reverse",
    "--shortstat",
    "--since",
    "--staged",
    "--stat",
    "--until",
];

/// Returns whether git, called with these words, may print contents of files.
///
/// FAIL CLOSED: an option that is not listed may print a patch.
fn prints_contents(words: &[&str]) -> bool {
    let Some((name, rest)) = words.split_first() else { return false };
    let options = || rest.iter().take_while(|word| **word != "--").filter(|w| w.starts_with('-'));
    let is_count = |word: &str| {
        let digits = word.strip_prefix("-n").or_else(|| word.strip_prefix('-')).unwrap_or_default();
        digits.bytes().all(|b| b.is_ascii_digit())
    };
    let option = |word: &str| word.split_once('=').map_or(word, |(name, _)| name).to_owned();
    let is_listed = |word: &&str| WITHOUT_CONTENTS.contains(&&*option(word)) || is_count(word);
    // Without one of these `git diff` prints a patch.
    let forms = ["--stat", "--shortstat", "--numstat", "--name-only", "--name-status"];
    let summarizes = |word: &&str| forms.contains(&&*option(word));
    match *name {
        "log" => !options().all(is_listed),
        "diff" => !options().all(is_listed) || !options().any(summarizes),
        name => !GIT_WITHOUT_HISTORY.contains(&name),
    }
}

/// Returns the environment of a confined run: programs skip optional writes.
pub(super) fn variables(environment: &Environment) -> Environment {
    environment.clone().set("GIT_OPTIONAL_LOCKS", "0").set("PYTHONDONTWRITEBYTECODE", "1")
}

/// Messages of programs that may not write, in the default locale.
const WRITE_REFUSED: [&str; 3] = ["Read-only file system", "EROFS", "read-only file system"];
/// Messages of programs without network.
const NETWORK_REFUSED: [&str; 8] = [
    "Network is unreachable",
    "Could not resolve host",
    "Temporary failure in name resolution",
    "Name or service not known",
    "getaddrinfo",
    "EAI_AGAIN",
    "ENETUNREACH",
    "socket: Operation not permitted",
];
/// Messages for a missing or hidden file. A file of another owner gives `Permission denied` too.
const FILE_NOT_VISIBLE: [&str; 3] = ["No such file or directory", "Permission denied", "EACCES"];

/// Returns a note for the model if a confined command seems to have needed more.
pub(super) fn note(ended: &ProcessResult, has_network: bool) -> Option<String> {
    let err = String::from_utf8_lossy(ended.stderr.bytes());
    // With `2>&1` the messages are in stdout. After a success that may be the text of any file.
    let out = if ended.is_success() {
        String::new()
    } else {
        String::from_utf8_lossy(ended.stdout.bytes()).into_owned()
    };
    let has = |sign: &&str| err.contains(*sign) || out.contains(*sign);
    let wanted = match (WRITE_REFUSED.iter().any(has), NETWORK_REFUSED.iter().any(has)) {
        (true, true) => "It seems to have tried to write and to connect.",
        (true, false) => "It seems to have tried to write.",
        (false, true) => "It seems to have tried to connect.",
        (false, false) if !ended.is_success() && FILE_NOT_VISIBLE.iter().any(has) => {
            "A file that was refused or not found may be outside of what it could see."
        }
        (false, false) => return None,
    };
    let network = if has_network { "" } else { " Commands have no network here." };
    Some(format!(
        "note: this command ran confined, without approval. It could read the workspace and the \
         system and write temporary files only. It had no network, and the home directory was \
         empty. {wanted} If it needs more, call again with `access: \"write\"`; this may need \
         approval.{network}"
    ))
}

#[cfg(test)]
mod tests {
    use super::prints_history;

    #[test]
    fn git_prints_history_only_with_patches_and_contents() {
        for text in [
            "git status --short",
            "git log --oneline -5",
            "git --no-pager log -n 3 --format='%h %s' main..HEAD -- src",
            "git log --stat --since=yesterday | head -20",
            "git diff --stat HEAD~1",
            "git diff --cached --name-only",
            "grep -r x .",
        ] {
            assert!(!prints_history(text), "{text}");
        }
        for text in [
            "git log -p",
            "git log --oneline -5 -p",
            "git log -L1,5:.env",
            "git log -S x --patch-with-stat",
            "git log --cc",
            "git diff",
            "git diff --cached",
            "git diff --stat -p",
            "git diff --stat -U3",
            "git show HEAD:.env",
            "git -C x log",
            "git cat-file -p HEAD:.env",
            "env git log",
            "git log $X",
        ] {
            assert!(prints_history(text), "{text}");
        }
    }
}
