//! The protected names, as data: one line each, with the reason that a person reads.

use super::{NameScope, ProtectedName};
use crate::config_files::{LOCAL_FILE, RESERVED_DIRECTORY};

const fn name(pattern: &'static str, reason: &'static str) -> ProtectedName {
    ProtectedName { pattern, reason, scope: NameScope::Everywhere }
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
const ACCOUNT: &str = "it holds credentials or names programs that fetch them";

/// The names that are protected unless a host says otherwise: files that another program obeys or
/// executes. What a build writes every day is not among them.
///
/// A pattern is a list of components; `*` is one whole component. It holds at any depth.
pub const PROTECTED: &[ProtectedName] = &[
    // Our own configuration.
    name("haft.toml", HAFT),
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
    // Git takes a directory with HEAD, objects and refs for a repository and obeys its `config`.
    ProtectedName {
        pattern: "HEAD",
        reason: "it makes the directory a git repository, whose `config` git obeys",
        scope: NameScope::OutsideGit,
    },
    name(".gitconfig", GIT),
    name(".config/git", GIT),
    name(".githooks", HOOKS),
    name(".husky", HOOKS),
    name(".pre-commit-config.yaml", HOOKS),
    name(".pre-commit-hooks.yaml", HOOKS),
    name(".overcommit.yml", HOOKS),
    name("lefthook.yml", HOOKS),
    name("lefthook.yaml", HOOKS),
    name("lefthook.toml", HOOKS),
    name("lefthook.json", HOOKS),
    name("lefthook-local.yml", HOOKS),
    name("lefthook-local.yaml", HOOKS),
    name("lefthook-local.toml", HOOKS),
    name("lefthook-local.json", HOOKS),
    name(".lefthook", HOOKS),
    name(".lefthook-local", HOOKS),
    name(".lefthook.yml", HOOKS),
    name(".lefthook.yaml", HOOKS),
    name(".lefthook.toml", HOOKS),
    name(".lefthook.json", HOOKS),
    name(".lefthook-local.yml", HOOKS),
    name(".lefthook-local.yaml", HOOKS),
    name(".lefthook-local.toml", HOOKS),
    name(".lefthook-local.json", HOOKS),
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
    name(".cargo/config.toml", BUILD),
    name(".cargo/config", BUILD),
    name(".cargo/credentials.toml", ACCOUNT),
    name(".cargo/credentials", ACCOUNT),
    name(".mvn", BUILD),
    name(".jvmopts", BUILD),
    name(".sbtopts", BUILD),
    name(".bazelrc", BUILD),
    name(".buckconfig", BUILD),
    name(".npmrc", PACKAGES),
    name(".yarnrc", PACKAGES),
    name(".yarnrc.yml", PACKAGES),
    name(".yarn/releases", PACKAGES),
    name(".yarn/plugins", PACKAGES),
    name(".pnpmfile.cjs", PACKAGES),
    name(".pypirc", ACCOUNT),
    name(".config/pip", PACKAGES),
    name(".gemrc", PACKAGES),
    name(".condarc", PACKAGES),
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
    name(".vscode", EDITOR),
    name(".idea", EDITOR),
    name(".zed", EDITOR),
    name(".fleet", EDITOR),
    name(".devcontainer", EDITOR),
    name(".devcontainer.json", EDITOR),
    name(".gitpod.yml", EDITOR),
    name(".exrc", EDITOR),
    name(".vimrc", EDITOR),
    name(".gvimrc", EDITOR),
    name(".vim", EDITOR),
    name(".nvimrc", EDITOR),
    name(".nvim.lua", EDITOR),
    name(".config/nvim", EDITOR),
    name(".lvimrc", EDITOR),
    name(".emacs", EDITOR),
    name(".emacs.d", EDITOR),
    name(".dir-locals.el", EDITOR),
    name(".dir-locals-2.el", EDITOR),
    // Other agents.
    name(".claude", AGENT),
    name(".codex", AGENT),
    name(".cursor", AGENT),
    name(".gemini", AGENT),
    name(".windsurf", AGENT),
    name(".aider.conf.yml", AGENT),
    name(".continue", AGENT),
    name(".kiro", AGENT),
    name(".opencode", AGENT),
    name("opencode.json", AGENT),
    name("opencode.jsonc", AGENT),
    name(".cline", AGENT),
    name(".roo", AGENT),
    name(".amazonq", AGENT),
    name(".junie", AGENT),
    name(".qwen", AGENT),
    name(".crush.json", AGENT),
    name("crush.json", AGENT),
    name(".mcp.json", AGENT),
    // Pipelines.
    name(".github/workflows", CI),
    name(".github/actions", CI),
    name(".forgejo/workflows", CI),
    name(".gitea/workflows", CI),
    name(".gitlab-ci.yml", CI),
    name(".circleci", CI),
    name(".travis.yml", CI),
    name("azure-pipelines.yml", CI),
    name("azure-pipelines.yaml", CI),
    name(".azure-pipelines", CI),
    name("Jenkinsfile", CI),
    name(".drone.yml", CI),
    name(".drone.yaml", CI),
    name(".drone.star", CI),
    name(".drone.jsonnet", CI),
    name(".woodpecker", CI),
    name(".woodpecker.yml", CI),
    name(".woodpecker.yaml", CI),
    name("bitbucket-pipelines.yml", CI),
    name(".buildkite", CI),
    name(".cirrus.yml", CI),
    name(".cirrus.star", CI),
    name("appveyor.yml", CI),
    name(".appveyor.yml", CI),
    name(".semaphore", CI),
    name(".teamcity", CI),
    name(".build.yml", CI),
    name(".builds", CI),
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
    name(".pam_environment", LOGIN),
    name(".xinitrc", LOGIN),
    name(".xprofile", LOGIN),
    name(".xsession", LOGIN),
    // Programs that execute a file at their start.
    name(".gdbinit", PROGRAM),
    name(".lldbinit", PROGRAM),
    name(".Rprofile", PROGRAM),
    name(".irbrc", PROGRAM),
    name(".pryrc", PROGRAM),
    name(".pdbrc", PROGRAM),
    name(".pdbrc.py", PROGRAM),
    name(".pythonrc", PROGRAM),
    name(".pythonrc.py", PROGRAM),
    name(".ghci", PROGRAM),
    name(".ocamlinit", PROGRAM),
    name(".psqlrc", PROGRAM),
    name(".sqliterc", PROGRAM),
    name(".screenrc", PROGRAM),
    name(".tmux.conf", PROGRAM),
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

/// Names that are protected beside a `HEAD`: git obeys them in a directory that it takes for a
/// repository.
pub(super) const BESIDE_HEAD: &[&str] = &["config", "config.worktree", "hooks", "commondir"];
