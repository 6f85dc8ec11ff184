//! Parses argument text as one JSON object, strictly.
//!
//! Duplicate keys are rejected: serde_json keeps the last one and other parsers the first, so the
//! value that a person approved could differ from the value that runs.

use std::fmt;

use haft_core::{Failure, FailureCode};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Parses argument text. Empty text means no arguments.
pub fn object(text: &str, limit: usize) -> Result<Map<String, Value>, Failure> {
    let wrong = |what: String| {
        Failure::new(FailureCode::UnparseableArguments, what)
            .with_next("send the arguments again as one valid JSON object")
    };
    if text.len() > limit {
        return Err(wrong(format!(
            "the arguments are {} bytes long; the maximum is {limit}",
            text.len()
        )));
    }
    match strict(text) {
        Ok(Value::Object(map)) => Ok(map),
        Err(_) if text.trim().is_empty() => Ok(Map::new()),
        Err(e) => Err(wrong(format!("the arguments are not valid JSON: {e}"))),
        Ok(other) => {
            Err(wrong(format!("the arguments must be a JSON object, got {}", kind(&other))))
        }
    }
}

/// Parses one JSON value. A duplicate key, text after the value and deep nesting are errors.
///
/// Use it if a decision depends on the text: of two equal keys `serde_json` keeps the last, and
/// other parsers the first.
///
/// ```
/// assert!(haft_schema::strict_json(r#"{"decision": "block"}"#).is_ok());
/// assert!(haft_schema::strict_json(r#"{"decision": "block", "decision": "approve"}"#).is_err());
/// ```
///
/// # Errors
/// Fails with the position of the first error.
pub fn strict_json(text: &str) -> Result<Value, serde_json::Error> {
    strict(text)
}

pub(super) fn strict(text: &str) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Strict.deserialize(&mut reader)?;
    reader.end().map(|()| value)
}

/// Returns the name of a value's type, for messages.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns whether a value preserves its text: a number with too many digits, or a duplicate key,
/// would be lost. Whitespace and escapes do not count.
pub fn is_lossless(text: &str, value: &Value) -> bool {
    let mut compact = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('"') {
        compact.extend(rest[..start].chars().filter(|c| !c.is_ascii_whitespace()));
        let bytes = rest.as_bytes();
        let mut end = start + 1;
        while bytes.get(end).is_some_and(|byte| *byte != b'"') {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        let Some(literal) = rest.get(start..=end) else { return false };
        let Ok(word) = serde_json::from_str::<Value>(literal) else { return false };
        compact.push_str(&word.to_string());
        rest = &rest[end + 1..];
    }
    compact.extend(rest.chars().filter(|c| !c.is_ascii_whitespace()));
    let written = value.to_string();
    compact == written
}

/// The visitor methods for scalar values, for custom JSON parsers.
#[doc(hidden)]
#[macro_export]
macro_rules! plain_values {
    () => {
        fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
            Ok(value.into())
        }

        fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
            Ok(value.into())
        }

        fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
            Ok(value.into())
        }

        fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
            Ok(value.into())
        }

        fn visit_unit<E>(self) -> Result<Value, E> {
            Ok(Value::Null)
        }
    };
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    plain_values!();

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = seq.next_element_seed(Strict)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let value = access.next_value_seed(Strict)?;
            match map.entry(key) {
                serde_json::map::Entry::Vacant(place) => {
                    place.insert(value);
                }
                serde_json::map::Entry::Occupied(place) => {
                    return Err(A::Error::custom(format_args!(
                        "duplicate key `{}` in one object",
                        place.key()
                    )));
                }
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_text_is_no_arguments() {
        assert!(object("  \n", 10).unwrap().is_empty());
    }

    #[test]
    fn invalid_text_error_says_what_is_wrong() {
        for (text, says) in [
            ("{\"a\": 1", "EOF"),
            ("[1]", "got array"),
            ("\"{}\"", "got string"),
            ("{\"a\":1,\"a\":2}", "duplicate key `a`"),
            ("{\"a\":{\"b\":1,\"b\":1}}", "duplicate key `b`"),
            ("{} {}", "trailing"),
            ("{\"a\":NaN}", "expected value"),
            ("nonsense", "expected"),
        ] {
            let failure = object(text, 100).unwrap_err();
            assert_eq!(failure.code(), FailureCode::UnparseableArguments);
            assert!(failure.message().contains(says), "{text}: {failure}");
        }
        assert!(object(&" ".repeat(200), 100).is_err());
        let deep = "[".repeat(10_000);
        assert!(object(&deep, 1 << 20).is_err(), "depth is bounded");
    }
}
