//! OpenAI Chat Completions: `tool_calls` beside the content, one `tool` message per call.
//!
//! Many servers copy this form and bend it, so one reader serves them all, Mistral and Ollama too:
//! arguments may be text or data, ids may be missing, pictures may stand in a list of their own,
//! and the older `function_call` is read as well. The results stand directly behind their message
//! and hold text only. There is no flag for failure.

use serde_json::{Map, Value, json};

use super::{
    AssistantPart, ContentPart, Dialect, Media, MediaSource, Message, PastCall, PastResult,
    ProviderFields, Transcript,
    read::{Reader, Spot, arguments, media, sniffed, unmarked},
    write::{Desk, joined, url},
};
use crate::{error::Error, turn::Arguments};

pub(super) fn read(root: &Spot<'_>) -> Result<Transcript, Error> {
    let mut reader = Reader::default();
    for message in root.list("messages")? {
        match message.word("role") {
            Some("system") => reader.system(parts(&message, &["role"])?),
            // The role stays with it.
            Some("developer") => reader.system(parts(&message, &[])?),
            Some("user") => reader.user(parts(&message, &["role"])?),
            Some("assistant") => read_assistant(&mut reader, &message)?,
            Some("tool" | "function") => read_result(&mut reader, &message)?,
            _ => {
                return Err(
                    message.wrong("a message with a `role` of system, user, assistant or tool")
                );
            }
        }
    }
    Ok(reader.finish())
}

