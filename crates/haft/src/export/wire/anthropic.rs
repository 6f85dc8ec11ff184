//! Anthropic Messages: `tool_use` blocks in, one user message of `tool_result` blocks out.
//!
//! Blocks of tools that run at the provider (`server_tool_use`, `mcp_tool_use`) are not our calls.
//! They are echoed, and never answered.

use std::collections::HashMap;

use haft_core::Block;
use serde_json::{Value, json};

use super::{
    Dialect, ModelResponse,
    asked::{Reply, Spoken},
    content::{self, Piece},
    json,
    stream::{Closing, Ear},
    unreadable, worse,
};
use crate::{
    error::Error,
    turn::{Arguments, StopReason, ToolCall},
};

pub(super) fn parse(response: &Value) -> Result<ModelResponse, Error> {
    let Some(content) = response.get("content").and_then(Value::as_array) else {
        return Err(unreadable(Dialect::Anthropic, response, "it has no `content` array"));
    };
    let spoken = content.iter().filter(|block| is_call(block)).map(|block| {
        let input = block.get("input").cloned().unwrap_or(Value::Null);
        spoken(block, Arguments::Json(input))
    });
    let stop = stop(response.get("stop_reason"));
    ModelResponse::new(Dialect::Anthropic, spoken, stop)
}

fn is_call(block: &Value) -> bool {
    json::text(block, "type") == "tool_use"
}

fn spoken(block: &Value, arguments: Arguments) -> Spoken {
    let call = ToolCall::new(json::text(block, "id"), json::text(block, "name"), arguments);
    // A call out of a provider-defined set of tools is answered with the name of the set.
    Spoken::new(call).with(block, &["toolset_name"])
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
            if reply.answer.is_error() {
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

/// Text alone as a string; with pictures, a list of blocks.
fn content(reply: &Reply<'_>) -> Value {
    if !content::has_picture(reply.answer) {
        return Value::String(content::plain(reply.answer, usize::MAX));
    }
    content::pieces(reply.answer, usize::MAX, content::is_picture)
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::Own(Block::Image { data, media_type }) => Some(json!({
                "type": "image",
                "source": {"type": "base64", "media_type": media_type, "data": data},
            })),
            // A block of empty text is refused.
            Piece::Text(text) if !text.is_empty() => Some(json!({"type": "text", "text": text})),
            Piece::Own(_) | Piece::Text(_) => None,
        })
        .collect()
}

/// Listens to `message_start`, `content_block_*`, `message_delta` and `message_stop`.
#[derive(Debug, Default)]
pub(super) struct Listener {
    blocks: Vec<Growing>,
    /// The block that each index means.
    at: HashMap<u64, usize>,
    /// The blocks that were given out as calls, in that order.
    given: Vec<usize>,
    /// The first block that may still be given out: calls keep their order, so one that is open
    /// holds back those behind it.
    next: usize,
    /// The worst ending that was named.
    end: Option<StopReason>,
    is_ended: bool,
}

/// A block that is being written.
#[derive(Debug)]
struct Growing {
    block: Value,
    /// The text of `input`, as far as it came in pieces.
    input: String,
    /// The pieces of `input` are data, and stand in the block.
    is_data: bool,
    is_closed: bool,
}

impl Growing {
    /// The call that this block is, with its arguments as text where they came as text.
    fn spoken(&self) -> Spoken {
        let arguments = match self.input.is_empty() {
            true => Arguments::Json(self.block.get("input").cloned().unwrap_or(Value::Null)),
            false => Arguments::Text(self.input.clone()),
        };
        spoken(&self.block, arguments)
    }

