//! Hooks of the directory: listed, tested, and called around real calls.

#![cfg(unix)]

use std::io::Write as _;
use std::process::Stdio;

use crate::{Ran, TempDir};

const SETTINGS: &str = r#"{
  "hooks": {
    "PreToolUse": [
      {"matcher": "Bash|read_file", "hooks": [{"type": "command", "command": "sh guard.sh", "timeout": 10}]}
    ]
  }
}"#;

/// Blocks input that mentions `rm` or a file with 13.
const GUARD: &str = r#"
input=$(cat)
case "$input" in
  *'rm '*|*13*) echo "not that" >&2; exit 2 ;;
esac
"#;

fn dir(name: &str) -> TempDir {
    TempDir::trusted(name, &[(".claude/settings.json", SETTINGS), ("guard.sh", GUARD)])
}

#[test]
fn hooks_are_listed_with_their_location() {
    let dir = dir("hooks-list");
    let ran = dir.run(["hooks", "list", "--quiet"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.out.starts_with(
            "PreToolUse  Bash|read_file  sh guard.sh  fails open  .claude/settings.json:"
        ),
        "{}",
        ran.out
    );
    let json = dir.run(["hooks", "list", "--json"]).json();
    assert_eq!(json[0]["event"], "PreToolUse");
    assert_eq!(json[0]["command"], "sh guard.sh");
}

#[test]
fn hooks_of_an_untrusted_directory_are_listed_as_such() {
    let dir = TempDir::new("hooks-untrusted", &[(".claude/settings.json", SETTINGS)]);
    let ran = dir.run(["hooks", "list"]);
    assert!(ran.out.contains("sh guard.sh  not trusted, does not run"), "{ran:?}");
    assert!(ran.err.contains("haft trust"), "{}", ran.err);
    let json = dir.run(["hooks", "list", "--json"]).json();
    assert_eq!(json[0]["trusted"], false, "{json}");
}

#[test]
fn hook_test_shows_the_answer_of_each_hook() {
    let dir = dir("hooks-test");
    let fed = |fixture: &str, json: bool| {
        let mut command = dir.command();
        command.args(["hooks", "test", "PreToolUse", "--quiet"]).args(json.then_some("--json"));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(fixture.as_bytes()).unwrap();
        Ran::of(child.wait_with_output().unwrap())
    };
    let bad = fed(r#"{"tool_name": "Bash", "tool_input": {"command": "rm -rf x"}}"#, false);
    assert_eq!(bad.code, Some(2), "{bad:?}");
    assert!(bad.out.contains("exit 2") && bad.out.contains("not that"), "{}", bad.out);
    assert!(bad.err.contains("the call would be blocked"), "{}", bad.err);
    let good = fed(r#"{"tool_name": "Bash", "tool_input": {"command": "ls"}}"#, true);
    assert_eq!(good.code, Some(0), "{good:?}");
    assert_eq!(good.json()["passes"], true);
    assert_eq!(good.json()["hooks"][0]["exit_code"], 0);
    let other = fed(r#"{"tool_name": "Write", "tool_input": {}}"#, true);
    assert!(other.json()["hooks"][0]["skipped"].is_string(), "{other:?}");
    assert_eq!(fed("[]", false).code, Some(1));
}

#[test]
fn hook_test_generates_input_without_stdin() {
    let dir = dir("hooks-fixture");
    let ran = dir.run(["hooks", "test", "PreToolUse", "--tool", "Bash", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.json()["hooks"][0]["exit_code"], 0);
    let wrong = dir.run(["hooks", "test", "PreTolUse"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.err.contains("did you mean `PreToolUse`?"), "{}", wrong.err);
}

#[test]
fn hook_of_a_trusted_directory_blocks_a_call() {
    let dir = dir("hooks-call");
    let call = |a: &str| dir.run(["call", "read_file", a, "--quiet"]);
    assert_eq!(call("file_path=notes/garden.txt").out, crate::GARDEN);
    let stopped = call("file_path=13.txt");
    assert!(stopped.code != Some(0) && stopped.out.is_empty(), "{stopped:?}");
    assert!(stopped.err.contains("not that"), "{}", stopped.err);
}
