//! OpenAI Responses: a flat list of items.
//!
//! Items of the model that follow each other are one message here: its reasoning, its text and its
//! calls. They are written as separate items again, each with the fields it came with, because the
//! service wants reasoning back beside what it led to. There is no flag for failure.

use serde_json::{Map, Value, json};

use super::{
    AssistantPart, ContentPart, Dialect, Media, MediaSource, Message, PastCall, PastResult,
    ProviderFields, Transcript,
    read::{Reader, Spot, arguments, media, unmarked},
    write::{Desk, joined, marked, url},
};
use crate::{error::Error, turn::Arguments};

/// Under this key a part keeps the fields of the item that it stood in.
const ITEM: &str = "item";

pub(super) fn read(root: &Spot<'_>) -> Result<Transcript, Error> {
    let mut reader = Reader::default();
    if let Some(instructions) = root.get("instructions") {
        match instructions.value {
            Value::String(text) => reader.system(vec![ContentPart::text(text.as_str())]),
            // A stored prompt gives its items.
            _ => read_items(&mut reader, instructions.items()?)?,
        }
    }
    match root.get("input") {
        Some(Spot { value: Value::String(text), .. }) => {
            reader.user(vec![ContentPart::text(text.as_str())]);
        }
        _ => read_items(&mut reader, root.list("input")?)?,
    }
    Ok(reader.finish())
}

fn read_items(reader: &mut Reader, items: Vec<Spot<'_>>) -> Result<(), Error> {
    for item in items {
        item.object()?;
        let is_message = item.word("type").is_none() && item.word("role").is_some();
        match item.word("type") {
            _ if is_message => read_message(reader, &item)?,
            Some("message") => read_message(reader, &item)?,
            Some("function_call") => reader.call(
                item.id("call_id"),
                item.need("name")?.text()?,
                arguments(item.get("arguments")),
                item.own(&["type", "call_id", "name", "arguments"]),
            ),
            Some("custom_tool_call") => reader.call(
                item.id("call_id"),
                item.need("name")?.text()?,
                Arguments::Text(item.word("input").unwrap_or_default().to_owned()),
                // The type stays with it: this call is free text, and goes back as such.
                item.own(&["call_id", "name", "input"]),
            ),
            Some("function_call_output" | "custom_tool_call_output") => {
                read_output(reader, &item)?;
            }
            Some(other) if is_part(other) => return Err(item.wrong("an item")),
            Some(other) if other.ends_with("_output") || other.ends_with("_response") => {
                reader.user(vec![item.opaque()]);
            }
            Some(_) => reader.say(item.opaque()),
            None => return Err(item.wrong("an item with a `type` or a `role`")),
        }
    }
    Ok(())
}

fn read_message(reader: &mut Reader, item: &Spot<'_>) -> Result<(), Error> {
    let content = item.need("content")?;
    let role = item.word("role");
    let named: &[&str] = match role {
        Some("developer") => &["type", "content"],
        _ => &["type", "role", "content"],
    };
    let own = item.own(named).map(|own| own.fields);
    let parts = contents(&content)?
        .iter()
        .map(|spot| part(spot, own.as_ref()))
        .collect::<Result<Vec<_>, _>>()?;
    match role {
        Some("user") => reader.user(parts),
        Some("system" | "developer") => reader.system(parts),
        Some("assistant") => parts.into_iter().for_each(|part| reader.say(part)),
        _ => return Err(item.wrong("a message with a `role` of user, assistant or system")),
    }
    Ok(())
}

fn read_output(reader: &mut Reader, item: &Spot<'_>) -> Result<(), Error> {
    let mut parts = match item.get("output") {
        Some(output) => {
            contents(&output)?.iter().map(|spot| part(spot, None)).collect::<Result<Vec<_>, _>>()?
        }
        None => Vec::new(),
    };
    let mut is_error = false;
    if let Some(ContentPart::Text { text, .. }) = parts.first_mut() {
        let (failed, rest) = unmarked(text);
        is_error = failed;
        *text = rest.to_owned();
        if failed && text.is_empty() {
            parts.remove(0);
        }
    }
    let own = item.own(&["type", "call_id", "output"]);
    reader.result(item.id("call_id"), None, parts, is_error, own);
    Ok(())
}

fn contents<'a>(content: &Spot<'a>) -> Result<Vec<Spot<'a>>, Error> {
    if content.value.is_string() { Ok(vec![content.clone()]) } else { content.items() }
}

