//! OpenAI Responses: `function_call` items in, a list of `function_call_output` items out.
//!
//! A `custom_tool_call` has free text for input. It becomes a call with the one argument `input`, so
//! that a tool with one text parameter of that name can be offered as a custom tool; it is answered
//! with a `custom_tool_call_output`. Items of tools that run at the provider, and of its built-in
//! client tools (`computer_call`, `shell_call`, …), are not our calls.

use std::collections::HashMap;

use haft_core::Block;
use serde_json::{Value, json};

use super::{
    Dialect, Response,
    asked::{Form, Reply, Spoken},
    content, json,
    stream::{Closing, Ear},
    unreadable,
};
use crate::{
    error::Error,
    turn::{Arguments, Call, Stop},
};

/// The longest text that an output may have, in characters.
const MAX_OUTPUT: usize = 10_485_760;

pub(super) fn parse(response: &Value) -> Result<Response, Error> {
    let Some(items) = response.get("output").and_then(Value::as_array) else {
        return Err(unreadable(Dialect::OpenAiResponses, response, "it has no `output` array"));
    };
    let spoken = items.iter().filter_map(spoken);
    let stop = stop(response, items.iter());
    Ok(Response::new(Dialect::OpenAiResponses, spoken, stop))
}

/// The call that an item is, if it is one of ours.
fn spoken(item: &Value) -> Option<Spoken> {
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
    let call = Call::new(json::text(item, "call_id"), json::text(item, "name"), arguments);
    let mut spoken = Spoken::new(call).with(item, &["caller"]);
    spoken.expected.form = form;
    Some(spoken)
}

