//! Hooks as approvers (`PermissionRequest`) and as observers (`PermissionDenied`).

use std::time::Duration;

use haft::{
    BoxFuture, Failure, ToolCall,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
};
use haft_hooks::Hooks;
use serde_json::{Value, json};

use crate::kit::*;

fn answers(decision: &str) -> String {
    format!(
        r#"cat > input.json; echo '{{"hookSpecificOutput": {{"hookEventName": "PermissionRequest", "decision": {decision}}}}}'"#
    )
}

async fn asked(dir: &ScriptDir, bodies: &[&str], fails_closed: bool) -> Seen {
    let specs: Vec<_> = bodies
        .iter()
        .enumerate()
        .map(|(n, body)| {
            let mut spec = closed("PermissionRequest", dir.script(&format!("ask{n}"), body));
            spec.fails_closed = fails_closed;
            spec
        })
        .collect();
    run_calls(dir, &specs, strict(), vec![ToolCall::new("c1", "shell", json!({"x": "a"}))]).await
}

#[tokio::test]
async fn approver_hook_can_answer_and_a_deny_beats_an_allow() {
    let dir = ScriptDir::new();
    let allow = answers(r#"{"behavior": "allow"}"#);
    let edit = answers(r#"{"behavior": "allow", "updatedInput": {"x": "b"}}"#);
    let deny = answers(r#"{"behavior": "deny", "message": "ask me on Monday"}"#);
    assert_eq!(asked(&dir, &[&allow], true).await.text(), "a");
    let input: Value = serde_json::from_str(&dir.read("input.json")).unwrap();
    assert_eq!(input["permission_suggestions"], json!([]));
    assert_eq!(asked(&dir, &[&edit], true).await.text(), "b", "asked again, it says the same");
    for both in [[&*allow, &*deny], [&*deny, &*allow]] {
        let seen = asked(&dir, &both, true).await;
        assert!(seen.text().contains("ask me on Monday"), "{}", seen.text());
    }
    assert_eq!(asked(&dir, &["echo no >&2; exit 2"], true).await.code(), Some("declined"));
}

#[tokio::test]
async fn approver_hook_without_a_decision_or_with_an_error_allows_nothing() {
    let dir = ScriptDir::new();
    for body in ["exit 0", "exit 1", "echo '{'", "echo yes"] {
        for fails_closed in [true, false] {
            let seen = asked(&dir, &[body], fails_closed).await;
            assert!(seen.code().is_some(), "{body} {fails_closed}");
        }
    }
}

struct Yes;

impl Approver for Yes {
    fn ask<'a>(
        &'a self,
        _: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(async { Ok(ApprovalResponse::allow()) })
    }
}

#[tokio::test]
async fn next_approver_is_asked_if_no_hook_decides() {
    let dir = ScriptDir::new();
    let silent = closed("PermissionRequest", dir.script("silent", "exit 0"));
    let hooks = Hooks::load(&[silent], dir.project()).unwrap();
    let runtime = hooks.add_with(strict(), Yes).build().unwrap();
    assert_eq!(runtime.call("shell", json!({"x": "a"})).await.unwrap().to_text(), "a");
}

#[tokio::test]
async fn permission_denied_hook_is_notified_and_cannot_change_the_denial() {
    let dir = ScriptDir::new();
    let input = dir.script("input", "cat > input.tmp; mv input.tmp input.json; exit 2");
    let body = r#"echo '{"decision": "block", "reason": "no"}'"#;
    let specs = [closed("PreToolUse", dir.script("deny", body)), open("PermissionDenied", input)];
    let seen = call(&dir, &specs, "shell", json!({"x": "a"})).await;
    assert_eq!(seen.code(), Some("denied"));
    for _ in 0..500 {
        if dir.path("input.json").exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let input: Value = serde_json::from_str(&dir.read("input.json")).unwrap();
    assert_eq!((&input["tool_name"], &input["reason"]), (&json!("Bash"), &json!("no")));
}

#[tokio::test]
async fn failed_approver_hook_allows_nothing_even_if_it_printed_an_allow() {
    let dir = ScriptDir::new();
    let allow = format!("{}; exit 1", answers(r#"{"behavior": "allow"}"#));
    for fails_closed in [true, false] {
        let seen = asked(&dir, &[&allow], fails_closed).await;
        assert!(seen.code().is_some(), "{fails_closed}");
    }
}
