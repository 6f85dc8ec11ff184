//! The file tools: what they read, change and refuse, through a real runtime and on a real disk.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod reading;
mod changing;
mod searching;
mod authorization;
mod protected;

use std::{
    fs,
    path::{Path, PathBuf},
};

use haft::{
    FailureCode, Runtime, ToolCall, ToolRegistry, ToolResult, policy::AllowAll, serde_json::Value,
};
use haft_sandbox::{Access, Workspace};
use haft_tools::BuiltinTools;
use tempfile::TempDir;

/// A workspace, a directory outside of it, and a runtime that allows everything.
pub(crate) struct TestWorkspace {
    _home: TempDir,
    pub(crate) inside: PathBuf,
    pub(crate) outside: PathBuf,
    pub(crate) runtime: Runtime,
}

impl TestWorkspace {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let base = home.path().canonicalize().unwrap();
        let (inside, outside) = (base.join("inside"), base.join("outside"));
        fs::create_dir(&inside).unwrap();
        fs::create_dir(&outside).unwrap();
        put(&outside.join("secret.txt"), "forbidden to read this\n");
        let workspace = Workspace::builder().root(&inside, Access::Write).build().unwrap();
        let registry = ToolRegistry::builder().add(BuiltinTools::new(workspace)).build().unwrap();
        let runtime = Runtime::builder().registry(registry).policy(AllowAll).build().unwrap();
        Self { _home: home, inside, outside, runtime }
    }

    pub(crate) fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        put(&self.inside.join(path), text);
    }

    pub(crate) fn get(&self, path: &str) -> String {
        String::from_utf8(fs::read(self.inside.join(path)).unwrap()).unwrap()
    }

    pub(crate) fn link(&self, target: impl AsRef<Path>, path: &str) {
        std::os::unix::fs::symlink(target, self.inside.join(path)).unwrap();
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        self.all(vec![ToolCall::new("c", tool, arguments)]).await.pop().unwrap()
    }

    pub(crate) async fn all(&self, calls: Vec<ToolCall>) -> Vec<ToolResult> {
        let run = self.runtime.run_builder().working_directory(&self.inside).start();
        run.turn().await.unwrap().run(calls).await
    }

    /// Returns the text of a call that succeeds.
    pub(crate) async fn call_ok(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert!(!result.is_error(), "{}", result.text());
        result.text().into_owned()
    }

    /// Returns why a call fails.
    pub(crate) async fn call_err(&self, tool: &str, arguments: Value) -> (FailureCode, String) {
        let result = self.call(tool, arguments).await;
        let failure = result.failure().unwrap_or_else(|| panic!("{}", result.text()));
        let next = failure.next().unwrap_or_default();
        (failure.code(), format!("{} | {next}", failure.message()))
    }

    /// Every path below the outside directory, with its contents.
    pub(crate) fn outside_snapshot(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.outside).unwrap() {
            let path = entry.unwrap().path();
            all.push((path.clone(), fs::read(&path).unwrap()));
        }
        all.sort();
        all
    }
}

fn put(path: &Path, text: impl AsRef<[u8]>) {
    use std::io::Write as _;
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::File::create(path).unwrap().write_all(text.as_ref()).unwrap();
}
