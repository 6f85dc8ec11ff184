//! The protected names, as data: one line each, with the reason that a person reads.

use super::{NameScope, ProtectedName};
use crate::config_files::{LOCAL_FILE, RESERVED_DIRECTORY};

const fn name(pattern: &'static str, reason: &'static str) -> ProtectedName {
    ProtectedName { pattern, reason, scope: NameScope::Everywhere }
}

const fn project(pattern: &'static str, reason: &'static str) -> ProtectedName {
    ProtectedName { pattern, reason, scope: NameScope::OutsideDependencies }
}

const HAFT: &str = "haft takes its rules, hooks and tools from it";
const AGENT: &str = "it configures another agent, its hooks and its permissions";
const GIT: &str = "git runs the programs that it names";
const GIT_REDIRECT: &str = "it says where git finds its configuration and hooks";
const GIT_TODO: &str = "git runs the commands that are written in it";
const HOOKS: &str = "it names commands that run at each commit";
const VCS: &str = "version control runs the programs that it names";
const BUILD: &str = "build tools run the programs that it names";
const PACKAGES: &str = "it says where packages come from and which code installs them";
const ENTER: &str = "it is executed when a shell enters the directory";
const EDITOR: &str = "an editor runs what it says when the directory is opened";
const CI: &str = "a pipeline runs it, with its secrets";
const SHELL: &str = "each new shell executes it";
const LOGIN: &str = "it is executed at each login";
const PROGRAM: &str = "a program executes it at its start";
const SEARCH_PATH: &str = "programs in it are found by their name in each shell";
const ACCOUNT: &str = "it holds credentials or names programs that fetch them";

