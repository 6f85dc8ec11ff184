//! Amazon Bedrock Converse: `toolUse` blocks in, one user message of `toolResult` blocks out.
//!
//! Events have the form of the SDKs, one member per event: `{"contentBlockDelta": {…}}`. Bytes are
//! base64 text, as in the service's JSON; an SDK that needs raw bytes must decode them.

use std::collections::HashMap;

use haft_core::{Arguments, Block, Error, StopReason, ToolCall};
use serde_json::{Value, json};

use super::{
    Dialect, ModelResponse,
    content::{self, Piece},
    json,
    reply_context::{DecodedCall, Reply},
    stream::{Closing, EventHandler},
    unreadable, worse,
};

pub(super) fn parse(response: &Value) -> Result<ModelResponse, Error> {
    let Some(content) = response.pointer("/output/message/content").and_then(Value::as_array)
    else {
        let wanted = "it has no `output.message.content` array";
        return Err(unreadable(Dialect::Bedrock, response, wanted));
    };
    let decoded = content.iter().filter_map(call_of).map(|call| {
        let input = call.get("input").cloned().unwrap_or(Value::Null);
        decode_call(call, Arguments::Json(input))
    });
    let stop = stop(response.get("stopReason"));
    ModelResponse::new(Dialect::Bedrock, decoded, stop)
}

/// The call in a block. One with a type is executed by the provider and is not for haft.
pub(super) fn call_of(block: &Value) -> Option<&Value> {
    json::some(block, "toolUse").filter(|call| json::some(call, "type").is_none())
}

fn decode_call(call: &Value, arguments: Arguments) -> DecodedCall {
    DecodedCall::new(ToolCall::new(
        json::text(call, "toolUseId"),
        json::text(call, "name"),
        arguments,
    ))
}

fn stop(reason: Option<&Value>) -> StopReason {
    match reason.and_then(Value::as_str) {
        Some("tool_use" | "end_turn" | "stop_sequence") => StopReason::Done,
        Some("max_tokens" | "model_context_window_exceeded") => StopReason::Truncated,
        Some("guardrail_intervened" | "content_filtered") => StopReason::Refused,
        // Including `malformed_tool_use` and `malformed_model_output`.
        Some(_) | None => StopReason::Unknown,
    }
}

pub(super) fn answer(replies: &[Reply<'_>]) -> Value {
    let results: Vec<Value> = replies
        .iter()
        .map(|reply| {
            let mut result = json!({"toolUseId": reply.id(), "content": content(reply)});
            // Some model families do not support a status, so success has none.
            if reply.content.is_error {
                result["status"] = Value::from("error");
            }
            json!({"toolResult": result})
        })
        .collect();
    json!({"role": "user", "content": results})
}

fn content(reply: &Reply<'_>) -> Value {
    // Only an object is accepted as JSON content.
    let is_data = |block: &Block| matches!(block, Block::Json { json } if json.is_object());
    let own = |block: &Block| is_data(block) || content::is_image(block);
    if !reply.content.has(own) {
        let text = reply.content.to_text(usize::MAX);
        // Bedrock refuses blank text and empty content.
        return json!([{"text": if text.trim().is_empty() { "(empty)" } else { &text }}]);
    }
    let pieces = reply.content.pieces(usize::MAX, own).into_iter();
    let blocks = pieces.filter_map(|piece| match piece {
        Piece::Own(Block::Json { json }) => Some(json!({"json": json})),
        Piece::Own(Block::Image { data, media_type }) => Some(json!({
            "image": {"format": content::image_format(media_type), "source": {"bytes": data}},
        })),
        Piece::Text(text) if !text.trim().is_empty() => Some(json!({"text": text})),
        Piece::Own(_) | Piece::Text(_) => None,
    });
    blocks.collect()
}

/// Interprets `contentBlockStart`, `contentBlockDelta`, `contentBlockStop` and `messageStop`.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    blocks: Vec<PartialBlock>,
    at: HashMap<u64, usize>,
    given: Vec<usize>,
    /// The first block that may still be returned. An open call holds back those after it.
    next: usize,
    stop: Option<StopReason>,
}

#[derive(Debug)]
struct PartialBlock {
    block: Value,
    input: String,
    /// The arguments, if they arrived as a JSON value.
    data: Option<Value>,
    is_closed: bool,
}