fn stop<'a>(response: &Value, items: impl Iterator<Item = &'a Value>) -> Stop {
    let mut cut = false;
    let mut refused = false;
    for item in items {
        match json::text(item, "type") {
            "function_call" | "custom_tool_call" => {
                cut |= matches!(json::text(item, "status"), "incomplete" | "in_progress");
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
        Some("incomplete") if reason == Some("content_filter") => Stop::Refused,
        _ if cut => Stop::Truncated,
        _ if refused => Stop::Refused,
        Some("completed") => Stop::Done,
        Some("incomplete") => Stop::Truncated,
        Some(_) | None => Stop::Unknown,
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

/// There is no error flag here: the failure's code opens the text.
fn output(reply: &Reply<'_>) -> Value {
    if !content::has_picture(reply.answer) {
        return Value::String(content::clip(content::plain(reply.answer), MAX_OUTPUT));
    }
    content::blocks(reply.answer)
        .iter()
        .map(|block| match block {
            Block::Image { data, media_type } if content::picture(media_type).is_some() => json!({
                "type": "input_image",
                "image_url": format!("data:{media_type};base64,{data}"),
            }),
            other => json!({
                "type": "input_text",
                "text": content::clip(content::described(other), MAX_OUTPUT),
            }),
        })
        .collect()
}

/// Listens to `response.output_item.*`, the pieces of arguments and texts, and the end.
#[derive(Debug, Default)]
pub(super) struct Listener {
    items: Vec<Growing>,
    by_index: HashMap<u64, usize>,
    by_id: HashMap<String, usize>,
    given: Vec<usize>,
    /// The last word of the provider: the whole response.
    end: Option<Value>,
}

#[derive(Debug)]
struct Growing {
    item: Value,
    /// The pieces of the arguments, or of the free input.
    pieces: String,
    is_given: bool,
    is_done: bool,
}

impl Growing {
    /// The field of a call that its pieces make up.
    fn field(&self) -> Option<&'static str> {
        match json::text(&self.item, "type") {
            "function_call" => Some("arguments"),
            "custom_tool_call" => Some("input"),
            _ => None,
        }
    }

    /// Writes the pieces into an item that did not get its last word.
    fn gather(&mut self) {
        if let Some(field) = self.field().filter(|_| !self.is_given && !self.pieces.is_empty()) {
            self.item[field] = Value::String(std::mem::take(&mut self.pieces));
        }
    }

    /// Writes a piece of a message's text where it belongs.
    fn say(&mut self, event: &Value, kind: &str, key: &str) {
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
            json::grow(part, key, json::text(event, "delta"));
        }
    }

    /// The item as it is echoed.
    fn settled(mut self) -> Option<Value> {
        self.gather();
        match json::text(&self.item, "type") {
            "function_call" => {
                let raw = match self.item.get_mut("arguments").map(Value::take) {
                    Some(Value::String(raw)) => raw,
                    Some(Value::Null) | None => String::new(),
                    Some(data) => data.to_string(),
                };
                self.item["arguments"] = Value::String(json::object_text(raw));
                if !self.is_done && !self.is_given {
                    self.item["status"] = Value::from("incomplete");
                }
            }
            "message" if !self.is_done => self.item["status"] = Value::from("incomplete"),
            "custom_tool_call" => {}
            // Reasoning and built-in tools that were cut off cannot be taken up again.
            _ if !self.is_done => return None,
            _ => {}
        }
        Some(self.item)
    }
}

impl Listener {
    fn find(&self, event: &Value) -> Option<usize> {
        match event.get("output_index").and_then(Value::as_u64) {
            Some(index) => self.by_index.get(&index).copied(),
            None => match json::text(event, "item_id") {
                "" => self.items.len().checked_sub(1),
                id => self.by_id.get(id).copied(),
            },
        }
    }

    fn add(&mut self, event: &Value, item: &Value) -> usize {
        let at = self.items.len();
        if let Some(index) = event.get("output_index").and_then(Value::as_u64) {
            self.by_index.insert(index, at);
        }
        let id = json::text(item, "id");
        if !id.is_empty() {
            self.by_id.insert(id.to_owned(), at);
        }
        let item = if item.is_object() { item.clone() } else { json!({}) };
        self.items.push(Growing { item, pieces: String::new(), is_given: false, is_done: false });
        at
    }

    /// Takes an item's last word.
    fn done(&mut self, at: usize, item: &Value, give: &mut Vec<Spoken>) -> Result<(), String> {
        let Some(growing) = self.items.get_mut(at) else { return Ok(()) };
        if growing.is_done || !item.is_object() {
            return Ok(());
        }
        if growing.is_given {
            let field = growing.field().unwrap_or("arguments");
            if growing.item.get(field) != item.get(field) {
                return Err("a call was changed after it was complete".to_owned());
            }
        }
        growing.is_done = true;
        let mut item = item.clone();
        // Servers that say the arguments in pieces only.
        if !growing.is_given
            && let Some(field) = growing.field()
            && json::text(&item, field).is_empty()
            && !growing.pieces.is_empty()
        {
            item[field] = Value::String(std::mem::take(&mut growing.pieces));
        }
        growing.item = item;
        self.give(at, give);
        Ok(())
    }

    fn give(&mut self, at: usize, give: &mut Vec<Spoken>) {
        let Some(growing) = self.items.get_mut(at).filter(|growing| !growing.is_given) else {
            return;
        };
        if let Some(spoken) = spoken(&growing.item) {
            growing.is_given = true;
            growing.pieces = String::new();
            give.push(spoken);
            self.given.push(at);
        }
    }

    /// Takes the end of the pieces of a call: what it says counts, not what was gathered.
    fn pieces_done(&mut self, event: &Value, give: &mut Vec<Spoken>) {
        let Some(at) = self.find(event) else { return };
        let growing = &mut self.items[at];
        let Some(field) = growing.field().filter(|_| !growing.is_given) else { return };
        match event.get(field).and_then(Value::as_str) {
            Some(whole) => growing.item[field] = Value::from(whole),
            None => growing.item[field] = Value::String(std::mem::take(&mut growing.pieces)),
        }
        let is_named = ["call_id", "name"].iter().all(|k| !json::text(&growing.item, k).is_empty());
        if is_named {
            growing.item["status"] = Value::from("completed");
            self.give(at, give);
        }
    }
}

impl Ear for Listener {
    fn event(&mut self, event: &Value, give: &mut Vec<Spoken>) -> Result<(), String> {
        if self.end.is_some() {
            return Ok(());
        }
        let item = event.get("item").unwrap_or(&Value::Null);
        match json::text(event, "type") {
            "response.output_item.added" => {
                self.add(event, item);
            }
            "response.output_item.done" => {
                let at = match self.find(event).filter(|at| !self.items[*at].is_done) {
                    Some(at) => at,
                    None => self.add(event, item),
                };
                self.done(at, item, give)?;
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                let Some(growing) = self.find(event).and_then(|at| self.items.get_mut(at)) else {
                    return Err("a piece belongs to no open item".to_owned());
                };
                if growing.is_given {
                    return Err("a call goes on after it was complete".to_owned());
                }
                growing.pieces.push_str(json::text(event, "delta"));
            }
            "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => {
                self.pieces_done(event, give);
            }
            kind @ ("response.output_text.delta" | "response.refusal.delta") => {
                let growing = self.find(event).and_then(|at| self.items.get_mut(at));
                if let Some(growing) = growing.filter(|growing| !growing.is_done) {
                    match kind == "response.refusal.delta" {
                        true => growing.say(event, "refusal", "refusal"),
                        false => growing.say(event, "output_text", "text"),
                    }
                }
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                let response = event.get("response").unwrap_or(&Value::Null);
                // Servers that say some items only at the end.
                for (index, item) in json::list(response, "output").iter().enumerate() {
                    let place = json!({"output_index": index});
                    let at = match self.find(&place) {
                        Some(at) => at,
                        None if index >= self.items.len() => self.add(&place, item),
                        None => index,
                    };
                    self.done(at, item, give)?;
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
                if let Some(error) = self.end.as_ref().and_then(|end| json::some(end, "error")) {
                    return Err(format!("the provider failed: {}", json::text(error, "message")));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn close(mut self: Box<Self>) -> Closing {
        let mut open = Vec::new();
        for (at, growing) in self.items.iter_mut().enumerate() {
            growing.gather();
            if !growing.is_given
                && let Some(spoken) = spoken(&growing.item)
            {
                open.push(spoken);
                self.given.push(at);
            }
        }
        let stop = self.end.as_ref().map(|end| {
            match stop(end, self.items.iter().map(|growing| &growing.item)) {
                Stop::Done if !open.is_empty() => Stop::Truncated,
                stop => stop,
            }
        });
        let mut items = Vec::new();
        let mut moved = Vec::new();
        for growing in self.items {
            moved.push(items.len());
            items.extend(growing.settled());
        }
        let places = self.given.iter().map(|at| format!("/{}/call_id", moved[*at])).collect();
        Closing { open, stop, message: Value::Array(items), places }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_ending_has_its_meaning() {
        for (status, reason, wanted) in [
            ("completed", None, Stop::Done),
            ("incomplete", None, Stop::Truncated),
            ("incomplete", Some("max_output_tokens"), Stop::Truncated),
            ("incomplete", Some("max_messages"), Stop::Truncated),
            ("incomplete", Some("steered"), Stop::Truncated),
            ("incomplete", Some("content_filter"), Stop::Refused),
            ("failed", None, Stop::Unknown),
            ("cancelled", None, Stop::Unknown),
            ("queued", None, Stop::Unknown),
            ("in_progress", None, Stop::Unknown),
            ("something_new", None, Stop::Unknown),
        ] {
            let details = reason.map(|reason| json!({"reason": reason}));
            let response = json!({"output": [], "status": status, "incomplete_details": details});
            assert_eq!(parse(&response).unwrap().stop, wanted, "{status} {reason:?}");
        }
        for status in ["incomplete", "in_progress"] {
            let item = json!({"type": "function_call", "status": status});
            let response = json!({"output": [item], "status": "completed"});
            assert_eq!(parse(&response).unwrap().stop, Stop::Truncated, "a call was cut off");
        }
    }

    #[test]
    fn free_text_becomes_one_argument() {
        let response = json!({"status": "completed", "output": [
            {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "select 1"},
            {"type": "web_search_call", "id": "w", "status": "completed"},
            {"type": "mcp_call", "id": "m", "name": "x", "arguments": "{}"},
            {"type": "shell_call", "id": "s", "call_id": "s"},
        ]});
        let calls = parse(&response).unwrap().calls;
        assert_eq!(calls, [Call::new("c", "sql", json!({"input": "select 1"}))]);
    }
}
