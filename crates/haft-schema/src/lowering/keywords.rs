//! The keywords of JSON Schema: which ones hold subschemas, and which types they apply to.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// Keywords that hold one schema.
pub(super) const SINGLE_SCHEMA: [&str; 10] = [
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
/// Keywords that hold a list of schemas.
pub(super) const SCHEMA_LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords that hold named schemas.
pub(super) const SCHEMA_MAPS: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];
/// Contravariant keywords: a wider schema below makes a narrower one above. The schema below is
/// kept exactly or not at all.
pub(super) const CONTRAVARIANT: [&str; 4] = ["not", "if", "contains", "oneOf"];

/// Annotations: keywords that do not restrict the accepted values.
pub(super) const ANNOTATIONS: [&str; 10] = [
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

/// Keywords that apply to strings only.
pub(super) const TEXT: [&str; 3] = ["minLength", "maxLength", "pattern"];
/// Keywords that apply to numbers only.
pub(super) const NUMBER: [&str; 5] =
    ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
/// Keywords that apply to arrays only.
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
/// Keywords that apply to objects only.
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
/// Keywords that apply to every value.
pub(super) const ANY_TYPE: [&str; 12] = [
    "$ref", "format", "type", "enum", "const", "not", "if", "then", "else", "anyOf", "oneOf",
    "allOf",
];

/// Whether a keyword restricts the accepted values.
pub(super) fn restricts(key: &str) -> bool {
    ANY_TYPE.contains(&key)
        || TEXT.contains(&key)
        || NUMBER.contains(&key)
        || ARRAY.contains(&key)
        || OBJECT.contains(&key)
}

/// A schema directly below another one.
pub(super) struct Child<'a> {
    /// The keyword that holds it.
    pub(super) key: &'a str,
    step: Step<'a>,
    pub(super) node: &'a Value,
}

/// Its position below the keyword.
enum Step<'a> {
    Alone,
    Nth(usize),
    Named(&'a str),
}

impl<'a> Child<'a> {
    /// Its name; `None` if it has none.
    pub(super) fn name(&self) -> Option<&'a str> {
        match self.step {
            Step::Named(name) => Some(name),
            Step::Alone | Step::Nth(_) => None,
        }
    }

    /// Its JSON pointer, given the pointer of the parent. Built on request, because most visitors
    /// do not need it.
    pub(super) fn place(&self, above: &str) -> String {
        match self.step {
            Step::Alone => format!("{above}/{}", self.key),
            Step::Nth(n) => format!("{above}/{}/{n}", self.key),
            Step::Named(name) => format!("{above}/{}/{}", self.key, escape(name)),
        }
    }
}

/// Iterates over the direct subschemas of a schema, of any draft.
pub(super) fn children(map: &Map<String, Value>) -> impl Iterator<Item = Child<'_>> {
    map.iter().flat_map(|(key, value)| {
        let key = key.as_str();
        // At most one of the three is set.
        let (mut named, mut list, mut alone) = (None, None, None);
        match value {
            Value::Object(map) if names_schemas(key) => named = Some(map),
            Value::Array(items) if SCHEMA_LISTS.contains(&key) || key == "items" => {
                list = Some(items)
            }
            Value::Object(_) | Value::Bool(_)
                if SINGLE_SCHEMA.contains(&key)
                    || key == "additionalItems"
                    || key == "contentSchema" =>
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
    SCHEMA_MAPS.contains(&key) || ["$defs", "definitions", "dependencies"].contains(&key)
}

/// Escapes a name for a JSON pointer.
pub(super) fn escape(name: &str) -> Cow<'_, str> {
    if name.contains(['~', '/']) {
        name.replace('~', "~0").replace('/', "~1").into()
    } else {
        name.into()
    }
}