fn part(spot: &Spot<'_>, item: Option<&Map<String, Value>>) -> Result<ContentPart, Error> {
    let own = |named: &[&str]| {
        let mut fields = spot.own(named).map(|own| own.fields).unwrap_or_default();
        if let Some(item) = item {
            fields.insert(ITEM.to_owned(), Value::Object(item.clone()));
        }
        (!fields.is_empty()).then_some(ProviderFields { dialect: Dialect::OpenAiResponses, fields })
    };
    if let Some(text) = spot.value.as_str() {
        return Ok(ContentPart::Text { text: text.to_owned(), own: own(&[]) });
    }
    match spot.word("type") {
        Some("input_text" | "output_text" | "text") => {
            let text = spot.need("text")?.text()?.to_owned();
            Ok(ContentPart::Text { text, own: own(&["type", "text"]) })
        }
        // A refusal is text with a name; the name goes back with it.
        Some("refusal") => {
            let text = spot.need("refusal")?.text()?.to_owned();
            Ok(ContentPart::Text { text, own: own(&["refusal"]) })
        }
        Some("input_image") if spot.word("image_url").is_some() => {
            let url = spot.word("image_url").unwrap_or_default();
            let media = media(url, "image/*", None);
            let named: &[&str] = match spot.word("detail") {
                // What is written where nobody said anything.
                Some("auto") => &["type", "image_url", "detail"],
                _ => &["type", "image_url"],
            };
            Ok(ContentPart::Media { media, own: own(named) })
        }
        Some("input_file") => {
            let name = spot.word("filename");
            let address = spot.word("file_data").or_else(|| spot.word("file_url"));
            Ok(match address {
                Some(url) => ContentPart::Media {
                    media: media(url, "application/pdf", name),
                    own: own(&["type", "file_data", "file_url", "filename"]),
                },
                None => spot.opaque(),
            })
        }
        Some(other) if is_part(other) => Ok(spot.opaque()),
        _ => Err(spot.wrong("a part with a `type` for parts")),
    }
}

/// Returns whether this is the type of a part of a message. Everything else is a whole item, so
/// that an opaque value says itself where it belongs.
fn is_part(kind: &str) -> bool {
    kind.starts_with("input_") || kind.starts_with("output_")
}

fn holds_part(value: &Value) -> bool {
    value.get("type").and_then(Value::as_str).is_some_and(is_part)
}

