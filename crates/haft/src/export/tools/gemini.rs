//! Gemini: function declarations, with `parameters` or with `parametersJsonSchema`.

use serde_json::{Map, Value, json};

use super::{Dressed, describe, holding, looks_straight};
use crate::export::{
    options::{ExportOptions, ToolChoice},
    schema::{Limits, References, Rules, Subset, Typing, Values, Words},
};

const NUMBERS: &[&str] = &["float", "double", "int32", "int64"];

/// A subset of OpenAPI: one type for each schema, no references, no closed objects.
pub(super) const PARAMETERS: Rules = Rules {
    words: Words::Some(Subset {
        taken: &[
            "type",
            "format",
            "description",
            "nullable",
            "default",
            "items",
            "minItems",
            "maxItems",
            "enum",
            "properties",
            "required",
            "minProperties",
            "maxProperties",
            "minimum",
            "maximum",
            "minLength",
            "maxLength",
            "pattern",
            "anyOf",
        ],
        formats: Some(&["date-time"]),
        number_formats: NUMBERS,
        min_items: None,
        pattern: looks_straight,
        closed: false,
        all_required: false,
        typing: Typing::Single,
        values: Values::Texts,
        lone_unions: true,
    }),
    references: References::Replace,
    key: word,
    limits: Limits { parts: 4_000, ..Limits::NONE },
    ..Rules::PLAIN
};

/// The part of JSON Schema that is documented for `parametersJsonSchema`.
pub(super) const JSON_SCHEMA: Rules = Rules {
    words: Words::Some(Subset {
        taken: &[
            "type",
            "format",
            "title",
            "description",
            "default",
            "examples",
            "enum",
            "items",
            "prefixItems",
            "minItems",
            "maxItems",
            "minimum",
            "maximum",
            "anyOf",
            "properties",
            "additionalProperties",
            "required",
        ],
        formats: None,
        number_formats: NUMBERS,
        min_items: None,
        pattern: |_| false,
        closed: false,
        all_required: false,
        typing: Typing::Free,
        values: Values::TextsAndNumbers,
        lone_unions: false,
    }),
    references: References::OptionalCircle,
    key: word,
    ..Rules::PLAIN
};

/// What Vertex takes as the name of a parameter.
fn word(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

pub(super) fn parameters(dressed: Dressed<'_>) -> Value {
    declaration(dressed, "parameters")
}

pub(super) fn json_schema(dressed: Dressed<'_>) -> Value {
    declaration(dressed, "parametersJsonSchema")
}

fn declaration(dressed: Dressed<'_>, field: &str) -> Value {
    let mut tool = Map::new();
    tool.insert("name".into(), json!(dressed.name));
    describe(&mut tool, &dressed.description);
    // An object without properties was seen to be refused; without the field there are none.
    let has_none = dressed
        .schema
        .iter()
        .all(|(key, value)| key == "type" || (key == "properties" && *value == json!({})));
    if !has_none {
        tool.insert(field.into(), Value::Object(dressed.schema));
    }
    Value::Object(tool)
}

pub(super) fn request(
    tools: Vec<Value>,
    options: &ExportOptions,
    named: &dyn Fn(&str) -> String,
) -> Map<String, Value> {
    let mut request = Map::new();
    let declared = holding("functionDeclarations", Value::Array(tools));
    request.insert("tools".into(), Value::Array(vec![declared]));
    let calling = match &options.choice {
        None => None,
        Some(ToolChoice::Auto) => Some(json!({"mode": "AUTO"})),
        Some(ToolChoice::Any) => Some(json!({"mode": "ANY"})),
        Some(ToolChoice::None) => Some(json!({"mode": "NONE"})),
        Some(ToolChoice::Tool(name)) => {
            Some(json!({"mode": "ANY", "allowedFunctionNames": [named(name)]}))
        }
    };
    // Without a choice of the host's, the model is at least held to the schemas.
    let calling = calling.unwrap_or_else(|| json!({"mode": "VALIDATED"}));
    request.insert("toolConfig".into(), json!({"functionCallingConfig": calling}));
    request
}
