//! Special repositories: submodules, nested ones, filters, monitors, hooks, stale locks, and
//! concurrent work on the host.

use super::matrix::{
    CONFIG, ExpectedResult, Fails, Prints, Row, check, compare, has_git, host, inside, repository,
    row,
};
use crate::kit::*;

/// A submodule `lib`. Its origin is an ignored directory of the workspace.
const SUBMODULE: &str = "git init -q -b main lib.log
    (cd lib.log; echo l > l; git add l; git commit -q -m lib)
    git submodule --quiet add \"$(realpath lib.log)\" lib; git commit -q -m sub";
/// The same submodule, not fetched.
const ABSENT: &str = "git init -q -b main lib.log
    (cd lib.log; echo l > l; git add l; git commit -q -m lib)
    git submodule --quiet add \"$(realpath lib.log)\" lib; git commit -q -m sub
    git submodule --quiet deinit -f lib; rm -r .git/modules/lib";
const NEW: &str =
    "git init -q -b main lib.log; cd lib.log; echo l > l; git add l; git commit -q -m lib";
const ADD: &[&str] = &["./.git/config", "./.git/modules", "./lib/.git"];
const DENIED: ExpectedResult = Fails("ermission denied");

const SUBMODULES: &[Row] = &[
    row(
        "status",
        SUBMODULE,
        "git status --porcelain; git diff; git submodule status | cut -c1,42-",
        Prints("  lib (heads/main)\n"),
    ),
    row(
        "status of a changed submodule",
        SUBMODULE,
        "echo x >> lib/l; git status --porcelain; git diff --submodule=short --name-only",
        Prints(" M lib\nlib\n"),
    ),
    row(
        "commit in the superproject",
        SUBMODULE,
        "echo x > x; git add x; git commit -q -m third; git log -1 --format=%s",
        Prints("third\n"),
    ),
    row(
        "commit in the submodule and above",
        SUBMODULE,
        "cd lib; echo x > x; git add x; git commit -q -m inner; git log -1 --format=%s; cd ..
         git status --porcelain; git commit -q -a -m outer; git status --porcelain",
        Prints("inner\n M lib\n"),
    ),
    row(
        "branch, stash and gc in the submodule",
        SUBMODULE,
        "cd lib; git switch -q -c new; echo x >> l; git stash -q; git stash pop -q
         git status --porcelain; git tag v1; git gc -q; git fsck --no-progress --no-dangling",
        Prints(" M l\n"),
    ),
    row("its configuration", SUBMODULE, "echo x >> .git/modules/lib/config", DENIED),
    row("its hooks", SUBMODULE, "echo x > .git/modules/lib/hooks/pre-commit", DENIED),
    row("its hooks moved", SUBMODULE, "mv .git/modules/lib/hooks .git/modules/lib/x", Fails("")),
    row("its directory moved", SUBMODULE, "mv .git/modules/lib .git/modules/old", Fails("")),
    row("a new module", SUBMODULE, "mkdir -p .git/modules/new/objects", DENIED),
    row("HEAD of a new module", SUBMODULE, "echo x > .git/modules/HEAD", DENIED),
    row("a module in it", SUBMODULE, "mkdir .git/modules/lib/modules", DENIED),
    row(
        "a repository in its directory",
        SUBMODULE,
        "mkdir .git/modules/lib/y; echo x > .git/modules/lib/y/config",
        DENIED,
    ),
    row(
        "a repository prepared among its refs",
        SUBMODULE,
        "cd .git/modules/lib; mkdir refs/y; echo x > refs/y/config; mv refs/y y; rm -r refs/y",
        DENIED,
    ),
    row(
        "a repository prepared in the superproject",
        SUBMODULE,
        "cd .git; mkdir y; echo x > y/config; mv y modules/lib/y",
        DENIED,
    ),
    row("another redirection", SUBMODULE, "rm lib/.git; echo 'gitdir: x' > lib/.git", DENIED),
    row(
        "rebase in it",
        SUBMODULE,
        "cd lib; git switch -q -c new; echo x > x; git add x; git commit -q -m x
         git switch -q main; echo y > y; git add y; git commit -q -m y; git rebase -q new",
        Fails("rebase-merge"),
    ),
    row("update refused", ABSENT, "git submodule --quiet update --init", Fails("config file")),
    row("update", ABSENT, "git submodule --quiet update --init; cat lib/l", Prints("l\n"))
        .with(ADD),
    row(
        "add",
        NEW,
        "git submodule --quiet add \"$PWD/lib.log\" lib; cat lib/l; git status --porcelain",
        Prints("l\nA  .gitmodules\nA  lib\n"),
    )
    .with(ADD),
];

