//! Ollama's own chat: calls without ids, results that name their tool, pictures in a list.
//!
//! Calls and results pair by their order, which a mended transcript has. It is read by
//! `openai_chat`.

use serde_json::{Map, Value, json};

use super::{
    AssistantPart, ContentPart, MediaSource, Message, PastCall, PastResult,
    write::{Desk, joined, marked},
};

pub(super) fn write(desk: &mut Desk, messages: &[Message]) -> Value {
    let mut written = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        desk.at(index);
        match message {
            Message::System(parts) => written.extend(plain(desk, "system", parts.iter(), &[])),
            Message::User(parts) => written.extend(plain(desk, "user", parts.iter(), &[])),
            Message::Assistant(said) => written.extend(spoken(desk, said)),
            Message::Results(results) => {
                written.extend(results.iter().map(|result| answer(desk, result)));
            }
        }
    }
    json!({"messages": written})
}

fn spoken(desk: &mut Desk, said: &[AssistantPart]) -> Option<Value> {
    let mut parts = Vec::new();
    let mut calls = Vec::new();
    for said in said {
        match said {
            AssistantPart::Part(part) => parts.push(part),
            AssistantPart::Call(call) => calls.push(written_call(desk, call)),
        }
    }
    plain(desk, "assistant", parts.into_iter(), &calls)
}

fn written_call(desk: &mut Desk, call: &PastCall) -> Value {
    let mut written =
        json!({"function": {"name": desk.called(call), "arguments": desk.object(call)}});
    desk.add_own(call.own.as_ref(), &mut written);
    written
}

/// Writes a message, unless nothing is left of it.
fn plain<'a>(
    desk: &mut Desk,
    role: &str,
    parts: impl Iterator<Item = &'a ContentPart>,
    calls: &[Value],
) -> Option<Value> {
    let mut texts = Vec::new();
    let mut images = Vec::new();
    let mut fields = Map::new();
    for part in parts {
        match (part, picture(part)) {
            (_, Some(data)) => images.push(data),
            (ContentPart::Fields(own), _) => {
                for (key, value) in desk.own(Some(own)).into_iter().flatten() {
                    fields.entry(key.clone()).or_insert_with(|| value.clone());
                }
            }
            (other, _) => texts.extend(desk.plain(other)),
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

fn answer(desk: &mut Desk, result: &PastResult) -> Value {
    let mut texts = Vec::new();
    let mut images = Vec::new();
    for part in &result.parts {
        match picture(part) {
            Some(data) => images.push(data),
            None => texts.push(desk.plain_result(part)),
        }
    }
    let content = marked(result.is_error, joined(texts));
    let mut message = json!({"role": "tool", "tool_name": desk.name(result), "content": content});
    if !images.is_empty() {
        message["images"] = images.into();
    }
    desk.add_own(result.own.as_ref(), &mut message);
    message
}

/// Returns the bytes of a picture.
fn picture(part: &ContentPart) -> Option<&str> {
    match part {
        ContentPart::Media { media, .. } if media.media_type.starts_with("image/") => {
            match &media.at {
                MediaSource::Base64(data) => Some(data),
                MediaSource::Url(_) => None,
            }
        }
        _ => None,
    }
}
