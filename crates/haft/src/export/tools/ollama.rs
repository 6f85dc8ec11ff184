//! Ollama: functions as in OpenAI Chat. Its clients and templates read little of a property, so
//! everything is said as flatly as it can be said without loss.

use serde_json::{Map, Value};

use super::{Dressed, mistral, openai};
use crate::export::schema::Rules;

pub(super) const PLAIN: Rules = Rules { ..mistral::PLAIN };

pub(super) fn tool(dressed: Dressed<'_>) -> Value {
    openai::typed(openai::function(dressed))
}

pub(super) fn request(tools: Vec<Value>) -> Map<String, Value> {
    let mut request = Map::new();
    request.insert("tools".into(), Value::Array(tools));
    request
}
