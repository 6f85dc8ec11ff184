//! Mistral: functions as in OpenAI Chat. No subset of JSON Schema is documented, so references are
//! inlined and `allOf` is merged where that loses nothing.

use haft_schema::lowering::{Limits, LoweringRules, References};
use serde_json::{Map, Value, json};

use super::{ToolParts, openai};
use crate::options::{ExportOptions, ToolChoice};

pub(super) const PLAIN: LoweringRules = LoweringRules {
    references: References::InlineAcyclic,
    banned_at_root: &["anyOf", "oneOf", "allOf"],
    items: true,
    properties: true,
    limits: Limits { parts: 4_000, ..Limits::NONE },
    ..LoweringRules::PLAIN
};

pub(super) fn tool(parts: ToolParts<'_>) -> Value {
    openai::typed(openai::function(parts))
}

pub(super) fn request(
    tools: Vec<Value>,
    options: &ExportOptions,
    named: &dyn Fn(&str) -> String,
) -> Map<String, Value> {
    let mut request = Map::new();
    request.insert("tools".into(), Value::Array(tools));
    let choice = match &options.choice {
        None => None,
        Some(ToolChoice::Auto) => Some(json!("auto")),
        Some(ToolChoice::Any) => Some(json!("any")),
        Some(ToolChoice::None) => Some(json!("none")),
        Some(ToolChoice::Tool(name)) => {
            Some(json!({"type": "function", "function": {"name": named(name)}}))
        }
    };
    request.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
    request.extend(
        options.parallel.map(|parallel| ("parallel_tool_calls".to_owned(), json!(parallel))),
    );
    request
}
