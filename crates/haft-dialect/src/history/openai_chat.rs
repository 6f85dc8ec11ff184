//! OpenAI Chat Completions: `tool_calls` next to the content, one `tool` message per call.
//!
//! Many compatible servers vary this form, so one reader accepts them all, Mistral and Ollama too:
//! arguments may be text or JSON values, ids may be missing, images may be in a list of their own,
//! and the legacy `function_call` is read as well. Results come directly after their message and
//! hold text only. There is no error flag.

use haft_core::{Arguments, Error};
use serde_json::{Map, Value, json};

use super::{
    AssistantPart, ContentPart, Dialect, Media, MediaSource, Message, PastCall, PastResult,
    ProviderFields, Transcript,
    read::{Node, Reader, arguments, media, sniff_media_type, strip_failure_marker},
    write::{Writer, joined, url},
};

pub(super) fn read(root: &Node<'_>) -> Result<Transcript, Error> {
    let mut reader = Reader::default();
    for message in root.list("messages")? {
        match message.str_field("role") {
            Some("system") => reader.system(parts(&message, &["role"])?),
            // The role is kept as a field.
            Some("developer") => reader.system(parts(&message, &[])?),
            Some("user") => reader.user(parts(&message, &["role"])?),
            Some("assistant") => read_assistant(&mut reader, &message)?,
            Some("tool" | "function") => read_result(&mut reader, &message)?,
            _ => {
                return Err(message
                    .unexpected("a message with a `role` of system, user, assistant or tool"));
            }
        }
    }
    Ok(reader.finish())
}

fn read_assistant(reader: &mut Reader, message: &Node<'_>) -> Result<(), Error> {
    reader.assistant();
    let named = ["role", "tool_calls", "function_call", "refusal"];
    for part in parts(message, &named)? {
        reader.add_part(part);
    }
    if let Some(refusal) = message.str_field("refusal") {
        let fields = Map::from_iter([("type".to_owned(), Value::from("refusal"))]);
        let provider_fields = ProviderFields { dialect: message.dialect, fields };
        reader.add_part(ContentPart::Text {
            text: refusal.to_owned(),
            provider_fields: Some(provider_fields),
        });
    }
    if let Some(calls) = message.get("tool_calls") {
        for call in calls.items()? {
            read_call(reader, &call)?;
        }
    }
    if let Some(call) = message.get("function_call") {
        let name = call.need("name")?.text()?;
        reader.call(None, name, arguments(call.get("arguments")), None);
    }
    Ok(())
}

fn read_call(reader: &mut Reader, call: &Node<'_>) -> Result<(), Error> {
    if let Some(custom) = call.get("custom") {
        let input = custom.str_field("input").unwrap_or_default();
        reader.call(
            call.id("id"),
            custom.need("name")?.text()?,
            Arguments::Text(input.to_owned()),
            // The type is kept as a field: this call is free text, and is written as such.
            call.provider_fields(&["id", "custom", "index"]),
        );
        return Ok(());
    }
    let function = call.need("function")?;
    let provider_fields = call.provider_fields(&["id", "type", "function", "index"]);
    let name = function.need("name")?.text()?;
    reader.call(call.id("id"), name, arguments(function.get("arguments")), provider_fields);
    Ok(())
}

fn read_result(reader: &mut Reader, message: &Node<'_>) -> Result<(), Error> {
    let named = ["role", "tool_call_id", "name", "tool_name"];
    let mut provider_fields = None;
    let mut answer = Vec::new();
    for part in parts(message, &named)? {
        match part {
            ContentPart::Fields(fields) => provider_fields = Some(fields),
            other => answer.push(other),
        }
    }
    let mut is_error = false;
    if let Some(ContentPart::Text { text, .. }) = answer.first_mut() {
        let (failed, rest) = strip_failure_marker(text);
        is_error = failed;
        *text = rest.to_owned();
    }
    let name = message.str_field("name").or_else(|| message.str_field("tool_name"));
    reader.result(message.id("tool_call_id"), name, answer, is_error, provider_fields);
    Ok(())
}

/// Reads the content of a message, its images, and its other fields.
fn parts(message: &Node<'_>, named: &[&str]) -> Result<Vec<ContentPart>, Error> {
    let mut parts = Vec::new();
    let named: Vec<&str> = named.iter().copied().chain(["content", "images"]).collect();
    parts.extend(message.provider_fields(&named).map(ContentPart::Fields));
    match message.get("content") {
        Some(Node { value: Value::String(text), .. }) => {
            parts.push(ContentPart::text(text.as_str()))
        }
        Some(content) => {
            for node in content.items()? {
                parts.push(part(&node)?);
            }
        }
        None => {}
    }
    if let Some(images) = message.get("images") {
        for image in images.items()? {
            let data = image.text()?;
            let media_type = sniff_media_type(data).to_owned();
            let media =
                Media { media_type, source: MediaSource::Base64(data.to_owned()), name: None };
            parts.push(ContentPart::Media { media, provider_fields: None });
        }
    }
    Ok(parts)
}

