//! OpenAI Chat Completions and its many copies: `tool_calls` in, one message per call out.
//!
//! The copies differ in small ways, and all of them are taken: no index, no id, an id in every
//! piece, a name in pieces, arguments as data, the single `function_call` of old. Mistral is one of
//! the copies; what is its own is in `mistral`.
//!
//! A `custom` call has free text for input; it becomes a call with the one argument `input`.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{
    Dialect, Response,
    asked::{Form, Reply, Spoken},
    content,
    json::{self, Outline},
    stream::{Closing, Ear},
    unreadable,
};
use crate::{
    error::Error,
    turn::{Arguments, Call, Stop},
};

/// The longest text that a message may have, in characters.
const MAX_OUTPUT: usize = 10_485_760;

pub(super) fn parse(response: &Value) -> Result<Response, Error> {
    let (spoken, reason, message) = read(Dialect::OpenAiChat, response)?;
    let stop = stop(reason.as_str(), message);
    Ok(Response::new(Dialect::OpenAiChat, spoken, stop))
}

/// Reads what all copies share: the calls of the first choice, its ending, and its message.
pub(super) fn read(
    dialect: Dialect,
    response: &Value,
) -> Result<(Vec<Spoken>, &Value, &Value), Error> {
    let Some(choices) = response.get("choices").and_then(Value::as_array) else {
        return Err(unreadable(dialect, response, "it has no `choices` array"));
    };
    let Some(choice) = choices.iter().find(|choice| is_first(choice)) else {
        return Err(unreadable(dialect, response, "its `choices` hold no first choice"));
    };
    let Some(message) = choice.get("message").filter(|message| message.is_object()) else {
        return Err(unreadable(dialect, response, "its choice has no `message`"));
    };
    let calls = json::list(message, "tool_calls").iter();
    let mut calls: Vec<Spoken> = calls.map(|call| spoken(dialect, call)).collect();
    if let Some(call) = json::some(message, "function_call") {
        calls.push(legacy(call));
    }
    Ok((calls, choice.get("finish_reason").unwrap_or(&Value::Null), message))
}

/// Of several choices the first is the message; the others were asked for by somebody else.
fn is_first(choice: &Value) -> bool {
    choice.is_object() && choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0
}

fn spoken(dialect: Dialect, call: &Value) -> Spoken {
    let id = given_id(dialect, call).unwrap_or_default();
    if let Some(custom) = json::some(call, "custom") {
        let arguments = json!({"input": json::text(custom, "input")});
        let mut spoken = Spoken::new(Call::new(id, json::text(custom, "name"), arguments));
        spoken.expected.form = Form::Custom;
        return spoken;
    }
    let function = call.get("function").unwrap_or(&Value::Null);
    Spoken::new(Call::new(id, json::text(function, "name"), arguments(function)))
}

fn legacy(call: &Value) -> Spoken {
    let mut spoken = Spoken::new(Call::new("", json::text(call, "name"), arguments(call)));
    spoken.expected.form = Form::Legacy;
    spoken
}

fn arguments(function: &Value) -> Arguments {
    match function.get("arguments") {
        Some(Value::String(text)) => Arguments::Text(text.clone()),
        Some(data) => Arguments::Json(data.clone()),
        None => Arguments::Text(String::new()),
    }
}

/// Mistral writes the word `null` where it has no id.
fn given_id(dialect: Dialect, call: &Value) -> Option<&str> {
    let none = |id: &str| id.is_empty() || (dialect == Dialect::Mistral && id == "null");
    call.get("id").and_then(Value::as_str).filter(|id| !none(id))
}

pub(super) fn stop(reason: Option<&str>, message: &Value) -> Stop {
    let refused = !json::text(message, "refusal").is_empty();
    match reason {
        Some("stop" | "tool_calls" | "function_call") if refused => Stop::Refused,
        Some("stop" | "tool_calls" | "function_call") => Stop::Done,
        Some("length") => Stop::Truncated,
        Some("content_filter") => Stop::Refused,
        Some(_) | None => Stop::Unknown,
    }
}

