//! Helpers of the tests: a workspace with a directory next to it, and sandboxes of every level that
//! this machine supports.

use std::{
    fs,
    path::{Path, PathBuf},
};

use haft_sandbox::{Access, Command, Helper, Level, ProcessResult, Profile, Sandbox, Workspace};
use tempfile::TempDir;

pub(crate) use crate::host_git::{commit_all, host_git};

/// Returns the helper: the one next to this program if the test was copied for another user,
/// otherwise the one that cargo built.
pub(crate) fn helper() -> PathBuf {
    let helper = std::env::current_exe().unwrap().with_file_name("haft-sandbox-helper");
    if helper.is_file() { helper } else { env!("CARGO_BIN_EXE_haft-sandbox-helper").into() }
}

/// Returns a sandbox of every level. Prints the missing ones; at least one must exist.
pub(crate) async fn sandboxes() -> Vec<Sandbox> {
    let mut all = Vec::new();
    for level in [Level::Namespaces, Level::Landlock] {
        match Sandbox::at(Helper::At(helper()), level).await {
            Ok(sandbox) => all.push(sandbox),
            Err(error) => eprintln!("NOT TESTED: level {level} is missing here: {error}"),
        }
    }
    assert!(!all.is_empty(), "this machine has no sandbox at all");
    all
}

/// A workspace, and a directory outside of it that no command may change.
pub(crate) struct Fixture {
    pub(crate) inside: PathBuf,
    pub(crate) outside: PathBuf,
    _directory: TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let (inside, outside) = (base.join("inside"), base.join("outside"));
        fs::create_dir(&inside).unwrap();
        fs::create_dir(&outside).unwrap();
        put(&inside.join("notes.txt"), "inside");
        put(&outside.join("secret.txt"), "outside");
        fs::create_dir(inside.join("sub")).unwrap();
        Self { inside, outside, _directory: directory }
    }

    pub(crate) fn workspace(&self) -> Workspace {
        Workspace::builder().root(&self.inside, Access::Write).build().unwrap()
    }

    /// Returns a profile that may write in the workspace.
    pub(crate) fn profile(&self) -> Profile {
        use haft_core::{Capabilities, Capability};
        Profile::of(Capabilities::from([Capability::Filesystem]), &self.workspace())
    }
}

pub(crate) fn put(path: &Path, text: &str) {
    use std::io::Write as _;
    fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

pub(crate) fn get(path: &Path) -> String {
    use std::io::Read as _;
    let mut text = String::new();
    fs::File::open(path).unwrap().read_to_string(&mut text).unwrap();
    text
}

/// Runs a script to its end.
pub(crate) async fn sh(
    sandbox: &Sandbox,
    profile: Profile,
    script: impl Into<String>,
) -> ProcessResult {
    sandbox.run(Command::shell(script), profile).await.unwrap()
}

pub(crate) fn out(ended: &ProcessResult) -> String {
    String::from_utf8_lossy(ended.stdout.bytes()).into_owned()
}

pub(crate) fn err(ended: &ProcessResult) -> String {
    String::from_utf8_lossy(ended.stderr.bytes()).into_owned()
}

/// Creates a repository with one commit of all files. Returns `None` if git is not installed.
pub(crate) fn repository(fixture: &Fixture) -> Option<()> {
    commit_all(&fixture.inside)
}

/// Returns a text that no other process has in its command line.
pub(crate) fn marker() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    // The marker is passed as fraction of a second to `sleep`.
    format!("{}", RandomState::new().hash_one(0) | 1 << 63)
}

/// Counts the processes with the marker in their command line.
pub(crate) fn survivors(marker: &str) -> usize {
    let is_number =
        |entry: &fs::DirEntry| entry.file_name().to_string_lossy().parse::<i32>().is_ok();
    let entries = fs::read_dir("/proc").unwrap().flatten().filter(is_number);
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(marker)).count()
}

/// Waits up to ten seconds until there are this many survivors. Returns their number.
pub(crate) async fn wait_for_survivors(marker: &str, wanted: usize) -> usize {
    // One scan of /proc can miss a process that is forked meanwhile, so several must agree.
    let mut equal = 0;
    for _ in 0..400 {
        equal = if survivors(marker) == wanted { equal + 1 } else { 0 };
        if equal == 4 {
            return wanted;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    survivors(marker)
}

/// Returns the paths, kinds and contents of everything below a directory.
pub(crate) fn snapshot(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut all = Vec::new();
    let mut todo = vec![directory.to_path_buf()];
    while let Some(here) = todo.pop() {
        for entry in fs::read_dir(&here).unwrap().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let what = if kind.is_dir() {
                todo.push(path.clone());
                "directory".to_owned()
            } else if kind.is_symlink() {
                format!("link to {}", fs::read_link(&path).unwrap().display())
            } else if kind.is_file() {
                use std::os::unix::fs::MetadataExt as _;
                let meta = entry.metadata().unwrap();
                format!(
                    "{:o} {} {}",
                    meta.mode(),
                    meta.nlink(),
                    String::from_utf8_lossy(&fs::read(&path).unwrap())
                )
            } else {
                "special".to_owned()
            };
            all.push((path, what));
        }
    }
    all.sort();
    all
}
