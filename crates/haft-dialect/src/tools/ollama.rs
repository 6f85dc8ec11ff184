//! Ollama: functions as in OpenAI Chat. Its clients and templates read few keywords of a property,
//! so schemas are flattened as far as that loses nothing.

use haft_schema::lowering::LoweringRules;
use serde_json::{Map, Value};

use super::{ToolParts, mistral, openai};

pub(super) const PLAIN: LoweringRules = LoweringRules { ..mistral::PLAIN };

pub(super) fn tool(parts: ToolParts<'_>) -> Value {
    openai::typed(openai::function(parts))
}

pub(super) fn request(tools: Vec<Value>) -> Map<String, Value> {
    let mut request = Map::new();
    request.insert("tools".into(), Value::Array(tools));
    request
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{Dialect, ExportOptions, ToolDefinition};

    #[test]
    fn schema_of_a_property_is_always_an_object() {
        let input = json!({"type": "object", "properties": {
            "any": true,
            "properties": false,
            "deep": {"type": "object", "properties": {"any": true}},
        }});
        let shown = Dialect::Ollama
            .export_tool(&ToolDefinition::new("t", "", &input), &ExportOptions::default());
        assert!(shown.is_exact(), "{:?}", shown.report);
        let properties = &shown.tool.unwrap()["function"]["parameters"]["properties"];
        assert_eq!(properties["any"], json!({}));
        assert_eq!(properties["properties"], json!({"not": {}}));
        assert_eq!(properties["deep"]["properties"]["any"], json!({}));
    }
}