pub(super) fn answer(replies: &[Reply<'_>]) -> Value {
    replies
        .iter()
        .map(|reply| {
            let text = content::clip(content::plain(reply.answer), MAX_OUTPUT);
            match reply.expected.form {
                Form::Function | Form::Custom => {
                    json!({"role": "tool", "tool_call_id": reply.id(), "content": text})
                }
                Form::Legacy => {
                    json!({"role": "function", "name": reply.expected.name, "content": text})
                }
            }
        })
        .collect()
}

/// Listens to the pieces of the first choice.
#[derive(Debug)]
pub(super) struct Listener {
    dialect: Dialect,
    message: Map<String, Value>,
    calls: Vec<Growing>,
    by_index: HashMap<u64, usize>,
    legacy: Option<Growing>,
    /// How many calls, from the front, were given out.
    given: usize,
    /// The call that the last piece belonged to.
    current: Option<usize>,
    reason: Option<String>,
    /// Something came after the end.
    is_late: bool,
}

#[derive(Debug, Default)]
struct Growing {
    id: String,
    name: String,
    form: Form,
    arguments: Pieces,
    /// Whatever else stood beside the function.
    also: Map<String, Value>,
    /// The single call of old was given out. Of the others it is known by their number.
    is_given: bool,
}

/// The arguments so far.
#[derive(Debug)]
enum Pieces {
    Text(String, Outline),
    Data(Value),
}

impl Default for Pieces {
    fn default() -> Self {
        Self::Text(String::new(), Outline::default())
    }
}

impl Pieces {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Text(text, _) if text.is_empty())
    }

    fn add(&mut self, piece: &Value) {
        match (self, piece) {
            (Self::Text(text, outline), Value::String(piece)) => {
                text.push_str(piece);
                outline.add(piece);
            }
            (_, Value::Null) => {}
            (this, data) => *this = Self::Data(data.clone()),
        }
    }

    /// Whether nothing more can follow.
    fn is_whole(&self) -> bool {
        match self {
            Self::Text(_, outline) => outline.is_whole(),
            Self::Data(_) => true,
        }
    }
}

impl Growing {
    fn spoken(&self) -> Spoken {
        let arguments = match (&self.arguments, self.form) {
            (Pieces::Text(text, _), Form::Custom) => Arguments::Json(json!({"input": text})),
            (Pieces::Text(text, _), Form::Function | Form::Legacy) => Arguments::Text(text.clone()),
            (Pieces::Data(data), _) => Arguments::Json(data.clone()),
        };
        let mut spoken = Spoken::new(Call::new(&*self.id, &*self.name, arguments));
        spoken.expected.form = self.form;
        spoken
    }

    /// The function as it is echoed.
    fn function(self) -> (Form, Value, Map<String, Value>) {
        let function = match (self.form, self.arguments) {
            (Form::Custom, Pieces::Text(text, _)) => json!({"name": self.name, "input": text}),
            (_, Pieces::Text(text, _)) => {
                json!({"name": self.name, "arguments": json::object_text(text)})
            }
            (_, Pieces::Data(data)) if data.is_object() => {
                json!({"name": self.name, "arguments": data})
            }
            (_, Pieces::Data(data)) => {
                json!({"name": self.name, "arguments": json::object_text(data.to_string())})
            }
        };
        let mut also = self.also;
        if !self.id.is_empty() {
            also.insert("id".to_owned(), Value::String(self.id));
        }
        (self.form, function, also)
    }
}

