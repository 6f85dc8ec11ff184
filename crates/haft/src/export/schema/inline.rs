//! Says a schema without references and `allOf`, in a dialect that would understand both; and writes
//! boolean schemas as objects.

use serde_json::{Map, Value, json};

use super::{
    lower::{Aim, Lowering, Said},
    query::{OBJECT, kinds, reference},
    text,
};

impl Lowering<'_> {
    /// Says one schema without the references and the `allOf` that stand in it. What cannot be put
    /// together is told in the description.
    pub(super) fn inlined(&mut self, map: &Map<String, Value>, place: &str, aim: Aim) -> Said {
        let depth = self.open.len();
        let (mut own, rest) = self.flatten(map, place, &mut 0)?;
        let mut told = Vec::new();
        for (at, part) in rest {
            self.stop_looking_around(&at, "allOf")?;
            if part.as_object().and_then(reference).is_some() {
                self.lose(&at, "$ref", "it leads back to itself and was cut here", aim)?;
                if kinds(self.document, &part) == OBJECT {
                    own.entry("type").or_insert_with(|| json!("object"));
                }
                continue;
            }
            self.lose(&at, "allOf", "it cannot be put together with the rest", aim)?;
            told.push(text::tell("allOf", &part));
        }
        text::append(&mut own, &told);
        let said = self.plain_words(&own, place, aim);
        self.open.truncate(depth);
        said
    }
}

/// Words whose value is mostly written as a boolean, and read so everywhere.
pub(super) const BOOLEANS: [&str; 3] =
    ["additionalProperties", "unevaluatedProperties", "unevaluatedItems"];

/// Writes a boolean schema as the object that means the same. Clients read the schema of a property and
/// the branch of a union into a struct, and refuse the whole request over anything else.
pub(super) fn as_object(schema: Value) -> Value {
    match schema {
        Value::Bool(false) => json!({"not": {}}),
        other => anything_as_object(other),
    }
}

/// Writes `true` as the object that means the same.
pub(super) fn anything_as_object(schema: Value) -> Value {
    match schema {
        Value::Bool(true) => json!({}),
        other => other,
    }
}
