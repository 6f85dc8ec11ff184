//! Amazon Bedrock Converse: `toolUse` blocks of the model, `toolResult` blocks of the user.
//!
//! Like Anthropic, all results of a turn stand first in one user message, and text must say
//! something. Every block is an object with one key. Bytes are base64 in JSON.

use serde_json::{Value, json};

use super::{
    AssistantPart, ContentPart, Dialect, Media, MediaSource, Message, PastResult, Transcript,
    read::{Reader, Spot, arguments_json},
    write::{Desk, Turns},
};
use crate::error::Error;

/// The kinds of documents that have a short name here.
const DOCUMENTS: &[(&str, &str)] = &[
    ("pdf", "application/pdf"),
    ("csv", "text/csv"),
    ("html", "text/html"),
    ("txt", "text/plain"),
    ("md", "text/markdown"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
];

/// The kinds of pictures.
const IMAGES: &[(&str, &str)] =
    &[("png", "image/png"), ("jpeg", "image/jpeg"), ("gif", "image/gif"), ("webp", "image/webp")];

pub(super) fn read(root: &Spot<'_>) -> Result<Transcript, Error> {
    let mut reader = Reader::default();
    if let Some(system) = root.get("system") {
        let parts = blocks(&system)?.iter().map(part).collect::<Result<_, _>>()?;
        reader.system(parts);
    }
    for message in root.list("messages")? {
        let content = message.need("content")?;
        match message.word("role") {
            Some("user") => read_user(&mut reader, &content)?,
            Some("assistant") => read_assistant(&mut reader, &content)?,
            _ => return Err(message.wrong("a message with a `role` of user or assistant")),
        }
    }
    Ok(reader.finish())
}

fn read_user(reader: &mut Reader, content: &Spot<'_>) -> Result<(), Error> {
    let mut said = Vec::new();
    for block in blocks(content)? {
        if block.get("toolUse").is_some() {
            return Err(block.wrong("a block that a user may send"));
        }
        let Some(result) = block.get("toolResult") else {
            said.push(part(&block)?);
            continue;
        };
        if !said.is_empty() {
            reader.user(std::mem::take(&mut said));
        }
        let parts = match result.get("content") {
            Some(content) => blocks(&content)?.iter().map(part).collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        reader.result(
            result.id("toolUseId"),
            None,
            parts,
            result.word("status") == Some("error"),
            result.own(&["toolUseId", "content", "status"]),
        );
    }
    if !said.is_empty() {
        reader.user(said);
    }
    Ok(())
}

fn read_assistant(reader: &mut Reader, content: &Spot<'_>) -> Result<(), Error> {
    reader.assistant();
    for block in blocks(content)? {
        if block.get("toolResult").is_some() {
            return Err(block.wrong("a block that a model may send"));
        }
        // A server runs its own tools; their blocks go back as they came.
        match block.get("toolUse").filter(|call| call.get("type").is_none()) {
            Some(call) => reader.call(
                call.id("toolUseId"),
                call.need("name")?.text()?,
                arguments_json(call.get("input").map_or(&json!({}), |input| input.value)),
                call.own(&["toolUseId", "name", "input"]),
            ),
            None => reader.say(part(&block)?),
        }
    }
    Ok(())
}

/// Returns the blocks; text alone is one.
fn blocks<'a>(content: &Spot<'a>) -> Result<Vec<Spot<'a>>, Error> {
    if content.value.is_string() { Ok(vec![content.clone()]) } else { content.items() }
}

