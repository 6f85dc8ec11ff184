//! Command hooks after a body, after a batch, and at the start of a session.

use haft::ToolCall;
use serde_json::{Value, json};

use crate::kit::*;

#[tokio::test]
async fn post_tool_hook_can_rewrite_the_output_or_add_a_note() {
    let dir = ScriptDir::new();
    let post = |name: &str, json: &str| {
        closed("PostToolUse", dir.script(name, &format!("cat > input.json; echo '{json}'")))
    };
    let text = post(
        "a",
        r#"{"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": "better"}}"#,
    );
    let seen = call(&dir, &[text], "shell", json!({"x": "raw"})).await;
    assert_eq!(seen.text(), "better");
    let input: Value = serde_json::from_str(&dir.read("input.json")).unwrap();
    assert_eq!(input["tool_response"], "raw");
    assert_eq!(input["tool_input"], json!({"x": "raw"}));
    let old = post("b", r#"{"hookSpecificOutput": {"updatedMCPToolOutput": {"n": 1}}}"#);
    let seen = call(&dir, &[old], "shell", json!({"x": "raw"})).await;
    assert_eq!(seen.text(), r#"{"n":1}"#);
    let block = post("c", r#"{"decision": "block", "reason": "lint failed"}"#);
    let seen = call(&dir, &[block], "shell", json!({"x": "raw"})).await;
    assert_eq!(seen.text(), "raw\n[note from the host: lint failed]");
    let two = closed("PostToolUse", dir.script("d", "echo 'line 3 is wrong' >&2; exit 2"));
    let seen = call(&dir, &[two], "shell", json!({"x": "raw"})).await;
    assert_eq!(seen.text(), "raw\n[note from the host: line 3 is wrong]");
}

#[tokio::test]
async fn post_tool_hook_gets_redacted_input_and_output() {
    let dir = ScriptDir::new();
    let key = format!("ghp_{}", "a1B2".repeat(9));
    for event in ["PostToolUse", "PostToolBatch"] {
        let hook = closed(event, dir.script("a", "cat > input.json"));
        let builder = permissive().secret("door", "open sesame");
        let text = format!("open se\u{200b}same with {key}");
        let calls = vec![ToolCall::new("c1", "shell", json!({"x": text}))];
        let seen = run_calls(&dir, &[hook], builder, calls).await;
        assert!(seen.text().contains("[REDACTED:secret/door:11]"), "{}", seen.text());
        let input = dir.read("input.json");
        assert!(input.contains("[REDACTED:github-token:40]"), "{event}: {input}");
        assert!(!input.contains(&key) && !input.contains("open se"), "{event}: {input}");
    }
}

#[tokio::test]
async fn broken_post_tool_hook_fails_the_call_or_is_reported_if_it_fails_open() {
    let dir = ScriptDir::new();
    let broken = dir.script("broken", "exit 3");
    let spec = closed("PostToolUse", broken.clone());
    let seen = call(&dir, &[spec], "shell", json!({"x": "raw"})).await;
    assert_eq!(seen.code(), Some("hook_failed"));
    assert_eq!(seen.answers[0].execution(), haft::tool::Execution::Completed);
    let seen = call(&dir, &[open("PostToolUse", broken)], "shell", json!({"x": "raw"})).await;
    assert_eq!((seen.text().as_str(), seen.open.len()), ("raw", 1));
}

#[tokio::test]
async fn failed_call_runs_only_post_tool_use_failure_hooks() {
    let dir = ScriptDir::new();
    let success = closed("PostToolUse", dir.script("success", "touch success.txt"));
    let body =
        r#"cat > input.json; echo '{"hookSpecificOutput": {"additionalContext": "try later"}}'"#;
    let failure = closed("PostToolUseFailure", dir.script("failure", body));
    let seen = call(&dir, &[success, failure], "fails", json!({})).await;
    assert_eq!(seen.text(), "tool_failed: no luck\n[note from the host: try later]");
    assert!(!dir.path("success.txt").exists());
    let input: Value = serde_json::from_str(&dir.read("input.json")).unwrap();
    assert_eq!(input["error"], "tool_failed: no luck");
    assert_eq!(input["is_interrupt"], false);
}

#[tokio::test]
async fn batch_hook_gets_all_calls_and_blocking_ends_the_run() {
    let dir = ScriptDir::new();
    let hook = dir.script("batch", "cat > input.json; echo 'review first' >&2; exit 2");
    let calls = vec![
        ToolCall::new("c1", "shell", json!({"x": "a"})),
        ToolCall::new("c2", "fails", json!({})),
        ToolCall::new("c3", "missing", json!({})),
    ];
    let seen = run_calls(&dir, &[closed("PostToolBatch", hook)], permissive(), calls).await;
    assert_eq!(seen.halted.as_deref(), Some("review first"));
    let input: Value = serde_json::from_str(&dir.read("input.json")).unwrap();
    let calls = input["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 3);
    assert_eq!(
        calls[0],
        json!({"tool_name": "Bash", "tool_input": {"x": "a"}, "tool_use_id": "c1", "tool_response": "a"})
    );
    assert_eq!(calls[1]["tool_response"], "tool_failed: no luck");
    assert_eq!(calls[2]["tool_name"], "missing");
}

#[tokio::test]
async fn session_start_hook_runs_once_and_its_text_reaches_the_model() {
    let dir = ScriptDir::new();
    let hook = dir.script("start", "cat > input.json; echo x >> count.txt; echo 'it is Monday'");
    let mut spec = closed("SessionStart", hook);
    spec.matcher = Some("startup".to_owned());
    let seen = call(&dir, &[spec], "shell", json!({"x": "a"})).await;
    assert_eq!(seen.text(), "a\n[note from the host: it is Monday]");
    assert_eq!(dir.read("count.txt"), "x\n");
    let broken = closed("SessionStart", dir.script("broken", "exit 1"));
    let seen = call(&dir, &[broken], "shell", json!({"x": "a"})).await;
    assert_eq!(seen.code(), Some("hook_failed"));
}
