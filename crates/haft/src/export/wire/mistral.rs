//! Mistral chat: like `openai_chat`, with arguments that may be data, ids that may be none, and a
//! name in every answer.
//!
//! An id is repeated exactly as it was given. Where there is none, the call and its answer both get one
//! of the nine letters and digits that Mistral asks for.

use serde_json::{Value, json};

use super::{Dialect, Response, asked::Reply, content, openai_chat};
use crate::{error::Error, turn::Stop};

pub(super) fn parse(response: &Value) -> Result<Response, Error> {
    let (spoken, reason, _) = openai_chat::read(Dialect::Mistral, response)?;
    Response::new(Dialect::Mistral, spoken, stop(reason.as_str()))
}

pub(super) fn stop(reason: Option<&str>) -> Stop {
    match reason {
        Some("stop" | "tool_calls") => Stop::Done,
        Some("length" | "model_length") => Stop::Truncated,
        // Among them `error`.
        Some(_) | None => Stop::Unknown,
    }
}

pub(super) fn answer(replies: &[Reply<'_>]) -> Value {
    replies
        .iter()
        .map(|reply| {
            json!({
                "role": "tool",
                "name": reply.expected.name,
                "content": content::plain(reply.answer, usize::MAX),
                "tool_call_id": reply.id(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::Call;

    #[test]
    fn every_documented_ending_has_its_meaning() {
        for (reason, wanted) in [
            ("stop", Stop::Done),
            ("tool_calls", Stop::Done),
            ("length", Stop::Truncated),
            ("model_length", Stop::Truncated),
            ("error", Stop::Unknown),
            ("something_new", Stop::Unknown),
        ] {
            let choice = json!({"index": 0, "finish_reason": reason, "message": {}});
            assert_eq!(parse(&json!({"choices": [choice]})).unwrap().stop, wanted, "{reason}");
        }
    }

    #[test]
    fn arguments_may_be_text_or_data_and_null_is_no_id() {
        let response = json!({"choices": [{"finish_reason": "tool_calls", "message": {"tool_calls": [
            {"id": "null", "function": {"name": "a", "arguments": {"x": 1}}},
            {"id": "AbCdEf123", "function": {"name": "b", "arguments": "{\"x\":1}"}},
        ]}}]});
        let calls = parse(&response).unwrap().calls;
        let wanted =
            [Call::new("", "a", json!({"x": 1})), Call::new("AbCdEf123", "b", "{\"x\":1}")];
        assert_eq!(calls, wanted);
    }
}
