//! Common git commands work in both tiers, without an exception.

use super::matrix::{Fails, Prints, Row, check, row};

const READING: &[Row] = &[
    row(
        "status",
        "echo x >> notes.txt; echo y > new",
        "git status --porcelain",
        Prints(" M notes.txt\n?? new\n"),
    ),
    row(
        "diff",
        "echo x >> notes.txt",
        "git diff --shortstat",
        Prints(" 1 file changed, 1 insertion(+)\n"),
    ),
    row("log", "", "git log --format=%s", Prints("second\nfirst\n")),
    row("show", "", "git show --format=%s --name-only HEAD", Prints("second\n\nnotes.txt\n")),
    row("blame", "", "git blame -s notes.txt | cut -d')' -f2", Prints(" one\n two\n")),
    row("grep", "", "git grep -n two", Prints("notes.txt:2:two\n")),
    row("fsck", "", "git fsck --no-dangling --no-progress 2>&1", Prints("")),
    row(
        "reflog",
        "",
        "git reflog --format=%gs",
        Prints("commit: second\ncommit (initial): first\n"),
    ),
    row("describe", "git tag v1", "git describe --tags", Prints("v1\n")),
    row(
        "in a subdirectory",
        "mkdir -p a/b; echo x > a/b/c",
        "cd a/b && git status --porcelain . && git rev-parse --show-prefix",
        Prints("?? a/b/\na/b/\n"),
    ),
    row("archive", "", "git archive HEAD | tar -t", Prints(".gitignore\nnotes.txt\n")),
];

#[tokio::test]
async fn git_commands_that_read_work() {
    check(READING).await;
}

const COMMITTING: &[Row] = &[
    row(
        "add and commit",
        "",
        "echo x > new; git add new; git commit -q -m third; git log -1 --format='%an %ae %s'",
        Prints("A Person a@example.com third\n"),
    ),
    row(
        "commit -a",
        "",
        "echo x >> notes.txt; git commit -q -a -m third; git status --porcelain",
        Prints(""),
    ),
    row(
        "amend",
        "",
        "git commit -q --amend -m other; git log --format=%s",
        Prints("other\nfirst\n"),
    ),
    row(
        "commit in a subdirectory",
        "mkdir -p a/b",
        "cd a/b; echo x > c; git add c; git commit -q -m third; git log -1 --name-only --format=",
        Prints("a/b/c\n"),
    ),
    row(
        "branch",
        "",
        "git branch new; git branch --format='%(refname:short)'",
        Prints("main\nnew\nside\n"),
    ),
    row(
        "branch -f and -D",
        "",
        "git branch -f side main; git branch -q -D side 2>&1; git branch --format='%(refname:short)'",
        Prints("main\n"),
    ),
    row(
        "branch -m",
        "",
        "git branch -m side other; git branch --format='%(refname:short)'",
        Prints("main\nother\n"),
    ),
    row(
        "checkout",
        "",
        "git checkout -q side; cat notes.txt; git checkout -q main; cat notes.txt",
        Prints("one\none\ntwo\n"),
    ),
    row(
        "checkout of a file",
        "echo x > notes.txt",
        "git checkout -q -- notes.txt; cat notes.txt",
        Prints("one\ntwo\n"),
    ),
    row("switch -c", "", "git switch -q -c new; git rev-parse --abbrev-ref HEAD", Prints("new\n")),
    row("switch to a commit", "", "git switch -q --detach HEAD~1; cat notes.txt", Prints("one\n")),
    row(
        "restore",
        "echo x > notes.txt; git add .",
        "git restore --staged --worktree notes.txt; git status --porcelain",
        Prints(""),
    ),
    row(
        "stash push and pop",
        "echo x >> notes.txt; echo y > new",
        "git stash push -q -u; git status --porcelain; git stash list --format=%gd; git stash pop -q; git status --porcelain",
        Prints("stash@{0}\n M notes.txt\n?? new\n"),
    ),
    row(
        "tag",
        "",
        "git tag v1; git tag -a v2 -m two; git tag; git tag -d v1 > /dev/null; git tag",
        Prints("v1\nv2\nv2\n"),
    ),
    row(
        "rm",
        "",
        "git rm -q notes.txt; git commit -q -m gone; git ls-files",
        Prints(".gitignore\n"),
    ),
    row(
        "mv",
        "",
        "mkdir d; git mv notes.txt d/; git commit -q -m moved; git ls-files",
        Prints(".gitignore\nd/notes.txt\n"),
    ),
    row(
        "reset --hard",
        "echo x > notes.txt",
        "git reset -q --hard HEAD~1; cat notes.txt; git status --porcelain",
        Prints("one\n"),
    ),
    row(
        "reset --soft",
        "",
        "git reset -q --soft HEAD~1; git status --porcelain",
        Prints("M  notes.txt\n"),
    ),
    row(
        "clean",
        "echo x > a.log; mkdir d; echo y > d/e",
        "git clean -q -f -d -x; ls -A",
        Prints(".git\n.gitignore\nnotes.txt\n"),
    ),
    row("notes", "", "git notes add -m hello; git notes show", Prints("hello\n")),
    row(
        "update-index",
        "",
        "git update-index --refresh; git update-index --assume-unchanged notes.txt; git ls-files -v notes.txt",
        Prints("h notes.txt\n"),
    ),
    row(
        "sparse files with modes",
        "echo x > run; chmod +x run; git add run; git commit -q -m run; git rm -q run; git commit -q -m gone",
        "git checkout -q HEAD~1; test -x run; echo $?",
        Prints("0\n"),
    ),
    row(
        "symlinks",
        "ln -s notes.txt link; git add link; git commit -q -m link; rm link",
        "git checkout -q -- link; readlink link",
        Prints("notes.txt\n"),
    ),
];

