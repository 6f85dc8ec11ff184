//! Which words of JSON Schema hold schemas, and what they speak about.

use serde_json::{Map, Value};

/// Words under which one schema stands.
pub(super) const ONES: [&str; 10] = [
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Words under which a list of schemas stands.
pub(super) const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Words under which named schemas stand.
pub(super) const MAPS: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];
/// Words of which a wider schema below makes a narrower one above, so that what stands under them
/// must be kept exactly or not at all.
pub(super) const TURNED: [&str; 4] = ["not", "if", "contains", "oneOf"];

/// Words that say nothing about what is accepted.
pub(super) const NOTES: [&str; 10] = [
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
];

/// Words that speak about texts alone.
pub(super) const TEXT: [&str; 3] = ["minLength", "maxLength", "pattern"];
/// Words that speak about numbers alone.
pub(super) const NUMBER: [&str; 5] =
    ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
/// Words that speak about arrays alone.
pub(super) const ARRAY: [&str; 9] = [
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "unevaluatedItems",
];
/// Words that speak about objects alone.
pub(super) const OBJECT: [&str; 10] = [
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedProperties",
];
/// Words that speak about every value.
pub(super) const EVERY: [&str; 12] = [
    "$ref", "format", "type", "enum", "const", "not", "if", "then", "else", "anyOf", "oneOf",
    "allOf",
];

/// Whether a word restricts what is accepted.
pub(super) fn restricts(key: &str) -> bool {
    EVERY.contains(&key)
        || TEXT.contains(&key)
        || NUMBER.contains(&key)
        || ARRAY.contains(&key)
        || OBJECT.contains(&key)
}

/// Goes through the schemas directly below one, of any draft, with where they stand.
pub(super) fn children<'a>(
    map: &'a Map<String, Value>,
    place: &str,
) -> Vec<(&'a str, &'a Value, String)> {
    let mut found = Vec::new();
    for (key, value) in map {
        let key = key.as_str();
        let named = MAPS.contains(&key) || ["$defs", "definitions", "dependencies"].contains(&key);
        let below = format!("{place}/{key}");
        match value {
            Value::Object(map) if named => {
                for (name, child) in map {
                    found.push((key, child, format!("{below}/{}", escape(name))));
                }
            }
            Value::Array(list) if LISTS.contains(&key) || key == "items" => {
                for (n, child) in list.iter().enumerate() {
                    found.push((key, child, format!("{below}/{n}")));
                }
            }
            Value::Object(_) | Value::Bool(_)
                if ONES.contains(&key) || key == "additionalItems" || key == "contentSchema" =>
            {
                found.push((key, value, below));
            }
            _ => {}
        }
    }
    found
}

/// Writes a name as part of a JSON pointer.
pub(super) fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
