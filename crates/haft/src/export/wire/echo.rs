//! The model's message out of a complete response, as its provider wants to find it in the history.
//!
//! In: the response. Out: the message, and where the id of each call stands in it, in the order of the
//! calls. A call is written in the form that a request takes: arguments that are no object are wrapped
//! into one, and fields that a request needs are filled in.
//!
//! INVARIANT: the nth place belongs to the nth call that `parse` reads from the same response.

use serde_json::{Map, Value, json};

use super::{
    Dialect, bedrock,
    json::{list, object_of, object_text, text},
    ollama, openai_chat,
};

/// The message to echo, with where the ids of its calls stand. No places where a provider pairs
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
        // A server is asked; there is no message of its own to keep.
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
    let said = first.and_then(|choice| choice.get("message")).unwrap_or(&Value::Null);
    let mut message = only_what_is_taken(said);
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    let mut places = Vec::new();
    for (n, call) in calls.into_iter().flatten().enumerate() {
        places.push(format!("/tool_calls/{n}/id"));
        // Mistral takes arguments as data too.
        if dialect != Dialect::Mistral {
            complete_call(call);
        }
    }
    (message, places)
}

/// Fills in what a request must have of a call: its kind, and arguments as text.
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
        // A tool that runs at the provider is echoed, and has no answer of ours.
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

/// Arguments as the text that a request takes, however they came.
fn arguments_text(arguments: Option<Value>) -> Value {
    let text = match arguments {
        Some(Value::String(text)) => text,
        Some(Value::Null) | None => String::new(),
        Some(data) => data.to_string(),
    };
    Value::String(object_text(text))
}

/// A response's message has fields that a request's may not have.
fn only_what_is_taken(message: &Value) -> Value {
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
