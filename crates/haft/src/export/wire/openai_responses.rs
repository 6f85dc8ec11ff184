//! OpenAI Responses: `function_call` items in, a list of `function_call_output` items out.

use haft_core::Block;
use serde_json::{Value, json};

use super::{Dialect, Response, unreadable};
use crate::{
    envelope::Envelope,
    error::Error,
    turn::{Arguments, Call, Stop},
};

pub(super) fn parse(response: &Value) -> Result<Response, Error> {
    let Some(items) = response.get("output").and_then(Value::as_array) else {
        return Err(unreadable(Dialect::OpenAiResponses, response, "it has no `output` array"));
    };
    let mut cut = false;
    let mut refused = false;
    let mut calls = Vec::new();
    for item in items {
        let text = |key| item.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "function_call" => {
                cut |= text("status") == "incomplete";
                let arguments = match item.get("arguments") {
                    Some(Value::String(text)) => Arguments::Text(text.clone()),
                    Some(other) => Arguments::Json(other.clone()),
                    None => Arguments::Text(String::new()),
                };
                calls.push(Call::new(text("call_id"), text("name"), arguments));
            }
            "message" => {
                refused |= item
                    .get("content")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .any(|part| part.get("type").and_then(Value::as_str) == Some("refusal"));
            }
            _ => {}
        }
    }
    let stop = match response.get("status").and_then(Value::as_str) {
        _ if cut => Stop::Truncated,
        _ if refused => Stop::Refused,
        Some("completed") => Stop::Done,
        Some("incomplete") => Stop::Truncated,
        Some(_) | None => Stop::Unknown,
    };
    Ok(Response { calls, stop })
}

pub(super) fn answer(answers: &[Envelope]) -> Value {
    answers
        .iter()
        .map(|answer| {
            json!({
                "type": "function_call_output",
                "call_id": answer.id().as_str(),
                "output": output(answer),
            })
        })
        .collect()
}

/// There is no error flag here: the failure's code opens the text.
fn output(answer: &Envelope) -> Value {
    let blocks = answer.output().map(|o| o.blocks.as_slice()).unwrap_or_default();
    if !blocks.iter().any(|b| matches!(b, Block::Image { .. })) {
        return Value::String(answer.text().into_owned());
    }
    blocks
        .iter()
        .map(|block| match block {
            Block::Image { data, media_type } => json!({
                "type": "input_image",
                "image_url": format!("data:{media_type};base64,{data}"),
            }),
            other => json!({
                "type": "input_text",
                "text": haft_core::Output::from(other.clone()).to_text(),
            }),
        })
        .collect()
}
