//! OpenAI Responses: `function_call` items in, a list of `function_call_output` items out.
//!
//! A `custom_tool_call` has free text as input. It becomes a call with the one argument `input`, so
//! that a tool with one text parameter of that name can be offered as a custom tool; its result is
//! a `custom_tool_call_output`. Items of provider-executed tools, and of built-in client tools
//! (`computer_call`, `shell_call`, …), are not calls for haft.

use std::collections::{HashMap, HashSet};

use haft_core::{Arguments, Block, Error, StopReason, ToolCall};
use serde_json::{Value, json};

use super::{
    Dialect, MAX_CALLS, ModelResponse,
    content::{self, Piece},
    json,
    reply_context::{DecodedCall, Form, Reply},
    stream::{Closing, EventHandler},
    unreadable,
};

/// The longest text of an output, in characters.
const MAX_OUTPUT_CHARS: usize = 10_485_760;

pub(super) fn parse(response: &Value) -> Result<ModelResponse, Error> {
    let Some(items) = response.get("output").and_then(Value::as_array) else {
        return Err(unreadable(Dialect::OpenAiResponses, response, "it has no `output` array"));
    };
    let decoded = items.iter().filter_map(decode_call);
    let stop = stop(response, items.iter());
    ModelResponse::new(Dialect::OpenAiResponses, decoded, stop)
}

/// The call in an item; `None` if it is not one for haft.
fn decode_call(item: &Value) -> Option<DecodedCall> {
    let (form, arguments) = match json::text(item, "type") {
        "function_call" => (
            Form::Function,
            match item.get("arguments") {
                Some(Value::String(text)) => Arguments::Text(text.clone()),
                Some(other) => Arguments::Json(other.clone()),
                None => Arguments::Text(String::new()),
            },
        ),
        "custom_tool_call" => {
            (Form::Custom, Arguments::Json(json!({"input": json::text(item, "input")})))
        }
        _ => return None,
    };
    let call = ToolCall::new(json::text(item, "call_id"), json::text(item, "name"), arguments);
    let mut decoded = DecodedCall::new(call).with(item, &["caller"]);
    decoded.expected.form = form;
    Some(decoded)
}

/// Whether a call is complete by its status. Some servers send no status.
fn is_whole(item: &Value) -> bool {
    matches!(json::text(item, "status"), "completed" | "")
}

fn stop<'a>(response: &Value, items: impl Iterator<Item = &'a Value>) -> StopReason {
    let mut cut = false;
    let mut refused = false;
    for item in items {
        match json::text(item, "type") {
            "function_call" | "custom_tool_call" => {
                cut |= !is_whole(item);
            }
            "message" => {
                let parts = json::list(item, "content");
                refused |= parts.iter().any(|part| json::text(part, "type") == "refusal");
            }
            _ => {}
        }
    }
    let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
    match response.get("status").and_then(Value::as_str) {
        Some("incomplete") if reason == Some("content_filter") => StopReason::Refused,
        _ if cut => StopReason::Truncated,
        _ if refused => StopReason::Refused,
        Some("completed") => StopReason::Done,
        Some("incomplete") => StopReason::Truncated,
        Some(_) | None => StopReason::Unknown,
    }
}

pub(super) fn answer(replies: &[Reply<'_>]) -> Value {
    replies
        .iter()
        .map(|reply| {
            let mut item = json!({
                "type": match reply.expected.form {
                    Form::Custom => "custom_tool_call_output",
                    Form::Function | Form::Legacy => "function_call_output",
                },
                "call_id": reply.id(),
                "output": output(reply),
            });
            for (key, value) in &reply.expected.also {
                item[key] = value.clone();
            }
            item
        })
        .collect()
}

/// There is no error flag here, so the text starts with the failure code.
fn output(reply: &Reply<'_>) -> Value {
    if !reply.content.has_image() {
        return Value::String(reply.content.to_text(MAX_OUTPUT_CHARS));
    }
    let pieces = reply.content.pieces(MAX_OUTPUT_CHARS, content::is_image);
    pieces
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::Own(Block::Image { data, media_type }) => Some(json!({
                "type": "input_image",
                "image_url": format!("data:{media_type};base64,{data}"),
            })),
            Piece::Own(_) => None,
            Piece::Text(text) => Some(json!({"type": "input_text", "text": text})),
        })
        .collect()
}

