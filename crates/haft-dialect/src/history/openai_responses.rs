//! OpenAI Responses: a flat list of items.
//!
//! Consecutive items of the model are read as one message: its reasoning, its text and its calls.
//! They are written as separate items again, each with its own fields, because the service requires
//! reasoning next to the item it produced. There is no error flag.

use haft_core::{Arguments, Error};
use serde_json::{Map, Value, json};

use super::{
    AssistantPart, ContentPart, Dialect, Media, MediaSource, Message, PastCall, PastResult,
    ProviderFields, Transcript,
    read::{Node, Reader, arguments, media, strip_failure_marker},
    write::{Writer, joined, mark_failure, url},
};

/// The key under which a part keeps the fields of its item.
const ITEM: &str = "item";

pub(super) fn read(root: &Node<'_>) -> Result<Transcript, Error> {
    let mut reader = Reader::default();
    if let Some(instructions) = root.get("instructions") {
        match instructions.value {
            Value::String(text) => reader.system(vec![ContentPart::text(text.as_str())]),
            // A stored prompt contains items.
            _ => read_items(&mut reader, instructions.items()?)?,
        }
    }
    match root.get("input") {
        Some(Node { value: Value::String(text), .. }) => {
            reader.user(vec![ContentPart::text(text.as_str())]);
        }
        _ => read_items(&mut reader, root.list("input")?)?,
    }
    Ok(reader.finish())
}

fn read_items(reader: &mut Reader, items: Vec<Node<'_>>) -> Result<(), Error> {
    for item in items {
        item.object()?;
        let is_message = item.str_field("type").is_none() && item.str_field("role").is_some();
        match item.str_field("type") {
            _ if is_message => read_message(reader, &item)?,
            Some("message") => read_message(reader, &item)?,
            Some("function_call") => reader.call(
                item.id("call_id"),
                item.need("name")?.text()?,
                arguments(item.get("arguments")),
                item.provider_fields(&["type", "call_id", "name", "arguments"]),
            ),
            Some("custom_tool_call") => reader.call(
                item.id("call_id"),
                item.need("name")?.text()?,
                Arguments::Text(item.str_field("input").unwrap_or_default().to_owned()),
                // The type is kept as a field: this call is free text, and is written as such.
                item.provider_fields(&["call_id", "name", "input"]),
            ),
            Some("function_call_output" | "custom_tool_call_output") => {
                read_output(reader, &item)?;
            }
            Some(other) if is_part(other) => return Err(item.unexpected("an item")),
            Some(other) if other.ends_with("_output") || other.ends_with("_response") => {
                reader.user(vec![item.opaque()]);
            }
            Some(_) => reader.add_part(item.opaque()),
            None => return Err(item.unexpected("an item with a `type` or a `role`")),
        }
    }
    Ok(())
}

fn read_message(reader: &mut Reader, item: &Node<'_>) -> Result<(), Error> {
    let content = item.need("content")?;
    let role = item.str_field("role");
    let named: &[&str] = match role {
        Some("developer") => &["type", "content"],
        _ => &["type", "role", "content"],
    };
    let provider_fields = item.provider_fields(named).map(|provider_fields| provider_fields.fields);
    let parts = contents(&content)?
        .iter()
        .map(|node| part(node, provider_fields.as_ref()))
        .collect::<Result<Vec<_>, _>>()?;
    match role {
        Some("user") => reader.user(parts),
        Some("system" | "developer") => reader.system(parts),
        Some("assistant") => parts.into_iter().for_each(|part| reader.add_part(part)),
        _ => return Err(item.unexpected("a message with a `role` of user, assistant or system")),
    }
    Ok(())
}

fn read_output(reader: &mut Reader, item: &Node<'_>) -> Result<(), Error> {
    let mut parts = match item.get("output") {
        Some(output) => {
            contents(&output)?.iter().map(|node| part(node, None)).collect::<Result<Vec<_>, _>>()?
        }
        None => Vec::new(),
    };
    let mut is_error = false;
    if let Some(ContentPart::Text { text, .. }) = parts.first_mut() {
        let (failed, rest) = strip_failure_marker(text);
        is_error = failed;
        *text = rest.to_owned();
        if failed && text.is_empty() {
            parts.remove(0);
        }
    }
    let provider_fields = item.provider_fields(&["type", "call_id", "output"]);
    reader.result(item.id("call_id"), None, parts, is_error, provider_fields);
    Ok(())
}

