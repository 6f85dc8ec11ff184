//! Anthropic Messages: `tool_use` blocks in, one user message of `tool_result` blocks out.
//!
//! Blocks of provider-executed tools (`server_tool_use`, `mcp_tool_use`) are not calls for haft.
//! They are echoed and need no result.

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
    let Some(content) = response.get("content").and_then(Value::as_array) else {
        return Err(unreadable(Dialect::Anthropic, response, "it has no `content` array"));
    };
    let decoded = content.iter().filter(|block| is_call(block)).map(|block| {
        let input = block.get("input").cloned().unwrap_or(Value::Null);
        decode_call(block, Arguments::Json(input))
    });
    let stop = stop(response.get("stop_reason"));
    ModelResponse::new(Dialect::Anthropic, decoded, stop)
}

fn is_call(block: &Value) -> bool {
    json::text(block, "type") == "tool_use"
}

fn decode_call(block: &Value, arguments: Arguments) -> DecodedCall {
    let call = ToolCall::new(json::text(block, "id"), json::text(block, "name"), arguments);
    // A call from a provider-defined toolset needs the name of the set in its result.
    DecodedCall::new(call).with(block, &["toolset_name"])
}

fn stop(reason: Option<&Value>) -> StopReason {
    match reason.and_then(Value::as_str) {
        Some("tool_use" | "end_turn" | "stop_sequence" | "pause_turn") => StopReason::Done,
        Some("max_tokens" | "model_context_window_exceeded") => StopReason::Truncated,
        Some("refusal") => StopReason::Refused,
        Some(_) | None => StopReason::Unknown,
    }
}

pub(super) fn answer(replies: &[Reply<'_>]) -> Value {
    let results: Vec<Value> = replies
        .iter()
        .map(|reply| {
            let mut block = json!({
                "type": "tool_result",
                "tool_use_id": reply.id(),
                "content": content(reply),
            });
            if reply.content.is_error {
                block["is_error"] = Value::Bool(true);
            }
            for (key, value) in &reply.expected.also {
                block[key] = value.clone();
            }
            block
        })
        .collect();
    json!({"role": "user", "content": results})
}

/// Text alone is a string; with images, a list of blocks.
fn content(reply: &Reply<'_>) -> Value {
    if !reply.content.has_image() {
        return Value::String(reply.content.to_text(usize::MAX));
    }
    let pieces = reply.content.pieces(usize::MAX, content::is_image);
    pieces
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::Own(Block::Image { data, media_type }) => Some(json!({
                "type": "image",
                "source": {"type": "base64", "media_type": media_type, "data": data},
            })),
            // Anthropic refuses an empty text block.
            Piece::Text(text) if !text.is_empty() => Some(json!({"type": "text", "text": text})),
            Piece::Own(_) | Piece::Text(_) => None,
        })
        .collect()
}

/// Interprets `message_start`, `content_block_*`, `message_delta` and `message_stop`.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    blocks: Vec<PartialBlock>,
    /// The block of each index.
    at: HashMap<u64, usize>,
    /// The blocks that were returned as calls, in that order.
    given: Vec<usize>,
    /// The first block that may still be returned. Calls keep their order, so an open one holds
    /// back those after it.
    next: usize,
    /// The worst stop reason so far.
    end: Option<StopReason>,
    is_ended: bool,
}

/// A block that is being written.
#[derive(Debug)]
struct PartialBlock {
    block: Value,
    /// The text of `input`, as far as it arrived in deltas.
    input: String,
    /// The `input` arrived as a JSON value, and is in the block.
    is_data: bool,
    is_closed: bool,
}

impl PartialBlock {
    /// The call of this block, with its arguments as text if they arrived as text.
    fn decode_call(&self) -> DecodedCall {
        let arguments = if self.input.is_empty() {
            Arguments::Json(self.block.get("input").cloned().unwrap_or(Value::Null))
        } else {
            Arguments::Text(self.input.clone())
        };
        decode_call(&self.block, arguments)
    }

