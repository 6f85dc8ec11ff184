//! git on the host, for tests: without the configuration of the person who runs them. The tests of
//! `haft-tools` and `haft-cli` compile this file too.

use std::{path::Path, process::Command};

/// Runs git. Returns `None` if it is not installed.
pub(crate) fn host_git(directory: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "safe.directory=*"])
        .args(args)
        .current_dir(directory)
        .env("HOME", directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output();
    let Ok(output) = output else {
        eprintln!("NOT TESTED: there is no git here");
        return None;
    };
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Makes a directory a repository on the branch `main`, with one commit of all its files. Returns
/// `None` if git is not installed.
pub(crate) fn commit_all(directory: &Path) -> Option<()> {
    host_git(directory, &["init", "-q", "-b", "main"])?;
    host_git(directory, &["add", "-A"])?;
    host_git(directory, &["commit", "-q", "-m", "first"]).map(drop)
}
