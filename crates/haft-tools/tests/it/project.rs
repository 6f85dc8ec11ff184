//! Helpers of the tests: the sandbox helper, and a repository with one commit.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command as Host,
};

use haft_sandbox::Helper;
use tempfile::TempDir;

/// The helper next to this program, if there is one: needed to run the tests as another user.
pub(crate) fn helper() -> Helper {
    let sibling = std::env::current_exe().unwrap().with_file_name("haft-tools-test-helper");
    let built = PathBuf::from(env!("CARGO_BIN_EXE_haft-tools-test-helper"));
    Helper::At(if sibling.is_file() { sibling } else { built })
}

/// A repository with one commit, on the branch `main`.
pub(crate) struct GitProject {
    pub(crate) root: PathBuf,
    _directory: TempDir,
}

impl GitProject {
    /// `None` without git.
    pub(crate) fn new() -> Option<Self> {
        if Host::new("git").arg("--version").output().is_err() {
            eprintln!("NOT TESTED: there is no git here");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap().join("repository");
        fs::create_dir_all(root.join("sub")).unwrap();
        let project = Self { root, _directory: directory };
        project.host(
            &project.root,
            "git init -q -b main; echo one > a.txt; git add a.txt; git commit -q -m first",
        );
        Some(project)
    }

    /// Runs a script on the host.
    pub(crate) fn host(&self, directory: &Path, script: &str) -> String {
        let identity =
            |who: &str| [(format!("GIT_{who}_NAME"), "x"), (format!("GIT_{who}_EMAIL"), "x@y")];
        let output = Host::new("bash")
            .args(["-e", "-c", script])
            .current_dir(directory)
            .env("HOME", "/nonexistent")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(identity("AUTHOR"))
            .envs(identity("COMMITTER"))
            .envs([
                ("GIT_CONFIG_COUNT", "1"),
                ("GIT_CONFIG_KEY_0", "safe.directory"),
                ("GIT_CONFIG_VALUE_0", "*"),
            ])
            .output()
            .unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