#[tokio::test]
async fn submodules_work() {
    check(SUBMODULES).await;
}

const NESTED: &str =
    "mkdir nested; cd nested; git init -q -b main .; echo n > n; git add n; git commit -q -m inner";

const PLAIN: &[Row] = &[
    row(
        "nested repository",
        NESTED,
        "cd nested; echo x > x; git add x; git commit -q -m third; git log --format=%s; cd ..; git status --porcelain",
        Prints("third\ninner\n?? nested/\n"),
    ),
    row(
        "nested repository keeps its hooks",
        NESTED,
        "echo x > nested/.git/hooks/pre-commit",
        Fails("ermission denied"),
    ),
    row(
        "monitor of the configuration",
        "printf '#!/bin/sh\\necho asked >> monitor.log; printf \"t\\\\000/\\\\000\"\\n' > monitor.sh; chmod +x monitor.sh; git add monitor.sh; git commit -q -m m; git config core.fsmonitor ./monitor.sh; echo x >> notes.txt",
        "git status --porcelain; sort -u monitor.log",
        Prints(" M notes.txt\nasked\n"),
    ),
    row(
        "monitor of git itself",
        "git config core.fsmonitor true; echo x >> notes.txt",
        "git status --porcelain",
        Prints(" M notes.txt\n"),
    ),
    row(
        "untracked cache",
        "git config core.untrackedCache true; git update-index --untracked-cache; echo x > new",
        "git status --porcelain; git add new; git commit -q -m new; git status --porcelain",
        Prints("?? new\n"),
    ),
    row("index.lock left over", "touch .git/index.lock", "git add notes.txt", Fails("index.lock")),
    row(
        "index.lock removed",
        "touch .git/index.lock",
        "rm .git/index.lock; echo x >> notes.txt; git add notes.txt; git status --porcelain",
        Prints("M  notes.txt\n"),
    ),
    row(
        "hook that writes files",
        "printf '#!/bin/sh\\necho ran > hook.log; echo ran > .git/hook-ran\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        "echo x >> notes.txt; git commit -q -a -m third; cat hook.log .git/hook-ran",
        Prints("ran\nran\n"),
    ),
    row(
        "hook that changes the message",
        "printf '#!/bin/sh\\necho changed > $1\\n' > .git/hooks/commit-msg; chmod +x .git/hooks/commit-msg",
        "git commit -q --allow-empty -m third; git log -1 --format=%s",
        Prints("changed\n"),
    ),
    row(
        "hook that writes outside",
        "printf '#!/bin/sh\\necho x > ../outside/escaped\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        "git commit -q --allow-empty -m third",
        Fails("../outside/escaped"),
    ),
    row(
        "hook that plants a hook",
        "printf '#!/bin/sh\\necho x > .git/hooks/post-commit\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        "git commit -q --allow-empty -m third",
        Fails("ermission denied"),
    ),
    row(
        "core.hooksPath",
        "mkdir h; printf '#!/bin/sh\\necho ran > hook.log\\n' > h/pre-commit; chmod +x h/pre-commit; git config core.hooksPath h",
        "git commit -q --allow-empty -m third; cat hook.log",
        Prints("ran\n"),
    ),
    row(
        "filter of the configuration",
        "git config filter.upper.clean 'tr a-z A-Z'; git config filter.upper.smudge 'tr A-Z a-z'; echo '*.up filter=upper' > .gitattributes; git add .gitattributes; git commit -q -m attributes",
        "echo hello > a.up; git add a.up; git cat-file -p :a.up; rm a.up; git checkout -q -- a.up; cat a.up",
        Prints("HELLO\nhello\n"),
    ),
    row(
        "bare repository next to it",
        "git clone -q --bare . bare.git",
        "git -C bare.git log --format=%s; echo x > bare.git/config",
        Fails("ermission denied"),
    ),
];

