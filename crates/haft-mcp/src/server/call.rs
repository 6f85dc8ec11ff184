//! A `tools/call` request as a call of the runtime, and its result as that of MCP.
//!
//! INVARIANT: what the model can correct is a result with `isError`. Only an unknown tool, and an
//! error that a tool passes on from another server, is a JSON-RPC error.

use haft::{FailureCode, ToolResult, artifacts::ArtifactId, tool::Block};
use rmcp::{
    ErrorData,
    model::{CallToolResult, ContentBlock, ErrorCode, MetaObject, Resource},
};
use serde_json::{Map, Value, json};

use super::{call_peer::CallPeer, job::Answer, seal::Binding};
use crate::content::to_mcp;

/// The prefix of our fields in `_meta`.
pub(super) const META_LABEL: &str = "dev.haft/label";
const META_FAILURE: &str = "dev.haft/failure";

/// Converts the result of a call.
pub(super) fn answer(
    result: &ToolResult,
    peer: &CallPeer,
    link: Option<Resource>,
) -> Result<Answer, ErrorData> {
    let failure = result.failure();
    if let Some(failure) = failure {
        if let Some(rejection) = peer.take_rejection() {
            return Err(ErrorData::new(
                ErrorCode(rejection.code),
                rejection.message,
                rejection.data,
            ));
        }
        if failure.code() == FailureCode::UnknownTool {
            let message = format!("Unknown tool: {}", result.requested_name());
            return Err(ErrorData::invalid_params(message, Some(failure.model_text().into())));
        }
    }
    let mut content: Vec<ContentBlock> = result.model_blocks().into_iter().map(to_mcp).collect();
    content.extend(link.map(ContentBlock::ResourceLink));
    let mut answer = match failure {
        Some(_) => CallToolResult::error(content),
        None => CallToolResult::success(content),
    };
    answer.structured_content = structured(result);
    answer.meta = Some(meta(result));
    Ok(Answer::Tool(answer))
}

/// The structured content. Clients of older versions accept only an object; the content has the
/// same as text.
fn structured(result: &ToolResult) -> Option<Value> {
    let structured = result.output()?.structured.as_deref()?;
    structured.is_object().then(|| structured.clone())
}

/// What a program needs to know about the result, besides its content.
fn meta(result: &ToolResult) -> MetaObject {
    let mut meta = Map::new();
    meta.insert(META_LABEL.to_owned(), serde_json::to_value(result.label()).unwrap_or_default());
    if let Some(failure) = result.failure() {
        let value = json!({
            "code": failure.code(),
            "retry": failure.retry(),
            "execution": result.execution(),
        });
        meta.insert(META_FAILURE.to_owned(), value);
    }
    MetaObject(meta)
}

/// The result of a call that was refused before it reached the runtime.
pub(super) fn refused(code: FailureCode, message: &str) -> Answer {
    let block = to_mcp(Block::text(format!("{code}: {message}")));
    let mut answer = CallToolResult::error(vec![block]);
    let value = json!({"code": code, "retry": code.retry(), "execution": code.execution()});
    answer.meta = Some(MetaObject(Map::from_iter([(META_FAILURE.to_owned(), value)])));
    Answer::Tool(answer)
}

/// The artifact that has the whole of a truncated result.
pub(super) fn offloaded(result: &ToolResult) -> Option<ArtifactId> {
    result.truncation()?.artifact
}

/// What the state of an open question belongs to.
pub(super) fn binding(
    principal: &str,
    method: &str,
    name: &str,
    definition: &str,
    arguments: &Value,
) -> Binding {
    let arguments = sorted(arguments).to_string();
    let parts = [principal, method, name, definition, &arguments];
    Binding::of(&parts.map(str::as_bytes))
}

/// The same value with sorted keys: a client may send them in another order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            entries.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binding_ignores_the_order_of_keys_and_nothing_else() {
        let of = |arguments: &Value| binding("a", "tools/call", "t", "hash", arguments);
        let one = json!({"x": 1, "y": {"b": [1, 2], "a": null}});
        assert_eq!(of(&one), of(&json!({"y": {"a": null, "b": [1, 2]}, "x": 1})));
        assert_ne!(of(&one), of(&json!({"y": {"a": null, "b": [2, 1]}, "x": 1})));
        assert_ne!(of(&one), binding("b", "tools/call", "t", "hash", &one));
        assert_ne!(of(&one), binding("a", "tools/call", "t", "other", &one));
    }
}
