//! Mistral chat: like `openai_chat`, but arguments may be JSON values, ids may be missing, and
//! every result has a name.
//!
//! An id is repeated exactly as sent. Where there is none, the call and its result both get an id
//! of nine letters and digits, as Mistral requires.

use haft_core::{Error, StopReason};
use serde_json::{Value, json};

use super::{Dialect, ModelResponse, openai_chat, reply_context::Reply};

pub(super) fn parse(response: &Value) -> Result<ModelResponse, Error> {
    let (decoded, reason, _) = openai_chat::read(Dialect::Mistral, response)?;
    ModelResponse::new(Dialect::Mistral, decoded, stop(reason.as_str()))
}

pub(super) fn stop(reason: Option<&str>) -> StopReason {
    match reason {
        Some("stop" | "tool_calls") => StopReason::Done,
        Some("length" | "model_length") => StopReason::Truncated,
        // Including `error`.
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
                "content": reply.content.to_text(usize::MAX),
                "tool_call_id": reply.id(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use haft_core::ToolCall;

    #[test]
    fn every_documented_stop_reason_is_mapped() {
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
    fn arguments_may_be_text_or_json_and_null_text_is_not_an_id() {
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
