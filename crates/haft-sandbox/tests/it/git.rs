//! Real git in a confined command, and placeholders that a killed helper left behind.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command as Host};

use haft_sandbox::{Command, Ended, Level, Sandbox};

use crate::kit::*;

const CONFIG: &str =
    "[user]\n\tname = A Person\n\temail = a@example.com\n[safe]\n\tdirectory = *\n";

fn host_git(directory: &Path, args: &[&str]) -> Option<String> {
    let output = Host::new("git")
        .args(["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "safe.directory=*"])
        .args(args)
        .current_dir(directory)
        .env("HOME", directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .ok()?;
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A repository with one commit, or nothing where there is no git.
fn repository(room: &Room) -> Option<()> {
    let there = Host::new("git").arg("--version").output().is_ok();
    if !there {
        eprintln!("NOT TESTED: there is no git here");
        return None;
    }
    host_git(&room.inside, &["init", "-q"])?;
    host_git(&room.inside, &["add", "notes.txt"])?;
    host_git(&room.inside, &["commit", "-q", "-m", "first"]).map(drop)
}

async fn git(sandbox: &Sandbox, room: &Room, script: &str) -> Ended {
    let command = Command::shell(script).home_file(".gitconfig", CONFIG);
    sandbox.run(command, room.profile()).await.unwrap()
}

#[tokio::test]
async fn git_status_works_in_a_confined_command() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        if repository(&room).is_none() {
            return;
        }
        put(&room.inside.join("notes.txt"), "changed");
        let ended =
            git(&sandbox, &room, "git status --porcelain && git log --oneline | wc -l").await;
        assert_eq!(out(&ended), " M notes.txt\n1\n", "{}: {}", sandbox.tier().level, err(&ended));
    }
}

#[tokio::test]
async fn git_commit_works_in_a_confined_command_and_hooks_and_config_stay_read_only() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        if repository(&room).is_none() {
            return;
        }
        let script = "echo more > notes.txt && git add notes.txt && git commit -q -m second && git log --format='%an %s'";
        let ended = git(&sandbox, &room, script).await;
        if sandbox.tier().level == Level::Landlock {
            // Landlock cannot tell `.git/index.lock` from `.git/config`; the tier says so.
            assert!(!ended.is_success());
            assert!(
                ended.tier.notes.iter().any(|note| note.contains("git commit")),
                "{:?}",
                ended.tier
            );
            assert_eq!(host_git(&room.inside, &["log", "--format=%s"]).unwrap(), "first\n");
            continue;
        }
        assert_eq!(out(&ended), "A Person second\nx first\n", "{}", err(&ended));
        assert_eq!(host_git(&room.inside, &["log", "--format=%s"]).unwrap(), "second\nfirst\n");
        assert_eq!(host_git(&room.inside, &["status", "--porcelain"]).unwrap(), "");
        let script = "git branch other && git checkout -q other && git stash list && echo x > new && git add new && git commit -q -m third";
        let ended = git(&sandbox, &room, script).await;
        assert!(ended.is_success(), "{}", err(&ended));
        let before = get(&room.inside.join(".git/config"));
        let script = "git config core.fsmonitor /tmp/x; echo bad > .git/hooks/pre-commit; echo bad >> .git/config; exit 0";
        git(&sandbox, &room, script).await;
        assert_eq!(get(&room.inside.join(".git/config")), before);
        assert!(!room.inside.join(".git/hooks/pre-commit").exists());
    }
}

#[tokio::test]
async fn git_works_on_the_host_while_a_command_runs() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        if repository(&room).is_none() {
            return;
        }
        let command = Command::shell("echo ready; sleep 30");
        let mut running = sandbox.start(command, room.profile()).await.unwrap();
        running.next().await.unwrap();
        put(&room.inside.join("notes.txt"), "changed");
        host_git(&room.inside, &["commit", "-q", "-a", "-m", "second"]).unwrap();
        assert_eq!(host_git(&room.inside, &["status", "--porcelain"]).unwrap(), "");
        running.stop().await;
    }
}

#[tokio::test]
async fn confined_command_leaves_no_redirection_of_git_behind() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        if repository(&room).is_none() {
            return;
        }
        git(&sandbox, &room, "echo ../sub > .git/commondir; ln -s ../sub .git/commondir; exit 0")
            .await;
        assert!(room.inside.join(".git/commondir").symlink_metadata().is_err());
        assert_eq!(host_git(&room.inside, &["status", "--porcelain"]).unwrap(), "");
    }
}

#[tokio::test]
async fn stale_placeholders_are_removed_at_the_start() {
    for sandbox in sandboxes().await {
        let room = Room::new();
        if repository(&room).is_none() {
            return;
        }
        let names =
            [".git/commondir", ".git/config.worktree", ".git/modules", "haft.toml", ".envrc"];
        for name in names {
            let path = room.inside.join(name);
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o1555)).unwrap();
        }
        // Directories of the user's are left alone.
        fs::create_dir(room.inside.join(".vscode")).unwrap();
        let profile = room.profile().read_only();
        let command = Command::shell("git status --porcelain").home_file(".gitconfig", CONFIG);
        let ended = sandbox.run(command, profile).await.unwrap();
        assert!(ended.is_success(), "{}: {}", sandbox.tier().level, err(&ended));
        for name in names {
            assert!(!room.inside.join(name).exists(), "{}: {name}", sandbox.tier().level);
        }
        assert!(room.inside.join(".vscode").is_dir());
    }
}
