//! What file calls claim, and what is refused before anything is touched.

use std::fs;

use haft::{
    ConcurrencyClass, FailureCode, Runtime, ToolCall, ToolRegistry,
    serde_json::{Value, json},
};
use haft_sandbox::{Access, Workspace};
use haft_tools::BuiltinTools;

use super::Room;

async fn batches(room: &Room, calls: &[(&str, Value)]) -> Vec<usize> {
    let run = room.runtime.run_builder().working_directory(&room.inside).start();
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
async fn edits_of_different_files_share_the_floor_and_of_one_file_never_do() {
    let room = Room::new();
    room.put("a.txt", "a");
    room.put("b.txt", "a");
    room.put("sub/c.txt", "a");
    room.link("a.txt", "alias");
    room.link("sub", "way");
    assert_eq!(batches(&room, &[edit("a.txt"), edit("b.txt")]).await, [0, 0]);
    for same in ["a.txt", "./a.txt", "sub/../a.txt", "alias"] {
        assert_eq!(batches(&room, &[edit("a.txt"), edit(same)]).await, [0, 1], "{same}");
    }
    let absolute = room.inside.join("a.txt");
    assert_eq!(batches(&room, &[edit("a.txt"), edit(absolute.to_str().unwrap())]).await, [0, 1]);
    assert_eq!(batches(&room, &[edit("sub/c.txt"), edit("way/c.txt")]).await, [0, 1]);
    let read = |path: &str| ("read_file", json!({"file_path": path}));
    assert_eq!(batches(&room, &[read("a.txt"), read("a.txt"), edit("b.txt")]).await, [0, 0, 0]);
    assert_eq!(batches(&room, &[read("a.txt"), edit("alias")]).await, [0, 1]);
    let search = ("search_files", json!({"pattern": "x", "path": "sub"}));
    assert_eq!(batches(&room, &[search.clone(), edit("a.txt")]).await, [0, 0]);
    assert_eq!(batches(&room, &[search, edit("way/c.txt")]).await, [0, 1]);
    let delete = ("delete_path", json!({"path": "sub", "recursive": true}));
    assert_eq!(batches(&room, &[delete, edit("sub/c.txt")]).await, [0, 1]);
    let moved = ("move_path", json!({"from": "b.txt", "to": "new.txt"}));
    assert_eq!(batches(&room, &[moved, edit("new.txt")]).await, [0, 1]);
}

#[tokio::test]
async fn what_a_call_would_do_is_told_from_its_arguments() {
    let room = Room::new();
    room.put("a.txt", "a");
    let run = room.runtime.run_builder().working_directory(&room.inside).start();
    let turn = run.turn().await.unwrap();
    let claim = async |tool: &str, arguments: Value| {
        let planned = turn.plan([ToolCall::new("c", tool, arguments)]).pop().unwrap();
        (planned.class.unwrap(), planned.keys.unwrap())
    };
    let key = |path: &str| format!("file:{}", room.inside.join(path).display());
    assert_eq!(
        claim("read_file", json!({"file_path": "x/../a.txt"})).await,
        (ConcurrencyClass::ReadOnly, vec!["file:/".to_owned()]),
        "what leads nowhere shares with nobody"
    );
    assert_eq!(
        claim("list_files", json!({})).await,
        (ConcurrencyClass::ReadOnly, vec![format!("file:{}", room.inside.display())])
    );
    assert_eq!(
        claim("move_path", json!({"from": "a.txt", "to": "b.txt"})).await,
        (ConcurrencyClass::WriteExclusive, vec![key("a.txt"), key("b.txt")])
    );
}

#[tokio::test]
async fn nothing_outside_is_read_or_changed_by_any_tool() {
    let room = Room::new();
    room.put("a.txt", "a");
    room.link(&room.outside, "way");
    room.link(room.outside.join("secret.txt"), "direct");
    let before = room.outside_as_it_is();
    let outside = room.outside.join("secret.txt");
    let outside = outside.to_str().unwrap();
    for path in ["../outside/secret.txt", outside, "way/secret.txt", "direct", "/etc/passwd", "~/x"]
    {
        for (tool, arguments) in [
            ("read_file", json!({"file_path": path})),
            ("write_file", json!({"file_path": path, "content": "x"})),
            ("edit_file", json!({"file_path": path, "old_text": "nobody", "new_text": "x"})),
            ("make_dir", json!({"path": format!("{path}/new")})),
            ("list_files", json!({"path": path})),
            ("search_files", json!({"pattern": "nobody", "path": path})),
        ] {
            let (code, told) = room.fails(tool, arguments).await;
            assert_eq!(code, FailureCode::OutsideWorkspace, "{tool} {path}: {told}");
            assert!(!told.contains("nobody may read"), "{told}");
        }
    }
    for path in ["../outside/secret.txt", outside, "way/secret.txt"] {
        for (tool, arguments) in [
            ("delete_path", json!({"path": path})),
            ("move_path", json!({"from": path, "to": "mine"})),
            ("move_path", json!({"from": "a.txt", "to": path, "replace": true})),
        ] {
            assert_eq!(
                room.fails(tool, arguments).await.0,
                FailureCode::OutsideWorkspace,
                "{tool}"
            );
        }
    }
    assert_eq!(room.outside_as_it_is(), before);
    assert_eq!(room.get("a.txt"), "a");
}

#[tokio::test]
async fn protected_names_are_refused_by_every_tool_that_changes_something() {
    let room = Room::new();
    room.put(".git/config", "[core]\n");
    room.put("a.txt", "a");
    for path in [".git/config", ".git/hooks/pre-commit", "haft.toml", "sub/.envrc", ".HAFT/x"] {
        for (tool, arguments) in [
            ("write_file", json!({"file_path": path, "content": "x"})),
            ("edit_file", json!({"file_path": path, "old_text": "core", "new_text": "x"})),
            ("make_dir", json!({"path": path})),
            ("delete_path", json!({"path": path, "recursive": true})),
            ("move_path", json!({"from": path, "to": "mine"})),
            ("move_path", json!({"from": "a.txt", "to": path})),
        ] {
            let (code, told) = room.fails(tool, arguments).await;
            assert_eq!(code, FailureCode::Denied, "{tool} {path}: {told}");
            assert!(told.starts_with("protected"), "{tool} {path}: {told}");
        }
    }
    assert_eq!(room.get(".git/config"), "[core]\n");
    let (code, _) = room.fails("delete_path", json!({"path": ".git", "recursive": true})).await;
    assert_eq!(code, FailureCode::Denied, "nor what they lie below");
    assert!(!room.inside.join("sub").exists(), "not even a folder on the way was made");
}

#[tokio::test]
async fn a_root_that_may_only_be_read_is_not_written() {
    let home = tempfile::tempdir().unwrap();
    let base = home.path().canonicalize().unwrap();
    fs::File::create(base.join("a.txt")).unwrap();
    let workspace = Workspace::builder().root(&base, Access::Read).build().unwrap();
    let registry = ToolRegistry::builder().add(BuiltinTools::new(workspace)).build().unwrap();
    let runtime = Runtime::builder().registry(registry).policy(haft::AllowAll);
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
async fn rules_about_other_programs_tools_hold_for_ours() {
    let room = Room::new();
    let turn = room.runtime.run().turn().await.unwrap();
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
async fn no_file_takes_the_place_of_a_folder_with_protected_names() {
    let room = Room::new();
    room.put("evil/config", "[core]\n");
    room.put("pointer", "gitdir: ../evil\n");
    room.put("module/.git", "gitdir: ../real\n");
    for path in [".git", "sub/.git", "sub/.GIT", "module/.git", ".github"] {
        for (tool, arguments) in [
            ("write_file", json!({"file_path": path, "content": "gitdir: ../evil\n"})),
            ("edit_file", json!({"file_path": path, "old_text": "real", "new_text": "evil"})),
            ("move_path", json!({"from": "pointer", "to": path, "replace": true})),
        ] {
            let (code, told) = room.fails(tool, arguments).await;
            assert_eq!(code, FailureCode::Denied, "{tool} {path}: {told}");
        }
    }
    assert_eq!(room.get("module/.git"), "gitdir: ../real\n");
    assert!(!room.inside.join(".git").exists() && !room.inside.join("sub").exists());
    room.says("make_dir", json!({"path": "new/.github"})).await;
    room.says("write_file", json!({"file_path": ".gitignore", "content": "x"})).await;
}

/// A runtime in which something happens on the disk between the judgement of a call and its body.
async fn meanwhile(
    room: &Room,
    tool: &str,
    arguments: Value,
    act: impl Fn() + Send + Sync + Clone + 'static,
) -> haft::ToolResult {
    let workspace = Workspace::builder().root(&room.inside, Access::Write).build().unwrap();
    let registry = ToolRegistry::builder().add(BuiltinTools::new(workspace)).build().unwrap();
    let acts = haft::middleware_fn("meanwhile", move |_, next| {
        let act = act.clone();
        Box::pin(async move {
            act();
            next.run().await
        })
    });
    let runtime = Runtime::builder().registry(registry).policy(haft::AllowAll);
    let runtime = runtime.middleware(acts).build().unwrap();
    let run = runtime.run_builder().working_directory(&room.inside).start();
    let call = ToolCall::new("c", tool, arguments);
    run.turn().await.unwrap().run(vec![call]).await.pop().unwrap()
}

#[tokio::test]
async fn a_link_that_leads_elsewhere_since_the_judgement_is_refused() {
    let room = Room::new();
    room.put("a.txt", "word");
    room.put("b.txt", "word");
    for (tool, arguments) in [
        ("read_file", json!({"file_path": "alias"})),
        ("write_file", json!({"file_path": "alias", "content": "x"})),
        ("edit_file", json!({"file_path": "alias", "old_text": "word", "new_text": "x"})),
        ("search_files", json!({"pattern": "word", "path": "alias"})),
    ] {
        let _ = fs::remove_file(room.inside.join("alias"));
        room.link("a.txt", "alias");
        let alias = room.inside.join("alias");
        let answer = meanwhile(&room, tool, arguments, move || {
            fs::remove_file(&alias).unwrap();
            std::os::unix::fs::symlink("b.txt", &alias).unwrap();
        });
        let answer = answer.await;
        let told = answer.failure().unwrap_or_else(|| panic!("{tool}: {}", answer.text()));
        assert!(told.message().starts_with("changed"), "{tool}: {}", told.message());
    }
    assert_eq!((room.get("a.txt"), room.get("b.txt")), ("word".to_owned(), "word".to_owned()));
}

#[tokio::test]
async fn a_call_that_was_judged_to_make_a_file_replaces_none() {
    let room = Room::new();
    let path = room.inside.join("new.txt");
    let arguments = json!({"file_path": "new.txt", "content": "mine"});
    let answer = meanwhile(&room, "write_file", arguments, move || {
        super::put(&path, "somebody else's");
    });
    assert!(answer.await.is_error());
    assert_eq!(room.get("new.txt"), "somebody else's");
}

#[tokio::test]
async fn a_path_that_led_nowhere_when_it_was_judged_leads_nowhere_later() {
    let room = Room::new();
    room.put("dear/a.txt", "word");
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
        // The first calls of the turn change what the path of the last one means.
        let _ = fs::remove_file(room.inside.join("way"));
        let _ = fs::remove_file(room.inside.join("other"));
        room.link(&room.outside, "way");
        room.link("dear", "other");
        let turn = vec![
            ToolCall::new("d", "delete_path", json!({"path": "way"})),
            ToolCall::new("a", "move_path", json!({"from": "other", "to": "way"})),
            ToolCall::new("b", tool, arguments),
        ];
        let answers = room.all(turn).await;
        assert!(!answers[1].is_error(), "{}", answers[1].text());
        let last = &answers[2];
        let told = last.failure().unwrap_or_else(|| panic!("{tool}: {}", last.text()));
        assert!(!told.message().contains("word"), "{tool}: {}", told.message());
        assert_eq!(room.get("dear/a.txt"), "word", "{tool}");
    }
}
