//! Known effects of a command that is not proven read-only: writes, network, or unknown.
//!
//! A sandbox without effects can try an unknown command. A command that is known to write would
//! only fail there, so the caller asks for approval instead. This table only chooses between
//! approval and a confined try; it never makes a command read-only.
//!
//! INVARIANT: [`CommandEffect::ReadOnly`] exactly if the kind is [`Kind::ReadOnly`].

use std::fmt;

use super::{Kind, Part, destructive::fits, fetch};
use crate::{
    Program, RedirectKind, Script, SimpleCommand, Word, Wrappers,
    interpreters::{self, Language},
    wrappers::programs,
};

/// The known effects of a command, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandEffect {
    /// Proven read-only.
    ReadOnly,
    /// Unknown. A sandbox without effects can run it.
    Unknown,
    /// Known to write, or unparseable.
    Writes,
    /// Known to use the network or a service.
    Network,
}

impl CommandEffect {
    /// Returns its name: `read_only`, `unknown`, `writes` or `network`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::Unknown => "unknown",
            Self::Writes => "writes",
            Self::Network => "network",
        }
    }
}

impl fmt::Display for CommandEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// When a program has the effect.
enum When {
    /// Always, except for its help or version.
    Always,
    /// Unless one of these entries matches.
    Unless(&'static [&'static str]),
    /// If one of these entries matches.
    With(&'static [&'static str]),
}

use When::{Always, Unless, With};

/// Names separated by spaces, and when they write.
const WRITES: &[(&str, When)] = &[
    ("touch mkdir mkfifo mknod cp mv ln install rename sponge split csplit", Always),
    ("chmod chown chgrp setfacl setfattr chattr setcap", Always),
    ("ed ex vi vim nvim nano emacs", Always),
    ("sudo su doas pkexec", Always),
    ("patch", Unless(&["--dry-run"])),
    ("gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lzma", Unless(&["-c", "-l", "-t", "--stdout"])),
    ("zip 7z 7za unrar", Always),
    ("unzip", Unless(&["-l", "-t", "-p", "-Z", "-v"])),
    ("crontab", Unless(&["-l"])),
    ("sed gsed perl ruby", With(&["-i", "--in-place"])),
    ("sort", With(&["-o", "--output"])),
    ("make gmake bmake", Unless(&["-n", "-q", "-p", "--dry-run", "--just-print", "--question"])),
    ("ninja", Unless(&["-n", "-t"])),
    ("cmake", Unless(&["-N", "-E"])),
    ("meson mvn mvnw gradle gradlew ant sbt bazel dotnet javac", Always),
    ("tsc", Unless(&["--noEmit"])),
    (
        "gcc g++ cc c++ clang clang++",
        Unless(&["-E", "-v", "-fsyntax-only", "-dumpversion", "-dumpmachine"]),
    ),
    ("rustc", Unless(&["-V", "-vV", "--print", "--explain"])),
    ("rustfmt black isort", Unless(&["--check", "--diff"])),
    ("gofmt prettier", With(&["-w", "--write"])),
    ("eslint ruff", With(&["--fix"])),
    (
        "cargo",
        With(&[
            "build",
            "b",
            "check",
            "c",
            "test",
            "t",
            "run",
            "r",
            "bench",
            "clippy",
            "doc",
            "d",
            "fix",
            "add",
            "remove",
            "new",
            "init",
            "update",
            "generate-lockfile",
            "vendor",
            "clean",
            "package",
            "nextest",
            "miri",
            "uninstall",
        ]),
    ),
    ("go", With(&["build", "install", "generate", "mod", "fmt", "fix", "clean", "work"])),
    ("virtualenv venv ensurepip compileall", Always),
    ("poetry pipenv", With(&["add", "remove", "lock", "sync", "init", "new"])),
    ("systemctl service launchctl", With(&["start", "restart", "reload", "enable"])),
    ("useradd usermod groupadd adduser passwd", Always),
];

/// Names separated by spaces, and when they use the network or a service.
const NETWORK: &[(&str, When)] = &[
    ("ping ping6 traceroute tracepath mtr host whois nmap rsh mail sendmail", Always),
    ("docker podman nerdctl docker-compose podman-compose kubectl oc helm", Always),
    ("terraform tofu terragrunt pulumi cdk vagrant heroku flyctl doctl", Always),
    ("psql mysql mariadb mysqladmin redis-cli mongo mongosh", Always),
    (
        "npm pnpm bun",
        With(&[
            "install", "i", "ci", "add", "update", "up", "upgrade", "publish", "login", "audit",
            "view", "info", "search", "outdated", "exec", "dlx", "create", "x", "dedupe", "link",
        ]),
    ),
    (
        "yarn",
        With(&["install", "add", "up", "upgrade", "publish", "dlx", "create", "info", "outdated"]),
    ),
    ("npx bunx uvx pipx", Always),
    ("pip pip3", With(&["install", "download", "wheel", "index", "search"])),
    (
        "uv",
        With(&["add", "remove", "sync", "lock", "pip install", "tool", "venv", "run", "publish"]),
    ),
    ("poetry pipenv bundle", With(&["install", "update", "publish"])),
    ("gem", With(&["install", "update", "push", "search"])),
    ("composer", With(&["install", "update", "require", "create-project"])),
    ("go", With(&["get"])),
    ("cargo", With(&["install", "publish", "search", "fetch", "login", "owner", "yank"])),
    ("rustup", With(&["update", "install", "toolchain install", "target add", "component add"])),
    (
        "apt apt-get aptitude dnf yum zypper brew apk snap flatpak",
        With(&["install", "update", "upgrade", "dist-upgrade", "full-upgrade", "add", "download"]),
    ),
    ("pacman", With(&["-S"])),
];

