//! Amazon Bedrock Converse: `toolUse` blocks of the model, `toolResult` blocks of the user.
//!
//! As with Anthropic, all results of a turn come first in one user message, and text must not be
//! blank. Every block is an object with one key. Bytes are base64 in JSON.

use haft_core::Error;
use serde_json::{Value, json};

use super::{
    AssistantPart, ContentPart, Dialect, Media, MediaSource, Message, PastResult, Transcript,
    alternating::AlternatingFormat,
    read::{Node, Reader, arguments_json},
    write::Writer,
};

/// The document types that have a short name here.
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

/// The image types.
const IMAGES: &[(&str, &str)] =
    &[("png", "image/png"), ("jpeg", "image/jpeg"), ("gif", "image/gif"), ("webp", "image/webp")];

pub(super) fn read(root: &Node<'_>) -> Result<Transcript, Error> {
    let mut reader = Reader::default();
    if let Some(system) = root.get("system") {
        let parts = blocks(&system)?.iter().map(part).collect::<Result<_, _>>()?;
        reader.system(parts);
    }
    for message in root.list("messages")? {
        let content = message.need("content")?;
        match message.str_field("role") {
            Some("user") => read_user(&mut reader, &content)?,
            Some("assistant") => read_assistant(&mut reader, &content)?,
            _ => return Err(message.unexpected("a message with a `role` of user or assistant")),
        }
    }
    Ok(reader.finish())
}

fn read_user(reader: &mut Reader, content: &Node<'_>) -> Result<(), Error> {
    let mut assistant = Vec::new();
    for block in blocks(content)? {
        if block.get("toolUse").is_some() {
            return Err(block.unexpected("a block that a user may send"));
        }
        let Some(result) = block.get("toolResult") else {
            assistant.push(part(&block)?);
            continue;
        };
        if !assistant.is_empty() {
            reader.user(std::mem::take(&mut assistant));
        }
        let parts = match result.get("content") {
            Some(content) => blocks(&content)?.iter().map(part).collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        reader.result(
            result.id("toolUseId"),
            None,
            parts,
            result.str_field("status") == Some("error"),
            result.provider_fields(&["toolUseId", "content", "status"]),
        );
    }
    if !assistant.is_empty() {
        reader.user(assistant);
    }
    Ok(())
}

fn read_assistant(reader: &mut Reader, content: &Node<'_>) -> Result<(), Error> {
    reader.assistant();
    for block in blocks(content)? {
        if block.get("toolResult").is_some() {
            return Err(block.unexpected("a block that a model may send"));
        }
        // Blocks of provider-executed tools are written back unchanged.
        match block.get("toolUse").filter(|call| call.get("type").is_none()) {
            Some(call) => reader.call(
                call.id("toolUseId"),
                call.need("name")?.text()?,
                arguments_json(call.get("input").map_or(&json!({}), |input| input.value)),
                call.provider_fields(&["toolUseId", "name", "input"]),
            ),
            None => reader.add_part(part(&block)?),
        }
    }
    Ok(())
}

/// Returns the blocks; plain text is one block.
fn blocks<'a>(content: &Node<'a>) -> Result<Vec<Node<'a>>, Error> {
    if content.value.is_string() { Ok(vec![content.clone()]) } else { content.items() }
}

fn part(block: &Node<'_>) -> Result<ContentPart, Error> {
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
        let format = inner.str_field("format")?;
        let (_, media_type) = kinds.iter().find(|(short, _)| *short == format)?;
        Some(Media {
            media_type: (*media_type).to_owned(),
            source: MediaSource::Base64(inner.get("source")?.str_field("bytes")?.to_owned()),
            name: inner.str_field("name").map(str::to_owned),
        })
    };
    Ok(match media() {
        Some(media) => ContentPart::Media {
            media,
            provider_fields: inner.provider_fields(&["format", "source", "name"]),
        },
        None => block.opaque(),
    })
}

const FORMAT: AlternatingFormat = AlternatingFormat {
    assistant_role: "assistant",
    blocks_key: "content",
    text,
    part: block,
    assistant: write_assistant,
    result: answer,
};

pub(super) fn write(writer: &mut Writer, messages: &[Message]) -> Value {
    FORMAT.with_system(writer, messages)
}

fn text(text: &str) -> Value {
    json!({"text": text})
}

fn write_assistant(writer: &mut Writer, assistant: &AssistantPart) -> Option<Value> {
    match assistant {
        // A model sends no images here.
        AssistantPart::Part(ContentPart::Media { media, .. }) => {
            Some(text(&writer.describe_media(media)))
        }
        AssistantPart::Part(part) => block(writer, part),
        AssistantPart::Call(call) => {
            let mut inner = json!({
                "toolUseId": writer.id(&call.id),
                "name": writer.tool_name(call),
                "input": writer.object(call),
            });
            writer.add_provider_fields(call.provider_fields.as_ref(), &mut inner);
            Some(json!({"toolUse": inner}))
        }
    }
}

fn answer(writer: &mut Writer, result: &PastResult) -> Value {
    let mut content: Vec<Value> = result
        .parts
        .iter()
        .filter_map(|part| match part {
            // Only objects are accepted as JSON content.
            ContentPart::Json(Value::Object(object)) => Some(json!({"json": object})),
            ContentPart::Opaque { dialect: Dialect::Bedrock, .. }
            | ContentPart::Text { .. }
            | ContentPart::Media { .. }
            | ContentPart::Fields(_) => block(writer, part),
            ContentPart::Json(_) | ContentPart::Opaque { .. } => {
                Some(text(&writer.plain_result(part)))
            }
        })
        .collect();
    // Bedrock refuses blank text and empty content.
    if content.is_empty() {
        content.push(text("(empty)"));
    }
    let mut inner = json!({"toolUseId": writer.id(&result.id), "content": content});
    // Some model families do not support a status, so success has none.
    if result.is_error {
        inner["status"] = Value::from("error");
    }
    writer.add_provider_fields(result.provider_fields.as_ref(), &mut inner);
    json!({"toolResult": inner})
}

fn block(writer: &mut Writer, part: &ContentPart) -> Option<Value> {
    match part {
        ContentPart::Text { text: words, provider_fields } => {
            writer.provider_fields(provider_fields.as_ref());
            (!writer.is_blank(words)).then(|| text(words))
        }
        ContentPart::Media { media, provider_fields } => Some(match media_block(media) {
            Some((key, mut inner)) => {
                writer.add_provider_fields(provider_fields.as_ref(), &mut inner);
                json!({key: inner})
            }
            None => text(&writer.describe_media(media)),
        }),
        ContentPart::Opaque { dialect, value } => writer.opaque(*dialect, value),
        ContentPart::Json(_) | ContentPart::Fields(_) => {
            writer.plain(part).map(|words| text(&words))
        }
    }
}

fn media_block(media: &Media) -> Option<(&'static str, Value)> {
    let MediaSource::Base64(data) = &media.source else { return None };
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

/// Returns a name with only the characters that a document's name may have.
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
