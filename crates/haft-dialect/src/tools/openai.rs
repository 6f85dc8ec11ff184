//! OpenAI: functions, flat in Responses and nested in Chat.

use haft_schema::lowering::{
    KeywordSupport, Limits, LoweringRules, References, Subset, Typing, Values,
};
use serde_json::{Map, Value, json};

use super::{ToolParts, describe, has_no_lookaround};
use crate::options::{ExportOptions, ToolChoice, ToolSearch};

const BANNED: &[&str] = &["anyOf", "oneOf", "allOf", "enum", "not"];

pub(super) const CHAT: LoweringRules =
    LoweringRules { banned_at_root: BANNED, items: true, properties: true, ..LoweringRules::PLAIN };

/// Responses was seen to refuse `oneOf` anywhere, strict or not.
pub(super) const RESPONSES: LoweringRules = LoweringRules { one_of: false, ..CHAT };

pub(super) const STRICT: LoweringRules = LoweringRules {
    keywords: KeywordSupport::Some(Subset {
        keywords: &[
            "type",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "enum",
            "const",
            "anyOf",
            "title",
            "description",
            "format",
            "pattern",
            "multipleOf",
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "minItems",
            "maxItems",
        ],
        formats: Some(&[
            "date-time",
            "time",
            "date",
            "duration",
            "email",
            "hostname",
            "ipv4",
            "ipv6",
            "uuid",
        ]),
        number_formats: &[],
        min_items: None,
        pattern: has_no_lookaround,
        closed: true,
        all_required: true,
        typing: Typing::Needed,
        values: Values::Scalars,
        lone_unions: true,
    }),
    references: References::KeepAlone,
    banned_at_root: BANNED,
    limits: Limits {
        parts: 20_000,
        depth: 10,
        properties: 5_000,
        values: 1_000,
        characters: 120_000,
        list: 15_000,
    },
    ..LoweringRules::PLAIN
};

pub(super) fn responses(parts: ToolParts<'_>, options: &ExportOptions) -> Value {
    let mut tool = Map::new();
    tool.insert("type".into(), json!("function"));
    tool.insert("name".into(), json!(parts.name));
    describe(&mut tool, &parts.description);
    tool.insert("parameters".into(), Value::Object(parts.schema));
    // Without the field the server decides.
    tool.insert("strict".into(), json!(parts.strict));
    if options.output
        && let Some(output) = parts.definition.output
    {
        tool.insert("output_schema".into(), output.clone());
    }
    if options.search.is_some() && parts.definition.deferred {
        tool.insert("defer_loading".into(), json!(true));
    }
    Value::Object(tool)
}

pub(super) fn chat(parts: ToolParts<'_>) -> Value {
    let strict = parts.strict;
    let mut function = function(parts);
    if strict {
        function.insert("strict".into(), json!(true));
    }
    typed(function)
}

/// Wraps a function as Chat does. The `json!` macro would copy the content.
pub(super) fn typed(function: Map<String, Value>) -> Value {
    let mut tool = Map::new();
    tool.insert("type".into(), json!("function"));
    tool.insert("function".into(), Value::Object(function));
    Value::Object(tool)
}

/// The function object of Chat, also used by compatible servers.
pub(super) fn function(parts: ToolParts<'_>) -> Map<String, Value> {
    let mut function = Map::new();
    function.insert("name".into(), json!(parts.name));
    describe(&mut function, &parts.description);
    function.insert("parameters".into(), Value::Object(parts.schema));
    function
}

pub(super) fn request(
    mut tools: Vec<Value>,
    options: &ExportOptions,
    named: &dyn Fn(&str) -> String,
    flat: bool,
) -> Map<String, Value> {
    if flat && tools.iter().any(|tool| tool.get("defer_loading").is_some()) {
        let execution = if options.search == Some(ToolSearch::Own) { "client" } else { "server" };
        tools.push(json!({"type": "tool_search", "execution": execution}));
    }
    let mut request = Map::new();
    request.insert("tools".into(), Value::Array(tools));
    let choice = match &options.choice {
        None => None,
        Some(ToolChoice::Auto) => Some(json!("auto")),
        Some(ToolChoice::Any) => Some(json!("required")),
        Some(ToolChoice::None) => Some(json!("none")),
        Some(ToolChoice::Tool(name)) if flat => {
            Some(json!({"type": "function", "name": named(name)}))
        }
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
