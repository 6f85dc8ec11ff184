//! Answers questions about a schema without a value: its types, whether null is valid, whether two
//! schemas are disjoint.

use serde_json::{Map, Value};

use super::{
    document::Document,
    merge::{equal, type_of, types},
};

/// A set of types: one bit each, integers apart from other numbers.
pub(super) type Kinds = u8;

pub(super) const NULL: Kinds = 1;
pub(super) const BOOLEAN: Kinds = 2;
pub(super) const OBJECT: Kinds = 4;
pub(super) const ARRAY: Kinds = 8;
pub(super) const STRING: Kinds = 16;
pub(super) const INTEGER: Kinds = 32;
pub(super) const FRACTION: Kinds = 64;
pub(super) const NUMBER: Kinds = INTEGER | FRACTION;
pub(super) const ALL: Kinds = 127;

/// Subschemas visited per question. Beyond it the answer is "maybe".
const MAX_VISITED: usize = 4_000;

/// The set for one type name.
pub(super) fn kind(name: &str) -> Kinds {
    match name {
        "null" => NULL,
        "boolean" => BOOLEAN,
        "object" => OBJECT,
        "array" => ARRAY,
        "string" => STRING,
        "integer" => INTEGER,
        "number" => NUMBER,
        _ => 0,
    }
}

/// The names of a set of types.
pub(super) fn names(kinds: Kinds) -> Vec<&'static str> {
    let single = [
        ("null", NULL),
        ("boolean", BOOLEAN),
        ("object", OBJECT),
        ("array", ARRAY),
        ("string", STRING),
    ];
    let mut names: Vec<&str> =
        single.into_iter().filter(|(_, bit)| kinds & bit != 0).map(|(name, _)| name).collect();
    match (kinds & INTEGER, kinds & FRACTION) {
        (0, 0) => {}
        (_, 0) => names.push("integer"),
        _ => names.push("number"),
    }
    names
}

/// The name of the definition that a schema refers to.
pub(super) fn reference(map: &Map<String, Value>) -> Option<&str> {
    map.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}

/// The types of all values that a schema may accept. An upper bound: never too few.
pub(super) fn kinds(document: &Document, node: &Value) -> Kinds {
    fn look(document: &Document, node: &Value, fuel: &mut usize) -> Kinds {
        let map = match node {
            Value::Bool(false) => return 0,
            Value::Object(map) if *fuel > 0 => map,
            _ => return ALL,
        };
        *fuel -= 1;
        let mut found = ALL;
        if let Some(named) = map.get("type") {
            found &= types(named).into_iter().map(kind).fold(0, |a, b| a | b);
        }
        if let Some(values) = own_values(map) {
            found &= values.iter().map(|v| kind(type_of(v))).fold(0, |a, b| a | b);
        }
        if let Some(target) = reference(map).and_then(|name| document.definitions.get(name)) {
            found &= look(document, target, fuel);
        }
        let list = |key: &str| map.get(key).and_then(Value::as_array);
        for part in list("allOf").into_iter().flatten() {
            found &= look(document, part, fuel);
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(branches) = list(key) {
                found &= branches.iter().map(|b| look(document, b, fuel)).fold(0, |a, b| a | b);
            }
        }
        found
    }
    look(document, node, &mut MAX_VISITED.clone())
}

/// Whether null is accepted; `None` if unknown.
pub(super) fn takes_null(document: &Document, node: &Value) -> Option<bool> {
    fn look(document: &Document, node: &Value, fuel: &mut usize) -> Option<bool> {
        let map = match node {
            Value::Bool(is_true) => return Some(*is_true),
            Value::Object(map) => map,
            _ => return None,
        };
        *fuel = fuel.checked_sub(1)?;
        let list = |key: &str| map.get(key).and_then(Value::as_array);
        if map.get("type").is_some_and(|t| !types(t).contains(&"null"))
            || own_values(map).is_some_and(|values| !values.contains(&&Value::Null))
        {
            return Some(false);
        }
        let mut needed = Vec::new();
        needed.extend(reference(map).and_then(|name| document.definitions.get(name)));
        needed.extend(list("allOf").into_iter().flatten());
        if let Some(condition) = map.get("if") {
            let next = if look(document, condition, fuel)? { "then" } else { "else" };
            needed.extend(map.get(next));
        }
        for part in needed {
            if !look(document, part, fuel)? {
                return Some(false);
            }
        }
        if let Some(not) = map.get("not")
            && look(document, not, fuel)?
        {
            return Some(false);
        }
        for key in ["anyOf", "oneOf"] {
            let Some(branches) = list(key) else { continue };
            let mut takers = 0;
            for branch in branches {
                takers += usize::from(look(document, branch, fuel)?);
            }
            if takers == 0 || (key == "oneOf" && takers > 1) {
                return Some(false);
            }
        }
        Some(true)
    }
    look(document, node, &mut MAX_VISITED.clone())
}

