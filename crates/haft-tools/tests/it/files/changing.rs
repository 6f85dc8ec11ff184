//! `write_file`, `edit_file`, `move_path`, `delete_path` and `make_dir`.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use haft::{
    FailureCode, Runtime, ToolCall, ToolRegistry,
    host::{DeniedPaths, DeniedPathsUnknown, HardLinkedFile, OtherNames},
    policy::{
        Decision, FileRules, PathBase, Pattern, Policy, PolicyContext, PolicyRequest, Rule, Rules,
        Verdict,
    },
    serde_json::json,
    tool::{Operation, Scope},
    turn::TurnHandle,
};
use haft_sandbox::{Access, Workspace};
use haft_tools::BuiltinTools;

use super::TestWorkspace;

#[tokio::test]
async fn write_creates_parents_and_replaces_atomically() {
    let fixture = TestWorkspace::new();
    let path = "new/deep/a.txt";
    assert_eq!(
        fixture.call_ok("write_file", json!({"file_path": path, "content": "one\ntwo\n"})).await,
        "created `new/deep/a.txt`: 2 lines, 8 bytes"
    );
    assert_eq!(fixture.get(path), "one\ntwo\n");
    assert_eq!(
        fixture.call_ok("write_file", json!({"file_path": path, "content": "x"})).await,
        "replaced `new/deep/a.txt`: 1 line, 1 byte; it had 8"
    );
    assert_eq!(fixture.get(path), "x");
    let only_new = json!({"file_path": path, "content": "y", "create_only": true});
    let (code, message) = fixture.call_err("write_file", only_new).await;
    assert_eq!((code, fixture.get(path).as_str()), (FailureCode::InvalidValue, "x"), "{message}");
    let left: Vec<_> = fs::read_dir(fixture.inside.join("new/deep")).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file is left");
}

#[tokio::test]
async fn edit_replaces_one_occurrence_or_all() {
    let fixture = TestWorkspace::new();
    fixture.put("a.rs", "let a = 1;\nlet b = 1;\n");
    let edit = |old: &str, new: &str, all: bool| json!({"file_path": "a.rs", "old_text": old, "new_text": new, "all": all});
    assert_eq!(
        fixture.call_ok("edit_file", edit("b = 1", "b = 2", false)).await,
        "replaced 1 occurrence in `a.rs`, at line 2"
    );
    let (code, message) = fixture.call_err("edit_file", edit("let", "const", false)).await;
    assert_eq!(code, FailureCode::InvalidValue);
    assert_eq!(
        message,
        "`old_text` occurs 2 times in `a.rs`: at lines 1, 2 | add surrounding lines until it is \
         unique, or set `all`"
    );
    assert_eq!(fixture.get("a.rs"), "let a = 1;\nlet b = 2;\n");
    assert_eq!(
        fixture.call_ok("edit_file", edit("let", "const", true)).await,
        "replaced 2 occurrences in `a.rs`, at lines 1, 2"
    );
    assert_eq!(fixture.get("a.rs"), "const a = 1;\nconst b = 2;\n");
}

#[tokio::test]
async fn edit_without_a_match_shows_the_nearest_text() {
    let fixture = TestWorkspace::new();
    fixture.put("a.py", "def f():\n\tif x:\n\t\treturn 1\n");
    let arguments =
        json!({"file_path": "a.py", "old_text": "    if x:\n        return 1", "new_text": ""});
    let (code, message) = fixture.call_err("edit_file", arguments).await;
    assert_eq!(code, FailureCode::InvalidValue);
    assert!(message.contains("starts at line 2 and differs only in whitespace"), "{message}");
    assert!(message.contains("\"\\t\\treturn 1\""), "the file's own words: {message}");
    let nothing = json!({"file_path": "a.py", "old_text": "SELECT *", "new_text": "x"});
    assert!(fixture.call_err("edit_file", nothing).await.1.contains("there is no similar text"));
}

#[tokio::test]
async fn edit_keeps_line_endings_and_permissions() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = TestWorkspace::new();
    fixture.put("run.bat", "one\r\ntwo\r\n");
    let path = fixture.inside.join("run.bat");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    let arguments = json!({"file_path": "run.bat", "old_text": "one\ntwo", "new_text": "1\n2\n3"});
    fixture.call_ok("edit_file", arguments).await;
    assert_eq!(fixture.get("run.bat"), "1\r\n2\r\n3\r\n");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o750);
}