    fn delta(&mut self, delta: &Value) -> Result<(), String> {
        match json::text(delta, "type") {
            "input_json_delta" => match delta.get("partial_json") {
                None | Some(Value::Null) => {}
                Some(Value::String(piece)) => self.input.push_str(piece),
                // Some servers send a JSON value at once instead of text.
                Some(data @ Value::Object(_)) if !self.is_data => {
                    self.block["input"] = data.clone();
                    self.is_data = true;
                }
                // FAIL CLOSED: the call would run without these arguments.
                Some(_) => return Err("a chunk of arguments is not text".to_owned()),
            },
            "citations_delta" => {
                let citation = delta.get("citation").cloned().unwrap_or(Value::Null);
                match self.block.get_mut("citations") {
                    Some(Value::Array(list)) => list.push(citation),
                    _ => self.block["citations"] = json!([citation]),
                }
            }
            // Text, thinking, signatures and other text fields grow under their own name.
            _ => {
                for (key, piece) in delta.as_object().into_iter().flatten() {
                    if let Some(piece) = piece.as_str().filter(|_| key != "type") {
                        json::append_text(&mut self.block, key, piece);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the arguments arrived twice and differ.
    fn has_conflicting_input(&self) -> bool {
        let started = self.block.get("input").and_then(Value::as_object);
        !self.input.trim().is_empty()
            && started.is_some_and(|map| !map.is_empty())
            && serde_json::from_str(&self.input).ok().as_ref() != self.block.get("input")
    }

    /// The block for the history.
    fn into_history(mut self) -> Option<Value> {
        let kind = json::text(&self.block, "type");
        // Anthropic refuses thinking without its signature and a server tool call without its end.
        if !self.is_closed && !matches!(kind, "text" | "tool_use") {
            return None;
        }
        if !self.input.is_empty() {
            self.block["input"] = json::object(&self.input);
        } else if json::text(&self.block, "type").ends_with("tool_use") {
            // Arguments must be an object, whatever the start of the block had.
            let is_object = self.block.get("input").is_some_and(Value::is_object);
            if !is_object {
                self.block["input"] = json!({});
            }
        }
        let is_empty =
            json::text(&self.block, "type") == "text" && json::text(&self.block, "text").is_empty();
        // Anthropic refuses an empty text block.
        (!is_empty).then_some(self.block)
    }
}

impl Decoder {
    fn start(&mut self, index: Option<u64>, block: &Value) -> usize {
        let block = if block.is_object() { block.clone() } else { json!({}) };
        let at = self.blocks.len();
        let (input, is_data, is_closed) = (String::new(), false, false);
        self.blocks.push(PartialBlock { block, input, is_data, is_closed });
        if let Some(index) = index {
            self.at.insert(index, at);
        }
        at
    }

    /// The block of an event; without an index, the newest.
    fn find(&self, event: &Value) -> Option<usize> {
        match event.get("index").and_then(Value::as_u64) {
            Some(index) => self.at.get(&index).copied(),
            None => self.blocks.len().checked_sub(1),
        }
    }

    fn close_block(&mut self, at: usize, ready: &mut Vec<DecodedCall>) -> Result<(), String> {
        let Some(partial) = self.blocks.get_mut(at).filter(|g| !g.is_closed) else {
            return Ok(());
        };
        partial.is_closed = true;
        if is_call(&partial.block) && partial.has_conflicting_input() {
            return Err("the arguments of a call came twice and differ".to_owned());
        }
        while let Some(partial) = self.blocks.get(self.next) {
            if is_call(&partial.block) {
                if !partial.is_closed {
                    break;
                }
                ready.push(partial.decode_call());
                self.given.push(self.next);
            }
            self.next += 1;
        }
        Ok(())
    }
}

impl EventHandler for Decoder {
    fn event(&mut self, event: &Value, ready: &mut Vec<DecodedCall>) -> Result<(), String> {
        // After the end, only a worse end counts.
        if self.is_ended {
            match json::text(event, "type") {
                "message_delta" => {}
                "content_block_start" => return Err("a block comes after the end".to_owned()),
                _ => return Ok(()),
            }
        }
        match json::text(event, "type") {
            "message_start" => {
                let message = event.get("message").unwrap_or(&Value::Null);
                for block in json::list(message, "content") {
                    let at = self.start(None, block);
                    self.close_block(at, ready)?;
                }
            }
            "content_block_start" => {
                let index = event.get("index").and_then(Value::as_u64);
                self.start(index, event.get("content_block").unwrap_or(&Value::Null));
            }
            "content_block_delta" => {
                let delta = event.get("delta").unwrap_or(&Value::Null);
                let partial = self.find(event).and_then(|at| self.blocks.get_mut(at));
                match partial {
                    Some(partial) if !partial.is_closed => partial.delta(delta)?,
                    _ => return Err("a chunk belongs to no open block".to_owned()),
                }
            }
            "content_block_stop" => {
                if let Some(at) = self.find(event) {
                    self.close_block(at, ready)?;
                }
            }
            "message_delta" => {
                let reason = event.get("delta").and_then(|delta| json::some(delta, "stop_reason"));
                if let Some(reason) = reason {
                    let end = stop(Some(reason));
                    self.end = Some(worse(self.end.unwrap_or(end), end));
                }
            }
            "message_stop" => self.is_ended = true,
            _ => {}
        }
        Ok(())
    }

    fn close(mut self: Box<Self>) -> Closing {
        let mut open = Vec::new();
        for (at, partial) in self.blocks.iter().enumerate().skip(self.next) {
            if is_call(&partial.block) {
                open.push(partial.decode_call());
                self.given.push(at);
            }
        }
        let stop = self.is_ended.then(|| match self.end.unwrap_or(StopReason::Unknown) {
            StopReason::Done if !open.is_empty() => StopReason::Truncated,
            stop => stop,
        });
        let (content, moved) = json::kept(self.blocks.into_iter().map(PartialBlock::into_history));
        let places = self.given.iter().map(|at| format!("/content/{}/id", moved[*at])).collect();
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
            ("pause_turn", StopReason::Done),
            ("max_tokens", StopReason::Truncated),
            ("model_context_window_exceeded", StopReason::Truncated),
            ("refusal", StopReason::Refused),
            ("compaction", StopReason::Unknown),
            ("something_new", StopReason::Unknown),
        ] {
            let response = json!({"content": [], "stop_reason": reason});
            assert_eq!(parse(&response).unwrap().stop, wanted, "{reason}");
        }
        let response = json!({"content": [], "stop_reason": null});
        assert_eq!(parse(&response).unwrap().stop, StopReason::Unknown);
    }

    #[test]
    fn provider_executed_tools_are_not_calls() {
        let response = json!({"stop_reason": "tool_use", "content": [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            {"type": "mcp_tool_use", "id": "m", "name": "x", "input": {}},
            {"type": "tool_use", "id": "t", "name": "ours", "input": {}},
        ]});
        let calls = parse(&response).unwrap().calls;
        assert_eq!(calls, [ToolCall::new("t", "ours", json!({}))]);
    }
}
