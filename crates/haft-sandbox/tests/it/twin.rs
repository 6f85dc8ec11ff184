//! The supervisor of names beside the kernel: the same calls with the same results.
//!
//! A program makes random calls once under supervision and once without, in equal trees, in the same
//! sandbox and so as the same user. Every error number, every mode and the tree at the end must be equal.

use std::{
    fs,
    path::{Path, PathBuf},
};

use haft_sandbox::{Command, Sandbox};

use crate::kit::*;

/// Compiles a program of `tests/data`. `None`, and a word about it, where there is no compiler.
pub(crate) fn compiled(source: &str, folder: &Path) -> Option<PathBuf> {
    let program = folder.join("worker");
    let code = folder.join("worker.c");
    put(&code, source);
    let made = std::process::Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .args([&program, &code])
        .output();
    match made {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            fs::remove_file(code).unwrap();
            Some(program)
        }
        Err(e) => {
            eprintln!("NOT TESTED: no C compiler is here: {e}");
            None
        }
    }
}

/// Where the calls are made: deep, so that a path with `..` in it stays in the workspace.
const TREE: &str = "1/2/3/4/5/6/7/8/9/10/11/12";
const TWIN: &str = include_str!("../data/twin.c");

/// Runs the program in a new directory `tree` of a room.
async fn confined(
    sandbox: &Sandbox,
    program: &Path,
    is_supervised: bool,
    (seed, count): (u64, u32),
) -> String {
    let room = Room::new();
    fs::copy(program, room.inside.join("worker")).unwrap();
    fs::create_dir_all(room.inside.join(TREE)).unwrap();
    let mut profile = room.profile();
    if !is_supervised {
        profile.protected = Vec::new();
    }
    let script =
        format!("p=$PWD; cd {TREE}; timeout 60 $p/worker {seed} {count} >$p/printed 2>&1; echo $?");
    let ended = sandbox.run(Command::shell(script), profile).await.unwrap();
    assert_eq!(out(&ended), "0\n", "{}", err(&ended));
    let printed = fs::read(room.inside.join("printed")).unwrap();
    String::from_utf8_lossy(&printed).into_owned()
}

/// Returns where two runs part. What comes after may follow from it.
fn difference(what: &str, seed: u64, with: &str, without: &str) -> Option<String> {
    let mut lines = with.lines().zip(without.lines());
    let parted = lines.find(|(with, without)| with != without);
    match parted {
        Some((with, without)) => Some(format!("{what}, seed {seed}:\n  {with}\n  {without}")),
        None if with.len() != without.len() => Some(format!("{what}, seed {seed}: the length")),
        None => None,
    }
}

#[tokio::test]
async fn random_calls_give_the_same_under_supervision_as_without() {
    let is_long = std::env::var_os("HAFT_LONG_TESTS").is_some();
    let (seeds, count) = if is_long { (60, 3_000) } else { (5, 800) };
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(TWIN, folder.path()) else { return };
    let mut differences = Vec::new();
    for sandbox in sandboxes().await {
        let level = sandbox.tier().level;
        for seed in 1..=seeds {
            let with = confined(&sandbox, &program, true, (seed, count)).await;
            let without = confined(&sandbox, &program, false, (seed, count)).await;
            let what = format!("{level}, beside an unsupervised one");
            differences.extend(difference(&what, seed, &with, &without));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
