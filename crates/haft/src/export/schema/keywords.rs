//! Which words of JSON Schema hold schemas, and what they speak about.

use std::borrow::Cow;

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

/// A schema directly below another one.
pub(super) struct Child<'a> {
    /// The word under which it stands.
    pub(super) key: &'a str,
    step: Step<'a>,
    pub(super) node: &'a Value,
}

/// How it stands under its word.
enum Step<'a> {
    Alone,
    Nth(usize),
    Named(&'a str),
}

impl<'a> Child<'a> {
    /// Its name, where it has one.
    pub(super) fn name(&self) -> Option<&'a str> {
        match self.step {
            Step::Named(name) => Some(name),
            Step::Alone | Step::Nth(_) => None,
        }
    }

    /// Where it stands, by where the schema above stands. Most who walk a schema never ask.
    pub(super) fn place(&self, above: &str) -> String {
        match self.step {
            Step::Alone => format!("{above}/{}", self.key),
            Step::Nth(n) => format!("{above}/{}/{n}", self.key),
            Step::Named(name) => format!("{above}/{}/{}", self.key, escape(name)),
        }
    }
}

/// Goes through the schemas directly below one, of any draft.
pub(super) fn children(map: &Map<String, Value>) -> impl Iterator<Item = Child<'_>> {
    map.iter().flat_map(|(key, value)| {
        let key = key.as_str();
        // At most one of the three has anything.
        let (mut named, mut list, mut alone) = (None, None, None);
        match value {
            Value::Object(map) if names_schemas(key) => named = Some(map),
            Value::Array(items) if LISTS.contains(&key) || key == "items" => list = Some(items),
            Value::Object(_) | Value::Bool(_)
                if ONES.contains(&key) || key == "additionalItems" || key == "contentSchema" =>
            {
                alone = Some(value);
            }
            _ => {}
        }
        let named = named.into_iter().flatten();
        let named = named.map(move |(name, node)| Child { key, step: Step::Named(name), node });
        let list = list.into_iter().flatten().enumerate();
        let list = list.map(move |(n, node)| Child { key, step: Step::Nth(n), node });
        named.chain(list).chain(alone.map(|node| Child { key, step: Step::Alone, node }))
    })
}

fn names_schemas(key: &str) -> bool {
    MAPS.contains(&key) || ["$defs", "definitions", "dependencies"].contains(&key)
}

/// Writes a name as part of a JSON pointer.
pub(super) fn escape(name: &str) -> Cow<'_, str> {
    match name.contains(['~', '/']) {
        true => name.replace('~', "~0").replace('/', "~1").into(),
        false => name.into(),
    }
}
