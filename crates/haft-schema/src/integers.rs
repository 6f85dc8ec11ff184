//! Converts whole floats to integers where the schema requires an integer.
//!
//! JSON Schema accepts `2.0` as an integer; a Rust integer type does not. In: a schema and a valid
//! value. Out: the same value with its integers written as integers, at any location: in objects,
//! arrays, maps, behind references, in unions and conditions. A number that the schema also accepts
//! as a fraction stays as it is. A whole float of 2^53 or more may have lost digits and is reported
//! instead.
//!
//! INVARIANT: for JSON Schema, the value before and the value after are equal.

use serde_json::{Map, Number, Value};

use super::{
    compiled::Schema,
    explain::ValidationError,
    lookup::SchemaLookup,
    pointer::below,
    repair::whole,
    work::{item_schemas, member_schemas},
};

/// At most this many schemas are applied to one value.
const MAX_SCHEMAS: usize = 256;

impl Schema {
    /// Converts whole floats to integers where the schema requires them, in a valid value.
    #[inline]
    pub fn settle_integers(&self, value: &mut Value) -> SettledIntegers {
        if has_whole_float(value) {
            SettledIntegers::Visited(convert(self.lookup(), value))
        } else {
            SettledIntegers::Unchanged
        }
    }
}

/// What became of the whole floats of a value.
#[derive(Debug)]
pub enum SettledIntegers {
    /// There was none.
    Unchanged,
    /// They were converted, except those that cannot be converted exactly.
    Visited(Vec<ValidationError>),
}

/// Converts whole floats to integers, and returns those that cannot be converted exactly.
pub(super) fn convert(lookup: SchemaLookup<'_>, value: &mut Value) -> Vec<ValidationError> {
    let mut problems = Vec::new();
    let root = Applicable { certain: vec![lookup.root()], possible: Vec::new() };
    let mut converter = Converter { lookup, problems: &mut problems };
    converter.visit(&root, value, "");
    problems
}

fn has_whole_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => is_whole_float(number),
        Value::Array(list) => list.iter().any(has_whole_float),
        Value::Object(map) => map.values().any(has_whole_float),
        _ => false,
    }
}

pub(super) fn is_whole_float(number: &Number) -> bool {
    number.is_f64() && number.as_f64().is_some_and(|float| float.fract() == 0.0)
}

/// The schemas for one value: those that certainly apply, and those that possibly apply.
#[derive(Default)]
struct Applicable<'a> {
    certain: Vec<&'a Value>,
    possible: Vec<&'a Value>,
}

struct Converter<'a, 'p> {
    lookup: SchemaLookup<'a>,
    problems: &'p mut Vec<ValidationError>,
}

