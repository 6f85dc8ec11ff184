//! Says in words what a schema can no longer say in its own.

use serde_json::{Map, Value};

/// So much of one value is told.
const VALUE: usize = 240;
/// So much is told at one place.
const PLACE: usize = 1_200;

/// One word with its value, as a reader would want it.
pub(super) fn tell(keyword: &str, value: &Value) -> String {
    let value = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let value = cut(&value, VALUE);
    match keyword {
        "not" => format!("must not match {value}"),
        "enum" => format!("one of {value}"),
        "const" => format!("exactly {value}"),
        "allOf" => format!("must also match {value}"),
        "deprecated" => "deprecated".to_owned(),
        keyword => format!("{keyword}: {value}"),
    }
}

/// Adds what was told to the description of a schema.
pub(super) fn append(schema: &mut Map<String, Value>, told: &[String]) {
    if told.is_empty() {
        return;
    }
    let own = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let told = cut(&told.join("; "), PLACE);
    let text = match own.trim_end() {
        "" => format!("({told})"),
        own => format!("{own} ({told})"),
    };
    schema.insert("description".into(), Value::String(text));
}

fn cut(text: &str, most: usize) -> String {
    match text.len() > most {
        true => format!("{}…", &text[..text.floor_char_boundary(most)]),
        false => text.to_owned(),
    }
}