/// Interprets `response.output_item.*`, the deltas of arguments and text, and the end.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    items: Vec<PartialItem>,
    by_index: HashMap<u64, usize>,
    /// By the id of the item, and by the id of its call.
    by_id: HashMap<String, usize>,
    by_call: HashMap<String, usize>,
    given: Vec<usize>,
    /// The position of the next item to return. Calls keep the order of the response, so an open or
    /// missing one holds back those after it.
    next: u64,
    /// The complete response from the last event.
    end: Option<Value>,
}

#[derive(Debug)]
struct PartialItem {
    item: Value,
    /// Its position in the response.
    index: u64,
    /// The deltas of the arguments, or of the free-text input.
    pieces: String,
    is_given: bool,
    is_done: bool,
    /// All of its arguments have arrived.
    is_full: bool,
}

impl PartialItem {
    /// The field of a call that its deltas fill.
    fn field(&self) -> Option<&'static str> {
        match json::text(&self.item, "type") {
            "function_call" => Some("arguments"),
            "custom_tool_call" => Some("input"),
            _ => None,
        }
    }

    /// Writes the deltas into an item that did not get its `done` event.
    fn merge_deltas(&mut self) {
        if let Some(field) = self.field().filter(|_| !self.is_given && !self.pieces.is_empty()) {
            self.item[field] = Value::String(std::mem::take(&mut self.pieces));
        }
    }

    /// Appends a delta to a message's text.
    fn append_delta(&mut self, event: &Value, kind: &str, key: &str) {
        let at = event.get("content_index").and_then(Value::as_u64).unwrap_or(0);
        let Some(map) = self.item.as_object_mut() else { return };
        let content = map.entry("content").or_insert_with(|| json!([]));
        let Some(parts) = content.as_array_mut() else { return };
        if at == parts.len() as u64 {
            let mut part = json!({"type": kind, key: ""});
            if kind == "output_text" {
                part["annotations"] = json!([]);
            }
            parts.push(part);
        }
        if let Some(part) = usize::try_from(at).ok().and_then(|at| parts.get_mut(at)) {
            json::append_text(part, key, json::text(event, "delta"));
        }
    }

    /// The item for the history.
    fn into_history(mut self) -> Option<Value> {
        self.merge_deltas();
        match json::text(&self.item, "type") {
            "function_call" => {
                let raw = match self.item.get_mut("arguments").map(Value::take) {
                    Some(Value::String(raw)) => raw,
                    Some(Value::Null) | None => String::new(),
                    Some(data) => data.to_string(),
                };
                self.item["arguments"] = Value::String(json::object_text(raw));
                if !self.is_full {
                    self.item["status"] = Value::from("incomplete");
                }
            }
            "message" if !self.is_done => self.item["status"] = Value::from("incomplete"),
            "custom_tool_call" => {}
            // Truncated reasoning and built-in tool calls cannot be continued.
            _ if !self.is_done => return None,
            _ => {}
        }
        Some(self.item)
    }
}

impl Decoder {
    fn find(&self, event: &Value) -> Option<usize> {
        let item = event.get("item").map(|item| json::text(item, "id")).unwrap_or_default();
        match event.get("output_index").and_then(Value::as_u64) {
            Some(index) => self.by_index.get(&index).copied(),
            None => match (json::text(event, "item_id"), item) {
                ("", "") => self.items.len().checked_sub(1),
                ("", id) | (id, _) => self.by_id.get(id).copied(),
            },
        }
    }

