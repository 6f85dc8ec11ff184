//! Completes bare messages: the assistant message or the calls alone, as they are in a history.
//!
//! In: JSON, and the dialect if it is named. Out: the dialect and a complete response. The message
//! of a history has no stop reason in any dialect, so it counts as finished. A complete response is
//! returned unchanged: its own stop reason says whether its calls may run.
//!
//! FAIL CLOSED: a message with any key of a complete response is not bare. If its stop reason is
//! missing, nothing runs.

use haft::Dialect;
use serde_json::{Map, Value, json};

/// Keys that only a complete response has, in any dialect.
const RESPONSE_KEYS: [&str; 14] = [
    "id",
    "type",
    "model",
    "usage",
    "usageMetadata",
    "stop_reason",
    "stop_sequence",
    "stopReason",
    "finish_reason",
    "finishReason",
    "done",
    "done_reason",
    "status",
    "incomplete_details",
];

/// A response, and how it was given.
pub(crate) struct CompleteResponse {
    /// The dialect, named or detected.
    pub(crate) dialect: Option<Dialect>,
    pub(crate) response: Value,
    /// Whether it was a bare message, whose stop reason is assumed.
    pub(crate) is_stop_assumed: bool,
}

impl CompleteResponse {
    /// Why the dialect could be another one; `None` if the format decides it.
    pub(crate) fn dialect_note(&self, named: Option<Dialect>) -> Option<String> {
        let dialect = self.dialect.filter(|_| named.is_none() && self.is_stop_assumed)?;
        let others = match dialect {
            Dialect::OpenAiChat => "; `--dialect mistral` answers as mistral",
            Dialect::Gemini => "; `--dialect gemini-json` answers as gemini-json",
            _ => "",
        };
        Some(format!("the message was read as {dialect}{others}"))
    }
}

/// Completes a bare message.
pub(crate) fn complete(response: Value, named: Option<Dialect>) -> CompleteResponse {
    match wrapped(&response, named) {
        Some((dialect, whole)) if named.is_none_or(|named| named == dialect) => CompleteResponse {
            dialect: Some(dialect),
            response: whole,
            // A request of MCP never has a stop reason.
            is_stop_assumed: dialect != Dialect::Mcp,
        },
        _ => {
            let dialect = named.or_else(|| Dialect::detect(&response));
            CompleteResponse { dialect, response, is_stop_assumed: false }
        }
    }
}

fn wrapped(message: &Value, named: Option<Dialect>) -> Option<(Dialect, Value)> {
    let is_item = |item: &Value| {
        let kind = item.get("type").and_then(Value::as_str);
        matches!(kind, Some("function_call" | "custom_tool_call"))
    };
    // An item that was not finished says so.
    let is_finished = |item: &Value| {
        item.get("status").is_none_or(|status| matches!(status.as_str(), Some("completed")))
    };
    let responses = |items: Value| {
        let is_complete = items.as_array().is_some_and(|items| items.iter().all(is_finished));
        json!({"status": if is_complete { "completed" } else { "incomplete" }, "output": items})
    };
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
    if RESPONSE_KEYS.iter().any(|key| map.contains_key(*key)) {
        return None;
    }
    match map.get("role").and_then(Value::as_str)? {
        "model" if list("parts").is_some() => {
            let dialect = named.filter(|d| *d == Dialect::GeminiJson).unwrap_or(Dialect::Gemini);
            Some((dialect, json!({"candidates": [{"content": message, "finishReason": "STOP"}]})))
        }
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

#[cfg(test)]
mod tests {
    use haft::turn::StopReason;

    use super::*;

    fn stop_of(message: Value) -> (StopReason, bool) {
        let complete = complete(message, None);
        let stop = complete.dialect.unwrap().parse(&complete.response).unwrap().stop;
        (stop, complete.is_stop_assumed)
    }

    #[test]
    fn message_with_a_key_of_a_response_is_not_completed() {
        let block = json!([{"type": "tool_use", "id": "a", "name": "x", "input": {}}]);
        let bare = json!({"role": "assistant", "content": block});
        assert_eq!(stop_of(bare.clone()), (StopReason::Done, true));
        for key in ["id", "type", "model", "usage", "stop_sequence"] {
            let mut whole = bare.clone();
            whole[key] = json!("message");
            assert_ne!(stop_of(whole), (StopReason::Done, true), "{key}");
        }
        let mut cut = bare;
        cut["stop_reason"] = json!("max_tokens");
        assert_eq!(stop_of(cut), (StopReason::Truncated, false));
    }

    #[test]
    fn unfinished_item_is_not_run() {
        let item = |status: &str| json!([{"type": "function_call", "call_id": "a", "name": "x", "arguments": "{}", "status": status}]);
        assert_eq!(stop_of(item("completed")).0, StopReason::Done);
        assert_ne!(stop_of(item("in_progress")).0, StopReason::Done);
        assert_ne!(stop_of(item("incomplete")).0, StopReason::Done);
    }
}