pub(super) fn write(desk: &mut Desk, messages: &[Message]) -> Value {
    let mut instructions = Vec::new();
    let mut items = Vec::new();
    let mut custom = std::collections::HashSet::new();
    for (index, message) in messages.iter().enumerate() {
        desk.at(index);
        match message {
            Message::System(parts) if items.is_empty() => {
                instructions.extend(parts.iter().filter_map(|part| desk.plain(part)));
            }
            Message::System(parts) => write_message(desk, "system", parts, &mut items),
            Message::User(parts) => write_message(desk, "user", parts, &mut items),
            Message::Assistant(said) => {
                for said in said {
                    if let AssistantPart::Call(call) = said
                        && is_custom(call)
                    {
                        custom.insert(&call.id);
                    }
                }
                write_said(desk, said, &mut items);
            }
            Message::Results(results) => {
                for result in results {
                    items.push(output(desk, result, custom.contains(&result.id)));
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
        // Items of the model are read as one message, so only equal fields say that two parts
        // stood in one.
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

fn write_message(desk: &mut Desk, role: &str, parts: &[ContentPart], items: &mut Vec<Value>) {
    let mut draft = Draft::default();
    for part in parts {
        // A whole item stands for itself; a part of a message stands in one.
        if let ContentPart::Opaque { dialect: Dialect::OpenAiResponses, value } = part
            && !holds_part(value)
        {
            draft.flush(role, items);
            items.push(value.clone());
        } else if let Some((part, item)) = input(desk, part) {
            draft.add(role, item, part, items);
        }
    }
    draft.flush(role, items);
}

fn write_said(desk: &mut Desk, said: &[AssistantPart], items: &mut Vec<Value>) {
    let mut draft = Draft::default();
    for said in said {
        match said {
            AssistantPart::Call(call) => {
                draft.flush("assistant", items);
                items.push(written_call(desk, call));
            }
            AssistantPart::Part(ContentPart::Opaque { dialect, value }) => {
                if let Some(value) = desk.opaque(*dialect, value) {
                    if holds_part(&value) {
                        draft.add("assistant", None, value, items);
                    } else {
                        draft.flush("assistant", items);
                        items.push(value);
                    }
                }
            }
            AssistantPart::Part(ContentPart::Text { text, .. }) if text.is_empty() => {}
            AssistantPart::Part(ContentPart::Text { text, own }) => match desk.own(own.as_ref()) {
                Some(fields) => {
                    let part = output_text(text, fields);
                    draft.add("assistant", fields.get(ITEM), part, items);
                }
                None => {
                    draft.flush("assistant", items);
                    items.push(easy(text));
                }
            },
            AssistantPart::Part(part) => {
                if let Some(text) = desk.plain(part) {
                    draft.flush("assistant", items);
                    items.push(easy(&text));
                }
            }
        }
    }
    draft.flush("assistant", items);
}

/// Text that the service has not numbered stands in the short form; the long one wants an id.
fn easy(text: &str) -> Value {
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
        && call.own.as_ref().is_some_and(|own| {
            own.dialect == Dialect::OpenAiResponses
                && own.fields.get("type").and_then(Value::as_str) == Some("custom_tool_call")
        })
}

fn written_call(desk: &mut Desk, call: &PastCall) -> Value {
    let mut item = match &call.arguments {
        Arguments::Text(text) if is_custom(call) => json!({
            "type": "custom_tool_call",
            "call_id": desk.id(&call.id),
            "name": desk.called(call),
            "input": text,
        }),
        _ => json!({
            "type": "function_call",
            "call_id": desk.id(&call.id),
            "name": desk.called(call),
            "arguments": desk.object_text(call),
        }),
    };
    desk.add_own(call.own.as_ref(), &mut item);
    item
}

fn output(desk: &mut Desk, result: &PastResult, is_custom: bool) -> Value {
    let has_media = result.parts.iter().any(|part| match part {
        ContentPart::Media { media, .. } => carried(media).is_some(),
        ContentPart::Opaque { dialect, .. } => *dialect == Dialect::OpenAiResponses,
        _ => false,
    });
    let output = if has_media {
        let mut parts = Vec::new();
        if result.is_error {
            parts.push(json!({"type": "input_text", "text": marked(true, String::new())}));
        }
        for part in &result.parts {
            let is_foreign = matches!(part, ContentPart::Opaque { dialect, .. }
                if *dialect != Dialect::OpenAiResponses);
            if is_foreign {
                let text = desk.plain_result(part);
                parts.push(json!({"type": "input_text", "text": text}));
            } else {
                parts.extend(input(desk, part).map(|(part, _)| part));
            }
        }
        Value::Array(parts)
    } else {
        Value::String(desk.result_text(result))
    };
    let kind = if is_custom { "custom_tool_call_output" } else { "function_call_output" };
    let mut item = json!({"type": kind, "call_id": desk.id(&result.id), "output": output});
    desk.add_own(result.own.as_ref(), &mut item);
    item
}

/// Makes a part that is sent to the model, and returns the fields of the item it stood in.
fn input<'a>(desk: &mut Desk, part: &'a ContentPart) -> Option<(Value, Option<&'a Value>)> {
    let (mut written, own) = match part {
        ContentPart::Text { text, own } => {
            (json!({"type": "input_text", "text": text}), own.as_ref())
        }
        ContentPart::Media { media, own } => match carried(media) {
            Some(part) => (part, own.as_ref()),
            None => (json!({"type": "input_text", "text": desk.told(media)}), None),
        },
        ContentPart::Opaque { dialect, value } => {
            return Some((desk.opaque(*dialect, value)?, None));
        }
        ContentPart::Json(_) | ContentPart::Fields(_) => {
            let text = desk.plain(part)?;
            (json!({"type": "input_text", "text": text}), None)
        }
    };
    let fields = desk.own(own);
    for (key, value) in fields.into_iter().flatten().filter(|(key, _)| *key != ITEM) {
        written[key] = value.clone();
    }
    let is_empty = matches!(part, ContentPart::Text { text, .. } if text.is_empty());
    (!is_empty).then_some((written, fields.and_then(|fields| fields.get(ITEM))))
}

fn carried(media: &Media) -> Option<Value> {
    if media.media_type.starts_with("image/") {
        let is_known = !media.media_type.contains('*') || matches!(media.at, MediaSource::Url(_));
        let image = || json!({"type": "input_image", "image_url": url(media), "detail": "auto"});
        return is_known.then(image);
    }
    if media.media_type != "application/pdf" {
        return None;
    }
    let mut part = match &media.at {
        MediaSource::Url(url) => json!({"type": "input_file", "file_url": url}),
        MediaSource::Base64(_) => json!({"type": "input_file", "file_data": url(media)}),
    };
    if matches!(media.at, MediaSource::Base64(_)) {
        part["filename"] = Value::from(media.name.as_deref().unwrap_or("document.pdf"));
    }
    Some(part)
}
