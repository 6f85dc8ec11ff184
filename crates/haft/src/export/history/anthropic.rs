//! Anthropic Messages: `tool_use` blocks of the model, `tool_result` blocks of the user.
//!
//! All results of a turn stand first in one user message. Roles take turns, the user begins, and
//! text must say something.

use serde_json::{Value, json};

use super::{
    AssistantPart, ContentPart, Media, MediaSource, Message, PastResult, Transcript,
    read::{Reader, Spot, arguments_json},
    write::{Desk, Turns},
};
use crate::error::Error;

pub(super) fn read(root: &Spot<'_>) -> Result<Transcript, Error> {
    let mut reader = Reader::default();
    if let Some(system) = root.get("system") {
        reader.system(parts(&system)?);
    }
    for message in root.list("messages")? {
        let content = message.need("content")?;
        match message.word("role") {
            Some("user") => read_user(&mut reader, &content)?,
            Some("assistant") => read_assistant(&mut reader, &content)?,
            Some("system") => reader.system(parts(&content)?),
            _ => return Err(message.wrong("a message with a `role` of user or assistant")),
        }
    }
    Ok(reader.finish())
}

fn read_user(reader: &mut Reader, content: &Spot<'_>) -> Result<(), Error> {
    let mut said = Vec::new();
    for block in blocks(content)? {
        match block.word("type") {
            Some("tool_result") => {
                if !said.is_empty() {
                    reader.user(std::mem::take(&mut said));
                }
                let content = block.get("content");
                reader.result(
                    block.id("tool_use_id"),
                    None,
                    content.map(|content| parts(&content)).transpose()?.unwrap_or_default(),
                    block.value.get("is_error") == Some(&Value::Bool(true)),
                    block.own(&["type", "tool_use_id", "content", "is_error"]),
                );
            }
            Some("tool_use") => return Err(block.wrong("a block that a user may send")),
            _ => said.push(part(&block)?),
        }
    }
    if !said.is_empty() {
        reader.user(said);
    }
    Ok(())
}

fn read_assistant(reader: &mut Reader, content: &Spot<'_>) -> Result<(), Error> {
    reader.assistant();
    for block in blocks(content)? {
        match block.word("type") {
            Some("tool_use") => reader.call(
                block.id("id"),
                block.need("name")?.text()?,
                arguments_json(block.get("input").map_or(&json!({}), |input| input.value)),
                block.own(&["type", "id", "name", "input"]),
            ),
            Some("tool_result") => return Err(block.wrong("a block that a model may send")),
            _ => reader.say(part(&block)?),
        }
    }
    Ok(())
}

/// Returns the blocks; text alone is one.
fn blocks<'a>(content: &Spot<'a>) -> Result<Vec<Spot<'a>>, Error> {
    if content.value.is_string() { Ok(vec![content.clone()]) } else { content.items() }
}

fn parts(content: &Spot<'_>) -> Result<Vec<ContentPart>, Error> {
    blocks(content)?.iter().map(part).collect()
}

fn part(block: &Spot<'_>) -> Result<ContentPart, Error> {
    if let Some(text) = block.value.as_str() {
        return Ok(ContentPart::text(text));
    }
    match block.word("type") {
        Some("text") => Ok(ContentPart::Text {
            text: block.need("text")?.text()?.to_owned(),
            own: block.own(&["type", "text"]),
        }),
        Some("image" | "document") => Ok(match media(block) {
            Some(media) => {
                ContentPart::Media { media, own: block.own(&["type", "source", "title"]) }
            }
            None => block.opaque(),
        }),
        Some(_) => Ok(block.opaque()),
        None => Err(block.wrong("a block with a `type`")),
    }
}

fn media(block: &Spot<'_>) -> Option<Media> {
    let source = block.get("source")?;
    let name = block.word("title").map(str::to_owned);
    let is_image = block.word("type") == Some("image");
    match source.word("type")? {
        "base64" => Some(Media {
            media_type: source.word("media_type")?.to_owned(),
            at: MediaSource::Base64(source.word("data")?.to_owned()),
            name,
        }),
        "url" => Some(Media {
            media_type: if is_image { "image/*" } else { "application/pdf" }.to_owned(),
            at: MediaSource::Url(source.word("url")?.to_owned()),
            name,
        }),
        _ => None,
    }
}