    /// Finds an item of the complete response that ends the stream. Ids are more reliable than
    /// positions, because items may be missing from the stream.
    fn find_last(&self, index: u64, item: &Value) -> Option<usize> {
        let known = |map: &HashMap<String, usize>, key| map.get(json::text(item, key)).copied();
        known(&self.by_id, "id").or_else(|| known(&self.by_call, "call_id")).or_else(|| {
            // Some servers generate new ids for the end. Equal content means the same call.
            let at = self.by_index.get(&index).copied()?;
            let streamed = &self.items[at];
            let fits = |key| {
                let (one, other) = (json::text(&streamed.item, key), json::text(item, key));
                one.is_empty() || other.is_empty() || one == other
            };
            let says =
                |field| !streamed.is_full || is_same(streamed.item.get(field), item.get(field));
            let is_it = fits("type")
                && fits("name")
                && (fits("call_id") || streamed.field().is_none_or(says));
            is_it.then_some(at)
        })
    }

    fn add(&mut self, index: Option<u64>, item: &Value) -> usize {
        let at = self.items.len();
        let index = index.unwrap_or(at as u64);
        self.by_index.insert(index, at);
        self.index_ids(at, item);
        let item = if item.is_object() { item.clone() } else { json!({}) };
        self.items.push(PartialItem {
            item,
            index,
            pieces: String::new(),
            is_given: false,
            is_done: false,
            is_full: false,
        });
        at
    }

    /// Indexes an item by its ids; of two with the same id, the first wins.
    fn index_ids(&mut self, at: usize, item: &Value) {
        for (map, key) in [(&mut self.by_id, "id"), (&mut self.by_call, "call_id")] {
            let id = json::text(item, key);
            if !id.is_empty() {
                map.entry(id.to_owned()).or_insert(at);
            }
        }
    }

    /// Takes the `done` event of an item.
    fn done(
        &mut self,
        at: usize,
        item: &Value,
        ready: &mut Vec<DecodedCall>,
    ) -> Result<(), String> {
        let Some(partial) = self.items.get_mut(at) else { return Ok(()) };
        if partial.is_done || !item.is_object() {
            return Ok(());
        }
        if partial.is_given {
            let field = partial.field().unwrap_or("arguments");
            if !is_same(partial.item.get(field), item.get(field)) {
                return Err("a call was changed after it was complete".to_owned());
            }
        }
        partial.is_done = true;
        partial.is_full = true;
        let mut item = item.clone();
        // A call that was returned keeps the id that it had.
        if partial.is_given
            && let Some(id) = json::some(&partial.item, "call_id")
        {
            item["call_id"] = id.clone();
        }
        // For servers that send the arguments only as deltas.
        if !partial.is_given
            && let Some(field) = partial.field()
            && json::text(&item, field).is_empty()
            && !partial.pieces.is_empty()
        {
            item[field] = Value::String(std::mem::take(&mut partial.pieces));
        }
        self.index_ids(at, &item);
        self.items[at].item = item;
        self.release_from(at, ready);
        Ok(())
    }

    /// Returns complete calls, in the order of the response.
    fn release_from(&mut self, at: usize, ready: &mut Vec<DecodedCall>) {
        // A position that is used twice was passed already.
        if self.items[at].index < self.next {
            self.release(at, ready);
        }
        while let Some(at) = self.by_index.get(&self.next).copied() {
            let partial = &self.items[at];
            let is_call = partial.field().is_some();
            if is_call && !partial.is_given && !self.release(at, ready) {
                return;
            }
            self.next += 1;
        }
    }

    /// Returns an item if it is a complete call, and whether it was one.
    fn release(&mut self, at: usize, ready: &mut Vec<DecodedCall>) -> bool {
        let Some(partial) = self.items.get_mut(at) else { return false };
        if partial.is_given || !partial.is_full || !is_whole(&partial.item) {
            return false;
        }
        let Some(decoded) = decode_call(&partial.item) else { return false };
        partial.is_given = true;
        partial.pieces = String::new();
        ready.push(decoded);
        self.given.push(at);
        true
    }

