//! Races against the supervisor of names: many processes and threads, and paths that change while
//! their call waits (TOCTOU). No protected or denied name is ever made or changed, and nothing outside.

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::Path};

use haft_sandbox::Command;

use crate::{kit::*, twin::compiled};

const RACE: &str = include_str!("../data/race.c");

/// Names that exist before and stay as they are.
const KEPT: &[(&str, &str)] = &[
    (".git/config", "good"),
    (".git/hooks/pre-commit", "good"),
    ("sub/.git/config", "good"),
    ("d3/.git/config", "good"),
];

/// A workspace with protected files, directories to swap, and symlinks that lead out and in.
fn prepare(room: &Room) {
    let path = |name: &str| room.inside.join(name);
    for folder in [".git/hooks", "sub/.git", "d1", "d2", "d3/.git"] {
        fs::create_dir_all(path(folder)).unwrap();
    }
    for (name, text) in KEPT {
        put(&path(name), text);
    }
    put(&path(".git/HEAD"), "ref: refs/heads/main\n");
    symlink(".git", path("link")).unwrap();
    symlink("../outside", path("out")).unwrap();
}

/// Returns what must not be there: names that are protected or denied, wherever a move has put them.
fn escapes(inside: &Path) -> Vec<String> {
    let mut bad = Vec::new();
    for (path, what) in picture(inside) {
        let text = path.strip_prefix(inside).unwrap().to_str().unwrap().to_owned();
        let parts: Vec<_> = text.to_lowercase().split('/').map(str::to_owned).collect();
        let last = parts.last().unwrap().as_str();
        let is_in_git = parts.iter().rev().nth(1).is_some_and(|name| name == ".git");
        let is_good = what.ends_with(" good");
        let is_bad = match last {
            "haft.toml" | ".envrc" | ".claude" => true,
            "config" if is_in_git => !is_good,
            "hooks" if is_in_git => what != "folder",
            "pre-commit" => !is_good,
            ".git" => what != "folder",
            // Inside of a `.git` directory any directory may have one.
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
async fn races_never_make_or_change_a_protected_or_denied_name() {
    let is_long = std::env::var_os("HAFT_LONG_TESTS").is_some();
    // Calls of each thread, and how often everything is done again.
    let (calls, rounds): (u64, u64) = if is_long { (650, 10) } else { (250, 1) };
    for sandbox in sandboxes().await {
        let level = sandbox.tier().level;
        for round in 0..rounds {
            let room = Room::new();
            prepare(&room);
            if compiled(RACE, &room.inside).is_none() {
                return;
            }
            let outside = picture(&room.outside);
            let mut profile = room.profile();
            profile.denied.new = vec![format!("{}/secret/**", room.inside.display())];
            let script = format!("export WORKSPACE=$PWD; exec ./worker {round} {calls} 4 4");
            let ended = sandbox.run(Command::shell(script), profile).await.unwrap();
            let made: u64 = out(&ended).lines().map(|line| line.parse::<u64>().unwrap()).sum();
            assert_eq!(made, calls * 16, "{level}: {}", err(&ended));
            assert_eq!(picture(&room.outside), outside, "{level}: the outside changed");
            let bad = escapes(&room.inside);
            assert!(bad.is_empty(), "{level}, round {round}: {bad:?}");
            let now: BTreeMap<_, _> = KEPT
                .iter()
                .filter(|(name, _)| name.starts_with(".git"))
                .map(|(name, _)| (*name, get(&room.inside.join(name))))
                .collect();
            assert!(now.values().all(|text| text == "good"), "{level}: {now:?}");
        }
    }
}