#[tokio::test]
async fn edit_through_a_symlink_keeps_the_symlink() {
    let fixture = TestWorkspace::new();
    fixture.put("real.txt", "old");
    fixture.link("real.txt", "alias.txt");
    let edit = json!({"file_path": "alias.txt", "old_text": "old", "new_text": "new"});
    fixture.call_ok("edit_file", edit).await;
    assert_eq!(fixture.get("real.txt"), "new");
    assert!(fs::symlink_metadata(fixture.inside.join("alias.txt")).unwrap().is_symlink());
}

#[tokio::test]
async fn many_edits_of_one_file_in_one_turn_all_apply() {
    let fixture = TestWorkspace::new();
    let lines: String = (0..20).map(|n| format!("line {n};\n")).collect();
    fixture.put("a.txt", lines);
    fixture.link("a.txt", "alias.txt");
    let edit = |n: usize| {
        let path = ["a.txt", "./a.txt", "alias.txt"][n % 3];
        let (old, new) = (format!("line {n};"), format!("LINE {n};"));
        let arguments = json!({"file_path": path, "old_text": old, "new_text": new});
        haft::ToolCall::new(format!("c{n}"), "edit_file", arguments)
    };
    for result in fixture.all((0..20).map(edit).collect()).await {
        assert!(!result.is_error(), "{}", result.text());
    }
    let wanted: String = (0..20).map(|n| format!("LINE {n};\n")).collect();
    assert_eq!(fixture.get("a.txt"), wanted);
}

#[tokio::test]
async fn move_replaces_only_with_replace() {
    let fixture = TestWorkspace::new();
    fixture.put("a.txt", "a");
    fixture.put("b.txt", "b");
    let (code, _) = fixture.call_err("move_path", json!({"from": "a.txt", "to": "b.txt"})).await;
    assert_eq!((code, fixture.get("b.txt").as_str()), (FailureCode::InvalidValue, "b"));
    fixture.call_ok("move_path", json!({"from": "a.txt", "to": "b.txt", "replace": true})).await;
    assert_eq!(fixture.get("b.txt"), "a");
    assert_eq!(
        fixture.call_ok("move_path", json!({"from": "b.txt", "to": "new/c.txt"})).await,
        "moved `b.txt` to `new/c.txt`"
    );
    let (_, message) =
        fixture.call_err("move_path", json!({"from": "new/c.txt", "to": "new"})).await;
    assert!(message.contains("give the new path including the name"), "{message}");
    assert_eq!(fixture.get("new/c.txt"), "a");
}

#[tokio::test]
async fn non_empty_directory_is_deleted_only_with_recursive() {
    let fixture = TestWorkspace::new();
    fixture.put("old/a.txt", "a");
    fixture.put("old/b/c.txt", "c");
    fixture.link(&fixture.outside, "old/way_out");
    let (code, message) = fixture.call_err("delete_path", json!({"path": "old"})).await;
    assert_eq!(code, FailureCode::InvalidValue);
    assert!(message.contains("set `recursive`"), "{message}");
    assert_eq!(fixture.get("old/a.txt"), "a");
    let before = fixture.outside_snapshot();
    assert_eq!(
        fixture.call_ok("delete_path", json!({"path": "old", "recursive": true})).await,
        "deleted `old` with 4 items in it"
    );
    assert!(!fixture.inside.join("old").exists());
    assert_eq!(fixture.outside_snapshot(), before, "a link is deleted itself");
}

#[tokio::test]
async fn make_dir_creates_parents() {
    let fixture = TestWorkspace::new();
    assert_eq!(
        fixture.call_ok("make_dir", json!({"path": "a/b"})).await,
        "created the directory `a/b`"
    );
    assert_eq!(fixture.call_ok("make_dir", json!({"path": "a/b"})).await, "`a/b` exists already");
    fixture.put("file", "");
    assert_eq!(
        fixture.call_err("make_dir", json!({"path": "file"})).await.0,
        FailureCode::InvalidValue
    );
}

