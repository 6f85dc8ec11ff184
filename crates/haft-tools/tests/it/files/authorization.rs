//! What file calls declare, and what is refused before anything is accessed.

use std::fs;

use haft::{
    FailureCode, Runtime, ToolCall, ToolRegistry,
    serde_json::{Value, json},
    tool::ConcurrencyClass,
};
use haft_sandbox::{Access, Workspace};
use haft_tools::BuiltinTools;

use super::TestWorkspace;

async fn batches(fixture: &TestWorkspace, calls: &[(&str, Value)]) -> Vec<usize> {
    let run = fixture.runtime.run_builder().working_directory(&fixture.inside).start();
    let call = |(n, (tool, arguments)): (usize, &(&str, Value))| {
        ToolCall::new(format!("c{n}"), *tool, arguments.clone())
    };
    let calls: Vec<ToolCall> = calls.iter().enumerate().map(call).collect();
    run.turn().await.unwrap().plan(calls).into_iter().map(|planned| planned.batch).collect()
}

fn edit(path: &str) -> (&'static str, Value) {
    ("edit_file", json!({"file_path": path, "old_text": "a", "new_text": "b"}))
}

#[tokio::test]
async fn edits_of_one_file_never_share_a_batch() {
    let fixture = TestWorkspace::new();
    fixture.put("a.txt", "a");
    fixture.put("b.txt", "a");
    fixture.put("sub/c.txt", "a");
    fixture.link("a.txt", "alias");
    fixture.link("sub", "way");
    assert_eq!(batches(&fixture, &[edit("a.txt"), edit("b.txt")]).await, [0, 0]);
    for same in ["a.txt", "./a.txt", "sub/../a.txt", "alias"] {
        assert_eq!(batches(&fixture, &[edit("a.txt"), edit(same)]).await, [0, 1], "{same}");
    }
    let absolute = fixture.inside.join("a.txt");
    assert_eq!(batches(&fixture, &[edit("a.txt"), edit(absolute.to_str().unwrap())]).await, [0, 1]);
    assert_eq!(batches(&fixture, &[edit("sub/c.txt"), edit("way/c.txt")]).await, [0, 1]);
    let read = |path: &str| ("read_file", json!({"file_path": path}));
    assert_eq!(batches(&fixture, &[read("a.txt"), read("a.txt"), edit("b.txt")]).await, [0, 0, 0]);
    assert_eq!(batches(&fixture, &[read("a.txt"), edit("alias")]).await, [0, 1]);
    let search = ("search_files", json!({"pattern": "x", "path": "sub"}));
    assert_eq!(batches(&fixture, &[search.clone(), edit("a.txt")]).await, [0, 0]);
    assert_eq!(batches(&fixture, &[search, edit("way/c.txt")]).await, [0, 1]);
    let delete = ("delete_path", json!({"path": "sub", "recursive": true}));
    assert_eq!(batches(&fixture, &[delete, edit("sub/c.txt")]).await, [0, 1]);
    let moved = ("move_path", json!({"from": "b.txt", "to": "new.txt"}));
    assert_eq!(batches(&fixture, &[moved, edit("new.txt")]).await, [0, 1]);
}

#[tokio::test]
async fn class_and_keys_are_declared_from_the_arguments() {
    let fixture = TestWorkspace::new();
    fixture.put("a.txt", "a");
    let run = fixture.runtime.run_builder().working_directory(&fixture.inside).start();
    let turn = run.turn().await.unwrap();
    let declared = async |tool: &str, arguments: Value| {
        let planned = turn.plan([ToolCall::new("c", tool, arguments)]).pop().unwrap();
        (planned.class.unwrap(), planned.keys.unwrap())
    };
    let key = |path: &str| format!("file:{}", fixture.inside.join(path).display());
    assert_eq!(
        declared("read_file", json!({"file_path": "x/../a.txt"})).await,
        (ConcurrencyClass::ReadOnly, vec!["file:/".to_owned()]),
        "a path that does not resolve has no keys in common with another"
    );
    assert_eq!(
        declared("list_files", json!({})).await,
        (ConcurrencyClass::ReadOnly, vec![format!("file:{}", fixture.inside.display())])
    );
    assert_eq!(
        declared("move_path", json!({"from": "a.txt", "to": "b.txt"})).await,
        (ConcurrencyClass::WriteExclusive, vec![key("a.txt"), key("b.txt")])
    );
}

