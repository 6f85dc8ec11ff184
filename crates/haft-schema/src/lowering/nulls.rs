//! Removes the nulls that a model only sends because strict mode requires every property.
//!
//! A null is removed if the tool's own schema describes the property, does not require it, and does
//! not accept null. In a union only the branches count that the value does not contradict.

use serde_json::{Map, Value};

use super::{
    document::Document,
    merge::{equal, type_of},
    query::{ARRAY, OBJECT, kind, kinds, own_values, reference, takes_null},
};

/// At most this many schemas are applied to one value.
const MAX_APPLICABLE: usize = 64;
/// Branches nested deeper than this may evaluate any key.
const MAX_BRANCH_DEPTH: usize = 8;

/// Removes the nulls from arguments, at every depth.
pub fn without_nulls(document: &Document, arguments: &mut Map<String, Value>) {
    clean_object(document, vec![&document.root], arguments);
}

fn clean(document: &Document, schemas: Vec<&Value>, value: &mut Value) {
    match value {
        // Without a schema, strict mode required no property.
        _ if schemas.is_empty() => {}
        Value::Object(map) => clean_object(document, schemas, map),
        Value::Array(list) if !list.is_empty() => {
            let applicable = applicable(document, schemas, None);
            for (n, item) in list.iter_mut().enumerate() {
                let below = applicable
                    .iter()
                    .filter_map(|s| {
                        s.map.get("prefixItems").and_then(|p| p.get(n)).or(s.map.get("items"))
                    })
                    .collect();
                clean(document, below, item);
            }
        }
        _ => {}
    }
}

fn clean_object(document: &Document, schemas: Vec<&Value>, map: &mut Map<String, Value>) {
    let applicable = applicable(document, schemas, Some(map));
    map.retain(|name, child| {
        let described: Vec<(&Applicable<'_>, &Value)> =
            applicable.iter().filter_map(|s| Some((s, s.of(document, name)?))).collect();
        let refuses = |property: &Value| takes_null(document, property) == Some(false);
        // One schema that certainly applies is enough. Of those that may apply, all must agree.
        let absent = child.is_null()
            && applicable.iter().any(|s| s.names(name))
            && !applicable.iter().any(|s| requires(s.map, name))
            && (described.iter().any(|(s, property)| s.certain && refuses(property))
                || described.iter().all(|(_, property)| refuses(property)));
        if !absent {
            clean(document, described.iter().map(|(_, property)| *property).collect(), child);
        }
        !absent
    });
}

fn requires(schema: &Map<String, Value>, name: &str) -> bool {
    let names = schema.get("required").and_then(Value::as_array);
    names.is_some_and(|names| names.iter().any(|n| n == name))
}

/// A schema that applies to a value.
struct Applicable<'a> {
    map: &'a Map<String, Value>,
    /// Whether it certainly applies and is not one of several branches.
    certain: bool,
}

impl<'a> Applicable<'a> {
    fn names(&self, name: &str) -> bool {
        self.map.get("properties").is_some_and(|named| named.get(name).is_some())
    }

    /// The schema of a key: by its name, or that of all other keys.
    fn of(&self, document: &Document, name: &str) -> Option<&'a Value> {
        if let Some(named) = self.map.get("properties").and_then(|named| named.get(name)) {
            return Some(named);
        }
        if self.map.contains_key("patternProperties") {
            return None;
        }
        self.map.get("additionalProperties").or_else(|| {
            let rest = self.map.get("unevaluatedProperties")?;
            (!branch_may_evaluate(document, self.map, name, 0)).then_some(rest)
        })
    }
}

