//! Gemini: `functionCall` parts in, one user message of `functionResponse` parts out.
//!
//! Both `camelCase` and `snake_case` field names are read, because the SDKs use the latter. Ids are
//! optional: a given id is repeated, and none is generated. Calls with the same id keep it, because
//! Gemini then pairs by order.

use std::collections::HashSet;

use haft_core::{Arguments, Block, Error, StopReason, ToolCall};
use serde_json::{Map, Value, json};

use super::{
    Dialect, MAX_CALLS, ModelResponse, content, json,
    reply_context::{DecodedCall, Reply},
    stream::{Closing, EventHandler},
    unreadable, worse,
};

pub(super) fn parse(dialect: Dialect, response: &Value) -> Result<ModelResponse, Error> {
    let candidates = response.get("candidates").and_then(Value::as_array);
    let blocked = is_blocked(response);
    if candidates.is_none() && !blocked {
        return Err(unreadable(dialect, response, "it has no `candidates` array"));
    }
    let first = candidates.and_then(|candidates| first(candidates));
    let decoded = first.map(parts).unwrap_or_default().iter().filter_map(call_of).map(decode_call);
    let stop = match first {
        _ if blocked => StopReason::Refused,
        Some(candidate) => stop(reason(candidate)),
        None => StopReason::Unknown,
    };
    ModelResponse::new(dialect, decoded, stop)
}

/// Whether the prompt itself was blocked; there are no candidates then.
fn is_blocked(response: &Value) -> bool {
    let feedback = field(response, "promptFeedback", "prompt_feedback");
    feedback.and_then(|feedback| field(feedback, "blockReason", "block_reason")).is_some()
}

/// Without an index, the order decides which candidate is first.
fn first(candidates: &[Value]) -> Option<&Value> {
    let is_first = |index: Option<&Value>| index.and_then(Value::as_u64).unwrap_or(0) == 0;
    candidates.iter().find(|candidate| is_first(candidate.get("index")))
}

fn parts(candidate: &Value) -> &[Value] {
    candidate.get("content").map(|content| json::list(content, "parts")).unwrap_or_default()
}

fn reason(candidate: &Value) -> Option<&str> {
    field(candidate, "finishReason", "finish_reason").and_then(Value::as_str)
}

fn field<'a>(of: &'a Value, camel: &str, snake: &str) -> Option<&'a Value> {
    json::some(of, camel).or_else(|| json::some(of, snake))
}

fn call_of(part: &Value) -> Option<&Value> {
    field(part, "functionCall", "function_call")
}

fn decode_call(call: &Value) -> DecodedCall {
    let arguments = call.get("args").cloned().unwrap_or(Value::Null);
    DecodedCall::new(ToolCall::new(
        json::text(call, "id"),
        json::text(call, "name"),
        Arguments::Json(arguments),
    ))
}

fn stop(reason: Option<&str>) -> StopReason {
    match reason {
        Some("STOP") => StopReason::Done,
        Some("MAX_TOKENS" | "CONTINUATION") => StopReason::Truncated,
        Some(
            "SAFETY"
            | "RECITATION"
            | "LANGUAGE"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION",
        ) => StopReason::Refused,
        // Including `MALFORMED_FUNCTION_CALL`, `UNEXPECTED_TOOL_CALL` and `TOO_MANY_TOOL_CALLS`.
        Some(_) | None => StopReason::Unknown,
    }
}

