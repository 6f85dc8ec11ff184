//! Generates a minimal valid value for a schema: only the required parts.
//!
//! The author's own values come first (`const`, `enum`, `default`, `examples`), then the simplest
//! value of the type within its limits. This does not work for every schema, so the result is
//! validated: an invalid example is discarded.

use serde_json::{Map, Value, json};

use super::{compiled::Schema, lookup::SchemaLookup};

/// Recursive schemas are followed to this depth.
const MAX_DEPTH: usize = 12;
/// Maximum number of nodes visited for one example.
const MAX_STEPS: usize = 1_000;
/// Maximum number of items, or of unions at one location.
const MAX_ITEMS: usize = 16;
/// Maximum length of generated text, in bytes.
const MAX_TEXT_BYTES: usize = 200;

impl Schema {
    /// Returns a minimal valid value, if one could be generated: only the required parts.
    #[must_use]
    pub fn example(&self) -> Option<Value> {
        example(self)
    }
}

/// Generates a valid value, if possible.
pub(super) fn example(schema: &Schema) -> Option<Value> {
    // The suggested value of one property may conflict with another property.
    [true, false].into_iter().find_map(|suggested| {
        let mut maker = Maker { lookup: schema.lookup(), suggested, left: MAX_STEPS };
        let value = maker.make(&[schema.source()], 0, MAX_DEPTH)?;
        schema.is_valid(&value).then_some(value)
    })
}

struct Maker<'a> {
    lookup: SchemaLookup<'a>,
    /// Whether defaults and examples are used.
    suggested: bool,
    left: usize,
}

/// The combined keywords of all parts of a node. The first value of a keyword counts, except for
/// keywords that accumulate.
#[derive(Default)]
struct Constraints<'a> {
    keywords: Vec<(&'a str, &'a Value)>,
    properties: Vec<(&'a str, Vec<&'a Value>)>,
    required: Vec<&'a str>,
    unions: Vec<&'a [Value]>,
}

impl<'a> Constraints<'a> {
    fn get(&self, keyword: &str) -> Option<&'a Value> {
        self.keywords
            .iter()
            .find(|(known, _)| *known == keyword)
            .map(|(_, constraints)| *constraints)
    }

    fn has(&self, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.get(keyword).is_some())
    }

    fn count(&self, keyword: &str) -> Option<usize> {
        usize::try_from(self.get(keyword)?.as_u64()?).ok()
    }

    fn add(&mut self, lookup: SchemaLookup<'a>, node: &'a Value) {
        for map in lookup.parts(node).into_iter().filter_map(Value::as_object) {
            for (keyword, constraints) in map {
                match (keyword.as_str(), constraints) {
                    ("properties", Value::Object(properties)) => {
                        for (name, property) in properties {
                            match self.properties.iter_mut().find(|(known, _)| known == name) {
                                Some((_, nodes)) => nodes.push(property),
                                None => self.properties.push((name, vec![property])),
                            }
                        }
                    }
                    ("required", Value::Array(names)) => {
                        for name in names.iter().filter_map(Value::as_str) {
                            if !self.required.contains(&name) {
                                self.required.push(name);
                            }
                        }
                    }
                    ("anyOf" | "oneOf", Value::Array(branches)) => self.unions.push(branches),
                    ("$ref" | "allOf", _) => {}
                    _ if self.get(keyword).is_none() => self.keywords.push((keyword, constraints)),
                    _ => {}
                }
            }
        }
    }
}

