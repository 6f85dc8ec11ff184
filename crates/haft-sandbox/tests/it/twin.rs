//! The supervisor compared with the kernel (differential test).
//!
//! A program makes random syscalls, once supervised and once not, in equal trees and as the same
//! user. Every errno, every mode and the resulting tree must be equal.

use std::{
    fs,
    path::{Path, PathBuf},
};

use haft_sandbox::{Command, Sandbox};

use crate::kit::*;

/// Compiles a program of `tests/data`. Prints a note and returns `None` if there is no compiler.
pub(crate) fn compiled(source: &str, directory: &Path) -> Option<PathBuf> {
    let program = directory.join("worker");
    let code = directory.join("worker.c");
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

/// The working directory of the program: deep, so that a path with `..` stays in the workspace.
const TREE: &str = "1/2/3/4/5/6/7/8/9/10/11/12";
const TWIN: &str = include_str!("../data/twin.c");

/// Runs the program in a new workspace.
async fn confined(
    sandbox: &Sandbox,
    program: &Path,
    is_supervised: bool,
    (seed, count): (u64, u32),
) -> String {
    let fixture = Fixture::new();
    fs::copy(program, fixture.inside.join("worker")).unwrap();
    fs::create_dir_all(fixture.inside.join(TREE)).unwrap();
    let mut profile = fixture.profile();
    if !is_supervised {
        profile.protected = Vec::new();
    }
    let script =
        format!("p=$PWD; cd {TREE}; timeout 60 $p/worker {seed} {count} >$p/printed 2>&1; echo $?");
    let ended = sandbox.run(Command::shell(script), profile).await.unwrap();
    assert_eq!(out(&ended), "0\n", "{}", err(&ended));
    let printed = fs::read(fixture.inside.join("printed")).unwrap();
    String::from_utf8_lossy(&printed).into_owned()
}

/// Returns the first difference of two runs. Later ones may follow from it.
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
async fn random_syscalls_give_the_same_results_with_and_without_supervisor() {
    let is_long = std::env::var_os("HAFT_LONG_TESTS").is_some();
    let (seeds, count) = if is_long { (60, 3_000) } else { (5, 800) };
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(TWIN, directory.path()) else { return };
    let mut differences = Vec::new();
    for sandbox in sandboxes().await {
        let level = sandbox.tier().level;
        for seed in 1..=seeds {
            let with = confined(&sandbox, &program, true, (seed, count)).await;
            let without = confined(&sandbox, &program, false, (seed, count)).await;
            let what = format!("{level}, compared with an unsupervised run");
            differences.extend(difference(&what, seed, &with, &without));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