pub(super) fn answer(replies: &[Reply<'_>]) -> Value {
    let parts: Vec<Value> = replies
        .iter()
        .map(|reply| {
            let mut response = json!({"name": reply.expected.name, "response": result(reply)});
            if let Some(id) = reply.given() {
                response["id"] = Value::from(id);
            }
            let pictures: Vec<Value> = reply
                .content
                .blocks
                .iter()
                .filter_map(|block| match block.native.as_deref()? {
                    image @ Block::Image { data, media_type } if content::is_image(image) => {
                        Some(json!({"inlineData": {"mimeType": media_type, "data": data}}))
                    }
                    _ => None,
                })
                .collect();
            if !pictures.is_empty() {
                response["parts"] = Value::Array(pictures);
            }
            json!({"functionResponse": response})
        })
        .collect();
    json!({"role": "user", "parts": parts})
}

/// The response must be an object: `output` for a success, `error` for a failure.
fn result(reply: &Reply<'_>) -> Value {
    if reply.content.is_error {
        return json!({"error": reply.content.to_text(usize::MAX)});
    }
    // A JSON value cannot have markers around it, so content with markers is text.
    if let [only] = reply.content.blocks.as_slice()
        && let Some(Block::Json { json }) = only.native.as_deref()
        && reply.content.is_bare()
    {
        return json!({"output": json});
    }
    json!({"output": reply.content.text_except(content::is_image)})
}

/// Interprets the chunks of the first candidate. Parts arrive complete, except that Vertex may send
/// the arguments of a call value by value.
#[derive(Debug)]
pub(super) struct Decoder {
    parts: Vec<Value>,
    /// The call whose arguments arrive value by value.
    partial: Option<Partial>,
    /// The last stop reason; `None` when parts came after it.
    end: Option<StopReason>,
    /// The worst stop reason so far. Later parts revoke a good one, never a bad one.
    worst: StopReason,
    is_blocked: bool,
}

#[derive(Debug)]
struct Partial {
    /// The part as it started: the call's name and id, and a signature.
    part: Value,
    args: Value,
    /// The text values that continue.
    continuing: HashSet<String>,
}

impl Default for Decoder {
    fn default() -> Self {
        let (parts, partial) = (Vec::new(), None);
        Self { parts, partial, end: None, worst: StopReason::Done, is_blocked: false }
    }
}

impl Decoder {
    fn part(&mut self, part: &Value, ready: &mut Vec<DecodedCall>) -> Result<(), String> {
        let Some(call) = call_of(part) else {
            self.add_part(part);
            return Ok(());
        };
        let continues =
            field(call, "willContinue", "will_continue").and_then(Value::as_bool).unwrap_or(false);
        let pieces = field(call, "partialArgs", "partial_args");
        let is_named = !json::text(call, "name").is_empty();
        if is_named && self.partial.is_some() {
            return Err("a call starts before the previous one ended".to_owned());
        }
        if self.partial.is_none() && (continues || pieces.is_some()) {
            let args = call.get("args").filter(|args| args.is_object()).cloned();
            self.partial = Some(Partial {
                part: part.clone(),
                args: args.unwrap_or_else(|| json!({})),
                continuing: HashSet::new(),
            });
        }
        let Some(partial) = &mut self.partial else {
            ready.push(decode_call(call));
            self.parts.push(part.clone());
            return Ok(());
        };
        for piece in pieces.and_then(Value::as_array).into_iter().flatten() {
            partial.take(piece)?;
        }
        if let Some(signature) = field(part, "thoughtSignature", "thought_signature") {
            partial.part["thoughtSignature"] = signature.clone();
        }
        if !continues && !partial.continuing.is_empty() {
            return Err("a call ended inside a text value".to_owned());
        }
        if !continues && let Some(partial) = self.partial.take() {
            let part = partial.into_history();
            ready.extend(call_of(&part).map(decode_call));
            self.parts.push(part);
        }
        Ok(())
    }

    /// Takes a part that is not a call. Plain text grows; a part with a signature stays as it came.
    fn add_part(&mut self, part: &Value) {
        if is_plain(part)
            && let Some(last) = self.parts.last_mut()
            && is_plain(last)
            && last.get("thought") == part.get("thought")
        {
            return json::append_text(last, "text", json::text(part, "text"));
        }
        self.parts.push(part.clone());
    }
}

/// Whether a part is only text, thought or not.
fn is_plain(part: &Value) -> bool {
    let only_text =
        |map: &Map<String, Value>| map.keys().all(|key| key == "text" || key == "thought");
    part.get("text").is_some_and(Value::is_string) && part.as_object().is_some_and(only_text)
}

impl Partial {
    fn take(&mut self, piece: &Value) -> Result<(), String> {
        let path = field(piece, "jsonPath", "json_path").and_then(Value::as_str).unwrap_or("$");
        let keep = |value: &Value| (!value.is_null()).then(|| value.clone());
        let value = [
            ("stringValue", "string_value"),
            ("numberValue", "number_value"),
            ("boolValue", "bool_value"),
        ];
        let value = value
            .iter()
            .find_map(|(camel, snake)| field(piece, camel, snake).and_then(keep))
            .unwrap_or(Value::Null);
        let place = resolve_path(&mut self.args, path)
            .ok_or_else(|| format!("the JSON path `{}` is invalid", path.escape_debug()))?;
        match (place, value) {
            (Value::String(text), Value::String(more)) if self.continuing.contains(path) => {
                text.push_str(&more);
            }
            // The last chunk of a text value may be empty and only mark its end.
            (_, Value::Null) if self.continuing.contains(path) => {}
            (place, value) => *place = value,
        }
        let continues = field(piece, "willContinue", "will_continue").and_then(Value::as_bool);
        if continues.unwrap_or(false) {
            self.continuing.insert(path.to_owned())
        } else {
            self.continuing.remove(path)
        };
        Ok(())
    }

    /// The part as one complete call.
    fn into_history(self) -> Value {
        let Self { mut part, args, .. } = self;
        let call = call_of(&part).cloned().unwrap_or(Value::Null);
        let mut whole = Map::new();
        for key in ["id", "name"] {
            if let Some(value) = json::some(&call, key) {
                whole.insert(key.to_owned(), value.clone());
            }
        }
        whole.insert("args".to_owned(), args);
        if let Some(map) = part.as_object_mut() {
            map.shift_remove("function_call");
            map.insert("functionCall".to_owned(), Value::Object(whole));
        }
        part
    }
}

/// The deepest path in arguments.
const MAX_STEPS: usize = 64;

/// Finds the value at a JSON path, and creates it. A list grows by one element at a time.
fn resolve_path<'a>(root: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let mut place = root;
    let mut rest = path.strip_prefix('$')?;
    let mut steps = 0;
    while !rest.is_empty() {
        steps += 1;
        if steps > MAX_STEPS {
            return None;
        }
        let step;
        (step, rest) = first_step(rest)?;
        if place.is_null() {
            *place = match step {
                Step::Key(_) => json!({}),
                Step::Item(_) => json!([]),
            };
        }
        place = match step {
            Step::Key(key) => place.as_object_mut()?.entry(key).or_insert(Value::Null),
            Step::Item(at) => {
                let list = place.as_array_mut()?;
                if at == list.len() {
                    list.push(Value::Null);
                }
                list.get_mut(at)?
            }
        };
    }
    Some(place)
}