/// Whether no value is accepted by both. `false` if unknown.
pub(super) fn disjoint(document: &Document, one: &Value, other: &Value) -> bool {
    fn look(document: &Document, one: &Value, other: &Value, left: usize) -> bool {
        if kinds(document, one) & kinds(document, other) == 0 {
            return true;
        }
        let Some(left) = left.checked_sub(1) else { return false };
        let (ones, others) = (parts(document, one), parts(document, other));
        for a in &ones {
            for b in &others {
                if let (Some(ours), Some(theirs)) = (own_values(a), own_values(b))
                    && !ours.iter().any(|v| theirs.iter().any(|t| equal(v, t)))
                {
                    return true;
                }
            }
        }
        // Two objects are disjoint if both require a key whose schemas are disjoint.
        let both = kinds(document, one) & kinds(document, other);
        if both & !OBJECT != 0 {
            return false;
        }
        let property = |parts: &[&Map<String, Value>], name: &str| {
            parts
                .iter()
                .filter_map(|p| p.get("properties")?.get(name).cloned())
                .reduce(|a, b| super::merge::both(&a, &b))
        };
        let required = |parts: &[&Map<String, Value>], name: &str| {
            parts.iter().any(|p| {
                let names = p.get("required").and_then(Value::as_array);
                names.is_some_and(|names| names.iter().any(|n| n == name))
            })
        };
        let names = ones
            .iter()
            .filter_map(|p| p.get("required")?.as_array())
            .flatten()
            .filter_map(Value::as_str);
        for name in names.filter(|name| required(&others, name)) {
            if let (Some(a), Some(b)) = (property(&ones, name), property(&others, name))
                && look(document, &a, &b, left)
            {
                return true;
            }
        }
        false
    }
    look(document, one, other, 4)
}

/// Schemas combined at one place. Beyond it the rest is ignored.
const MAX_PARTS: usize = 24;

/// The schemas that all apply at one place: the schema, its reference target, its `allOf`.
fn parts<'a>(document: &'a Document, node: &'a Value) -> Vec<&'a Map<String, Value>> {
    let mut found = Vec::new();
    let mut waiting = vec![node];
    while let Some(node) = waiting.pop() {
        if found.len() > MAX_PARTS {
            break;
        }
        let Some(map) = node.as_object() else { continue };
        found.push(map);
        waiting.extend(reference(map).and_then(|name| document.definitions.get(name)));
        waiting.extend(map.get("allOf").and_then(Value::as_array).into_iter().flatten());
    }
    found
}

/// The values that a schema lists itself.
pub(super) fn own_values(map: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (map.get("const"), map.get("enum")) {
        (Some(one), _) => Some(vec![one]),
        (None, Some(Value::Array(some))) => Some(some.iter().collect()),
        _ => None,
    }
}

/// Whether a keyword is used anywhere in the document's schemas.
pub(super) fn mentions(document: &Document, words: &[&str]) -> bool {
    fn look(node: &Value, words: &[&str]) -> bool {
        let Some(map) = node.as_object() else { return false };
        words.iter().any(|w| map.contains_key(*w))
            || super::keywords::children(map).any(|child| look(child.node, words))
    }
    look(&document.root, words) || document.definitions.values().any(|d| look(d, words))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::resolve::resolve, *};

    fn apart(one: Value, other: Value) -> bool {
        let document = resolve(&json!({})).unwrap();
        disjoint(&document, &one, &other)
    }

    #[test]
    fn schemas_are_disjoint_by_type_value_or_discriminator() {
        assert!(apart(json!({"type": "string"}), json!({"type": ["null", "number"]})));
        assert!(apart(json!({"const": 1}), json!({"enum": [2, 3]})));
        assert!(!apart(json!({"const": 1}), json!({"enum": [1.0]})));
        assert!(!apart(json!({"type": "number"}), json!({"type": "integer"})));
        let shape = |kind: &str| json!({"type": "object", "properties": {"kind": {"const": kind}}, "required": ["kind"]});
        assert!(apart(shape("a"), shape("b")));
        assert!(!apart(shape("a"), shape("a")));
        let optional = json!({"type": "object", "properties": {"kind": {"const": "b"}}});
        assert!(!apart(shape("a"), optional), "without the key both hold");
        let any = json!({"properties": {"kind": {"const": "b"}}, "required": ["kind"]});
        assert!(!apart(any.clone(), any), "text is accepted by both");
    }

    #[test]
    fn whether_null_is_accepted_is_known() {
        let document = resolve(&json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}));
        let document = document.unwrap();
        for (schema, takes) in [
            (json!({}), true),
            (json!({"type": ["string", "null"]}), true),
            (json!({"type": ["string", "null"], "enum": ["a"]}), false),
            (json!({"$ref": "#/$defs/a"}), true),
            (json!({"not": {"$ref": "#/$defs/a"}}), false),
            (json!({"anyOf": [{"type": "string"}, {"const": null}]}), true),
            (json!({"oneOf": [{"type": "null"}, {"const": null}]}), false),
            (json!({"if": {"type": "null"}, "then": false}), false),
        ] {
            assert_eq!(takes_null(&document, &schema), Some(takes), "{schema}");
        }
    }
}
