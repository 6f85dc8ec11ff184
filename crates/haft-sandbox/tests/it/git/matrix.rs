//! Runs tables of git commands in each tier: checks their output, and that protected names are
//! unchanged.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command as Host,
};

use haft_core::protected_names::{ProtectedNames, Protection};
use haft_sandbox::{Command, ProcessResult, Profile, Sandbox};

use crate::kit::*;

/// The git configuration in the private home directory.
pub(super) const CONFIG: &str = "[user]\n\tname = A Person\n\temail = a@example.com\n\
                                 [safe]\n\tdirectory = *\n[protocol \"file\"]\n\tallow = always\n\
                                 [advice]\n\tdetachedHead = false\n";

/// One line of the table.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// A script for the host, run in the repository before.
    pub(super) setup: &'static str,
    /// A script for the sandbox.
    pub(super) script: &'static str,
    /// Protected names that it may change.
    pub(super) exceptions: &'static [&'static str],
    /// The expected result, in every tier.
    pub(super) expected: ExpectedResult,
}

/// The expected result of a script.
#[derive(Clone, Copy)]
pub(super) enum ExpectedResult {
    /// Exit code 0 and exactly this standard output.
    Prints(&'static str),
    /// Another exit code, and standard error contains this. No protected name has changed.
    Fails(&'static str),
}
pub(super) use ExpectedResult::{Fails, Prints};

/// A row that needs no exception.
pub(super) const fn row(
    name: &'static str,
    setup: &'static str,
    script: &'static str,
    expected: ExpectedResult,
) -> Row {
    Row { name, setup, script, exceptions: &[], expected }
}

impl Row {
    pub(super) const fn with(mut self, exceptions: &'static [&'static str]) -> Self {
        self.exceptions = exceptions;
        self
    }
}

/// The initial repository: two commits, and a branch at the first.
const INITIAL_REPOSITORY: &str = "git init -q -b main .
    echo one > notes.txt; echo '*.log' > .gitignore; git add .; git commit -q -m first
    echo two >> notes.txt; git commit -q -a -m second; git branch side HEAD~1";

/// Runs a script on the host, with the same git configuration as inside.
pub(super) fn host(fixture: &Fixture, directory: &Path, script: &str) -> String {
    if script.is_empty() {
        return String::new();
    }
    let home = fixture.outside.join("home");
    if !home.is_dir() {
        fs::create_dir(&home).unwrap();
        put(&home.join(".gitconfig"), CONFIG);
    }
    let output = Host::new("bash")
        .args(["--noprofile", "--norc", "-e", "-c", script])
        .current_dir(directory)
        .env("HOME", home)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "on the host: {script}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(super) fn has_git() -> bool {
    let is_there = Host::new("git").arg("--version").output().is_ok();
    if !is_there {
        eprintln!("NOT TESTED: there is no git here");
    }
    is_there
}

/// Creates a workspace with a repository.
pub(super) fn repository() -> Fixture {
    let fixture = Fixture::new();
    fs::remove_file(fixture.inside.join("notes.txt")).unwrap();
    fs::remove_dir(fixture.inside.join("sub")).unwrap();
    host(&fixture, &fixture.inside, INITIAL_REPOSITORY);
    fixture
}

/// Copies a workspace, which is faster than creating its repository.
fn copy(first: &Fixture) -> Fixture {
    let fixture = Fixture::new();
    fs::remove_dir_all(&fixture.inside).unwrap();
    let script = format!("cp -a '{}' '{}'", first.inside.display(), fixture.inside.display());
    host(&fixture, &fixture.outside, &script);
    fixture
}

/// Returns the protected files below a directory, except those that a row may change.
pub(super) fn protected(directory: &Path, exceptions: &[&str]) -> BTreeMap<PathBuf, String> {
    let names = ProtectedNames::new(ProtectedNames::standard().names().to_vec(), exceptions);
    let all = snapshot(directory).into_iter();
    all.filter(|(path, _)| {
        let below = path.strip_prefix(directory).unwrap();
        names.protection(below) == Protection::Protected && !is_of_module(below)
    })
    .collect()
}

/// Returns whether a commit in a submodule may change a path: not its configuration and hooks.
fn is_of_module(below: &Path) -> bool {
    const FIXED: &[&str] = &["config", "config.worktree", "hooks", "commondir", "modules"];
    let mut parts = below.iter().map(|part| part.to_string_lossy());
    parts.next().as_deref() == Some(".git")
        && parts.next().as_deref() == Some("modules")
        && !parts.take_while(|part| part != "refs").any(|part| FIXED.contains(&&*part))
}

pub(super) async fn inside(sandbox: &Sandbox, profile: Profile, script: &str) -> ProcessResult {
    let command = Command::shell(format!("set -e\n{script}")).home_file(".gitconfig", CONFIG);
    let time = std::time::Duration::from_secs(60);
    sandbox.run(command.deadline(time), profile).await.unwrap()
}

/// Compares the result of a command with the table. Returns the difference.
pub(super) fn compare(expected: ExpectedResult, ended: &ProcessResult) -> Option<String> {
    let (text, error) = (out(ended), err(ended));
    let is_right = match expected {
        Prints(wanted) => ended.is_success() && text == wanted,
        Fails(wanted) => !ended.is_success() && error.contains(wanted),
    };
    let shown = || format!("{:?}\nstdout: {text}\nstderr: {error}\n", ended.exit);
    (!is_right).then(shown)
}

/// Runs each row in each tier, and reports all failures together.
pub(super) async fn check(rows: &[Row]) {
    if !has_git() {
        return;
    }
    let first = repository();
    let mut wrong = Vec::new();
    for sandbox in sandboxes().await {
        let level = sandbox.tier().level;
        for row in rows {
            let fixture = copy(&first);
            host(&fixture, &fixture.inside, row.setup);
            let before = protected(&fixture.inside, row.exceptions);
            let all = protected(&fixture.inside, &[]);
            assert!(all.keys().any(|path| path.ends_with(".git/config")), "{}", row.name);
            let exceptions = row.exceptions.iter().map(|name| (*name).to_owned()).collect();
            let profile = Profile { exceptions, ..fixture.profile() };
            let ended = inside(&sandbox, profile, row.script).await;
            let after = protected(&fixture.inside, row.exceptions);
            let mut report = |what: String| wrong.push(format!("{} ({level}): {what}", row.name));
            if let Some(what) = compare(row.expected, &ended) {
                report(format!("{what}refused: {:?}", ended.refused));
            }
            if before != after {
                report(format!("protected names changed: {before:?} became {after:?}"));
            }
            let fsck =
                host(&fixture, &fixture.inside, "git fsck --no-dangling --no-progress 2>&1 || :");
            if !fsck.is_empty() {
                report(format!("fsck: {fsck}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