enum Step {
    Key(String),
    Item(usize),
}

/// Parses `.name`, `['name']`, `["name"]` or `[0]` from the front of a path.
fn first_step(path: &str) -> Option<(Step, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        return (!name.is_empty()).then(|| (Step::Key(name.to_owned()), rest));
    }
    let rest = path.strip_prefix('[')?;
    let quote = rest.chars().next()?;
    if quote != '\'' && quote != '"' {
        let (number, rest) = rest.split_once(']')?;
        return Some((Step::Item(number.parse().ok()?), rest));
    }
    let mut name = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?.1),
            c if c == quote => {
                let rest = rest[at + 1..].strip_prefix(']')?;
                return Some((Step::Key(name), rest));
            }
            c => name.push(c),
        }
    }
    None
}

impl EventHandler for Decoder {
    fn event(&mut self, event: &Value, ready: &mut Vec<DecodedCall>) -> Result<(), String> {
        self.is_blocked |= is_blocked(event);
        if let Some(candidate) = first(json::list(event, "candidates")) {
            let parts = parts(candidate);
            for part in parts {
                self.part(part, ready)?;
                if ready.len() > MAX_CALLS {
                    return Err(super::too_many());
                }
            }
            match reason(candidate) {
                // An unspecified reason, which some servers send in every chunk.
                Some("" | "FINISH_REASON_UNSPECIFIED") | None => {
                    // A candidate that continues had not ended.
                    if !parts.is_empty() {
                        self.end = None;
                    }
                }
                reason => {
                    self.end = Some(stop(reason));
                    self.worst = worse(self.worst, stop(reason));
                }
            }
        }
        Ok(())
    }