impl<'a> Converter<'a, '_> {
    fn visit(&mut self, applicable: &Applicable<'a>, value: &mut Value, at: &str) {
        match value {
            Value::Number(number) if is_whole_float(number) => {
                let all = self.expand(applicable, &Value::Number(number.clone()));
                if !is_integer(&all, number) {
                    return;
                }
                match whole(number) {
                    Some(whole) => *number = whole,
                    None => self.problems.push(self.inexact(number, at)),
                }
            }
            Value::Object(_) | Value::Array(_) if !has_whole_float(value) => {}
            Value::Object(_) => {
                let all = self.expand(applicable, value);
                let Some(members) = value.as_object_mut() else { return };
                for (name, member) in members {
                    let child = all.child(|map| (member_schemas(map, name), Vec::new()));
                    self.visit(&child, member, &below(at, name));
                }
            }
            Value::Array(_) => {
                let all = self.expand(applicable, value);
                let Some(items) = value.as_array_mut() else { return };
                for (n, item) in items.iter_mut().enumerate() {
                    let child = all.child(|map| {
                        let contains = map.get("contains");
                        let is_contains =
                            |node: &&Value| contains.is_some_and(|c| std::ptr::eq(c, *node));
                        item_schemas(map, n).into_iter().partition(|node| !is_contains(node))
                    });
                    self.visit(&child, item, &format!("{at}/{n}"));
                }
            }
            _ => {}
        }
    }

    /// Reports a whole number that may have lost digits when it was parsed.
    fn inexact(&self, number: &Number, at: &str) -> ValidationError {
        let got = if self.lookup.is_secret(at) {
            "a hidden value".to_owned()
        } else {
            format!("{number} (number)")
        };
        ValidationError {
            pointer: at.to_owned(),
            keyword: "type".to_owned(),
            message: format!(
                "expected an integer; got {got}, which cannot be represented exactly. Write all of its digits, and stay within 64 bits"
            ),
        }
    }

    /// Follows references, combinations and the branches that a value does not contradict.
    fn expand(&self, applicable: &Applicable<'a>, value: &Value) -> Applicable<'a> {
        let mut found = Applicable::default();
        let mut certain = applicable.certain.clone();
        let mut possible = applicable.possible.clone();
        let knows =
            |list: &[&Value], node: &Value| list.iter().any(|known| std::ptr::eq(*known, node));
        loop {
            // Certain schemas first, so that they are not repeated as possible ones.
            let (node, holds) = match (certain.pop(), possible.is_empty()) {
                (Some(node), _) => (node, true),
                (None, false) => match possible.pop() {
                    Some(node) => (node, false),
                    None => return found,
                },
                (None, true) => return found,
            };
            let Some(map) = node.as_object() else { continue };
            if knows(&found.certain, node) || (!holds && knows(&found.possible, node)) {
                continue;
            }
            if found.certain.len() + found.possible.len() >= MAX_SCHEMAS {
                return found;
            }
            if holds {
                found.certain.push(node)
            } else {
                found.possible.push(node)
            }
            let waiting = if holds { &mut certain } else { &mut possible };
            let target = map.get("$ref").and_then(Value::as_str);
            waiting.extend(target.and_then(|target| self.lookup.target(target)));
            let list = |keyword: &str| map.get(keyword).and_then(Value::as_array);
            waiting.extend(list("allOf").into_iter().flatten());
            for union in ["anyOf", "oneOf"].into_iter().filter_map(list) {
                let left: Vec<&Value> =
                    union.iter().filter(|branch| !self.contradicts(branch, value)).collect();
                let holds = holds && left.len() == 1;
                if holds { certain.extend(left) } else { possible.extend(left) }
            }
            possible.extend(["then", "else"].into_iter().filter_map(|k| map.get(k)));
            for (name, part) in
                map.get("dependentSchemas").and_then(Value::as_object).into_iter().flatten()
            {
                if value.get(name).is_some() {
                    possible.push(part);
                }
            }
        }
    }

    /// Whether a branch cannot match a value: wrong type or value, a property of wrong type or
    /// value, a missing required property, or a property that a closed object does not declare.
    fn contradicts(&self, branch: &'a Value, value: &Value) -> bool {
        if *branch == Value::Bool(false) {
            return true;
        }
        let parts = self.lookup.parts(branch);
        let refuses = |node: &'a Value, value: &Value| {
            self.lookup
                .parts(node)
                .into_iter()
                .filter_map(Value::as_object)
                .any(|map| refuses(map, value))
        };
        if refuses(branch, value) {
            return true;
        }
        let Some(members) = value.as_object() else { return false };
        parts.into_iter().filter_map(Value::as_object).any(|map| {
            let named = map.get("properties").and_then(Value::as_object);
            let is_missing =
                |name: &Value| name.as_str().is_some_and(|name| !members.contains_key(name));
            let required = map.get("required").and_then(Value::as_array);
            let is_closed = map.get("additionalProperties") == Some(&Value::Bool(false))
                && !map.contains_key("patternProperties");
            let is_unknown = |name: &String| !named.is_some_and(|named| named.contains_key(name));
            required.is_some_and(|names| names.iter().any(is_missing))
                || (is_closed && members.keys().any(is_unknown))
                || named.into_iter().flatten().any(|(name, property)| {
                    members.get(name).is_some_and(|member| refuses(property, member))
                })
        })
    }
}

