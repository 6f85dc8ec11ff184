//! JSON helpers shared by the providers: field access, growing text, argument objects, size limits.

use serde_json::{Map, Value};

/// The key under which an echoed message carries arguments that are not a JSON object.
pub(crate) const INVALID: &str = "INVALID_JSON";

/// Returns a text field; empty when it is missing or not text.
pub(super) fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a list field; empty when it is missing or not a list.
pub(super) fn list<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns a field that is not null.
pub(super) fn some<'a>(of: &'a Value, key: &str) -> Option<&'a Value> {
    of.get(key).filter(|value| !value.is_null())
}

/// Appends to a text field.
pub(super) fn append_text(object: &mut Value, key: &str, piece: &str) {
    let Some(map) = object.as_object_mut() else { return };
    match map.get_mut(key) {
        Some(Value::String(text)) => text.push_str(piece),
        _ => {
            map.insert(key.to_owned(), Value::String(piece.to_owned()));
        }
    }
}

/// Returns argument text as the object that a provider requires in the history. Text that is not an
/// object is wrapped into one, so that nothing is lost and the history stays valid.
pub(super) fn object(raw: &str) -> Value {
    if raw.trim().is_empty() {
        return Value::Object(Map::new());
    }
    match serde_json::from_str(raw) {
        Ok(Value::Object(map)) => Value::Object(map),
        _ => Value::Object(Map::from_iter([(INVALID.to_owned(), Value::String(raw.to_owned()))])),
    }
}

/// Returns arguments of any type as the object that a provider requires in the history.
pub(super) fn object_of(arguments: Option<Value>) -> Value {
    match arguments {
        Some(Value::Object(map)) => Value::Object(map),
        Some(Value::String(text)) => object(&text),
        Some(Value::Null) | None => Value::Object(Map::new()),
        Some(other) => Value::Object(Map::from_iter([(INVALID.to_owned(), other)])),
    }
}

/// Returns argument text as the text that a provider requires in the history: unchanged if it is
/// one JSON object, else the text of a wrapping object.
pub(super) fn object_text(raw: String) -> String {
    if is_object(&raw) { raw } else { object(&raw).to_string() }
}

/// Whether text is exactly one JSON object; only whitespace may follow.
pub(super) fn is_object(raw: &str) -> bool {
    raw.trim_start().starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(raw).is_ok()
}

/// Tracks the brackets of text that arrives in pieces, and knows when its object is closed.
#[derive(Debug, Default)]
pub(super) struct ObjectTracker {
    depth: usize,
    in_text: bool,
    escaped: bool,
    is_closed: bool,
    /// There is something outside of the one object.
    has_extra: bool,
}

impl ObjectTracker {
    pub(super) fn add(&mut self, piece: &str) {
        for byte in piece.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_text => self.escaped = true,
                b'"' if self.depth > 0 => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b'{' if self.depth == 0 && !self.is_closed => self.depth = 1,
                b'{' | b'[' if self.depth > 0 => self.depth += 1,
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    self.is_closed = self.depth == 0;
                }
                _ => self.has_extra |= self.depth == 0 && !byte.is_ascii_whitespace(),
            }
        }
    }

    /// Whether the text is one closed object; only whitespace may follow.
    pub(super) fn is_whole(&self) -> bool {
        self.is_closed && !self.has_extra
    }
}

/// The parser's nesting limit for text, plus the innermost value.
const MAX_DEPTH: usize = 129;

/// The minimum cost of one value. In memory it takes several times as much, and short text like
/// `{},{},{}` must not exhaust memory as empty objects.
const MIN_VALUE_COST: usize = 16;

/// Returns the approximate cost of a value in bytes; `None` when it is nested too deep.
pub(super) fn weight(value: &Value) -> Option<usize> {
    /// Returns the approximate length of the text, and the number of values.
    fn weigh(value: &Value, depth: usize) -> Option<(usize, usize)> {
        let depth = depth.checked_sub(1)?;
        let add = |(bytes, values), key: usize, item| {
            let (more, further) = weigh(item, depth)?;
            Some((bytes + key + more, values + further))
        };
        match value {
            Value::String(text) => Some((text.len() + 2, 1)),
            Value::Array(list) => list.iter().try_fold((2, 1), |sum, item| add(sum, 1, item)),
            Value::Object(map) => {
                map.iter().try_fold((2, 1), |sum, (key, item)| add(sum, key.len() + 4, item))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Some((4, 1)),
        }
    }
    weigh(value, MAX_DEPTH).map(|(bytes, values)| bytes.max(values * MIN_VALUE_COST))
}

/// Returns the blocks that are kept, and where each block is among them: blocks that are left out
/// shift the others.
pub(super) fn kept(blocks: impl Iterator<Item = Option<Value>>) -> (Vec<Value>, Vec<usize>) {
    let mut content = Vec::new();
    let mut moved = Vec::new();
    for block in blocks {
        moved.push(content.len());
        content.extend(block);
    }
    (content, moved)
}

/// Builds a message from a role and a list, without copying the list.
pub(super) fn message(role: &str, key: &str, list: Vec<Value>) -> Value {
    let role = ("role".to_owned(), Value::from(role));
    Value::Object(Map::from_iter([role, (key.to_owned(), Value::Array(list))]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_that_are_not_an_object_are_wrapped() {
        assert_eq!(object(" "), json!({}));
        assert_eq!(object("{\"a\":1}"), json!({"a": 1}));
        assert_eq!(object("{\"a\":"), json!({INVALID: "{\"a\":"}));
        assert_eq!(object("[1]"), json!({INVALID: "[1]"}));
        assert_eq!(object_text("{ \"a\" : 1 }".into()), "{ \"a\" : 1 }");
        assert_eq!(object_text(String::new()), "{}");
        assert_eq!(object_text("x".into()), "{\"INVALID_JSON\":\"x\"}");
    }

    #[test]
    fn chunked_object_is_complete_when_closed() {
        let mut tracker = ObjectTracker::default();
        for piece in [" {\"a\": [", "\"}\\", "\"]\", {}", "]"] {
            tracker.add(piece);
            assert!(!tracker.is_whole(), "{piece}");
        }
        tracker.add("} ");
        assert!(tracker.is_whole());
        tracker.add("{");
        assert!(!tracker.is_whole(), "a second object is one too many");
        let mut tracker = ObjectTracker::default();
        tracker.add("x{}");
        assert!(!tracker.is_whole());
    }

    #[test]
    fn value_nested_too_deep_has_no_weight() {
        let deep = (0..128).fold(json!(1), |inner, _| json!([inner]));
        assert!(weight(&deep).is_some());
        assert_eq!(weight(&json!([deep])), None);
        let text = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        let deepest = serde_json::from_str(&text(127)).unwrap();
        assert!(weight(&deepest).is_some(), "whatever can be parsed has a weight");
        assert!(serde_json::from_str::<Value>(&text(128)).is_err());
    }

    #[test]
    fn small_values_cost_more_than_their_text() {
        assert_eq!(weight(&json!("abc")), Some(MIN_VALUE_COST));
        assert_eq!(weight(&json!(vec![json!({}); 100])), Some(101 * MIN_VALUE_COST));
        assert_eq!(weight(&json!("x".repeat(100))), Some(102));
    }
}