#[tokio::test]
async fn special_repositories_work() {
    check(PLAIN).await;
}

/// Configures git-lfs for `*.bin`, as `git lfs install --local` does.
fn configure_lfs(program: &str) -> String {
    format!(
        "git config filter.lfs.clean '{program} clean -- %f'; git config filter.lfs.smudge '{program} smudge -- %f'
         git config filter.lfs.process '{program} filter-process'; git config filter.lfs.required true
         echo '*.bin filter=lfs diff=lfs merge=lfs -text' > .gitattributes; git add .gitattributes
         git commit -q -m attributes; echo x > a.bin; echo y >> notes.txt"
    )
}

#[tokio::test]
async fn git_lfs_works_or_fails_as_on_the_host() {
    const SCRIPT: &str = "git status --porcelain; git add notes.txt; git commit -q -m third
        if git add a.bin 2> /dev/null; then git commit -q -m lfs; git cat-file -p HEAD:a.bin; else echo no filter; fi
        git status --porcelain";
    if !has_git() {
        return;
    }
    let mut programs = vec!["haft-no-such-program"];
    match std::process::Command::new("git-lfs").arg("version").output() {
        Ok(_) => programs.push("git-lfs"),
        Err(_) => eprintln!("NOT TESTED: there is no git-lfs here"),
    }
    for sandbox in sandboxes().await {
        for program in &programs {
            let (fixture, plain) = (repository(), repository());
            host(&fixture, &fixture.inside, &configure_lfs(program));
            host(&plain, &plain.inside, &configure_lfs(program));
            let wanted = host(&plain, &plain.inside, SCRIPT);
            let ended = inside(&sandbox, fixture.profile(), SCRIPT).await;
            assert!(ended.is_success(), "{}", err(&ended));
            assert_eq!(out(&ended), wanted, "{program}: {}", err(&ended));
        }
    }
}

#[tokio::test]
async fn host_and_command_can_use_one_repository_concurrently() {
    if !has_git() {
        return;
    }
    for sandbox in sandboxes().await {
        let fixture = repository();
        let script = "set -e; echo ready; for i in $(seq 30); do git commit -q --allow-empty -m inside; git branch b$i; done";
        let command = haft_sandbox::Command::shell(script)
            .home_file(".gitconfig", CONFIG)
            .deadline(std::time::Duration::from_secs(60));
        let mut running = sandbox.start(command, fixture.profile()).await.unwrap();
        running.next().await.unwrap();
        let work = "export GIT_OPTIONAL_LOCKS=0; for i in $(seq 30); do git tag t$i; git status --porcelain; git log -1 --format= ; done";
        assert_eq!(host(&fixture, &fixture.inside, work), "");
        let ended = running.wait().await;
        assert!(ended.is_success(), "{}", err(&ended));
        let count = "git fsck --no-dangling --no-progress; git tag | wc -l; git branch | wc -l; git log --format=%s | grep -c inside";
        assert_eq!(host(&fixture, &fixture.inside, count), "30\n32\n30\n");
        let again = inside(&sandbox, fixture.profile(), "git gc -q; git log -1 --format=%s").await;
        assert_eq!(compare(Prints("inside\n"), &again), None);
    }
}