/// Whether a subschema that applies to the same object may evaluate a key, so that the
/// `unevaluatedProperties` next to it says nothing about that key.
fn branch_may_evaluate(
    document: &Document,
    schema: &Map<String, Value>,
    name: &str,
    depth: usize,
) -> bool {
    let target = reference(schema).and_then(|name| document.definitions.get(name));
    let lists = ["allOf", "anyOf", "oneOf"].iter().filter_map(|key| schema.get(*key)?.as_array());
    let single = ["if", "then", "else"].iter().filter_map(|key| schema.get(*key));
    let dependent = schema.get("dependentSchemas").and_then(Value::as_object);
    lists
        .flatten()
        .chain(single)
        .chain(target)
        .chain(dependent.into_iter().flat_map(Map::values))
        .filter_map(Value::as_object)
        .any(|branch| {
            let others = ["patternProperties", "additionalProperties", "unevaluatedProperties"];
            depth >= MAX_BRANCH_DEPTH
                || branch.get("properties").is_some_and(|named| named.get(name).is_some())
                || others.iter().any(|key| branch.contains_key(*key))
                || branch_may_evaluate(document, branch, name, depth + 1)
        })
}

/// The schemas that apply to an object or array: these, their reference targets, and the branches
/// that the value does not contradict.
fn applicable<'a>(
    document: &'a Document,
    schemas: Vec<&'a Value>,
    object: Option<&Map<String, Value>>,
) -> Vec<Applicable<'a>> {
    let mut found: Vec<Applicable<'a>> = Vec::new();
    let mut waiting: Vec<(&Value, bool)> = schemas.into_iter().map(|s| (s, true)).collect();
    let mut unions: Vec<(&Vec<Value>, bool)> = Vec::new();
    loop {
        while let Some((node, certain)) = waiting.pop() {
            let Some(map) = node.as_object() else { continue };
            if found.len() >= MAX_APPLICABLE || found.iter().any(|f| std::ptr::eq(f.map, map)) {
                continue;
            }
            found.push(Applicable { map, certain });
            let target = reference(map).and_then(|name| document.definitions.get(name));
            waiting.extend(target.map(|target| (target, certain)));
            let list = |key: &str| map.get(key).and_then(Value::as_array);
            waiting.extend(list("allOf").into_iter().flatten().map(|part| (part, certain)));
            unions.extend(["anyOf", "oneOf"].iter().filter_map(|u| Some((list(u)?, certain))));
        }
        // Last, because the schemas that certainly apply decide which branches remain.
        let Some((union, certain)) = unions.pop() else { return found };
        let branches: Vec<&Value> =
            union.iter().filter(|branch| !contradicts(document, branch, object, &found)).collect();
        let only = branches.len() == 1;
        waiting.extend(branches.into_iter().map(|branch| (branch, certain && only)));
    }
}

