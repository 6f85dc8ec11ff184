//! Completes bare messages: the assistant message or the calls alone, as they are in a history.
//!
//! In: JSON, and the dialect if it is named. Out: the dialect and a complete response. A bare message has no
//! stop reason; it comes from a finished response, so it counts as finished. A complete response is
//! returned unchanged: its own stop reason says whether its calls may run.

use haft::Dialect;
use serde_json::{Map, Value, json};

/// Keys that only a complete response has.
const RESPONSE_KEYS: [&str; 5] = ["id", "type", "usage", "stop_reason", "stopReason"];

/// Returns the dialect, named or detected, and the complete response.
pub(crate) fn complete(response: Value, named: Option<Dialect>) -> (Option<Dialect>, Value) {
    match wrapped(&response, named) {
        Some((dialect, whole)) if named.is_none_or(|named| named == dialect) => {
            (Some(dialect), whole)
        }
        _ => (named.or_else(|| Dialect::detect(&response)), response),
    }
}

fn wrapped(message: &Value, named: Option<Dialect>) -> Option<(Dialect, Value)> {
    let is_item = |item: &Value| {
        let kind = item.get("type").and_then(Value::as_str);
        matches!(kind, Some("function_call" | "custom_tool_call"))
    };
    let responses = |items: Value| json!({"status": "completed", "output": items});
    match message {
        Value::Array(items) if items.iter().any(is_item) => {
            Some((Dialect::OpenAiResponses, responses(message.clone())))
        }
        Value::Object(_) if is_item(message) => {
            Some((Dialect::OpenAiResponses, responses(json!([message]))))
        }
        Value::Object(map) => bare_object(map, message, named),
        _ => None,
    }
}

fn bare_object(
    map: &Map<String, Value>,
    message: &Value,
    named: Option<Dialect>,
) -> Option<(Dialect, Value)> {
    let list = |key: &str| map.get(key).and_then(Value::as_array);
    if map.len() == 2
        && map.get("name").is_some_and(Value::is_string)
        && map.contains_key("arguments")
    {
        let whole = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": message});
        return Some((Dialect::Mcp, whole));
    }
    match map.get("role").and_then(Value::as_str)? {
        "model" if list("parts").is_some() => {
            let dialect = named.filter(|d| *d == Dialect::GeminiJson).unwrap_or(Dialect::Gemini);
            Some((dialect, json!({"candidates": [{"content": message, "finishReason": "STOP"}]})))
        }
        "assistant" if RESPONSE_KEYS.iter().any(|key| map.contains_key(*key)) => None,
        "assistant" if list("tool_calls").is_some() => {
            let calls = list("tool_calls").into_iter().flatten();
            // Ollama writes arguments as an object, the others as text.
            let is_object =
                |call: &Value| call.pointer("/function/arguments").is_some_and(Value::is_object);
            let is_ollama = match named {
                Some(named) => named == Dialect::Ollama,
                None => calls.clone().count() > 0 && calls.clone().all(is_object),
            };
            if is_ollama {
                let whole = json!({"message": message, "done": true, "done_reason": "stop"});
                return Some((Dialect::Ollama, whole));
            }
            let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
            let whole = json!({"choices": [choice]});
            let dialect = named.filter(|d| *d == Dialect::Mistral);
            let dialect = dialect.or_else(|| Dialect::detect(&whole))?;
            let is_named = named == Some(Dialect::OpenAiChat);
            Some((if is_named { Dialect::OpenAiChat } else { dialect }, whole))
        }
        "assistant" => {
            let blocks = list("content")?;
            if blocks.iter().any(|block| block.get("toolUse").is_some()) {
                let output = json!({"message": message});
                return Some((
                    Dialect::Bedrock,
                    json!({"output": output, "stopReason": "tool_use"}),
                ));
            }
            let is_typed = blocks.iter().any(|block| block.get("type").is_some());
            let mut whole = message.clone();
            whole["stop_reason"] = json!("tool_use");
            is_typed.then_some((Dialect::Anthropic, whole))
        }
        _ => None,
    }
}
