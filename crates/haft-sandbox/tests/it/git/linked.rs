//! A workspace that is a linked worktree of a repository outside of it.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use haft_core::{Capabilities, Capability};
use haft_sandbox::{Access, Profile, Workspace};

use super::matrix::{
    ExpectedResult, Fails, Prints, Row, compare, has_git, host, inside, protected, row,
};
use crate::kit::*;

/// Creates a workspace that is a worktree of `outside/repo`. Returns it and the git directory of
/// that repository.
fn linked() -> (Fixture, PathBuf) {
    let fixture = Fixture::new();
    fs::remove_file(fixture.inside.join("notes.txt")).unwrap();
    fs::remove_dir(fixture.inside.join("sub")).unwrap();
    fs::create_dir(fixture.outside.join("repo")).unwrap();
    let script = "git init -q -b main .
        echo one > notes.txt; git add .; git commit -q -m first
        echo two >> notes.txt; git commit -q -a -m second; git branch side HEAD~1; git branch third
        git worktree add -q ../../inside side; git worktree add -q ../other third";
    host(&fixture, &fixture.outside.join("repo"), script);
    let git = fixture.outside.join("repo/.git");
    (fixture, git)
}

/// Copies such a workspace and its repository, which is faster than creating them.
fn copy(first: &Fixture) -> (Fixture, PathBuf) {
    let fixture = Fixture::new();
    fs::remove_dir_all(&fixture.inside).unwrap();
    fs::remove_dir_all(&fixture.outside).unwrap();
    let (from, to) = (first.inside.parent().unwrap(), fixture.inside.parent().unwrap());
    let mut copy = std::process::Command::new("cp");
    copy.arg("-a").arg(from.join("inside")).arg(from.join("outside")).arg(to);
    assert!(copy.status().unwrap().success());
    let git = fixture.outside.join("repo/.git");
    let own = git.join("worktrees/inside");
    write(&fixture.inside.join(".git"), &format!("gitdir: {}\n", own.display()));
    write(&own.join("gitdir"), &format!("{}/.git\n", fixture.inside.display()));
    let other = git.join("worktrees/other");
    write(&fixture.outside.join("other/.git"), &format!("gitdir: {}\n", other.display()));
    write(&other.join("gitdir"), &format!("{}/other/.git\n", fixture.outside.display()));
    (fixture, git)
}

fn workspace(root: &Path) -> Workspace {
    Workspace::builder().root(root, Access::Write).linked_worktrees().build().unwrap()
}

fn profile(fixture: &Fixture, exceptions: &[&str]) -> Profile {
    let all = Capabilities::from([Capability::Filesystem]);
    let profile = Profile::of(all, &workspace(&fixture.inside));
    let exceptions = exceptions.iter().map(|name| (*name).to_owned()).collect();
    Profile { exceptions, ..profile }
}

/// The scripts find the git directory of the repository in `$common`.
const COMMON: &str = "common=$(realpath \"$(git rev-parse --git-common-dir)\")";
const DENIED: ExpectedResult = Fails("ermission denied");
const REBASE: &[&str] = &["./.git/rebase-merge", "./.git/rebase-apply"];

