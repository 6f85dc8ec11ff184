//! Gemini: `functionCall` parts of the model, `functionResponse` parts of the user.
//!
//! Ids are optional; without them a response belongs to the oldest open call of its name. All
//! responses of a turn come together, in the order of the calls. A thought signature belongs to its
//! part and is sent back with it. Both `camelCase` and `snake_case` keys are read, as the service
//! does; `camelCase` is written.

use haft_core::Error;
use serde_json::{Map, Value, json};

use super::{
    AssistantPart, ContentPart, Dialect, Media, MediaSource, Message, PastResult, Transcript,
    alternating::AlternatingFormat,
    read::{Node, Reader, arguments_json},
    write::{Writer, joined},
};

pub(super) fn read(root: &Node<'_>) -> Result<Transcript, Error> {
    let mut reader = Reader::default();
    if let Some(system) = root.either(["systemInstruction", "system_instruction"]) {
        let parts = parts(&system)?.iter().map(part).collect::<Result<_, _>>()?;
        reader.system(parts);
    }
    for content in root.list("contents")? {
        match content.str_field("role") {
            Some("model") => read_model(&mut reader, &content)?,
            Some("user" | "function" | "tool") | None => read_user(&mut reader, &content)?,
            Some("system") => {
                let parts = parts(&content)?.iter().map(part).collect::<Result<_, _>>()?;
                reader.system(parts);
            }
            Some(_) => return Err(content.unexpected("a content with a `role` of user or model")),
        }
    }
    Ok(reader.finish())
}

fn read_user(reader: &mut Reader, content: &Node<'_>) -> Result<(), Error> {
    let mut assistant = Vec::new();
    for node in parts(content)? {
        if node.either(["functionCall", "function_call"]).is_some() {
            return Err(node.unexpected("a part that a user may send"));
        }
        match node.either(["functionResponse", "function_response"]) {
            Some(response) => {
                if !assistant.is_empty() {
                    reader.user(std::mem::take(&mut assistant));
                }
                read_response(reader, &response)?;
            }
            None => assistant.push(part(&node)?),
        }
    }
    if !assistant.is_empty() {
        reader.user(assistant);
    }
    Ok(())
}

fn read_model(reader: &mut Reader, content: &Node<'_>) -> Result<(), Error> {
    reader.assistant();
    for node in parts(content)? {
        if node.either(["functionResponse", "function_response"]).is_some() {
            return Err(node.unexpected("a part that a model may send"));
        }
        match node.either(["functionCall", "function_call"]) {
            Some(call) => reader.call(
                call.id("id"),
                call.need("name")?.text()?,
                arguments_json(call.get("args").map_or(&json!({}), |args| args.value)),
                node.provider_fields(&["functionCall", "function_call"]),
            ),
            None => reader.add_part(part(&node)?),
        }
    }
    Ok(())
}

/// Reads `{output: …}` and `{error: …}` as their content, and anything else as a JSON value.
fn read_response(reader: &mut Reader, response: &Node<'_>) -> Result<(), Error> {
    let (mut answer, is_error) = match response.get("response") {
        None => (Vec::new(), false),
        Some(held) => match held.object()? {
            only if only.len() == 1 => match (only.get("output"), only.get("error")) {
                (Some(output), _) => (vec![value(output)], false),
                (_, Some(error)) => (vec![value(error)], true),
                _ => (vec![ContentPart::Json(held.value.clone())], false),
            },
            _ => (vec![ContentPart::Json(held.value.clone())], false),
        },
    };
    if let Some(more) = response.get("parts") {
        for node in more.items()? {
            answer.push(part(&node)?);
        }
    }
    let provider_fields = response.provider_fields(&["id", "name", "response", "parts"]);
    reader.result(response.id("id"), response.str_field("name"), answer, is_error, provider_fields);
    Ok(())
}

fn value(value: &Value) -> ContentPart {
    match value {
        Value::String(text) => ContentPart::text(text.as_str()),
        other => ContentPart::Json(other.clone()),
    }
}

/// Returns the parts of a content; plain text is one part.
fn parts<'a>(content: &Node<'a>) -> Result<Vec<Node<'a>>, Error> {
    if content.value.is_string() {
        return Ok(vec![content.clone()]);
    }
    content.object()?;
    let Some(parts) = content.get("parts") else { return Ok(Vec::new()) };
    // The SDKs send a single part without a list.
    if parts.value.is_object() { Ok(vec![parts]) } else { parts.items() }
}

fn part(node: &Node<'_>) -> Result<ContentPart, Error> {
    if let Some(text) = node.value.as_str() {
        return Ok(ContentPart::text(text));
    }
    node.object()?;
    let is_thought = node.value.get("thought") == Some(&Value::Bool(true));
    if let Some(text) = node.get("text").filter(|_| !is_thought) {
        return Ok(ContentPart::Text {
            text: text.text()?.to_owned(),
            provider_fields: node.provider_fields(&["text"]),
        });
    }
    let inline = node.either(["inlineData", "inline_data"]);
    let file = node.either(["fileData", "file_data"]);
    let media = || {
        let held = inline.as_ref().or(file.as_ref())?;
        let word = |keys: [&str; 2]| held.either(keys)?.value.as_str().map(str::to_owned);
        let source = match &inline {
            Some(inline) => MediaSource::Base64(inline.str_field("data")?.to_owned()),
            None => MediaSource::Url(word(["fileUri", "file_uri"])?),
        };
        let media_type = word(["mimeType", "mime_type"])?;
        Some(Media { media_type, source, name: word(["displayName", "display_name"]) })
    };
    let named = ["inlineData", "inline_data", "fileData", "file_data"];
    Ok(match media() {
        Some(media) if !is_thought => {
            ContentPart::Media { media, provider_fields: node.provider_fields(&named) }
        }
        _ => node.opaque(),
    })
}

