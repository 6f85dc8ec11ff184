//! Gemini: function declarations, with `parameters` or with `parametersJsonSchema`.

use haft_schema::lowering::{
    KeywordSupport, Limits, LoweringRules, References, Subset, Typing, Values,
};
use serde_json::{Map, Value, json};

use super::{ToolParts, describe, has_no_lookaround, single_member};
use crate::options::{ExportOptions, ToolChoice};

const NUMBERS: &[&str] = &["float", "double", "int32", "int64"];

/// A subset of OpenAPI: one type per schema, no references, no closed objects.
pub(super) const PARAMETERS: LoweringRules = LoweringRules {
    keywords: KeywordSupport::Some(Subset {
        keywords: &[
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
        pattern: has_no_lookaround,
        closed: false,
        all_required: false,
        typing: Typing::Single,
        values: Values::Strings,
        lone_unions: true,
    }),
    references: References::Inline,
    key: is_vertex_parameter,
    limits: Limits { parts: 4_000, ..Limits::NONE },
    ..LoweringRules::PLAIN
};

/// The subset of JSON Schema that is documented for `parametersJsonSchema`.
pub(super) const JSON_SCHEMA: LoweringRules = LoweringRules {
    keywords: KeywordSupport::Some(Subset {
        keywords: &[
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
        values: Values::StringsAndNumbers,
        lone_unions: false,
    }),
    references: References::KeepOptionalCycles,
    key: is_vertex_parameter,
    ..LoweringRules::PLAIN
};

/// Whether Vertex accepts a parameter name.
fn is_vertex_parameter(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

pub(super) fn parameters(parts: ToolParts<'_>) -> Value {
    declaration(parts, "parameters")
}

pub(super) fn json_schema(parts: ToolParts<'_>) -> Value {
    declaration(parts, "parametersJsonSchema")
}

fn declaration(parts: ToolParts<'_>, field: &str) -> Value {
    let mut tool = Map::new();
    tool.insert("name".into(), json!(parts.name));
    describe(&mut tool, &parts.description);
    // Gemini was seen to refuse an object without properties. Omitting the field means no
    // parameters.
    let has_none = parts
        .schema
        .iter()
        .all(|(key, value)| key == "type" || (key == "properties" && *value == json!({})));
    if !has_none {
        tool.insert(field.into(), Value::Object(parts.schema));
    }
    Value::Object(tool)
}

pub(super) fn request(
    tools: Vec<Value>,
    options: &ExportOptions,
    named: &dyn Fn(&str) -> String,
) -> Map<String, Value> {
    let mut request = Map::new();
    let declared = single_member("functionDeclarations", Value::Array(tools));
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
    // Without a choice by the host, the model is at least held to the schemas.
    let calling = calling.unwrap_or_else(|| json!({"mode": "VALIDATED"}));
    request.insert("toolConfig".into(), json!({"functionCallingConfig": calling}));
    request
}
