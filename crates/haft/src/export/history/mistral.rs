//! Mistral chat: like OpenAI's, with rules of its own about ids and order.
//!
//! Ids are nine letters or digits. Results carry the name of their tool. System text stands at the
//! front, and a user does not speak directly behind a result: the model has the word first, so a
//! line of its is put in. It is read by `openai_chat`.

use serde_json::{Map, Value, json};

use super::{
    ContentPart, Media, MediaSource, Message, PastCall, PastResult,
    openai_chat::{plain, spoken},
    write::{Desk, joined, url},
};

/// Stands between a result and what the user says next.
const BRIDGE: &str = "(the results were read)";

pub(super) fn write(desk: &mut Desk, messages: &[Message]) -> Value {
    let system = desk.hoisted(messages, |desk, part| desk.plain(part).map(Value::String));
    let system = joined(system.iter().filter_map(Value::as_str).map(str::to_owned));
    let mut written = Vec::with_capacity(messages.len());
    if !system.is_empty() {
        written.push(json!({"role": "system", "content": system}));
    }
    let mut is_answered = false;
    for (index, message) in messages.iter().enumerate() {
        desk.at(index);
        match message {
            Message::System(_) => {}
            Message::User(parts) => {
                if let Some(message) = plain(desk, "user", parts, carried) {
                    if std::mem::take(&mut is_answered) {
                        desk.added(BRIDGE);
                        written.push(json!({"role": "assistant", "content": BRIDGE}));
                    }
                    written.push(message);
                }
            }
            Message::Assistant(said) => {
                if let Some(message) = spoken(desk, said, Value::from(""), written_call) {
                    is_answered = false;
                    written.push(message);
                }
            }
            Message::Results(results) => {
                is_answered = true;
                written.extend(results.iter().map(|result| answer(desk, result)));
            }
        }
    }
    json!({"messages": written})
}

fn carried(media: &Media) -> Option<Value> {
    let is_held = matches!(media.at, MediaSource::Base64(_));
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

fn written_call(desk: &mut Desk, call: &PastCall) -> Value {
    let mut written = json!({
        "id": desk.id(&call.id),
        "type": "function",
        "function": {"name": desk.called(call), "arguments": desk.object_text(call)},
    });
    desk.add_own(call.own.as_ref(), &mut written);
    written
}

fn answer(desk: &mut Desk, result: &PastResult) -> Value {
    let mut message = Map::new();
    message.insert("role".to_owned(), Value::from("tool"));
    message.insert("tool_call_id".to_owned(), Value::String(desk.id(&result.id)));
    message.insert("name".to_owned(), Value::String(desk.name(result)));
    let has_picture = result.parts.iter().any(|part| match part {
        ContentPart::Media { media, .. } => carried(media).is_some(),
        _ => false,
    });
    let content = if has_picture { chunks(desk, result) } else { desk.result_text(result).into() };
    message.insert("content".to_owned(), content);
    let mut message = Value::Object(message);
    desk.add_own(result.own.as_ref(), &mut message);
    message
}

/// Writes a result that holds pictures.
fn chunks(desk: &mut Desk, result: &PastResult) -> Value {
    let text = |text: String| json!({"type": "text", "text": text});
    let mark = result.is_error.then(|| text(super::write::marked(true, String::new())));
    let parts = result.parts.iter().filter_map(|part| match part {
        ContentPart::Media { media, .. } if carried(media).is_some() => carried(media),
        other => Some(desk.plain_result(other)).filter(|words| !words.is_empty()).map(text),
    });
    mark.into_iter().chain(parts).collect()
}