/// The names that are protected unless a host says otherwise: files that another program obeys or
/// executes. What a build writes every day is not among them.
///
/// A pattern is a list of components; `*` is one whole component. It applies at any depth. A
/// `project` name does not apply below a directory of dependencies.
pub const PROTECTED: &[ProtectedName] = &[
    // Our own configuration.
    name("haft.toml", HAFT),
    name("haft.lock", HAFT),
    name(LOCAL_FILE, HAFT),
    name(RESERVED_DIRECTORY, HAFT),
    // Git. A file or symlink called `.git` is refused because these lie below it.
    name(".git/config", GIT),
    name(".git/config.worktree", GIT),
    name(".git/hooks", GIT),
    name(".git/commondir", GIT_REDIRECT),
    name(".git/modules", "it holds the configuration and hooks of submodules"),
    name(".git/worktrees/*/commondir", GIT_REDIRECT),
    name(".git/worktrees/*/gitdir", GIT_REDIRECT),
    name(".git/worktrees/*/config.worktree", GIT),
    name(".git/worktrees/*/rebase-merge", GIT_TODO),
    name(".git/worktrees/*/rebase-apply", GIT_TODO),
    name(".git/rebase-merge", GIT_TODO),
    name(".git/rebase-apply", GIT_TODO),
    name(".git/remotes", GIT_REDIRECT),
    name(".git/branches", GIT_REDIRECT),
    name(".git/objects/info/alternates", GIT_REDIRECT),
    // Git treats a directory with HEAD, objects and refs as a repository and obeys its `config`.
    ProtectedName {
        pattern: "HEAD",
        reason: "it makes the directory a git repository, whose `config` git obeys",
        scope: NameScope::OutsideGit,
    },
    name(".gitconfig", GIT),
    name(".config/git", GIT),
    project(".githooks", HOOKS),
    project(".husky", HOOKS),
    project(".pre-commit-config.yaml", HOOKS),
    project(".pre-commit-hooks.yaml", HOOKS),
    project(".overcommit.yml", HOOKS),
    project("lefthook.yml", HOOKS),
    project("lefthook.yaml", HOOKS),
    project("lefthook.toml", HOOKS),
    project("lefthook.json", HOOKS),
    project("lefthook-local.yml", HOOKS),
    project("lefthook-local.yaml", HOOKS),
    project("lefthook-local.toml", HOOKS),
    project("lefthook-local.json", HOOKS),
    project(".lefthook", HOOKS),
    project(".lefthook-local", HOOKS),
    project(".lefthook.yml", HOOKS),
    project(".lefthook.yaml", HOOKS),
    project(".lefthook.toml", HOOKS),
    project(".lefthook.json", HOOKS),
    project(".lefthook-local.yml", HOOKS),
    project(".lefthook-local.yaml", HOOKS),
    project(".lefthook-local.toml", HOOKS),
    project(".lefthook-local.json", HOOKS),
    // Other version control.
    name(".hg/hgrc", VCS),
    name(".hg/hgrc-not-shared", VCS),
    name(".hg/sharedpath", VCS),
    name(".sl/config", VCS),
    name(".jj/config.toml", VCS),
    name(".jj/workspace-config.toml", VCS),
    name(".jj/repo/config.toml", VCS),
    name(".jj/repo/workspace-config.toml", VCS),
    name(".hgrc", VCS),
    // Build tools and package managers.
    project(".cargo/config.toml", BUILD),
    project(".cargo/config", BUILD),
    name(".cargo/credentials.toml", ACCOUNT),
    name(".cargo/credentials", ACCOUNT),
    project(".mvn", BUILD),
    project(".jvmopts", BUILD),
    project(".sbtopts", BUILD),
    project(".bazelrc", BUILD),
    project(".buckconfig", BUILD),
    project(".npmrc", PACKAGES),
    project(".yarnrc", PACKAGES),
    project(".yarnrc.yml", PACKAGES),
    project(".yarn/releases", PACKAGES),
    project(".yarn/plugins", PACKAGES),
    project(".pnpmfile.cjs", PACKAGES),
    project(".pnpmfile.mjs", PACKAGES),
    project("bunfig.toml", PACKAGES),
    project("rust-toolchain.toml", BUILD),
    project("rust-toolchain", BUILD),
    name(".pypirc", ACCOUNT),
    project(".config/pip", PACKAGES),
    project(".gemrc", PACKAGES),
    project(".condarc", PACKAGES),
    // Executed when a shell enters the directory.
    name(".envrc", ENTER),
    name(".mise.toml", ENTER),
    name(".mise.local.toml", ENTER),
    name("mise.toml", ENTER),
    name("mise.local.toml", ENTER),
    name(".mise", ENTER),
    name(".config/mise", ENTER),
    name(".config/mise.toml", ENTER),
    name(".autoenv.zsh", ENTER),
    // Editors and development containers.
    project(".vscode", EDITOR),
    project(".idea", EDITOR),
    project(".zed", EDITOR),
    project(".fleet", EDITOR),
    project(".helix", EDITOR),
    project(".lazy.lua", EDITOR),
    project(".devcontainer", EDITOR),
    project(".devcontainer.json", EDITOR),
    project(".gitpod.yml", EDITOR),
    project(".exrc", EDITOR),
    project(".vimrc", EDITOR),
    project(".gvimrc", EDITOR),
    project(".vim", EDITOR),
    project(".nvimrc", EDITOR),
    project(".nvim.lua", EDITOR),
    project(".config/nvim", EDITOR),
    project(".lvimrc", EDITOR),
    project(".emacs", EDITOR),
    project(".emacs.d", EDITOR),
    project(".dir-locals.el", EDITOR),
    project(".dir-locals-2.el", EDITOR),
    // Other agents.
    project(".claude", AGENT),
    project(".codex", AGENT),
    project(".cursor", AGENT),
    project(".gemini", AGENT),
    project(".windsurf", AGENT),
    project(".aider.conf.yml", AGENT),
    project(".continue", AGENT),
    project(".kiro", AGENT),
    project(".opencode", AGENT),
    project("opencode.json", AGENT),
    project("opencode.jsonc", AGENT),
    project(".cline", AGENT),
    project(".roo", AGENT),
    project(".amazonq", AGENT),
    project(".junie", AGENT),
    project(".qwen", AGENT),
    project(".crush.json", AGENT),
    project("crush.json", AGENT),
    project(".mcp.json", AGENT),
    // Pipelines.
    project(".github/workflows", CI),
    project(".github/actions", CI),
    project(".forgejo/workflows", CI),
    project(".gitea/workflows", CI),
    project(".gitlab-ci.yml", CI),
    project(".circleci", CI),
    project(".travis.yml", CI),
    project("azure-pipelines.yml", CI),
    project("azure-pipelines.yaml", CI),
    project(".azure-pipelines", CI),
    project("Jenkinsfile", CI),
    project(".drone.yml", CI),
    project(".drone.yaml", CI),
    project(".drone.star", CI),
    project(".drone.jsonnet", CI),
    project(".woodpecker", CI),
    project(".woodpecker.yml", CI),
    project(".woodpecker.yaml", CI),
    project("bitbucket-pipelines.yml", CI),
    project(".buildkite", CI),
    project(".cirrus.yml", CI),
    project(".cirrus.star", CI),
    project("appveyor.yml", CI),
    project(".appveyor.yml", CI),
    project(".semaphore", CI),
    project(".teamcity", CI),
    project(".build.yml", CI),
    project(".builds", CI),
    // Shells and logins.
    name(".bashrc", SHELL),
    name(".bash_profile", SHELL),
    name(".bash_login", SHELL),
    name(".bash_logout", SHELL),
    name(".bash_aliases", SHELL),
    name(".profile", SHELL),
    name(".zshrc", SHELL),
    name(".zshenv", SHELL),
    name(".zprofile", SHELL),
    name(".zlogin", SHELL),
    name(".zlogout", SHELL),
    name(".kshrc", SHELL),
    name(".mkshrc", SHELL),
    name(".cshrc", SHELL),
    name(".tcshrc", SHELL),
    name(".login", SHELL),
    name(".logout", SHELL),
    name(".inputrc", SHELL),
    name(".config/fish", SHELL),
    name(".config/nushell", SHELL),
    name(".config/powershell", SHELL),
    name(".config/autostart", LOGIN),
    name(".config/systemd", LOGIN),
    name(".config/environment.d", LOGIN),
    name(".local/share/systemd", LOGIN),
    name(".local/bin", SEARCH_PATH),
    name(".cargo/bin", SEARCH_PATH),
    name(".cargo/env", SHELL),
    name(".local/lib/*/site-packages", "Python executes it at its start"),
    name(".pam_environment", LOGIN),
    name(".xinitrc", LOGIN),
    name(".xprofile", LOGIN),
    name(".xsession", LOGIN),
    // Programs that execute a file at their start.
    project(".gdbinit", PROGRAM),
    project(".gdbearlyinit", PROGRAM),
    project(".perldb", PROGRAM),
    project(".ipython", PROGRAM),
    project(".iex.exs", PROGRAM),
    project(".lldbinit", PROGRAM),
    project(".Rprofile", PROGRAM),
    project(".irbrc", PROGRAM),
    project(".pryrc", PROGRAM),
    project(".pdbrc", PROGRAM),
    project(".pdbrc.py", PROGRAM),
    project(".pythonrc", PROGRAM),
    project(".pythonrc.py", PROGRAM),
    project(".ghci", PROGRAM),
    project(".ocamlinit", PROGRAM),
    project(".psqlrc", PROGRAM),
    project(".sqliterc", PROGRAM),
    project(".screenrc", PROGRAM),
    project(".tmux.conf", PROGRAM),
    // Credentials, and programs that fetch them.
    name(".ssh", ACCOUNT),
    name(".gnupg", ACCOUNT),
    name(".netrc", ACCOUNT),
    name(".curlrc", ACCOUNT),
    name(".wgetrc", ACCOUNT),
    name(".git-credentials", ACCOUNT),
    name(".aws", ACCOUNT),
    name(".docker/config.json", ACCOUNT),
    name(".kube/config", ACCOUNT),
];

/// Names that are protected next to a `HEAD`: git obeys them in a directory that it treats as a
/// repository.
pub(super) const OBEYED_NEXT_TO_HEAD: &[&str] =
    &["config", "config.worktree", "hooks", "commondir"];

/// Directories that package managers fill.
pub(super) const DEPENDENCIES: &[&str] = &[
    "node_modules",
    "bower_components",
    "vendor",
    ".venv",
    "venv",
    "site-packages",
    ".tox",
    ".nox",
    "Pods",
    "target",
    ".pnpm-store",
];
