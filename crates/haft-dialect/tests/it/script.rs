//! One scripted message in the format of every provider: as a complete response, as events, and as
//! the bytes of a body.

use haft_dialect::Dialect;
use serde_json::{Map, Value, json};

/// One part of the model's message.
#[derive(Debug, Clone)]
pub(crate) enum ScriptPart {
    Text(String),
    Call { id: String, name: String, arguments: Map<String, Value> },
}

/// Returns a text part.
pub(crate) fn text(text: &str) -> ScriptPart {
    ScriptPart::Text(text.to_owned())
}

/// Returns a call.
pub(crate) fn call(id: &str, name: &str, arguments: Value) -> ScriptPart {
    let arguments = arguments.as_object().unwrap().clone();
    ScriptPart::Call { id: id.to_owned(), name: name.to_owned(), arguments }
}

/// Returns each provider's stop reasons: done, truncated, refused, unknown.
pub(crate) fn endings(dialect: Dialect) -> [&'static str; 4] {
    match dialect {
        Dialect::Anthropic => ["tool_use", "max_tokens", "refusal", "new"],
        Dialect::OpenAiResponses => ["completed", "incomplete", "refused", "failed"],
        Dialect::OpenAiChat => ["tool_calls", "length", "content_filter", "new"],
        Dialect::Gemini | Dialect::GeminiJson => {
            ["STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL"]
        }
        Dialect::Bedrock => {
            ["tool_use", "max_tokens", "guardrail_intervened", "malformed_tool_use"]
        }
        Dialect::Mistral => ["tool_calls", "model_length", "error", "new"],
        Dialect::Ollama => ["stop", "length", "load", "new"],
        _ => ["", "", "", ""],
    }
}

/// Returns the complete response.
pub(crate) fn complete(dialect: Dialect, script: &[ScriptPart], ending: &str) -> Value {
    match dialect {
        Dialect::Anthropic => {
            let content: Vec<Value> = script
                .iter()
                .map(|one| match one {
                    ScriptPart::Text(text) => json!({"type": "text", "text": text}),
                    ScriptPart::Call { id, name, arguments } => {
                        json!({"type": "tool_use", "id": id, "name": name, "input": arguments})
                    }
                })
                .collect();
            json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
                   "content": content, "stop_reason": ending, "stop_sequence": null,
                   "usage": {"input_tokens": 1, "output_tokens": 1}})
        }
        Dialect::OpenAiResponses => response(script, ending),
        Dialect::OpenAiChat | Dialect::Mistral => {
            let calls: Vec<Value> = calls(script)
                .map(|(id, name, arguments)| {
                    json!({"id": id, "type": "function",
                       "function": {"name": name, "arguments": arguments.to_string()}})
                })
                .collect();
            let mut message = json!({"role": "assistant", "content": joined_text(script)});
            if !calls.is_empty() {
                message["tool_calls"] = calls.into();
            }
            json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [
                {"index": 0, "message": message, "finish_reason": ending, "logprobs": null},
            ], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})
        }
        Dialect::Gemini | Dialect::GeminiJson => {
            let parts: Vec<Value> = script.iter().map(part).collect();
            json!({"candidates": [
                {"content": {"role": "model", "parts": parts}, "finishReason": ending, "index": 0},
            ]})
        }
        Dialect::Bedrock => {
            let content: Vec<Value> = script
                .iter()
                .map(|one| match one {
                    ScriptPart::Text(text) => json!({"text": text}),
                    ScriptPart::Call { id, name, arguments } => {
                        json!({"toolUse": {"toolUseId": id, "name": name, "input": arguments}})
                    }
                })
                .collect();
            json!({"output": {"message": {"role": "assistant", "content": content}},
                   "stopReason": ending, "usage": {}, "metrics": {}})
        }
        Dialect::Ollama => {
            let calls: Vec<Value> = calls(script).map(ollama_call).collect();
            json!({"model": "m", "created_at": "2026-01-01T00:00:00Z", "done": true,
                   "done_reason": ending, "message":
                   {"role": "assistant", "content": joined_text(script).unwrap_or_default(),
                    "tool_calls": calls}})
        }
        Dialect::Mcp => calls(script).map(request).collect(),
        other => unreachable!("{other} has no script"),
    }
}

