//! Merges two schemas into one that accepts exactly what both accept.
//!
//! Where two keywords cannot be merged exactly, the result is `None`. The caller then keeps the
//! schemas apart or reports a loss.

use serde_json::{Map, Number, Value, json};

use super::keywords::ANNOTATIONS;

/// Lists of values are not intersected beyond this.
const MAX_COMPARED_PAIRS: usize = 1_000_000;

/// A schema that accepts no value.
pub(super) fn false_schema() -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("not".into(), json!({}));
    map
}

/// Merges two subschemas, under `allOf` if there is no other way.
pub(super) fn both(one: &Value, other: &Value) -> Value {
    match (one, other) {
        (Value::Bool(true), any) | (any, Value::Bool(true)) => any.clone(),
        (Value::Bool(false), _) | (_, Value::Bool(false)) => Value::Bool(false),
        (one, other) if one == other => one.clone(),
        (Value::Object(a), Value::Object(b)) => match merge(a, b) {
            Some(merged) => Value::Object(merged),
            None => json!({"allOf": [one, other]}),
        },
        _ => json!({"allOf": [one, other]}),
    }
}

/// Merges two schemas exactly, or returns `None`. Annotations of the first win.
pub(super) fn merge(
    one: &Map<String, Value>,
    other: &Map<String, Value>,
) -> Option<Map<String, Value>> {
    // These depend on their sibling keywords, so they cannot be moved.
    if other.contains_key("unevaluatedProperties") || other.contains_key("unevaluatedItems") {
        return None;
    }
    let unit = |words: &[&str]| {
        words.iter().any(|w| one.contains_key(*w)) && words.iter().any(|w| other.contains_key(*w))
    };
    let same = |words: &[&str]| words.iter().all(|w| one.get(*w) == other.get(*w));
    for words in [&["if", "then", "else"][..], &["contains", "minContains", "maxContains"][..]] {
        if unit(words) && !same(words) {
            return None;
        }
    }
    let mut out = one.clone();
    for (key, theirs) in other {
        let Some(ours) = one.get(key) else {
            // The keywords of objects and arrays are merged as a group below.
            if !OBJECTS.contains(&key.as_str()) && !ARRAYS.contains(&key.as_str()) {
                out.insert(key.clone(), theirs.clone());
            }
            continue;
        };
        let merged = match key.as_str() {
            key if ANNOTATIONS.contains(&key) || key == "x-haft" => continue,
            "type" => {
                let types = common_types(ours, theirs);
                match types.len() {
                    0 => return Some(false_schema()),
                    1 => Value::String(types[0].to_owned()),
                    _ => json!(types),
                }
            }
            "enum" => {
                let (ours, theirs) = (ours.as_array()?, theirs.as_array()?);
                if ours.len().saturating_mul(theirs.len()) > MAX_COMPARED_PAIRS {
                    return None;
                }
                let kept: Vec<&Value> =
                    ours.iter().filter(|v| theirs.iter().any(|t| equal(v, t))).collect();
                if kept.is_empty() {
                    return Some(false_schema());
                }
                json!(kept)
            }
            "const" => {
                if equal(ours, theirs) {
                    ours.clone()
                } else {
                    return Some(false_schema());
                }
            }
            "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" => {
                pick(ours, theirs, |a, b| a >= b)?
            }
            "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" => {
                pick(ours, theirs, |a, b| a <= b)?
            }
            "multipleOf" => multiple(ours, theirs)?,
            "uniqueItems" => json!(ours == &json!(true) || theirs == &json!(true)),
            "not" if ours == theirs => ours.clone(),
            "not" => json!({"anyOf": [ours, theirs]}),
            "required" => {
                let mut names = ours.as_array()?.clone();
                for name in theirs.as_array()? {
                    if !names.contains(name) {
                        names.push(name.clone());
                    }
                }
                Value::Array(names)
            }
            "dependentRequired" => {
                let mut names = ours.as_object()?.clone();
                for (key, needs) in theirs.as_object()? {
                    let pointer = names.entry(key.clone()).or_insert_with(|| json!([]));
                    for need in needs.as_array()? {
                        if !pointer.as_array()?.contains(need) {
                            pointer.as_array_mut()?.push(need.clone());
                        }
                    }
                }
                Value::Object(names)
            }
            "dependentSchemas" => {
                let mut schemas = ours.as_object()?.clone();
                for (key, schema) in theirs.as_object()? {
                    let merged = match schemas.get(key) {
                        Some(ours) => both(ours, schema),
                        None => schema.clone(),
                    };
                    schemas.insert(key.clone(), merged);
                }
                Value::Object(schemas)
            }
            "propertyNames" => both(ours, theirs),
            key if OBJECTS.contains(&key) || ARRAYS.contains(&key) => continue,
            _ if ours == theirs => ours.clone(),
            // Unknown keywords have no effect; the first value is kept.
            key if !super::keywords::restricts(key) => continue,
            _ => return None,
        };
        out.insert(key.clone(), merged);
    }
    objects(&mut out, one, other)?;
    arrays(&mut out, one, other);
    if let (Some(value), Some(list)) = (out.get("const"), out.get("enum").and_then(Value::as_array))
    {
        if !list.iter().any(|v| equal(v, value)) {
            return Some(false_schema());
        }
        out.shift_remove("enum");
    }
    Some(out)
}