/// Git subcommands that write.
const GIT_WRITES: &[&str] = &[
    "add",
    "commit",
    "checkout",
    "switch",
    "restore",
    "reset",
    "merge",
    "rebase",
    "cherry-pick",
    "revert",
    "mv",
    "rm",
    "init",
    "am",
    "gc",
    "repack",
    "prune",
    "pack-refs",
    "update-index",
    "update-ref",
    "write-tree",
    "commit-tree",
    "fast-import",
    "read-tree",
    "clean",
    "replace",
    "mergetool",
    "maintenance",
    "lfs",
    "hash-object -w",
    "stash push",
    "stash pop",
    "stash apply",
    "stash save",
    "stash branch",
    "stash store",
    "stash drop",
    "stash clear",
    "notes add",
    "notes append",
    "notes edit",
    "notes copy",
    "worktree add",
    "worktree move",
    "worktree lock",
    "worktree unlock",
    "worktree prune",
    "worktree repair",
    "worktree remove",
    "submodule init",
    "submodule sync",
    "submodule deinit",
    "submodule set-url",
    "remote add",
    "remote rename",
    "remote set-url",
    "remote set-head",
    "remote remove",
    "remote rm",
    "bisect start",
    "bisect good",
    "bisect bad",
    "bisect reset",
    "bisect run",
    "bundle create",
    "archive -o",
    "archive --output",
    "sparse-checkout set",
    "sparse-checkout add",
    "sparse-checkout disable",
    "branch -m",
    "branch -M",
    "branch -c",
    "branch -C",
    "branch -u",
    "branch --set-upstream-to",
    "branch --unset-upstream",
    "branch --edit-description",
    "config --add",
    "config --unset",
    "config --replace-all",
    "config --rename-section",
    "config --remove-section",
    "config --edit",
    "config -e",
    "config set",
    "config unset",
];

/// Git subcommands that use the network.
const GIT_NETWORK: &[&str] = &[
    "push",
    "fetch",
    "pull",
    "clone",
    "ls-remote",
    "remote update",
    "remote show",
    "submodule update",
    "submodule add",
    "send-email",
    "archive --remote",
    "svn",
];

/// Returns the known effects of a script of this kind, and the part that has them.
/// `has_objection`: the text as a whole is not read-only.
pub(super) fn of(
    script: &Script,
    kind: Kind,
    parts: &[Part],
    has_objection: bool,
) -> (CommandEffect, Option<usize>) {
    match kind {
        Kind::ReadOnly => (CommandEffect::ReadOnly, None),
        Kind::Writes => {
            let effects: Vec<CommandEffect> = script.commands.iter().map(command).collect();
            let most = effects.iter().copied().max().unwrap_or(CommandEffect::Unknown);
            let has_effect = |(part, effect): (&Part, &CommandEffect)| {
                part.kind != Kind::ReadOnly && *effect == most
            };
            let cause = parts.iter().zip(&effects).position(has_effect);
            (most, cause.filter(|_| most != CommandEffect::Unknown || !has_objection))
        }
        Kind::Destructive | Kind::Unparseable => {
            (CommandEffect::Writes, parts.iter().position(|part| part.kind == kind))
        }
    }
}

/// Returns the known effects of one command and of what it starts.
fn command(command: &SimpleCommand) -> CommandEffect {
    if !command.may_wrap(Wrappers::All) {
        return plain(command);
    }
    let views = command.unwrapped(Wrappers::All);
    views.iter().map(|view| plain(&view.command)).max().unwrap_or(CommandEffect::Unknown)
}

/// Returns the known effects of one command without what it starts.
fn plain(command: &SimpleCommand) -> CommandEffect {
    if fetch::fetcher(command).is_some() {
        return CommandEffect::Network;
    }
    let is_write = |kind| matches!(kind, RedirectKind::Write | RedirectKind::ReadWrite);
    if command.redirects.iter().any(|r| is_write(r.kind) && !r.is_harmless()) {
        return CommandEffect::Writes;
    }
    let Some(name) = command.words.first().and_then(Word::literal) else {
        return CommandEffect::Unknown;
    };
    let words: Vec<&str> = command.words.iter().skip(1).filter_map(Word::literal).collect();
    named(super::read_only::plain_name(name), &words).max(program(command))
}

