//! Templates in a script: `{{result:ID}}`, `{{result:ID/json/pointer}}` and `{{user}}`.
//!
//! In: a text or JSON of the script, and what the model was shown. Out: the same with the values
//! filled in. A text that is nothing but one template takes the JSON value as it is.

use std::borrow::Cow;

use haft_core::{Error, ErrorKind};
use haft_dialect::history::{Message, PastResult};
use serde_json::Value;

use super::super::{conversation::text_of, model::ModelRequest};

/// Fills in a text.
pub(super) fn text<'t>(
    template: &'t str,
    request: &ModelRequest<'_>,
) -> Result<Cow<'t, str>, Error> {
    if !template.contains("{{") {
        return Ok(Cow::Borrowed(template));
    }
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, tail)) = rest.split_once("{{") {
        let Some((name, tail)) = tail.split_once("}}") else {
            return Err(unknown(tail, "it has no end"));
        };
        filled.push_str(before);
        match look_up(name.trim(), request)? {
            Value::String(text) => filled.push_str(&text),
            other => filled.push_str(&other.to_string()),
        }
        rest = tail;
    }
    filled.push_str(rest);
    Ok(Cow::Owned(filled))
}

/// Fills in every text of a JSON value.
pub(super) fn value(template: &Value, request: &ModelRequest<'_>) -> Result<Value, Error> {
    Ok(match template {
        Value::String(text) => match whole(text) {
            Some(name) => look_up(name, request)?,
            None => Value::String(self::text(text, request)?.into_owned()),
        },
        Value::Array(items) => {
            let items = items.iter().map(|item| value(item, request));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Value::Object(map) => {
            let entries = map.iter().map(|(key, item)| Ok((key.clone(), value(item, request)?)));
            Value::Object(entries.collect::<Result<_, Error>>()?)
        }
        other => other.clone(),
    })
}

/// The name inside a text that is one template.
fn whole(text: &str) -> Option<&str> {
    let name = text.strip_prefix("{{")?.strip_suffix("}}")?;
    (!name.contains("{{") && !name.contains("}}")).then(|| name.trim())
}

fn look_up(name: &str, request: &ModelRequest<'_>) -> Result<Value, Error> {
    if name == "user" {
        let text = request.last_user_text().unwrap_or_default();
        return Ok(Value::String(text.to_owned()));
    }
    let Some(path) = name.strip_prefix("result:") else {
        return Err(unknown(name, "known are `result:ID`, `result:ID/pointer` and `user`"));
    };
    let (id, pointer) = match path.find('/') {
        Some(at) => path.split_at(at),
        None => (path, ""),
    };
    let Some(result) = find_result(id, request) else {
        return Err(unknown(name, "the model was shown no result with this id"));
    };
    let text = content(result);
    if pointer.is_empty() {
        return Ok(Value::String(text));
    }
    let json: Value = serde_json::from_str(&text)
        .map_err(|error| unknown(name, &format!("the result is not JSON: {error}")))?;
    let found = json.pointer(pointer);
    found.cloned().ok_or_else(|| unknown(name, "the result has nothing at this pointer"))
}

fn find_result<'a>(id: &str, request: &ModelRequest<'a>) -> Option<&'a PastResult> {
    request.history.messages.iter().rev().find_map(|message| match message {
        Message::Results(results) => results.iter().find(|result| result.id == *id),
        _ => None,
    })
}

/// The content of a result, without the markers around it.
pub(in super::super) fn content(result: &PastResult) -> String {
    let text = text_of(&result.parts);
    let inner = text.split_once('\n').filter(|(first, _)| first.starts_with("[haft"));
    let inner = inner.and_then(|(_, rest)| rest.rsplit_once('\n'));
    match inner {
        Some((inner, last)) if last.starts_with("[/haft") => inner.to_owned(),
        _ => text,
    }
}

fn unknown(name: &str, why: &str) -> Error {
    let why = format!("the script's template `{name}` cannot be filled in: {why}");
    Error::new(ErrorKind::BadResponse, why)
}
