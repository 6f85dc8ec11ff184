//! Ollama: functions as in OpenAI Chat. Its clients and templates read little of a property, so
//! everything is said as flatly as it can be said without loss.

use serde_json::{Map, Value, json};

use super::{Dressed, mistral, openai};
use crate::export::schema::Rules;

pub(super) const PLAIN: Rules = Rules { ..mistral::PLAIN };

pub(super) fn tool(dressed: Dressed<'_>) -> Value {
    let mut function = openai::function(dressed);
    if let Some(Value::Object(parameters)) = function.get_mut("parameters") {
        without_booleans(parameters);
    }
    openai::typed(function)
}

/// Writes `true` and `false` as the objects that mean the same: client and server read a property
/// and the branch of a union into a struct, and refuse the whole request over anything else.
fn without_booleans(schema: &mut Map<String, Value>) {
    let mut open = vec![schema];
    while let Some(schema) = open.pop() {
        for (key, value) in schema {
            let inner: Vec<&mut Value> = match (key.as_str(), value) {
                ("properties", Value::Object(properties)) => properties.values_mut().collect(),
                ("anyOf", Value::Array(branches)) => branches.iter_mut().collect(),
                _ => continue,
            };
            for value in inner {
                match value {
                    Value::Bool(true) => *value = json!({}),
                    Value::Bool(false) => *value = json!({"not": {}}),
                    Value::Object(schema) => open.push(schema),
                    _ => {}
                }
            }
        }
    }
}

pub(super) fn request(tools: Vec<Value>) -> Map<String, Value> {
    let mut request = Map::new();
    request.insert("tools".into(), Value::Array(tools));
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::{Definition, Dialect, Options};

    #[test]
    fn a_property_is_always_an_object() {
        let input = json!({"type": "object", "properties": {
            "any": true,
            "properties": false,
            "deep": {"type": "object", "properties": {"any": true}},
        }});
        let shown = Dialect::Ollama.show(&Definition::new("t", "", &input), &Options::default());
        assert!(shown.is_exact(), "{:?}", shown.report);
        let properties = &shown.tool.unwrap()["function"]["parameters"]["properties"];
        assert_eq!(properties["any"], json!({}));
        assert_eq!(properties["properties"], json!({"not": {}}));
        assert_eq!(properties["deep"]["properties"]["any"], json!({}));
    }
}
