//! Ollama's own chat: calls without ids, results that name their tool, images in a list.
//!
//! Calls and results pair by order, which a repaired transcript guarantees. It is read by
//! `openai_chat`.

use serde_json::{Map, Value, json};

use super::{
    AssistantPart, ContentPart, MediaSource, Message, PastCall, PastResult,
    write::{Writer, joined, mark_failure},
};

pub(super) fn write(writer: &mut Writer, messages: &[Message]) -> Value {
    let mut written = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        writer.at(index);
        match message {
            Message::System(parts) => written.extend(plain(writer, "system", parts.iter(), &[])),
            Message::User(parts) => written.extend(plain(writer, "user", parts.iter(), &[])),
            Message::Assistant(assistant) => written.extend(write_assistant(writer, assistant)),
            Message::Results(results) => {
                written.extend(results.iter().map(|result| answer(writer, result)));
            }
        }
    }
    json!({"messages": written})
}

fn write_assistant(writer: &mut Writer, assistant: &[AssistantPart]) -> Option<Value> {
    let mut parts = Vec::new();
    let mut calls = Vec::new();
    for assistant in assistant {
        match assistant {
            AssistantPart::Part(part) => parts.push(part),
            AssistantPart::Call(call) => calls.push(written_call(writer, call)),
        }
    }
    plain(writer, "assistant", parts.into_iter(), &calls)
}

fn written_call(writer: &mut Writer, call: &PastCall) -> Value {
    let mut written =
        json!({"function": {"name": writer.tool_name(call), "arguments": writer.object(call)}});
    writer.add_provider_fields(call.provider_fields.as_ref(), &mut written);
    written
}

/// Writes a message; `None` if it is empty.
fn plain<'a>(
    writer: &mut Writer,
    role: &str,
    parts: impl Iterator<Item = &'a ContentPart>,
    calls: &[Value],
) -> Option<Value> {
    let mut texts = Vec::new();
    let mut images = Vec::new();
    let mut fields = Map::new();
    for part in parts {
        match (part, image(part)) {
            (_, Some(data)) => images.push(data),
            (ContentPart::Fields(provider_fields), _) => {
                for (key, value) in
                    writer.provider_fields(Some(provider_fields)).into_iter().flatten()
                {
                    fields.entry(key.clone()).or_insert_with(|| value.clone());
                }
            }
            (other, _) => texts.extend(writer.plain(other)),
        }
    }
    let content = joined(texts);
    if content.is_empty() && images.is_empty() && calls.is_empty() {
        return None;
    }
    let mut message = Map::new();
    let role = fields.remove("role").unwrap_or_else(|| Value::from(role));
    message.insert("role".to_owned(), role);
    message.insert("content".to_owned(), Value::String(content));
    if !images.is_empty() {
        message.insert("images".to_owned(), images.into());
    }
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), Value::Array(calls.to_vec()));
    }
    for (key, value) in fields {
        message.entry(key).or_insert(value);
    }
    Some(Value::Object(message))
}

fn answer(writer: &mut Writer, result: &PastResult) -> Value {
    let mut texts = Vec::new();
    let mut images = Vec::new();
    for part in &result.parts {
        match image(part) {
            Some(data) => images.push(data),
            None => texts.push(writer.plain_result(part)),
        }
    }
    let content = mark_failure(result.is_error, joined(texts));
    let mut message = json!({"role": "tool", "tool_name": writer.name(result), "content": content});
    if !images.is_empty() {
        message["images"] = images.into();
    }
    writer.add_provider_fields(result.provider_fields.as_ref(), &mut message);
    message
}

/// Returns the bytes of an image.
fn image(part: &ContentPart) -> Option<&str> {
    match part {
        ContentPart::Media { media, .. } if media.media_type.starts_with("image/") => {
            match &media.source {
                MediaSource::Base64(data) => Some(data),
                MediaSource::Url(_) => None,
            }
        }
        _ => None,
    }
}
