//! Agents of `.claude/agents/*.md`: tools of `haft run`, listed by `haft tools list` and
//! `haft trust`.

#![expect(clippy::disallowed_methods, reason = "the tests make the files they work with")]

use std::{fs, path::Path};

use serde_json::Value;

use crate::TempDir;

const REVIEWER: &str = "---\nname: reviewer\ndescription: Reviews a change.\ntools: Read, Bash\n\
    disallowedTools: Bash\nmaxTurns: 3\nmodel: script:reviewer.jsonl\ncolor: red\n---\nReview it.\n";

/// The reviewer sees `read_file` and neither `shell` nor itself, and reads a file.
const REVIEWER_SCRIPT: &str = r#"{"expect": {"tools": ["read_file"], "not_tools": ["shell", "reviewer"]}, "calls": [{"id": "r", "name": "read_file", "arguments": {"file_path": "notes.txt"}}]}
{"text": "The notes say: {{result:r}}"}
"#;

const MAIN_SCRIPT: &str = r#"{"calls": [{"id": "a", "name": "reviewer", "arguments": {"task": "Review the notes."}}]}
{"text": "Reviewed. {{result:a}}"}
"#;

fn plant(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn project(name: &str) -> TempDir {
    let files = [
        ("haft.toml", ""),
        ("notes.txt", "all is well\n"),
        (".claude/agents/reviewer.md", REVIEWER),
        ("reviewer.jsonl", REVIEWER_SCRIPT),
        ("main.jsonl", MAIN_SCRIPT),
    ];
    TempDir::new(name, &files)
}

const RUN: [&str; 6] = ["run", "Go.", "--model", "script:main.jsonl", "--workspace", "."];

#[test]
fn agent_of_a_trusted_project_is_a_tool_of_a_run() {
    let dir = project("agent-trusted");
    let before = dir.run(RUN);
    assert!(before.err.contains("not trusted, see `haft trust`"), "{before:?}");
    assert!(!before.out.contains("all is well"), "{before:?}");

    let trusted = dir.run(["trust", "--yes"]);
    let line = "adds an agent  reviewer: Read Bash without Bash, model script:reviewer.jsonl";
    assert!(trusted.out.contains(line), "{trusted:?}");
    let after = dir.run(RUN);
    assert_eq!(after.code, Some(0), "{after:?}");
    assert!(after.out.contains("Reviewed. The notes say:"), "{after:?}");
    assert!(after.out.contains("all is well"), "{after:?}");
    assert!(after.err.contains("reviewer.md: line 8: `color` has no effect"), "{after:?}");

    plant(&dir.work().join(".claude/agents/reviewer.md"), &REVIEWER.replace("Review it", "Other"));
    let changed = dir.run(RUN);
    assert!(!changed.out.contains("all is well"), "trust covers the content: {changed:?}");
}

#[test]
fn agent_of_the_user_needs_no_trust_and_is_listed() {
    let dir = project("agent-user");
    fs::remove_file(dir.work().join(".claude/agents/reviewer.md")).unwrap();
    let home = dir.work().join("../home/.claude/agents");
    plant(&home.join("reviewer.md"), REVIEWER);
    plant(&home.join("shell.md"), "---\nname: shell\ndescription: x\n---\n");
    plant(&home.join("broken.md"), "---\nname: broken\n---\n");
    plant(&home.join("short.md"), "---\nname: short\ndescription: y\nmodel: sonnet\n---\nGo.");
    let ran = dir.run(RUN);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("all is well"), "{ran:?}");
    for note in [
        "`shell` is the name of a tool",
        "broken.md` is not offered: line 1: the field `description` is missing",
        "`model: sonnet` has no effect",
    ] {
        assert!(ran.err.contains(note), "{note}: {ran:?}");
    }

    let list = dir.run(["tools", "list"]);
    assert!(list.out.contains("Agents\n"), "{list:?}");
    assert!(list.out.contains("Read Bash without Bash"), "{list:?}");
    plant(&dir.work().join("../home/.claude/skills/tidy/SKILL.md"), "---\ndescription: z\n---\nx");
    let list = dir.run(["tools", "list", "--json"]);
    let list: Vec<Value> = serde_json::from_str(&list.out).unwrap();
    let of_kind = |kind: &str| -> Vec<&str> {
        let all = list.iter().filter(|entry| entry["kind"] == kind);
        all.map(|entry| entry["name"].as_str().unwrap()).collect()
    };
    assert_eq!(of_kind("agent"), ["reviewer", "short"]);
    assert_eq!(of_kind("skill"), ["tidy"]);
    assert!(of_kind("tool").contains(&"shell"));
}

#[test]
fn agents_of_a_symlink_out_of_the_project_are_not_read() {
    let dir = project("agent-link");
    let outside = dir.work().join("../elsewhere");
    plant(&outside.join("reviewer.md"), REVIEWER);
    fs::remove_dir_all(dir.work().join(".claude/agents")).unwrap();
    std::os::unix::fs::symlink(&outside, dir.work().join(".claude/agents")).unwrap();
    assert_eq!(dir.run(["trust", "--yes"]).code, Some(0));
    let ran = dir.run(RUN);
    assert!(ran.err.contains("is a symlink out of the project"), "{ran:?}");
    assert!(!ran.out.contains("all is well"), "{ran:?}");
}
