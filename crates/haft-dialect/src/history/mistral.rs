//! Mistral chat: like OpenAI's, with rules of its own about ids and order.
//!
//! Ids are nine letters or digits. Results carry the name of their tool. System text comes first. A
//! user message must not follow a result directly, so an assistant message is inserted between
//! them. It is read by `openai_chat`.

use serde_json::{Map, Value, json};

use super::{
    ContentPart, Media, MediaSource, Message, PastCall, PastResult,
    openai_chat::{plain, write_assistant},
    write::{Writer, joined, url},
};

/// The assistant message between a result and the next user message.
const BRIDGE: &str = "(the results were read)";

pub(super) fn write(writer: &mut Writer, messages: &[Message]) -> Value {
    let system =
        writer.system_first(messages, |writer, part| writer.plain(part).map(Value::String));
    let system = joined(system.iter().filter_map(Value::as_str).map(str::to_owned));
    let mut written = Vec::with_capacity(messages.len());
    if !system.is_empty() {
        written.push(json!({"role": "system", "content": system}));
    }
    let mut is_answered = false;
    for (index, message) in messages.iter().enumerate() {
        writer.at(index);
        match message {
            Message::System(_) => {}
            Message::User(parts) => {
                if let Some(message) = plain(writer, "user", parts, media_block) {
                    if std::mem::take(&mut is_answered) {
                        writer.added(BRIDGE);
                        written.push(json!({"role": "assistant", "content": BRIDGE}));
                    }
                    written.push(message);
                }
            }
            Message::Assistant(assistant) => {
                if let Some(message) =
                    write_assistant(writer, assistant, Value::from(""), written_call)
                {
                    is_answered = false;
                    written.push(message);
                }
            }
            Message::Results(results) => {
                is_answered = true;
                written.extend(results.iter().map(|result| answer(writer, result)));
            }
        }
    }
    json!({"messages": written})
}

fn media_block(media: &Media) -> Option<Value> {
    let is_held = matches!(media.source, MediaSource::Base64(_));
    match media.media_type.as_str() {
        kind if kind.starts_with("image/") && (!is_held || !kind.contains('*')) => {
            Some(json!({"type": "image_url", "image_url": url(media)}))
        }
        "application/pdf" => {
            let mut part = json!({"type": "document_url", "document_url": url(media)});
            if let Some(name) = &media.name {
                part["document_name"] = Value::String(name.clone());
            }
            Some(part)
        }
        _ => None,
    }
}

fn written_call(writer: &mut Writer, call: &PastCall) -> Value {
    let mut written = json!({
        "id": writer.id(&call.id),
        "type": "function",
        "function": {"name": writer.tool_name(call), "arguments": writer.object_text(call)},
    });
    writer.add_provider_fields(call.provider_fields.as_ref(), &mut written);
    written
}

fn answer(writer: &mut Writer, result: &PastResult) -> Value {
    let mut message = Map::new();
    message.insert("role".to_owned(), Value::from("tool"));
    message.insert("tool_call_id".to_owned(), Value::String(writer.id(&result.id)));
    message.insert("name".to_owned(), Value::String(writer.name(result)));
    let has_picture = result.parts.iter().any(|part| match part {
        ContentPart::Media { media, .. } => media_block(media).is_some(),
        _ => false,
    });
    let content =
        if has_picture { chunks(writer, result) } else { writer.result_text(result).into() };
    message.insert("content".to_owned(), content);
    let mut message = Value::Object(message);
    writer.add_provider_fields(result.provider_fields.as_ref(), &mut message);
    message
}

/// Writes a result that has images.
fn chunks(writer: &mut Writer, result: &PastResult) -> Value {
    let text = |text: String| json!({"type": "text", "text": text});
    let mark = result.is_error.then(|| text(super::write::mark_failure(true, String::new())));
    let parts = result.parts.iter().filter_map(|part| match part {
        ContentPart::Media { media, .. } if media_block(media).is_some() => media_block(media),
        other => Some(writer.plain_result(other)).filter(|words| !words.is_empty()).map(text),
    });
    mark.into_iter().chain(parts).collect()
}
