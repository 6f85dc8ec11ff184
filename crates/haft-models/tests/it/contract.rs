//! Checks a request against what the provider documents: method, path, headers, required fields and
//! their types. `scripts/vendor-types` checks the same bodies with the vendors' types.

use haft_models::Provider;
use serde_json::Value;

use crate::{kit::KEY, server::Received};

#[track_caller]
pub(crate) fn check(provider: Provider, is_streaming: bool, request: &Received) {
    assert_eq!(request.method, "POST");
    let path = match (provider, is_streaming) {
        (Provider::Anthropic, _) => "/v1/messages",
        (Provider::OpenAi, _) => "/v1/responses",
        (Provider::Gemini, true) => "/v1beta/models/some-model:streamGenerateContent?alt=sse",
        (Provider::Gemini, false) => "/v1beta/models/some-model:generateContent",
        _ => "/v1/chat/completions",
    };
    assert_eq!(request.target, path);
    assert_eq!(request.header("content-type"), Some("application/json"));
    let accept = if is_streaming { "text/event-stream" } else { "application/json" };
    assert_eq!(request.header("accept"), Some(accept));
    assert!(request.header("user-agent").unwrap().starts_with("haft/"));
    let bearer = format!("Bearer {KEY}");
    let (name, value) = match provider {
        Provider::Anthropic => ("x-api-key", KEY),
        Provider::Gemini => ("x-goog-api-key", KEY),
        _ => ("authorization", bearer.as_str()),
    };
    assert_eq!(request.header(name), Some(value));
    let others = ["x-api-key", "x-goog-api-key", "authorization"];
    for other in others.into_iter().filter(|other| *other != name) {
        assert_eq!(request.header(other), None);
    }
    assert!(!request.target.contains(KEY) && !request.body.to_string().contains(KEY));
    check_body(provider, is_streaming, &request.body);
}

#[track_caller]
fn check_body(provider: Provider, is_streaming: bool, body: &Value) {
    let text = |at: &str| body.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let number = |at: &str| body.pointer(at).and_then(Value::as_u64).unwrap_or_default();
    let list = |at: &str| body.pointer(at).and_then(Value::as_array).map_or(0, Vec::len);
    let keys: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
    let (allowed, tool): (&[&str], &str) = match provider {
        Provider::Anthropic => {
            assert_eq!(text("/model"), "some-model");
            assert!(number("/max_tokens") > 0 && list("/messages") > 0);
            assert_eq!(text("/messages/0/role"), "user");
            assert_eq!(text("/tools/0/input_schema/type"), "object");
            assert!(body["system"].is_array() || body["system"].is_string());
            (&["model", "max_tokens", "messages", "system", "tools", "stream"], "/tools/0/name")
        }
        Provider::OpenAi => {
            assert_eq!(text("/model"), "some-model");
            assert!(number("/max_output_tokens") > 0 && list("/input") > 0);
            assert_eq!(text("/tools/0/type"), "function");
            assert!(body.pointer("/tools/0/parameters").unwrap().is_object());
            assert!(!text("/instructions").is_empty() || body["input"][0]["role"] == "system");
            (
                &["model", "max_output_tokens", "input", "instructions", "tools", "stream"],
                "/tools/0/name",
            )
        }
        Provider::Gemini => {
            assert!(number("/generationConfig/maxOutputTokens") > 0 && list("/contents") > 0);
            assert_eq!(text("/contents/0/role"), "user");
            assert!(!text("/systemInstruction/parts/0/text").is_empty());
            assert_eq!(body.get("stream"), None);
            (
                &["contents", "systemInstruction", "generationConfig", "tools", "toolConfig"],
                "/tools/0/functionDeclarations/0/name",
            )
        }
        _ => {
            assert_eq!(text("/model"), "some-model");
            let own = provider == Provider::Compatible;
            let limit = if own { "/max_tokens" } else { "/max_completion_tokens" };
            assert!(number(limit) > 0 && list("/messages") > 1);
            assert!(matches!(text("/messages/0/role"), "system" | "developer"));
            assert_eq!(text("/tools/0/type"), "function");
            assert_eq!(body["stream_options"]["include_usage"] == true, is_streaming);
            let limit = if own { "max_tokens" } else { "max_completion_tokens" };
            return check_keys(
                &keys,
                &["model", limit, "messages", "tools", "stream", "stream_options"],
                body,
                "/tools/0/function/name",
                is_streaming,
            );
        }
    };
    check_keys(&keys, allowed, body, tool, is_streaming && provider != Provider::Gemini);
}

#[track_caller]
fn check_keys(keys: &[&str], allowed: &[&str], body: &Value, tool: &str, is_streaming: bool) {
    for key in keys {
        assert!(allowed.contains(key), "`{key}` in {body:#}");
    }
    assert_eq!(body.pointer(tool).and_then(Value::as_str), Some("population"));
    assert_eq!(body.get("stream"), is_streaming.then_some(&Value::Bool(true)));
}

/// The content of the result of the call, in the second request.
#[track_caller]
pub(crate) fn result_text(provider: Provider, body: &Value) -> String {
    let found = match provider {
        Provider::Anthropic => {
            let last = body["messages"].as_array().unwrap().last().unwrap();
            let block = &last["content"][0];
            assert_eq!(
                (&block["type"], &block["tool_use_id"]),
                (&"tool_result".into(), &crate::wire::CALL.into())
            );
            block["content"].clone()
        }
        Provider::OpenAi => {
            let last = body["input"].as_array().unwrap().last().unwrap();
            assert_eq!(last["type"], "function_call_output");
            assert_eq!(last["call_id"], crate::wire::CALL);
            last["output"].clone()
        }
        Provider::Gemini => {
            let last = body["contents"].as_array().unwrap().last().unwrap();
            let signed = &body["contents"][1]["parts"][0]["thoughtSignature"];
            assert_eq!(signed, "c2lnbmF0dXJl", "what the provider wants back is echoed");
            last["parts"][0]["functionResponse"]["response"].clone()
        }
        _ => {
            let last = body["messages"].as_array().unwrap().last().unwrap();
            assert_eq!(
                (&last["role"], &last["tool_call_id"]),
                (&"tool".into(), &crate::wire::CALL.into())
            );
            last["content"].clone()
        }
    };
    found.to_string()
}
