//! A workspace with something beside it, and sandboxes of every level that this machine has.

use std::{
    fs,
    path::{Path, PathBuf},
};

use haft_sandbox::{Access, Command, Ended, Helper, Level, Profile, Sandbox, Workspace};
use tempfile::TempDir;

/// The helper beside this program, where there is one: whoever runs it as another user has put it
/// there.
pub(crate) fn helper() -> PathBuf {
    let beside = std::env::current_exe().unwrap().with_file_name("haft-sandbox-helper");
    if beside.is_file() { beside } else { env!("CARGO_BIN_EXE_haft-sandbox-helper").into() }
}

/// Makes sandboxes of every level. What a machine lacks is said loudly, and at least one must be there.
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

/// A folder to work in, and one beside it that nobody may touch.
pub(crate) struct Room {
    pub(crate) inside: PathBuf,
    pub(crate) outside: PathBuf,
    _folder: TempDir,
}

impl Room {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (inside, outside) = (base.join("inside"), base.join("outside"));
        fs::create_dir(&inside).unwrap();
        fs::create_dir(&outside).unwrap();
        put(&inside.join("notes.txt"), "inside");
        put(&outside.join("secret.txt"), "outside");
        fs::create_dir(inside.join("sub")).unwrap();
        Self { inside, outside, _folder: folder }
    }

    pub(crate) fn workspace(&self) -> Workspace {
        Workspace::builder().root(&self.inside, Access::Write).build().unwrap()
    }

    /// A profile that may write in the workspace.
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
pub(crate) async fn sh(sandbox: &Sandbox, profile: Profile, script: impl Into<String>) -> Ended {
    sandbox.run(Command::shell(script), profile).await.unwrap()
}

pub(crate) fn out(ended: &Ended) -> String {
    String::from_utf8_lossy(ended.stdout.bytes()).into_owned()
}

pub(crate) fn err(ended: &Ended) -> String {
    String::from_utf8_lossy(ended.stderr.bytes()).into_owned()
}
