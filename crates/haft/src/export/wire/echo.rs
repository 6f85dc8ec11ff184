//! The model's message out of a complete response, as its provider wants to find it in the history.

use serde_json::{Map, Value, json};

use super::{
    Dialect,
    json::{list, object_text},
};

/// The message to echo, with where the ids of its calls stand.
pub(super) fn message(dialect: Dialect, response: &Value) -> (Value, Vec<String>) {
    let empty = Value::Null;
    let at = |pointer: &str| response.pointer(pointer).unwrap_or(&empty).clone();
    match dialect {
        Dialect::Anthropic => {
            let places = places(list(response, "content"), |block| {
                (block["type"] == "tool_use").then_some("id")
            });
            let places = places.into_iter().map(|place| format!("/content{place}")).collect();
            (json!({"role": "assistant", "content": at("/content")}), places)
        }
        Dialect::OpenAiResponses => {
            let items = at("/output");
            let places = places(list(response, "output"), |item| {
                ["function_call", "custom_tool_call"]
                    .iter()
                    .any(|kind| item["type"] == *kind)
                    .then_some("call_id")
            });
            (items, places)
        }
        Dialect::OpenAiChat | Dialect::Mistral => {
            let choices = list(response, "choices");
            let first = |choice: &&Value| choice["index"].as_u64().unwrap_or(0) == 0;
            let message = choices.iter().find(first).map_or(&empty, |choice| &choice["message"]);
            let calls = list(message, "tool_calls").len();
            let places = (0..calls).map(|n| format!("/tool_calls/{n}/id")).collect();
            let mut message = only_what_is_taken(message);
            if dialect == Dialect::OpenAiChat {
                write_arguments(&mut message);
            }
            (message, places)
        }
        Dialect::Gemini | Dialect::GeminiJson => {
            let candidates = list(response, "candidates");
            let first = |candidate: &&Value| candidate["index"].as_u64().unwrap_or(0) == 0;
            let content = candidates.iter().find(first).map_or(&empty, |first| &first["content"]);
            (content.clone(), Vec::new())
        }
        Dialect::Bedrock => {
            let message = at("/output/message");
            let places = places(list(&message, "content"), |block| {
                block.get("toolUse").map(|_| "toolUse/toolUseId")
            });
            let places = places.into_iter().map(|place| format!("/content{place}")).collect();
            (message, places)
        }
        Dialect::Ollama => (at("/message"), Vec::new()),
        // A server is asked; there is no message of its own to keep.
        Dialect::Mcp => (Value::Null, Vec::new()),
    }
}

fn places(blocks: &[Value], id: impl Fn(&Value) -> Option<&'static str>) -> Vec<String> {
    blocks
        .iter()
        .enumerate()
        .filter_map(|(n, block)| Some(format!("/{n}/{}", id(block)?)))
        .collect()
}

/// Arguments that came as data are taken back only as text.
fn write_arguments(message: &mut Value) {
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    for call in calls.into_iter().flatten() {
        if let Some(arguments) = call.pointer_mut("/function/arguments")
            && !arguments.is_string()
        {
            let text = if arguments.is_null() { String::new() } else { arguments.to_string() };
            *arguments = Value::String(object_text(text));
        }
    }
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
