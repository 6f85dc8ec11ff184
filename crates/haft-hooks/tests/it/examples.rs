//! Runs the example and compares its whole output.

use std::process::Command;

#[path = "../../../haft/tests/it/built.rs"]
mod built;

#[test]
fn hooks_example_blocks_rewrites_and_fails_closed_or_open() {
    let ran =
        Command::new(built::binary("haft-hooks", "hooks")).output().expect("the example runs");
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
      model reads: hook_failed: a hook of the host failed, so the tool was not run
    date +%F
      operator: PreToolUse at haft.toml:20 FAILED OPEN
      model reads: (here `date +%F` would run)
    ");
}