#[tokio::test]
async fn no_tool_reads_or_changes_anything_outside_the_workspace() {
    let fixture = TestWorkspace::new();
    fixture.put("a.txt", "a");
    fixture.link(&fixture.outside, "way");
    fixture.link(fixture.outside.join("secret.txt"), "direct");
    let before = fixture.outside_snapshot();
    let outside = fixture.outside.join("secret.txt");
    let outside = outside.to_str().unwrap();
    for path in ["../outside/secret.txt", outside, "way/secret.txt", "direct", "/etc/passwd", "~/x"]
    {
        for (tool, arguments) in [
            ("read_file", json!({"file_path": path})),
            ("write_file", json!({"file_path": path, "content": "x"})),
            ("edit_file", json!({"file_path": path, "old_text": "forbidden", "new_text": "x"})),
            ("make_dir", json!({"path": format!("{path}/new")})),
            ("list_files", json!({"path": path})),
            ("search_files", json!({"pattern": "forbidden", "path": path})),
        ] {
            let (code, message) = fixture.call_err(tool, arguments).await;
            assert_eq!(code, FailureCode::OutsideWorkspace, "{tool} {path}: {message}");
            assert!(!message.contains("forbidden to read"), "{message}");
        }
    }
    for path in ["../outside/secret.txt", outside, "way/secret.txt"] {
        for (tool, arguments) in [
            ("delete_path", json!({"path": path})),
            ("move_path", json!({"from": path, "to": "mine"})),
            ("move_path", json!({"from": "a.txt", "to": path, "replace": true})),
        ] {
            assert_eq!(
                fixture.call_err(tool, arguments).await.0,
                FailureCode::OutsideWorkspace,
                "{tool}"
            );
        }
    }
    assert_eq!(fixture.outside_snapshot(), before);
    assert_eq!(fixture.get("a.txt"), "a");
}

#[tokio::test]
async fn protected_names_are_refused_by_every_writing_tool() {
    let fixture = TestWorkspace::new();
    fixture.put(".git/config", "[core]\n");
    fixture.put("a.txt", "a");
    for path in [".git/config", ".git/hooks/pre-commit", "haft.toml", "sub/.envrc", ".HAFT/x"] {
        for (tool, arguments) in [
            ("write_file", json!({"file_path": path, "content": "x"})),
            ("edit_file", json!({"file_path": path, "old_text": "core", "new_text": "x"})),
            ("make_dir", json!({"path": path})),
            ("delete_path", json!({"path": path, "recursive": true})),
            ("move_path", json!({"from": path, "to": "mine"})),
            ("move_path", json!({"from": "a.txt", "to": path})),
        ] {
            let (code, message) = fixture.call_err(tool, arguments).await;
            assert_eq!(code, FailureCode::Denied, "{tool} {path}: {message}");
            assert!(message.starts_with("protected"), "{tool} {path}: {message}");
        }
    }
    assert_eq!(fixture.get(".git/config"), "[core]\n");
    let (code, _) =
        fixture.call_err("delete_path", json!({"path": ".git", "recursive": true})).await;
    assert_eq!(code, FailureCode::Denied, "nor what they lie below");
    assert!(!fixture.inside.join("sub").exists(), "no parent directory was made");
}

#[tokio::test]
async fn read_only_root_is_not_written() {
    let home = tempfile::tempdir().unwrap();
    let base = home.path().canonicalize().unwrap();
    fs::File::create(base.join("a.txt")).unwrap();
    let workspace = Workspace::builder().root(&base, Access::Read).build().unwrap();
    let registry = ToolRegistry::builder().add(BuiltinTools::new(workspace)).build().unwrap();
    let runtime = Runtime::builder().registry(registry).policy(haft::policy::AllowAll);
    let run = runtime.build().unwrap().run_builder().working_directory(&base).start();
    let call = ToolCall::new("c", "write_file", json!({"file_path": "a.txt", "content": "x"}));
    let answer = run.turn().await.unwrap().run(vec![call]).await.pop().unwrap();
    assert_eq!(answer.failure().unwrap().code(), FailureCode::Denied);
    assert_eq!(fs::metadata(base.join("a.txt")).unwrap().len(), 0);
}