    /// The items in the order of the response.
    fn in_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.items.len()).collect();
        order.sort_by_key(|at| self.items[*at].index);
        order
    }

    /// Takes the `done` event of arguments. Its value replaces the collected deltas.
    fn pieces_done(&mut self, event: &Value, ready: &mut Vec<DecodedCall>) {
        let Some(at) = self.find(event) else { return };
        let partial = &mut self.items[at];
        let Some(field) = partial.field().filter(|_| !partial.is_given && !partial.is_done) else {
            return;
        };
        match event.get(field).and_then(Value::as_str) {
            Some(whole) => partial.item[field] = Value::from(whole),
            None => partial.item[field] = Value::String(std::mem::take(&mut partial.pieces)),
        }
        partial.pieces = String::new();
        let is_named = ["call_id", "name"].iter().all(|k| !json::text(&partial.item, k).is_empty());
        if is_named {
            partial.item["status"] = Value::from("completed");
            partial.is_full = true;
            self.release_from(at, ready);
        }
    }

    /// Takes the last event: the complete response, with items that some servers send only here.
    fn end(&mut self, event: &Value, ready: &mut Vec<DecodedCall>) -> Result<(), String> {
        let response = event.get("response").unwrap_or(&Value::Null);
        let mut taken = HashSet::new();
        for (index, item) in json::list(response, "output").iter().enumerate() {
            let index = index as u64;
            let at = match self.find_last(index, item).filter(|at| !taken.contains(at)) {
                Some(at) => at,
                None => self.add(Some(index), item),
            };
            taken.insert(at);
            // This position is final, whatever came before.
            self.items[at].index = index;
            self.by_index.insert(index, at);
            self.done(at, item, ready)?;
            if ready.len() > MAX_CALLS {
                return Err(super::too_many());
            }
        }
        let is_lost = |(at, partial): (usize, &PartialItem)| {
            partial.field().is_some() && !taken.contains(&at)
        };
        if !taken.is_empty() && self.items.iter().enumerate().any(is_lost) {
            return Err("the complete response lacks a call that was streamed".to_owned());
        }
        // Calls that were held back for a position that never came.
        for at in self.in_order() {
            let partial = &self.items[at];
            if partial.field().is_some() && !partial.is_given && !self.release(at, ready) {
                break;
            }
        }
        let mut end = json!({});
        for key in ["status", "incomplete_details", "error"] {
            if let Some(value) = json::some(response, key) {
                end[key] = value.clone();
            }
        }
        if json::text(event, "type") == "response.failed" {
            end["status"] = Value::from("failed");
        }
        self.end = Some(end);
        match self.end.as_ref().and_then(|end| json::some(end, "error")) {
            Some(error) => Err(format!("the provider failed: {}", json::text(error, "message"))),
            None => Ok(()),
        }
    }
}

/// Whether two texts of arguments are equal except for whitespace.
fn is_same(one: Option<&Value>, other: Option<&Value>) -> bool {
    let read = |value: Option<&Value>| -> Option<Value> {
        serde_json::from_str(value.and_then(Value::as_str)?).ok()
    };
    one == other || read(one).is_some_and(|one| Some(one) == read(other))
}

