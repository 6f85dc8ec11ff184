//! Amazon Bedrock Converse: `toolSpec`, inside a `toolConfig`.

use serde_json::{Map, Value, json};

use super::{Dressed, anthropic, describe, holding};
use crate::export::{
    options::{ExportOptions, PromptCacheTtl, ToolChoice},
    schema::Rules,
};

/// Claude's rules hold for Claude here, and the other families take no more than it does.
pub(super) const PLAIN: Rules = Rules { ..anthropic::PLAIN };

pub(super) fn tool(dressed: Dressed<'_>) -> Value {
    let mut spec = Map::new();
    spec.insert("name".into(), json!(dressed.name));
    describe(&mut spec, &dressed.description);
    spec.insert("inputSchema".into(), holding("json", Value::Object(dressed.schema)));
    if dressed.strict {
        spec.insert("strict".into(), json!(true));
    }
    holding("toolSpec", Value::Object(spec))
}

pub(super) fn request(
    mut tools: Vec<Value>,
    options: &ExportOptions,
    named: &dyn Fn(&str) -> String,
) -> Map<String, Value> {
    if let Some(keep) = options.cache
        && !tools.is_empty()
    {
        tools.push(match keep {
            PromptCacheTtl::FiveMinutes => json!({"cachePoint": {"type": "default"}}),
            PromptCacheTtl::OneHour => json!({"cachePoint": {"type": "default", "ttl": "1h"}}),
        });
    }
    let mut config = Map::new();
    config.insert("tools".into(), Value::Array(tools));
    let choice = match &options.choice {
        // There is no word for "none": whoever wants none sends no tools.
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
