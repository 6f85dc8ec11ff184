//! Real git through the `shell` tool.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "the helpers belong to the tests")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use haft::{Runtime, ToolCall, ToolRegistry, policy::AllowAll};
use haft_sandbox::{Access, Workspace};
use haft_tools::BuiltinTools;
use serde_json::json;

use crate::project::{GitProject, helper};

/// A repository with two commits, a branch `side`, and a linked worktree of it next to it.
struct Project {
    git: GitProject,
    worktree: PathBuf,
}

impl Project {
    /// `None` without git.
    fn new() -> Option<Self> {
        let git = GitProject::new()?;
        git.host(
            &git.root,
            "echo two >> a.txt; git commit -q -a -m second; git branch side HEAD~1
             git worktree add -q ../worktree side; echo x > ../worktree/x",
        );
        let worktree = git.root.with_file_name("worktree");
        Some(Self { git, worktree })
    }

    fn host(&self, script: &str) -> String {
        self.git.host(&self.git.root, script)
    }
}

/// Runs a `shell` command that only the sandbox restricts.
async fn shell(root: &Path, command: &str) -> String {
    let workspace =
        Workspace::builder().root(root, Access::Write).linked_worktrees().build().unwrap();
    let builtin =
        BuiltinTools::new(workspace).helper(helper()).git_identity("A Person", "a@example.com");
    let registry = ToolRegistry::builder().add(builtin).build().unwrap();
    let runtime = Runtime::builder().registry(registry).policy(AllowAll).build().unwrap();
    let run = runtime.run_builder().working_directory(root).start();
    let call = ToolCall::new("c", "shell", json!({"command": command}));
    let answer = run.turn().await.unwrap().run(vec![call]).await.remove(0);
    answer.text().into_owned()
}

#[tokio::test]
async fn shell_commits_in_a_linked_worktree() {
    let Some(project) = Project::new() else { return };
    let config = fs::read(project.git.root.join(".git/config")).unwrap();
    let root = &project.worktree;
    assert_eq!(shell(root, "git status --porcelain").await, "?? x\n");
    assert_eq!(shell(root, "git log --format=%s main").await, "second\nfirst\n");
    let command = "git add x && git commit -q -m third && git log -1 --format='%an <%ae> %s'";
    assert_eq!(shell(root, command).await, "A Person <a@example.com> third\n");
    assert_eq!(project.host("git log -1 --format=%s side"), "third\n");
    assert_eq!(project.host("git fsck --no-progress"), "");
    let refused = shell(root, "git config a.b c").await;
    assert!(refused.contains("note: the sandbox refused to change protected names"), "{refused}");
    assert_eq!(fs::read(project.git.root.join(".git/config")).unwrap(), config);
}

#[tokio::test]
async fn result_names_what_the_sandbox_refused_and_why() {
    let Some(project) = Project::new() else { return };
    let root = &project.git.root;
    let rebase = shell(root, "git rebase -q side").await;
    assert_eq!(rebase, "done; nothing was printed", "it is up to date");
    for (command, name, reason) in [
        (
            "git rebase -q --force-rebase side",
            ".git/rebase-merge",
            "git runs the commands that are written in it",
        ),
        ("git config a.b c", ".git/config", "git runs the programs that it names"),
        (
            "echo x > .git/hooks/pre-commit",
            ".git/hooks/pre-commit",
            "git runs the programs that it names",
        ),
    ] {
        let answer = shell(root, command).await;
        let wanted = format!("{}` ({reason})", root.join(name).display());
        assert!(answer.contains(&wanted), "{command}: {answer}");
        assert!(!answer.starts_with("done"), "{command}: {answer}");
    }
    let names = project.host("ls .git/hooks | grep -v sample || :; git config a.b || :");
    assert_eq!(names, "");
}
