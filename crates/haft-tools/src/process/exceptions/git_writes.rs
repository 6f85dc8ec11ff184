//! The git subcommands that change protected files, as data.

/// One subcommand that changes protected files.
pub(super) struct GitWrite {
    pub(super) subcommand: &'static str,
    pub(super) when: When,
    pub(super) changes: &'static [Changed],
    /// Options that run a program or change other files: no exception.
    pub(super) never: &'static [&'static str],
}

/// Which forms of a subcommand change them.
pub(super) enum When {
    Always,
    /// The word after the subcommand is one of these.
    Word(&'static [&'static str]),
    /// One of these options is given.
    Option(&'static [&'static str]),
    /// A setting is changed and not only read.
    Sets,
}

/// What is changed.
pub(super) enum Changed {
    /// A path inside of the `.git` directory.
    InGit(&'static str),
    /// The `.git` of a repository that does not exist yet.
    NewRepository,
    /// The `.git` file of a worktree that the command names.
    Worktree,
    /// The `.git` file of a submodule that the command adds.
    Submodule,
}
use Changed::{InGit, NewRepository, Submodule, Worktree};

const OTHER_CONFIG: &[&str] = &["-f", "--file", "--global", "--system", "--blob", "-e", "--edit"];
const REBASE: &[Changed] = &[InGit("rebase-merge"), InGit("rebase-apply")];
const WORKTREE: &[Changed] =
    &[InGit("worktrees/*/commondir"), InGit("worktrees/*/gitdir"), Worktree];
const TRACK: &[&str] = &["-t", "--track"];
const UPSTREAM: &[&str] =
    &["-u", "--set-upstream", "--set-upstream-to", "--unset-upstream", "-t", "--track"];
const REMOTES: &[&str] = &["add", "remove", "rm", "rename", "set-url", "set-branches", "set-head"];
const SUBMODULES: &[&str] = &["add", "init", "update", "deinit", "sync", "set-url", "set-branch"];
/// Its files have the names of hooks, and `git lfs update` replaces them.
const LFS: &[Changed] = &[
    InGit("config"),
    InGit("hooks/pre-push"),
    InGit("hooks/post-checkout"),
    InGit("hooks/post-commit"),
    InGit("hooks/post-merge"),
];
const SPARSE: &[&str] = &["init", "set", "add", "reapply", "disable"];
const WORKTREES: &[&str] = &["add", "move", "remove", "prune", "repair", "lock", "unlock"];

/// The git subcommands that change protected files.
pub(super) const GIT_WRITES: &[GitWrite] = &[
    write("config", When::Sets, &[InGit("config")], OTHER_CONFIG),
    write("remote", When::Word(REMOTES), &[InGit("config")], &["--mirror"]),
    write("push", When::Option(&["-u", "--set-upstream"]), &[InGit("config")], &[]),
    write("branch", When::Option(UPSTREAM), &[InGit("config")], &["--edit-description"]),
    write("checkout", When::Option(TRACK), &[InGit("config")], &[]),
    write("switch", When::Option(TRACK), &[InGit("config")], &[]),
    write("rebase", When::Always, REBASE, &["-x", "-i", "--interactive", "--edit-todo", "-s"]),
    write("pull", When::Option(&["-r", "--rebase"]), REBASE, &["-s"]),
    write("am", When::Always, &[InGit("rebase-apply")], &["-i", "--interactive"]),
    write("sparse-checkout", When::Word(SPARSE), &[InGit("config"), InGit("config.worktree")], &[]),
    write("lfs", When::Word(&["install", "uninstall", "update"]), LFS, &["--system", "--file"]),
    write("init", When::Always, &[NewRepository], &["--bare"]),
    write("clone", When::Always, &[NewRepository], &["--bare", "--mirror", "-c", "-u", "--config"]),
    write(
        "submodule",
        When::Word(SUBMODULES),
        &[InGit("modules"), InGit("config"), Submodule],
        &[],
    ),
    write("worktree", When::Word(WORKTREES), WORKTREE, &[]),
];

/// Subcommands allowed in the same text: they start no program and write no file that the text
/// names. Those of [`GIT_WRITES`] are here for their forms that change no protected file.
pub(super) const HARMLESS_SUBCOMMANDS: &[&str] = &[
    "add",
    "branch",
    "checkout",
    "commit",
    "config",
    "diff",
    "fetch",
    "log",
    "ls-files",
    "mv",
    "push",
    "remote",
    "reset",
    "restore",
    "rev-parse",
    "rm",
    "show",
    "stash",
    "status",
    "switch",
    "tag",
];

/// Options of any subcommand that run a program or load configuration from elsewhere.
pub(super) const UNSAFE_OPTIONS: &[&str] = &[
    "--exec",
    "--output",
    "--template",
    "--upload-pack",
    "--receive-pack",
    "--separate-git-dir",
    "--strategy",
];

/// Options that take the next word as value.
pub(super) const OPTIONS_WITH_VALUE: &[&str] = &[
    "-b",
    "-B",
    "--branch",
    "--depth",
    "-o",
    "--origin",
    "-j",
    "--jobs",
    "--initial-branch",
    "--object-format",
    "--filter",
    "--shallow-since",
    "--name",
    "--reason",
    "--onto",
    "-m",
];

const fn write(
    subcommand: &'static str,
    when: When,
    changes: &'static [Changed],
    never: &'static [&'static str],
) -> GitWrite {
    GitWrite { subcommand, when, changes, never }
}
