//! Runs every example and reads what it says, to the last line.
//!
//! `cargo test` builds the examples beside this binary. `cargo test --test it` alone does not, so a
//! missing one is built here, in the same profile and the same target directory.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Returns where cargo puts an example: `<target>/<profile>/examples`, next to our own `deps`.
fn binary(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a test has a path");
    let profile = own.ancestors().nth(2).expect("it stands in <target>/<profile>/deps");
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let example = profile.join("examples").join(file);
    if !example.exists() {
        build(name, profile);
    }
    example
}

fn build(name: &str, profile: &Path) {
    let word = match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let built = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--package", "haft", "--example", name, "--profile", word])
        .arg("--target-dir")
        .arg(profile.parent().expect("a profile stands in a target directory"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}

/// Runs an example that must succeed and keep stderr empty, and returns what it printed.
fn output(name: &str) -> String {
    let ran = Command::new(binary(name)).output().expect("the example runs");
    let talk = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && talk.is_empty(), "{name}: {}\n{talk}", ran.status);
    String::from_utf8(ran.stdout).expect("it prints text")
}

#[test]
fn first_tool() {
    insta::assert_snapshot!(output("first_tool"), @"");
}

#[test]
fn state() {
    insta::assert_snapshot!(output("state"), @"");
}

#[test]
fn own_loop() {
    insta::assert_snapshot!(output("own_loop"), @"");
}
