//! Responses of each provider, as their APIs send them: one call of `population`, then an answer.

use haft_models::Provider;
use serde_json::{Value, json};

use crate::server::{self, Answer};

/// The id of the call.
pub(crate) const CALL: &str = "call_1";

fn sse(events: &[(&str, Value)]) -> String {
    events.iter().map(|(name, data)| format!("event: {name}\ndata: {data}\n\n")).collect()
}

fn data(events: &[Value]) -> String {
    events.iter().map(|data| format!("data: {data}\n\n")).collect()
}

/// The stream of a message: a text, or a call.
pub(crate) fn streamed(provider: Provider, text: Option<&str>) -> String {
    match provider {
        Provider::Anthropic => anthropic(text),
        Provider::OpenAi => responses(text),
        Provider::Gemini => data(&[gemini(text)]),
        _ => chat(text),
    }
}

fn anthropic(text: Option<&str>) -> String {
    let usage = json!({"input_tokens": 10, "cache_creation_input_tokens": 100,
                       "cache_read_input_tokens": 1000, "output_tokens": 1});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "content": [],
                         "model": "m", "stop_reason": null, "stop_sequence": null, "usage": usage});
    let (block, delta, stop) = match text {
        Some(text) => (
            json!({"type": "text", "text": ""}),
            json!({"type": "text_delta", "text": text}),
            "end_turn",
        ),
        None => (
            json!({"type": "tool_use", "id": CALL, "name": "population", "input": {}}),
            json!({"type": "input_json_delta", "partial_json": "{\"city\": \"Oslo\"}"}),
            "tool_use",
        ),
    };
    sse(&[
        ("message_start", json!({"type": "message_start", "message": message})),
        ("ping", json!({"type": "ping"})),
        (
            "content_block_start",
            json!({"type": "content_block_start", "index": 0, "content_block": block}),
        ),
        ("content_block_delta", json!({"type": "content_block_delta", "index": 0, "delta": delta})),
        ("content_block_stop", json!({"type": "content_block_stop", "index": 0})),
        (
            "message_delta",
            json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
                   "usage": {"output_tokens": 20}}),
        ),
        ("message_stop", json!({"type": "message_stop"})),
    ])
}

fn responses_item(text: Option<&str>) -> Value {
    match text {
        Some(text) => json!({"type": "message", "id": "msg_1", "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}]}),
        None => json!({"type": "function_call", "id": "fc_1", "call_id": CALL,
            "name": "population", "arguments": "{\"city\":\"Oslo\"}", "status": "completed"}),
    }
}

fn responses_whole(text: Option<&str>) -> Value {
    json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "completed",
        "model": "m", "error": null, "incomplete_details": null, "output": [responses_item(text)],
        "usage": {"input_tokens": 1110, "input_tokens_details": {"cached_tokens": 1000},
                  "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 0},
                  "total_tokens": 1130}})
}

fn responses(text: Option<&str>) -> String {
    let item = responses_item(text);
    let mut started = item.clone();
    let mut events = Vec::new();
    let mut created = responses_whole(text);
    created["status"] = json!("in_progress");
    created["output"] = json!([]);
    created["usage"] = Value::Null;
    events.push(("response.created", json!({"response": created})));
    started["status"] = json!("in_progress");
    match text {
        Some(_) => started["content"] = json!([]),
        None => started["arguments"] = json!(""),
    }
    let at = |mut event: Value| {
        event["output_index"] = json!(0);
        event
    };
    events.push(("response.output_item.added", at(json!({"item": started}))));
    match text {
        Some(text) => {
            let of = |mut event: Value| {
                event["item_id"] = json!("msg_1");
                event["content_index"] = json!(0);
                at(event)
            };
            let empty = json!({"type": "output_text", "text": "", "annotations": []});
            let part = json!({"type": "output_text", "text": text, "annotations": []});
            events.push(("response.content_part.added", of(json!({"part": empty}))));
            events.push(("response.output_text.delta", of(json!({"delta": text}))));
            events.push(("response.output_text.done", of(json!({"text": text}))));
            events.push(("response.content_part.done", of(json!({"part": part}))));
        }
        None => {
            let arguments = item["arguments"].clone();
            let delta = json!({"item_id": "fc_1", "delta": arguments});
            let done = json!({"item_id": "fc_1", "arguments": arguments});
            events.push(("response.function_call_arguments.delta", at(delta)));
            events.push(("response.function_call_arguments.done", at(done)));
        }
    }
    events.push(("response.output_item.done", at(json!({"item": item}))));
    events.push(("response.completed", json!({"response": responses_whole(text)})));
    for (number, (name, event)) in events.iter_mut().enumerate() {
        event["type"] = json!(name);
        event["sequence_number"] = json!(number);
    }
    sse(&events)
}

