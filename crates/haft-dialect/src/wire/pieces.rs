//! What a host shows while a response is generated: text, the start of calls, pieces of their
//! arguments, and the tokens of a response.
//!
//! In: decoded events, or a whole response. Out: pieces and token counts. This is for people and
//! budgets only: calls come from the decoders, which check what they accept.

use std::collections::HashMap;

use serde_json::Value;

use super::{Dialect, json};

/// A piece of a response that is being generated.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamPiece {
    /// More text.
    Text(String),
    /// A call begins. Providers that send whole calls have no such piece.
    CallStart {
        /// Its id; empty if the provider has none.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of the arguments of a call.
    Arguments {
        /// The id of the call; empty if the provider has none.
        id: String,
        /// The next part of the JSON text.
        text: String,
    },
}

/// The tokens of a response and its request, as the provider counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenCounts {
    /// Tokens of the request, including those from the provider's cache.
    pub input: u64,
    /// Tokens of the request that were in the provider's cache.
    pub cached_input: u64,
    /// Tokens of the request that were written to the provider's cache, where it counts them.
    pub cache_write: u64,
    /// Tokens of the response, including reasoning.
    pub output: u64,
}

/// Collects the pieces of a stream.
#[derive(Debug, Default)]
pub(super) struct PieceCollector {
    is_enabled: bool,
    pieces: Vec<StreamPiece>,
    /// The id of each open call, by the provider's own key for it.
    ids: HashMap<String, String>,
    counts: Option<TokenCounts>,
}

/// The maximum number of calls whose pieces are shown.
const MAX_SHOWN_CALLS: usize = super::MAX_CALLS;

impl PieceCollector {
    pub(super) fn enable(&mut self) {
        self.is_enabled = true;
    }

    pub(super) fn take(&mut self) -> Vec<StreamPiece> {
        std::mem::take(&mut self.pieces)
    }

    pub(super) fn counts(&self) -> Option<TokenCounts> {
        self.counts
    }

    /// Looks at one event.
    pub(super) fn observe(&mut self, dialect: Dialect, event: &Value) {
        count(dialect, event, &mut self.counts);
        if !self.is_enabled {
            return;
        }
        match dialect {
            Dialect::Anthropic => self.anthropic(event),
            Dialect::OpenAiResponses => self.responses(event),
            Dialect::OpenAiChat | Dialect::Mistral => self.chat(event),
            Dialect::Gemini | Dialect::GeminiJson => self.gemini(event),
            Dialect::Bedrock => self.bedrock(event),
            Dialect::Ollama => {
                self.text(json::text(event.get("message").unwrap_or(&Value::Null), "content"));
            }
            Dialect::Mcp => {}
        }
    }

    fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.pieces.push(StreamPiece::Text(text.to_owned()));
        }
    }

    fn start(&mut self, key: String, id: &str, name: &str) {
        if self.ids.len() >= MAX_SHOWN_CALLS || self.ids.contains_key(&key) {
            return;
        }
        self.ids.insert(key, id.to_owned());
        self.pieces.push(StreamPiece::CallStart { id: id.to_owned(), name: name.to_owned() });
    }

    fn arguments(&mut self, key: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        if let Some(id) = self.ids.get(key) {
            let (id, text) = (id.clone(), text.to_owned());
            self.pieces.push(StreamPiece::Arguments { id, text });
        }
    }

    fn anthropic(&mut self, event: &Value) {
        let key = index(event, "index");
        match json::text(event, "type") {
            "content_block_start" => {
                let block = event.get("content_block").unwrap_or(&Value::Null);
                match json::text(block, "type") {
                    "text" => self.text(json::text(block, "text")),
                    "tool_use" => {
                        self.start(key, json::text(block, "id"), json::text(block, "name"))
                    }
                    _ => {}
                }
            }
            "content_block_delta" => {
                let delta = event.get("delta").unwrap_or(&Value::Null);
                match json::text(delta, "type") {
                    "text_delta" => self.text(json::text(delta, "text")),
                    "input_json_delta" => self.arguments(&key, json::text(delta, "partial_json")),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn responses(&mut self, event: &Value) {
        match json::text(event, "type") {
            "response.output_text.delta" | "response.refusal.delta" => {
                self.text(json::text(event, "delta"));
            }
            "response.output_item.added" => {
                let item = event.get("item").unwrap_or(&Value::Null);
                if matches!(json::text(item, "type"), "function_call" | "custom_tool_call") {
                    let key = index(event, "output_index");
                    self.start(key, json::text(item, "call_id"), json::text(item, "name"));
                }
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                self.arguments(&index(event, "output_index"), json::text(event, "delta"));
            }
            _ => {}
        }
    }

    fn chat(&mut self, event: &Value) {
        let Some(choice) = json::list(event, "choices").first() else { return };
        let delta = choice.get("delta").unwrap_or(&Value::Null);
        match delta.get("content") {
            Some(Value::String(text)) => self.text(text),
            // Mistral writes a list of chunks where it reasons.
            Some(Value::Array(chunks)) => {
                chunks.iter().for_each(|chunk| self.text(json::text(chunk, "text")));
            }
            _ => {}
        }
        for call in json::list(delta, "tool_calls") {
            let key = index(call, "index");
            let function = call.get("function").unwrap_or(&Value::Null);
            let name = json::text(function, "name");
            if !name.is_empty() {
                self.start(key.clone(), json::text(call, "id"), name);
            }
            match function.get("arguments") {
                Some(Value::String(text)) => self.arguments(&key, text),
                Some(Value::Null) | None => {}
                Some(json) => self.arguments(&key, &json.to_string()),
            }
        }
    }

    fn gemini(&mut self, event: &Value) {
        let Some(candidate) = json::list(event, "candidates").first() else { return };
        let content = candidate.get("content").unwrap_or(&Value::Null);
        for part in json::list(content, "parts") {
            // A thought is not part of the answer.
            if part.get("thought").and_then(Value::as_bool) != Some(true) {
                self.text(json::text(part, "text"));
            }
        }
    }

    fn bedrock(&mut self, event: &Value) {
        if let Some(start) = json::some(event, "contentBlockStart") {
            if let Some(call) = start.pointer("/start/toolUse") {
                let (id, name) = (json::text(call, "toolUseId"), json::text(call, "name"));
                self.start(index(start, "contentBlockIndex"), id, name);
            }
        } else if let Some(delta) = json::some(event, "contentBlockDelta") {
            let piece = delta.get("delta").unwrap_or(&Value::Null);
            self.text(json::text(piece, "text"));
            if let Some(call) = piece.get("toolUse") {
                self.arguments(&index(delta, "contentBlockIndex"), json::text(call, "input"));
            }
        }
    }
}

/// The key of a call: its index, or nothing where a server leaves it out.
fn index(of: &Value, key: &str) -> String {
    of.get(key).map(Value::to_string).unwrap_or_default()
}

/// Returns the tokens that a whole response reports.
pub(super) fn counts_of(dialect: Dialect, response: &Value) -> Option<TokenCounts> {
    let mut counts = None;
    count(dialect, response, &mut counts);
    counts
}

/// Takes the tokens that a response or an event reports. A later report replaces an earlier one,
/// field by field.
fn count(dialect: Dialect, of: &Value, counts: &mut Option<TokenCounts>) {
    // The fields of a report: input without cache, cache reads, cache writes, output, reasoning.
    let (report, fields): (Option<&Value>, [&str; 5]) = match dialect {
        Dialect::Anthropic => (
            json::some(of, "usage").or_else(|| of.pointer("/message/usage")),
            [
                "/input_tokens",
                "/cache_read_input_tokens",
                "/cache_creation_input_tokens",
                "/output_tokens",
                "",
            ],
        ),
        Dialect::OpenAiResponses => (
            json::some(of, "usage").or_else(|| of.pointer("/response/usage")),
            ["/input_tokens", "/input_tokens_details/cached_tokens", "", "/output_tokens", ""],
        ),
        Dialect::OpenAiChat | Dialect::Mistral => (
            json::some(of, "usage"),
            [
                "/prompt_tokens",
                "/prompt_tokens_details/cached_tokens",
                "",
                "/completion_tokens",
                "",
            ],
        ),
        Dialect::Gemini | Dialect::GeminiJson => (
            json::some(of, "usageMetadata"),
            [
                "/promptTokenCount",
                "/cachedContentTokenCount",
                "",
                "/candidatesTokenCount",
                "/thoughtsTokenCount",
            ],
        ),
        Dialect::Bedrock => (
            json::some(of, "usage").or_else(|| of.pointer("/metadata/usage")),
            [
                "/inputTokens",
                "/cacheReadInputTokens",
                "/cacheWriteInputTokens",
                "/outputTokens",
                "",
            ],
        ),
        Dialect::Ollama => (Some(of), ["/prompt_eval_count", "", "", "/eval_count", ""]),
        Dialect::Mcp => (None, [""; 5]),
    };
    let Some(report) = report.filter(|report| report.is_object()) else { return };
    let field = |name: &str| {
        if name.is_empty() {
            return None;
        }
        report.pointer(name).and_then(Value::as_u64)
    };
    let [plain, cached, written, output, reasoning] = fields.map(field);
    if plain.is_none() && output.is_none() {
        return;
    }
    let total = counts.get_or_insert_default();
    // Anthropic and Bedrock count what the cache had apart from the rest.
    let is_apart = matches!(dialect, Dialect::Anthropic | Dialect::Bedrock);
    if let Some(plain) = plain {
        let apart = cached.unwrap_or(0).saturating_add(written.unwrap_or(0));
        total.input = if is_apart { plain.saturating_add(apart) } else { plain };
    }
    if let Some(cached) = cached {
        total.cached_input = cached;
    }
    if let Some(written) = written {
        total.cache_write = written;
    }
    if let Some(output) = output {
        total.output = output.saturating_add(reasoning.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn observed(dialect: Dialect, events: &[Value]) -> (Vec<StreamPiece>, Option<TokenCounts>) {
        let mut decoder = dialect.stream().with_pieces();
        let mut pieces = Vec::new();
        for event in events {
            let _ = decoder.event(event);
            pieces.extend(decoder.take_pieces());
        }
        (pieces, decoder.token_counts())
    }

    fn wanted() -> Vec<StreamPiece> {
        let (id, name) = ("a".to_owned(), "now".to_owned());
        vec![
            StreamPiece::Text("Hi".to_owned()),
            StreamPiece::CallStart { id: id.clone(), name },
            StreamPiece::Arguments { id: id.clone(), text: "{\"x\"".to_owned() },
            StreamPiece::Arguments { id, text: ":1}".to_owned() },
        ]
    }

    #[test]
    fn text_calls_and_arguments_are_shown_while_they_stream() {
        let anthropic = [
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "a", "name": "now", "input": {}}}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"x\""}}),
            json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": ":1}"}}),
            json!({"type": "content_block_stop", "index": 1}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}),
        ];
        let counts = TokenCounts { input: 7, cached_input: 4, cache_write: 0, output: 9 };
        assert_eq!(observed(Dialect::Anthropic, &anthropic), (wanted(), Some(counts)));
        let chat = [
            json!({"choices": [{"delta": {"role": "assistant", "content": "Hi"}}]}),
            json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "now", "arguments": ""}}]}}]}),
            json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{\"x\""}}]}}]}),
            json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}}]}),
            json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
            json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}}),
        ];
        assert_eq!(observed(Dialect::OpenAiChat, &chat), (wanted(), Some(counts)));
        let responses = [
            json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m", "role": "assistant", "content": []}}),
            json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "m", "delta": "Hi"}),
            json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "function_call", "id": "f", "call_id": "a", "name": "now", "arguments": ""}}),
            json!({"type": "response.function_call_arguments.delta", "output_index": 1, "item_id": "f", "delta": "{\"x\""}),
            json!({"type": "response.function_call_arguments.delta", "output_index": 1, "item_id": "f", "delta": ":1}"}),
            json!({"type": "response.completed", "response": {"status": "completed", "output": [], "usage": {"input_tokens": 7, "output_tokens": 9, "input_tokens_details": {"cached_tokens": 4}}}}),
        ];
        assert_eq!(observed(Dialect::OpenAiResponses, &responses), (wanted(), Some(counts)));
        let bedrock = [
            json!({"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Hi"}}}),
            json!({"contentBlockStart": {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "a", "name": "now"}}}}),
            json!({"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"toolUse": {"input": "{\"x\""}}}}),
            json!({"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"toolUse": {"input": ":1}"}}}}),
            json!({"contentBlockStop": {"contentBlockIndex": 1}}),
            json!({"messageStop": {"stopReason": "tool_use"}}),
            json!({"metadata": {"usage": {"inputTokens": 3, "cacheReadInputTokens": 4, "outputTokens": 9}}}),
        ];
        assert_eq!(observed(Dialect::Bedrock, &bedrock), (wanted(), Some(counts)));
    }

    #[test]
    fn providers_of_whole_calls_show_their_text() {
        let gemini = [json!({
            "candidates": [{"content": {"parts": [{"text": "no", "thought": true}, {"text": "Hi"}]}}],
            "usageMetadata": {"promptTokenCount": 7, "cachedContentTokenCount": 4, "candidatesTokenCount": 5, "thoughtsTokenCount": 4},
        })];
        let counts = TokenCounts { input: 7, cached_input: 4, cache_write: 0, output: 9 };
        let text = vec![StreamPiece::Text("Hi".to_owned())];
        assert_eq!(observed(Dialect::Gemini, &gemini), (text.clone(), Some(counts)));
        let ollama =
            [json!({"message": {"content": "Hi"}, "prompt_eval_count": 7, "eval_count": 9})];
        let counts = TokenCounts { input: 7, cached_input: 0, cache_write: 0, output: 9 };
        assert_eq!(observed(Dialect::Ollama, &ollama), (text, Some(counts)));
    }

    #[test]
    fn whole_response_reports_its_tokens() {
        let response = json!({"usage": {"input_tokens": 1, "output_tokens": 2}});
        let counts = Dialect::Anthropic.token_counts(&response);
        assert_eq!(counts, Some(TokenCounts { input: 1, output: 2, ..TokenCounts::default() }));
        assert_eq!(Dialect::Anthropic.token_counts(&json!({"usage": 7})), None);
    }

    #[test]
    fn cache_writes_are_counted_apart_from_cache_reads() {
        let usage = json!({"input_tokens": 1, "cache_creation_input_tokens": 20,
                           "cache_read_input_tokens": 300, "output_tokens": 4});
        let wanted = TokenCounts { input: 321, cached_input: 300, cache_write: 20, output: 4 };
        let whole = Dialect::Anthropic.token_counts(&json!({"usage": usage}));
        assert_eq!(whole, Some(wanted));
        // The last event of a stream repeats the output alone.
        let events = [
            json!({"type": "message_start", "message": {"usage": usage}}),
            json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 9}}),
        ];
        let (_, counts) = observed(Dialect::Anthropic, &events);
        assert_eq!(counts, Some(TokenCounts { output: 9, ..wanted }));
    }
}