/// Returns the known effects of a program by its name and its known arguments.
fn named(name: &str, words: &[&str]) -> CommandEffect {
    if matches!(words, ["--version" | "--help" | "-V" | "-h" | "help" | "version", ..]) {
        return CommandEffect::Unknown;
    }
    let has = |table: &[(&str, When)]| {
        table.iter().filter(|(names, _)| names.split(' ').any(|own| own == name)).any(
            |(_, when)| match when {
                Always => true,
                Unless(entries) => !entries.iter().any(|entry| fits(entry, words)),
                With(entries) => entries.iter().any(|entry| fits(entry, words)),
            },
        )
    };
    if has(NETWORK) {
        return CommandEffect::Network;
    }
    if has(WRITES) {
        return CommandEffect::Writes;
    }
    let writes = match name {
        "git" => return git(words),
        "cargo" => fits("fmt", words) && !fits("--check", words),
        "yarn" if words.iter().all(|word| word.starts_with('-')) => return CommandEffect::Network,
        "rsync" => true,
        "tee" => words.iter().any(|word| !word.starts_with('-') && !word.starts_with("/dev/")),
        "tar" | "bsdtar" | "gtar" => tar(words),
        _ => false,
    };
    if writes { CommandEffect::Writes } else { CommandEffect::Unknown }
}

/// Returns the known effects of a git subcommand. Another view has the options before it removed.
fn git(words: &[&str]) -> CommandEffect {
    let is = |entries: &[&str]| entries.iter().any(|entry| fits(entry, words));
    if is(GIT_NETWORK) {
        return CommandEffect::Network;
    }
    if is(GIT_WRITES) {
        return CommandEffect::Writes;
    }
    let operands: Vec<&str> =
        words.iter().skip(1).filter(|w| !w.starts_with('-')).copied().collect();
    let lists = |options: &[&str]| {
        words
            .iter()
            .skip(1)
            .any(|word| options.iter().any(|own| word.split('=').next() == Some(own)))
    };
    let writes = match words.first().copied() {
        Some("apply") => !lists(&["--check", "--stat", "--numstat", "--summary"]),
        Some("format-patch") => !lists(&["--stdout"]),
        Some("stash") => operands.is_empty(),
        Some("symbolic-ref") => operands.len() > 1,
        Some("config") => {
            operands.len() > 1
                && !matches!(operands.first(), Some(&"get" | &"list"))
                && !lists(&[
                    "--get",
                    "--get-all",
                    "--get-regexp",
                    "--get-urlmatch",
                    "--get-color",
                    "--list",
                    "-l",
                ])
        }
        Some("branch" | "tag") => {
            let is_short = |word: &&str| {
                word.starts_with('-')
                    && !word.starts_with("--")
                    && word.contains(['l', 'a', 'r', 'n', 'v'])
            };
            !operands.is_empty()
                && !words.iter().skip(1).any(is_short)
                && !lists(&[
                    "--list",
                    "--contains",
                    "--no-contains",
                    "--merged",
                    "--no-merged",
                    "--points-at",
                    "--all",
                    "--remotes",
                    "--verify",
                    "--show-current",
                ])
        }
        _ => false,
    };
    if writes { CommandEffect::Writes } else { CommandEffect::Unknown }
}

/// Returns whether an archive is written or extracted. The letters may come without a dash.
fn tar(words: &[&str]) -> bool {
    let first = words.first().copied().unwrap_or_default();
    let letters = if first.starts_with("--") { "" } else { first };
    let long = ["--extract", "--get", "--create", "--append", "--update", "--concatenate"];
    let writes = letters.contains(['x', 'c', 'r', 'u', 'A'])
        || words
            .iter()
            .any(|word| long.contains(word) || matches!(*word, "-x" | "-c" | "-r" | "-u"));
    let prints = letters.contains('O');
    writes && !prints && !words.iter().any(|word| matches!(*word, "-O" | "--to-stdout"))
}

/// Returns the known effects of the program text or module that an interpreter runs.
fn program(command: &SimpleCommand) -> CommandEffect {
    let Some(runs) = interpreters::of(command) else { return CommandEffect::Unknown };
    let known = |program: Program| match program {
        Program::Module { module, arguments } => {
            let words: Vec<&str> =
                command.words.iter().skip(arguments).filter_map(Word::literal).collect();
            module.literal().map_or(CommandEffect::Unknown, |module| named(module, &words))
        }
        Program::Text(text) => {
            let acts = match (runs.language, text.literal()) {
                (Language::Sed, Some(text)) => programs::sed(text),
                (Language::Awk, Some(text)) => programs::awk(text),
                _ => Vec::new(),
            };
            let writes = |act: &programs::ProgramEffect| match act {
                programs::ProgramEffect::Writes(file) => !file.starts_with("/dev/"),
                _ => false,
            };
            if acts.iter().any(writes) { CommandEffect::Writes } else { CommandEffect::Unknown }
        }
        Program::File { .. } | Program::Input => CommandEffect::Unknown,
    };
    runs.programs.into_iter().map(known).max().unwrap_or(CommandEffect::Unknown)
}