fn contents<'a>(content: &Node<'a>) -> Result<Vec<Node<'a>>, Error> {
    if content.value.is_string() { Ok(vec![content.clone()]) } else { content.items() }
}

fn part(node: &Node<'_>, item: Option<&Map<String, Value>>) -> Result<ContentPart, Error> {
    let provider_fields = |named: &[&str]| {
        let mut fields = node
            .provider_fields(named)
            .map(|provider_fields| provider_fields.fields)
            .unwrap_or_default();
        if let Some(item) = item {
            fields.insert(ITEM.to_owned(), Value::Object(item.clone()));
        }
        (!fields.is_empty()).then_some(ProviderFields { dialect: Dialect::OpenAiResponses, fields })
    };
    if let Some(text) = node.value.as_str() {
        return Ok(ContentPart::Text {
            text: text.to_owned(),
            provider_fields: provider_fields(&[]),
        });
    }
    match node.str_field("type") {
        Some("input_text" | "output_text" | "text") => {
            let text = node.need("text")?.text()?.to_owned();
            Ok(ContentPart::Text { text, provider_fields: provider_fields(&["type", "text"]) })
        }
        // A refusal is text with a type; the type is kept.
        Some("refusal") => {
            let text = node.need("refusal")?.text()?.to_owned();
            Ok(ContentPart::Text { text, provider_fields: provider_fields(&["refusal"]) })
        }
        Some("input_image") if node.str_field("image_url").is_some() => {
            let url = node.str_field("image_url").unwrap_or_default();
            let media = media(url, "image/*", None);
            let named: &[&str] = match node.str_field("detail") {
                // `auto` is the default that is written.
                Some("auto") => &["type", "image_url", "detail"],
                _ => &["type", "image_url"],
            };
            Ok(ContentPart::Media { media, provider_fields: provider_fields(named) })
        }
        Some("input_file") => {
            let name = node.str_field("filename");
            let address = node.str_field("file_data").or_else(|| node.str_field("file_url"));
            Ok(match address {
                Some(url) => ContentPart::Media {
                    media: media(url, "application/pdf", name),
                    provider_fields: provider_fields(&[
                        "type",
                        "file_data",
                        "file_url",
                        "filename",
                    ]),
                },
                None => node.opaque(),
            })
        }
        Some(other) if is_part(other) => Ok(node.opaque()),
        _ => Err(node.unexpected("a part with a `type` for parts")),
    }
}

/// Returns whether this is the type of a part of a message. Every other type is a whole item, so an
/// opaque value shows by itself where it belongs.
fn is_part(kind: &str) -> bool {
    kind.starts_with("input_") || kind.starts_with("output_")
}

fn holds_part(value: &Value) -> bool {
    value.get("type").and_then(Value::as_str).is_some_and(is_part)
}

pub(super) fn write(writer: &mut Writer, messages: &[Message]) -> Value {
    let mut instructions = Vec::new();
    let mut items = Vec::new();
    let mut custom = std::collections::HashSet::new();
    for (index, message) in messages.iter().enumerate() {
        writer.at(index);
        match message {
            Message::System(parts) if items.is_empty() => {
                instructions.extend(parts.iter().filter_map(|part| writer.plain(part)));
            }
            Message::System(parts) => write_message(writer, "system", parts, &mut items),
            Message::User(parts) => write_message(writer, "user", parts, &mut items),
            Message::Assistant(assistant) => {
                for assistant in assistant {
                    if let AssistantPart::Call(call) = assistant
                        && is_custom(call)
                    {
                        custom.insert(&call.id);
                    }
                }
                write_assistant_items(writer, assistant, &mut items);
            }
            Message::Results(results) => {
                for result in results {
                    items.push(output(writer, result, custom.contains(&result.id)));
                }
            }
        }
    }
    let instructions = joined(instructions);
    if instructions.is_empty() {
        json!({"input": items})
    } else {
        json!({"instructions": instructions, "input": items})
    }
}

