//! Anthropic Messages: `tool_use` blocks in, one user message of `tool_result` blocks out.

use haft_core::Block;
use serde_json::{Value, json};

use super::{Dialect, Response, unreadable};
use crate::{
    envelope::Envelope,
    error::Error,
    turn::{Arguments, Call, Stop},
};

pub(super) fn parse(response: &Value) -> Result<Response, Error> {
    let Some(content) = response.get("content").and_then(Value::as_array) else {
        return Err(unreadable(Dialect::Anthropic, response, "it has no `content` array"));
    };
    let calls = content
        .iter()
        .filter(|block| block.get("type").and_then(Value::as_str) == Some("tool_use"))
        .map(|block| {
            let text = |key| block.get(key).and_then(Value::as_str).unwrap_or_default();
            let input = block.get("input").cloned().unwrap_or(Value::Null);
            Call::new(text("id"), text("name"), Arguments::Json(input))
        })
        .collect();
    let stop = match response.get("stop_reason").and_then(Value::as_str) {
        Some("tool_use" | "end_turn" | "stop_sequence" | "pause_turn") => Stop::Done,
        Some("max_tokens" | "model_context_window_exceeded") => Stop::Truncated,
        Some("refusal") => Stop::Refused,
        Some(_) | None => Stop::Unknown,
    };
    Ok(Response { calls, stop })
}

pub(super) fn answer(answers: &[Envelope]) -> Value {
    let results: Vec<Value> = answers
        .iter()
        .map(|answer| {
            let mut block = json!({
                "type": "tool_result",
                "tool_use_id": answer.id().as_str(),
                "content": content(answer),
            });
            if answer.is_error() {
                block["is_error"] = Value::Bool(true);
            }
            block
        })
        .collect();
    json!({"role": "user", "content": results})
}

/// Text alone as a string; with pictures, a list of blocks.
fn content(answer: &Envelope) -> Value {
    let blocks = answer.output().map(|o| o.blocks.as_slice()).unwrap_or_default();
    if !blocks.iter().any(|b| matches!(b, Block::Image { .. })) {
        return Value::String(answer.text().into_owned());
    }
    blocks
        .iter()
        .map(|block| match block {
            Block::Image { data, media_type } => json!({
                "type": "image",
                "source": {"type": "base64", "media_type": media_type, "data": data},
            }),
            other => json!({
                "type": "text",
                "text": haft_core::Output::from(other.clone()).to_text(),
            }),
        })
        .collect()
}