impl Listener {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            message: Map::new(),
            calls: Vec::new(),
            by_index: HashMap::new(),
            legacy: None,
            given: 0,
            current: None,
            reason: None,
            is_late: false,
        }
    }

    /// The call that a piece belongs to.
    fn find(&mut self, piece: &Value) -> usize {
        let id = given_id(self.dialect, piece);
        let function = json::some(piece, "function").or_else(|| json::some(piece, "custom"));
        let name = function.map(|f| json::text(f, "name")).unwrap_or_default();
        let index = piece.get("index").and_then(Value::as_u64);
        let known = match index {
            Some(index) => self.by_index.get(&index).copied(),
            None => self.calls.len().checked_sub(1),
        };
        if let Some(at) = known {
            let call = &self.calls[at];
            // Without an id, only a name can open another call: one that is not the same, or one
            // that brings arguments where there is no room for more.
            let has_more = function.and_then(|f| json::some(f, "arguments")) != Some(&json!(""));
            let is_full = call.arguments.is_whole() && has_more;
            let is_named = !name.is_empty() && !call.name.is_empty();
            let is_other = match id {
                Some(_) if call.id.is_empty() => is_named && is_full,
                Some(id) => call.id != id,
                None if index.is_none() => is_named && (call.name != name || is_full),
                None => is_named && !call.arguments.is_empty() && (call.name != name || is_full),
            };
            if !is_other {
                return at;
            }
        }
        let at = self.calls.len();
        self.calls.push(Growing::default());
        if let Some(index) = index {
            self.by_index.insert(index, at);
        }
        at
    }

    fn piece(&mut self, piece: &Value, give: &mut Vec<Spoken>) -> Result<(), String> {
        let at = self.find(piece);
        if self.reason.is_none() && self.current.is_some_and(|current| current != at) {
            self.give_whole(at, give);
        }
        self.current = Some(at);
        let dialect = self.dialect;
        let call = &mut self.calls[at];
        let is_custom = json::some(piece, "custom").is_some();
        let (function, field) = match is_custom {
            true => (piece.get("custom"), "input"),
            false => (piece.get("function"), "arguments"),
        };
        let more = function.and_then(|function| json::some(function, field));
        if at < self.given {
            // Blanks may follow an object; anything else would change what already runs.
            return match more {
                Some(Value::String(text)) if !text.trim().is_empty() => {
                    Err("a call goes on after it was complete".to_owned())
                }
                _ => Ok(()),
            };
        }
        if is_custom {
            call.form = Form::Custom;
        }
        if let Some(id) = given_id(dialect, piece).filter(|_| call.id.is_empty()) {
            call.id = id.to_owned();
        }
        let name = function.map(|f| json::text(f, "name")).unwrap_or_default();
        // Some servers repeat the name, others send it in pieces; what equals it is a repetition.
        if call.name != name && (call.arguments.is_empty() || call.name.is_empty()) {
            call.name.push_str(name);
        }
        if let Some(more) = more {
            call.arguments.add(more);
        }
        for (key, value) in piece.as_object().into_iter().flatten() {
            if !matches!(key.as_str(), "index" | "id" | "function" | "custom") && !value.is_null() {
                call.also.insert(key.clone(), value.clone());
            }
        }
        Ok(())
    }

    /// Gives out, from the front, the calls that are surely whole; `but` is being written.
    fn give_whole(&mut self, but: usize, give: &mut Vec<Spoken>) {
        while self.given < self.calls.len() && self.given != but {
            let call = &self.calls[self.given];
            if call.form == Form::Custom || !call.arguments.is_whole() {
                return;
            }
            give.push(call.spoken());
            self.given += 1;
        }
    }

    fn give_all(&mut self, give: &mut Vec<Spoken>) {
        give.extend(self.calls[self.given..].iter().map(Growing::spoken));
        self.given = self.calls.len();
        if let Some(call) = &mut self.legacy {
            call.is_given = true;
            give.push(call.spoken());
        }
    }

    fn delta(&mut self, delta: &Value, give: &mut Vec<Spoken>) -> Result<(), String> {
        let pieces = json::list(delta, "tool_calls");
        let legacy = json::some(delta, "function_call");
        if self.reason.is_some() && (!pieces.is_empty() || legacy.is_some()) {
            self.is_late = true;
        }
        for piece in pieces {
            self.piece(piece, give)?;
        }
        if let Some(piece) = legacy {
            let call = self
                .legacy
                .get_or_insert_with(|| Growing { form: Form::Legacy, ..Growing::default() });
            call.name.push_str(json::text(piece, "name"));
            call.arguments.add(piece.get("arguments").unwrap_or(&Value::Null));
        }
        for (key, piece) in delta.as_object().into_iter().flatten() {
            match key.as_str() {
                "role" | "tool_calls" | "function_call" | "index" | "tool_call_id" => {}
                _ => append(self.message.entry(key.clone()).or_insert(Value::Null), piece),
            }
        }
        Ok(())
    }
}

