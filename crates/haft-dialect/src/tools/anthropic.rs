//! Anthropic Messages: `name`, `description`, `input_schema`, and the request fields around them.

use haft_schema::lowering::{
    KeywordSupport, Limits, LoweringRules, References, Subset, Typing, Values,
};
use serde_json::{Map, Value, json};

use super::{ToolParts, describe, has_no_lookaround, is_anthropic_key};
use crate::options::{ExportOptions, ToolChoice, ToolSearch};

pub(super) const PLAIN: LoweringRules = LoweringRules {
    banned_at_root: &["anyOf", "oneOf", "allOf"],
    key: is_anthropic_key,
    ..LoweringRules::PLAIN
};

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
            "default",
            "examples",
            "format",
            "pattern",
            "minItems",
        ],
        formats: Some(&[
            "date-time",
            "time",
            "date",
            "duration",
            "email",
            "hostname",
            "uri",
            "ipv4",
            "ipv6",
            "uuid",
        ]),
        number_formats: &[],
        min_items: Some(1),
        pattern: plain_pattern,
        closed: true,
        all_required: false,
        typing: Typing::Needed,
        values: Values::Scalars,
        lone_unions: true,
    }),
    references: References::KeepAcyclic,
    banned_at_root: &["anyOf", "oneOf", "allOf"],
    key: is_anthropic_key,
    limits: Limits { parts: 20_000, ..Limits::NONE },
    ..LoweringRules::PLAIN
};

/// No look-around, no back-reference, no word boundary, no large repetition.
fn plain_pattern(pattern: &str) -> bool {
    let escapes = pattern.as_bytes().windows(2).all(|pair| {
        pair[0] != b'\\'
            || !(pair[1].is_ascii_digit() && pair[1] != b'0' || b"bB".contains(&pair[1]))
    });
    let counts = pattern.split('{').skip(1).all(|rest| {
        let inside = rest.split('}').next().unwrap_or_default();
        inside.split(',').all(|n| n.trim().parse::<u32>().map_or(n.is_empty(), |n| n <= 100))
    });
    has_no_lookaround(pattern) && escapes && counts
}

pub(super) fn tool(parts: ToolParts<'_>, options: &ExportOptions) -> Value {
    let mut tool = Map::new();
    tool.insert("name".into(), json!(parts.name));
    describe(&mut tool, &parts.description);
    tool.insert("input_schema".into(), Value::Object(parts.schema));
    if parts.strict {
        tool.insert("strict".into(), json!(true));
    }
    if options.examples && !parts.definition.examples.is_empty() {
        tool.insert("input_examples".into(), json!(parts.definition.examples));
    }
    if options.search.is_some() && parts.definition.deferred {
        tool.insert("defer_loading".into(), json!(true));
    }
    if options.eager {
        tool.insert("eager_input_streaming".into(), json!(true));
    }
    Value::Object(tool)
}

pub(super) fn request(
    mut tools: Vec<Value>,
    options: &ExportOptions,
    named: &dyn Fn(&str) -> String,
) -> Map<String, Value> {
    if let Some(keep) = options.cache
        && let Some(Value::Object(last)) =
            tools.iter_mut().rev().find(|tool| tool.get("defer_loading").is_none())
    {
        last.insert("cache_control".into(), keep.anthropic_mark());
    }
    let search = match options.search {
        Some(ToolSearch::Regex) => {
            Some(("tool_search_tool_regex_20251119", "tool_search_tool_regex"))
        }
        Some(ToolSearch::Ranked) => {
            Some(("tool_search_tool_bm25_20251119", "tool_search_tool_bm25"))
        }
        // A tool of the host does the search, and returns tool references.
        Some(ToolSearch::Own) | None => None,
    };
    if let Some((kind, name)) = search
        && tools.iter().any(|tool| tool.get("defer_loading").is_some())
    {
        tools.insert(0, json!({"type": kind, "name": name}));
    }
    let mut request = Map::new();
    request.insert("tools".into(), Value::Array(tools));
    let mut choice = match &options.choice {
        None => Map::new(),
        Some(ToolChoice::Auto) => choice_of_type("auto"),
        Some(ToolChoice::Any) => choice_of_type("any"),
        Some(ToolChoice::None) => choice_of_type("none"),
        Some(ToolChoice::Tool(name)) => {
            let mut choice = choice_of_type("tool");
            choice.insert("name".into(), json!(named(name)));
            choice
        }
    };
    if let Some(parallel) = options.parallel
        && options.choice != Some(ToolChoice::None)
    {
        choice.entry("type").or_insert_with(|| json!("auto"));
        choice.insert("disable_parallel_tool_use".into(), json!(!parallel));
    }
    if !choice.is_empty() {
        request.insert("tool_choice".into(), Value::Object(choice));
    }
    request
}

fn choice_of_type(kind: &str) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("type".into(), json!(kind));
    map
}