const FORMAT: AlternatingFormat = AlternatingFormat {
    assistant_role: "model",
    blocks_key: "parts",
    text,
    part: media_block,
    assistant: write_assistant,
    result: answer,
};

pub(super) fn write(writer: &mut Writer, messages: &[Message]) -> Value {
    let system = writer.system_first(messages, media_block);
    let contents = FORMAT.write(writer, messages);
    if system.is_empty() {
        json!({"contents": contents})
    } else {
        json!({"systemInstruction": {"parts": system}, "contents": contents})
    }
}

fn text(text: &str) -> Value {
    json!({"text": text})
}

fn write_assistant(writer: &mut Writer, assistant: &AssistantPart) -> Option<Value> {
    let call = match assistant {
        AssistantPart::Part(part) => return media_block(writer, part),
        AssistantPart::Call(call) => call,
    };
    let mut inner = Map::new();
    if let Some(id) = writer.given_id(&call.id) {
        inner.insert("id".to_owned(), Value::String(id));
    }
    inner.insert("name".to_owned(), Value::String(writer.tool_name(call)));
    inner.insert("args".to_owned(), Value::Object(writer.object(call)));
    let mut part = json!({"functionCall": inner});
    writer.add_provider_fields(call.provider_fields.as_ref(), &mut part);
    Some(part)
}

fn answer(writer: &mut Writer, result: &PastResult) -> Value {
    let mut texts = Vec::new();
    let mut more = Vec::new();
    for part in &result.parts {
        match part {
            ContentPart::Media { media, .. } if !media.media_type.contains('*') => {
                more.extend(media_block(writer, part));
            }
            ContentPart::Opaque { dialect: Dialect::Gemini, value } => more.push(value.clone()),
            other => texts.push(writer.plain_result(other)),
        }
    }
    let data: Vec<&Value> = result
        .parts
        .iter()
        .filter_map(|part| match part {
            ContentPart::Json(value) => Some(value),
            _ => None,
        })
        .collect();
    let response = match (data.as_slice(), texts.len()) {
        // An object that cannot be mistaken for a wrapper is written as it is.
        ([Value::Object(object)], 1) if !result.is_error && !is_ours(object) => {
            Value::Object(object.clone())
        }
        ([value], 1) => wrapped(result.is_error, (*value).clone()),
        _ => wrapped(result.is_error, Value::String(joined(texts))),
    };
    let mut inner = Map::new();
    if let Some(id) = writer.given_id(&result.id) {
        inner.insert("id".to_owned(), Value::String(id));
    }
    inner.insert("name".to_owned(), Value::String(writer.name(result)));
    inner.insert("response".to_owned(), response);
    if !more.is_empty() {
        inner.insert("parts".to_owned(), Value::Array(more));
    }
    let mut inner = Value::Object(inner);
    writer.add_provider_fields(result.provider_fields.as_ref(), &mut inner);
    json!({"functionResponse": inner})
}

fn wrapped(is_error: bool, value: Value) -> Value {
    if is_error { json!({"error": value}) } else { json!({"output": value}) }
}

fn is_ours(object: &Map<String, Value>) -> bool {
    object.len() == 1 && (object.contains_key("output") || object.contains_key("error"))
}

fn media_block(writer: &mut Writer, part: &ContentPart) -> Option<Value> {
    match part {
        ContentPart::Text { text: words, provider_fields } => {
            let mut part = text(words);
            writer.add_provider_fields(provider_fields.as_ref(), &mut part);
            // Empty text may carry a signature.
            let is_bare = part.as_object().is_some_and(|part| part.len() == 1);
            (!words.is_empty() || !is_bare).then_some(part)
        }
        ContentPart::Media { media, provider_fields } if !media.media_type.contains('*') => {
            let (key, place, at) = match &media.source {
                MediaSource::Base64(data) => ("inlineData", "data", data),
                MediaSource::Url(url) => ("fileData", "fileUri", url),
            };
            let mut held = json!({"mimeType": media.media_type, place: at});
            if let Some(name) = &media.name {
                held["displayName"] = Value::String(name.clone());
            }
            let mut part = json!({key: held});
            writer.add_provider_fields(provider_fields.as_ref(), &mut part);
            Some(part)
        }
        ContentPart::Opaque { dialect, value } => writer.opaque(*dialect, value),
        ContentPart::Media { .. } | ContentPart::Json(_) | ContentPart::Fields(_) => {
            writer.plain(part).map(|words| text(&words))
        }
    }
}
