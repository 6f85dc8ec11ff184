//! Decodes model responses into calls, and encodes tool results as the next request message.
//!
//! `parse` decodes a complete response, `stream` one that is still being generated;
//! `render_results` builds the message with the results. One file per provider knows its JSON;
//! `reply_context` keeps what a result must repeat; `framing`, `content` and `json` are shared.
//!
//! INVARIANT: a response and its stream give the same calls in the same order, and the same stop
//! reason.
//! FAIL CLOSED: of several stop reasons the worst wins, and a contradiction fails the stream.

mod reply_context;
mod json;
mod content;
mod framing;
mod assistant;
mod pieces;
mod stream;
mod stream_start;
mod anthropic;
mod openai_responses;
mod openai_chat;
mod mistral;
mod gemini;
mod bedrock;
mod ollama;
mod mcp;

use haft_core::{Error, ErrorKind, StopReason, ToolCall};
use serde_json::Value;

pub(super) use self::json::INVALID;
pub use self::{
    content::{OpeningMarker, RenderResult, ResultBlock, ResultContent, block_text},
    pieces::{StreamPiece, TokenCounts},
    reply_context::ReplyContext,
    stream::{DecodedResponse, ResponseDecoder},
    stream_start::StreamStart,
};
use self::{
    reply_context::{DecodedCall, Reply},
    stream::EventHandler,
};
use super::Dialect;

/// The maximum number of calls in one message. It bounds the work that one response can cause.
const MAX_CALLS: usize = 4_096;

/// A decoded response.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelResponse {
    /// The calls, in the model's order.
    pub calls: Vec<ToolCall>,
    /// Why the message ended.
    pub stop: StopReason,
    /// What the results must repeat, call by call.
    pub reply_context: ReplyContext,
}

impl ModelResponse {
    /// FAIL CLOSED: with more than `MAX_CALLS` calls, none is accepted.
    fn new(
        dialect: Dialect,
        decoded: impl IntoIterator<Item = DecodedCall>,
        stop: StopReason,
    ) -> Result<Self, Error> {
        let mut asked = ReplyContext::new(dialect);
        let decoded = decoded.into_iter().take(MAX_CALLS + 1);
        let calls: Vec<ToolCall> = decoded.map(|decoded| asked.note(decoded)).collect();
        if calls.len() > MAX_CALLS {
            let why = format!("this {dialect} response is refused: {}", too_many());
            return Err(Error::new(ErrorKind::BadResponse, why));
        }
        Ok(Self { calls, stop, reply_context: asked })
    }

    fn batch(mut self) -> Self {
        self.reply_context = self.reply_context.batch();
        self
    }

    /// Returns the assistant message for the history, to be put before the results. Where the
    /// provider pairs calls and results by id and gave no id, or gave one twice, it contains the
    /// ids that haft assigned. `response` must be the response that this was parsed from.
    #[must_use]
    pub fn assistant_message<R: RenderResult>(&self, response: &Value, results: &[R]) -> Value {
        let (mut message, places) = assistant::message(self.reply_context.dialect(), response);
        self.reply_context.write_new_ids(results, &places, &mut message);
        message
    }

    /// Builds the message with the results; the nth result belongs to the nth call.
    ///
    /// Of two calls with the same id the second is not run. Anthropic, both OpenAI APIs, Bedrock
    /// and Mistral pair by id, so its result has the new id that the call was given, and the
    /// response must be echoed with that id too ([`assistant_message`](Self::assistant_message)
    /// does so). Gemini, Ollama and MCP pair by order or by request, so its result repeats the
    /// given id.
    #[must_use]
    pub fn render_results<R: RenderResult>(&self, results: &[R]) -> Value {
        self.reply_context.render_results(results)
    }
}

impl Dialect {
    /// Decodes a complete response.
    ///
    /// # Errors
    /// Fails when it is not a response of this dialect. An invalid call is no error here: it is
    /// returned and later answered with a failure.
    pub fn parse(self, response: &Value) -> Result<ModelResponse, Error> {
        match self {
            Self::Anthropic => anthropic::parse(response),
            Self::OpenAiResponses => openai_responses::parse(response),
            Self::OpenAiChat => openai_chat::parse(response),
            Self::Gemini | Self::GeminiJson => gemini::parse(self, response),
            Self::Bedrock => bedrock::parse(response),
            Self::Mistral => mistral::parse(response),
            Self::Ollama => ollama::parse(response),
            Self::Mcp => mcp::parse(response),
        }
    }

    /// Returns the tokens that a complete response reports; `None` if it reports none.
    #[must_use]
    pub fn token_counts(self, response: &Value) -> Option<TokenCounts> {
        pieces::counts_of(self, response)
    }

    /// Starts decoding a response that is still being generated.
    #[must_use]
    pub fn stream(self) -> ResponseDecoder {
        let handler: Box<dyn EventHandler> = match self {
            Self::Anthropic => Box::new(anthropic::Decoder::default()),
            Self::OpenAiResponses => Box::new(openai_responses::Decoder::default()),
            Self::OpenAiChat | Self::Mistral => Box::new(openai_chat::Decoder::new(self)),
            Self::Gemini | Self::GeminiJson => Box::new(gemini::Decoder::default()),
            Self::Bedrock => Box::new(bedrock::Decoder::default()),
            Self::Ollama => Box::new(ollama::Decoder::default()),
            Self::Mcp => Box::new(mcp::Decoder::default()),
        };
        ResponseDecoder::new(self, handler)
    }

