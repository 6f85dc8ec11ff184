//! Anthropic Messages: `tool_use` blocks of the model, `tool_result` blocks of the user.
//!
//! All results of a turn come first in one user message. Roles alternate, the user begins, and text
//! must not be blank.

use haft_core::Error;
use serde_json::{Value, json};

use super::{
    AssistantPart, ContentPart, Media, MediaSource, Message, PastResult, Transcript,
    alternating::AlternatingFormat,
    read::{Node, Reader, arguments_json},
    write::Writer,
};

pub(super) fn read(root: &Node<'_>) -> Result<Transcript, Error> {
    let mut reader = Reader::default();
    if let Some(system) = root.get("system") {
        reader.system(parts(&system)?);
    }
    for message in root.list("messages")? {
        let content = message.need("content")?;
        match message.str_field("role") {
            Some("user") => read_user(&mut reader, &content)?,
            Some("assistant") => read_assistant(&mut reader, &content)?,
            Some("system") => reader.system(parts(&content)?),
            _ => return Err(message.unexpected("a message with a `role` of user or assistant")),
        }
    }
    Ok(reader.finish())
}

fn read_user(reader: &mut Reader, content: &Node<'_>) -> Result<(), Error> {
    let mut assistant = Vec::new();
    for block in blocks(content)? {
        match block.str_field("type") {
            Some("tool_result") => {
                if !assistant.is_empty() {
                    reader.user(std::mem::take(&mut assistant));
                }
                let content = block.get("content");
                reader.result(
                    block.id("tool_use_id"),
                    None,
                    content.map(|content| parts(&content)).transpose()?.unwrap_or_default(),
                    block.value.get("is_error") == Some(&Value::Bool(true)),
                    block.provider_fields(&["type", "tool_use_id", "content", "is_error"]),
                );
            }
            Some("tool_use") => return Err(block.unexpected("a block that a user may send")),
            _ => assistant.push(part(&block)?),
        }
    }
    if !assistant.is_empty() {
        reader.user(assistant);
    }
    Ok(())
}

fn read_assistant(reader: &mut Reader, content: &Node<'_>) -> Result<(), Error> {
    reader.assistant();
    for block in blocks(content)? {
        match block.str_field("type") {
            Some("tool_use") => reader.call(
                block.id("id"),
                block.need("name")?.text()?,
                arguments_json(block.get("input").map_or(&json!({}), |input| input.value)),
                block.provider_fields(&["type", "id", "name", "input"]),
            ),
            Some("tool_result") => return Err(block.unexpected("a block that a model may send")),
            _ => reader.add_part(part(&block)?),
        }
    }
    Ok(())
}

/// Returns the blocks; plain text is one block.
fn blocks<'a>(content: &Node<'a>) -> Result<Vec<Node<'a>>, Error> {
    if content.value.is_string() { Ok(vec![content.clone()]) } else { content.items() }
}

fn parts(content: &Node<'_>) -> Result<Vec<ContentPart>, Error> {
    blocks(content)?.iter().map(part).collect()
}

fn part(block: &Node<'_>) -> Result<ContentPart, Error> {
    if let Some(text) = block.value.as_str() {
        return Ok(ContentPart::text(text));
    }
    match block.str_field("type") {
        Some("text") => Ok(ContentPart::Text {
            text: block.need("text")?.text()?.to_owned(),
            provider_fields: block.provider_fields(&["type", "text"]),
        }),
        Some("image" | "document") => Ok(match media(block) {
            Some(media) => ContentPart::Media {
                media,
                provider_fields: block.provider_fields(&["type", "source", "title"]),
            },
            None => block.opaque(),
        }),
        Some(_) => Ok(block.opaque()),
        None => Err(block.unexpected("a block with a `type`")),
    }
}

fn media(block: &Node<'_>) -> Option<Media> {
    let source = block.get("source")?;
    let name = block.str_field("title").map(str::to_owned);
    let is_image = block.str_field("type") == Some("image");
    match source.str_field("type")? {
        "base64" => Some(Media {
            media_type: source.str_field("media_type")?.to_owned(),
            source: MediaSource::Base64(source.str_field("data")?.to_owned()),
            name,
        }),
        "url" => Some(Media {
            media_type: if is_image { "image/*" } else { "application/pdf" }.to_owned(),
            source: MediaSource::Url(source.str_field("url")?.to_owned()),
            name,
        }),
        _ => None,
    }
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
    json!({"type": "text", "text": text})
}

fn write_assistant(writer: &mut Writer, assistant: &AssistantPart) -> Option<Value> {
    match assistant {
        // A model sends no images here.
        AssistantPart::Part(ContentPart::Media { media, .. }) => {
            Some(text(&writer.describe_media(media)))
        }
        AssistantPart::Part(part) => block(writer, part),
        AssistantPart::Call(call) => {
            let mut block = json!({
                "type": "tool_use",
                "id": writer.id(&call.id),
                "name": writer.tool_name(call),
                "input": writer.object(call),
            });
            writer.add_provider_fields(call.provider_fields.as_ref(), &mut block);
            Some(block)
        }
    }
}

fn answer(writer: &mut Writer, result: &PastResult) -> Value {
    let mut block = json!({"type": "tool_result", "tool_use_id": writer.id(&result.id)});
    let content: Vec<Value> = result.parts.iter().filter_map(|part| inner(writer, part)).collect();
    // A success may have no content; a failure must have some, and text must not be empty.
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
    writer.add_provider_fields(result.provider_fields.as_ref(), &mut block);
    block
}

/// Makes a block of a result. Unsupported content is named in text.
fn inner(writer: &mut Writer, part: &ContentPart) -> Option<Value> {
    match part {
        ContentPart::Opaque { dialect: super::Dialect::Anthropic, .. }
        | ContentPart::Text { .. }
        | ContentPart::Media { .. }
        | ContentPart::Fields(_) => block(writer, part),
        ContentPart::Json(_) | ContentPart::Opaque { .. } => Some(text(&writer.plain_result(part))),
    }
}

fn block(writer: &mut Writer, part: &ContentPart) -> Option<Value> {
    match part {
        ContentPart::Text { text: words, provider_fields } => {
            let fields = provider_fields.as_ref();
            if writer.is_blank(words) {
                return None;
            }
            let mut block = text(words);
            writer.add_provider_fields(fields, &mut block);
            Some(block)
        }
        ContentPart::Media { media, provider_fields } => {
            let mut block =
                media_block(media).unwrap_or_else(|| text(&writer.describe_media(media)));
            writer.add_provider_fields(provider_fields.as_ref(), &mut block);
            Some(block)
        }
        ContentPart::Opaque { dialect, value } => writer.opaque(*dialect, value),
        ContentPart::Json(_) | ContentPart::Fields(_) => {
            writer.plain(part).map(|words| text(&words))
        }
    }
}

fn media_block(media: &Media) -> Option<Value> {
    let kind = match media.media_type.as_str() {
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" => "image",
        "image/*" if matches!(media.source, MediaSource::Url(_)) => "image",
        "application/pdf" => "document",
        _ => return None,
    };
    let source = match &media.source {
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
