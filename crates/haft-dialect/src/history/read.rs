//! Shared by all readers: a JSON value that knows its place, and the messages read so far.
//!
//! INVARIANT: input that cannot be read becomes an error that names its place, or an opaque part
//! that keeps it unchanged. Nothing is skipped.

use std::collections::{HashMap, VecDeque};

use haft_core::{Arguments, CallId, Error, ErrorKind, ToolName};
use haft_schema::parse;
use serde_json::{Map, Value};

use super::{
    AssistantPart, ContentPart, Dialect, Media, MediaSource, Message, PastCall, PastResult,
    ProviderFields, Transcript, ids,
};

/// The key for the text of arguments that are not an object, where a provider accepts only objects.
pub(super) const UNPARSED: &str = super::super::wire::INVALID;

/// Starts the text of a failed call, where a provider has no error flag.
pub(super) const FAILED: &str = "[this call failed]";

/// A value and its JSON pointer.
#[derive(Debug, Clone)]
pub(super) struct Node<'a> {
    pub(super) dialect: Dialect,
    pub(super) value: &'a Value,
    pointer: String,
}

impl<'a> Node<'a> {
    pub(super) fn root(dialect: Dialect, value: &'a Value) -> Self {
        Self { dialect, value, pointer: String::new() }
    }

    /// Returns the list of messages: this value, or the one under `key`.
    pub(super) fn list(&self, key: &str) -> Result<Vec<Node<'a>>, Error> {
        match self.value {
            Value::Array(_) => self.items(),
            Value::Object(_) => match self.get(key) {
                Some(list) => list.items(),
                None => Err(self.unexpected(&format!("a list, or a request with `{key}`"))),
            },
            _ => Err(self.unexpected(&format!("a list, or a request with `{key}`"))),
        }
    }

    /// Returns the value under a key, unless it is missing or null.
    pub(super) fn get(&self, key: &str) -> Option<Node<'a>> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(Node { dialect: self.dialect, value, pointer: format!("{}/{key}", self.pointer) })
    }

    /// Returns the value under the first of these keys that is there.
    pub(super) fn either(&self, keys: [&str; 2]) -> Option<Node<'a>> {
        keys.iter().find_map(|key| self.get(key))
    }

    pub(super) fn need(&self, key: &str) -> Result<Node<'a>, Error> {
        self.get(key).ok_or_else(|| self.unexpected(&format!("an object with `{key}`")))
    }

    pub(super) fn items(&self) -> Result<Vec<Node<'a>>, Error> {
        let Value::Array(items) = self.value else { return Err(self.unexpected("a list")) };
        let node = |(index, value)| Node {
            dialect: self.dialect,
            value,
            pointer: format!("{}/{index}", self.pointer),
        };
        Ok(items.iter().enumerate().map(node).collect())
    }

    pub(super) fn object(&self) -> Result<&'a Map<String, Value>, Error> {
        self.value.as_object().ok_or_else(|| self.unexpected("an object"))
    }

    pub(super) fn text(&self) -> Result<&'a str, Error> {
        self.value.as_str().ok_or_else(|| self.unexpected("text"))
    }

    /// Returns the text under a key, if there is one.
    pub(super) fn str_field(&self, key: &str) -> Option<&'a str> {
        self.value.get(key).and_then(Value::as_str)
    }

    /// Returns an id. An empty one counts as none, and so does the text `null`, which one server
    /// writes.
    pub(super) fn id(&self, key: &str) -> Option<&'a str> {
        self.str_field(key).filter(|id| !id.is_empty() && *id != "null")
    }

    /// Returns the fields that the reader did not name. Empty ones are dropped.
    pub(super) fn provider_fields(&self, named: &[&str]) -> Option<ProviderFields> {
        let says = |value: &Value| match value {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            _ => true,
        };
        let fields: Map<String, Value> = self
            .value
            .as_object()?
            .iter()
            .filter(|(key, value)| !named.contains(&key.as_str()) && says(value))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        (!fields.is_empty()).then(|| ProviderFields { dialect: self.dialect.family(), fields })
    }

    /// Returns the whole value as a part that only its provider understands.
    pub(super) fn opaque(&self) -> ContentPart {
        ContentPart::Opaque { dialect: self.dialect.family(), value: self.value.clone() }
    }

    pub(super) fn unexpected(&self, wanted: &str) -> Error {
        let pointer = if self.pointer.is_empty() { "/" } else { &self.pointer };
        let found = match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "text",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        Error::new(
            ErrorKind::BadHistory,
            format!(
                "not a valid {} history: at `{pointer}` found {found}, expected {wanted}",
                self.dialect
            ),
        )
    }
}

