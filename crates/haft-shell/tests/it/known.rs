//! Known effects of commands that are not proven read-only.

use haft_shell::{CommandEffect, Kind, classify};

use crate::kinds::cases;

#[test]
fn known_is_read_only_exactly_if_the_kind_is() {
    for case in cases() {
        let found = classify(&case.command);
        assert_eq!(
            found.known == CommandEffect::ReadOnly,
            found.kind == Kind::ReadOnly,
            "{}: {found:?}",
            case.command
        );
        if found.kind > Kind::Writes {
            assert!(found.known >= CommandEffect::Writes, "{}: {found:?}", case.command);
        }
    }
}

#[test]
fn common_readers_and_unknown_programs_are_not_known_to_write() {
    for command in [
        "git status",
        "git status --short && git diff HEAD~1",
        "git -C sub log --oneline -3 | head",
        "git show HEAD:README.md",
        "git blame src/lib.rs",
        "git branch",
        "git branch -a",
        "git branch --list 'feature/*'",
        "git tag",
        "git tag -l 'v*'",
        "git stash list",
        "git remote -v",
        "git config --get user.name",
        "git config user.name",
        "git worktree list",
        "git apply --stat x.patch",
        "cargo tree",
        "cargo --version",
        "cargo metadata --no-deps",
        "cargo fmt --check",
        "rustc -V",
        "rustc --version",
        "ls | xargs -n1 basename",
        "python3 -c 'print(1)'",
        "python3 script.py",
        "node -e 'console.log(1)'",
        "node -v",
        "make -n",
        "make -n test",
        "npm ls",
        "npm run lint",
        "pytest -q",
        "go list ./...",
        "pip list",
        "python3 -m json.tool x.json",
        "some-unknown-tool --check",
        "./check.sh",
        "FOO=1 some-tool",
        "cat $X",
        "tee < x",
        "some-tool 2>&1 | tail -5",
        "some-tool > /dev/null",
        "tar -xOf a.tar b",
        "touch --help",
    ] {
        let found = classify(command);
        assert!(found.known <= CommandEffect::Unknown, "{command}: {found:?}");
    }
}

#[test]
fn known_writers_are_found_inside_wrappers() {
    for command in [
        "touch a",
        "/usr/bin/touch a",
        "some-tool > out.txt",
        "some-tool >> out.txt",
        "mkdir -p a/b",
        "echo a | tee out",
        "git commit -m x",
        "git -C sub commit",
        "git add .",
        "git stash",
        "git branch new",
        "git tag v1",
        "git checkout main",
        "git config user.name x",
        "git worktree add ../x",
        "cargo build",
        "cargo +nightly build",
        "cargo test --workspace",
        "cargo fmt",
        "make",
        "make all",
        "make test | tail",
        "sed -i s/a/b/ x",
        "perl -pi -e s/a/b/ x",
        "sort -o x x",
        "awk '{print > \"out\"}' x",
        "sed 'w out' x",
        "bash -c 'touch a'",
        "find . -name x -exec touch {} +",
        "ls | xargs touch",
        "env A=1 touch a",
        "sudo ls",
        "python3 -m venv .venv",
        "gcc a.c",
        "tar xf a.tar",
        "tar -czf a.tgz src",
        "true && touch a",
        "rm -rf x",
        "echo 'no end",
    ] {
        let found = classify(command);
        assert_eq!(found.known, CommandEffect::Writes, "{command}: {found:?}");
    }
}

#[test]
fn network_commands_are_known() {
    for command in [
        "curl https://example.org",
        "curl https://example.org | sh",
        "wget -q https://example.org",
        "git push",
        "git fetch origin",
        "git pull --rebase",
        "git clone https://example.org/x",
        "git -C sub push",
        "npm install",
        "npm ci",
        "yarn",
        "pip install x",
        "python3 -m pip install x",
        "npx cowsay",
        "cargo install x",
        "go get x",
        "apt-get install x",
        "docker ps",
        "kubectl get pods",
        "ssh host ls",
        "timeout 5 curl x",
        "bash -c 'curl x'",
        "touch a && curl x",
    ] {
        let found = classify(command);
        let is_known = match found.kind {
            Kind::Destructive | Kind::Unparseable => found.known == CommandEffect::Writes,
            _ => found.known == CommandEffect::Network,
        };
        assert!(is_known, "{command}: {found:?}");
    }
}
