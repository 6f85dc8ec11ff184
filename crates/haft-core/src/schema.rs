//! JSON Schemas from Rust types, normalized for models.
//!
//! The derived schema is correct; this makes it shorter and clearer: no generated titles, a
//! documented unit enum as one `enum`, a tagged enum as `anyOf`, and `additionalProperties: false`
//! unless that would reject what the type accepts.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// Returns the normalized schema of a type.
pub(crate) fn of<T: JsonSchema + ?Sized>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| s.meta_schema = None);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    // Only generated titles are removed: the root's and each definition's.
    if let Some(root) = schema.as_object_mut() {
        root.shift_remove("title");
        // The doc comment of an argument struct is the tool's description, not the schema's.
        root.shift_remove("description");
    }
    let close = !has_merging_refs(&schema);
    normalize(&mut schema, close);
    if schema.get("type").is_none() && schema.get("properties").is_none() {
        // A unit-like argument type: an object without properties.
        if let Some(root) = schema.as_object_mut()
            && root.is_empty()
        {
            root.insert("type".into(), json!("object"));
        }
    }
    schema
}

/// Keywords whose value is a map of schemas, a list of schemas or one schema.
const MAP_KEYWORDS: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];
const LIST_KEYWORDS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
const SCHEMA_KEYWORDS: [&str; 9] = [
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "additionalItems",
];

fn each_child(node: &mut Map<String, Value>, visit: &mut dyn FnMut(&mut Value)) {
    for (key, value) in node.iter_mut() {
        if MAP_KEYWORDS.contains(&key.as_str()) {
            value.as_object_mut().into_iter().flat_map(|m| m.values_mut()).for_each(&mut *visit);
        } else if LIST_KEYWORDS.contains(&key.as_str()) {
            value.as_array_mut().into_iter().flatten().for_each(&mut *visit);
        } else if SCHEMA_KEYWORDS.contains(&key.as_str()) {
            visit(value);
        }
    }
}

/// Whether some object is composed of parts (`$ref` next to `properties`, or `allOf`). Closing one
/// part would then reject the keys of the other.
fn has_merging_refs(schema: &Value) -> bool {
    let mut found = false;
    let mut copy = schema.clone();
    fn look(node: &mut Value, found: &mut bool) {
        let Some(map) = node.as_object_mut() else { return };
        *found |= map.contains_key("allOf")
            || (map.contains_key("$ref") && map.contains_key("properties"));
        each_child(map, &mut |child| look(child, found));
    }
    look(&mut copy, &mut found);
    found
}

fn normalize(node: &mut Value, close: bool) {
    let Some(map) = node.as_object_mut() else { return };
    if let Some(defs) = map.get_mut("$defs").and_then(Value::as_object_mut) {
        for def in defs.values_mut().filter_map(Value::as_object_mut) {
            def.shift_remove("title");
        }
    }
    merge_unit_variants(map);
    if let Some(branches) = map.shift_remove("oneOf") {
        map.insert("anyOf".into(), branches);
    }
    // A handwritten schema may omit `type` next to `properties`; a derived one never does.
    if close
        && map.contains_key("properties")
        && !map.contains_key("additionalProperties")
        && !map.contains_key("anyOf")
    {
        map.insert("additionalProperties".into(), Value::Bool(false));
    }
    add_null_defaults(map);
    each_child(map, &mut |child| normalize(child, close));
}

/// A missing `Option` is `None`, and so is null. An explicit `default: null` lets a dialect that
/// requires every property offer null without a change of meaning.
fn add_null_defaults(map: &mut Map<String, Value>) {
    let required = map.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(Value::Object(properties)) = map.get_mut("properties") else { return };
    let is_null = |kind: &Value| *kind == json!("null");
    for (name, property) in properties {
        let takes_null = property
            .get("type")
            .and_then(Value::as_array)
            .is_some_and(|kinds| kinds.iter().any(is_null))
            || property.get("anyOf").and_then(Value::as_array).is_some_and(|branches| {
                branches.iter().any(|branch| branch.get("type").is_some_and(is_null))
            });
        if takes_null
            && !required.iter().any(|r| r == name)
            && let Some(property) = property.as_object_mut()
        {
            property.entry("default").or_insert(Value::Null);
        }
    }
}

