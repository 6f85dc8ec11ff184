use super::*;

/// The patterns for a command in a workspace with a repository.
fn patterns(text: &str) -> Vec<String> {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    for directory in [".git/objects", "sub/deep", "other/.git", "plain"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    let workspace = Workspace::builder().root(&root, Access::Write).build().unwrap();
    let start = workspace.resolve("sub").unwrap();
    let shown = |e: Exception| {
        assert!(e.file.starts_with(&root));
        e.pattern
    };
    needed(text, &start, &workspace).into_iter().map(shown).collect()
}

#[test]
fn each_git_command_unprotects_only_the_files_it_changes() {
    let config = ["./.git/config"];
    let rebase = ["./.git/rebase-merge", "./.git/rebase-apply"];
    for text in [
        "git config user.name Ada",
        "git remote add origin https://host.example/a.git",
        "git push -u origin main",
        "git branch --set-upstream-to=origin/main",
        "git checkout --track origin/x",
        "git --no-pager config a.b c",
        "git config --unset a.b",
        "git config set a.b c",
        "git config --get a.b; git config a.b c",
        "git status && git config a.b c | cat",
        "git add -A && git commit -m x && git push --set-upstream origin x",
    ] {
        assert_eq!(patterns(text), config, "{text}");
    }
    for text in ["git rebase main", "git rebase --continue", "git pull --rebase"] {
        assert_eq!(patterns(text), rebase, "{text}");
    }
    assert_eq!(patterns("git -C ../other config a.b c"), ["./other/.git/config"]);
    assert_eq!(patterns("git init"), ["./sub/.git"]);
    assert_eq!(patterns("git init -b main deep"), ["./sub/deep/.git"]);
    assert_eq!(patterns("git clone --depth 1 https://h.example/x/y.git"), ["./sub/y/.git"]);
    assert_eq!(patterns("git clone git@h.example:x/y.git ../plain/z"), ["./plain/z/.git"]);
    assert_eq!(
        patterns("git submodule add https://h.example/m.git lib/m"),
        ["./.git/modules", "./.git/config", "./sub/lib/m/.git"]
    );
    assert_eq!(patterns("git submodule update"), ["./.git/modules", "./.git/config"]);
    assert_eq!(
        patterns("git worktree add -b topic ../wt/topic main"),
        ["./.git/worktrees/*/commondir", "./.git/worktrees/*/gitdir", "./wt/topic/.git"]
    );
    assert_eq!(
        patterns("git worktree prune"),
        ["./.git/worktrees/*/commondir", "./.git/worktrees/*/gitdir"]
    );
    assert!(patterns("git worktree add ../.git/worktrees/x main").is_empty());
    assert_eq!(patterns("git am fix.patch"), ["./.git/rebase-apply"]);
    assert_eq!(
        patterns("git sparse-checkout set src"),
        ["./.git/config", "./.git/config.worktree"]
    );
    assert_eq!(patterns("git lfs install --local").len(), 5);
    assert!(patterns("git sparse-checkout list").is_empty());
    assert!(patterns("git lfs track '*.bin'").is_empty());
}

/// The patterns for a command in a workspace without a repository at its top.
fn patterns_without_repository(text: &str) -> Vec<String> {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("with/.git")).unwrap();
    let workspace = Workspace::builder().root(&root, Access::Write).build().unwrap();
    let start = workspace.resolve(".").unwrap();
    needed(text, &start, &workspace).into_iter().map(|e| e.pattern).collect()
}

#[test]
fn cargo_new_needs_the_exception_of_its_repository() {
    for text in [
        "cargo new app",
        "cargo new --lib --edition 2024 app",
        "cargo new --name=other app -q",
        "cargo new --vcs git app",
        "cargo init app",
        "git status && cargo new app",
    ] {
        assert_eq!(patterns_without_repository(text), ["./app/.git"], "{text}");
    }
    assert_eq!(patterns_without_repository("cargo init"), ["./.git"]);
    assert_eq!(patterns_without_repository("cargo new --vcs git with/app"), ["./with/app/.git"]);
    for text in [
        "cargo new --vcs none app",
        "cargo new --vcs=none app",
        "cargo new with/app",
        "cargo new",
        "cargo new app other",
        "cargo new --config x app",
        "cargo +nightly new app",
        "cargo new app && make",
        "cargo new $(echo app)",
        "cargo build",
    ] {
        assert!(patterns_without_repository(text).is_empty(), "{text}");
    }
}

#[test]
fn commands_that_may_run_or_write_more_get_no_exception() {
    for text in [
        "git status",
        "git commit -m x",
        "git config --get user.name",
        "git config user.name",
        "git config list",
        "git config -l",
        "git config get user.name",
        "git config --edit",
        "git remote -v",
        "git diff --output=.git/config; git config a.b c",
        "git log --outp .git/config; git config a.b c",
        "git config --global a.b c",
        "git -c core.hooksPath=x config a.b c",
        "git config a.b c; python3 x.py",
        "git config a.b c; make",
        "echo x > .git/config; git config a.b c",
        "GIT_EDITOR=./x git rebase main",
        "git rebase -x ./x main",
        "git rebase --exec=./x main",
        "git rebase --exe ./x main",
        "git rebase -qx ./x main",
        "git rebase -x./x main",
        "git rebase -i main",
        "git rebase --strategy=x main",
        "git merge -s x y && git config a.b c",
        "git push --rec=./x origin main && git config a.b c",
        "git config \"$A\" b",
        "cd ../other && git config a.b c",
        "git submodule foreach ./x; git config a.b c",
        "git bisect run ./x; git config a.b c",
        "git init --template=./t deep",
        "git init --bare deep",
        "git init ../other",
        "git init ..",
        "git clone -c core.x=y https://h.example/a.git",
        "git clone --upload-pack=./x https://h.example/a.git",
        "git clone https://h.example/..",
        "git -C /etc config a.b c",
        "bash -c 'git config a.b c'",
        "sudo git config a.b c",
    ] {
        assert_eq!(patterns(text), [""; 0], "{text}");
    }
}

#[test]
fn a_worktree_uses_the_configuration_of_its_repository() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join(".git/worktrees/t")).unwrap();
    std::fs::create_dir_all(root.join("t/src")).unwrap();
    let git_file = root.join("t/.git");
    let write = |text: String| {
        use std::io::Write as _;
        std::fs::File::create(&git_file).unwrap().write_all(text.as_bytes()).unwrap();
    };
    let workspace = Workspace::builder().root(&root, Access::Write).build().unwrap();
    let start = workspace.resolve("t/src").unwrap();
    write(format!("gitdir: {}\n", root.join(".git/worktrees/t").display()));
    let found = needed("git config a.b c", &start, &workspace);
    assert_eq!(found[0].pattern, "./.git/config");
    write("gitdir: /elsewhere/.git/worktrees/t\n".to_owned());
    assert_eq!(needed("git config a.b c", &start, &workspace), []);
}
