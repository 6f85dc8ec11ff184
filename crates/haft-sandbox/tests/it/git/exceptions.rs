//! Git commands that change protected names work if the profile has the exception.

use super::matrix::{Fails, Prints, Row, check, row};

/// `side` has two commits of its own.
const DIVERGED: &str = "git switch -q side; echo a > a; git add a; git commit -q -m a
    echo b > b; git add b; git commit -q -m b; git switch -q main";
const CONFLICT: &str =
    "git switch -q side; echo other > notes.txt; git commit -q -a -m other; git switch -q main";
const PATCH: &str = "git format-patch -q -1 --stdout > p.log; git reset -q --hard HEAD~1";
const REBASE: &[&str] = &["./.git/rebase-merge", "./.git/rebase-apply"];

const REBASING: &[Row] = &[
    row("rebase", DIVERGED, "git rebase -q main side; git log --format=%s", Prints("b\na\nsecond\nfirst\n")).with(REBASE),
    row("rebase --apply", DIVERGED, "git rebase -q --apply main side; git log --format=%s", Prints("b\na\nsecond\nfirst\n")).with(REBASE),
    row("rebase, conflict and abort", CONFLICT, "git rebase -q main side > /dev/null 2>&1 || git status --porcelain; git rebase --abort; cat notes.txt", Prints("UU notes.txt\nother\n")).with(REBASE),
    row("rebase, conflict and continue", CONFLICT, "git rebase -q main side > /dev/null 2>&1 || echo both > notes.txt; git add .; git -c core.editor=true rebase --continue > /dev/null 2>&1; git log --format=%s", Prints("other\nsecond\nfirst\n")).with(REBASE),
    row("rebase -i", DIVERGED, "git -c sequence.editor=true rebase -q -i main side; git log -1 --format=%s", Prints("b\n")).with(REBASE),
    row("rebase --exec", DIVERGED, "git rebase -q --exec 'echo ran' main side 2> /dev/null", Prints("ran\nran\n")).with(REBASE),
    row("rebase of the working tree", "echo x > new; git add new; git switch -q -c topic; git commit -q -m new; echo y >> notes.txt", "git rebase -q --autostash side > /dev/null 2>&1; git status --porcelain; git stash list", Prints(" M notes.txt\n")).with(REBASE),
    row("am", PATCH, "git am -q p.log; git log --format=%s", Prints("second\nfirst\n")).with(&["./.git/rebase-apply"]),
    row("am, conflict and abort", "git format-patch -q -1 --stdout > p.log; git reset -q --hard HEAD~1; echo x > notes.txt; git commit -q -a -m other", "git am -q p.log > /dev/null 2>&1 || git am --abort; git log --format=%s; git status --porcelain", Prints("other\nfirst\n")).with(&["./.git/rebase-apply"]),
];

#[tokio::test]
async fn rebase_and_am_work_with_their_exception() {
    check(REBASING).await;
}

const WORKTREE: &[&str] = &["./.git/worktrees/*", "./wt/.git"];

const WORKTREES: &[Row] = &[
    row("worktree add, commit, list, remove", "",
        "git worktree add -q wt side; cd wt; echo x > x; git add x; git commit -q -m third; cd ..
         git worktree list | wc -l; git log -1 --format=%s side; git worktree remove wt; git worktree list | wc -l; ls",
        Prints("2\nthird\n1\nnotes.txt\n")).with(WORKTREE),
    row("worktree prune", "git worktree add -q wt side; rm -r wt", "git worktree prune; git worktree list | wc -l", Prints("1\n")).with(WORKTREE),
    row("worktree of the host, without an exception", "git worktree add -q wt side",
        "cd wt; echo x > x; git add x; git commit -q -m third; git log -1 --format=%s; git stash list; git switch -q -c new; git status --porcelain", Prints("third\n")),
    row("worktree of the host stays registered", "git worktree add -q wt side", "echo x > .git/worktrees/wt/gitdir", Fails("ermission denied")),
    row("worktree of the host, rebase refused", "git worktree add -q wt side; cd wt; echo x > x; git add x; git commit -q -m third", "cd wt; git rebase -q main", Fails("rebase-merge")),
    row("worktree of the host, rebase", "git worktree add -q wt side; cd wt; echo x > x; git add x; git commit -q -m third",
        "cd wt; git rebase -q main; git log --format=%s", Prints("third\nsecond\nfirst\n")).with(&["./.git/worktrees/wt/rebase-merge", "./.git/worktrees/wt/rebase-apply"]),
];

#[tokio::test]
async fn worktrees_in_the_workspace_work() {
    check(WORKTREES).await;
}

const CONFIG: &[&str] = &["./.git/config"];

const CONFIGURATION: &[Row] = &[
    row("config", "", "git config haft.test x; git config haft.test", Prints("x\n")).with(CONFIG),
    row("remote", "", "git remote add origin /tmp/x; git remote -v | wc -l; git remote remove origin; git remote", Prints("2\n")).with(CONFIG),
    row("branch --set-upstream-to", "", "git branch -q --set-upstream-to=main side; git rev-parse --abbrev-ref side@{u}", Prints("main\n")).with(CONFIG),
    row("checkout --track", "", "git checkout -q -b new --track main; git rev-parse --abbrev-ref @{u}", Prints("main\n")).with(CONFIG),
    row("sparse-checkout", "mkdir in out; touch in/x out/y; git add .; git commit -q -m third", "git status --porcelain; git sparse-checkout set in; ls; git sparse-checkout disable; ls", Prints("in\nnotes.txt\nin\nnotes.txt\nout\n")).with(&["./.git/config", "./.git/config.worktree"]),
    row("sparse-checkout without its exception", "mkdir in out; touch in/x out/y; git add .; git commit -q -m third", "git sparse-checkout set in", Fails("config")),
    row("the exception frees nothing else", "", "echo x > .git/hooks/pre-commit", Fails("ermission denied")).with(CONFIG),
    row("init", "", "git init -q -b main new; cd new; echo x > x; git add x; git commit -q -m inner; git log --format=%s", Prints("inner\n")).with(&["./new/.git"]),
    row("clone", "", "git clone -q . new; git -C new log --format=%s", Prints("second\nfirst\n")).with(&["./new/.git"]),
];

#[tokio::test]
async fn configuration_can_be_changed_with_its_exception() {
    check(CONFIGURATION).await;
}