/// Adds a piece to a field of a message. Text grows, lists grow, and text beside chunks becomes one.
fn append(field: &mut Value, piece: &Value) {
    let chunk = |text: &str| json!({"type": "text", "text": text});
    match (&mut *field, piece) {
        (_, Value::Null) => {}
        (Value::String(text), Value::String(piece)) => text.push_str(piece),
        (Value::Array(list), Value::Array(more)) => list.extend(more.iter().cloned()),
        (Value::Array(list), Value::String(piece)) => match list.last_mut() {
            _ if piece.is_empty() => {}
            Some(last) if json::text(last, "type") == "text" => json::grow(last, "text", piece),
            _ => list.push(chunk(piece)),
        },
        (Value::String(text), Value::Array(more)) => {
            let first = (!text.is_empty()).then(|| chunk(text));
            *field = first.into_iter().chain(more.iter().cloned()).collect();
        }
        (Value::Object(map), Value::Object(more)) => {
            for (key, piece) in more {
                match (map.get_mut(key), piece) {
                    (Some(Value::String(text)), Value::String(piece)) if key != "id" => {
                        text.push_str(piece);
                    }
                    _ => {
                        map.insert(key.clone(), piece.clone());
                    }
                }
            }
        }
        _ => *field = piece.clone(),
    }
}