fn read_assistant(reader: &mut Reader, message: &Spot<'_>) -> Result<(), Error> {
    reader.assistant();
    let named = ["role", "tool_calls", "function_call", "refusal"];
    for part in parts(message, &named)? {
        reader.say(part);
    }
    if let Some(refusal) = message.word("refusal") {
        let fields = Map::from_iter([("type".to_owned(), Value::from("refusal"))]);
        let own = ProviderFields { dialect: message.dialect, fields };
        reader.say(ContentPart::Text { text: refusal.to_owned(), own: Some(own) });
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

fn read_call(reader: &mut Reader, call: &Spot<'_>) -> Result<(), Error> {
    if let Some(custom) = call.get("custom") {
        let input = custom.word("input").unwrap_or_default();
        reader.call(
            call.id("id"),
            custom.need("name")?.text()?,
            Arguments::Text(input.to_owned()),
            // The type stays with it: this call is free text, and goes back as such.
            call.own(&["id", "custom", "index"]),
        );
        return Ok(());
    }
    let function = call.need("function")?;
    let own = call.own(&["id", "type", "function", "index"]);
    let name = function.need("name")?.text()?;
    reader.call(call.id("id"), name, arguments(function.get("arguments")), own);
    Ok(())
}

fn read_result(reader: &mut Reader, message: &Spot<'_>) -> Result<(), Error> {
    let named = ["role", "tool_call_id", "name", "tool_name"];
    let mut own = None;
    let mut answer = Vec::new();
    for part in parts(message, &named)? {
        match part {
            ContentPart::Fields(fields) => own = Some(fields),
            other => answer.push(other),
        }
    }
    let mut is_error = false;
    if let Some(ContentPart::Text { text, .. }) = answer.first_mut() {
        let (failed, rest) = unmarked(text);
        is_error = failed;
        *text = rest.to_owned();
    }
    let name = message.word("name").or_else(|| message.word("tool_name"));
    reader.result(message.id("tool_call_id"), name, answer, is_error, own);
    Ok(())
}

/// Reads the content of a message, its pictures, and the fields that nobody named.
fn parts(message: &Spot<'_>, named: &[&str]) -> Result<Vec<ContentPart>, Error> {
    let mut parts = Vec::new();
    let named: Vec<&str> = named.iter().copied().chain(["content", "images"]).collect();
    parts.extend(message.own(&named).map(ContentPart::Fields));
    match message.get("content") {
        Some(Spot { value: Value::String(text), .. }) => {
            parts.push(ContentPart::text(text.as_str()))
        }
        Some(content) => {
            for spot in content.items()? {
                parts.push(part(&spot)?);
            }
        }
        None => {}
    }
    if let Some(images) = message.get("images") {
        for image in images.items()? {
            let data = image.text()?;
            let media_type = sniffed(data).to_owned();
            let media = Media { media_type, at: MediaSource::Base64(data.to_owned()), name: None };
            parts.push(ContentPart::Media { media, own: None });
        }
    }
    Ok(parts)
}

fn part(spot: &Spot<'_>) -> Result<ContentPart, Error> {
    if let Some(text) = spot.value.as_str() {
        return Ok(ContentPart::text(text));
    }
    let found = match spot.word("type") {
        Some("text") => {
            let text = spot.need("text")?.text()?.to_owned();
            return Ok(ContentPart::Text { text, own: spot.own(&["type", "text"]) });
        }
        Some("refusal") => {
            let text = spot.need("refusal")?.text()?.to_owned();
            return Ok(ContentPart::Text { text, own: spot.own(&["refusal"]) });
        }
        Some("image_url") => spot.get("image_url").and_then(|image| {
            let url = image.value.as_str().or_else(|| image.word("url"))?;
            Some((media(url, "image/*", None), image.own(&["url"])))
        }),
        Some("document_url") => spot
            .word("document_url")
            .map(|url| (media(url, "application/pdf", spot.word("document_name")), None)),
        Some("file") => spot.get("file").and_then(|file| {
            let url = file.word("file_data")?;
            Some((media(url, "application/pdf", file.word("filename")), None))
        }),
        Some("input_audio") => spot.get("input_audio").and_then(|audio| {
            let media_type = format!("audio/{}", audio.word("format")?);
            let at = MediaSource::Base64(audio.word("data")?.to_owned());
            Some((Media { media_type, at, name: None }, None))
        }),
        Some(_) => None,
        None => return Err(spot.wrong("a part with a `type`")),
    };
    Ok(match found {
        Some((media, own)) => ContentPart::Media { media, own },
        None => spot.opaque(),
    })
}

pub(super) fn write(desk: &mut Desk, messages: &[Message]) -> Value {
    let mut written = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        desk.at(index);
        match message {
            Message::System(parts) => written.extend(plain(desk, "system", parts, carried)),
            Message::User(parts) => written.extend(plain(desk, "user", parts, carried)),
            Message::Assistant(said) => {
                written.extend(spoken(desk, said, Value::Null, written_call));
            }
            Message::Results(results) => {
                written.extend(results.iter().map(|result| answer(desk, result)));
            }
        }
    }
    json!({"messages": written})
}

/// Writes a message without calls, unless nothing is left of it.
pub(super) fn plain(
    desk: &mut Desk,
    role: &str,
    parts: &[ContentPart],
    media: fn(&Media) -> Option<Value>,
) -> Option<Value> {
    let draft = Draft::of(desk, parts.iter(), media);
    if draft.blocks.is_empty() { None } else { Some(draft.message(role, Value::Null, Vec::new())) }
}

/// Writes a message of the model, unless nothing is left of it. Without text, its content is what
/// the server wants there.
pub(super) fn spoken(
    desk: &mut Desk,
    said: &[AssistantPart],
    nothing: Value,
    call: fn(&mut Desk, &PastCall) -> Value,
) -> Option<Value> {
    let parts = said.iter().filter_map(|said| match said {
        AssistantPart::Part(part) => Some(part),
        AssistantPart::Call(_) => None,
    });
    // A model sends no pictures here.
    let draft = Draft::of(desk, parts, |_| None);
    let calls: Vec<Value> = said
        .iter()
        .filter_map(|said| match said {
            AssistantPart::Call(of) => Some(call(desk, of)),
            AssistantPart::Part(_) => None,
        })
        .collect();
    if draft.blocks.is_empty() && calls.is_empty() {
        return None;
    }
    Some(draft.message("assistant", nothing, calls))
}

/// The content of a message, and what stands beside it.
struct Draft {
    blocks: Vec<Value>,
    fields: Map<String, Value>,
}

impl Draft {
    fn of<'a>(
        desk: &mut Desk,
        parts: impl Iterator<Item = &'a ContentPart>,
        media: fn(&Media) -> Option<Value>,
    ) -> Self {
        let mut draft = Self { blocks: Vec::new(), fields: Map::new() };
        for part in parts {
            match part {
                ContentPart::Fields(own) => {
                    for (key, value) in desk.own(Some(own)).into_iter().flatten() {
                        draft.fields.entry(key.clone()).or_insert_with(|| value.clone());
                    }
                }
                other => draft.blocks.extend(block(desk, other, media)),
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

fn block(desk: &mut Desk, part: &ContentPart, media: fn(&Media) -> Option<Value>) -> Option<Value> {
    let text = |text: String| json!({"type": "text", "text": text});
    match part {
        ContentPart::Text { text: words, own } => {
            let fields = desk.own(own.as_ref());
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
        ContentPart::Media { media: of, own } => {
            let Some(mut block) = media(of) else { return desk.plain(part).map(text) };
            if let Some(Value::Object(image)) = block.get_mut("image_url") {
                for (key, value) in desk.own(own.as_ref()).into_iter().flatten() {
                    image.insert(key.clone(), value.clone());
                }
            }
            Some(block)
        }
        ContentPart::Opaque { dialect, value } => desk.opaque(*dialect, value),
        ContentPart::Json(_) | ContentPart::Fields(_) => desk.plain(part).map(text),
    }
}

fn carried(media: &Media) -> Option<Value> {
    let is_held = matches!(media.at, MediaSource::Base64(_));
    match (media.media_type.as_str(), &media.at) {
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

fn written_call(desk: &mut Desk, call: &PastCall) -> Value {
    let is_custom = call.own.as_ref().is_some_and(|own| {
        own.dialect == Dialect::OpenAiChat
            && own.fields.get("type").and_then(Value::as_str) == Some("custom")
    });
    let id = desk.id(&call.id);
    let name = desk.called(call);
    let mut written = match &call.arguments {
        Arguments::Text(input) if is_custom => {
            json!({"id": id, "type": "custom", "custom": {"name": name, "input": input}})
        }
        _ => json!({
            "id": id,
            "type": "function",
            "function": {"name": name, "arguments": desk.object_text(call)},
        }),
    };
    desk.add_own(call.own.as_ref(), &mut written);
    written
}

fn answer(desk: &mut Desk, result: &PastResult) -> Value {
    let mut message = json!({
        "role": "tool",
        "tool_call_id": desk.id(&result.id),
        "content": desk.result_text(result),
    });
    desk.add_own(result.own.as_ref(), &mut message);
    message
}