/// Whether a value cannot match a branch: another type, a property of another type or value, or a
/// required property that is missing or that only strict mode made null.
fn contradicts(
    document: &Document,
    branch: &Value,
    object: Option<&Map<String, Value>>,
    certain: &[Applicable<'_>],
) -> bool {
    let kind_of_value = if object.is_some() { OBJECT } else { ARRAY };
    if kinds(document, branch) & kind_of_value == 0 {
        return true;
    }
    let Some(sent) = object else { return false };
    let mut node = Some(branch);
    let mut left = 8;
    while let Some(map) = node.and_then(Value::as_object) {
        let named = map.get("properties").and_then(Value::as_object);
        for (name, property) in named.into_iter().flatten() {
            let Some(sent) = sent.get(name).filter(|v| !v.is_null()) else { continue };
            let values = property.as_object().and_then(own_values);
            if values.is_some_and(|values| !values.iter().any(|v| equal(v, sent)))
                || kinds(document, property) & kind(type_of(sent)) == 0
            {
                return true;
            }
        }
        let required = map.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            let refuses = |property: Option<&Value>| {
                property.is_some_and(|p| takes_null(document, p) == Some(false))
            };
            let refused = refuses(named.and_then(|named| named.get(name)))
                || certain.iter().any(|s| s.certain && refuses(s.of(document, name)));
            match sent.get(name) {
                None => return true,
                Some(Value::Null) if refused => return true,
                Some(_) => {}
            }
        }
        left -= 1;
        node = match left {
            0 => None,
            _ => reference(map).and_then(|name| document.definitions.get(name)),
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::resolve::resolve, *};

    fn cleaned(schema: Value, mut arguments: Value) -> Value {
        without_nulls(&resolve(&schema).unwrap(), arguments.as_object_mut().unwrap());
        arguments
    }

    #[test]
    fn only_nulls_added_by_strict_mode_are_removed() {
        let schema = json!({
            "type": "object",
            "properties": {
                "a": {"type": "string"},
                "b": {"type": ["string", "null"]},
                "c": {"type": "string"},
                "d": {"type": "array", "items": {"$ref": "#/$defs/d"}},
            },
            "required": ["c"],
            "$defs": {"d": {"properties": {"e": {"type": "integer"}, "f": {}}}},
        });
        let sent = json!({
            "a": null, "b": null, "c": null, "x": null,
            "d": [{"e": null, "f": null}, {"e": 1}],
        });
        assert_eq!(
            cleaned(schema, sent),
            json!({"b": null, "c": null, "x": null, "d": [{"f": null}, {"e": 1}]})
        );
    }

    #[test]
    fn unevaluated_properties_decide_like_additional_properties() {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"not": {"type": "boolean"}}},
            "anyOf": [{"unevaluatedProperties": {"type": "number"}}],
            "additionalProperties": false,
        });
        assert_eq!(cleaned(schema, json!({"a": null})), json!({}));
        // The reference evaluates the key, so the null may be the caller's.
        let evaluated = json!({
            "properties": {"a": {"not": {"type": "boolean"}}},
            "anyOf": [{"$ref": "#/$defs/a", "unevaluatedProperties": {"type": "number"}}],
            "$defs": {"a": {"properties": {"a": {}}}},
        });
        assert_eq!(cleaned(evaluated, json!({"a": null})), json!({"a": null}));
    }

    #[test]
    fn in_a_union_the_matching_branch_decides_which_nulls_go() {
        let schema = json!({
            "properties": {"shape": {"anyOf": [
                {"properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind", "x"]},
                {"properties": {"kind": {"const": "b"}, "x": {"type": "integer"}}, "required": ["kind"]},
            ]}},
        });
        let sent = |kind: &str| json!({"shape": {"kind": kind, "x": null}});
        assert_eq!(cleaned(schema.clone(), sent("a")), sent("a"), "required: the model must hear");
        assert_eq!(cleaned(schema, sent("b")), json!({"shape": {"kind": "b"}}));
    }

    #[test]
    fn unions_of_required_properties_work_with_one_property() {
        for word in ["anyOf", "oneOf"] {
            let schema = json!({
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
                word: [{"required": ["a"]}, {"required": ["b"]}],
                "additionalProperties": false,
            });
            assert_eq!(cleaned(schema, json!({"a": "x", "b": null})), json!({"a": "x"}));
        }
        let either = json!({"properties": {"s": {"anyOf": [
            {
                "properties": {"path": {"type": "string"}, "line": {"type": "integer"}},
                "required": ["path"],
            },
            {
                "properties": {"url": {"type": "string"}, "line": {"type": "integer"}},
                "required": ["url", "line"],
            },
        ]}}});
        assert_eq!(
            cleaned(either, json!({"s": {"path": "x", "line": null}})),
            json!({"s": {"path": "x"}})
        );
        let typed = json!({"properties": {"v": {"anyOf": [
            {"properties": {"n": {"type": "integer"}, "m": {"type": "string"}}, "required": ["m"]},
            {
                "properties": {"n": {"type": ["integer", "null"]}, "m": {"type": "integer"}},
                "required": ["n"],
            },
        ]}}});
        let both = |v: Value| cleaned(typed.clone(), json!({"v": v}))["v"].clone();
        assert_eq!(both(json!({"n": null, "m": "s"})), json!({"m": "s"}));
        assert_eq!(both(json!({"n": null, "m": null})), json!({"n": null}));
    }
}