impl Ear for Listener {
    fn event(&mut self, event: &Value, give: &mut Vec<Spoken>) -> Result<(), String> {
        for choice in json::list(event, "choices").iter().filter(|choice| is_first(choice)) {
            if let Some(delta) = json::some(choice, "delta") {
                self.delta(delta, give)?;
            }
            if let Some(reason) = json::some(choice, "finish_reason").and_then(Value::as_str) {
                // Some servers name a reason, an empty one, in every piece.
                if self.reason.is_none() && !reason.is_empty() {
                    self.reason = Some(reason.to_owned());
                    self.give_all(give);
                }
            }
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Closing {
        let Self { dialect, message: said, calls, legacy, given, reason, is_late, .. } = *self;
        let mut open: Vec<Spoken> = calls[given..].iter().map(Growing::spoken).collect();
        open.extend(legacy.iter().filter(|call| !call.is_given).map(Growing::spoken));
        let mut message = json!({"role": "assistant", "content": null});
        for (key, value) in said {
            message[key] = value;
        }
        let stop = reason.map(|reason| match dialect {
            _ if is_late => Stop::Unknown,
            Dialect::Mistral => super::mistral::stop(Some(&reason)),
            _ => stop(Some(&reason), &message),
        });
        let mut places = Vec::new();
        if !calls.is_empty() {
            if dialect != Dialect::Mistral {
                places.extend((0..calls.len()).map(|at| format!("/tool_calls/{at}/id")));
            }
            message["tool_calls"] = calls.into_iter().map(|call| echoed(call, dialect)).collect();
        }
        if let Some(call) = legacy {
            message["function_call"] = call.function().1;
        }
        Closing { open, stop, message, places }
    }
}

fn echoed(call: Growing, dialect: Dialect) -> Value {
    let (form, function, also) = call.function();
    let (kind, field) = match form {
        Form::Custom => ("custom", "custom"),
        Form::Function | Form::Legacy => ("function", "function"),
    };
    // The id stands first, and is there to be filled in where it is missing.
    let mut echoed = json!({"id": null, "type": kind, field: function});
    for (key, value) in also {
        echoed[key] = value;
    }
    if dialect == Dialect::Mistral
        && let Some(map) = echoed.as_object_mut()
    {
        map.retain(|_, value| !value.is_null());
    }
    echoed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_ending_has_its_meaning() {
        for (reason, wanted) in [
            ("stop", Stop::Done),
            ("tool_calls", Stop::Done),
            ("function_call", Stop::Done),
            ("length", Stop::Truncated),
            ("content_filter", Stop::Refused),
            ("something_new", Stop::Unknown),
        ] {
            let choice = json!({"index": 0, "finish_reason": reason, "message": {}});
            let response = json!({"choices": [choice]});
            assert_eq!(parse(&response).unwrap().stop, wanted, "{reason}");
        }
        let refused = json!({"choices": [{"finish_reason": "stop", "message": {"refusal": "no"}}]});
        assert_eq!(parse(&refused).unwrap().stop, Stop::Refused);
        let open = json!({"choices": [{"finish_reason": null, "message": {}}]});
        assert_eq!(parse(&open).unwrap().stop, Stop::Unknown);
    }

    fn heard(deltas: &[Value]) -> (Vec<Vec<Call>>, super::super::Ended) {
        let mut stream = Dialect::OpenAiChat.stream();
        let chunk = |delta: &Value| json!({"choices": [{"index": 0, "delta": delta}]});
        let mut calls: Vec<_> = deltas.iter().map(|delta| stream.event(&chunk(delta))).collect();
        let end = json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]});
        calls.push(stream.event(&end));
        (calls, stream.finish())
    }

    fn piece(index: Option<u64>, id: Option<&str>, name: Option<&str>, text: &str) -> Value {
        let mut piece = json!({"function": {"arguments": text}});
        if let Some(index) = index {
            piece["index"] = index.into();
        }
        if let Some(id) = id {
            piece["id"] = id.into();
        }
        if let Some(name) = name {
            piece["function"]["name"] = name.into();
        }
        json!({"tool_calls": [piece]})
    }

    #[test]
    fn every_habit_of_the_copies_gives_the_same_calls() {
        let wanted = [Call::new("a", "read", "{\"x\":1}"), Call::new("b", "read", "{\"x\":2}")];
        let as_documented = [
            piece(Some(0), Some("a"), Some("read"), ""),
            piece(Some(0), None, None, "{\"x\""),
            piece(Some(0), None, None, ":1}"),
            piece(Some(1), Some("b"), Some("read"), "{\"x\":2}"),
        ];
        let without_index = [
            piece(None, Some("a"), Some("read"), "{\"x\""),
            piece(None, None, None, ":1}"),
            piece(None, Some("b"), Some("read"), "{\"x\":2}"),
        ];
        let always_zero = [
            piece(Some(0), Some("a"), Some("read"), "{\"x\":1}"),
            piece(Some(0), Some("b"), Some("read"), "{\"x\":2}"),
        ];
        let repeating = [
            piece(Some(0), Some("a"), Some("read"), "{\"x\""),
            piece(Some(0), Some("a"), Some("read"), ":1}"),
            piece(Some(1), Some("b"), Some("read"), ""),
            piece(Some(1), Some("b"), Some("read"), "{\"x\":2}"),
        ];
        let name_in_pieces = [
            piece(Some(0), Some("a"), Some("re"), ""),
            piece(Some(0), None, Some("ad"), ""),
            piece(Some(0), None, None, "{\"x\":1}"),
            piece(Some(1), Some("b"), Some("read"), "{\"x\":2}"),
        ];
        let interleaved = [
            piece(Some(0), Some("a"), Some("read"), "{\"x\""),
            piece(Some(1), Some("b"), Some("read"), "{\"x\""),
            piece(Some(0), None, None, ":1}"),
            piece(Some(1), None, None, ":2}"),
        ];
        let without_anything =
            [json!({"tool_calls": [{"function": {"name": "read", "arguments": "{\"x\":1}"}},
                                  {"function": {"name": "read", "arguments": "{\"x\":2}"}}]})];
        let (calls, _) = heard(&without_anything);
        let plain: Vec<_> = calls.concat().into_iter().map(|call| call.arguments).collect();
        assert_eq!(plain, wanted.clone().map(|call| call.arguments));
        for deltas in [
            &as_documented[..],
            &without_index,
            &always_zero,
            &repeating,
            &name_in_pieces,
            &interleaved,
        ] {
            let (calls, ended) = heard(deltas);
            assert_eq!(calls.concat(), wanted, "{deltas:?}");
            assert_eq!((ended.stop, ended.calls), (Stop::Done, vec![]), "{deltas:?}");
        }
        let (calls, _) = heard(&as_documented);
        assert_eq!(calls[3].len(), 1, "the first is given out when the second begins");
    }

    #[test]
    fn a_call_that_goes_on_after_it_ran_spoils_the_stream() {
        let (_, ended) = heard(&[
            piece(Some(0), Some("a"), Some("read"), "{}"),
            piece(Some(1), Some("b"), Some("read"), "{}"),
            piece(Some(0), None, None, "{}"),
        ]);
        assert_eq!(ended.stop, Stop::Unknown);
        assert!(ended.problem.unwrap().message().contains("goes on"));
    }

    #[test]
    fn calls_after_the_end_are_open_and_run_nothing() {
        let mut stream = Dialect::OpenAiChat.stream();
        let late = piece(Some(0), Some("a"), Some("read"), "{}");
        let end = json!({"choices": [{"delta": {}, "finish_reason": "stop"}]});
        assert!(stream.event(&end).is_empty());
        assert!(stream.event(&json!({"choices": [{"delta": late}]})).is_empty());
        let ended = stream.finish();
        assert_eq!((ended.calls.len(), ended.stop), (1, Stop::Unknown));
    }
}