#[tokio::test]
async fn without_rules_reading_is_allowed_and_changing_is_not() {
    let home = tempfile::tempdir().unwrap();
    let base = home.path().canonicalize().unwrap();
    super::put(&base.join("a.txt"), "word\n");
    let workspace = Workspace::builder().root(&base, Access::Write).build().unwrap();
    let registry = ToolRegistry::builder().add(BuiltinTools::new(workspace)).build().unwrap();
    let runtime = Runtime::builder().registry(registry).build().unwrap();
    let run = runtime.run_builder().working_directory(&base).start();
    let calls = [
        ("read_file", json!({"file_path": "a.txt"}), true),
        ("list_files", json!({}), true),
        ("search_files", json!({"pattern": "word"}), true),
        ("write_file", json!({"file_path": "b.txt", "content": "x"}), false),
        ("edit_file", json!({"file_path": "a.txt", "old_text": "word", "new_text": "x"}), false),
        ("delete_path", json!({"path": "a.txt"}), false),
    ];
    for (tool, arguments, is_fine) in calls {
        let call = ToolCall::new("c", tool, arguments);
        let answer = run.turn().await.unwrap().run(vec![call]).await.pop().unwrap();
        assert_eq!(!answer.is_error(), is_fine, "{tool}: {}", answer.text());
    }
    assert!(base.join("a.txt").exists() && !base.join("b.txt").exists());
}

#[tokio::test]
async fn claude_code_tool_names_match_builtin_tools() {
    let fixture = TestWorkspace::new();
    let turn = fixture.runtime.run().turn().await.unwrap();
    let known = |name: &str| {
        let entry = turn.snapshot().get(name).unwrap();
        entry.known_as().to_vec()
    };
    assert_eq!(known("read_file"), ["Read"]);
    assert_eq!(known("write_file"), ["Write", "Edit"]);
    assert_eq!(known("list_files"), ["Glob"]);
    assert_eq!(known("search_files"), ["Grep"]);
    for name in ["edit_file", "move_path", "delete_path", "make_dir"] {
        assert_eq!(known(name), ["Edit"], "{name}");
    }
}

#[tokio::test]
async fn file_cannot_replace_a_protected_directory() {
    let fixture = TestWorkspace::new();
    fixture.put("evil/config", "[core]\n");
    fixture.put("pointer", "gitdir: ../evil\n");
    fixture.put("module/.git", "gitdir: ../real\n");
    for path in [".git", "sub/.git", "sub/.GIT", "module/.git", ".github"] {
        for (tool, arguments) in [
            ("write_file", json!({"file_path": path, "content": "gitdir: ../evil\n"})),
            ("edit_file", json!({"file_path": path, "old_text": "real", "new_text": "evil"})),
            ("move_path", json!({"from": "pointer", "to": path, "replace": true})),
        ] {
            let (code, message) = fixture.call_err(tool, arguments).await;
            assert_eq!(code, FailureCode::Denied, "{tool} {path}: {message}");
        }
    }
    assert_eq!(fixture.get("module/.git"), "gitdir: ../real\n");
    assert!(!fixture.inside.join(".git").exists() && !fixture.inside.join("sub").exists());
    fixture.call_ok("make_dir", json!({"path": "new/.github"})).await;
    fixture.call_ok("write_file", json!({"file_path": ".gitignore", "content": "x"})).await;
}