/// Collects the parts of a message until another item begins.
#[derive(Default)]
struct Draft {
    item: Option<Map<String, Value>>,
    content: Vec<Value>,
}

impl Draft {
    fn add(&mut self, role: &str, item: Option<&Value>, part: Value, items: &mut Vec<Value>) {
        let item = item.and_then(Value::as_object);
        // Items of the model are read as one message, so two parts belong to one item only if its
        // fields are equal.
        if self.item.as_ref() != item || (item.is_none() && role == "assistant") {
            self.flush(role, items);
            self.item = item.cloned();
        }
        self.content.push(part);
    }

    fn flush(&mut self, role: &str, items: &mut Vec<Value>) {
        let content = std::mem::take(&mut self.content);
        let fields = self.item.take().unwrap_or_default();
        if content.is_empty() {
            return;
        }
        let mut item = Map::new();
        item.insert("type".to_owned(), Value::from("message"));
        let role = fields.get("role").cloned().unwrap_or_else(|| Value::from(role));
        item.insert("role".to_owned(), role);
        item.insert("content".to_owned(), Value::Array(content));
        for (key, value) in fields {
            item.entry(key).or_insert(value);
        }
        items.push(Value::Object(item));
    }
}

fn write_message(writer: &mut Writer, role: &str, parts: &[ContentPart], items: &mut Vec<Value>) {
    let mut draft = Draft::default();
    for part in parts {
        // A whole item is written as is; a part of a message goes into one.
        if let ContentPart::Opaque { dialect: Dialect::OpenAiResponses, value } = part
            && !holds_part(value)
        {
            draft.flush(role, items);
            items.push(value.clone());
        } else if let Some((part, item)) = input(writer, part) {
            draft.add(role, item, part, items);
        }
    }
    draft.flush(role, items);
}

fn write_assistant_items(writer: &mut Writer, assistant: &[AssistantPart], items: &mut Vec<Value>) {
    let mut draft = Draft::default();
    for assistant in assistant {
        match assistant {
            AssistantPart::Call(call) => {
                draft.flush("assistant", items);
                items.push(written_call(writer, call));
            }
            AssistantPart::Part(ContentPart::Opaque { dialect, value }) => {
                if let Some(value) = writer.opaque(*dialect, value) {
                    if holds_part(&value) {
                        draft.add("assistant", None, value, items);
                    } else {
                        draft.flush("assistant", items);
                        items.push(value);
                    }
                }
            }
            AssistantPart::Part(ContentPart::Text { text, .. }) if text.is_empty() => {}
            AssistantPart::Part(ContentPart::Text { text, provider_fields }) => {
                match writer.provider_fields(provider_fields.as_ref()) {
                    Some(fields) => {
                        let part = output_text(text, fields);
                        draft.add("assistant", fields.get(ITEM), part, items);
                    }
                    None => {
                        draft.flush("assistant", items);
                        items.push(short_text(text));
                    }
                }
            }
            AssistantPart::Part(part) => {
                if let Some(text) = writer.plain(part) {
                    draft.flush("assistant", items);
                    items.push(short_text(&text));
                }
            }
        }
    }
    draft.flush("assistant", items);
}

/// Text without an id is written in the short form; the long form requires an id.
fn short_text(text: &str) -> Value {
    json!({"type": "message", "role": "assistant", "content": text})
}

fn output_text(text: &str, fields: &Map<String, Value>) -> Value {
    let is_refusal = fields.contains_key("type");
    let mut part = if is_refusal {
        json!({"type": "refusal", "refusal": text})
    } else {
        json!({"type": "output_text", "text": text, "annotations": []})
    };
    for (key, value) in fields.iter().filter(|(key, _)| *key != ITEM) {
        part[key] = value.clone();
    }
    part
}

