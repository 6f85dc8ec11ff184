//! Amazon Bedrock Converse: `toolSpec`, inside a `toolConfig`.

use haft_schema::lowering::LoweringRules;
use serde_json::{Map, Value, json};

use super::{ToolParts, anthropic, describe, single_member};
use crate::options::{ExportOptions, ToolChoice};

/// The rules for Claude apply to Claude here too, and the other model families support no more.
pub(super) const PLAIN: LoweringRules = LoweringRules { ..anthropic::PLAIN };

pub(super) fn tool(parts: ToolParts<'_>) -> Value {
    let mut spec = Map::new();
    spec.insert("name".into(), json!(parts.name));
    describe(&mut spec, &parts.description);
    spec.insert("inputSchema".into(), single_member("json", Value::Object(parts.schema)));
    if parts.strict {
        spec.insert("strict".into(), json!(true));
    }
    single_member("toolSpec", Value::Object(spec))
}

pub(super) fn request(
    mut tools: Vec<Value>,
    options: &ExportOptions,
    named: &dyn Fn(&str) -> String,
) -> Map<String, Value> {
    if let Some(keep) = options.cache
        && !tools.is_empty()
    {
        tools.push(keep.bedrock_mark());
    }
    let mut config = Map::new();
    config.insert("tools".into(), Value::Array(tools));
    let choice = match &options.choice {
        // Bedrock has no "none". A host that wants no calls sends no tools.
        None | Some(ToolChoice::None) => None,
        Some(ToolChoice::Auto) => Some(json!({"auto": {}})),
        Some(ToolChoice::Any) => Some(json!({"any": {}})),
        Some(ToolChoice::Tool(name)) => Some(json!({"tool": {"name": named(name)}})),
    };
    config.extend(choice.map(|choice| ("toolChoice".to_owned(), choice)));
    let mut request = Map::new();
    request.insert("toolConfig".into(), Value::Object(config));
    request
}