fn part(node: &Node<'_>) -> Result<ContentPart, Error> {
    if let Some(text) = node.value.as_str() {
        return Ok(ContentPart::text(text));
    }
    let found = match node.str_field("type") {
        Some("text") => {
            let text = node.need("text")?.text()?.to_owned();
            return Ok(ContentPart::Text {
                text,
                provider_fields: node.provider_fields(&["type", "text"]),
            });
        }
        Some("refusal") => {
            let text = node.need("refusal")?.text()?.to_owned();
            return Ok(ContentPart::Text {
                text,
                provider_fields: node.provider_fields(&["refusal"]),
            });
        }
        Some("image_url") => node.get("image_url").and_then(|image| {
            let url = image.value.as_str().or_else(|| image.str_field("url"))?;
            Some((media(url, "image/*", None), image.provider_fields(&["url"])))
        }),
        Some("document_url") => node
            .str_field("document_url")
            .map(|url| (media(url, "application/pdf", node.str_field("document_name")), None)),
        Some("file") => node.get("file").and_then(|file| {
            let url = file.str_field("file_data")?;
            Some((media(url, "application/pdf", file.str_field("filename")), None))
        }),
        Some("input_audio") => node.get("input_audio").and_then(|audio| {
            let media_type = format!("audio/{}", audio.str_field("format")?);
            let source = MediaSource::Base64(audio.str_field("data")?.to_owned());
            Some((Media { media_type, source, name: None }, None))
        }),
        Some(_) => None,
        None => return Err(node.unexpected("a part with a `type`")),
    };
    Ok(match found {
        Some((media, provider_fields)) => ContentPart::Media { media, provider_fields },
        None => node.opaque(),
    })
}

pub(super) fn write(writer: &mut Writer, messages: &[Message]) -> Value {
    let mut written = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        writer.at(index);
        match message {
            Message::System(parts) => written.extend(plain(writer, "system", parts, media_block)),
            Message::User(parts) => written.extend(plain(writer, "user", parts, media_block)),
            Message::Assistant(assistant) => {
                written.extend(write_assistant(writer, assistant, Value::Null, written_call));
            }
            Message::Results(results) => {
                written.extend(results.iter().map(|result| answer(writer, result)));
            }
        }
    }
    json!({"messages": written})
}

/// Writes a message without calls; `None` if it is empty.
pub(super) fn plain(
    writer: &mut Writer,
    role: &str,
    parts: &[ContentPart],
    media: fn(&Media) -> Option<Value>,
) -> Option<Value> {
    let draft = Draft::of(writer, parts.iter(), media);
    if draft.blocks.is_empty() { None } else { Some(draft.message(role, Value::Null, Vec::new())) }
}

/// Writes a message of the model; `None` if it is empty. Without text, its content is what the
/// server expects there.
pub(super) fn write_assistant(
    writer: &mut Writer,
    assistant: &[AssistantPart],
    nothing: Value,
    call: fn(&mut Writer, &PastCall) -> Value,
) -> Option<Value> {
    let parts = assistant.iter().filter_map(|assistant| match assistant {
        AssistantPart::Part(part) => Some(part),
        AssistantPart::Call(_) => None,
    });
    // A model sends no images here.
    let draft = Draft::of(writer, parts, |_| None);
    let calls: Vec<Value> = assistant
        .iter()
        .filter_map(|assistant| match assistant {
            AssistantPart::Call(of) => Some(call(writer, of)),
            AssistantPart::Part(_) => None,
        })
        .collect();
    if draft.blocks.is_empty() && calls.is_empty() {
        return None;
    }
    Some(draft.message("assistant", nothing, calls))
}

/// The content of a message, and its other fields.
struct Draft {
    blocks: Vec<Value>,
    fields: Map<String, Value>,
}