#[tokio::test]
async fn directory_with_a_denied_file_is_not_moved_or_deleted() {
    let fixture = TestWorkspace::new();
    for path in ["top/secrets/k.txt", "top/a.txt", "other/b.txt"] {
        fixture.put(path, "x");
    }
    let rule = |decision, text: &str| {
        Rule::new(decision, Pattern::parse(text, &PathBase::default()).unwrap())
    };
    let rules = [
        rule(Decision::Deny, "Edit(./top/secrets/**)"),
        rule(Decision::Allow, "delete_path"),
        rule(Decision::Allow, "move_path"),
    ];
    let workspace = Workspace::builder().root(&fixture.inside, Access::Write).build().unwrap();
    let registry = ToolRegistry::builder().add(BuiltinTools::new(workspace)).build().unwrap();
    let rules = Rules::new(rules.into(), PolicyContext::default()).unwrap();
    let runtime = Runtime::builder().registry(registry).policy(rules).build().unwrap();
    let run = runtime.run_builder().working_directory(&fixture.inside).start();
    let calls = [
        ToolCall::new("1", "delete_path", json!({"path": "top", "recursive": true})),
        ToolCall::new("2", "move_path", json!({"from": "top", "to": "elsewhere"})),
        ToolCall::new("3", "delete_path", json!({"path": "other", "recursive": true})),
        ToolCall::new("4", "delete_path", json!({"path": "top/a.txt"})),
    ];
    let answers = run.turn().await.unwrap().run(calls).await;
    for answer in &answers[..2] {
        let code = answer.failure().map(haft::Failure::code);
        assert_eq!(code, Some(FailureCode::Denied), "{}", answer.text());
    }
    assert_eq!(fixture.get("top/secrets/k.txt"), "x");
    for answer in &answers[2..] {
        assert!(!answer.is_error(), "{}", answer.text());
    }
    assert!(!fixture.inside.join("other").exists() && !fixture.inside.join("top/a.txt").exists());
}