/// Calls a tool and changes the disk between authorization and execution (TOCTOU).
async fn call_with_change_in_between(
    fixture: &TestWorkspace,
    tool: &str,
    arguments: Value,
    act: impl Fn() + Send + Sync + Clone + 'static,
) -> haft::ToolResult {
    let workspace = Workspace::builder().root(&fixture.inside, Access::Write).build().unwrap();
    let registry = ToolRegistry::builder().add(BuiltinTools::new(workspace)).build().unwrap();
    let acts = haft::middleware::middleware_fn("meanwhile", move |_, next| {
        let act = act.clone();
        Box::pin(async move {
            act();
            next.run().await
        })
    });
    let runtime = Runtime::builder().registry(registry).policy(haft::policy::AllowAll);
    let runtime = runtime.middleware(acts).build().unwrap();
    let run = runtime.run_builder().working_directory(&fixture.inside).start();
    let call = ToolCall::new("c", tool, arguments);
    run.turn().await.unwrap().run(vec![call]).await.pop().unwrap()
}

#[tokio::test]
async fn symlink_retargeted_after_authorization_is_refused() {
    let fixture = TestWorkspace::new();
    fixture.put("a.txt", "word");
    fixture.put("b.txt", "word");
    for (tool, arguments) in [
        ("read_file", json!({"file_path": "alias"})),
        ("write_file", json!({"file_path": "alias", "content": "x"})),
        ("edit_file", json!({"file_path": "alias", "old_text": "word", "new_text": "x"})),
        ("search_files", json!({"pattern": "word", "path": "alias"})),
    ] {
        let _ = fs::remove_file(fixture.inside.join("alias"));
        fixture.link("a.txt", "alias");
        let alias = fixture.inside.join("alias");
        let answer = call_with_change_in_between(&fixture, tool, arguments, move || {
            fs::remove_file(&alias).unwrap();
            std::os::unix::fs::symlink("b.txt", &alias).unwrap();
        });
        let answer = answer.await;
        let message = answer.failure().unwrap_or_else(|| panic!("{tool}: {}", answer.text()));
        assert!(message.message().starts_with("changed"), "{tool}: {}", message.message());
    }
    assert_eq!(
        (fixture.get("a.txt"), fixture.get("b.txt")),
        ("word".to_owned(), "word".to_owned())
    );
}

#[tokio::test]
async fn call_authorized_to_create_a_file_replaces_none() {
    let fixture = TestWorkspace::new();
    let path = fixture.inside.join("new.txt");
    let arguments = json!({"file_path": "new.txt", "content": "mine"});
    let answer = call_with_change_in_between(&fixture, "write_file", arguments, move || {
        super::put(&path, "written by another process");
    });
    assert!(answer.await.is_error());
    assert_eq!(fixture.get("new.txt"), "written by another process");
}

#[tokio::test]
async fn path_that_did_not_exist_at_authorization_is_refused_if_it_now_resolves() {
    let fixture = TestWorkspace::new();
    fixture.put("private/a.txt", "word");
    for (tool, arguments) in [
        ("read_file", json!({"file_path": "way/a.txt"})),
        ("write_file", json!({"file_path": "way/a.txt", "content": "x"})),
        ("edit_file", json!({"file_path": "way/a.txt", "old_text": "word", "new_text": "x"})),
        ("delete_path", json!({"path": "way/a.txt"})),
        ("move_path", json!({"from": "way/a.txt", "to": "b.txt"})),
        ("search_files", json!({"pattern": "word", "path": "way"})),
        ("list_files", json!({"path": "way"})),
        ("make_dir", json!({"path": "way/new"})),
    ] {
        // The first calls of the turn change what the path of the last one resolves to.
        let _ = fs::remove_file(fixture.inside.join("way"));
        let _ = fs::remove_file(fixture.inside.join("other"));
        fixture.link(&fixture.outside, "way");
        fixture.link("private", "other");
        let turn = vec![
            ToolCall::new("d", "delete_path", json!({"path": "way"})),
            ToolCall::new("a", "move_path", json!({"from": "other", "to": "way"})),
            ToolCall::new("b", tool, arguments),
        ];
        let answers = fixture.all(turn).await;
        assert!(!answers[1].is_error(), "{}", answers[1].text());
        let last = &answers[2];
        let message = last.failure().unwrap_or_else(|| panic!("{tool}: {}", last.text()));
        assert!(!message.message().contains("word"), "{tool}: {}", message.message());
        assert_eq!(fixture.get("private/a.txt"), "word", "{tool}");
    }
}