fn is_custom(call: &PastCall) -> bool {
    let is_text = matches!(call.arguments, Arguments::Text(_));
    is_text
        && call.provider_fields.as_ref().is_some_and(|provider_fields| {
            provider_fields.dialect == Dialect::OpenAiResponses
                && provider_fields.fields.get("type").and_then(Value::as_str)
                    == Some("custom_tool_call")
        })
}

fn written_call(writer: &mut Writer, call: &PastCall) -> Value {
    let mut item = match &call.arguments {
        Arguments::Text(text) if is_custom(call) => json!({
            "type": "custom_tool_call",
            "call_id": writer.id(&call.id),
            "name": writer.tool_name(call),
            "input": text,
        }),
        _ => json!({
            "type": "function_call",
            "call_id": writer.id(&call.id),
            "name": writer.tool_name(call),
            "arguments": writer.object_text(call),
        }),
    };
    writer.add_provider_fields(call.provider_fields.as_ref(), &mut item);
    item
}

fn output(writer: &mut Writer, result: &PastResult, is_custom: bool) -> Value {
    let has_media = result.parts.iter().any(|part| match part {
        ContentPart::Media { media, .. } => media_block(media).is_some(),
        ContentPart::Opaque { dialect, .. } => *dialect == Dialect::OpenAiResponses,
        _ => false,
    });
    let output = if has_media {
        let mut parts = Vec::new();
        if result.is_error {
            parts.push(json!({"type": "input_text", "text": mark_failure(true, String::new())}));
        }
        for part in &result.parts {
            let is_foreign = matches!(part, ContentPart::Opaque { dialect, .. }
                if *dialect != Dialect::OpenAiResponses);
            if is_foreign {
                let text = writer.plain_result(part);
                parts.push(json!({"type": "input_text", "text": text}));
            } else {
                parts.extend(input(writer, part).map(|(part, _)| part));
            }
        }
        Value::Array(parts)
    } else {
        Value::String(writer.result_text(result))
    };
    let kind = if is_custom { "custom_tool_call_output" } else { "function_call_output" };
    let mut item = json!({"type": kind, "call_id": writer.id(&result.id), "output": output});
    writer.add_provider_fields(result.provider_fields.as_ref(), &mut item);
    item
}

/// Makes an input part, and returns the fields of its item.
fn input<'a>(writer: &mut Writer, part: &'a ContentPart) -> Option<(Value, Option<&'a Value>)> {
    let (mut written, provider_fields) = match part {
        ContentPart::Text { text, provider_fields } => {
            (json!({"type": "input_text", "text": text}), provider_fields.as_ref())
        }
        ContentPart::Media { media, provider_fields } => match media_block(media) {
            Some(part) => (part, provider_fields.as_ref()),
            None => (json!({"type": "input_text", "text": writer.describe_media(media)}), None),
        },
        ContentPart::Opaque { dialect, value } => {
            return Some((writer.opaque(*dialect, value)?, None));
        }
        ContentPart::Json(_) | ContentPart::Fields(_) => {
            let text = writer.plain(part)?;
            (json!({"type": "input_text", "text": text}), None)
        }
    };
    let fields = writer.provider_fields(provider_fields);
    for (key, value) in fields.into_iter().flatten().filter(|(key, _)| *key != ITEM) {
        written[key] = value.clone();
    }
    let is_empty = matches!(part, ContentPart::Text { text, .. } if text.is_empty());
    (!is_empty).then_some((written, fields.and_then(|fields| fields.get(ITEM))))
}

fn media_block(media: &Media) -> Option<Value> {
    if media.media_type.starts_with("image/") {
        let is_known =
            !media.media_type.contains('*') || matches!(media.source, MediaSource::Url(_));
        let image = || json!({"type": "input_image", "image_url": url(media), "detail": "auto"});
        return is_known.then(image);
    }
    if media.media_type != "application/pdf" {
        return None;
    }
    let mut part = match &media.source {
        MediaSource::Url(url) => json!({"type": "input_file", "file_url": url}),
        MediaSource::Base64(_) => json!({"type": "input_file", "file_data": url(media)}),
    };
    if matches!(media.source, MediaSource::Base64(_)) {
        part["filename"] = Value::from(media.name.as_deref().unwrap_or("document.pdf"));
    }
    Some(part)
}