const WORK: &[Row] = &[
    row(
        "branch -m and -d",
        "",
        "git branch new; git branch -m new newer; git branch -q -d newer 2>&1; git branch --list 'new*'",
        Prints(""),
    ),
    row(
        "status",
        "echo x >> notes.txt",
        "git status --porcelain; git log --format=%s",
        Prints(" M notes.txt\nfirst\n"),
    ),
    row(
        "commit",
        "",
        "echo x > x; git add x; git commit -q -m third; git commit -q --amend -m other; git log --format=%s",
        Prints("other\nfirst\n"),
    ),
    row(
        "branch",
        "",
        "git switch -q -c new; git commit -q --allow-empty -m new; git branch b; git branch -q -f b main; git tag v1; git tag -d v1 > /dev/null; git for-each-ref --format='%(refname:short)'",
        Prints("b\nmain\nnew\nside\nthird\n"),
    ),
    row(
        "delete a branch",
        "git branch old; git pack-refs --all",
        "git update-ref -d refs/heads/old; git branch --list old; git switch -q --detach; git switch -q side",
        Prints(""),
    ),
    row(
        "stash",
        "echo x >> notes.txt",
        "git stash -q; git status --porcelain; git stash pop -q; git status --porcelain",
        Prints(" M notes.txt\n"),
    ),
    row("merge", "", "git merge -q main; git log -1 --format=%s", Prints("second\n")),
    row(
        "merge, conflict and abort",
        "echo other > notes.txt; git commit -q -a -m other",
        "git merge main > /dev/null 2>&1 || git merge --abort; git status --porcelain; cat notes.txt",
        Prints("other\n"),
    ),
    row(
        "cherry-pick",
        "echo x > x; git add x; git commit -q -m x; git reset -q --hard main",
        "git cherry-pick side@{1} > /dev/null; git revert --no-edit HEAD > /dev/null; git log -1 --format=%s",
        Prints("Revert \"x\"\n"),
    ),
    // It changes the reflogs of all worktrees, which the command may not.
    row("gc", "", "git gc -q", Fails("failed to run reflog")),
    row(
        "repack",
        "",
        "git repack -q -a -d; git prune; git pack-refs --all; git fsck --no-progress --no-dangling
         git log --format=%s main",
        Prints("second\nfirst\n"),
    ),
    row("worktree list", "", "git worktree list | wc -l", Prints("3\n")),
    row(
        "rebase refused",
        "echo x > x; git add x; git commit -q -m x",
        "git rebase -q main",
        Fails("rebase-merge"),
    ),
    row(
        "rebase",
        "echo x > x; git add x; git commit -q -m x",
        "git rebase -q main; git log --format=%s",
        Prints("x\nsecond\nfirst\n"),
    )
    .with(REBASE),
    row("config", "", "git config a.b c", Fails("could not write config file")),
    row("config file", "", "echo x >> $common/config", DENIED),
    row("new hook", "", "echo x > $common/hooks/pre-commit", DENIED),
    row("hooks moved", "", "mv $common/hooks $common/old", Fails("")),
    row("config.worktree", "", "echo x > $common/config.worktree", DENIED),
    row("own config.worktree", "", "echo x > $(git rev-parse --git-dir)/config.worktree", DENIED),
    row("own commondir", "", "echo x > $(git rev-parse --git-dir)/commondir", DENIED),
    row("own gitdir", "", "rm $(git rev-parse --git-dir)/gitdir", Fails("")),
    row("own directory moved", "", "mv $common/worktrees/inside $common/worktrees/x", Fails("")),
    row("own rebase-merge", "", "mkdir $(git rev-parse --git-dir)/rebase-merge", DENIED),
    row("other worktree", "", "echo x > $common/worktrees/other/HEAD", DENIED),
    row("new worktree", "", "mkdir $common/worktrees/new", DENIED),
    row("HEAD of the repository", "", "echo ref: refs/heads/side > $common/HEAD", DENIED),
    row("index of the repository", "", "rm -f $common/index", Fails("")),
    row(
        "attributes",
        "",
        "mkdir -p $common/info; echo '* filter=x' > $common/info/attributes",
        DENIED,
    ),
    row("symlink among the refs", "", "ln -s /etc/passwd $common/refs/heads/x", DENIED),
    row("objects moved", "", "mv $common/objects $common/old", Fails("")),
    row("new file at the top", "", "echo x > $common/new", DENIED),
    row(
        "file of the workspace moved to the top",
        "",
        "echo x > packed-refs; echo x > config; mv -f config $common/config",
        Fails(""),
    ),
    // With private temporary directories it is written there and not on the host.
    row("working tree of the repository", "", "echo x > $common/../notes.txt; exit 1", Fails("")),
    row("other .git file", "", "rm -f .git; echo 'gitdir: /tmp/x' > .git", Fails("")),
];