pub(super) fn write(desk: &mut Desk, messages: &[Message]) -> Value {
    let system = desk.hoisted(messages, block);
    let mut turns = Turns::default();
    for (index, message) in messages.iter().enumerate() {
        desk.at(index);
        match message {
            Message::System(_) => {}
            Message::User(parts) => {
                turns.add("user", parts.iter().filter_map(|part| block(desk, part)).collect());
            }
            Message::Assistant(said) => {
                turns.add("assistant", said.iter().filter_map(|said| spoken(desk, said)).collect());
            }
            Message::Results(results) => {
                turns.add("user", results.iter().map(|result| answer(desk, result)).collect());
            }
        }
    }
    let messages = turns.finish(desk, "content", text);
    if system.is_empty() {
        json!({"messages": messages})
    } else {
        json!({"system": system, "messages": messages})
    }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn spoken(desk: &mut Desk, said: &AssistantPart) -> Option<Value> {
    match said {
        // A model sends no pictures here.
        AssistantPart::Part(ContentPart::Media { media, .. }) => Some(text(&desk.told(media))),
        AssistantPart::Part(part) => block(desk, part),
        AssistantPart::Call(call) => {
            let mut block = json!({
                "type": "tool_use",
                "id": desk.id(&call.id),
                "name": desk.called(call),
                "input": desk.object(call),
            });
            desk.add_own(call.own.as_ref(), &mut block);
            Some(block)
        }
    }
}

fn answer(desk: &mut Desk, result: &PastResult) -> Value {
    let mut block = json!({"type": "tool_result", "tool_use_id": desk.id(&result.id)});
    let content: Vec<Value> = result.parts.iter().filter_map(|part| inner(desk, part)).collect();
    // A success without content is admitted; a failure without, and empty text, are not.
    if let [Value::Object(only)] = content.as_slice()
        && only.len() == 2
        && let Some(text) = only.get("text")
    {
        block["content"] = text.clone();
    } else if !content.is_empty() {
        block["content"] = Value::Array(content);
    } else if result.is_error {
        block["content"] = Value::from("(empty)");
    }
    if result.is_error {
        block["is_error"] = Value::Bool(true);
    }
    desk.add_own(result.own.as_ref(), &mut block);
    block
}

/// Makes a block of a result: what cannot stand there is named.
fn inner(desk: &mut Desk, part: &ContentPart) -> Option<Value> {
    match part {
        ContentPart::Opaque { dialect: super::Dialect::Anthropic, .. }
        | ContentPart::Text { .. }
        | ContentPart::Media { .. }
        | ContentPart::Fields(_) => block(desk, part),
        ContentPart::Json(_) | ContentPart::Opaque { .. } => Some(text(&desk.plain_result(part))),
    }
}

fn block(desk: &mut Desk, part: &ContentPart) -> Option<Value> {
    match part {
        ContentPart::Text { text: words, own } => {
            let fields = own.as_ref();
            if desk.is_blank(words) {
                return None;
            }
            let mut block = text(words);
            desk.add_own(fields, &mut block);
            Some(block)
        }
        ContentPart::Media { media, own } => {
            let mut block = carried(media).unwrap_or_else(|| text(&desk.told(media)));
            desk.add_own(own.as_ref(), &mut block);
            Some(block)
        }
        ContentPart::Opaque { dialect, value } => desk.opaque(*dialect, value),
        ContentPart::Json(_) | ContentPart::Fields(_) => desk.plain(part).map(|words| text(&words)),
    }
}

fn carried(media: &Media) -> Option<Value> {
    let kind = match media.media_type.as_str() {
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" => "image",
        "image/*" if matches!(media.at, MediaSource::Url(_)) => "image",
        "application/pdf" => "document",
        _ => return None,
    };
    let source = match &media.at {
        MediaSource::Base64(data) => {
            json!({"type": "base64", "media_type": media.media_type, "data": data})
        }
        MediaSource::Url(url) => json!({"type": "url", "url": url}),
    };
    let mut block = json!({"type": kind, "source": source});
    if let (Some(name), "document") = (&media.name, kind) {
        block["title"] = Value::String(name.clone());
    }
    Some(block)
}
