//! Writes the defaults of a schema into an argument object.
//!
//! In: validated arguments. Out: the same with all defaults explicit, so that policies, cache keys
//! and bodies see one value. The plan is computed once per tool; applying it only visits the plan.

use serde_json::{Map, Value};

/// The defaults to write, by location.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fill {
    properties: Vec<(String, Option<Value>, Fill)>,
    items: Option<Box<Fill>>,
}

/// Recursive schemas are followed to this depth; deeper values stay as they are.
const MAX_DEPTH: usize = 8;
/// Maximum number of nodes in a plan; a schema with many recursive references would have more.
const MAX_NODES: usize = 10_000;

impl Fill {
    /// Computes the plan for a schema.
    pub(crate) fn of(schema: &Value) -> Self {
        Self::at(schema, schema, MAX_DEPTH, &mut { MAX_NODES })
    }

    fn at(root: &Value, schema: &Value, depth: usize, left: &mut usize) -> Self {
        let Some(depth) = depth.checked_sub(1) else { return Self::default() };
        let Some(fewer) = left.checked_sub(1) else { return Self::default() };
        *left = fewer;
        let Some(node) = schema.as_object() else { return Self::default() };
        if let Some(target) = node.get("$ref").and_then(Value::as_str) {
            let found = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
            return found.map(|f| Self::at(root, f, depth, left)).unwrap_or_default();
        }
        // `anyOf [X, null]` is an optional struct; other unions are skipped, because the branch is
        // not known here.
        if let Some(only) = sole_branch(node) {
            return Self::at(root, only, depth, left);
        }
        let properties = node
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(key, schema)| {
                let inner = Self::at(root, schema, depth, left);
                // A default of null means that an omitted value is null; it is not written.
                let mut default = schema.get("default").filter(|d| !d.is_null()).cloned();
                if let Some(default) = &mut default {
                    inner.apply(default);
                }
                (key.clone(), default, inner)
            })
            .filter(|(_, default, inner)| default.is_some() || !inner.is_empty())
            .collect();
        let items = node
            .get("items")
            .map(|items| Self::at(root, items, depth, left))
            .filter(|inner| !inner.is_empty())
            .map(Box::new);
        Self { properties, items }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.properties.is_empty() && self.items.is_none()
    }

    /// Applies the plan, and returns whether it added something.
    pub(crate) fn apply(&self, value: &mut Value) -> bool {
        let mut added = false;
        match value {
            Value::Object(map) => {
                // Objects are small: comparing names is cheaper than hashing them again.
                for (key, value) in map.iter_mut() {
                    if let Some((_, _, inner)) = self.properties.iter().find(|(k, ..)| k == key) {
                        added |= inner.apply(value);
                    }
                }
                for (key, default, _) in &self.properties {
                    if let Some(default) = default
                        && !map.contains_key(key)
                    {
                        map.insert(key.clone(), default.clone());
                        added = true;
                    }
                }
            }
            Value::Array(list) => {
                if let Some(inner) = &self.items {
                    for item in list {
                        added |= inner.apply(item);
                    }
                }
            }
            _ => {}
        }
        added
    }

    /// Returns the defaults of the top level.
    pub(crate) fn defaults(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.properties
            .iter()
            .filter_map(|(key, default, _)| Some((key.as_str(), default.as_ref()?)))
    }
}

fn sole_branch(node: &Map<String, Value>) -> Option<&Value> {
    let branches = node.get("anyOf").or_else(|| node.get("oneOf"))?.as_array()?;
    let mut real = branches.iter().filter(|b| b.get("type").is_none_or(|t| t != "null"));
    match (real.next(), real.next()) {
        (Some(only), None) if branches.len() == 2 => Some(only),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled(schema: Value, mut value: Value) -> Value {
        Fill::of(&schema).apply(&mut value);
        value
    }

    #[test]
    fn defaults_are_filled_at_any_depth_and_never_overwrite() {
        let schema = json!({
            "properties": {
                "a": {"default": 1},
                "b": {"$ref": "#/$defs/B"},
                "c": {"type": "array", "items": {"properties": {"d": {"default": true}}}},
            },
            "$defs": {"B": {"properties": {"x": {"default": "y"}}}},
        });
        assert_eq!(
            filled(schema.clone(), json!({"b": {}, "c": [{}, {"d": false}]})),
            json!({"b": {"x": "y"}, "c": [{"d": true}, {"d": false}], "a": 1})
        );
        assert_eq!(filled(schema, json!({"a": null})), json!({"a": null}));
    }

    #[test]
    fn default_of_null_is_not_filled() {
        let schema = json!({"properties": {
            "a": {"type": ["string", "null"], "default": null},
            "b": {"properties": {"c": {"default": null}, "d": {"default": 0}}},
        }});
        assert_eq!(filled(schema, json!({"b": {}})), json!({"b": {"d": 0}}));
    }

    #[test]
    fn recursive_schema_terminates() {
        let schema = json!({"properties": {"next": {"$ref": "#"}, "n": {"default": 0}}});
        assert_eq!(filled(schema, json!({"next": {}})), json!({"next": {"n": 0}, "n": 0}));
    }
}