impl Draft {
    fn of<'a>(
        writer: &mut Writer,
        parts: impl Iterator<Item = &'a ContentPart>,
        media: fn(&Media) -> Option<Value>,
    ) -> Self {
        let mut draft = Self { blocks: Vec::new(), fields: Map::new() };
        for part in parts {
            match part {
                ContentPart::Fields(provider_fields) => {
                    for (key, value) in
                        writer.provider_fields(Some(provider_fields)).into_iter().flatten()
                    {
                        draft.fields.entry(key.clone()).or_insert_with(|| value.clone());
                    }
                }
                other => draft.blocks.extend(block(writer, other, media)),
            }
        }
        draft
    }

    fn message(mut self, role: &str, nothing: Value, calls: Vec<Value>) -> Value {
        let mut message = Map::new();
        let role = self.fields.remove("role").unwrap_or_else(|| Value::from(role));
        message.insert("role".to_owned(), role);
        let is_text = |block: &Value| {
            let is_bare = block.as_object().is_some_and(|block| block.len() == 2);
            is_bare && block.get("text").is_some_and(Value::is_string)
        };
        let content = if self.blocks.is_empty() {
            nothing
        } else if self.blocks.iter().all(is_text) {
            let text = |block: &Value| {
                block.get("text").and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            Value::String(joined(self.blocks.iter().map(text)))
        } else {
            Value::Array(self.blocks)
        };
        message.insert("content".to_owned(), content);
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        for (key, value) in self.fields {
            message.entry(key).or_insert(value);
        }
        Value::Object(message)
    }
}

fn block(
    writer: &mut Writer,
    part: &ContentPart,
    media: fn(&Media) -> Option<Value>,
) -> Option<Value> {
    let text = |text: String| json!({"type": "text", "text": text});
    match part {
        ContentPart::Text { text: words, provider_fields } => {
            let fields = writer.provider_fields(provider_fields.as_ref());
            let is_refusal = fields.is_some_and(|fields| fields.contains_key("type"));
            let mut block = if is_refusal {
                json!({"type": "refusal", "refusal": words})
            } else {
                text(words.clone())
            };
            for (key, value) in fields.into_iter().flatten() {
                block[key] = value.clone();
            }
            (!words.is_empty()).then_some(block)
        }
        ContentPart::Media { media: of, provider_fields } => {
            let Some(mut block) = media(of) else { return writer.plain(part).map(text) };
            if let Some(Value::Object(image)) = block.get_mut("image_url") {
                for (key, value) in
                    writer.provider_fields(provider_fields.as_ref()).into_iter().flatten()
                {
                    image.insert(key.clone(), value.clone());
                }
            }
            Some(block)
        }
        ContentPart::Opaque { dialect, value } => writer.opaque(*dialect, value),
        ContentPart::Json(_) | ContentPart::Fields(_) => writer.plain(part).map(text),
    }
}

fn media_block(media: &Media) -> Option<Value> {
    let is_held = matches!(media.source, MediaSource::Base64(_));
    match (media.media_type.as_str(), &media.source) {
        (kind, _) if kind.starts_with("image/") && (!is_held || !kind.contains('*')) => {
            Some(json!({"type": "image_url", "image_url": {"url": url(media)}}))
        }
        ("audio/wav" | "audio/mp3", MediaSource::Base64(data)) => {
            let format = media.media_type.trim_start_matches("audio/");
            Some(json!({"type": "input_audio", "input_audio": {"data": data, "format": format}}))
        }
        ("application/pdf", MediaSource::Base64(_)) => {
            let name = media.name.as_deref().unwrap_or("document.pdf");
            Some(json!({"type": "file", "file": {"file_data": url(media), "filename": name}}))
        }
        _ => None,
    }
}

fn written_call(writer: &mut Writer, call: &PastCall) -> Value {
    let is_custom = call.provider_fields.as_ref().is_some_and(|provider_fields| {
        provider_fields.dialect == Dialect::OpenAiChat
            && provider_fields.fields.get("type").and_then(Value::as_str) == Some("custom")
    });
    let id = writer.id(&call.id);
    let name = writer.tool_name(call);
    let mut written = match &call.arguments {
        Arguments::Text(input) if is_custom => {
            json!({"id": id, "type": "custom", "custom": {"name": name, "input": input}})
        }
        _ => json!({
            "id": id,
            "type": "function",
            "function": {"name": name, "arguments": writer.object_text(call)},
        }),
    };
    writer.add_provider_fields(call.provider_fields.as_ref(), &mut written);
    written
}

fn answer(writer: &mut Writer, result: &PastResult) -> Value {
    let mut message = json!({
        "role": "tool",
        "tool_call_id": writer.id(&result.id),
        "content": writer.result_text(result),
    });
    writer.add_provider_fields(result.provider_fields.as_ref(), &mut message);
    message
}