/// Keywords that together decide the schema of a key.
const OBJECTS: [&str; 3] = ["properties", "patternProperties", "additionalProperties"];
/// Keywords that together decide the schema of an item.
const ARRAYS: [&str; 2] = ["items", "prefixItems"];

fn objects(
    out: &mut Map<String, Value>,
    one: &Map<String, Value>,
    other: &Map<String, Value>,
) -> Option<()> {
    if !OBJECTS.iter().any(|w| other.contains_key(*w)) {
        return Some(());
    }
    let map = |side: &Map<String, Value>, key: &str| {
        side.get(key).and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let rest = |side: &Map<String, Value>| {
        side.get("additionalProperties").filter(|v| **v != json!(true)).cloned()
    };
    let (ours, theirs) = (map(one, "properties"), map(other, "properties"));
    let (our_patterns, their_patterns) =
        (map(one, "patternProperties"), map(other, "patternProperties"));
    let (our_rest, their_rest) = (rest(one), rest(other));
    // Which keys a pattern matches is unknown without all names.
    let tangled = |rest: &Option<Value>, own: &Map<String, Value>, others: &Map<String, Value>| {
        rest.is_some() && (own != others)
    };
    if tangled(&our_rest, &our_patterns, &their_patterns)
        || tangled(&their_rest, &their_patterns, &our_patterns)
    {
        return None;
    }
    let mut merged = Map::new();
    for (name, schema) in &ours {
        let schema = match (theirs.get(name), &their_rest) {
            (Some(theirs), _) => both(schema, theirs),
            (None, Some(_)) if !their_patterns.is_empty() => return None,
            (None, Some(rest)) => both(schema, rest),
            (None, None) => schema.clone(),
        };
        merged.insert(name.clone(), schema);
    }
    for (name, schema) in &theirs {
        if ours.contains_key(name) {
            continue;
        }
        let schema = match &our_rest {
            Some(_) if !our_patterns.is_empty() => return None,
            Some(rest) => both(rest, schema),
            None => schema.clone(),
        };
        merged.insert(name.clone(), schema);
    }
    let mut patterns = our_patterns;
    for (pattern, schema) in their_patterns {
        let schema = match patterns.get(&pattern) {
            Some(ours) => both(ours, &schema),
            None => schema,
        };
        patterns.insert(pattern, schema);
    }
    let rest = match (our_rest, their_rest) {
        (Some(a), Some(b)) => Some(both(&a, &b)),
        (a, b) => a.or(b),
    };
    // Kept if either side has it explicitly, because it also marks properties as evaluated.
    let open = || [one, other].iter().any(|s| s.contains_key("additionalProperties"));
    let rest = rest.or_else(|| open().then(|| json!(true)));
    put(out, "properties", (!merged.is_empty()).then_some(Value::Object(merged)));
    put(out, "patternProperties", (!patterns.is_empty()).then_some(Value::Object(patterns)));
    put(out, "additionalProperties", rest);
    Some(())
}

fn arrays(out: &mut Map<String, Value>, one: &Map<String, Value>, other: &Map<String, Value>) {
    if !ARRAYS.iter().any(|w| other.contains_key(*w)) {
        return;
    }
    let first = |side: &Map<String, Value>| {
        side.get("prefixItems").and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let rest = |side: &Map<String, Value>| side.get("items").cloned();
    let (ours, theirs) = (first(one), first(other));
    let at = |list: &[Value], rest: Option<Value>, n: usize| {
        list.get(n).cloned().or(rest).unwrap_or(json!(true))
    };
    let merged: Vec<Value> = (0..ours.len().max(theirs.len()))
        .map(|n| both(&at(&ours, rest(one), n), &at(&theirs, rest(other), n)))
        .collect();
    put(out, "prefixItems", (!merged.is_empty()).then_some(Value::Array(merged)));
    let rest = match (rest(one), rest(other)) {
        (Some(a), Some(b)) => Some(both(&a, &b)),
        (a, b) => a.or(b),
    };
    put(out, "items", rest);
}

fn put(out: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => {
            out.insert(key.to_owned(), value);
        }
        None => {
            out.shift_remove(key);
        }
    }
}

fn pick(ours: &Value, theirs: &Value, better: fn(f64, f64) -> bool) -> Option<Value> {
    let keep = better(ours.as_f64()?, theirs.as_f64()?);
    Some(if keep { ours.clone() } else { theirs.clone() })
}

/// The least common multiple, if it is one of the two.
fn multiple(ours: &Value, theirs: &Value) -> Option<Value> {
    if equal(ours, theirs) {
        return Some(ours.clone());
    }
    let (a, b) = (ours.as_u64()?, theirs.as_u64()?);
    match (a, b) {
        (0, _) | (_, 0) => None,
        (a, b) if a % b == 0 => Some(ours.clone()),
        (a, b) if b % a == 0 => Some(theirs.clone()),
        _ => None,
    }
}

/// The types that `type` names; a number includes the integers.
pub(super) fn types(value: &Value) -> Vec<&str> {
    match value {
        Value::String(one) => vec![one.as_str()],
        Value::Array(some) => some.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn common_types<'a>(ours: &'a Value, theirs: &'a Value) -> Vec<&'a str> {
    let (ours, theirs) = (types(ours), types(theirs));
    let holds = |list: &[&str], kind: &str| {
        list.contains(&kind) || (kind == "integer" && list.contains(&"number"))
    };
    let mut common: Vec<&str> = Vec::new();
    for kind in ours.iter().chain(&theirs) {
        if holds(&ours, kind) && holds(&theirs, kind) && !common.contains(kind) {
            common.push(kind);
        }
    }
    if common.contains(&"number") {
        common.retain(|kind| *kind != "integer");
    }
    common
}

/// Whether JSON Schema treats two values as equal: 1 and 1.0 are.
pub(super) fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => same_number(a, b),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|v| equal(value, v)))
        }
        (one, other) => one == other,
    }
}

