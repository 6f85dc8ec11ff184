//! Takes out the nulls that a model only wrote because strict mode wants every property.
//!
//! A null goes when the tool's own schema describes the property, does not require it, and does
//! not accept null. In a union only those branches count that the value does not contradict.

use serde_json::{Map, Value};

use super::{
    merge::{equal, type_of},
    query::{kind, kinds, own_values, reference, takes_null},
    resolve::Document,
};

/// More schemas than this do not apply to one value.
const MANY: usize = 64;

/// Takes the nulls out of arguments, at every depth.
pub(crate) fn without_nulls(document: &Document, arguments: &mut Value) {
    let root = vec![&document.root];
    clean(document, root, arguments);
}

fn clean(document: &Document, schemas: Vec<&Value>, value: &mut Value) {
    match value {
        Value::Object(map) => {
            let applying = applying(document, schemas, &Value::Object(map.clone()));
            let mut meant = Map::new();
            for (name, mut child) in std::mem::take(map) {
                let described: Vec<(&Map<String, Value>, &Value)> = applying
                    .iter()
                    .filter_map(|s| Some((*s, s.get("properties")?.get(&name)?)))
                    .collect();
                let absent = child.is_null()
                    && !described.is_empty()
                    && described.iter().all(|(schema, property)| {
                        !requires(schema, &name) && takes_null(document, property) == Some(false)
                    });
                if absent {
                    continue;
                }
                clean(
                    document,
                    described.iter().map(|(_, property)| *property).collect(),
                    &mut child,
                );
                meant.insert(name, child);
            }
            *map = meant;
        }
        Value::Array(list) if !list.is_empty() => {
            let applying = applying(document, schemas, &Value::Array(list.clone()));
            for (n, item) in list.iter_mut().enumerate() {
                let below = applying
                    .iter()
                    .filter_map(|s| s.get("prefixItems").and_then(|p| p.get(n)).or(s.get("items")))
                    .collect();
                clean(document, below, item);
            }
        }
        _ => {}
    }
}

fn requires(schema: &Map<String, Value>, name: &str) -> bool {
    let names = schema.get("required").and_then(Value::as_array);
    names.is_some_and(|names| names.iter().any(|n| n == name))
}

/// The schemas that say something about a value: these, what they refer to, and the branches that
/// the value does not contradict.
fn applying<'a>(
    document: &'a Document,
    mut waiting: Vec<&'a Value>,
    value: &Value,
) -> Vec<&'a Map<String, Value>> {
    let mut found: Vec<&Map<String, Value>> = Vec::new();
    while let Some(node) = waiting.pop() {
        let Some(map) = node.as_object() else { continue };
        if found.len() >= MANY {
            break;
        }
        if found.iter().any(|f| std::ptr::eq(*f, map)) {
            continue;
        }
        found.push(map);
        waiting.extend(reference(map).and_then(|name| document.definitions.get(name)));
        let list = |key: &str| map.get(key).and_then(Value::as_array).into_iter().flatten();
        waiting.extend(list("allOf"));
        waiting.extend(
            list("anyOf").chain(list("oneOf")).filter(|b| !contradicts(document, b, value)),
        );
    }
    found
}

/// Whether a value cannot be meant by a branch: another type, or another fixed value of a property.
fn contradicts(document: &Document, branch: &Value, value: &Value) -> bool {
    if kinds(document, branch) & kind(type_of(value)) == 0 {
        return true;
    }
    let Some(sent) = value.as_object() else { return false };
    let mut node = Some(branch);
    let mut left = 8;
    while let Some(map) = node.and_then(Value::as_object) {
        for (name, property) in
            map.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            if let Some(values) = property.as_object().and_then(own_values)
                && let Some(sent) = sent.get(name).filter(|v| !v.is_null())
                && !values.iter().any(|v| equal(v, sent))
            {
                return true;
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
        without_nulls(&resolve(&schema).unwrap(), &mut arguments);
        arguments
    }

    #[test]
    fn only_nulls_that_were_never_meant_go() {
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
    fn in_a_union_the_branch_that_is_meant_decides() {
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
}
