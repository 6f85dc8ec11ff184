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

/// Blocks input that mentions `rm` or the file `13.txt`. A session id may contain any number.
const GUARD: &str = r#"
input=$(cat)
case "$input" in
  *'rm '*|*13.txt*) echo "not that" >&2; exit 2 ;;
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

/// Writes its input and its environment down.
const RECORDER: &str = "[hooks]\npass_env = [\"DEPLOY_ENV\", \"TEAM_*\"]\n\n[[hooks.PreToolUse]]\n\
    command = \"cat > input.json; env > env.txt\"\n";

#[test]
fn hook_gets_a_session_and_the_listed_variables() {
    let dir = TempDir::trusted("hooks-session", &[("haft.toml", RECORDER)]);
    let input = |session: Option<&str>| -> serde_json::Value {
        let mut command = dir.command();
        command.args(["call", "list_files", "--quiet"]);
        command.env("DEPLOY_ENV", "prod").env("TEAM_NAME", "blue").env("OTHER", "x");
        command.envs(session.map(|id| ("HAFT_SESSION_ID", id)));
        let ran = Ran::of(command.output().unwrap());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        serde_json::from_str(&crate::read(&dir.work().join("input.json"))).unwrap()
    };
    let (first, second) = (input(None), input(None));
    let id = first["session_id"].as_str().unwrap();
    assert_eq!((id.len(), id.matches('-').count()), (36, 4), "a UUID: {id}");
    assert_ne!(first["session_id"], second["session_id"], "two commands are two sessions");
    assert_eq!(first["transcript_path"], "", "one call has no transcript");
    assert_eq!(input(Some("build-42"))["session_id"], "build-42");
    assert_ne!(input(Some("a b\n"))["session_id"], "a b\n", "an odd id is not used");
    let env = crate::read(&dir.work().join("env.txt"));
    assert!(env.contains("DEPLOY_ENV=prod\n") && env.contains("TEAM_NAME=blue\n"), "{env}");
    assert!(!env.contains("OTHER="), "{env}");
}

#[test]
fn hook_of_a_run_gets_its_stored_conversation() {
    let script = "{\"script\": 1, \"name\": \"x\"}\n\
        {\"calls\": [{\"id\": \"c\", \"name\": \"list_files\", \"arguments\": {}}]}\n\
        {\"text\": \"Done.\"}\n";
    let files = [("haft.toml", RECORDER), ("agent.jsonl", script)];
    let dir = TempDir::trusted("hooks-transcript", &files);
    let ran = dir.run(["run", "x", "--model", "script:agent.jsonl", "--workspace", "."]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let input: serde_json::Value =
        serde_json::from_str(&crate::read(&dir.work().join("input.json"))).unwrap();
    let runs = dir.run(["runs", "list", "--json"]).json();
    assert_eq!(input["session_id"], runs[0]["run"], "{input}");
    let transcript = std::path::Path::new(input["transcript_path"].as_str().unwrap());
    assert!(transcript.is_absolute() && transcript.is_file(), "{input}");
    assert!(crate::read(transcript).contains("list_files"));
}

#[test]
fn untrusted_directory_cannot_pass_variables_to_hooks() {
    let dir = TempDir::new("hooks-env-untrusted", &[("haft.toml", RECORDER)]);
    let ran = dir.run(["hooks", "list"]);
    assert!(ran.err.contains("2 passed variables of this directory do not apply"), "{}", ran.err);
}