impl<'a> Maker<'a> {
    /// Generates a value for all nodes together; `nth` selects different values for unique items.
    fn make(&mut self, nodes: &[&'a Value], nth: usize, depth: usize) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        self.left = self.left.checked_sub(1)?;
        let mut constraints = Constraints::default();
        for node in nodes {
            if **node == Value::Bool(false) {
                return None;
            }
            constraints.add(self.lookup, node);
        }
        if let Some(given) = self.given(&constraints, nth) {
            return Some(given);
        }
        // Of each union the first branch that works; null only as the last choice.
        let mut settled = 0;
        while let Some(branches) = constraints.unions.get(settled).copied() {
            settled += 1;
            if settled > MAX_ITEMS {
                return None;
            }
            let is_null = |b: &&'a Value| b.get("type").is_some_and(|t| t == "null");
            let others = branches.iter().filter(|b| !is_null(b));
            let mut in_order = others.chain(branches.iter().filter(is_null));
            let branch = in_order.find(|b| self.make(&[b], nth, depth).is_some())?;
            constraints.add(self.lookup, branch);
            if let Some(given) = self.given(&constraints, nth) {
                return Some(given);
            }
        }
        self.plain(&constraints, nth, depth)
    }

    /// A value that the author of the schema wrote.
    fn given(&self, constraints: &Constraints<'a>, nth: usize) -> Option<Value> {
        if let Some(only) = constraints.get("const") {
            return Some(only.clone());
        }
        let of = |keyword: &str| {
            let list = constraints.get(keyword)?.as_array()?;
            list.get(nth.checked_rem(list.len())?).cloned()
        };
        if self.suggested && nth == 0 {
            let default = constraints.get("default").filter(|d| !d.is_null()).cloned();
            let example = || constraints.get("example").cloned();
            if let Some(value) = default.or_else(|| of("examples")).or_else(example) {
                return Some(value);
            }
        }
        of("enum")
    }

    /// The simplest value of the type.
    fn plain(&mut self, constraints: &Constraints<'a>, nth: usize, depth: usize) -> Option<Value> {
        let kind = match constraints.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(Value::Array(kinds)) => {
                let mut kinds = kinds.iter().filter_map(Value::as_str);
                kinds.find(|k| *k != "null").unwrap_or("null")
            }
            _ if !constraints.properties.is_empty() || !constraints.required.is_empty() => "object",
            _ if constraints.has(&[
                "additionalProperties",
                "patternProperties",
                "minProperties",
            ]) =>
            {
                "object"
            }
            _ if constraints.has(&["items", "prefixItems", "minItems", "contains"]) => "array",
            _ if constraints.has(&["minimum", "maximum", "exclusiveMinimum", "multipleOf"]) => {
                "number"
            }
            _ => "string",
        };
        match kind {
            "object" => self.object(constraints, depth),
            "array" => self.array(constraints, depth),
            "integer" | "number" => number(constraints, nth),
            "boolean" => Some(Value::Bool(nth.is_multiple_of(2))),
            "null" => Some(Value::Null),
            _ => text(constraints, nth).map(Value::String),
        }
    }

    fn object(&mut self, constraints: &Constraints<'a>, depth: usize) -> Option<Value> {
        let mut wanted = constraints.required.clone();
        let least = constraints.count("minProperties").unwrap_or(0);
        for (name, _) in &constraints.properties {
            if wanted.len() < least && !wanted.contains(name) {
                wanted.push(name);
            }
        }
        let mut map = Map::new();
        for name in wanted {
            let own = constraints.properties.iter().find(|(known, _)| *known == name);
            let others = || constraints.get("additionalProperties").into_iter().collect();
            let nodes = own.map_or_else(others, |(_, nodes)| nodes.clone());
            map.insert(name.to_owned(), self.make(&nodes, 0, depth)?);
        }
        // A map that must not be empty gets generated names.
        if let Some(node) = constraints.get("additionalProperties").filter(|node| node.is_object())
        {
            for n in map.len()..least.min(MAX_ITEMS) {
                map.insert(format!("key{n}"), self.make(&[node], 0, depth)?);
            }
        }
        Some(Value::Object(map))
    }

    fn array(&mut self, constraints: &Constraints<'a>, depth: usize) -> Option<Value> {
        let contained = constraints
            .get("contains")
            .map_or(0, |_| constraints.count("minContains").unwrap_or(1));
        let least = constraints.count("minItems").unwrap_or(0).max(contained);
        if least > MAX_ITEMS {
            return None;
        }
        let mut list = Vec::new();
        for nth in 0..least {
            let listed = ["prefixItems", "items"]
                .into_iter()
                .find_map(|keyword| constraints.get(keyword)?.as_array()?.get(nth));
            let node = listed
                .or_else(|| constraints.get("contains"))
                .or_else(|| constraints.get("items").filter(|items| !items.is_array()));
            list.push(match node {
                Some(node) => self.make(&[node], nth, depth)?,
                None => json!(format!("value{nth}")),
            });
        }
        Some(Value::Array(list))
    }
}