/// A directory on another file system, if this machine has a writable one.
#[cfg(target_os = "linux")]
fn on_another_disk(than: &std::path::Path) -> Option<tempfile::TempDir> {
    use std::os::unix::fs::MetadataExt as _;
    let other = tempfile::tempdir_in("/dev/shm").ok()?;
    let disk = |path: &std::path::Path| fs::metadata(path).unwrap().dev();
    (disk(other.path()) != disk(than)).then_some(other)
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn file_moves_across_file_systems_and_directory_or_symlink_does_not() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut fixture = TestWorkspace::new();
    let Some(other) = on_another_disk(&fixture.inside) else { return };
    let other = other.path().canonicalize().unwrap();
    let workspace = Workspace::builder()
        .root(&fixture.inside, Access::Write)
        .root(&other, Access::Write)
        .build()
        .unwrap();
    let registry = ToolRegistry::builder().add(BuiltinTools::new(workspace)).build().unwrap();
    fixture.runtime =
        Runtime::builder().registry(registry).policy(haft::policy::AllowAll).build().unwrap();
    fixture.put("run.sh", "echo hi\n");
    fs::set_permissions(fixture.inside.join("run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    let there = other.join("new/run.sh");
    let output = fixture.call_ok("move_path", json!({"from": "run.sh", "to": there})).await;
    assert!(output.ends_with("on another disk: 8 bytes copied, the old file deleted"), "{output}");
    assert_eq!(fs::read(&there).unwrap(), b"echo hi\n");
    assert_eq!(fs::metadata(&there).unwrap().permissions().mode() & 0o777, 0o750);
    assert!(!fixture.inside.join("run.sh").exists());

    fixture.put("again.txt", "new");
    let there = other.join("new/run.sh");
    let (code, why) =
        fixture.call_err("move_path", json!({"from": "again.txt", "to": there})).await;
    assert_eq!(code, FailureCode::InvalidValue, "{why}");
    assert!(why.starts_with("exists: "), "{why}");
    fixture.call_ok("move_path", json!({"from": "again.txt", "to": there, "replace": true})).await;
    assert_eq!(fs::read(&there).unwrap(), b"new");

    fs::create_dir(fixture.inside.join("directory")).unwrap();
    fixture.put("directory/a.txt", "a");
    fixture.link("/etc/passwd", "link");
    for from in ["directory", "link"] {
        let to = other.join(from);
        let (_, why) = fixture.call_err("move_path", json!({"from": from, "to": to})).await;
        assert!(why.starts_with("cross_device: ") && why.contains("one by one"), "{why}");
        assert!(!to.exists() && fixture.inside.join(from).symlink_metadata().is_ok(), "{from}");
    }
    let left: Vec<_> = fs::read_dir(other.join("new")).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file stays behind");
}

/// Allows everything, and aborts the turn after this many path checks of a tool body.
struct Stopping {
    after: usize,
    checked: AtomicUsize,
    control: Arc<OnceLock<TurnHandle>>,
}

impl Policy for Stopping {
    fn decide(&self, _: &PolicyRequest<'_>) -> Verdict {
        Verdict::allow("it is a test")
    }

    fn file_rules(&self) -> Option<&dyn FileRules> {
        Some(self)
    }
}

impl FileRules for Stopping {
    fn is_path_denied(&self, _: Operation, _: &Path, _: &Scope) -> bool {
        if self.checked.fetch_add(1, Ordering::Relaxed) + 1 == self.after {
            self.control.get().unwrap().abort();
        }
        false
    }

    fn other_names(&self, _: Operation, _: &Path, _: &HardLinkedFile, _: &Scope) -> OtherNames {
        OtherNames::Allowed
    }

    fn denied_paths(
        &self,
        _: &[PathBuf],
        _: &Scope,
        _: &dyn Fn() -> Instant,
    ) -> Result<DeniedPaths, DeniedPathsUnknown> {
        Ok(DeniedPaths::default())
    }

    fn asks_about_protected(&self) -> bool {
        false
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn aborted_deletion_reports_progress() {
    let fixture = TestWorkspace::new();
    fs::create_dir(fixture.inside.join("many")).unwrap();
    for n in 0..20 {
        fixture.put(&format!("many/{n}"), "");
    }
    // A deletion checks all entries before authorization and again before it starts. Aborted at the
    // last check it has deleted nothing and says so; an abort between two entries is tested where
    // deletion is implemented.
    let control = Arc::new(OnceLock::new());
    let policy =
        Stopping { after: 40, checked: AtomicUsize::new(0), control: Arc::clone(&control) };
    let workspace = Workspace::builder().root(&fixture.inside, Access::Write).build().unwrap();
    let registry = ToolRegistry::builder().add(BuiltinTools::new(workspace)).build().unwrap();
    let runtime = Runtime::builder().registry(registry).policy(policy).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    control.set(turn.handle()).ok().unwrap();
    let calls = [ToolCall::new("c", "delete_path", json!({"path": "many", "recursive": true}))];
    let answer = turn.run(calls).await.remove(0);
    assert!(answer.is_error(), "{}", answer.text());
    assert!(answer.text().contains("stopped: 0 items in `many` deleted"), "{}", answer.text());
    assert_eq!(fs::read_dir(fixture.inside.join("many")).unwrap().count(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn abort_during_deletion_reports_what_is_left() {
    let fixture = TestWorkspace::new();
    fs::create_dir(fixture.inside.join("many")).unwrap();
    for n in 0..20_000 {
        fixture.put(&format!("many/{n}"), "");
    }
    let turn = fixture.runtime.run().turn().await.unwrap();
    let control = turn.handle();
    let calls = [ToolCall::new("c", "delete_path", json!({"path": "many", "recursive": true}))];
    let count = || fs::read_dir(fixture.inside.join("many")).map_or(0, Iterator::count);
    let (answers, ()) = tokio::join!(turn.run(calls), async {
        while count() == 20_000 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        control.abort();
    });
    let (answer, left) = (&answers[0], count());
    // Whichever is faster, the result says what happened.
    let message = if fixture.inside.join("many").exists() {
        format!("stopped: {} items in `many` deleted", 20_000 - left)
    } else {
        "deleted `many` with 20000 items in it".to_owned()
    };
    assert!(answer.text().contains(&message), "{left} left: {}", answer.text());
}
