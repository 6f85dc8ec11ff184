//! Small ways of reading and growing JSON that every provider's file needs.

use serde_json::{Map, Value};

/// Under this key an echoed message carries arguments that were no JSON object.
pub(super) const INVALID: &str = "INVALID_JSON";

/// Returns a text field; empty when it is missing or no text.
pub(super) fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a list field; empty when it is missing or no list.
pub(super) fn list<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns a field that is not null.
pub(super) fn some<'a>(of: &'a Value, key: &str) -> Option<&'a Value> {
    of.get(key).filter(|value| !value.is_null())
}

/// Adds a piece to a text field.
pub(super) fn grow(object: &mut Value, key: &str, piece: &str) {
    let Some(map) = object.as_object_mut() else { return };
    match map.get_mut(key) {
        Some(Value::String(text)) => text.push_str(piece),
        _ => {
            map.insert(key.to_owned(), Value::String(piece.to_owned()));
        }
    }
}

/// Returns argument text as the object that a provider wants echoed: what is no object is wrapped
/// into one, so that nothing the model wrote is lost and the history stays valid.
pub(super) fn object(raw: &str) -> Value {
    if raw.trim().is_empty() {
        return Value::Object(Map::new());
    }
    match serde_json::from_str(raw) {
        Ok(Value::Object(map)) => Value::Object(map),
        _ => Value::Object(Map::from_iter([(INVALID.to_owned(), Value::String(raw.to_owned()))])),
    }
}

/// Returns argument text as the text that a provider wants echoed: unchanged when it is one JSON
/// object, and the text of a wrapping object otherwise.
pub(super) fn object_text(raw: String) -> String {
    match is_object(&raw) {
        true => raw,
        false => object(&raw).to_string(),
    }
}

/// Whether text is one whole JSON object: nothing but blanks could follow it.
pub(super) fn is_object(raw: &str) -> bool {
    raw.trim_start().starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(raw).is_ok()
}

/// The deepest nesting that a text may have, so data may have no more.
const MAX_DEPTH: usize = 128;

/// Returns about how many bytes a value takes as text; nothing when it is nested too deep.
pub(super) fn weight(value: &Value) -> Option<usize> {
    fn weigh(value: &Value, depth: usize) -> Option<usize> {
        let depth = depth.checked_sub(1)?;
        match value {
            Value::String(text) => Some(text.len() + 2),
            Value::Array(list) => {
                list.iter().try_fold(2, |sum, item| Some(sum + 1 + weigh(item, depth)?))
            }
            Value::Object(map) => map
                .iter()
                .try_fold(2, |sum, (key, item)| Some(sum + key.len() + 4 + weigh(item, depth)?)),
            Value::Null | Value::Bool(_) | Value::Number(_) => Some(4),
        }
    }
    weigh(value, MAX_DEPTH)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_object_is_wrapped_and_not_lost() {
        assert_eq!(object(" "), json!({}));
        assert_eq!(object("{\"a\":1}"), json!({"a": 1}));
        assert_eq!(object("{\"a\":"), json!({INVALID: "{\"a\":"}));
        assert_eq!(object("[1]"), json!({INVALID: "[1]"}));
        assert_eq!(object_text("{ \"a\" : 1 }".into()), "{ \"a\" : 1 }");
        assert_eq!(object_text(String::new()), "{}");
        assert_eq!(object_text("x".into()), "{\"INVALID_JSON\":\"x\"}");
    }

    #[test]
    fn a_value_nested_too_deep_has_no_weight() {
        let deep = (0..127).fold(json!(1), |inner, _| json!([inner]));
        assert!(weight(&deep).is_some());
        assert_eq!(weight(&json!([deep])), None);
    }
}