fn same_number(a: &Number, b: &Number) -> bool {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => a == b,
        _ => a.as_f64() == b.as_f64(),
    }
}

/// The JSON Schema type of a value.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() && n.as_f64().is_some_and(|f| f.fract() != 0.0) => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(one: Value, other: Value) -> Option<Value> {
        merge(one.as_object().unwrap(), other.as_object().unwrap()).map(Value::Object)
    }

    #[test]
    fn limits_and_types_are_intersected() {
        let one = json!({"type": ["number", "string"], "minimum": 1, "enum": [1, 2, "a"]});
        let other = json!({"type": ["integer", "null"], "minimum": 2, "enum": [2.0, "a"]});
        assert_eq!(
            merged(one, other).unwrap(),
            json!({"type": "integer", "minimum": 2, "enum": [2, "a"]})
        );
        let never = merged(json!({"type": "string"}), json!({"type": "null"}));
        assert_eq!(never.unwrap(), json!({"not": {}}));
    }

    #[test]
    fn property_of_one_schema_merges_with_additional_properties_of_the_other() {
        let one = json!({"properties": {"a": {"minimum": 1}}, "additionalProperties": false});
        let other = json!({"properties": {"a": {"maximum": 2}, "b": {}}, "required": ["b"]});
        assert_eq!(
            merged(one, other).unwrap(),
            json!({
                "properties": {"a": {"minimum": 1, "maximum": 2}, "b": false},
                "additionalProperties": false, "required": ["b"],
            })
        );
    }

    #[test]
    fn keywords_without_an_exact_intersection_are_not_merged() {
        for (one, other) in [
            (json!({"pattern": "a"}), json!({"pattern": "b"})),
            (json!({"anyOf": [true]}), json!({"anyOf": [false]})),
            (json!({"$ref": "#/$defs/a"}), json!({"$ref": "#/$defs/b"})),
            (json!({"multipleOf": 2}), json!({"multipleOf": 3})),
            (json!({"if": {}}), json!({"if": {}, "then": false})),
            (json!({}), json!({"unevaluatedProperties": false})),
            (
                json!({"patternProperties": {"a": {}}, "additionalProperties": false}),
                json!({"properties": {"b": {}}}),
            ),
        ] {
            assert_eq!(merged(one.clone(), other.clone()), None, "{one} and {other}");
        }
    }

    #[test]
    fn tuples_are_merged_item_by_item() {
        let one = json!({"prefixItems": [{"type": "string"}], "items": {"minimum": 1}});
        let other = json!({"items": {"maximum": 2}});
        assert_eq!(
            merged(one, other).unwrap(),
            json!({
                "prefixItems": [{"type": "string", "maximum": 2}],
                "items": {"minimum": 1, "maximum": 2},
            })
        );
    }
}