/// Returns the events of the same message, with texts and arguments in chunks of `size` characters.
pub(crate) fn events(
    dialect: Dialect,
    script: &[ScriptPart],
    ending: &str,
    size: usize,
) -> Vec<Value> {
    match dialect {
        Dialect::Anthropic => anthropic(script, ending, size),
        Dialect::OpenAiResponses => openai(script, ending, size),
        Dialect::OpenAiChat | Dialect::Mistral => chat(script, ending, size),
        Dialect::Gemini | Dialect::GeminiJson => {
            let chunk = |parts: Value, ending: Option<&str>| {
                let mut candidate =
                    json!({"content": {"role": "model", "parts": parts}, "index": 0});
                if let Some(ending) = ending {
                    candidate["finishReason"] = ending.into();
                }
                json!({"candidates": [candidate]})
            };
            let mut events = Vec::new();
            for one in script {
                match one {
                    ScriptPart::Text(text) => events.extend(
                        pieces(text, size).map(|piece| chunk(json!([{"text": piece}]), None)),
                    ),
                    call => events.push(chunk(json!([part(call)]), None)),
                }
            }
            events.push(chunk(json!([{"text": ""}]), Some(ending)));
            events
        }
        Dialect::Bedrock => bedrock(script, ending, size),
        Dialect::Ollama => {
            let line = |message: Value| json!({"model": "m", "message": message, "done": false});
            let mut events = Vec::new();
            for one in script {
                match one {
                    ScriptPart::Text(text) => events.extend(
                        pieces(text, size)
                            .map(|piece| line(json!({"role": "assistant", "content": piece}))),
                    ),
                    ScriptPart::Call { id, name, arguments } => {
                        let call = ollama_call((id, name, json!(arguments)));
                        let message =
                            json!({"role": "assistant", "content": "", "tool_calls": [call]});
                        events.push(line(message));
                    }
                }
            }
            events.push(json!({"model": "m", "message": {"role": "assistant", "content": ""},
                               "done": true, "done_reason": ending}));
            events
        }
        Dialect::Mcp => calls(script).map(request).collect(),
        other => unreachable!("{other} has no script"),
    }
}

/// Returns the events as the bytes of a body.
pub(crate) fn body(dialect: Dialect, events: &[Value]) -> Vec<u8> {
    let lines =
        |between: &str| events.iter().map(ToString::to_string).collect::<Vec<_>>().join(between);
    match dialect {
        Dialect::Anthropic | Dialect::OpenAiResponses => {
            let event = |event: &Value| {
                format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
            };
            events.iter().map(event).collect::<String>().into_bytes()
        }
        Dialect::OpenAiChat | Dialect::Mistral => {
            let event = |event: &Value| format!("data: {event}\r\n\r\n: alive\r\n\r\n");
            let body: String = events.iter().map(event).collect();
            (body + "data: [DONE]\r\n\r\n").into_bytes()
        }
        Dialect::Gemini => {
            let event = |event: &Value| format!("data:{event:#}\n").replace('\n', "\ndata:");
            let event = |one: &Value| format!("{}\n\n", event(one).trim_end_matches("\ndata:"));
            events.iter().map(event).collect::<String>().into_bytes()
        }
        Dialect::GeminiJson => format!("[{}]", lines("\r\n,\r\n")).into_bytes(),
        _ => (lines("\n") + "\n").into_bytes(),
    }
}

fn calls(script: &[ScriptPart]) -> impl Iterator<Item = (&str, &str, Value)> {
    script.iter().filter_map(|one| match one {
        ScriptPart::Text(_) => None,
        ScriptPart::Call { id, name, arguments } => {
            Some((id.as_str(), name.as_str(), json!(arguments)))
        }
    })
}

/// All texts joined, for providers that keep them apart from the calls.
fn joined_text(script: &[ScriptPart]) -> Option<String> {
    let texts: Vec<&str> = script
        .iter()
        .filter_map(|one| match one {
            ScriptPart::Text(text) => Some(text.as_str()),
            ScriptPart::Call { .. } => None,
        })
        .collect();
    (!texts.is_empty()).then(|| texts.concat())
}

/// Splits text into chunks; an empty text has one empty chunk.
fn pieces(text: &str, size: usize) -> std::vec::IntoIter<String> {
    let chars: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = if chars.is_empty() {
        vec![String::new()]
    } else {
        chars.chunks(size.max(1)).map(|piece| piece.iter().collect()).collect()
    };
    pieces.into_iter()
}

fn part(script: &ScriptPart) -> Value {
    match script {
        ScriptPart::Text(text) => json!({"text": text}),
        ScriptPart::Call { id, name, arguments } => {
            let mut call = json!({"name": name, "args": arguments});
            if !id.is_empty() {
                call["id"] = json!(id);
            }
            json!({"functionCall": call, "thoughtSignature": "c2ln"})
        }
    }
}

fn ollama_call(call: (&str, &str, Value)) -> Value {
    let (id, name, arguments) = call;
    let mut call = json!({"function": {"name": name, "arguments": arguments}});
    if !id.is_empty() {
        call["id"] = json!(id);
    }
    call
}

fn request(call: (&str, &str, Value)) -> Value {
    let (id, name, arguments) = call;
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
           "params": {"name": name, "arguments": arguments}})
}

fn anthropic(script: &[ScriptPart], ending: &str, size: usize) -> Vec<Value> {
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
                         "content": [], "stop_reason": null, "stop_sequence": null,
                         "usage": {"input_tokens": 1, "output_tokens": 1}});
    let mut events = vec![json!({"type": "message_start", "message": message})];
    for (index, one) in script.iter().enumerate() {
        let (block, kind, field, whole) = match one {
            ScriptPart::Text(text) => {
                (json!({"type": "text", "text": ""}), "text_delta", "text", text.clone())
            }
            ScriptPart::Call { id, name, arguments } => {
                let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                // Empty arguments often have no chunks at all.
                let whole =
                    if arguments.is_empty() { String::new() } else { json!(arguments).to_string() };
                (block, "input_json_delta", "partial_json", whole)
            }
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.push(json!({"type": "ping"}));
        for piece in pieces(&whole, size) {
            let delta = json!({"type": kind, field: piece});
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "usage": {"output_tokens": 2},
                       "delta": {"stop_reason": ending, "stop_sequence": null}}));
    events.push(json!({"type": "message_stop"}));
    events
}

