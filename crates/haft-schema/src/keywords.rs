//! The keywords of JSON Schema that hold schemas, and those that hold data.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// Keywords whose value is a map from names to schemas, so that its keys are not keywords.
pub(crate) const NAMED_SCHEMA_KEYWORDS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords whose value is data.
pub(crate) const DATA_KEYWORDS: [&str; 4] = ["enum", "const", "default", "examples"];
/// Keywords that hold one schema.
pub(crate) const SINGLE_SCHEMA: [&str; 10] = [
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
pub(crate) const SCHEMA_LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords that hold named schemas.
pub(crate) const SCHEMA_MAPS: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];
/// A schema directly below another one.
pub(crate) struct Child<'a> {
    /// The keyword that holds it.
    pub(crate) key: &'a str,
    step: Step<'a>,
    pub(crate) node: &'a Value,
}

/// Its position below the keyword.
enum Step<'a> {
    Alone,
    Nth(usize),
    Named(&'a str),
}

impl<'a> Child<'a> {
    /// Its name; `None` if it has none.
    pub(crate) fn name(&self) -> Option<&'a str> {
        match self.step {
            Step::Named(name) => Some(name),
            Step::Alone | Step::Nth(_) => None,
        }
    }

    /// Its JSON pointer, given the pointer of the parent. Built on request, because most visitors
    /// do not need it.
    pub(crate) fn pointer(&self, above: &str) -> String {
        match self.step {
            Step::Alone => format!("{above}/{}", self.key),
            Step::Nth(n) => format!("{above}/{}/{n}", self.key),
            Step::Named(name) => format!("{above}/{}/{}", self.key, escape(name)),
        }
    }
}

/// Iterates over the direct subschemas of a schema, of any draft.
pub(crate) fn children(map: &Map<String, Value>) -> impl Iterator<Item = Child<'_>> {
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
pub(crate) fn escape(name: &str) -> Cow<'_, str> {
    if name.contains(['~', '/']) {
        name.replace('~', "~0").replace('/', "~1").into()
    } else {
        name.into()
    }
}