impl PartialBlock {
    fn decode_call(&self, call: &Value) -> DecodedCall {
        let arguments = match &self.data {
            Some(data) => Arguments::Json(data.clone()),
            None if self.input.is_empty() => Arguments::Json(json!({})),
            None => Arguments::Text(self.input.clone()),
        };
        decode_call(call, arguments)
    }

    /// Takes arguments: text in deltas, or a JSON value at once.
    fn take(&mut self, input: Option<&Value>) -> Result<(), String> {
        match input {
            None | Some(Value::Null) => return Ok(()),
            Some(Value::String(piece)) => self.input.push_str(piece),
            // The start of a call may have an empty placeholder for them.
            Some(Value::Object(map)) if map.is_empty() => return Ok(()),
            Some(data @ Value::Object(_)) if self.data.is_none() => self.data = Some(data.clone()),
            // FAIL CLOSED: the call would run without these arguments.
            Some(_) => return Err("a chunk of arguments is not text".to_owned()),
        }
        if self.data.is_some() && !self.input.trim().is_empty() {
            Err("the arguments of a call came both as text and as JSON".to_owned())
        } else {
            Ok(())
        }
    }

    fn delta(&mut self, delta: &Value) -> Result<(), String> {
        let Some((kind, piece)) = delta.as_object().and_then(|map| map.iter().next()) else {
            return Ok(());
        };
        match kind.as_str() {
            // Text after a citation belongs to the cited content.
            "text" if self.block.get("citationsContent").is_some() => {
                let text = json!({"text": piece});
                push(&mut self.block["citationsContent"], "content", text);
            }
            "text" => {
                json::append_text(&mut self.block, "text", piece.as_str().unwrap_or_default())
            }
            "toolUse" => self.take(piece.get("input"))?,
            "reasoningContent" => {
                if !self.block["reasoningContent"].is_object() {
                    self.block["reasoningContent"] = json!({});
                }
                let reasoning = &mut self.block["reasoningContent"];
                for (key, piece) in piece.as_object().into_iter().flatten() {
                    let piece = piece.as_str().unwrap_or_default();
                    match key.as_str() {
                        "text" | "signature" => {
                            if !reasoning["reasoningText"].is_object() {
                                reasoning["reasoningText"] = json!({"text": ""});
                            }
                            json::append_text(&mut reasoning["reasoningText"], key, piece);
                        }
                        _ => json::append_text(reasoning, key, piece),
                    }
                }
            }
            "citation" => {
                if self.block.get("citationsContent").is_none() {
                    let text = std::mem::take(&mut self.block["text"]);
                    self.block = json!({"citationsContent": {"content": [], "citations": []}});
                    if text.is_string() {
                        push(&mut self.block["citationsContent"], "content", json!({"text": text}));
                    }
                }
                push(&mut self.block["citationsContent"], "citations", piece.clone());
            }
            "toolResult" => {
                for piece in piece.as_array().into_iter().flatten() {
                    if self.block["toolResult"].is_object() {
                        push(&mut self.block["toolResult"], "content", piece.clone());
                    }
                }
            }
            "image" => {
                for (key, value) in piece.as_object().into_iter().flatten() {
                    if self.block["image"].is_object() {
                        self.block["image"][key] = value.clone();
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn into_history(mut self) -> Option<Value> {
        if let Some(call) = self.block.get_mut("toolUse").filter(|call| call.is_object()) {
            call["input"] = self.data.unwrap_or_else(|| json::object(&self.input));
        }
        // Bedrock refuses a block of blank text and an empty block.
        let is_blank = self.block.as_object().is_none_or(|map| map.keys().all(|key| key == "text"))
            && json::text(&self.block, "text").trim().is_empty();
        (!is_blank).then_some(self.block)
    }
}

fn push(object: &mut Value, key: &str, item: Value) {
    if !object.is_object() {
        *object = json!({});
    }
    match object.get_mut(key) {
        Some(Value::Array(list)) => list.push(item),
        _ => object[key] = json!([item]),
    }
}

impl Decoder {
    fn start(&mut self, event: &Value, block: Value) -> Result<usize, String> {
        let at = self.blocks.len();
        let input = block.pointer("/toolUse/input").cloned();
        let mut partial =
            PartialBlock { block, input: String::new(), data: None, is_closed: false };
        partial.take(input.as_ref())?;
        self.blocks.push(partial);
        if let Some(index) = event.get("contentBlockIndex").and_then(Value::as_u64) {
            self.at.insert(index, at);
        }
        Ok(at)
    }

    /// Returns the complete calls up to the first open one.
    fn release(&mut self, ready: &mut Vec<DecodedCall>) {
        while let Some(partial) = self.blocks.get(self.next) {
            if let Some(call) = call_of(&partial.block) {
                if !partial.is_closed {
                    return;
                }
                ready.push(partial.decode_call(call));
                self.given.push(self.next);
            }
            self.next += 1;
        }
    }

    fn find(&self, event: &Value) -> Option<usize> {
        let at = match event.get("contentBlockIndex").and_then(Value::as_u64) {
            Some(index) => self.at.get(&index).copied(),
            None => self.blocks.len().checked_sub(1),
        };
        at.filter(|at| !self.blocks[*at].is_closed)
    }
}

impl EventHandler for Decoder {
    fn event(&mut self, event: &Value, ready: &mut Vec<DecodedCall>) -> Result<(), String> {
        let exception = event
            .as_object()
            .and_then(|map| map.iter().find(|(name, _)| name.ends_with("Exception")));
        if let Some((name, body)) = exception {
            return Err(format!("{name}: {}", json::text(body, "message")));
        }
        // After the end, only a worse end counts.
        if let Some(end) = json::some(event, "messageStop") {
            let end = stop(end.get("stopReason"));
            self.stop = Some(worse(self.stop.unwrap_or(end), end));
        }
        if self.stop.is_some() {
            return match json::some(event, "contentBlockStart") {
                Some(_) => Err("a block comes after the end".to_owned()),
                None => Ok(()),
            };
        }
        if let Some(start) = json::some(event, "contentBlockStart") {
            let block = start.get("start").filter(|block| block.is_object());
            self.start(start, block.cloned().unwrap_or_else(|| json!({})))?;
        } else if let Some(delta) = json::some(event, "contentBlockDelta") {
            let piece = delta.get("delta").unwrap_or(&Value::Null);
            let at = match self.find(delta) {
                Some(at) => at,
                // A delta of a call needs its start; other blocks may come without one.
                None if piece.get("toolUse").is_some() => {
                    return Err("a chunk belongs to no open block".to_owned());
                }
                None => self.start(delta, json!({}))?,
            };
            self.blocks[at].delta(piece)?;
        } else if let Some(end) = json::some(event, "contentBlockStop")
            && let Some(at) = self.find(end)
        {
            self.blocks[at].is_closed = true;
            self.release(ready);
        }
        Ok(())
    }

    fn close(mut self: Box<Self>) -> Closing {
        let mut open = Vec::new();
        for (at, partial) in self.blocks.iter().enumerate().skip(self.next) {
            if let Some(call) = call_of(&partial.block) {
                open.push(partial.decode_call(call));
                self.given.push(at);
            }
        }
        let stop = self.stop.map(|stop| match stop {
            StopReason::Done if !open.is_empty() => StopReason::Truncated,
            stop => stop,
        });
        let (content, moved) = json::kept(self.blocks.into_iter().map(PartialBlock::into_history));
        let place = |at: &usize| format!("/content/{}/toolUse/toolUseId", moved[*at]);
        let places = self.given.iter().map(place).collect();
        Closing { open, stop, message: json::message("assistant", "content", content), places }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_stop_reason_is_mapped() {
        for (reason, wanted) in [
            ("end_turn", StopReason::Done),
            ("tool_use", StopReason::Done),
            ("stop_sequence", StopReason::Done),
            ("max_tokens", StopReason::Truncated),
            ("model_context_window_exceeded", StopReason::Truncated),
            ("guardrail_intervened", StopReason::Refused),
            ("content_filtered", StopReason::Refused),
            ("malformed_model_output", StopReason::Unknown),
            ("malformed_tool_use", StopReason::Unknown),
            ("something_new", StopReason::Unknown),
        ] {
            let response = json!({"output": {"message": {"content": []}}, "stopReason": reason});
            assert_eq!(parse(&response).unwrap().stop, wanted, "{reason}");
        }
    }

    #[test]
    fn provider_executed_tools_are_not_calls() {
        let response = json!({"stopReason": "tool_use", "output": {"message": {"content": [
            {"toolUse": {"toolUseId": "s", "name": "x", "input": {}, "type": "server_tool_use"}},
            {"toolUse": {"toolUseId": "t", "name": "ours", "input": {"a": 1}}},
        ]}}});
        let calls = parse(&response).unwrap().calls;
        assert_eq!(calls, [ToolCall::new("t", "ours", json!({"a": 1}))]);
    }
}
