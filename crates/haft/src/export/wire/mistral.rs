//! Mistral chat: like `openai_chat`, with arguments that may be data, ids that may be none, and a
//! name in every answer.
//!
//! An id is repeated exactly as it was given. Where there is none, the call and its answer both get one
//! of the nine letters and digits that Mistral asks for.

use serde_json::{Value, json};

use super::{Dialect, ModelResponse, asked::Reply, content, openai_chat};
use crate::{error::Error, turn::StopReason};

pub(super) fn parse(response: &Value) -> Result<ModelResponse, Error> {
    let (spoken, reason, _) = openai_chat::read(Dialect::Mistral, response)?;
    ModelResponse::new(Dialect::Mistral, spoken, stop(reason.as_str()))
}

pub(super) fn stop(reason: Option<&str>) -> StopReason {
    match reason {
        Some("stop" | "tool_calls") => StopReason::Done,
        Some("length" | "model_length") => StopReason::Truncated,
        // Among them `error`.
        Some(_) | None => StopReason::Unknown,
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
    use crate::turn::ToolCall;

    #[test]
    fn every_documented_ending_has_its_meaning() {
        for (reason, wanted) in [
            ("stop", StopReason::Done),
            ("tool_calls", StopReason::Done),
            ("length", StopReason::Truncated),
            ("model_length", StopReason::Truncated),
            ("error", StopReason::Unknown),
            ("something_new", StopReason::Unknown),
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
            [ToolCall::new("", "a", json!({"x": 1})), ToolCall::new("AbCdEf123", "b", "{\"x\":1}")];
        assert_eq!(calls, wanted);
    }
}
