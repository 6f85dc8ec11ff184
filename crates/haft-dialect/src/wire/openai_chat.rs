//! OpenAI Chat Completions and compatible servers: `tool_calls` in, one message per call out.
//!
//! Compatible servers differ in small ways, and all of these are accepted: no index, no id, an id
//! in every chunk, a name in pieces, arguments as JSON values, the legacy `function_call`. Mistral
//! is one of them; its specifics are in `mistral`.
//!
//! A `custom` call has free text as input; it becomes a call with the one argument `input`.

use std::collections::HashMap;

use haft_core::{Arguments, Error, StopReason, ToolCall};
use serde_json::{Map, Value, json};

use super::{
    Dialect, MAX_CALLS, ModelResponse,
    json::{self, ObjectTracker},
    reply_context::{DecodedCall, Form, Reply},
    stream::{Closing, EventHandler},
    unreadable, worse,
};

/// The longest text of a message, in characters.
const MAX_OUTPUT_CHARS: usize = 10_485_760;

pub(super) fn parse(response: &Value) -> Result<ModelResponse, Error> {
    let (decoded, reason, message) = read(Dialect::OpenAiChat, response)?;
    let stop = stop(reason.as_str(), message);
    ModelResponse::new(Dialect::OpenAiChat, decoded, stop)
}

/// Decodes what all servers share: the calls of the first choice, its stop reason, and its message.
pub(super) fn read(
    dialect: Dialect,
    response: &Value,
) -> Result<(Vec<DecodedCall>, &Value, &Value), Error> {
    let Some(choices) = response.get("choices").and_then(Value::as_array) else {
        return Err(unreadable(dialect, response, "it has no `choices` array"));
    };
    let Some(choice) = first(choices) else {
        return Err(unreadable(dialect, response, "its `choices` have no first choice"));
    };
    let Some(message) = choice.get("message").filter(|message| message.is_object()) else {
        return Err(unreadable(dialect, response, "its choice has no `message`"));
    };
    let calls = json::list(message, "tool_calls").iter().take(MAX_CALLS + 1);
    let mut calls: Vec<DecodedCall> = calls.map(|call| decode_call(dialect, call)).collect();
    if let Some(call) = json::some(message, "function_call") {
        calls.push(legacy(call));
    }
    Ok((calls, choice.get("finish_reason").unwrap_or(&Value::Null), message))
}

/// Only the first choice is used. Without an index, their order decides which is first.
pub(super) fn first(choices: &[Value]) -> Option<&Value> {
    choices.iter().find(|choice| {
        choice.is_object() && choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0
    })
}

fn decode_call(dialect: Dialect, call: &Value) -> DecodedCall {
    let id = given_id(dialect, call).unwrap_or_default();
    if let Some(custom) = json::some(call, "custom") {
        let arguments = json!({"input": json::text(custom, "input")});
        let mut decoded =
            DecodedCall::new(ToolCall::new(id, json::text(custom, "name"), arguments));
        decoded.expected.form = Form::Custom;
        return decoded;
    }
    let function = call.get("function").unwrap_or(&Value::Null);
    DecodedCall::new(ToolCall::new(id, json::text(function, "name"), arguments(function)))
}

fn legacy(call: &Value) -> DecodedCall {
    let mut decoded =
        DecodedCall::new(ToolCall::new("", json::text(call, "name"), arguments(call)));
    decoded.expected.form = Form::Legacy;
    decoded
}

fn arguments(function: &Value) -> Arguments {
    match function.get("arguments") {
        Some(Value::String(text)) => Arguments::Text(text.clone()),
        Some(data) => Arguments::Json(data.clone()),
        None => Arguments::Text(String::new()),
    }
}

/// Mistral writes `null` as text where it has no id.
fn given_id(dialect: Dialect, call: &Value) -> Option<&str> {
    let none = |id: &str| id.is_empty() || (dialect == Dialect::Mistral && id == "null");
    call.get("id").and_then(Value::as_str).filter(|id| !none(id))
}

pub(super) fn stop(reason: Option<&str>, message: &Value) -> StopReason {
    let refused = !json::text(message, "refusal").is_empty();
    match reason {
        Some("stop" | "tool_calls" | "function_call") if refused => StopReason::Refused,
        Some("stop" | "tool_calls" | "function_call") => StopReason::Done,
        Some("length") => StopReason::Truncated,
        Some("content_filter") => StopReason::Refused,
        Some(_) | None => StopReason::Unknown,
    }
}

