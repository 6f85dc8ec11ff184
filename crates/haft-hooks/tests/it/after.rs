//! Commands after a body, after a batch, and at the start of a session.

use haft::ToolCall;
use serde_json::{Value, json};

use crate::kit::*;

#[tokio::test]
async fn a_hook_after_the_body_may_change_the_output_or_object_to_it() {
    let folder = Folder::new();
    let post = |name: &str, json: &str| {
        closed("PostToolUse", folder.script(name, &format!("cat > told.json; echo '{json}'")))
    };
    let text = post(
        "a",
        r#"{"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": "better"}}"#,
    );
    let seen = call(&folder, &[text], "shell", json!({"x": "raw"})).await;
    assert_eq!(seen.text(), "better");
    let told: Value = serde_json::from_str(&folder.read("told.json")).unwrap();
    assert_eq!(told["tool_response"], "raw");
    assert_eq!(told["tool_input"], json!({"x": "raw"}));
    let old = post("b", r#"{"hookSpecificOutput": {"updatedMCPToolOutput": {"n": 1}}}"#);
    let seen = call(&folder, &[old], "shell", json!({"x": "raw"})).await;
    assert_eq!(seen.text(), r#"{"n":1}"#);
    let block = post("c", r#"{"decision": "block", "reason": "lint failed"}"#);
    let seen = call(&folder, &[block], "shell", json!({"x": "raw"})).await;
    assert_eq!(seen.text(), "raw\n[note from the host: lint failed]");
    let two = closed("PostToolUse", folder.script("d", "echo 'line 3 is wrong' >&2; exit 2"));
    let seen = call(&folder, &[two], "shell", json!({"x": "raw"})).await;
    assert_eq!(seen.text(), "raw\n[note from the host: line 3 is wrong]");
}

#[tokio::test]
async fn a_hook_after_the_body_is_told_no_secret() {
    let folder = Folder::new();
    let key = format!("ghp_{}", "a1B2".repeat(9));
    for event in ["PostToolUse", "PostToolBatch"] {
        let hook = closed(event, folder.script("a", "cat > told.json"));
        let builder = permissive().secret("door", "open sesame");
        let text = format!("open se\u{200b}same with {key}");
        let calls = vec![ToolCall::new("c1", "shell", json!({"x": text}))];
        let seen = walk(&folder, &[hook], builder, calls).await;
        assert!(seen.text().contains("[REDACTED:secret/door:11]"), "{}", seen.text());
        let told = folder.read("told.json");
        assert!(told.contains("[REDACTED:github-token:40]"), "{event}: {told}");
        assert!(!told.contains(&key) && !told.contains("open se"), "{event}: {told}");
    }
}

#[tokio::test]
async fn a_broken_hook_after_the_body_fails_a_call_that_ran_or_says_that_it_failed_open() {
    let folder = Folder::new();
    let broken = folder.script("broken", "exit 3");
    let spec = closed("PostToolUse", broken.clone());
    let seen = call(&folder, &[spec], "shell", json!({"x": "raw"})).await;
    assert_eq!(seen.code(), Some("hook_failed"));
    assert_eq!(seen.answers[0].execution(), haft::tool::Execution::Completed);
    let seen = call(&folder, &[open("PostToolUse", broken)], "shell", json!({"x": "raw"})).await;
    assert_eq!((seen.text().as_str(), seen.open.len()), ("raw", 1));
}

#[tokio::test]
async fn failures_have_an_event_of_their_own() {
    let folder = Folder::new();
    let success = closed("PostToolUse", folder.script("success", "touch success.txt"));
    let body =
        r#"cat > told.json; echo '{"hookSpecificOutput": {"additionalContext": "try later"}}'"#;
    let failure = closed("PostToolUseFailure", folder.script("failure", body));
    let seen = call(&folder, &[success, failure], "fails", json!({})).await;
    assert_eq!(seen.text(), "tool_failed: no luck\n[note from the host: try later]");
    assert!(!folder.path("success.txt").exists());
    let told: Value = serde_json::from_str(&folder.read("told.json")).unwrap();
    assert_eq!(told["error"], "tool_failed: no luck");
    assert_eq!(told["is_interrupt"], false);
}

#[tokio::test]
async fn a_batch_is_told_whole_and_blocking_it_ends_the_run() {
    let folder = Folder::new();
    let hook = folder.script("batch", "cat > told.json; echo 'review first' >&2; exit 2");
    let calls = vec![
        ToolCall::new("c1", "shell", json!({"x": "a"})),
        ToolCall::new("c2", "fails", json!({})),
        ToolCall::new("c3", "missing", json!({})),
    ];
    let seen = walk(&folder, &[closed("PostToolBatch", hook)], permissive(), calls).await;
    assert_eq!(seen.halted.as_deref(), Some("review first"));
    let told: Value = serde_json::from_str(&folder.read("told.json")).unwrap();
    let calls = told["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 3);
    assert_eq!(
        calls[0],
        json!({"tool_name": "Bash", "tool_input": {"x": "a"}, "tool_use_id": "c1", "tool_response": "a"})
    );
    assert_eq!(calls[1]["tool_response"], "tool_failed: no luck");
    assert_eq!(calls[2]["tool_name"], "missing");
}

#[tokio::test]
async fn a_session_starts_once_and_its_words_reach_the_model() {
    let folder = Folder::new();
    let hook = folder.script("start", "cat > told.json; echo x >> count.txt; echo 'it is Monday'");
    let mut spec = closed("SessionStart", hook);
    spec.matcher = Some("startup".to_owned());
    let seen = call(&folder, &[spec], "shell", json!({"x": "a"})).await;
    assert_eq!(seen.text(), "a\n[note from the host: it is Monday]");
    assert_eq!(folder.read("count.txt"), "x\n");
    let broken = closed("SessionStart", folder.script("broken", "exit 1"));
    let seen = call(&folder, &[broken], "shell", json!({"x": "a"})).await;
    assert_eq!(seen.code(), Some("hook_failed"));
}
