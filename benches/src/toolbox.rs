//! A thousand tools that resemble real ones, with valid and invalid arguments.
//!
//! Four shapes in turn: flat, nested with definitions, a union, and many optional properties. Names
//! and sizes vary, so that no two tools are equal. When the corpora are present, real tools are
//! added.

use std::{fs, path::PathBuf};

use serde_json::{Map, Value, json};

/// One tool.
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) input: Value,
    /// Valid arguments.
    pub(crate) good: Value,
    /// Arguments with one or two errors.
    pub(crate) bad: Value,
}

impl Tool {
    /// Returns the tool as an author would write it.
    pub(crate) fn written(&self) -> Value {
        json!({
            "name": self.name,
            "description": self.description,
            "input_schema": self.input,
        })
    }
}

const VERBS: [&str; 7] = ["list", "create", "update", "find", "cancel", "send", "move"];
const NOUNS: [&str; 9] =
    ["order", "invoice", "ticket", "message", "file", "branch", "meeting", "user", "report"];

/// Generates this many tools.
pub(crate) fn tools(count: usize) -> Vec<Tool> {
    (0..count).map(tool).collect()
}

fn tool(n: usize) -> Tool {
    let (verb, noun) = (VERBS[n % VERBS.len()], NOUNS[n % NOUNS.len()]);
    let (input, good, bad) = match n % 4 {
        0 => flat(n, noun),
        1 => nested(n, noun),
        2 => union(noun),
        _ => optional(n, noun),
    };
    Tool {
        name: format!("{verb}_{noun}_{n}"),
        description: format!(
            "Use this to {verb} one {noun} or several. Returns what changed, with the id of each {noun}."
        ),
        input,
        good,
        bad,
    }
}

fn flat(n: usize, noun: &str) -> (Value, Value, Value) {
    let input = json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": format!("The id of the {noun}, such as `{noun}_{n}`."), "minLength": 1},
            "count": {"type": "integer", "minimum": 1, "maximum": 100 + n, "description": "How many."},
            "state": {"type": "string", "enum": ["open", "closed", "waiting"]},
            "note": {"type": "string", "maxLength": 2000},
        },
        "required": ["id", "count", "state"],
        "additionalProperties": false,
    });
    let good = json!({"id": format!("{noun}_{n}"), "count": 3, "state": "open", "note": "soon"});
    (input, good, json!({"id": "x", "count": "many", "state": "opened"}))
}

fn nested(n: usize, noun: &str) -> (Value, Value, Value) {
    let input = json!({
        "type": "object",
        "properties": {
            "owner": {"$ref": "#/$defs/person", "description": "Who answers for it."},
            "items": {"type": "array", "items": {"$ref": "#/$defs/item"}, "minItems": 1},
            "where": {"allOf": [{"$ref": "#/$defs/place"}, {"required": ["city"]}]},
        },
        "required": ["owner", "items"],
        "$defs": {
            "person": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "mail": {"type": "string", "format": "email"},
                    "home": {"$ref": "#/$defs/place"},
                },
                "required": ["name"],
            },
            "place": {
                "type": "object",
                "properties": {
                    "street": {"type": "string"},
                    "city": {"type": "string"},
                    "code": {"type": "string", "pattern": "^[0-9]{4,5}$"},
                },
            },
            "item": {
                "type": "object",
                "description": format!("One part of the {noun}."),
                "properties": {
                    "sku": {"type": "string"},
                    "price": {"type": "number", "exclusiveMinimum": 0, "maximum": 1000 * (n + 1)},
                    "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": true},
                },
                "required": ["sku", "price"],
            },
        },
    });
    let good = json!({
        "owner": {"name": "Ada", "mail": "ada@example.com", "home": {"city": "Bern", "code": "3011"}},
        "items": [{"sku": "a1", "price": 2.5, "tags": ["new"]}, {"sku": "b2", "price": 10}],
        "where": {"city": "Basel"},
    });
    let bad = json!({"owner": {"mail": "ada"}, "items": [{"sku": 1, "price": 2}], "where": {}});
    (input, good, bad)
}

fn union(noun: &str) -> (Value, Value, Value) {
    let branch = |kind: &str, field: &str, of: Value| {
        json!({
            "type": "object",
            "properties": {"kind": {"const": kind}, field: of},
            "required": ["kind", field],
            "additionalProperties": false,
        })
    };
    let input = json!({
        "type": "object",
        "properties": {
            "target": {
                "description": format!("Which {noun} to use."),
                "oneOf": [
                    branch("by_id", "id", json!({"type": "string"})),
                    branch("by_text", "text", json!({"type": "string", "minLength": 2})),
                    branch("newest", "count", json!({"type": "integer", "minimum": 1})),
                ],
            },
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": null},
        },
        "required": ["target"],
    });
    let good = json!({"target": {"kind": "by_text", "text": noun}, "limit": 5});
    (input, good, json!({"target": {"kind": "newest", "count": 0}, "limit": "all"}))
}

fn optional(n: usize, noun: &str) -> (Value, Value, Value) {
    let mut properties = Map::new();
    for at in 0..4 + n % 9 {
        let field = match at % 4 {
            0 => {
                json!({"type": ["string", "null"], "description": format!("A word about the {noun}.")})
            }
            1 => json!({"type": "integer", "minimum": 0, "default": at}),
            2 => json!({"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}),
            _ => json!({"type": "boolean", "default": false, "title": "Whether so"}),
        };
        properties.insert(format!("field_{at}"), field);
    }
    let input = json!({
        "type": "object",
        "title": noun,
        "properties": properties,
        "additionalProperties": {"type": "string"},
    });
    let good = json!({"field_0": null, "field_1": 4, "field_2": ["a", "c"], "extra": "yes"});
    (input, good, json!({"field_1": -1, "field_2": ["d"], "extra": 1}))
}

/// Reads the real tools of the corpora, if present: in the directory named by `HAFT_CORPORA`, or in
/// the one next to this repository.
#[expect(clippy::disallowed_methods, reason = "a bench reads its data where the tests find it")]
pub(crate) fn real() -> Vec<Tool> {
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpora");
    let directory = std::env::var_os("HAFT_CORPORA").map_or_else(default, PathBuf::from);
    let Ok(text) = fs::read_to_string(directory.join("tool-schemas/tools.jsonl")) else {
        return Vec::new();
    };
    let tool = |line: &str| -> Option<Tool> {
        let tool: Value = serde_json::from_str(line).ok()?;
        // Some records have invalid schemas, on purpose.
        (tool["metaschema_ok"] == true).then(|| Tool {
            name: tool["name"].as_str().unwrap_or_default().to_owned(),
            description: tool["description"].as_str().unwrap_or_default().to_owned(),
            input: tool["input_schema"].clone(),
            good: Value::Null,
            bad: Value::Null,
        })
    };
    text.lines().filter_map(tool).collect()
}
