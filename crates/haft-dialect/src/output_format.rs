//! Structured output: the fields of a request that make a provider answer in JSON of a schema.
//!
//! In: the schema of the answer. Out: the fields, in the format of the dialect; `None` where the
//! provider cannot be asked. The host validates the answer in any case. Pure.

use serde_json::{Map, Value, json};

use crate::{Dialect, ExportOptions, Loss, LossKind, StrictMode, ToolDefinition};

/// The name of the format, where a provider wants one.
const NAME: &str = "answer";

impl Dialect {
    /// Returns the fields that ask for JSON of a schema; `None` if the provider has no such fields,
    /// cannot express the schema, or does not support them together with tools.
    ///
    /// ```
    /// use haft_dialect::Dialect;
    /// use serde_json::json;
    ///
    /// let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}},
    ///                     "required": ["n"], "additionalProperties": false});
    /// let fields = Dialect::OpenAiChat.output_format(&schema, true).unwrap();
    /// assert_eq!(fields["response_format"]["json_schema"]["strict"], true);
    /// assert!(Dialect::Mcp.output_format(&schema, false).is_none());
    /// ```
    #[must_use]
    pub fn output_format(self, schema: &Value, has_tools: bool) -> Option<Map<String, Value>> {
        // A number or a list cannot be the root of the answer for most providers.
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return None;
        }
        let (key, value) = match self {
            Self::Anthropic => {
                // The provider refuses a schema that it cannot enforce.
                let schema = self.enforced_schema(schema, "/input_schema")?;
                ("output_config", json!({"format": {"type": "json_schema", "schema": schema}}))
            }
            Self::OpenAiResponses => {
                let format = self.named_format(schema, "/parameters");
                let mut whole = json!({"type": "json_schema"});
                merge(&mut whole, format);
                ("text", json!({ "format": whole }))
            }
            Self::OpenAiChat => {
                let format = self.named_format(schema, "/function/parameters");
                ("response_format", json!({"type": "json_schema", "json_schema": format}))
            }
            Self::Mistral => {
                let format = json!({"name": NAME, "schema": schema, "strict": false});
                ("response_format", json!({"type": "json_schema", "json_schema": format}))
            }
            // These write JSON at once and call no tool.
            Self::Gemini | Self::GeminiJson if !has_tools => (
                "generationConfig",
                json!({"responseMimeType": "application/json", "responseJsonSchema": schema}),
            ),
            Self::Ollama if !has_tools => ("format", schema.clone()),
            _ => return None,
        };
        Some(Map::from_iter([(key.to_owned(), value)]))
    }

    /// The schema with a name. It is strict if the provider can enforce it.
    fn named_format(self, schema: &Value, pointer: &str) -> Value {
        match self.enforced_schema(schema, pointer) {
            Some(schema) => json!({"name": NAME, "schema": schema, "strict": true}),
            None => json!({"name": NAME, "schema": schema, "strict": false}),
        }
    }

    /// The schema in the keywords that the provider enforces; the rules are those of a strict tool.
    /// It may be narrower, such as without additional properties, or wider, such as without a
    /// minimum: the host validates the answer. `None` if the answer would have another form: other
    /// names, or null for an optional property.
    fn enforced_schema(self, schema: &Value, pointer: &str) -> Option<Value> {
        let definition = ToolDefinition::new(NAME, "", schema);
        let options = ExportOptions::default().strict(StrictMode::On);
        let shown = self.export_tool(&definition, &options);
        let changes_form = |loss: &Loss| matches!(loss.kind, LossKind::Renamed | LossKind::Refused);
        let has_form = shown.strict && !shown.report.iter().any(changes_form);
        let exported = shown.tool.as_ref()?.pointer(pointer)?;
        (has_form && has_same_required(schema, exported)).then(|| exported.clone())
    }
}

/// Whether no optional property became a required one, anywhere.
fn has_same_required(source: &Value, exported: &Value) -> bool {
    count_required(source) == count_required(exported)
}

fn count_required(schema: &Value) -> usize {
    match schema {
        Value::Object(map) => {
            let own = map.get("required").and_then(Value::as_array).map_or(0, Vec::len);
            own + map.values().map(count_required).sum::<usize>()
        }
        Value::Array(list) => list.iter().map(count_required).sum(),
        _ => 0,
    }
}

fn merge(whole: &mut Value, part: Value) {
    if let (Value::Object(whole), Value::Object(part)) = (whole, part) {
        whole.extend(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed() -> Value {
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
               "additionalProperties": false})
    }

    #[test]
    fn each_provider_has_its_own_field() {
        let schema = closed();
        let format = |dialect: Dialect, has_tools| {
            Value::from(dialect.output_format(&schema, has_tools).unwrap())
        };
        let anthropic = format(Dialect::Anthropic, true);
        assert_eq!(anthropic["output_config"]["format"]["type"], "json_schema");
        assert_eq!(anthropic["output_config"]["format"]["schema"]["required"], json!(["n"]));
        let responses = format(Dialect::OpenAiResponses, true);
        assert_eq!(responses["text"]["format"]["name"], "answer");
        assert_eq!(responses["text"]["format"]["strict"], true);
        let gemini = format(Dialect::Gemini, false);
        assert_eq!(gemini["generationConfig"]["responseMimeType"], "application/json");
        assert_eq!(format(Dialect::Ollama, false)["format"], schema);
        for dialect in [Dialect::Gemini, Dialect::GeminiJson, Dialect::Ollama] {
            assert!(dialect.output_format(&schema, true).is_none(), "{dialect}");
        }
    }

    #[test]
    fn schema_that_is_enforced_more_narrowly_is_strict() {
        let mut open = closed();
        open.as_object_mut().unwrap().remove("additionalProperties");
        let chat = Value::from(Dialect::OpenAiChat.output_format(&open, true).unwrap());
        assert_eq!(chat["response_format"]["json_schema"]["strict"], true, "{chat}");
        let schema = &chat["response_format"]["json_schema"]["schema"];
        assert_eq!(schema["additionalProperties"], false);
        assert!(Dialect::Anthropic.output_format(&open, true).is_some());
    }

    #[test]
    fn optional_property_that_would_be_null_makes_it_not_strict() {
        let optional = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let chat = Value::from(Dialect::OpenAiChat.output_format(&optional, true).unwrap());
        assert_eq!(chat["response_format"]["json_schema"]["strict"], false);
        assert_eq!(chat["response_format"]["json_schema"]["schema"], optional);
        // Anthropic enforces an optional property as it is.
        assert!(Dialect::Anthropic.output_format(&optional, true).is_some());
        assert!(Dialect::OpenAiChat.output_format(&json!({"type": "array"}), false).is_none());
    }
}
