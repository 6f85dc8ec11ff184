//! Everything once more as an ordinary user, when the tests are run by root.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, chown},
        process::CommandExt as _,
    },
    process::Command,
};

use crate::kit::helper;

/// `nobody`, who owns nothing.
const NOBODY: u32 = 65_534;

#[test]
fn everything_holds_for_an_ordinary_user_too() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("not run by root: everything else was tested as an ordinary user already");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Both programs go where the other user can start them, whatever the build directory is like.
    let test = folder.path().join("it");
    fs::copy(std::env::current_exe().unwrap(), &test).unwrap();
    fs::copy(helper(), folder.path().join("haft-sandbox-helper")).unwrap();
    let own = folder.path().join("tmp");
    fs::create_dir(&own).unwrap();
    for path in [folder.path(), &own] {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    // What counts calls takes long, and does not depend on the user.
    let output = Command::new(&test)
        .args(["--skip", "ordinary::", "--skip", "paths::the_tree", "--skip", "growth::"])
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
