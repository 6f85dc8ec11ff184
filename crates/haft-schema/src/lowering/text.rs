//! Describes in text the keywords that a dialect does not support. The text goes into descriptions.

use haft_core::text::shortened_bytes;
use serde_json::{Map, Value};

/// A value is truncated beyond this.
const MAX_VALUE_BYTES: usize = 240;
/// The text for one place is truncated beyond this.
const MAX_NOTES_BYTES: usize = 1_200;

/// Describes one keyword with its value.
pub(super) fn describe(keyword: &str, value: &Value) -> String {
    let value = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let value = shortened_bytes(&value, MAX_VALUE_BYTES);
    match keyword {
        "not" => format!("must not match {value}"),
        "enum" => format!("one of {value}"),
        "const" => format!("exactly {value}"),
        "allOf" => format!("must also match {value}"),
        "deprecated" => "deprecated".to_owned(),
        keyword => format!("{keyword}: {value}"),
    }
}

/// Appends annotations to the description of a schema.
pub(super) fn append(schema: &mut Map<String, Value>, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    let own = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let notes = shortened_bytes(&notes.join("; "), MAX_NOTES_BYTES);
    let text = match own.trim_end() {
        "" => format!("({notes})"),
        own => format!("{own} ({notes})"),
    };
    schema.insert("description".into(), Value::String(text));
}