#[tokio::test]
async fn git_commands_that_commit_work() {
    check(COMMITTING).await;
}

/// `side` and `main` change the same line.
const CONFLICT: &str =
    "git switch -q side; echo other > notes.txt; git commit -q -a -m other; git switch -q main";
/// `side` has two commits of its own.
const DIVERGED: &str = "git switch -q side; echo a > a; git add a; git commit -q -m a
    echo b > b; git add b; git commit -q -m b; git switch -q main";

const HISTORY: &[Row] = &[
    row(
        "merge, fast-forward",
        "git switch -q side",
        "git merge -q main; git log --format=%s",
        Prints("second\nfirst\n"),
    ),
    row(
        "merge",
        DIVERGED,
        "git merge -q --no-edit side; git log -1 --format=%s; ls",
        Prints("Merge branch 'side'\na\nb\nnotes.txt\n"),
    ),
    row(
        "merge, conflict and abort",
        CONFLICT,
        "git merge -q side >&2 || git status --porcelain; git merge --abort; cat notes.txt",
        Prints("UU notes.txt\none\ntwo\n"),
    ),
    row(
        "merge, conflict solved",
        CONFLICT,
        "git merge -q side >&2 || echo both > notes.txt; git commit -q -a --no-edit; git log -1 --format=%p | wc -w",
        Prints("2\n"),
    ),
    row(
        "merge --squash",
        DIVERGED,
        "git merge -q --squash side > /dev/null; git commit -q -m squashed; ls",
        Prints("a\nb\nnotes.txt\n"),
    ),
    row(
        "cherry-pick of several",
        DIVERGED,
        "git cherry-pick side~1 side > /dev/null; git log -2 --format=%s",
        Prints("b\na\n"),
    ),
    row(
        "cherry-pick, conflict and abort",
        CONFLICT,
        "git cherry-pick side 2> /dev/null > /dev/null || git cherry-pick --abort; cat notes.txt; git status --porcelain",
        Prints("one\ntwo\n"),
    ),
    row(
        "cherry-pick of several, conflict and continue",
        "git switch -q side; echo other > notes.txt; git commit -q -a -m other; echo b > b; git add b; git commit -q -m b; git switch -q main",
        "git cherry-pick side~1 side > /dev/null 2>&1 || echo both > notes.txt; git add .; git -c core.editor=true cherry-pick --continue > /dev/null; git log -2 --format=%s",
        Prints("b\nother\n"),
    ),
    row("revert", "", "git revert --no-edit HEAD > /dev/null; cat notes.txt", Prints("one\n")),
    row(
        "revert of several",
        DIVERGED,
        "git switch -q side; git revert --no-edit HEAD HEAD~1 > /dev/null; ls",
        Prints("notes.txt\n"),
    ),
    row(
        "apply",
        "echo x >> notes.txt; git diff > p.log; git checkout -q .",
        "git apply p.log; tail -n 1 notes.txt; git apply --index -R p.log 2> /dev/null || git apply -R p.log; git status --porcelain",
        Prints("x\n"),
    ),
    row(
        "bisect",
        DIVERGED,
        "git bisect start side main~1 > /dev/null; git bisect run test ! -e b > /dev/null; git show -s --format=%s refs/bisect/bad; git bisect reset > /dev/null 2>&1",
        Prints("b\n"),
    ),
    row(
        "gc",
        DIVERGED,
        "git gc -q; git count-objects | cut -d' ' -f1; ls .git/objects/pack | grep -c pack$",
        Prints("0\n1\n"),
    ),
    row(
        "gc and go on",
        DIVERGED,
        "git gc -q; git merge -q --no-edit side; git branch new; git tag v1; git pack-refs --all; git update-ref -d refs/tags/v1; git for-each-ref --format='%(refname)'",
        Prints("refs/heads/main\nrefs/heads/new\nrefs/heads/side\n"),
    ),
    row(
        "repack and prune",
        DIVERGED,
        "git repack -q -a -d; git prune; git prune-packed; git log --format=%s side",
        Prints("b\na\nfirst\n"),
    ),
    row(
        "commit-graph",
        "",
        "git commit-graph write --reachable --no-progress; git commit-graph verify --no-progress",
        Prints(""),
    ),
    row(
        "maintenance",
        DIVERGED,
        "git maintenance run --quiet; git log -1 --format=%s",
        Prints("second\n"),
    ),
    row(
        "bundle",
        "",
        "git bundle create -q all.log --all; git bundle verify -q all.log 2>&1",
        Prints("all.log is okay\n"),
    ),
    row("format-patch", "", "git format-patch -q -1 -o out; ls out", Prints("0001-second.patch\n")),
    row(
        "rerere",
        "git config rerere.enabled true",
        "git switch -q side; echo other > notes.txt; git commit -q -a -m other; git merge main > /dev/null 2>&1 || git rerere status; git merge --abort",
        Prints("notes.txt\n"),
    ),
];

#[tokio::test]
async fn git_commands_that_change_the_history_work() {
    check(HISTORY).await;
}

const REFUSED: &[Row] = &[
    row("config", "", "git config user.name x", Fails("could not write config file")),
    row("remote add", "", "git remote add origin /tmp/x", Fails("could not write config file")),
    row("hook", "", "echo x > .git/hooks/pre-commit", Fails("ermission denied")),
    row("rebase", DIVERGED, "git rebase -q main side", Fails(".git/rebase-merge")),
    row(
        "am",
        "git format-patch -q -1 --stdout > p.log; git reset -q --hard HEAD~1",
        "git am -q p.log",
        Fails(".git/rebase-apply"),
    ),
    row("worktree add", "", "git worktree add -q wt side", Fails("ermission denied")),
    row("init", "", "git init -q new", Fails("ermission denied")),
    row("clone", "", "git clone -q . new", Fails("ermission denied")),
    row("init --bare", "", "git init -q --bare new", Fails("couldn't set 'HEAD'")),
];

#[tokio::test]
async fn git_commands_that_change_protected_names_are_refused() {
    check(REFUSED).await;
}
