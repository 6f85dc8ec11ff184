//! The Model Context Protocol: `tools/call` requests in, JSON-RPC responses out.
//!
//! Here haft is the server and the client makes the calls. A request is always complete. Other
//! requests, notifications and responses in a batch are not calls and are ignored; so is a
//! `tools/call` without an id, because it expects no response, and one that is cancelled in the
//! same batch.

use std::collections::HashSet;

use haft_core::{Arguments, Block, Error, StopReason, ToolCall};
use serde_json::{Value, json};

use super::{
    Dialect, MAX_CALLS, ModelResponse,
    content::{Piece, ResultContent},
    json,
    reply_context::{DecodedCall, Reply},
    stream::{Closing, EventHandler},
    unreadable,
};

/// The JSON-RPC code for invalid parameters, such as the name of an unknown tool.
const INVALID_PARAMS: i64 = -32602;

pub(super) fn parse(request: &Value) -> Result<ModelResponse, Error> {
    if let Some(batch) = request.as_array() {
        if batch.is_empty() || batch.iter().any(|one| one.get("jsonrpc").is_none()) {
            let wanted = "it is not a batch of JSON-RPC messages";
            return Err(unreadable(Dialect::Mcp, request, wanted));
        }
        let response = ModelResponse::new(
            Dialect::Mcp,
            wanted(batch).filter_map(decode_call),
            StopReason::Done,
        )?;
        return Ok(response.batch());
    }
    match decode_call(request) {
        Some(decoded) => ModelResponse::new(Dialect::Mcp, [decoded], StopReason::Done),
        None => {
            let wanted = "it is not a JSON-RPC request for `tools/call` with an `id`";
            Err(unreadable(Dialect::Mcp, request, wanted))
        }
    }
}

/// The messages of a batch without the requests that it cancels itself. These need no response.
fn wanted(batch: &[Value]) -> impl Iterator<Item = &Value> {
    let cancelled: HashSet<String> = batch.iter().filter_map(cancelled).collect();
    let is_wanted = move |one: &&Value| {
        cancelled.is_empty() || one.get("id").is_none_or(|id| !cancelled.contains(&id.to_string()))
    };
    batch.iter().filter(is_wanted)
}

/// The id of the request that a message cancels, as JSON.
fn cancelled(message: &Value) -> Option<String> {
    let is_cancellation = json::text(message, "method") == "notifications/cancelled";
    let id = message.pointer("/params/requestId").filter(|_| is_cancellation)?;
    Some(id.to_string())
}

fn decode_call(request: &Value) -> Option<DecodedCall> {
    if json::text(request, "jsonrpc") != "2.0" || json::text(request, "method") != "tools/call" {
        return None;
    }
    let id = request.get("id").filter(|id| id.is_string() || id.is_number())?;
    // A text id that looks like a number keeps its quotes, because `7` and `"7"` are different ids.
    let looks_numeric = |text: &str| text.starts_with('"') || text.parse::<f64>().is_ok();
    let known = match id {
        Value::String(text) if !looks_numeric(text) => text.clone(),
        other => other.to_string(),
    };
    let params = request.get("params").unwrap_or(&Value::Null);
    let arguments = params.get("arguments").cloned().unwrap_or(Value::Null);
    let call = ToolCall::new(known, json::text(params, "name"), Arguments::Json(arguments));
    let mut decoded = DecodedCall::new(call);
    decoded.expected.id = Some(id.clone());
    Some(decoded)
}

pub(super) fn answer(replies: &[Reply<'_>], is_batch: bool) -> Value {
    let mut responses = replies.iter().map(response);
    if is_batch { responses.collect() } else { responses.next().unwrap_or(Value::Null) }
}

fn response(reply: &Reply<'_>) -> Value {
    // Every request gets a response under its own id, also the second of two with the same.
    let id = match &reply.expected.id {
        Some(id) => id.clone(),
        None => Value::from(reply.content.call_id),
    };
    let content = &reply.content;
    if let Some(name) = &content.unknown_tool {
        let error = json!({
            "code": INVALID_PARAMS,
            "message": format!("Unknown tool: {name}"),
            "data": content.to_text(usize::MAX),
        });
        return json!({"jsonrpc": "2.0", "id": id, "error": error});
    }
    let mut result = json!({
        "content": contents(content),
        "isError": content.is_error,
        "resultType": "complete",
    });
    // Clients of older versions accept only an object; the content has the same as text.
    if let Some(structured) = content.structured.filter(|data| data.is_object()) {
        result["structuredContent"] = structured.clone();
    }
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn contents(content: &ResultContent<'_>) -> Value {
    let own = |block: &Block| !matches!(block, Block::Text { .. } | Block::Json { .. });
    let pieces = content.pieces(usize::MAX, own);
    pieces
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::Text(text) => Some(json!({"type": "text", "text": text})),
            Piece::Own(Block::Image { data, media_type }) => {
                Some(json!({"type": "image", "data": data, "mimeType": media_type}))
            }
            Piece::Own(Block::Audio { data, media_type }) => {
                Some(json!({"type": "audio", "data": data, "mimeType": media_type}))
            }
            Piece::Own(Block::Link { uri, name, media_type }) => {
                let mut link = json!({"type": "resource_link", "uri": uri, "name": name});
                if let Some(media_type) = media_type {
                    link["mimeType"] = Value::from(media_type.as_str());
                }
                Some(link)
            }
            Piece::Own(Block::Text { .. } | Block::Json { .. }) => None,
        })
        .collect()
}

/// Interprets a sequence of messages, as over a pipe. The responses are a list.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    requests: Vec<Value>,
    /// The ids of the requests, as JSON.
    ids: HashSet<String>,
    /// A request was cancelled after it had been returned.
    is_cancelled: bool,
}

impl EventHandler for Decoder {
    fn event(&mut self, event: &Value, ready: &mut Vec<DecodedCall>) -> Result<(), String> {
        let one = std::slice::from_ref(event);
        let messages = event.as_array().map_or(one, Vec::as_slice);
        if self.requests.len() + messages.len() > MAX_CALLS {
            return Err(super::too_many());
        }
        // FAIL CLOSED: a returned call cannot be revoked alone, so nothing that waits may run.
        self.is_cancelled |= messages.iter().filter_map(cancelled).any(|id| self.ids.contains(&id));
        for request in wanted(messages) {
            if let Some(decoded) = decode_call(request) {
                ready.push(decoded);
                self.ids.extend(request.get("id").map(ToString::to_string));
                self.requests.push(request.clone());
            }
        }
        Ok(())
    }

    /// There is no message to echo, only the requests.
    fn close(self: Box<Self>) -> Closing {
        Closing {
            open: Vec::new(),
            stop: Some(if self.is_cancelled { StopReason::Unknown } else { StopReason::Done }),
            message: Value::Array(self.requests),
            places: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
               "params": {"name": "search", "arguments": {"x": "a"}}})
    }

    #[test]
    fn single_request_and_batch_are_decoded() {
        let one = parse(&request(json!(7))).unwrap();
        assert_eq!(one.calls, [ToolCall::new("7", "search", json!({"x": "a"}))]);
        assert_eq!(one.stop, StopReason::Done);
        let listing = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
        let batch = json!([request(json!("a")), listing, request(json!(null))]);
        assert_eq!(parse(&batch).unwrap().calls.len(), 1, "only what is a call and is waited for");
        for bad in [json!([]), listing, request(json!(null)), json!([1])] {
            assert!(parse(&bad).is_err(), "{bad}");
        }
    }
}
