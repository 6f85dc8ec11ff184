//! Races against the supervisor: many processes and threads, and paths that change while their
//! syscall waits (TOCTOU). No protected or denied name is created or changed, and nothing outside.

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::Path};

use haft_sandbox::Command;

use crate::{kit::*, twin::compiled};

const RACE: &str = include_str!("../data/race.c");

/// Existing files that must not change.
const KEPT: &[(&str, &str)] = &[
    (".git/config", "good"),
    (".git/hooks/pre-commit", "good"),
    ("sub/.git/config", "good"),
    ("d3/.git/config", "good"),
];

/// Prepares a workspace with protected files, directories to swap, and symlinks to inside and
/// outside.
fn prepare(fixture: &Fixture) {
    let path = |name: &str| fixture.inside.join(name);
    for directory in [".git/hooks", "sub/.git", "d1", "d2", "d3/.git"] {
        fs::create_dir_all(path(directory)).unwrap();
    }
    for (name, text) in KEPT {
        put(&path(name), text);
    }
    put(&path(".git/HEAD"), "ref: refs/heads/main\n");
    symlink(".git", path("link")).unwrap();
    symlink("../outside", path("out")).unwrap();
}

/// Returns protected or denied names that were created, wherever a rename has moved them.
fn escapes(inside: &Path) -> Vec<String> {
    let mut bad = Vec::new();
    for (path, what) in snapshot(inside) {
        let text = path.strip_prefix(inside).unwrap().to_str().unwrap().to_owned();
        let parts: Vec<_> = text.to_lowercase().split('/').map(str::to_owned).collect();
        let last = parts.last().unwrap().as_str();
        let is_in_git = parts.iter().rev().nth(1).is_some_and(|name| name == ".git");
        let is_good = what.ends_with(" good");
        let is_bad = match last {
            "haft.toml" | ".envrc" | ".claude" => true,
            "config" if is_in_git => !is_good,
            "hooks" if is_in_git => what != "directory",
            "pre-commit" => !is_good,
            ".git" => what != "directory",
            // Below a `.git` directory it is allowed.
            "head" => !parts.iter().any(|name| name == ".git"),
            _ => parts.first().is_some_and(|name| name == "secret"),
        };
        let is_below_hooks = text.contains(".git/hooks/") && text != ".git/hooks/pre-commit";
        if is_bad || is_below_hooks {
            bad.push(format!("{text}: {what}"));
        }
    }
    bad
}

#[tokio::test]
async fn races_never_create_or_change_a_protected_or_denied_name() {
    let is_long = std::env::var_os("HAFT_LONG_TESTS").is_some();
    // Syscalls per thread, and rounds.
    let (calls, rounds): (u64, u64) = if is_long { (650, 10) } else { (150, 1) };
    for sandbox in sandboxes().await {
        let level = sandbox.tier().level;
        for round in 0..rounds {
            let fixture = Fixture::new();
            prepare(&fixture);
            if compiled(RACE, &fixture.inside).is_none() {
                return;
            }
            let outside = snapshot(&fixture.outside);
            let mut profile = fixture.profile();
            profile.denied.new = vec![format!("{}/secret/**", fixture.inside.display())];
            let script = format!("export WORKSPACE=$PWD; exec ./worker {round} {calls} 4 4");
            let ended = sandbox.run(Command::shell(script), profile).await.unwrap();
            let made: u64 = out(&ended).lines().map(|line| line.parse::<u64>().unwrap()).sum();
            assert_eq!(made, calls * 16, "{level}: {}", err(&ended));
            assert_eq!(snapshot(&fixture.outside), outside, "{level}: the outside changed");
            let bad = escapes(&fixture.inside);
            assert!(bad.is_empty(), "{level}, round {round}: {bad:?}");
            let now: BTreeMap<_, _> = KEPT
                .iter()
                .filter(|(name, _)| name.starts_with(".git"))
                .map(|(name, _)| (*name, get(&fixture.inside.join(name))))
                .collect();
            assert!(now.values().all(|text| text == "good"), "{level}: {now:?}");
        }
    }
}