fn part(block: &Spot<'_>) -> Result<ContentPart, Error> {
    if let Some(text) = block.value.as_str() {
        return Ok(ContentPart::text(text));
    }
    block.object()?;
    if let Some(text) = block.get("text") {
        return Ok(ContentPart::text(text.text()?));
    }
    if let Some(json) = block.value.get("json") {
        return Ok(ContentPart::Json(json.clone()));
    }
    let (kinds, inner) = match (block.get("image"), block.get("document")) {
        (Some(image), _) => (IMAGES, image),
        (_, Some(document)) => (DOCUMENTS, document),
        _ => return Ok(block.opaque()),
    };
    let media = || {
        let format = inner.word("format")?;
        let (_, media_type) = kinds.iter().find(|(short, _)| *short == format)?;
        Some(Media {
            media_type: (*media_type).to_owned(),
            at: MediaSource::Base64(inner.get("source")?.word("bytes")?.to_owned()),
            name: inner.word("name").map(str::to_owned),
        })
    };
    Ok(match media() {
        Some(media) => ContentPart::Media { media, own: inner.own(&["format", "source", "name"]) },
        None => block.opaque(),
    })
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
    json!({"text": text})
}

fn spoken(desk: &mut Desk, said: &AssistantPart) -> Option<Value> {
    match said {
        // A model sends no pictures here.
        AssistantPart::Part(ContentPart::Media { media, .. }) => Some(text(&desk.told(media))),
        AssistantPart::Part(part) => block(desk, part),
        AssistantPart::Call(call) => {
            let mut inner = json!({
                "toolUseId": desk.id(&call.id),
                "name": desk.called(call),
                "input": desk.object(call),
            });
            desk.add_own(call.own.as_ref(), &mut inner);
            Some(json!({"toolUse": inner}))
        }
    }
}

fn answer(desk: &mut Desk, result: &PastResult) -> Value {
    let mut content: Vec<Value> = result
        .parts
        .iter()
        .filter_map(|part| match part {
            // Only objects are admitted as data.
            ContentPart::Json(Value::Object(object)) => Some(json!({"json": object})),
            ContentPart::Opaque { dialect: Dialect::Bedrock, .. }
            | ContentPart::Text { .. }
            | ContentPart::Media { .. }
            | ContentPart::Fields(_) => block(desk, part),
            ContentPart::Json(_) | ContentPart::Opaque { .. } => {
                Some(text(&desk.plain_result(part)))
            }
        })
        .collect();
    // Blank text is refused, and so is no content at all.
    if content.is_empty() {
        content.push(text("(empty)"));
    }
    let mut inner = json!({"toolUseId": desk.id(&result.id), "content": content});
    // Not every model family takes a status, so success goes without.
    if result.is_error {
        inner["status"] = Value::from("error");
    }
    desk.add_own(result.own.as_ref(), &mut inner);
    json!({"toolResult": inner})
}

fn block(desk: &mut Desk, part: &ContentPart) -> Option<Value> {
    match part {
        ContentPart::Text { text: words, own } => {
            desk.own(own.as_ref());
            (!desk.is_blank(words)).then(|| text(words))
        }
        ContentPart::Media { media, own } => Some(match carried(media) {
            Some((key, mut inner)) => {
                desk.add_own(own.as_ref(), &mut inner);
                json!({key: inner})
            }
            None => text(&desk.told(media)),
        }),
        ContentPart::Opaque { dialect, value } => desk.opaque(*dialect, value),
        ContentPart::Json(_) | ContentPart::Fields(_) => desk.plain(part).map(|words| text(&words)),
    }
}

fn carried(media: &Media) -> Option<(&'static str, Value)> {
    let MediaSource::Base64(data) = &media.at else { return None };
    let short = |kinds: &[(&'static str, &str)]| {
        kinds.iter().find(|(_, long)| *long == media.media_type).map(|(short, _)| *short)
    };
    if let Some(format) = short(IMAGES) {
        return Some(("image", json!({"format": format, "source": {"bytes": data}})));
    }
    let format = short(DOCUMENTS)?;
    let name = document_name(media.name.as_deref());
    Some(("document", json!({"format": format, "name": name, "source": {"bytes": data}})))
}

/// Returns a name of the letters that a document's name may have.
fn document_name(name: Option<&str>) -> String {
    let admitted = |c: char| c.is_ascii_alphanumeric() || " -()[]".contains(c);
    let name: String = name
        .unwrap_or("document")
        .chars()
        .take(200)
        .map(|c| if admitted(c) { c } else { '-' })
        .collect();
    if name.trim().is_empty() { "document".to_owned() } else { name }
}