/// Returns what must not change: all of the git directory except what commits write.
fn fixed(git: &Path, exceptions: &[&str]) -> Vec<(PathBuf, String)> {
    let changes = |path: &Path| {
        let below = path.strip_prefix(git).unwrap();
        let first = below.iter().next().unwrap().to_string_lossy();
        let is_own = below.starts_with("worktrees/inside")
            && !["gitdir", "commondir"].iter().any(|name| below.ends_with(name));
        is_own || ["objects", "refs", "logs", "packed-refs"].contains(&&*first)
    };
    let all = snapshot(git).into_iter().filter(|(path, _)| !changes(path));
    let repository = git.parent().unwrap();
    let notes = repository.join("notes.txt");
    let notes = (notes.clone(), get(&notes));
    all.chain(protected(repository.parent().unwrap(), exceptions)).chain([notes]).collect()
}

#[tokio::test]
async fn commits_work_in_a_linked_worktree_and_cannot_change_the_repository_configuration() {
    if !has_git() {
        return;
    }
    let mut wrong = Vec::new();
    let (first, _) = linked();
    for sandbox in sandboxes().await {
        let level = sandbox.tier().level;
        for row in WORK {
            let (fixture, git) = copy(&first);
            host(&fixture, &fixture.inside, row.setup);
            let before = fixed(&git, row.exceptions);
            let script = format!("{COMMON}\n{}", row.script);
            let ended = inside(&sandbox, profile(&fixture, row.exceptions), &script).await;
            if let Some(what) = compare(row.expected, &ended) {
                wrong.push(format!("{} ({level}): {what} {:?}", row.name, ended.refused));
            }
            if before != fixed(&git, row.exceptions) {
                wrong.push(format!("{} ({level}): the repository changed", row.name));
            }
            let fsck = "git fsck --no-dangling --no-progress 2>&1 || :";
            let fsck = host(&fixture, &fixture.outside.join("repo"), fsck);
            if !fsck.is_empty() {
                wrong.push(format!("{} ({level}): fsck: {fsck}", row.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn read_only_command_reads_the_repository_of_a_linked_worktree_and_changes_nothing() {
    if !has_git() {
        return;
    }
    for sandbox in sandboxes().await {
        let (fixture, git) = linked();
        let before = snapshot(&git);
        let mut profile = profile(&fixture, &[]).read_only();
        profile.reads = haft_sandbox::ReadableFiles::Only(Vec::new());
        let script = "export GIT_OPTIONAL_LOCKS=0; git status --porcelain; git log --format=%s main
            git commit -q --allow-empty -m x 2> /dev/null || echo no";
        let ended = inside(&sandbox, profile, script).await;
        assert_eq!(out(&ended), "second\nfirst\nno\n", "{}", err(&ended));
        assert_eq!(snapshot(&git), before);
    }
}

#[test]
fn workspace_of_an_ordinary_repository_gets_no_git_directory() {
    if !has_git() {
        return;
    }
    let fixture = super::matrix::repository();
    let workspace = workspace(&fixture.inside);
    assert!(workspace.git_notes().is_empty());
    let profile = Profile::of(Capabilities::from([Capability::Filesystem]), &workspace);
    assert_eq!((profile.roots.len(), profile.git_directories.len()), (1, 0));
}

#[test]
fn git_file_is_followed_only_if_enabled() {
    if !has_git() {
        return;
    }
    let (fixture, git) = linked();
    assert_eq!(fixture.profile().roots.len(), 1);
    let profile = profile(&fixture, &[]);
    assert_eq!(profile.roots.last().map(|root| &root.path), Some(&git));
    assert_eq!(profile.git_directories.len(), 1);
}

/// Replaces a file.
fn write(path: &Path, text: &str) {
    let _ = fs::remove_file(path);
    put(path, text);
}

#[test]
fn hostile_git_file_grants_no_access() {
    if !has_git() {
        return;
    }
    type Attack = fn(&Fixture, &Path);
    const ATTACKS: &[(&str, Attack)] = &[
        ("names a directory that is no repository", |fixture, _| {
            let there = fixture.outside.join("home2/worktrees/inside");
            fs::create_dir_all(&there).unwrap();
            write(&there.join("commondir"), "../..\n");
            write(&there.join("gitdir"), &format!("{}/.git\n", fixture.inside.display()));
            write(&fixture.inside.join(".git"), &format!("gitdir: {}\n", there.display()));
        }),
        ("names the repository itself", |fixture, git| {
            write(&fixture.inside.join(".git"), &format!("gitdir: {}\n", git.display()));
        }),
        ("names the worktree of another directory", |fixture, git| {
            let other = git.join("worktrees/other");
            write(&fixture.inside.join(".git"), &format!("gitdir: {}\n", other.display()));
        }),
        ("names a directory that does not exist", |fixture, git| {
            let none = git.join("worktrees/none");
            write(&fixture.inside.join(".git"), &format!("gitdir: {}\n", none.display()));
        }),
        ("the repository names another directory", |_, git| {
            write(&git.join("worktrees/inside/gitdir"), "/elsewhere/.git\n");
        }),
        ("the repository names another file", |fixture, git| {
            let text = format!("{}/x\n", fixture.inside.display());
            write(&git.join("worktrees/inside/gitdir"), &text);
        }),
        ("another common directory", |_, git| {
            write(&git.join("worktrees/inside/commondir"), "../../../../..\n");
        }),
        ("objects lead elsewhere", |fixture, git| {
            fs::rename(git.join("objects"), fixture.outside.join("objects")).unwrap();
            symlink(fixture.outside.join("objects"), git.join("objects")).unwrap();
        }),
        ("refs lead elsewhere", |fixture, git| {
            fs::rename(git.join("refs"), fixture.outside.join("refs")).unwrap();
            symlink(fixture.outside.join("refs"), git.join("refs")).unwrap();
        }),
        ("worktree that is a symlink", |fixture, git| {
            fs::rename(git.join("worktrees/inside"), fixture.outside.join("inside")).unwrap();
            symlink(fixture.outside.join("inside"), git.join("worktrees/inside")).unwrap();
        }),
        ("no gitdir line", |fixture, _| write(&fixture.inside.join(".git"), "hello\n")),
        ("two lines", |fixture, git| {
            let own = git.join("worktrees/inside");
            write(&fixture.inside.join(".git"), &format!("gitdir: {}\nx\n", own.display()));
        }),
        ("too long", |fixture, git| {
            let own = git.join("worktrees/inside");
            let path = format!("{}{}", own.display(), "/.".repeat(8 << 10));
            write(&fixture.inside.join(".git"), &format!("gitdir: {path}\n"));
        }),
        ("symlink", |fixture, _| {
            fs::rename(fixture.inside.join(".git"), fixture.inside.join("x")).unwrap();
            symlink("x", fixture.inside.join(".git")).unwrap();
        }),
        ("FIFO", |fixture, _| {
            fs::remove_file(fixture.inside.join(".git")).unwrap();
            let made =
                std::process::Command::new("mkfifo").arg(fixture.inside.join(".git")).status();
            assert!(made.unwrap().success());
        }),
    ];
    let (first, _) = linked();
    for (name, attack) in ATTACKS {
        let (fixture, git) = copy(&first);
        assert_eq!(profile(&fixture, &[]).git_directories.len(), 1, "{name}: before");
        attack(&fixture, &git);
        let workspace = workspace(&fixture.inside);
        let profile = Profile::of(Capabilities::from([Capability::Filesystem]), &workspace);
        let granted = (profile.roots.len(), profile.git_directories.len());
        assert_eq!(granted, (1, 0), "{name}: {:?}", workspace.git_notes());
    }
}

#[test]
fn repository_of_another_owner_is_not_granted() {
    use std::os::unix::fs::{MetadataExt as _, chown};
    if !has_git() || fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let (fixture, git) = linked();
    chown(&git, Some(65_534), None).unwrap();
    let workspace = workspace(&fixture.inside);
    assert!(workspace.git_notes()[0].contains("another owner"), "{:?}", workspace.git_notes());
    assert_eq!(Profile::of(Capabilities::NONE, &workspace).roots.len(), 1);
}