impl<'a> Applicable<'a> {
    /// The schemas that apply to a child of the value. The second list of each pair is only
    /// possible.
    fn child(
        &self,
        mut of: impl FnMut(&'a Map<String, Value>) -> (Vec<&'a Value>, Vec<&'a Value>),
    ) -> Self {
        let mut child = Self::default();
        for map in self.certain.iter().filter_map(|node| node.as_object()) {
            let (certain, possible) = of(map);
            child.certain.extend(certain);
            child.possible.extend(possible);
        }
        for map in self.possible.iter().filter_map(|node| node.as_object()) {
            let (one, other) = of(map);
            child.possible.extend(one.into_iter().chain(other));
        }
        child
    }
}

/// Whether these schemas together require an integer.
fn is_integer(applicable: &Applicable<'_>, number: &Number) -> bool {
    let kinds = |list: &[&Value]| -> (bool, bool) {
        let maps = list.iter().filter_map(|node| node.as_object());
        maps.filter_map(|map| requires_integer(map, number))
            .fold((false, false), |(yes, no), says| (yes || says, no || !says))
    };
    match (kinds(&applicable.certain), kinds(&applicable.possible)) {
        // All of these apply, so the strictest counts.
        ((true, _), _) => true,
        ((false, true), _) => false,
        // Only some of these apply; if one accepts a fraction, the number stays as it is.
        ((false, false), (integer, fraction)) => integer && !fraction,
    }
}

/// Whether a schema requires an integer or accepts a fraction; `None` if it says neither.
fn requires_integer(map: &Map<String, Value>, number: &Number) -> Option<bool> {
    let kinds: Vec<&str> = match map.get("type") {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(some)) => some.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if kinds.contains(&"number") {
        return Some(false);
    }
    if kinds.contains(&"integer") {
        return Some(true);
    }
    let listed = map.get("enum").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut listed = map.get("const").into_iter().chain(listed);
    let same =
        listed.find(|value| value.as_f64().is_some() && value.as_f64() == number.as_f64())?;
    Some(!same.is_f64())
}

/// Whether a schema rejects a value by its type, `const` or `enum`.
fn refuses(map: &Map<String, Value>, value: &Value) -> bool {
    let is_kind = |kind: &Value| match (kind.as_str().unwrap_or_default(), value) {
        ("integer", Value::Number(number)) => !number.is_f64() || is_whole_float(number),
        ("number", Value::Number(_))
        | ("null", Value::Null)
        | ("boolean", Value::Bool(_))
        | ("string", Value::String(_))
        | ("array", Value::Array(_))
        | ("object", Value::Object(_)) => true,
        _ => false,
    };
    let is_other_type = match map.get("type") {
        Some(Value::Array(kinds)) => !kinds.iter().any(is_kind),
        Some(kind) => !is_kind(kind),
        None => false,
    };
    let is_same = |listed: &Value| {
        listed == value || (listed.as_f64().is_some() && listed.as_f64() == value.as_f64())
    };
    is_other_type
        || map.get("const").is_some_and(|only| !is_same(only))
        || map.get("enum").and_then(Value::as_array).is_some_and(|list| !list.iter().any(is_same))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settled(schema: &Value, mut value: Value) -> String {
        let problems = convert(SchemaLookup::new(schema, false), &mut value);
        assert!(problems.is_empty(), "{problems:?}");
        value.to_string()
    }

    #[test]
    fn whole_floats_become_integers_only_where_required() {
        let schema = json!({"properties": {
            "i": {"type": "integer"}, "n": {"type": "number"}, "o": {"type": ["integer", "null"]},
        }});
        let sent = json!({"i": 3.0, "n": 3.0, "o": -2.0, "other": 1.0});
        assert_eq!(settled(&schema, sent), r#"{"i":3,"n":3.0,"o":-2,"other":1.0}"#);
    }

    #[test]
    fn whole_floats_become_integers_wherever_the_schema_says_integer() {
        let int = json!({"type": "integer"});
        for (schema, sent, wanted) in [
            (json!({"additionalProperties": int}), json!({"a": 2.0}), r#"{"a":2}"#),
            (
                json!({"patternProperties": {"^i": int, "^n": {"type": "number"}}}),
                json!({"i": 2.0, "n": 2.0}),
                r#"{"i":2,"n":2.0}"#,
            ),
            (json!({"items": {"items": int}}), json!([[2.0], [3.0]]), "[[2],[3]]"),
            (
                json!({"prefixItems": [int, {"type": "number"}], "items": int}),
                json!([2.0, 2.0, 2.0]),
                "[2,2.0,2]",
            ),
            (
                json!({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"n": int}}}}),
                json!({"n": 2.0}),
                r#"{"n":2}"#,
            ),
            (
                json!({"allOf": [{"properties": {"n": {"type": "number"}}}, {"properties": {"n": int}}]}),
                json!({"n": 2.0}),
                r#"{"n":2}"#,
            ),
            (
                json!({"if": {"required": ["k"]}, "then": {"properties": {"n": int}}}),
                json!({"k": true, "n": 2.0}),
                r#"{"k":true,"n":2}"#,
            ),
            (json!({"anyOf": [int, {"type": "string"}]}), json!(2.0), "2"),
            (json!({"anyOf": [int, {"type": "number"}]}), json!(2.0), "2.0"),
            (json!({"enum": [1, 2]}), json!(2.0), "2"),
        ] {
            assert_eq!(settled(&schema, sent), wanted, "{schema}");
        }
    }

