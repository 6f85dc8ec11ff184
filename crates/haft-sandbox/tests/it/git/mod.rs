//! Real git in a sandboxed command.

mod everyday;
mod exceptions;
mod guide;
mod linked;
mod named;
mod special;
mod matrix;

use haft_sandbox::{Command, ProcessResult, Sandbox};

use crate::kit::*;

const CONFIG: &str =
    "[user]\n\tname = A Person\n\temail = a@example.com\n[safe]\n\tdirectory = *\n";

async fn git(sandbox: &Sandbox, fixture: &Fixture, script: &str) -> ProcessResult {
    let command = Command::shell(script).home_file(".gitconfig", CONFIG);
    sandbox.run(command, fixture.profile()).await.unwrap()
}

#[tokio::test]
async fn git_status_works_in_the_sandbox() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        if repository(&fixture).is_none() {
            return;
        }
        put(&fixture.inside.join("notes.txt"), "changed");
        let ended =
            git(&sandbox, &fixture, "git status --porcelain && git log --oneline | wc -l").await;
        assert_eq!(out(&ended), " M notes.txt\n1\n", "{}: {}", sandbox.tier().level, err(&ended));
    }
}

#[tokio::test]
async fn git_commit_works_and_hooks_and_config_stay_read_only() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        if repository(&fixture).is_none() {
            return;
        }
        let script = "echo more > notes.txt && git add notes.txt && git commit -q -m second && git log --format='%an %s'";
        let ended = git(&sandbox, &fixture, script).await;
        assert_eq!(out(&ended), "A Person second\nx first\n", "{}", err(&ended));
        assert_eq!(host_git(&fixture.inside, &["log", "--format=%s"]).unwrap(), "second\nfirst\n");
        assert_eq!(host_git(&fixture.inside, &["status", "--porcelain"]).unwrap(), "");
        let script = "git branch other && git checkout -q other && git stash list && echo x > new && git add new && git commit -q -m third";
        let ended = git(&sandbox, &fixture, script).await;
        assert!(ended.is_success(), "{}", err(&ended));
        let before = get(&fixture.inside.join(".git/config"));
        let script = "git config core.fsmonitor /tmp/x; echo bad > .git/hooks/pre-commit; echo bad >> .git/config; exit 0";
        git(&sandbox, &fixture, script).await;
        assert_eq!(get(&fixture.inside.join(".git/config")), before);
        assert!(!fixture.inside.join(".git/hooks/pre-commit").exists());
    }
}

#[tokio::test]
async fn git_works_on_the_host_while_a_command_runs() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        if repository(&fixture).is_none() {
            return;
        }
        let command = Command::shell("echo ready; sleep 30");
        let mut running = sandbox.start(command, fixture.profile()).await.unwrap();
        running.next().await.unwrap();
        put(&fixture.inside.join("notes.txt"), "changed");
        host_git(&fixture.inside, &["commit", "-q", "-a", "-m", "second"]).unwrap();
        assert_eq!(host_git(&fixture.inside, &["status", "--porcelain"]).unwrap(), "");
        running.stop().await;
    }
}

#[tokio::test]
async fn command_cannot_redirect_git() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        if repository(&fixture).is_none() {
            return;
        }
        git(
            &sandbox,
            &fixture,
            "echo ../sub > .git/commondir; ln -s ../sub .git/commondir; exit 0",
        )
        .await;
        assert!(fixture.inside.join(".git/commondir").symlink_metadata().is_err());
        assert_eq!(host_git(&fixture.inside, &["status", "--porcelain"]).unwrap(), "");
    }
}

/// Creates a root with this name, and a profile that may write in it.
fn named_root(name: &str) -> (tempfile::TempDir, std::path::PathBuf, haft_sandbox::Profile) {
    use haft_core::{Capabilities, Capability};
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap().join(name);
    std::fs::create_dir_all(&root).unwrap();
    let access = haft_sandbox::Access::Write;
    let workspace = haft_sandbox::Workspace::builder().root(&root, access).build().unwrap();
    let profile =
        haft_sandbox::Profile::of(Capabilities::from([Capability::Filesystem]), &workspace);
    (directory, root, profile)
}

#[tokio::test]
async fn workspace_with_a_protected_name_protects_its_contents() {
    for sandbox in sandboxes().await {
        for (name, refused, free) in [
            (".github", "workflows/ci.yml", "README.md"),
            (".git", "hooks/pre-commit", "description"),
            (".config", "git/config", "app.toml"),
            (".claude/worktrees/x", ".claude/settings.json", "main.rs"),
        ] {
            let (_directory, root, profile) = named_root(name);
            let script = format!(
                "mkdir -p $(dirname {refused}); echo x > {refused}; echo x > {free}; \
                 mkdir d; mkdir d/workflows d/hooks d/git; mv d/* ."
            );
            let ended = sh(&sandbox, profile, script).await;
            let level = sandbox.tier().level;
            assert!(!root.join(refused).exists(), "{level} {name}: {}", err(&ended));
            assert!(root.join(free).exists(), "{level} {name}: {}", err(&ended));
            assert!(!ended.refused.is_empty(), "{level} {name}");
        }
    }
}

#[tokio::test]
async fn files_that_the_configuration_of_git_names_are_protected() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        if repository(&fixture).is_none() {
            return;
        }
        for directory in ["tools/hooks", "conf"] {
            std::fs::create_dir_all(fixture.inside.join(directory)).unwrap();
        }
        put(&fixture.inside.join("conf/more"), "[core]\n\tattributesFile = conf/attributes\n");
        let monitor = fixture.inside.join("tools/monitor").display().to_string();
        for (key, value) in [
            ("core.hooksPath", "tools/hooks"),
            ("include.path", "../conf/more"),
            ("includeIf.gitdir:/nowhere/.path", "../conf/absent"),
            ("core.fsmonitor", &*monitor),
        ] {
            host_git(&fixture.inside, &["config", key, value]).unwrap();
        }
        let named = ["tools/hooks/pre-commit", "conf/more", "conf/absent", "conf/attributes"];
        let level = sandbox.tier().level;
        for file in named.into_iter().chain(["tools/monitor"]) {
            let before =
                fixture.inside.join(file).exists().then(|| get(&fixture.inside.join(file)));
            let script = format!("echo x >> {file}; rm -f {file}; echo x > new; mv new {file}");
            let ended = sh(&sandbox, fixture.profile(), script).await;
            let after = fixture.inside.join(file).exists().then(|| get(&fixture.inside.join(file)));
            assert_eq!(before, after, "{level} {file}: {}", err(&ended));
            assert!(!ended.refused.is_empty(), "{level} {file}: {}", err(&ended));
        }
        let ended =
            sh(&sandbox, fixture.profile(), "echo x > tools/free && echo x > conf/free").await;
        assert!(ended.is_success(), "{level}: {}", err(&ended));
        // A planted hook would run here.
        put(&fixture.inside.join("notes.txt"), "changed");
        host_git(&fixture.inside, &["-c", "core.fsmonitor=", "commit", "-q", "-a", "-m", "x"])
            .unwrap();
    }
}
