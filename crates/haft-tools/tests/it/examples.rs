//! Runs the example and reads what it says, to the last line.

use std::process::Command;

#[path = "../../../haft/tests/it/built.rs"]
mod built;

/// What it says of files, wherever it runs.
const FILES: &str = "";

#[test]
fn hands_read_edit_search_and_run_and_leave_the_rest_of_the_machine_alone() {
    let ran =
        Command::new(built::binary("haft-tools", "hands")).output().expect("the example runs");
    let talk = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && talk.is_empty(), "{}\n{talk}", ran.status);
    insta::assert_snapshot!(String::from_utf8_lossy(&ran.stdout), @"");
}