    #[test]
    fn discriminator_selects_the_branch_for_integers() {
        let tagged = json!({"oneOf": [
            {"type": "object", "properties": {"kind": {"const": "a"}, "n": {"type": "integer"}}, "required": ["kind", "n"]},
            {"type": "object", "properties": {"kind": {"const": "b"}, "n": {"type": "number"}}, "required": ["kind", "n"]},
        ]});
        assert_eq!(settled(&tagged, json!({"kind": "a", "n": 2.0})), r#"{"kind":"a","n":2}"#);
        assert_eq!(settled(&tagged, json!({"kind": "b", "n": 2.0})), r#"{"kind":"b","n":2.0}"#);
        let external = json!({"oneOf": [
            {"type": "object", "properties": {"Move": {"properties": {"by": {"type": "integer"}}}}, "required": ["Move"], "additionalProperties": false},
            {"type": "object", "properties": {"Scale": {"properties": {"by": {"type": "number"}}}}, "required": ["Scale"], "additionalProperties": false},
        ]});
        assert_eq!(settled(&external, json!({"Move": {"by": 2.0}})), r#"{"Move":{"by":2}}"#);
        assert_eq!(settled(&external, json!({"Scale": {"by": 2.0}})), r#"{"Scale":{"by":2.0}}"#);
    }

    #[test]
    fn recursive_union_is_converted_at_any_depth_in_bounded_time() {
        let form = |name: &str| json!({"properties": {"child": {"$ref": "#/$defs/n"}, name: {"type": "integer"}}});
        let schema =
            json!({"$ref": "#/$defs/n", "$defs": {"n": {"anyOf": [form("a"), form("b")]}}});
        let value = (0..60).fold(json!({"a": 2.0}), |inner, _| json!({"child": inner}));
        assert!(settled(&schema, value).contains(r#"{"a":2}"#));
    }

    #[test]
    fn inexact_whole_float_is_reported_with_its_location() {
        let schema =
            json!({"properties": {"ids": {"items": {"type": "integer"}}, "n": {"type": "number"}}});
        let mut value = json!({"ids": [1.0, 1e16], "n": 1e300});
        let problems = convert(SchemaLookup::new(&schema, false), &mut value);
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].pointer, "/ids/1");
        assert!(
            problems[0].message.starts_with("expected an integer; got 1e+16 (number)"),
            "{problems:?}"
        );
        let mut lost = json!({"ids": [9007199254740991.0, 9007199254740993.0]});
        let problems = convert(SchemaLookup::new(&schema, false), &mut lost);
        assert_eq!(problems.len(), 1, "2^53 + 1 is read as 2^53");
    }
}