    fn close(mut self: Box<Self>) -> Closing {
        let mut open = Vec::new();
        if let Some(partial) = self.partial.take() {
            let part = partial.into_history();
            open.extend(call_of(&part).map(decode_call));
            self.parts.push(part);
        }
        let stop = match self.end {
            _ if self.is_blocked => Some(StopReason::Refused),
            None => None,
            Some(_) if !open.is_empty() => Some(worse(self.worst, StopReason::Truncated)),
            Some(_) => Some(self.worst),
        };
        // Gemini refuses empty text, unless it carries a signature.
        let is_empty = |part: &Value| is_plain(part) && json::text(part, "text").is_empty();
        self.parts.retain(|part| !is_empty(part));
        let message = json::message("model", "parts", self.parts);
        Closing { open, stop, message, places: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_stop_reason_is_mapped() {
        for (reason, wanted) in [
            ("STOP", StopReason::Done),
            ("MAX_TOKENS", StopReason::Truncated),
            ("CONTINUATION", StopReason::Truncated),
            ("SAFETY", StopReason::Refused),
            ("RECITATION", StopReason::Refused),
            ("LANGUAGE", StopReason::Refused),
            ("BLOCKLIST", StopReason::Refused),
            ("PROHIBITED_CONTENT", StopReason::Refused),
            ("SPII", StopReason::Refused),
            ("IMAGE_SAFETY", StopReason::Refused),
            ("IMAGE_PROHIBITED_CONTENT", StopReason::Refused),
            ("IMAGE_RECITATION", StopReason::Refused),
            ("FINISH_REASON_UNSPECIFIED", StopReason::Unknown),
            ("OTHER", StopReason::Unknown),
            ("MALFORMED_FUNCTION_CALL", StopReason::Unknown),
            ("UNEXPECTED_TOOL_CALL", StopReason::Unknown),
            ("TOO_MANY_TOOL_CALLS", StopReason::Unknown),
            ("NO_IMAGE", StopReason::Unknown),
            ("IMAGE_OTHER", StopReason::Unknown),
            ("MALFORMED_RESPONSE", StopReason::Unknown),
            ("SOMETHING_NEW", StopReason::Unknown),
        ] {
            let response = json!({"candidates": [{"finishReason": reason}]});
            assert_eq!(parse(Dialect::Gemini, &response).unwrap().stop, wanted, "{reason}");
        }
        let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}});
        assert_eq!(parse(Dialect::Gemini, &blocked).unwrap().stop, StopReason::Refused);
    }

    #[test]
    fn arguments_streamed_value_by_value_are_assembled() {
        let mut stream = Dialect::Gemini.stream();
        let mut chunk = |call: Value, end: Option<&str>| {
            stream.event(&json!({"candidates": [
                {"content": {"parts": [{"functionCall": call}]}, "finishReason": end},
            ]}))
        };
        let piece = |path: &str, key: &str, value: Value, more: bool| json!({"jsonPath": path, key: value, "willContinue": more});
        let mut given = chunk(json!({"name": "send", "id": "g1", "willContinue": true}), None);
        for piece in [
            piece("$.to[0].name", "stringValue", json!("A"), true),
            piece("$.to[0].name", "stringValue", json!("nn"), true),
            json!({"jsonPath": "$.to[0].name"}),
            piece("$.to[1]['odd key']", "boolValue", json!(true), false),
            piece("$[\"n\"]", "numberValue", json!(3), false),
            piece("$.none", "nullValue", json!("NULL_VALUE"), false),
        ] {
            given.extend(chunk(json!({"partialArgs": [piece], "willContinue": true}), None));
        }
        assert_eq!(given, []);
        given.extend(chunk(json!({}), Some("STOP")));
        let args = json!({"to": [{"name": "Ann"}, {"odd key": true}], "n": 3, "none": null});
        assert_eq!(given, [ToolCall::new("g1", "send", args.clone())]);
        let ended = stream.finish();
        assert_eq!(ended.stop, StopReason::Done);
        let part = json!({"functionCall": {"id": "g1", "name": "send", "args": args}});
        assert_eq!(ended.message, json!({"role": "model", "parts": [part]}));
    }

    #[test]
    fn invalid_json_path_fails_the_stream() {
        let deep = ".a".repeat(100);
        for path in ["a", "$.", "$[9999999999]", "$[1]", "$['a", "$.x.y", &format!("${deep}")] {
            let mut stream = Dialect::Gemini.stream();
            let call = json!({"name": "a", "willContinue": true, "partialArgs": [
                {"jsonPath": "$.x", "stringValue": "text"},
                {"jsonPath": path, "stringValue": "v"},
            ]});
            let part = json!({"functionCall": call});
            let event = json!({"candidates": [{"content": {"parts": [part]}}]});
            assert!(stream.event(&event).is_empty());
            let ended = stream.finish();
            assert!(ended.problem.unwrap().message().contains("is invalid"), "{path}");
            assert_eq!((ended.stop, ended.calls.len()), (StopReason::Unknown, 1));
        }
    }
}
