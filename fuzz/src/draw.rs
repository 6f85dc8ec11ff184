//! Makes schemas and values from bytes.
//!
//! Random bytes are seldom JSON, and random JSON is seldom a schema. So bytes are read as choices:
//! each one picks a keyword, a name or a number. Bytes that begin with `[` are read as JSON text
//! instead, `[schema, value, …]`; seeds are written that way.

use serde_json::{Map, Value, json};

/// Few property names, so that values often match a schema's.
const NAMES: [&str; 6] = ["a", "b", "kind", "$ref", "type", "long name/with~marks"];
const WORDS: [&str; 5] = ["a", "", "null", "12", "é…"];
const TYPES: [&str; 7] = ["object", "string", "integer", "number", "boolean", "null", "array"];
const DEFINITIONS: [&str; 3] = ["one", "two", "t/h~r%e"];

/// Reads a tool's schema and a few values for it.
#[must_use]
pub fn case(bytes: &[u8]) -> Option<(Value, Vec<Value>)> {
    if bytes.first() == Some(&b'[') {
        let list: Vec<Value> = serde_json::from_slice(bytes).ok()?;
        let mut list = list.into_iter();
        let schema = list.next()?;
        return Some((schema, list.take(8).collect()));
    }
    let mut draw = Draw(bytes);
    let schema = draw.tool();
    let values = (0..4).map(|_| draw.object(3)).collect();
    Some((schema, values))
}

/// Bytes that are read as choices. After the last byte, every choice is the first.
#[derive(Debug)]
pub struct Draw<'a>(pub &'a [u8]);

impl Draw<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    fn of<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[self.below(list.len())]
    }

    fn number(&mut self) -> Value {
        match self.byte() {
            byte @ 0..200 => json!(i64::from(byte % 10) - 3),
            byte @ 200..240 => json!(f64::from(byte - 200) / 2.0),
            byte => json!(u64::MAX >> (byte % 3)),
        }
    }

    /// Makes a schema with an object at its root and a few definitions.
    pub fn tool(&mut self) -> Value {
        let mut map = self.object_schema(4);
        map.insert("type".into(), json!("object"));
        let count = self.below(4);
        let definitions: Map<String, Value> =
            DEFINITIONS.iter().take(count).map(|name| ((*name).into(), self.schema(3))).collect();
        if !definitions.is_empty() {
            map.insert("$defs".into(), definitions.into());
        }
        map.into()
    }

    fn schemas(&mut self, depth: usize) -> Value {
        let count = 1 + self.below(3);
        (0..count).map(|_| self.schema(depth)).collect()
    }

    fn object_schema(&mut self, depth: usize) -> Map<String, Value> {
        let mut map = Map::new();
        let mut named = Map::new();
        for _ in 0..self.below(4) {
            named.insert(self.of(&NAMES).into(), self.schema(depth));
        }
        let mut required: Vec<&str> = Vec::new();
        for _ in 0..self.below(3) {
            let name = self.of(&NAMES);
            if !required.contains(&name) {
                required.push(name);
            }
        }
        map.insert("properties".into(), named.into());
        map.insert("required".into(), json!(required));
        for _ in 0..self.below(3) {
            let (key, value) = match self.below(11) {
                0 => ("additionalProperties", json!(false)),
                1 => ("additionalProperties", self.schema(depth)),
                2 => ("patternProperties", json!({"^[a-k]": self.schema(depth)})),
                3 => ("propertyNames", self.schema(depth)),
                4 => ("minProperties", json!(self.below(3))),
                5 => ("maxProperties", json!(self.below(3))),
                6 => ("unevaluatedProperties", self.schema(depth)),
                7 => ("dependentRequired", json!({"a": [self.of(&NAMES)]})),
                8 => ("dependentSchemas", json!({"kind": self.schema(depth)})),
                9 => ("anyOf", self.schemas(depth)),
                _ => ("allOf", self.schemas(depth)),
            };
            map.insert(key.into(), value);
        }
        map
    }

    fn schema(&mut self, depth: usize) -> Value {
        let Some(depth) = depth.checked_sub(1) else { return json!({"type": self.of(&TYPES)}) };
        let mut map = Map::new();
        match self.below(8) {
            0 => return json!(self.byte() % 2 == 0),
            1 => {
                map = self.object_schema(depth);
                map.insert("type".into(), json!("object"));
            }
            2 => map = self.object_schema(depth),
            3 => {
                map.insert("$ref".into(), json!(self.reference()));
            }
            4 => {
                map.insert("type".into(), json!([self.of(&TYPES[..3]), self.of(&TYPES[3..])]));
            }
            _ => {
                map.insert("type".into(), json!(self.of(&TYPES)));
            }
        }
        for _ in 0..self.below(4) {
            let (key, value) = self.keyword(depth);
            map.insert(key.into(), value);
        }
        map.into()
    }

    fn reference(&mut self) -> &'static str {
        ["#/$defs/one", "#/$defs/two", "#/$defs/t~1h~0r%25e", "#", "#/properties/a"][self.below(5)]
    }

    fn keyword(&mut self, depth: usize) -> (&'static str, Value) {
        match self.below(30) {
            0 => ("anyOf", self.schemas(depth)),
            1 => ("oneOf", self.schemas(depth)),
            2 => ("allOf", self.schemas(depth)),
            3 => ("not", self.schema(depth)),
            4 => ("if", self.schema(depth)),
            5 => ("then", self.schema(depth)),
            6 => ("else", self.schema(depth)),
            7 => ("const", self.value(2)),
            8 => {
                let mut list: Vec<Value> = Vec::new();
                for _ in 0..=self.below(3) {
                    let value = self.value(1);
                    if !list.contains(&value) {
                        list.push(value);
                    }
                }
                ("enum", list.into())
            }
            9 => ("minimum", self.number()),
            10 => ("maximum", self.number()),
            11 => ("exclusiveMinimum", self.number()),
            12 => ("exclusiveMaximum", self.number()),
            13 => ("multipleOf", json!(1 + self.below(4))),
            14 => ("minLength", json!(self.below(3))),
            15 => ("maxLength", json!(self.below(4))),
            16 => ("pattern", json!(self.of(&["^a", "(?!b)a", "[0-9]+$", "é"]))),
            17 => ("format", json!(self.of(&["date", "uri", "int32", "odd"]))),
            18 => ("items", self.schema(depth)),
            19 => ("prefixItems", self.schemas(depth)),
            20 => ("contains", self.schema(depth)),
            21 => ("minItems", json!(self.below(3))),
            22 => ("maxItems", json!(self.below(3))),
            23 => ("uniqueItems", json!(self.byte() % 2 == 0)),
            24 => ("unevaluatedItems", self.schema(depth)),
            25 => ("default", self.value(2)),
            26 => ("description", json!(self.of(&WORDS))),
            27 => ("title", json!(self.of(&WORDS))),
            28 => ("nullable", json!(true)),
            _ => ("$ref", json!(self.reference())),
        }
    }

    fn object(&mut self, depth: usize) -> Value {
        let count = self.below(4);
        Value::Object((0..count).map(|_| (self.of(&NAMES).to_owned(), self.value(depth))).collect())
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 5 } else { 7 }) {
            0 => Value::Null,
            1 => json!(self.byte() % 2 == 0),
            2 => self.number(),
            3 | 4 => json!(self.of(&WORDS)),
            5 => (0..self.below(3)).map(|_| self.value(depth - 1)).collect(),
            _ => self.object(depth - 1),
        }
    }
}
