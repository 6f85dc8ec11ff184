//! Hooks that answer instead of a person, and hooks that are only told.

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
        r#"cat > told.json; echo '{{"hookSpecificOutput": {{"hookEventName": "PermissionRequest", "decision": {decision}}}}}'"#
    )
}

async fn asked(folder: &Folder, bodies: &[&str], fails_closed: bool) -> Seen {
    let specs: Vec<_> = bodies
        .iter()
        .enumerate()
        .map(|(n, body)| {
            let mut spec = closed("PermissionRequest", folder.script(&format!("ask{n}"), body));
            spec.fails_closed = fails_closed;
            spec
        })
        .collect();
    walk(folder, &specs, strict(), vec![ToolCall::new("c1", "shell", json!({"x": "a"}))]).await
}

#[tokio::test]
async fn a_hook_may_answer_and_a_deny_beats_an_allow() {
    let folder = Folder::new();
    let allow = answers(r#"{"behavior": "allow"}"#);
    let edit = answers(r#"{"behavior": "allow", "updatedInput": {"x": "b"}}"#);
    let deny = answers(r#"{"behavior": "deny", "message": "ask me on Monday"}"#);
    assert_eq!(asked(&folder, &[&allow], true).await.text(), "a");
    let told: Value = serde_json::from_str(&folder.read("told.json")).unwrap();
    assert_eq!(told["permission_suggestions"], json!([]));
    assert_eq!(asked(&folder, &[&edit], true).await.text(), "b", "asked again, it says the same");
    for both in [[&*allow, &*deny], [&*deny, &*allow]] {
        let seen = asked(&folder, &both, true).await;
        assert!(seen.text().contains("ask me on Monday"), "{}", seen.text());
    }
    assert_eq!(asked(&folder, &["echo no >&2; exit 2"], true).await.code(), Some("declined"));
}

#[tokio::test]
async fn silence_and_trouble_allow_nothing() {
    let folder = Folder::new();
    for body in ["exit 0", "exit 1", "echo '{'", "echo yes"] {
        for fails_closed in [true, false] {
            let seen = asked(&folder, &[body], fails_closed).await;
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
async fn where_no_hook_decides_the_next_one_is_asked() {
    let folder = Folder::new();
    let silent = closed("PermissionRequest", folder.script("silent", "exit 0"));
    let hooks = Hooks::load(&[silent], folder.place()).unwrap();
    let runtime = hooks.add_with(strict(), Yes).build().unwrap();
    assert_eq!(runtime.call("shell", json!({"x": "a"})).await.unwrap().to_text(), "a");
}

#[tokio::test]
async fn a_refusal_is_told_and_cannot_be_changed() {
    let folder = Folder::new();
    let told = folder.script("told", "cat > told.tmp; mv told.tmp told.json; exit 2");
    let body = r#"echo '{"decision": "block", "reason": "no"}'"#;
    let specs = [closed("PreToolUse", folder.script("deny", body)), open("PermissionDenied", told)];
    let seen = call(&folder, &specs, "shell", json!({"x": "a"})).await;
    assert_eq!(seen.code(), Some("denied"));
    for _ in 0..500 {
        if folder.path("told.json").exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let told: Value = serde_json::from_str(&folder.read("told.json")).unwrap();
    assert_eq!((&told["tool_name"], &told["reason"]), (&json!("Bash"), &json!("no")));
}

#[tokio::test]
async fn a_hook_that_failed_allows_nothing_whatever_it_printed() {
    let folder = Folder::new();
    let allow = format!("{}; exit 1", answers(r#"{"behavior": "allow"}"#));
    for fails_closed in [true, false] {
        let seen = asked(&folder, &[&allow], fails_closed).await;
        assert!(seen.code().is_some(), "{fails_closed}");
    }
}
