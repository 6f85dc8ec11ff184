//! What the first events of a stream say: whether content has begun, or the provider has failed in
//! a way that may pass.
//!
//! A provider that is overloaded may accept a request with status 200 and then send an error as its
//! first event. A client can send such a request again, because nothing was answered yet.
//! In: the bytes so far. Out: a verdict. Pure.

use serde_json::{Value, json};

/// What the bytes of a stream say so far.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StreamStart {
    /// No event that says more than that the response begins.
    Pending,
    /// Content, or something that the decoder reports.
    Content,
    /// An error before any content, which a status would express as 429 or 5xx.
    Failed {
        /// That status.
        status: u16,
        /// The error as the body of a response with this status has it.
        body: Value,
    },
}

/// Events before the content: `type` of Anthropic Messages and of OpenAI Responses.
const BEFORE_CONTENT: [&str; 5] =
    ["message_start", "ping", "response.created", "response.in_progress", "response.queued"];

impl StreamStart {
    /// Reads the first bytes of a stream of server-sent events, of any provider.
    ///
    /// ```
    /// use haft_dialect::StreamStart;
    ///
    /// let busy = b"data: {\"type\": \"error\", \"error\": {\"type\": \"overloaded_error\"}}\n";
    /// assert!(matches!(StreamStart::of(busy), StreamStart::Failed { status: 529, .. }));
    /// assert_eq!(StreamStart::of(b"event: ping\ndata: {\"type\""), StreamStart::Pending);
    /// ```
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines = bytes.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n');
        for line in lines {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let Some(data) = line.strip_prefix(b"data:") else {
                let is_framing = [&b"event:"[..], b"id:", b"retry:", b":"];
                if line.is_empty() || is_framing.iter().any(|start| line.starts_with(start)) {
                    continue;
                }
                return Self::Content;
            };
            let Ok(event) = serde_json::from_slice::<Value>(data) else { return Self::Content };
            if let Some(failed) = failure(&event) {
                return failed;
            }
            let kind = event.get("type").and_then(Value::as_str);
            if !kind.is_some_and(|kind| BEFORE_CONTENT.contains(&kind)) {
                return Self::Content;
            }
        }
        Self::Pending
    }
}

/// The error of an event, if waiting may help.
fn failure(event: &Value) -> Option<StreamStart> {
    let error = match event.get("type").and_then(Value::as_str) {
        Some("response.failed") => event.pointer("/response/error")?,
        // The error of OpenAI Responses is the event itself.
        Some("error") => event.get("error").unwrap_or(event),
        _ => event.get("error")?,
    };
    let number = error.get("code").and_then(Value::as_u64);
    let words = ["type", "code", "status"];
    let mut words = words.iter().filter_map(|key| error.get(*key)?.as_str());
    let status = match number.and_then(|code| u16::try_from(code).ok()) {
        Some(status @ (429 | 500..=599)) => status,
        Some(_) => return None,
        None => words.find_map(status_of)?,
    };
    Some(StreamStart::Failed { status, body: json!({ "error": error }) })
}

/// The status that a provider would send instead.
fn status_of(word: &str) -> Option<u16> {
    Some(match word {
        "overloaded_error" | "overloaded" => 529,
        "rate_limit_error" | "rate_limit_exceeded" | "RESOURCE_EXHAUSTED" => 429,
        "api_error" | "server_error" | "internal_error" | "INTERNAL" => 500,
        "UNAVAILABLE" | "service_unavailable" => 503,
        "timeout_error" | "DEADLINE_EXCEEDED" => 504,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(text: &str) -> Option<u16> {
        match StreamStart::of(text.as_bytes()) {
            StreamStart::Failed { status, .. } => Some(status),
            _ => None,
        }
    }

    #[test]
    fn error_before_content_has_the_status_of_a_response() {
        for (text, expected) in [
            (
                "event: message_start\ndata: {\"type\": \"message_start\"}\n\nevent: error\ndata: {\"type\": \"error\", \"error\": {\"type\": \"overloaded_error\", \"message\": \"Overloaded\"}}\n\n",
                529,
            ),
            (
                "data: {\"type\": \"response.created\"}\r\n\r\ndata: {\"type\": \"response.failed\", \"response\": {\"error\": {\"code\": \"server_error\", \"message\": \"x\"}}}\r\n",
                500,
            ),
            (
                "data: {\"type\": \"error\", \"code\": \"rate_limit_exceeded\", \"message\": \"x\"}\n",
                429,
            ),
            ("data: {\"error\": {\"message\": \"x\", \"type\": \"server_error\"}}\n", 500),
            (
                "data: {\"error\": {\"code\": 503, \"status\": \"UNAVAILABLE\", \"message\": \"x\"}}\n",
                503,
            ),
        ] {
            assert_eq!(status(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn content_and_lasting_errors_are_left_to_the_decoder() {
        for text in [
            "data: {\"type\": \"error\", \"error\": {\"type\": \"invalid_request_error\"}}\n",
            "data: {\"error\": {\"code\": 400, \"status\": \"INVALID_ARGUMENT\"}}\n",
            "data: {\"type\": \"content_block_start\"}\n\ndata: {\"type\": \"error\", \"error\": {\"type\": \"overloaded_error\"}}\n",
            "data: {\"choices\": []}\n",
            "data: [DONE]\n",
            "{\"error\": {\"code\": 503}}\n",
        ] {
            assert_eq!(StreamStart::of(text.as_bytes()), StreamStart::Content, "{text}");
        }
        for text in [
            "",
            ": comment\n",
            "event: ping\ndata: {\"type\": \"ping\"}\n\n",
            "data: {\"type\": \"er",
        ] {
            assert_eq!(StreamStart::of(text.as_bytes()), StreamStart::Pending, "{text}");
        }
    }
}