/// The messages read so far, and the calls that may get a result without an id.
#[derive(Debug, Default)]
pub(super) struct Reader {
    messages: Vec<Message>,
    open: Open,
    results: usize,
}

/// The calls of the latest message, for providers that pair by name and order.
#[derive(Debug, Default)]
struct Open {
    ids: Vec<CallId>,
    is_answered: Vec<bool>,
    by_id: HashMap<CallId, usize>,
    by_name: HashMap<ToolName, VecDeque<usize>>,
    in_order: VecDeque<usize>,
}

impl Reader {
    pub(super) fn finish(self) -> Transcript {
        Transcript { messages: self.messages }
    }

    pub(super) fn system(&mut self, parts: Vec<ContentPart>) {
        self.messages.push(Message::System(parts));
    }

    pub(super) fn user(&mut self, parts: Vec<ContentPart>) {
        self.messages.push(Message::User(parts));
    }

    /// Starts a message of the model.
    pub(super) fn assistant(&mut self) {
        self.messages.push(Message::Assistant(Vec::new()));
        self.open = Open::default();
    }

    /// Continues the message of the model, or starts one.
    pub(super) fn add_part(&mut self, part: ContentPart) {
        self.push(AssistantPart::Part(part));
    }

    /// Adds a call to the message of the model. Without an id it gets one derived from its
    /// position.
    pub(super) fn call(
        &mut self,
        id: Option<&str>,
        name: &str,
        arguments: Arguments,
        provider_fields: Option<ProviderFields>,
    ) {
        if !matches!(self.messages.last(), Some(Message::Assistant(_))) {
            self.assistant();
        }
        let pointer = self.messages.len() - 1;
        let id = id.map_or_else(|| ids::positional_id(pointer, self.open.ids.len()), CallId::from);
        let name = ToolName::from(name);
        self.open.add(id.clone(), name.clone());
        self.push(AssistantPart::Call(PastCall { id, name, arguments, provider_fields }));
    }

    fn push(&mut self, assistant: AssistantPart) {
        match self.messages.last_mut() {
            Some(Message::Assistant(list)) => list.push(assistant),
            _ => {
                self.open = Open::default();
                self.messages.push(Message::Assistant(vec![assistant]));
            }
        }
    }

    /// Adds a result. Without an id it belongs to the oldest open call of its name, or of any name
    /// if it has none.
    pub(super) fn result(
        &mut self,
        id: Option<&str>,
        name: Option<&str>,
        parts: Vec<ContentPart>,
        is_error: bool,
        provider_fields: Option<ProviderFields>,
    ) {
        let id = match id {
            Some(id) => {
                let id = CallId::from(id);
                self.open.answer(&id);
                id
            }
            None => self.open.next(name).unwrap_or_else(|| {
                self.results += 1;
                CallId::from(format!(
                    "{}_result",
                    ids::positional_id(self.messages.len(), self.results)
                ))
            }),
        };
        let result =
            PastResult { id, name: name.map(ToolName::from), parts, is_error, provider_fields };
        match self.messages.last_mut() {
            Some(Message::Results(results)) => results.push(result),
            _ => self.messages.push(Message::Results(vec![result])),
        }
    }
}

impl Open {
    fn add(&mut self, id: CallId, name: ToolName) {
        let at = self.ids.len();
        self.by_id.entry(id.clone()).or_insert(at);
        self.by_name.entry(name).or_default().push_back(at);
        self.in_order.push_back(at);
        self.ids.push(id);
        self.is_answered.push(false);
    }

    fn answer(&mut self, id: &CallId) {
        if let Some(at) = self.by_id.get(id) {
            self.is_answered[*at] = true;
        }
    }

    fn next(&mut self, name: Option<&str>) -> Option<CallId> {
        let queue = match name {
            Some(name) => self.by_name.get_mut(&ToolName::from(name))?,
            None => &mut self.in_order,
        };
        while let Some(at) = queue.pop_front() {
            if !std::mem::replace(&mut self.is_answered[at], true) {
                return Some(self.ids[at].clone());
            }
        }
        None
    }
}