/// A number within its limits; the nth one if several must differ.
fn number(constraints: &Constraints<'_>, nth: usize) -> Option<Value> {
    let limit = |keyword: &str| constraints.get(keyword).and_then(Value::as_f64);
    let step = limit("multipleOf").filter(|step| *step > 0.0).unwrap_or(1.0);
    let from = limit("minimum").map(|low| (low / step).ceil() * step);
    let above = limit("exclusiveMinimum").map(|low| ((low / step).floor() + 1.0) * step);
    let to = limit("maximum").map(|high| (high / step).floor() * step);
    let below = limit("exclusiveMaximum").map(|high| ((high / step).ceil() - 1.0) * step);
    let low = [from, above].into_iter().flatten().reduce(f64::max);
    let high = [to, below].into_iter().flatten().reduce(f64::min);
    let nth = step * nth as f64;
    let number = match (low, high) {
        // No multiple of the step is within the limits; a value between may be.
        (Some(low), Some(high)) if low > high => {
            let low = limit("exclusiveMinimum").or_else(|| limit("minimum"))?;
            let high = limit("exclusiveMaximum").or_else(|| limit("maximum"))?;
            (low + high) / 2.0
        }
        (Some(low), _) => low + nth,
        (None, Some(high)) if high < step => high - nth,
        (None, _) => step + nth,
    };
    // A whole number is written as an integer, if it is exact.
    const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < MAX_EXACT_INTEGER {
        Some(json!(number as i64))
    } else {
        serde_json::Number::from_f64(number).map(Value::Number)
    }
}

/// Text of the required format and length; the nth one if several must differ.
fn text(constraints: &Constraints<'_>, nth: usize) -> Option<String> {
    let format = constraints.get("format").and_then(Value::as_str).unwrap_or_default();
    let known = match format {
        "date" => "2026-01-31",
        "date-time" => "2026-01-31T12:00:00Z",
        "time" => "12:00:00Z",
        "duration" => "P1D",
        "email" | "idn-email" => "someone@example.com",
        "hostname" | "idn-hostname" => "example.com",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "uri" | "iri" | "url" => "https://example.com",
        "uri-reference" | "iri-reference" => "/path",
        "uri-template" => "/path/{name}",
        "uuid" => "00000000-0000-4000-8000-000000000001",
        "json-pointer" => "/name",
        "relative-json-pointer" => "0/name",
        "regex" => ".*",
        _ => "",
    };
    if !known.is_empty() {
        return Some(known.to_owned());
    }
    if let Some(pattern) = constraints.get("pattern").and_then(Value::as_str)
        && let Some(text) = matching(pattern)
    {
        return Some(text);
    }
    let mut text = "value".to_owned();
    if nth > 0 {
        text += &nth.to_string();
    }
    let least = constraints.count("minLength").unwrap_or(0);
    if least > MAX_TEXT_BYTES {
        return None;
    }
    while text.len() < least {
        text.push('e');
    }
    text.truncate(constraints.count("maxLength").unwrap_or(MAX_TEXT_BYTES));
    Some(text)
}

/// Text for a simple pattern: letters, classes, groups, and the fewest repetitions. It gives up on
/// unknown syntax; the validator catches wrong results.
fn matching(pattern: &str) -> Option<String> {
    let mut reader = Reader { rest: pattern.chars().collect(), at: 0, left: 2_000 };
    let text = reader.alternatives(4)?;
    (reader.at == reader.rest.len() && text.len() <= MAX_TEXT_BYTES).then_some(text)
}