fn chat(text: Option<&str>) -> String {
    let piece = |delta: Value, reason: Value| {
        json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m",
               "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], "usage": null})
    };
    let mut events = vec![piece(json!({"role": "assistant", "content": ""}), Value::Null)];
    match text {
        Some(text) => {
            events.push(piece(json!({"content": text}), Value::Null));
            events.push(piece(json!({}), json!("stop")));
        }
        None => {
            let call = json!([{"index": 0, "id": CALL, "type": "function",
                               "function": {"name": "population", "arguments": ""}}]);
            events.push(piece(json!({"tool_calls": call}), Value::Null));
            for part in ["{\"city\":", "\"Oslo\"}"] {
                let call = json!([{"index": 0, "function": {"arguments": part}}]);
                events.push(piece(json!({"tool_calls": call}), Value::Null));
            }
            events.push(piece(json!({}), json!("tool_calls")));
        }
    }
    events.push(json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m",
                       "choices": [], "usage": chat_usage()}));
    format!("{}data: [DONE]\n\n", data(&events))
}

fn chat_usage() -> Value {
    json!({"prompt_tokens": 1110, "completion_tokens": 20, "total_tokens": 1130,
           "prompt_tokens_details": {"cached_tokens": 1000}})
}

fn gemini(text: Option<&str>) -> Value {
    let part = match text {
        Some(text) => json!({"text": text}),
        None => json!({"functionCall": {"id": CALL, "name": "population",
                                        "args": {"city": "Oslo"}},
                       "thoughtSignature": "c2lnbmF0dXJl"}),
    };
    json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP",
                           "index": 0}],
           "usageMetadata": {"promptTokenCount": 1110, "cachedContentTokenCount": 1000,
                             "candidatesTokenCount": 15, "thoughtsTokenCount": 5,
                             "totalTokenCount": 1130},
           "modelVersion": "m"})
}

/// The whole response of a message: a text, or a call.
pub(crate) fn whole(provider: Provider, text: Option<&str>) -> Value {
    match provider {
        Provider::Anthropic => {
            let (block, stop) = match text {
                Some(text) => (json!({"type": "text", "text": text}), "end_turn"),
                None => (
                    json!({"type": "tool_use", "id": CALL, "name": "population",
                           "input": {"city": "Oslo"}}),
                    "tool_use",
                ),
            };
            json!({"id": "msg_1", "type": "message", "role": "assistant", "content": [block],
                   "model": "m", "stop_reason": stop, "stop_sequence": null,
                   "usage": {"input_tokens": 10, "cache_creation_input_tokens": 100,
                             "cache_read_input_tokens": 1000, "output_tokens": 20}})
        }
        Provider::OpenAi => responses_whole(text),
        Provider::Gemini => gemini(text),
        _ => {
            let (message, reason) = match text {
                Some(text) => (json!({"role": "assistant", "content": text}), "stop"),
                None => (
                    json!({"role": "assistant", "content": null, "tool_calls": [{"id": CALL,
                        "type": "function", "function": {"name": "population",
                        "arguments": "{\"city\":\"Oslo\"}"}}]}),
                    "tool_calls",
                ),
            };
            json!({"id": "c1", "object": "chat.completion", "created": 1, "model": "m",
                   "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                   "usage": chat_usage()})
        }
    }
}

/// The answer to one request: a text, or a call.
pub(crate) fn answer(provider: Provider, is_streaming: bool, text: Option<&str>) -> Answer {
    if is_streaming {
        server::stream(&streamed(provider, text))
    } else {
        server::json("200 OK", &[], &whole(provider, text))
    }
}