/// Reads arguments that are JSON in a string, or, with some servers, a JSON value.
pub(super) fn arguments(value: Option<Node<'_>>) -> Arguments {
    match value.map(|node| node.value) {
        None => Arguments::Json(Value::Object(Map::new())),
        Some(Value::String(text)) => arguments_text(text),
        Some(other) => arguments_json(other),
    }
}

/// Reads arguments that are a JSON value, and unwraps what a writer had to wrap.
pub(super) fn arguments_json(value: &Value) -> Arguments {
    match value.as_object() {
        Some(object) if object.len() == 1 => match object.get(UNPARSED) {
            Some(Value::String(text)) => Arguments::Text(text.clone()),
            _ => Arguments::Json(value.clone()),
        },
        _ => Arguments::Json(value.clone()),
    }
}

fn arguments_text(text: &str) -> Arguments {
    if text.trim().is_empty() {
        return Arguments::Json(Value::Object(Map::new()));
    }
    match serde_json::from_str::<Value>(text) {
        Ok(value) if parse::is_lossless(text, &value) => arguments_json(&value),
        _ => Arguments::Text(text.to_owned()),
    }
}

/// Removes the marker of a failed call from its text.
pub(super) fn strip_failure_marker(text: &str) -> (bool, &str) {
    match text.strip_prefix(FAILED) {
        Some("") => (true, ""),
        Some(rest) => match rest.strip_prefix('\n') {
            Some(rest) => (true, rest),
            None => (false, text),
        },
        None => (false, text),
    }
}

/// Reads the URL of an image or file: a `data:` URL contains it, any other locates it.
pub(super) fn media(url: &str, fallback: &str, name: Option<&str>) -> Media {
    let name = name.map(str::to_owned);
    let held = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match held {
        Some((kind, data)) => Media {
            media_type: if kind.is_empty() { fallback } else { kind }.to_owned(),
            source: MediaSource::Base64(data.to_owned()),
            name,
        },
        None => Media {
            media_type: fallback.to_owned(),
            source: MediaSource::Url(url.to_owned()),
            name,
        },
    }
}

/// Returns the type of an image, from the first bytes of its base64.
pub(super) fn sniff_media_type(data: &str) -> &'static str {
    match data.get(..4) {
        Some("iVBO") => "image/png",
        Some("/9j/") => "image/jpeg",
        Some("R0lG") => "image/gif",
        Some("UklG") => "image/webp",
        _ => "image/*",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn argument_text_stays_text_when_parsing_would_lose_something() {
        for kept in [
            r#"{"a": 1, "a": 2}"#,
            r#"{"n": 123456789012345678901234567890}"#,
            r#"{"a": "#,
            "look here",
            r#"{"a":"\"#,
        ] {
            assert_eq!(arguments_text(kept), Arguments::Text(kept.to_owned()), "{kept}");
        }
    }

    #[test]
    fn argument_text_that_is_json_is_parsed() {
        for (text, value) in [
            (" {\"a\": [1, \"x y\"] } ", json!({"a": [1, "x y"]})),
            (r#"{"city":"Z\u00fcrich \"\\"}"#, json!({"city": "Zürich \"\\"})),
            ("", json!({})),
            (" \n", json!({})),
            (r#"{"n": 1.5, "m": -3}"#, json!({"n": 1.5, "m": -3})),
        ] {
            assert_eq!(arguments_text(text), Arguments::Json(value), "{text}");
        }
    }

    #[test]
    fn error_names_the_json_pointer() {
        let value = json!({"messages": [{"content": 3}]});
        let root = Node::root(Dialect::OpenAiChat, &value);
        let content = root.list("messages").unwrap()[0].need("content").unwrap();
        assert_eq!(
            content.text().unwrap_err().message(),
            "not a valid openai-chat history: at `/messages/0/content` found a number, expected text"
        );
    }

    #[test]
    fn only_the_failure_marker_is_stripped() {
        assert_eq!(strip_failure_marker("[this call failed]\nno"), (true, "no"));
        assert_eq!(strip_failure_marker("[this call failed]"), (true, ""));
        assert_eq!(strip_failure_marker("[this call failed] no"), (false, "[this call failed] no"));
    }
}