/// Parses a pattern from left to right.
struct Reader {
    rest: Vec<char>,
    at: usize,
    left: usize,
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        self.left = self.left.checked_sub(1)?;
        Some(c)
    }

    /// Parses alternatives up to a closing bracket, and keeps the first.
    fn alternatives(&mut self, depth: usize) -> Option<String> {
        let depth = depth.checked_sub(1)?;
        let mut first = None;
        loop {
            let one = self.sequence(depth)?;
            first.get_or_insert(one);
            if self.peek() != Some('|') {
                return first;
            }
            self.next()?;
        }
    }

    fn sequence(&mut self, depth: usize) -> Option<String> {
        let mut text = String::new();
        while let Some(c) = self.peek() {
            if matches!(c, '|' | ')') {
                break;
            }
            self.next()?;
            let unit = match c {
                '^' | '$' => continue,
                '(' => {
                    if self.peek() == Some('?') {
                        self.next()?;
                        // Only non-capturing groups are supported; the others are look-around.
                        (self.next()? == ':').then_some(())?;
                    }
                    let inside = self.alternatives(depth)?;
                    (self.next()? == ')').then_some(inside)?
                }
                '[' => self.class()?.to_string(),
                '\\' => self.escaped()?.to_string(),
                '.' => "a".to_owned(),
                '*' | '+' | '?' | '{' | '}' | ']' => return None,
                c => c.to_string(),
            };
            let times = self.times()?;
            (unit.len().checked_mul(times)? <= MAX_TEXT_BYTES).then_some(())?;
            text += &unit.repeat(times);
        }
        Some(text)
    }

    /// The minimum number of repetitions of the preceding unit.
    fn times(&mut self) -> Option<usize> {
        let times = match self.peek() {
            Some('*' | '?') => {
                self.next()?;
                0
            }
            Some('+') => {
                self.next()?;
                1
            }
            Some('{') => {
                self.next()?;
                let mut inside = String::new();
                loop {
                    match self.next()? {
                        '}' => break,
                        c => inside.push(c),
                    }
                }
                inside.split(',').next()?.parse().ok()?
            }
            _ => 1,
        };
        if matches!(self.peek(), Some('?' | '+')) {
            self.next()?;
        }
        Some(times)
    }

    /// The first character of a class.
    fn class(&mut self) -> Option<char> {
        if self.peek() == Some('^') {
            return None;
        }
        let mut first = None;
        loop {
            let c = match self.next()? {
                ']' if first.is_some() => return first,
                '\\' => self.escaped()?,
                '[' => return None,
                c => c,
            };
            first.get_or_insert(c);
        }
    }

    fn escaped(&mut self) -> Option<char> {
        match self.next()? {
            'd' => Some('0'),
            'w' => Some('a'),
            's' => Some(' '),
            'n' => Some('\n'),
            't' => Some('\t'),
            c if c.is_alphanumeric() => None,
            c => Some(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(schema: Value) -> Option<Value> {
        Schema::compile(&schema).unwrap().example()
    }

    #[test]
    fn example_contains_only_required_parts() {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "limit": {"type": "integer", "minimum": 5, "maximum": 2000},
                "mode": {"enum": ["fast", "slow"]},
                "when": {"type": "string", "format": "date"},
                "deep": {"$ref": "#/$defs/deep"},
                "many": {"type": "array", "minItems": 2, "uniqueItems": true, "items": {"type": "integer"}},
                "either": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"k": {"const": 7}}, "required": ["k"]}]},
                "not_needed": {"type": "string"},
            },
            "required": ["path", "limit", "mode", "when", "deep", "many", "either"],
            "$defs": {"deep": {"allOf": [
                {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
                {"properties": {"b": {"type": "string", "minLength": 9}}, "required": ["b"]},
            ]}},
        });
        assert_eq!(
            made(schema),
            Some(json!({
                "path": "value", "limit": 5, "mode": "fast", "when": "2026-01-31",
                "deep": {"a": true, "b": "valueeeee"}, "many": [1, 2], "either": {"k": 7},
            }))
        );
    }

    #[test]
    fn example_satisfies_each_kind_of_limit() {
        for schema in [
            json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
            json!({"type": "integer", "maximum": -3}),
            json!({"type": "integer", "multipleOf": 7, "minimum": 10}),
            json!({"type": "array", "items": {"enum": ["a", "b", "c"]}, "minItems": 3, "uniqueItems": true}),
            json!({"type": "array", "contains": {"const": 5}}),
            json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "null"}], "minItems": 2, "items": false}),
            json!({"type": "string", "maxLength": 2}),
            json!({"type": "string", "pattern": "^[A-Z]{3}-\\d+(?:x|y)?$"}),
            json!({"type": "string", "format": "email", "pattern": "@"}),
            json!({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2}),
            json!({"type": "object", "properties": {"a": {"type": "string", "default": null}}, "required": ["a"]}),
            json!({"oneOf": [{"type": "string", "minLength": 900}, {"type": "integer"}]}),
            json!({"type": "object", "properties": {"k": {"default": 5}}, "required": ["k"], "anyOf": [{"properties": {"k": {"const": 6}}}]}),
            json!({"properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}, "required": ["n"]}),
            json!({}),
            json!(true),
        ] {
            assert!(made(schema.clone()).is_some(), "{schema}");
        }
    }

    #[test]
    fn impossible_example_is_none() {
        for schema in [
            json!(false),
            json!({"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}),
            json!({"type": "string", "minLength": 100_000}),
            json!({"type": "array", "minItems": 100_000}),
            json!({"not": {}}),
        ] {
            assert_eq!(made(schema.clone()), None, "{schema}");
        }
    }
}
