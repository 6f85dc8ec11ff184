//! Extracts the assistant message from a complete response, in the form that the next request
//! needs.
//!
//! In: the response. Out: the message, and a JSON pointer to the id of each call. Arguments that
//! are not an object are wrapped into one, and fields that a request requires are added.
//!
//! INVARIANT: the nth pointer belongs to the nth call that `parse` decodes from the same response.

use serde_json::{Map, Value, json};

use super::{
    Dialect, bedrock,
    json::{list, object_of, object_text, text},
    ollama, openai_chat,
};

/// The assistant message, with pointers to the ids of its calls. No pointers where a provider pairs
/// without ids.
pub(super) fn message(dialect: Dialect, response: &Value) -> (Value, Vec<String>) {
    match dialect {
        Dialect::Anthropic => anthropic(response),
        Dialect::OpenAiResponses => openai_responses(response),
        Dialect::OpenAiChat | Dialect::Mistral => chat(dialect, response),
        Dialect::Gemini | Dialect::GeminiJson => {
            let candidates = list(response, "candidates");
            let first = |candidate: &&Value| candidate["index"].as_u64().unwrap_or(0) == 0;
            let content = candidates.iter().find(first).map(|first| first["content"].clone());
            (content.unwrap_or_default(), Vec::new())
        }
        Dialect::Bedrock => converse(response),
        Dialect::Ollama => {
            let mut message = response.get("message").cloned().unwrap_or_default();
            if let Some(Value::Array(calls)) = message.get_mut("tool_calls") {
                *calls = std::mem::take(calls).into_iter().map(ollama::echoed).collect();
            }
            (message, Vec::new())
        }
        // haft is the server here; there is no assistant message.
        Dialect::Mcp => (Value::Null, Vec::new()),
    }
}

fn anthropic(response: &Value) -> (Value, Vec<String>) {
    let mut content = response.get("content").cloned().unwrap_or_default();
    let mut places = Vec::new();
    for (n, block) in content.as_array_mut().into_iter().flatten().enumerate() {
        if text(block, "type") == "tool_use" {
            places.push(format!("/content/{n}/id"));
            block["input"] = object_of(block.get_mut("input").map(Value::take));
        }
    }
    (json!({"role": "assistant", "content": content}), places)
}

fn openai_responses(response: &Value) -> (Value, Vec<String>) {
    let mut items = response.get("output").cloned().unwrap_or_default();
    let mut places = Vec::new();
    for (n, item) in items.as_array_mut().into_iter().flatten().enumerate() {
        let kind = text(item, "type");
        if !matches!(kind, "function_call" | "custom_tool_call") {
            continue;
        }
        if kind == "function_call" {
            item["arguments"] = arguments_text(item.get_mut("arguments").map(Value::take));
        }
        places.push(format!("/{n}/call_id"));
    }
    (items, places)
}

fn chat(dialect: Dialect, response: &Value) -> (Value, Vec<String>) {
    let first = openai_chat::first(list(response, "choices"));
    let received = first.and_then(|choice| choice.get("message")).unwrap_or(&Value::Null);
    let mut message = request_fields(received);
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    let mut places = Vec::new();
    for (n, call) in calls.into_iter().flatten().enumerate() {
        places.push(format!("/tool_calls/{n}/id"));
        // Mistral also accepts arguments as JSON values.
        if dialect != Dialect::Mistral {
            complete_call(call);
        }
    }
    (message, places)
}

/// Adds what a request requires of a call: its type, and arguments as text.
fn complete_call(call: &mut Value) {
    let Some(map) = call.as_object_mut() else { return };
    let is_custom = map.get("custom").is_some_and(|custom| !custom.is_null());
    let kind = if is_custom { "custom" } else { "function" };
    if !map.get("type").is_some_and(Value::is_string) {
        map.insert("type".to_owned(), kind.into());
    }
    if let Some(function) = map.get_mut("function").filter(|function| function.is_object()) {
        function["arguments"] = arguments_text(function.get_mut("arguments").map(Value::take));
    }
}

fn converse(response: &Value) -> (Value, Vec<String>) {
    let mut message = response.pointer("/output/message").cloned().unwrap_or_default();
    let mut places = Vec::new();
    let content = message.get_mut("content").and_then(Value::as_array_mut);
    for (n, block) in content.into_iter().flatten().enumerate() {
        // A provider-executed tool call is echoed and needs no result.
        if bedrock::call_of(block).is_none() {
            continue;
        }
        places.push(format!("/content/{n}/toolUse/toolUseId"));
        if let Some(call) = block.get_mut("toolUse").filter(|call| call.is_object()) {
            call["input"] = object_of(call.get_mut("input").map(Value::take));
        }
    }
    (message, places)
}

/// Arguments as the text that a request requires.
fn arguments_text(arguments: Option<Value>) -> Value {
    let text = match arguments {
        Some(Value::String(text)) => text,
        Some(Value::Null) | None => String::new(),
        Some(data) => data.to_string(),
    };
    Value::String(object_text(text))
}

/// A response's message has fields that a request's must not have.
fn request_fields(message: &Value) -> Value {
    let taken = ["role", "content", "refusal", "name", "tool_calls", "function_call", "audio"];
    let fields = message.as_object().into_iter().flatten();
    let kept: Map<String, Value> = fields
        .filter(|(key, value)| {
            let key = key.as_str();
            taken.contains(&key) && (!value.is_null() || key == "content")
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    Value::Object(kept)
}
