//! Runs the example and reads what it says, to the last line.
//!
//! `cargo test` builds it beside this binary; where only this binary was built, it is built here.

use std::{path::PathBuf, process::Command};

fn binary(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a test has a path");
    let profile = own.ancestors().nth(2).expect("it stands in <target>/<profile>/deps");
    let example = profile.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if !example.exists() {
        let word = match profile.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(other) => other,
        };
        let built = Command::new(env!("CARGO"))
            .args(["build", "--locked", "--package", "haft-hooks", "--example", name])
            .args(["--profile", word, "--target-dir"])
            .arg(profile.parent().expect("a profile stands in a target directory"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("cargo runs");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    }
    example
}

#[test]
fn hooks_block_rewrite_and_fail_closed_or_loudly_open() {
    let ran = Command::new(binary("hooks")).output().expect("the example runs");
    let talk = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && talk.is_empty(), "{}\n{talk}", ran.status);
    insta::assert_snapshot!(String::from_utf8_lossy(&ran.stdout), @r"
    ls
      model reads: (here `ls` would run)
    rm -r build
      model reads: blocked_by_hook: nothing is deleted here
    git push origin main
      model reads: (here `git push --dry-run` would run)
    make all
      model reads: hook_failed: a check of the host could not be made, so nothing was run
    date +%F
      operator: PreToolUse at haft.toml:20 FAILED OPEN
      model reads: (here `date +%F` would run)
    ");
}
