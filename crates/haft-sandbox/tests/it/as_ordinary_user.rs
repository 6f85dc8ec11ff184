//! Runs all tests again as an ordinary user, if they are run by root. It takes longest, so its name
//! is the first in the order in which the test program starts them.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, chown},
        process::CommandExt as _,
    },
    process::Command,
};

use crate::kit::helper;

/// The user `nobody`, which owns no files.
const NOBODY: u32 = 65_534;

#[test]
fn all_tests_pass_as_an_ordinary_user() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("not run by root: everything else was tested as an ordinary user already");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // Both programs are copied to a directory where the other user can execute them.
    let test = directory.path().join("it");
    fs::copy(std::env::current_exe().unwrap(), &test).unwrap();
    fs::copy(helper(), directory.path().join("haft-sandbox-helper")).unwrap();
    let own = directory.path().join("tmp");
    fs::create_dir(&own).unwrap();
    for path in [directory.path(), &own] {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    // These tests take long and do not depend on the user.
    let output = Command::new(&test)
        .args([
            "--skip",
            "as_ordinary_user::",
            "--skip",
            "paths::ten_thousand_hostile_calls",
            "--skip",
            "growth::",
        ])
        .args(["--test-threads", "2"])
        .current_dir(&own)
        .env("TMPDIR", &own)
        .uid(NOBODY)
        .gid(NOBODY)
        .output();
    let output = match output {
        Ok(output) => output,
        Err(e) => {
            eprintln!("NOT TESTED AS AN ORDINARY USER: {e}");
            return;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("test result: ok"), "{text}");
}
