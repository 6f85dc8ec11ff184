//! Tools that work on this machine: the shell with `--workspace`, tools that files declare, and what
//! `haft doctor` says of the sandbox they run in.
#![cfg(target_os = "linux")]

use serde_json::{Value, json};

use crate::{Folder, haft};

const TOOLS: &str = r#"
[tool.count_lines]
description = "Counts the lines of a file. It reads nothing else."
command = ["wc", "-l", "--", "{file}"]
read_only = true
capabilities = ["filesystem"]
trust = "workspace"

[tool.count_lines.parameters.file]
description = "Which file."
about = "read_path"
"#;

const FILES: &[(&str, &str)] = &[("haft.toml", TOOLS), ("notes.txt", "one\ntwo\n")];

fn response(tool: &str, arguments: Value) -> String {
    json!({"type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [
        {"type": "tool_use", "id": "toolu_1", "name": tool, "input": arguments},
    ]})
    .to_string()
}

#[test]
fn a_declared_tool_is_known_wherever_tools_are() {
    let call = response("count_lines", json!({"file": "notes.txt"}));
    let mut files = FILES.to_vec();
    files.push(("response.json", &call));
    let folder = Folder::trusted("hands-declared", &files);
    let list = folder.run(["tools", "list"]);
    assert!(list.out.contains("count_lines") && list.out.contains("Counts the lines"), "{list:?}");
    let show = folder.run(["tools", "show", "count_lines", "--json"]).json();
    assert_eq!(show["isolation"], "required");
    let ran = folder.run(["call", "count_lines", "file=notes.txt"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "2 notes.txt\n"), "{ran:?}");
    let plan = folder.run(["plan", "response.json", "--json"]).json();
    assert_eq!(plan[0]["class"], "read_only");
    let answer = folder.run(["dispatch", "response.json", "--dialect", "anthropic"]);
    assert!(answer.out.contains("2 notes.txt"), "{answer:?}");
    let why = folder.run(["explain", "count_lines", "file=/etc/passwd", "--json"]).json();
    assert_eq!(why["verdict"]["decision"], "ask", "{why}");
    let missing = folder.run(["call", "count_lines", "file=nothing.txt"]);
    assert_eq!(missing.code, Some(5), "{missing:?}");
    assert!(missing.err.contains("exit code 1"), "{missing:?}");
}

#[test]
fn what_a_rule_keeps_from_being_read_is_not_found_by_a_search() {
    let rule = "[[rule]]\nmatch = \"Read(./secrets/**)\"\ndecision = \"deny\"\n";
    let files = &[("haft.toml", rule), ("open.txt", "key = 1\n"), ("secrets/k.txt", "key = 2\n")];
    let folder = Folder::trusted("hands-kept", files);
    let search = folder.run(["call", "search_files", "pattern=key", "--workspace", ".", "--yes"]);
    assert_eq!(search.code, Some(0), "{search:?}");
    assert!(search.out.contains("key = 1") && !search.out.contains("key = 2"), "{search:?}");
    assert!(!search.out.contains("k.txt") && search.out.contains("could not be"), "{search:?}");
    let read = folder.run(["call", "read_file", "file_path=secrets/k.txt", "--workspace", "."]);
    assert_eq!(read.code, Some(2), "{read:?}");
}

#[test]
fn a_folder_that_nobody_trusts_brings_no_tools() {
    let folder = Folder::new("hands-untrusted", FILES);
    let list = folder.run(["tools", "list"]);
    assert!(!list.out.contains("count_lines"), "{list:?}");
    assert!(list.err.contains("1 declared tool of this folder does not count"), "{list:?}");
    assert_eq!(folder.run(["call", "count_lines", "file=notes.txt"]).code, Some(1));
    let trust = folder.run(["trust"]);
    assert!(trust.out.contains("adds a tool   count_lines: wc -l -- {file}"), "{trust:?}");
}

#[test]
fn a_slip_in_a_declared_tool_stops_the_command_with_its_place() {
    let slip =
        "[tool.t]\ndescription = \"x\"\ncommand = [\"sh\", \"-c\", \"{a}\"]\nparameters.a = {}\n";
    let folder = Folder::trusted("hands-good", &[]);
    #[expect(clippy::disallowed_methods, reason = "the test makes the file it points at")]
    std::fs::write(folder.work().join("haft.toml"), slip).unwrap();
    let ran = folder.run(["tools", "list"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("haft.toml:3:24: `{a}` would be read by `sh`"), "{ran:?}");
}

#[test]
fn what_asks_is_denied_where_nobody_sits_and_yes_answers_for_it() {
    let folder = Folder::new("hands-shell", &[("notes.txt", "one\n")]);
    let write = ["call", "shell", "command=echo two > made.txt", "--workspace", "."];
    let ran = folder.run(write);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(!folder.work().join("made.txt").exists());
    let ran = folder.run(write.into_iter().chain(["--yes"]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(folder.work().join("made.txt").exists());
    let json = folder
        .run([
            "call",
            "shell",
            "--args-json",
            r#"{"argv": ["cat", "notes.txt"]}"#,
            "--workspace",
            ".",
            "--yes",
            "--json",
        ])
        .json();
    assert_eq!(json["output"]["blocks"][0]["text"], "one\n");
    assert!(json["output"]["structured"]["tier"]["level"].is_string(), "{json}");
    // Without a workspace there is no such tool.
    assert_eq!(folder.run(["call", "shell", "command=ls"]).code, Some(1));
    assert_eq!(folder.run(["call", "shell", "command=ls", "--workspace", "nowhere"]).code, Some(1));
}

#[test]
fn a_path_outside_is_exit_2_and_nothing_is_touched() {
    let folder = Folder::new("hands-outside", &[("in/x", "")]);
    let ran = folder.run([
        "call",
        "shell",
        "command=echo x > y",
        "cwd=..",
        "--workspace",
        "in",
        "--yes",
        "--json",
    ]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(ran.json()["failure"]["code"], "outside_workspace");
    assert!(!folder.work().join("y").exists());
}

#[test]
fn the_rules_of_the_workspace_count_and_know_a_command_in_both_forms() {
    let rules = "[[rule]]\nmatch = \"Bash(rm *)\"\ndecision = \"deny\"\n";
    let folder = Folder::new("hands-rules", &[("haft.toml", rules), ("x", "")]);
    for arguments in [r#"{"argv": ["rm", "x"]}"#, r#"{"command": "ls; rm x"}"#] {
        let ran =
            folder.run(["call", "shell", "--args-json", arguments, "--workspace", ".", "--yes"]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
    }
    assert!(folder.work().join("x").exists());
}

#[test]
fn doctor_says_what_is_in_force_and_that_all_forbidden_acts_were_refused() {
    let ran = haft("doctor --json");
    let whole = ran.json();
    assert_eq!((ran.code, &whole["ok"]), (Some(0), &Value::Bool(true)), "{whole}");
    assert!(["namespaces", "landlock"].contains(&whole["tier"]["level"].as_str().unwrap()));
    let findings = whole["findings"].as_array().unwrap();
    assert!(findings.len() > 40, "{}", findings.len());
    assert!(findings.iter().all(|finding| finding["ok"] == true));
    let page = haft("doctor");
    assert!(page.out.contains("went as they should, 0 did not"), "{page:?}");
}
