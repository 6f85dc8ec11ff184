//! Turns the format of an integer into bounds that the validator checks.
//!
//! A Rust integer is described as `{"type": "integer", "format": "int64"}`, as in OpenAPI.
//! Validators treat such a format as an annotation. Without bounds, a number that is too large
//! would pass, and the Rust type would reject it without a location.

use serde_json::{Map, Value};

use super::keywords::{DATA_KEYWORDS, NAMED_SCHEMA_KEYWORDS};

/// Returns the smallest and the largest integer of a format.
fn range(format: &str) -> Option<(Value, Value)> {
    Some(match format {
        "int8" => (i8::MIN.into(), i8::MAX.into()),
        "int16" => (i16::MIN.into(), i16::MAX.into()),
        "int32" => (i32::MIN.into(), i32::MAX.into()),
        // The width of `isize` on the platforms that tools run on.
        "int64" | "int" => (i64::MIN.into(), i64::MAX.into()),
        "uint8" => (u8::MIN.into(), u8::MAX.into()),
        "uint16" => (u16::MIN.into(), u16::MAX.into()),
        "uint32" => (u32::MIN.into(), u32::MAX.into()),
        "uint64" | "uint" => (u64::MIN.into(), u64::MAX.into()),
        _ => return None,
    })
}

/// Returns the schema with its integers bounded by their formats; `None` if there is no such
/// format. Locations in the schema stay the same.
pub(super) fn bounded(schema: &Value) -> Option<Value> {
    if !has_range(schema) {
        return None;
    }
    let mut bounded = schema.clone();
    bound_all(&mut bounded, false);
    Some(bounded)
}

/// Whether the schema may contain a format with a range; a name or a value may look like one too.
fn has_range(node: &Value) -> bool {
    match node {
        Value::Object(map) => {
            map.get("format").and_then(Value::as_str).is_some_and(|f| range(f).is_some())
                || map.values().any(has_range)
        }
        Value::Array(list) => list.iter().any(has_range),
        _ => false,
    }
}

fn bound_all(node: &mut Value, names: bool) {
    match node {
        Value::Object(map) => {
            if !names {
                bound(map);
            }
            for (key, value) in map {
                if names || !DATA_KEYWORDS.contains(&key.as_str()) {
                    bound_all(value, !names && NAMED_SCHEMA_KEYWORDS.contains(&key.as_str()));
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|item| bound_all(item, false)),
        _ => {}
    }
}

/// Bounds one schema by its format, unless its own bounds are tighter.
pub(super) fn bound(map: &mut Map<String, Value>) {
    let is_integer = match map.get("type") {
        Some(Value::String(one)) => one == "integer",
        Some(Value::Array(some)) => {
            some.iter().any(|kind| kind == "integer") && !some.iter().any(|kind| kind == "number")
        }
        _ => false,
    };
    let Some((low, high)) = map.get("format").and_then(Value::as_str).and_then(range) else {
        return;
    };
    if !is_integer {
        return;
    }
    let tighter = |own: Option<&Value>, ours: &Value, is_tighter: fn(&f64, &f64) -> bool| {
        own.and_then(Value::as_f64).zip(ours.as_f64()).is_some_and(|(a, b)| is_tighter(&a, &b))
    };
    if !tighter(map.get("minimum"), &low, f64::ge) {
        map.insert("minimum".into(), low);
    }
    if !tighter(map.get("maximum"), &high, f64::le) {
        map.insert("maximum".into(), high);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn integer_formats_become_bounds_and_nothing_else_changes() {
        let schema = json!({
            "properties": {
                "a": {"type": "integer", "format": "int64"},
                "b": {"type": ["integer", "null"], "format": "uint8", "minimum": 3},
                "c": {"type": "number", "format": "int32"},
                "d": {"type": "string", "format": "int32"},
                "format": {"type": "integer", "default": {"type": "integer", "format": "int8"}},
            },
        });
        let bounded = bounded(&schema).unwrap();
        assert_eq!(
            bounded["properties"],
            json!({
                "a": {"type": "integer", "format": "int64", "minimum": i64::MIN, "maximum": i64::MAX},
                "b": {"type": ["integer", "null"], "format": "uint8", "minimum": 3, "maximum": 255},
                "c": {"type": "number", "format": "int32"},
                "d": {"type": "string", "format": "int32"},
                "format": {"type": "integer", "default": {"type": "integer", "format": "int8"}},
            })
        );
        assert_eq!(super::bounded(&json!({"properties": {"a": {"type": "integer"}}})), None);
    }
}