    fn delta(&mut self, delta: &Value) -> Result<(), String> {
        match json::text(delta, "type") {
            "input_json_delta" => match delta.get("partial_json") {
                None | Some(Value::Null) => {}
                Some(Value::String(piece)) => self.input.push_str(piece),
                // A server that does not put them into text says them all at once.
                Some(data @ Value::Object(_)) if !self.is_data => {
                    self.block["input"] = data.clone();
                    self.is_data = true;
                }
                // FAIL CLOSED: without them the call would run with none.
                Some(_) => return Err("a piece of arguments is no text".to_owned()),
            },
            "citations_delta" => {
                let citation = delta.get("citation").cloned().unwrap_or(Value::Null);
                match self.block.get_mut("citations") {
                    Some(Value::Array(list)) => list.push(citation),
                    _ => self.block["citations"] = json!([citation]),
                }
            }
            // Text, thinking, signatures and whatever else is text grow by their own name.
            _ => {
                for (key, piece) in delta.as_object().into_iter().flatten() {
                    if let Some(piece) = piece.as_str().filter(|_| key != "type") {
                        json::grow(&mut self.block, key, piece);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the arguments came twice, and not the same.
    fn is_at_odds(&self) -> bool {
        let started = self.block.get("input").and_then(Value::as_object);
        !self.input.trim().is_empty()
            && started.is_some_and(|map| !map.is_empty())
            && serde_json::from_str(&self.input).ok().as_ref() != self.block.get("input")
    }

    /// The block as it is echoed.
    fn settled(mut self) -> Option<Value> {
        let kind = json::text(&self.block, "type");
        // Thinking without its signature and a server's call without its end are refused.
        if !self.is_closed && !matches!(kind, "text" | "tool_use") {
            return None;
        }
        if !self.input.is_empty() {
            self.block["input"] = json::object(&self.input);
        } else if json::text(&self.block, "type").ends_with("tool_use") {
            // Pieces are wanted as an object, whatever the start of the block said.
            let is_object = self.block.get("input").is_some_and(Value::is_object);
            if !is_object {
                self.block["input"] = json!({});
            }
        }
        let is_empty =
            json::text(&self.block, "type") == "text" && json::text(&self.block, "text").is_empty();
        // A block of empty text is refused.
        (!is_empty).then_some(self.block)
    }
}

impl Listener {
    fn start(&mut self, index: Option<u64>, block: &Value) -> usize {
        let block = if block.is_object() { block.clone() } else { json!({}) };
        let at = self.blocks.len();
        let (input, is_data, is_closed) = (String::new(), false, false);
        self.blocks.push(Growing { block, input, is_data, is_closed });
        if let Some(index) = index {
            self.at.insert(index, at);
        }
        at
    }

    /// The block that an event is about; without an index, the newest.
    fn find(&self, event: &Value) -> Option<usize> {
        match event.get("index").and_then(Value::as_u64) {
            Some(index) => self.at.get(&index).copied(),
            None => self.blocks.len().checked_sub(1),
        }
    }

    fn close_block(&mut self, at: usize, give: &mut Vec<Spoken>) -> Result<(), String> {
        let Some(growing) = self.blocks.get_mut(at).filter(|g| !g.is_closed) else {
            return Ok(());
        };
        growing.is_closed = true;
        if is_call(&growing.block) && growing.is_at_odds() {
            return Err("the arguments of a call come twice, and not the same".to_owned());
        }
        while let Some(growing) = self.blocks.get(self.next) {
            if is_call(&growing.block) {
                if !growing.is_closed {
                    break;
                }
                give.push(growing.spoken());
                self.given.push(self.next);
            }
            self.next += 1;
        }
        Ok(())
    }
}

impl Ear for Listener {
    fn event(&mut self, event: &Value, give: &mut Vec<Spoken>) -> Result<(), String> {
        // After the end nothing counts but a worse end.
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
                    self.close_block(at, give)?;
                }
            }
            "content_block_start" => {
                let index = event.get("index").and_then(Value::as_u64);
                self.start(index, event.get("content_block").unwrap_or(&Value::Null));
            }
            "content_block_delta" => {
                let delta = event.get("delta").unwrap_or(&Value::Null);
                let growing = self.find(event).and_then(|at| self.blocks.get_mut(at));
                match growing {
                    Some(growing) if !growing.is_closed => growing.delta(delta)?,
                    _ => return Err("a piece belongs to no open block".to_owned()),
                }
            }
            "content_block_stop" => {
                if let Some(at) = self.find(event) {
                    self.close_block(at, give)?;
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
        for (at, growing) in self.blocks.iter().enumerate().skip(self.next) {
            if is_call(&growing.block) {
                open.push(growing.spoken());
                self.given.push(at);
            }
        }
        let stop = self.is_ended.then(|| match self.end.unwrap_or(StopReason::Unknown) {
            StopReason::Done if !open.is_empty() => StopReason::Truncated,
            stop => stop,
        });
        // Blocks that are left out move the others up.
        let mut content = Vec::new();
        let mut moved = Vec::new();
        for growing in self.blocks {
            moved.push(content.len());
            content.extend(growing.settled());
        }
        let places = self.given.iter().map(|at| format!("/content/{}/id", moved[*at])).collect();
        Closing { open, stop, message: json::message("assistant", "content", content), places }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_ending_has_its_meaning() {
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
    fn tools_of_the_provider_are_not_ours() {
        let response = json!({"stop_reason": "tool_use", "content": [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            {"type": "mcp_tool_use", "id": "m", "name": "x", "input": {}},
            {"type": "tool_use", "id": "t", "name": "ours", "input": {}},
        ]});
        let calls = parse(&response).unwrap().calls;
        assert_eq!(calls, [ToolCall::new("t", "ours", json!({}))]);
    }
}
