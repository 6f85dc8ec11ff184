//! The Model Context Protocol: the schema as it is, with what the tool says of itself.

use serde_json::{Map, Value, json};

use super::{Dressed, describe};
use crate::export::schema::Rules;

pub(super) const PLAIN: Rules = Rules { strangers: true, ..Rules::PLAIN };

pub(super) fn tool(dressed: Dressed<'_>) -> Value {
    let mut tool = Map::new();
    tool.insert("name".into(), json!(dressed.name));
    if let Some(title) = dressed.definition.title {
        tool.insert("title".into(), json!(title));
    }
    describe(&mut tool, &dressed.description);
    tool.insert("inputSchema".into(), Value::Object(dressed.schema));
    if let Some(output) = dressed.definition.output.filter(|o| o["type"] == "object") {
        tool.insert("outputSchema".into(), output.clone());
    }
    if let Some(hints) = dressed.definition.hints {
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