fn item(index: usize, script: &ScriptPart) -> Value {
    match script {
        ScriptPart::Text(text) => json!({
            "type": "message", "id": format!("msg_{index}"), "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }),
        ScriptPart::Call { id, name, arguments } => json!({
            "type": "function_call", "id": format!("fc_{index}"), "call_id": id, "name": name,
            "arguments": json!(arguments).to_string(), "status": "completed",
        }),
    }
}

fn response(script: &[ScriptPart], ending: &str) -> Value {
    let output: Vec<Value> = script.iter().enumerate().map(|(at, one)| item(at, one)).collect();
    let mut response = json!({"id": "resp_1", "object": "response", "created_at": 1, "model": "m",
                              "status": ending, "output": output, "parallel_tool_calls": true,
                              "tool_choice": "auto", "tools": []});
    if ending == "refused" {
        response["status"] = json!("incomplete");
        response["incomplete_details"] = json!({"reason": "content_filter"});
    }
    response
}

fn openai(script: &[ScriptPart], ending: &str, size: usize) -> Vec<Value> {
    let mut events =
        vec![json!({"type": "response.created", "response": {"status": "in_progress"}})];
    for (index, one) in script.iter().enumerate() {
        let whole = item(index, one);
        let mut begun = whole.clone();
        begun["status"] = json!("in_progress");
        let (field, kind, text) = match one {
            ScriptPart::Text(text) => ("content", "output_text", text.clone()),
            ScriptPart::Call { arguments, .. } => {
                ("arguments", "function_call_arguments", json!(arguments).to_string())
            }
        };
        begun[field] = if field == "content" { json!([]) } else { json!("") };
        events.push(
            json!({"type": "response.output_item.added", "output_index": index, "item": begun}),
        );
        for piece in pieces(&text, size) {
            events.push(json!({"type": format!("response.{kind}.delta"), "output_index": index,
                               "item_id": whole["id"], "content_index": 0, "delta": piece}));
        }
        events.push(json!({"type": format!("response.{kind}.done"), "output_index": index,
                           "item_id": whole["id"], "content_index": 0, field: text}));
        events.push(
            json!({"type": "response.output_item.done", "output_index": index, "item": whole}),
        );
    }
    let kind = if ending == "refused" { "incomplete" } else { ending };
    events.push(json!({"type": format!("response.{kind}"), "response": response(script, ending)}));
    events
}

fn chat(script: &[ScriptPart], ending: &str, size: usize) -> Vec<Value> {
    let chunk = |delta: Value, ending: Option<&str>| {
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [
            {"index": 0, "delta": delta, "finish_reason": ending},
        ]})
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": null}), None)];
    let mut index = 0;
    for one in script {
        match one {
            ScriptPart::Text(text) => {
                events.extend(pieces(text, size).map(|p| chunk(json!({"content": p}), None)));
            }
            ScriptPart::Call { id, name, arguments } => {
                let first = json!({"index": index, "id": id, "type": "function",
                                   "function": {"name": name, "arguments": ""}});
                events.push(chunk(json!({"tool_calls": [first]}), None));
                for piece in pieces(&json!(arguments).to_string(), size) {
                    let more = json!({"index": index, "function": {"arguments": piece}});
                    events.push(chunk(json!({"tool_calls": [more]}), None));
                }
                index += 1;
            }
        }
    }
    events.push(chunk(json!({}), Some(ending)));
    events.push(json!({"id": "c", "choices": [], "usage": {"total_tokens": 2}}));
    events
}

fn bedrock(script: &[ScriptPart], ending: &str, size: usize) -> Vec<Value> {
    let mut events = vec![json!({"messageStart": {"role": "assistant"}})];
    for (index, one) in script.iter().enumerate() {
        let delta = |delta: Value| json!({"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}});
        match one {
            ScriptPart::Text(text) => {
                events.extend(pieces(text, size).map(|piece| delta(json!({"text": piece}))));
            }
            ScriptPart::Call { id, name, arguments } => {
                let start = json!({"toolUse": {"toolUseId": id, "name": name}});
                events.push(
                    json!({"contentBlockStart": {"contentBlockIndex": index, "start": start}}),
                );
                if !arguments.is_empty() {
                    let pieces = pieces(&json!(arguments).to_string(), size);
                    events.extend(pieces.map(|piece| delta(json!({"toolUse": {"input": piece}}))));
                }
            }
        }
        events.push(json!({"contentBlockStop": {"contentBlockIndex": index}}));
    }
    events.push(json!({"messageStop": {"stopReason": ending}}));
    events.push(json!({"metadata": {"usage": {}}}));
    events
}