impl EventHandler for Decoder {
    fn event(&mut self, event: &Value, ready: &mut Vec<DecodedCall>) -> Result<(), String> {
        if self.end.is_some() {
            // After the end, only a worse end counts.
            return match json::text(event, "type") {
                kind @ ("response.failed" | "response.incomplete") => {
                    Err(format!("`{kind}` comes after the end"))
                }
                _ => Ok(()),
            };
        }
        let index = event.get("output_index").and_then(Value::as_u64);
        let item = event.get("item").unwrap_or(&Value::Null);
        match json::text(event, "type") {
            "response.output_item.added" => {
                self.add(index, item);
            }
            "response.output_item.done" => {
                let at = match self.find(event).filter(|at| !self.items[*at].is_done) {
                    Some(at) => at,
                    None => self.add(index, item),
                };
                self.done(at, item, ready)?;
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                let Some(partial) = self.find(event).and_then(|at| self.items.get_mut(at)) else {
                    return Err("a chunk belongs to no open item".to_owned());
                };
                if partial.is_given {
                    return Err("a call continues after it was complete".to_owned());
                }
                partial.pieces.push_str(json::text(event, "delta"));
            }
            "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => {
                self.pieces_done(event, ready);
            }
            kind @ ("response.output_text.delta" | "response.refusal.delta") => {
                let partial = self.find(event).and_then(|at| self.items.get_mut(at));
                if let Some(partial) = partial.filter(|partial| !partial.is_done) {
                    if kind == "response.refusal.delta" {
                        partial.append_delta(event, "refusal", "refusal")
                    } else {
                        partial.append_delta(event, "output_text", "text")
                    }
                }
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.end(event, ready)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn close(mut self: Box<Self>) -> Closing {
        let mut open = Vec::new();
        let order = self.in_order();
        for at in order.iter().copied() {
            let partial = &mut self.items[at];
            partial.merge_deltas();
            if !partial.is_given
                && let Some(decoded) = decode_call(&partial.item)
            {
                open.push(decoded);
                self.given.push(at);
            }
        }
        let stop = self.end.as_ref().map(|end| {
            match stop(end, self.items.iter().map(|partial| &partial.item)) {
                StopReason::Done if !open.is_empty() => StopReason::Truncated,
                stop => stop,
            }
        });
        let mut items = Vec::new();
        let mut moved = vec![0; order.len()];
        let mut streamed: Vec<_> = self.items.into_iter().map(Some).collect();
        for at in order {
            moved[at] = items.len();
            items.extend(streamed[at].take().and_then(PartialItem::into_history));
        }
        let places = self.given.iter().map(|at| format!("/{}/call_id", moved[*at])).collect();
        Closing { open, stop, message: Value::Array(items), places }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_stop_reason_is_mapped() {
        for (status, reason, wanted) in [
            ("completed", None, StopReason::Done),
            ("incomplete", None, StopReason::Truncated),
            ("incomplete", Some("max_output_tokens"), StopReason::Truncated),
            ("incomplete", Some("max_messages"), StopReason::Truncated),
            ("incomplete", Some("steered"), StopReason::Truncated),
            ("incomplete", Some("content_filter"), StopReason::Refused),
            ("failed", None, StopReason::Unknown),
            ("cancelled", None, StopReason::Unknown),
            ("queued", None, StopReason::Unknown),
            ("in_progress", None, StopReason::Unknown),
            ("something_new", None, StopReason::Unknown),
        ] {
            let details = reason.map(|reason| json!({"reason": reason}));
            let response = json!({"output": [], "status": status, "incomplete_details": details});
            assert_eq!(parse(&response).unwrap().stop, wanted, "{status} {reason:?}");
        }
        for status in ["incomplete", "in_progress"] {
            let item = json!({"type": "function_call", "status": status});
            let response = json!({"output": [item], "status": "completed"});
            assert_eq!(parse(&response).unwrap().stop, StopReason::Truncated, "a call was cut off");
        }
    }

    #[test]
    fn free_text_input_becomes_one_argument() {
        let response = json!({"status": "completed", "output": [
            {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "select 1"},
            {"type": "web_search_call", "id": "w", "status": "completed"},
            {"type": "mcp_call", "id": "m", "name": "x", "arguments": "{}"},
            {"type": "shell_call", "id": "s", "call_id": "s"},
        ]});
        let calls = parse(&response).unwrap().calls;
        assert_eq!(calls, [ToolCall::new("c", "sql", json!({"input": "select 1"}))]);
    }
}
