//! The Model Context Protocol: the schema unchanged, with the tool's annotations.

use haft_schema::lowering::LoweringRules;
use serde_json::{Map, Value, json};

use super::{ToolParts, describe};

pub(super) const PLAIN: LoweringRules =
    LoweringRules { unknown_keywords: true, ..LoweringRules::PLAIN };

pub(super) fn tool(parts: ToolParts<'_>) -> Value {
    let mut tool = Map::new();
    tool.insert("name".into(), json!(parts.name));
    if let Some(title) = parts.definition.title {
        tool.insert("title".into(), json!(title));
    }
    describe(&mut tool, &parts.description);
    tool.insert("inputSchema".into(), Value::Object(parts.schema));
    if let Some(output) = parts.definition.output.filter(|o| o["type"] == "object") {
        tool.insert("outputSchema".into(), output.clone());
    }
    if let Some(hints) = parts.definition.hints {
        tool.insert(
            "annotations".into(),
            json!({
                "readOnlyHint": hints.read_only,
                "destructiveHint": hints.destructive,
                "idempotentHint": hints.idempotent,
                "openWorldHint": hints.open_world,
            }),
        );
    }
    Value::Object(tool)
}

pub(super) fn request(tools: Vec<Value>) -> Map<String, Value> {
    let mut request = Map::new();
    request.insert("tools".into(), Value::Array(tools));
    request
}