    /// Builds the message with the results of a turn from the results alone.
    ///
    /// This is enough where a call's id and name determine everything.
    /// [`ModelResponse::render_results`] and [`DecodedResponse::reply_context`] know more: fields
    /// of the call, the type of a JSON-RPC id, that a call had no id. Without them an id such as
    /// `haft-1` counts as assigned by haft, and is not sent to a provider that pairs without ids.
    #[must_use]
    pub fn render_results<R: RenderResult>(self, results: &[R]) -> Value {
        ReplyContext::from_results(self, results).render_results(results)
    }

    fn render(self, replies: &[Reply<'_>], is_batch: bool) -> Value {
        match self {
            Self::Anthropic => anthropic::answer(replies),
            Self::OpenAiResponses => openai_responses::answer(replies),
            Self::OpenAiChat => openai_chat::answer(replies),
            Self::Gemini | Self::GeminiJson => gemini::answer(replies),
            Self::Bedrock => bedrock::answer(replies),
            Self::Mistral => mistral::answer(replies),
            Self::Ollama => ollama::answer(replies),
            Self::Mcp => mcp::answer(replies, is_batch),
        }
    }

    /// Returns the dialect of a response; `None` when it is ambiguous.
    ///
    /// The two forms of Gemini differ only in the exported tools, so a response of either is
    /// detected as [`Gemini`](Self::Gemini).
    #[must_use]
    pub fn detect(response: &Value) -> Option<Dialect> {
        let is_list = |key| response.get(key).is_some_and(Value::is_array);
        let is_map = |key| response.get(key).is_some_and(Value::is_object);
        let is_batch = |list: &Vec<Value>| {
            !list.is_empty() && list.iter().all(|one| one.get("jsonrpc").is_some())
        };
        if response.get("jsonrpc").is_some() || response.as_array().is_some_and(is_batch) {
            Some(Self::Mcp)
        } else if is_list("candidates") || is_map("promptFeedback") {
            Some(Self::Gemini)
        } else if is_list("choices") {
            Some(if is_mistral(response) { Self::Mistral } else { Self::OpenAiChat })
        } else if is_list("output") {
            Some(Self::OpenAiResponses)
        } else if response.pointer("/output/message").is_some() {
            Some(Self::Bedrock)
        } else if is_map("message") && response.get("done").is_some() {
            Some(Self::Ollama)
        } else if is_list("content") && response.get("isError").is_none() {
            // A lone message of Bedrock has content too, but its blocks have no type.
            let blocks = json::list(response, "content");
            let is_typed = |block: &Value| block.get("toolUse").is_none();
            blocks.iter().all(is_typed).then_some(Self::Anthropic)
        } else {
            None
        }
    }
}

/// The error text for a message with too many calls.
fn too_many() -> String {
    format!("it has more than {MAX_CALLS} calls")
}

/// Returns the worse of two stop reasons: the one that allows less to run.
fn worse(one: StopReason, other: StopReason) -> StopReason {
    let badness = |stop| match stop {
        StopReason::Done => 0,
        StopReason::Unknown => 1,
        StopReason::Truncated => 2,
        StopReason::Refused => 3,
    };
    if badness(other) > badness(one) { other } else { one }
}

/// Whether a chat response has something that only Mistral writes.
fn is_mistral(response: &Value) -> bool {
    let family =
        ["mistral", "ministral", "magistral", "codestral", "devstral", "pixtral", "voxtral"];
    let model = json::text(response, "model").trim_start_matches("open-");
    let mut calls = json::list(response, "choices").iter().flat_map(|choice| {
        choice.get("message").map(|m| json::list(m, "tool_calls")).unwrap_or_default()
    });
    family.iter().any(|name| model.starts_with(name))
        || calls.any(|call| json::text(call, "id") == "null")
}

/// The error for something that is not a response of a dialect, with a hint about what it is.
fn unreadable(dialect: Dialect, response: &Value, wanted: &str) -> Error {
    let error =
        Error::new(ErrorKind::BadResponse, format!("not a valid {dialect} response: {wanted}"));
    if let Some(problem) = json::some(response, "error") {
        let problem = match problem {
            Value::String(text) => text.as_str(),
            other => json::text(other, "message"),
        };
        let problem: String = problem.chars().take(200).collect();
        return error.hint(format!("the provider returned an error: {problem}"));
    }
    if is_event(response) {
        return error.hint("it is one event of a stream; pass the events to `Dialect::stream`");
    }
    match Dialect::detect(response) {
        Some(other) if other != dialect => error.hint(format!("it looks like {other}")),
        _ => error,
    }
}

/// Whether this is one event of a stream.
fn is_event(response: &Value) -> bool {
    let kind = json::text(response, "type");
    let is_piece = |choice: &Value| choice.get("delta").is_some();
    kind.starts_with("response.")
        || kind.starts_with("content_block_")
        || kind.starts_with("message_")
        || ["contentBlockStart", "contentBlockDelta", "messageStart"]
            .iter()
            .any(|key| response.get(key).is_some())
        || json::list(response, "choices").first().is_some_and(is_piece)
}