/// Merges a `oneOf` of documented string constants into one `enum` with a common description.
fn merge_unit_variants(map: &mut Map<String, Value>) {
    let Some(branches) = map.get("oneOf").and_then(Value::as_array) else { return };
    let mut names = Vec::new();
    let mut descriptions = Vec::new();
    for branch in branches {
        let Some(branch) = branch.as_object() else { return };
        let plain =
            branch.keys().all(|k| ["type", "const", "enum", "description"].contains(&k.as_str()));
        if !plain || branch.get("type") != Some(&json!("string")) {
            return;
        }
        let about = branch.get("description").and_then(Value::as_str);
        let here: Vec<&Value> = match (branch.get("const"), branch.get("enum")) {
            (Some(one), None) => vec![one],
            (None, Some(Value::Array(some))) => some.iter().collect(),
            _ => return,
        };
        for name in here {
            if let (Some(name), Some(about)) = (name.as_str(), about) {
                descriptions.push(format!("`{name}`: {about}"));
            }
            names.push(name.clone());
        }
    }
    map.shift_remove("oneOf");
    map.insert("type".into(), json!("string"));
    map.insert("enum".into(), Value::Array(names));
    if !descriptions.is_empty() {
        let own = map.get("description").and_then(Value::as_str).unwrap_or_default();
        let text = [own, &descriptions.join("; ")].join(if own.is_empty() { "" } else { " " });
        map.insert("description".into(), Value::String(text));
    }
}

#[cfg(test)]
#[expect(dead_code, reason = "only the schema of the types is used")]
mod tests {
    use super::*;

    #[derive(JsonSchema)]
    enum Mode {
        /// Quick and rough.
        Fast,
        Slow,
    }

    #[derive(JsonSchema)]
    #[schemars(tag = "kind")]
    enum Shape {
        Circle { r: f64 },
        Square { side: f64 },
    }

    #[derive(JsonSchema)]
    struct Inner {
        x: i32,
    }

    #[derive(JsonSchema)]
    struct Args {
        mode: Mode,
        shape: Shape,
        inner: Inner,
    }

    #[test]
    fn a_derived_schema_is_normalized_and_closed() {
        let schema = of::<Args>();
        assert!(!schema.to_string().contains("title"));
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["$defs"]["Inner"]["additionalProperties"], false);
        assert_eq!(schema["$defs"]["Mode"]["type"], "string");
        let modes = schema["$defs"]["Mode"]["enum"].as_array().unwrap();
        assert!(modes.contains(&json!("Fast")) && modes.contains(&json!("Slow")));
        assert_eq!(schema["$defs"]["Mode"]["description"], "`Fast`: Quick and rough.");
        let shapes = schema["$defs"]["Shape"]["anyOf"].as_array().unwrap();
        assert_eq!(shapes[0]["properties"]["kind"]["const"], "Circle");
        assert_eq!(shapes[0]["additionalProperties"], false);
    }

    #[derive(JsonSchema)]
    #[schemars(tag = "kind")]
    enum Merged {
        Both(Inner),
    }

    #[derive(JsonSchema)]
    struct Optional {
        a: Option<String>,
        b: Option<Inner>,
        c: String,
    }

    #[test]
    fn a_missing_option_has_the_default_null() {
        let schema = of::<Optional>();
        assert_eq!(schema["properties"]["a"]["default"], Value::Null);
        assert!(schema["properties"]["a"].get("default").is_some());
        assert!(schema["properties"]["b"].get("default").is_some());
        assert!(schema["properties"]["c"].get("default").is_none());
    }

    #[test]
    fn composed_objects_stay_open() {
        let text = of::<Merged>().to_string();
        assert!(!text.contains("additionalProperties"), "{text}");
    }
}
