//! Ollama's own chat: complete calls with JSON arguments, mostly without ids; one message per call
//! out, paired by `tool_name` and order.

use haft_core::{Arguments, Error, StopReason, ToolCall};
use serde_json::{Map, Value, json};

use super::{
    Dialect, MAX_CALLS, ModelResponse, json,
    reply_context::{DecodedCall, Reply},
    stream::{Closing, EventHandler},
    unreadable, worse,
};

pub(super) fn parse(response: &Value) -> Result<ModelResponse, Error> {
    let Some(message) = response.get("message").filter(|message| message.is_object()) else {
        return Err(unreadable(Dialect::Ollama, response, "it has no `message`"));
    };
    let decoded = json::list(message, "tool_calls").iter().map(decode_call);
    // A stream chunk looks like a response that is not done.
    let stop = stop(response).unwrap_or(StopReason::Truncated);
    ModelResponse::new(Dialect::Ollama, decoded, stop)
}

fn decode_call(call: &Value) -> DecodedCall {
    let function = call.get("function").unwrap_or(&Value::Null);
    let arguments = match function.get("arguments") {
        Some(Value::String(text)) => Arguments::Text(text.clone()),
        Some(data) => Arguments::Json(data.clone()),
        None => Arguments::Json(Value::Null),
    };
    DecodedCall::new(ToolCall::new(json::text(call, "id"), json::text(function, "name"), arguments))
}

/// The stop reason; `None` while the message has not ended.
fn stop(response: &Value) -> Option<StopReason> {
    if response.get("done") == Some(&Value::Bool(false)) {
        return None;
    }
    match response.get("done_reason").and_then(Value::as_str) {
        Some("stop") => Some(StopReason::Done),
        Some("length") => Some(StopReason::Truncated),
        // Including `load` and `unload`, which end no message.
        _ => Some(StopReason::Unknown),
    }
}

pub(super) fn answer(replies: &[Reply<'_>]) -> Value {
    replies
        .iter()
        .map(|reply| {
            let mut message = json!({
                "role": "tool",
                "tool_name": reply.expected.name,
                "content": reply.content.to_text(usize::MAX),
            });
            // Newer servers send ids, and read them back.
            if let Some(id) = reply.given() {
                message["tool_call_id"] = Value::from(id);
            }
            message
        })
        .collect()
}

/// Interprets one object per line.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    message: Map<String, Value>,
    calls: Vec<Value>,
    stop: Option<StopReason>,
}

impl EventHandler for Decoder {
    fn event(&mut self, event: &Value, ready: &mut Vec<DecodedCall>) -> Result<(), String> {
        let message = event.get("message").unwrap_or(&Value::Null);
        let calls = json::list(message, "tool_calls");
        if self.stop.is_some() && !calls.is_empty() {
            return Err("a call comes after the end".to_owned());
        }
        if self.calls.len() + calls.len() > MAX_CALLS {
            return Err(super::too_many());
        }
        for call in calls {
            ready.push(decode_call(call));
            self.calls.push(call.clone());
        }
        for (key, piece) in message.as_object().into_iter().flatten() {
            match (key.as_str(), piece) {
                ("role" | "tool_calls", _) | (_, Value::Null) => {}
                (_, Value::String(piece)) => match self.message.get_mut(key) {
                    Some(Value::String(text)) => text.push_str(piece),
                    _ => {
                        self.message.insert(key.clone(), Value::from(piece.as_str()));
                    }
                },
                (_, Value::Array(more)) => match self.message.get_mut(key) {
                    Some(Value::Array(list)) => list.extend(more.iter().cloned()),
                    _ => {
                        self.message.insert(key.clone(), piece.clone());
                    }
                },
                _ => {
                    self.message.insert(key.clone(), piece.clone());
                }
            }
        }
        if event.get("done") == Some(&Value::Bool(true)) {
            // Of two ends the worse counts.
            self.stop = stop(event).map(|end| worse(self.stop.unwrap_or(end), end));
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Closing {
        let mut message = json!({"role": "assistant", "content": ""});
        for (key, value) in self.message {
            message[key] = value;
        }
        if !self.calls.is_empty() {
            message["tool_calls"] = self.calls.into_iter().map(echoed).collect();
        }
        Closing { open: Vec::new(), stop: self.stop, message, places: Vec::new() }
    }
}

/// The server decodes `arguments` into an object, so it must be one.
pub(super) fn echoed(mut call: Value) -> Value {
    if let Some(function) = call.get_mut("function").filter(|function| function.is_object()) {
        let arguments = json::object_of(function.get_mut("arguments").map(Value::take));
        function["arguments"] = arguments;
    }
    call
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_stop_reason_is_mapped() {
        for (reason, wanted) in [
            ("stop", StopReason::Done),
            ("length", StopReason::Truncated),
            ("load", StopReason::Unknown),
            ("unload", StopReason::Unknown),
            ("something_new", StopReason::Unknown),
        ] {
            let response = json!({"message": {}, "done": true, "done_reason": reason});
            assert_eq!(parse(&response).unwrap().stop, wanted, "{reason}");
        }
        let piece = json!({"message": {}, "done": false});
        assert_eq!(parse(&piece).unwrap().stop, StopReason::Truncated);
        assert_eq!(parse(&json!({"message": {}, "done": true})).unwrap().stop, StopReason::Unknown);
    }

    #[test]
    fn arguments_that_are_not_an_object_are_echoed_as_one() {
        let call = |arguments: Value| json!({"function": {"name": "a", "arguments": arguments}});
        for (received, wanted) in [
            (json!({"x": 1}), json!({"x": 1})),
            (json!("{\"x\":1}"), json!({"x": 1})),
            (json!(null), json!({})),
            (json!([1]), json!({"INVALID_JSON": [1]})),
        ] {
            assert_eq!(echoed(call(received)), call(wanted));
        }
    }
}