pub(super) fn answer(replies: &[Reply<'_>]) -> Value {
    replies
        .iter()
        .map(|reply| {
            let text = reply.content.to_text(MAX_OUTPUT_CHARS);
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

/// Interprets the chunks of the first choice.
#[derive(Debug)]
pub(super) struct Decoder {
    dialect: Dialect,
    message: Map<String, Value>,
    calls: Vec<PartialCall>,
    by_index: HashMap<u64, usize>,
    by_id: HashMap<String, usize>,
    legacy: Option<PartialCall>,
    /// How many calls, from the front, were returned.
    given: usize,
    /// The call that the last chunk belonged to.
    current: Option<usize>,
    /// The worst finish reason so far.
    reason: Option<String>,
    /// A call continued after the last finish reason, so the message had not ended.
    is_late: bool,
}

#[derive(Debug, Default)]
struct PartialCall {
    id: String,
    name: String,
    form: Form,
    arguments: Pieces,
    /// Other fields of the call.
    also: Map<String, Value>,
    /// The legacy call was returned. The others are tracked by their number.
    is_given: bool,
}

/// The arguments so far.
#[derive(Debug)]
enum Pieces {
    Text(String, ObjectTracker),
    Data(Value),
}

impl Default for Pieces {
    fn default() -> Self {
        Self::Text(String::new(), ObjectTracker::default())
    }
}

impl Pieces {
    /// Whether nothing meaningful has arrived. An empty object may be a placeholder.
    fn is_blank(&self) -> bool {
        match self {
            Self::Text(text, _) => text.trim().is_empty(),
            Self::Data(data) => data.as_object().is_some_and(Map::is_empty),
        }
    }

    /// Adds a chunk. A contradiction to earlier chunks is an error.
    fn add(&mut self, piece: &Value) -> Result<(), String> {
        match (&mut *self, piece) {
            (_, Value::Null) => Ok(()),
            (Self::Text(text, tracker), Value::String(piece)) => {
                text.push_str(piece);
                tracker.add(piece);
                Ok(())
            }
            (Self::Data(_), piece) if !has_more(piece) => Ok(()),
            (Self::Data(data), piece) if data == piece => Ok(()),
            (this, Value::String(piece)) if this.is_blank() => {
                *this = Self::default();
                this.add(&Value::from(piece.as_str()))
            }
            (this, data) if this.is_blank() => {
                *this = Self::Data(data.clone());
                Ok(())
            }
            _ => Err("the arguments of a call came both as text and as JSON".to_owned()),
        }
    }

    /// Whether nothing more can follow.
    fn is_whole(&self) -> bool {
        match self {
            Self::Text(_, tracker) => tracker.is_whole(),
            Self::Data(_) => true,
        }
    }
}

/// Whether a chunk of arguments is not empty.
fn has_more(piece: &Value) -> bool {
    match piece {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        _ => true,
    }
}

impl PartialCall {
    fn decode_call(&self) -> DecodedCall {
        let arguments = match (&self.arguments, self.form) {
            (Pieces::Text(text, _), Form::Custom) => Arguments::Json(json!({"input": text})),
            (Pieces::Text(text, _), Form::Function | Form::Legacy) => Arguments::Text(text.clone()),
            (Pieces::Data(data), _) => Arguments::Json(data.clone()),
        };
        let mut decoded = DecodedCall::new(ToolCall::new(&*self.id, &*self.name, arguments));
        decoded.expected.form = self.form;
        decoded
    }

    /// Takes a chunk of the name. Some servers repeat it, some send all of it so far, some send it
    /// in pieces.
    fn named(&mut self, name: &str) {
        // Once arguments have arrived, the name is final.
        if !self.name.is_empty() && !self.arguments.is_blank() {
            return;
        }
        if name.starts_with(&self.name) {
            name.clone_into(&mut self.name)
        } else {
            self.name.push_str(name)
        }
    }

    /// The function for the history. Arguments are text, except that Mistral also accepts JSON
    /// values.
    fn function(self, dialect: Dialect) -> (Form, Value, Map<String, Value>) {
        let function = match (self.form, self.arguments) {
            (Form::Custom, Pieces::Text(text, _)) => json!({"name": self.name, "input": text}),
            (_, Pieces::Text(text, _)) => {
                json!({"name": self.name, "arguments": json::object_text(text)})
            }
            (_, Pieces::Data(data)) if data.is_object() && dialect == Dialect::Mistral => {
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

impl Decoder {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            message: Map::new(),
            calls: Vec::new(),
            by_index: HashMap::new(),
            by_id: HashMap::new(),
            legacy: None,
            given: 0,
            current: None,
            reason: None,
            is_late: false,
        }
    }

    /// The call that a chunk belongs to: by index, else by id, else the last one. `nth` is its
    /// position in its list.
    fn find(&mut self, piece: &Value, nth: usize) -> Result<usize, String> {
        let id = given_id(self.dialect, piece);
        let function = json::some(piece, "function").or_else(|| json::some(piece, "custom"));
        let name = function.map(|f| json::text(f, "name")).unwrap_or_default();
        let index = piece.get("index").and_then(Value::as_u64);
        let by_id = id.and_then(|id| self.by_id.get(id).copied());
        let known = match index {
            // The same id under another index is the same call only if the chunk has no name.
            Some(index) => self.by_index.get(&index).copied().or(by_id.filter(|_| name.is_empty())),
            None => by_id.or(self.current),
        };
        if let Some(at) = known {
            let more = function.and_then(|f| json::some(f, "arguments"));
            let is_full = self.calls[at].arguments.is_whole()
                && !self.calls[at].arguments.is_blank()
                && more.is_some_and(has_more);
            if !self.is_other(at, (index, id, name), is_full, nth)? {
                return Ok(at);
            }
        }
        let at = self.calls.len();
        if at >= MAX_CALLS {
            return Err(super::too_many());
        }
        self.calls.push(PartialCall::default());
        if let Some(index) = index {
            self.by_index.insert(index, at);
        }
        Ok(at)
    }

    /// Whether a chunk starts another call than the one it seems to belong to. Only a name can:
    /// some servers generate a new id for every chunk. `is_full` says that it brings arguments
    /// where the call is already complete.
    fn is_other(
        &self,
        at: usize,
        (index, id, name): (Option<u64>, Option<&str>, &str),
        is_full: bool,
        nth: usize,
    ) -> Result<bool, String> {
        let call = &self.calls[at];
        if name.is_empty() || call.name.is_empty() {
            return Ok(false);
        }
        let is_blank = call.arguments.is_blank();
        let is_same = call.name == name;
        Ok(match (id, index) {
            (Some(_), _) if call.id.is_empty() => is_full,
            (Some(id), None) if call.id == id => is_full,
            // Without an index, only the id distinguishes calls.
            (Some(_), None) => true,
            (Some(id), Some(_)) if call.id == id => false,
            // FAIL CLOSED: it is either a new id for a call without arguments, or another call.
            (Some(_), _) if is_same && is_blank => {
                return Err("a call changes its id before it is complete".to_owned());
            }
            (Some(_), _) => !is_same || call.arguments.is_whole(),
            (None, Some(_)) => !is_blank && (!is_same || is_full),
            // Two in one list are two calls; otherwise a different name may be the rest of the
            // name.
            (None, None) => nth > 0 || is_full || (!is_same && !is_blank),
        })
    }

    fn piece(
        &mut self,
        piece: &Value,
        nth: usize,
        ready: &mut Vec<DecodedCall>,
    ) -> Result<(), String> {
        let at = self.find(piece, nth)?;
        if self.reason.is_none() && self.current.is_some_and(|current| current != at) {
            self.release_complete(Some(at), ready);
        }
        self.current = Some(at);
        let dialect = self.dialect;
        let call = &mut self.calls[at];
        let is_custom = json::some(piece, "custom").is_some();
        let (function, field) = if is_custom {
            (piece.get("custom"), "input")
        } else {
            (piece.get("function"), "arguments")
        };
        let more = function.and_then(|function| json::some(function, field));
        if at < self.given {
            // Whitespace may follow an object; anything else would change a call that may already
            // run.
            return match more {
                Some(more) if has_more(more) => {
                    Err("a call continues after it was complete".to_owned())
                }
                _ => Ok(()),
            };
        }
        if is_custom {
            call.form = Form::Custom;
        }
        if let Some(id) = given_id(dialect, piece).filter(|_| call.id.is_empty()) {
            call.id = id.to_owned();
            self.by_id.entry(id.to_owned()).or_insert(at);
        }
        call.named(function.map(|f| json::text(f, "name")).unwrap_or_default());
        if let Some(more) = more {
            call.arguments.add(more)?;
        }
        for (key, value) in piece.as_object().into_iter().flatten() {
            let is_own = matches!(key.as_str(), "index" | "id" | "function" | "custom");
            if !is_own && !value.is_null() && *value != "" {
                call.also.insert(key.clone(), value.clone());
            }
        }
        Ok(())
    }

    /// Returns, from the front, the calls that are certainly complete; `but` is still being
    /// written.
    fn release_complete(&mut self, but: Option<usize>, ready: &mut Vec<DecodedCall>) {
        while self.given < self.calls.len() && Some(self.given) != but {
            let call = &self.calls[self.given];
            if call.form == Form::Custom || !call.arguments.is_whole() {
                return;
            }
            ready.push(call.decode_call());
            self.given += 1;
        }
    }

    /// Takes a finish reason; the worst one wins. It returns the complete calls. An incomplete call
    /// waits for the end of the body, because some servers send a reason in every chunk.
    fn end(&mut self, reason: &str, ready: &mut Vec<DecodedCall>) {
        let meaning = |reason: &str| match self.dialect {
            Dialect::Mistral => super::mistral::stop(Some(reason)),
            _ => stop(Some(reason), &Value::Null),
        };
        let is_worst = self.reason.as_deref().is_none_or(|before| {
            let (before, now) = (meaning(before), meaning(reason));
            worse(before, now) == now
        });
        if is_worst {
            self.reason = Some(reason.to_owned());
        }
        self.is_late = false;
        self.release_complete(None, ready);
        if self.given == self.calls.len()
            && let Some(call) = &mut self.legacy
            && !call.is_given
            && call.arguments.is_whole()
        {
            call.is_given = true;
            ready.push(call.decode_call());
        }
    }

    fn delta(&mut self, delta: &Value, ready: &mut Vec<DecodedCall>) -> Result<(), String> {
        let pieces = json::list(delta, "tool_calls");
        let legacy = json::some(delta, "function_call");
        if self.reason.is_some() && (!pieces.is_empty() || legacy.is_some()) {
            self.is_late = true;
        }
        for (nth, piece) in pieces.iter().enumerate() {
            self.piece(piece, nth, ready)?;
        }
        if let Some(piece) = legacy {
            let call = self.legacy.get_or_insert_with(|| PartialCall {
                form: Form::Legacy,
                ..PartialCall::default()
            });
            let more = piece.get("arguments").unwrap_or(&Value::Null);
            if call.is_given && has_more(more) {
                return Err("a call continues after it was complete".to_owned());
            }
            call.named(json::text(piece, "name"));
            call.arguments.add(more)?;
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

/// Appends a chunk to a field of a message. Text and lists grow; text next to a list of chunks
/// becomes one of them.
fn append(field: &mut Value, piece: &Value) {
    let chunk = |text: &str| json!({"type": "text", "text": text});
    match (&mut *field, piece) {
        (_, Value::Null) => {}
        (Value::String(text), Value::String(piece)) => text.push_str(piece),
        (Value::Array(list), Value::Array(more)) => list.extend(more.iter().cloned()),
        (Value::Array(list), Value::String(piece)) => match list.last_mut() {
            _ if piece.is_empty() => {}
            Some(last) if json::text(last, "type") == "text" => {
                json::append_text(last, "text", piece)
            }
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

impl EventHandler for Decoder {
    fn event(&mut self, event: &Value, ready: &mut Vec<DecodedCall>) -> Result<(), String> {
        if let Some(choice) = first(json::list(event, "choices")) {
            if let Some(delta) = json::some(choice, "delta") {
                self.delta(delta, ready)?;
            }
            if let Some(reason) = json::some(choice, "finish_reason").and_then(Value::as_str) {
                // Some servers send an empty finish reason in every chunk.
                if !reason.is_empty() {
                    self.end(reason, ready);
                }
            }
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Closing {
        let Self { dialect, message: fields, calls, legacy, given, reason, is_late, .. } = *self;
        let mut open: Vec<DecodedCall> =
            calls[given..].iter().map(PartialCall::decode_call).collect();
        open.extend(legacy.iter().filter(|call| !call.is_given).map(PartialCall::decode_call));
        let mut message = json!({"role": "assistant", "content": null});
        for (key, value) in fields {
            message[key] = value;
        }
        let stop = reason.map(|reason| match dialect {
            _ if is_late => StopReason::Unknown,
            Dialect::Mistral => super::mistral::stop(Some(&reason)),
            _ => stop(Some(&reason), &message),
        });
        let mut places = Vec::new();
        if !calls.is_empty() {
            places.extend((0..calls.len()).map(|at| format!("/tool_calls/{at}/id")));
            message["tool_calls"] = calls.into_iter().map(|call| echoed(call, dialect)).collect();
        }
        if let Some(call) = legacy {
            message["function_call"] = call.function(dialect).1;
        }
        Closing { open, stop, message, places }
    }
}

fn echoed(call: PartialCall, dialect: Dialect) -> Value {
    let (form, function, also) = call.function(dialect);
    let (kind, field) = match form {
        Form::Custom => ("custom", "custom"),
        Form::Function | Form::Legacy => ("function", "function"),
    };
    // The id comes first, and is present to be filled in where it is missing.
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
    fn every_documented_stop_reason_is_mapped() {
        for (reason, wanted) in [
            ("stop", StopReason::Done),
            ("tool_calls", StopReason::Done),
            ("function_call", StopReason::Done),
            ("length", StopReason::Truncated),
            ("content_filter", StopReason::Refused),
            ("something_new", StopReason::Unknown),
        ] {
            let choice = json!({"index": 0, "finish_reason": reason, "message": {}});
            let response = json!({"choices": [choice]});
            assert_eq!(parse(&response).unwrap().stop, wanted, "{reason}");
        }
        let refused = json!({"choices": [{"finish_reason": "stop", "message": {"refusal": "no"}}]});
        assert_eq!(parse(&refused).unwrap().stop, StopReason::Refused);
        let open = json!({"choices": [{"finish_reason": null, "message": {}}]});
        assert_eq!(parse(&open).unwrap().stop, StopReason::Unknown);
    }

    fn decode_deltas(deltas: &[Value]) -> (Vec<Vec<ToolCall>>, super::super::DecodedResponse) {
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
    fn variants_of_compatible_servers_decode_to_the_same_calls() {
        let wanted =
            [ToolCall::new("a", "read", "{\"x\":1}"), ToolCall::new("b", "read", "{\"x\":2}")];
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
        let (calls, _) = decode_deltas(&without_anything);
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
            let (calls, ended) = decode_deltas(deltas);
            assert_eq!(calls.concat(), wanted, "{deltas:?}");
            assert_eq!((ended.stop, ended.calls), (StopReason::Done, vec![]), "{deltas:?}");
        }
        let (calls, _) = decode_deltas(&as_documented);
        assert_eq!(calls[3].len(), 1, "the first is given out when the second begins");
    }

    #[test]
    fn call_that_continues_after_completion_fails_the_stream() {
        let (_, ended) = decode_deltas(&[
            piece(Some(0), Some("a"), Some("read"), "{}"),
            piece(Some(1), Some("b"), Some("read"), "{}"),
            piece(Some(0), None, None, "{}"),
        ]);
        assert_eq!(ended.stop, StopReason::Unknown);
        assert!(ended.problem.unwrap().message().contains("continues"));
    }

    #[test]
    fn calls_after_the_finish_reason_are_not_run() {
        let mut stream = Dialect::OpenAiChat.stream();
        let late = piece(Some(0), Some("a"), Some("read"), "{}");
        let end = json!({"choices": [{"delta": {}, "finish_reason": "stop"}]});
        assert!(stream.event(&end).is_empty());
        assert!(stream.event(&json!({"choices": [{"delta": late}]})).is_empty());
        let ended = stream.finish();
        assert_eq!((ended.calls.len(), ended.stop), (1, StopReason::Unknown));
    }
}
