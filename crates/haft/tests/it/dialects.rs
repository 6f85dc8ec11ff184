//! Complete responses in, complete result messages out.

use haft::{Dialect, ErrorKind};
use serde_json::{Value, json};

use crate::kit::*;

fn runtime() -> haft::Runtime {
    permissive(vec![quick(read("search")), failing(read("fails"))]).build().unwrap()
}

#[tokio::test]
async fn anthropic_results_are_one_user_message() {
    let response = json!({
        "role": "assistant", "stop_reason": "tool_use",
        "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "t1", "name": "search", "input": {"x": "a"}},
            {"type": "tool_use", "id": "t2", "name": "fails", "input": {}},
        ],
    });
    let turn = runtime().run().turn().await.unwrap();
    let message = turn.dispatch(Dialect::Anthropic, &response).await.unwrap();
    assert_eq!(
        message,
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": framed(0, "search", "search(a)")},
            {"type": "tool_result", "tool_use_id": "t2", "content": framed_failure(1, "fails", "tool_failed: no luck"), "is_error": true},
        ]})
    );
}

#[tokio::test]
async fn openai_results_are_one_item_per_call() {
    let response = json!({
        "status": "completed",
        "output": [
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "call_id": "c1", "name": "search", "arguments": "{\"x\":\"a\"}", "status": "completed"},
            {"type": "function_call", "call_id": "c2", "name": "search", "arguments": "{\"x\":"},
        ],
    });
    let turn = runtime().run().turn().await.unwrap();
    let items = turn.dispatch(Dialect::OpenAiResponses, &response).await.unwrap();
    assert_eq!(
        items[0],
        json!({"type": "function_call_output", "call_id": "c1", "output": framed(0, "search", "search(a)")})
    );
    assert!(items[1]["output"].as_str().unwrap().contains("\nunparseable_arguments: "));
    assert_eq!(items.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn truncated_and_refused_responses_run_nothing() {
    for (dialect, response) in [
        (
            Dialect::Anthropic,
            json!({"stop_reason": "max_tokens", "content": [
            {"type": "tool_use", "id": "a", "name": "search", "input": {}}]}),
        ),
        (
            Dialect::Anthropic,
            json!({"content": [
            {"type": "tool_use", "id": "a", "name": "search", "input": {}}]}),
        ),
        (
            Dialect::OpenAiResponses,
            json!({"status": "incomplete", "output": [
            {"type": "function_call", "call_id": "a", "name": "search", "arguments": "{}"}]}),
        ),
        (
            Dialect::OpenAiResponses,
            json!({"status": "completed", "output": [
            {"type": "message", "content": [{"type": "refusal", "refusal": "no"}]},
            {"type": "function_call", "call_id": "a", "name": "search", "arguments": "{}"}]}),
        ),
    ] {
        let turn = runtime().run().turn().await.unwrap();
        let message = turn.dispatch(dialect, &response).await.unwrap();
        assert!(message.to_string().contains("not_run"), "{response} -> {message}");
    }
}

#[tokio::test]
async fn response_of_another_dialect_is_an_error_with_a_hint() {
    let turn = runtime().run().turn().await.unwrap();
    let error = turn.dispatch(Dialect::OpenAiResponses, &json!({"content": []})).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadResponse);
    assert!(error.to_string().contains("hint: it looks like anthropic"), "{error}");
    for junk in [json!(null), json!([]), json!("x"), json!({"content": 1})] {
        for dialect in Dialect::ALL {
            assert!(dialect.parse(&junk).is_err());
        }
    }
    assert!("antropic".parse::<Dialect>().unwrap_err().to_string().contains("`anthropic`"));
}

#[tokio::test]
async fn invalid_calls_are_answered() {
    let response = json!({"stop_reason": "tool_use", "content": [
        {"type": "tool_use"}, {"type": "tool_use", "id": 5, "name": ["x"], "input": "y"}, 7, null,
    ]});
    let turn = runtime().run().turn().await.unwrap();
    let message = turn.dispatch(Dialect::Anthropic, &response).await.unwrap();
    let results = message["content"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    assert!(results.iter().all(|r| r["is_error"] == Value::Bool(true)));
}
