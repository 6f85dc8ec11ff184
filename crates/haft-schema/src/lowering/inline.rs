//! Inlines references and merges `allOf` for a dialect that would support both. Also writes boolean
//! schemas as objects.

use serde_json::{Map, Value, json};

use super::{
    lower::{LowerResult, Lowering, Precision},
    query::{OBJECT, kinds, reference},
    text,
};

impl Lowering<'_> {
    /// Lowers one schema without its references and its `allOf`. What cannot be merged goes into
    /// the description.
    pub(super) fn inlined(
        &mut self,
        map: &Map<String, Value>,
        pointer: &str,
        precision: Precision,
    ) -> LowerResult {
        let depth = self.open.len();
        let (mut own, rest) = self.flatten(map, pointer, &mut 0)?;
        let mut notes = Vec::new();
        for (at, part) in rest {
            self.retry_without_unevaluated(&at, "allOf")?;
            if part.as_object().and_then(reference).is_some() {
                self.lose(
                    &at,
                    "$ref",
                    "the reference is recursive and was truncated here",
                    precision,
                )?;
                if kinds(self.document, &part) == OBJECT {
                    own.entry("type").or_insert_with(|| json!("object"));
                }
                continue;
            }
            self.lose(&at, "allOf", "it cannot be merged with the other keywords", precision)?;
            notes.push(text::describe("allOf", &part));
        }
        text::append(&mut own, &notes);
        let lowered = self.plain_keywords(&own, pointer, precision);
        self.open.truncate(depth);
        lowered
    }
}

/// Keywords whose value is usually a boolean and is read as one everywhere.
pub(super) const BOOLEANS: [&str; 3] =
    ["additionalProperties", "unevaluatedProperties", "unevaluatedItems"];

/// Writes a boolean schema as the equivalent object. Clients read the schema of a property and the
/// branch of a union into a struct, and refuse the whole request over anything else.
pub(super) fn as_object(schema: Value) -> Value {
    match schema {
        Value::Bool(false) => json!({"not": {}}),
        other => anything_as_object(other),
    }
}

/// Writes `true` as the equivalent object.
pub(super) fn anything_as_object(schema: Value) -> Value {
    match schema {
        Value::Bool(true) => json!({}),
        other => other,
    }
}
