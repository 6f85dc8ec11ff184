//! What a provider says, and what it wants to hear.
//!
//! `parse` reads a complete response into calls, `stream` one that is still being written; `answer`
//! makes the message that answers them. One file per provider knows its shapes; `asked` carries what
//! an answer must repeat; `cut`, `content` and `json` are shared.
//!
//! INVARIANT: a response and its stream give the same calls in the same order, and the same ending.
//! FAIL CLOSED: of several endings the worst counts, and what contradicts itself spoils a stream.

mod asked;
mod json;
mod content;
mod cut;
mod echo;
mod stream;
mod anthropic;
mod openai_responses;
mod openai_chat;
mod mistral;
mod gemini;
mod bedrock;
mod ollama;
mod mcp;

use serde_json::Value;

pub(super) use self::json::INVALID;
pub use self::{
    asked::ReplyContext,
    stream::{DecodedResponse, ResponseDecoder},
};
use self::{
    asked::{Reply, Spoken},
    stream::Ear,
};
use super::Dialect;
use crate::{
    error::{Error, ErrorKind},
    tool_result::ToolResult,
    turn::{StopReason, ToolCall},
};

/// The most calls that one message may have. No model means more, and each is answered.
const MAX_CALLS: usize = 4_096;

/// What a response asks for.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelResponse {
    /// The calls, in the model's order.
    pub calls: Vec<ToolCall>,
    /// How the message ended.
    pub stop: StopReason,
    /// What the provider waits for, call by call.
    pub asked: ReplyContext,
}

impl ModelResponse {
    /// FAIL CLOSED: with more calls than are taken, none is.
    fn new(
        dialect: Dialect,
        spoken: impl IntoIterator<Item = Spoken>,
        stop: StopReason,
    ) -> Result<Self, Error> {
        let mut asked = ReplyContext::new(dialect);
        let spoken = spoken.into_iter().take(MAX_CALLS + 1);
        let calls: Vec<ToolCall> = spoken.map(|spoken| asked.note(spoken)).collect();
        if calls.len() > MAX_CALLS {
            let why = format!("this {dialect} response is not taken: {}", too_many());
            return Err(Error::new(ErrorKind::BadResponse, why));
        }
        Ok(Self { calls, stop, asked })
    }

    fn batch(mut self) -> Self {
        self.asked = self.asked.batch();
        self
    }

    /// Returns the model's message as its provider wants to find it in the history, once the calls
    /// are answered: with the ids that haft minted wherever the provider pairs by id and gave none, or
    /// gave one twice. `response` is what this was read from.
    #[must_use]
    pub fn assistant_message(&self, response: &Value, answers: &[ToolResult]) -> Value {
        let (mut message, places) = echo::message(self.asked.dialect(), response);
        self.asked.settle(answers, &places, &mut message);
        message
    }

    /// Makes the message that answers this response; the nth answer is the nth call's.
    ///
    /// Of two calls with the same id the second is not run. Anthropic, both of OpenAI, Bedrock and
    /// Mistral pair by id, so its answer has the new id that the call was given, and the response
    /// should be echoed with that id too ([`echo`](Self::assistant_message) does so). Gemini,
    /// Ollama and MCP pair by order or by request, so its answer repeats the id that was given.
    #[must_use]
    pub fn render_results(&self, answers: &[ToolResult]) -> Value {
        self.asked.render_results(answers)
    }
}

impl Dialect {
    /// Reads a complete response.
    ///
    /// # Errors
    /// Fails when it is not a response of this dialect. Calls that make no sense are no error; they
    /// are calls that will be answered so.
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

    /// Begins to read a response that is still being written.
    #[must_use]
    pub fn stream(self) -> ResponseDecoder {
        let ear: Box<dyn Ear> = match self {
            Self::Anthropic => Box::new(anthropic::Listener::default()),
            Self::OpenAiResponses => Box::new(openai_responses::Listener::default()),
            Self::OpenAiChat | Self::Mistral => Box::new(openai_chat::Listener::new(self)),
            Self::Gemini | Self::GeminiJson => Box::new(gemini::Listener::default()),
            Self::Bedrock => Box::new(bedrock::Listener::default()),
            Self::Ollama => Box::new(ollama::Listener::default()),
            Self::Mcp => Box::new(mcp::Listener::default()),
        };
        ResponseDecoder::new(self, ear)
    }

    /// Makes the message that answers all calls of a turn, from the answers alone.
    ///
    /// This is enough where a call's id and name say everything. [`ModelResponse::render_results`]
    /// and
    /// [`DecodedResponse::asked`] know more: what the provider wrote beside them, the type of a JSON-RPC id,
    /// that a call had no id. Without them an id of the form `haft-1` counts as one that haft minted,
    /// and is not shown to a provider that pairs without ids.
    #[must_use]
    pub fn render_results(self, answers: &[ToolResult]) -> Value {
        ReplyContext::guessed(self, answers).render_results(answers)
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

    /// Returns the dialect that a response seems to be of; nothing when several could be meant.
    ///
    /// The two forms of Gemini differ only in what is shown to the model, so a response of either
    /// is taken for [`Gemini`](Self::Gemini).
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
            // A lone message of Bedrock has content as well, but its blocks have no type.
            let blocks = json::list(response, "content");
            let is_typed = |block: &Value| block.get("toolUse").is_none();
            blocks.iter().all(is_typed).then_some(Self::Anthropic)
        } else {
            None
        }
    }
}

/// Why a message with too many calls is not taken.
fn too_many() -> String {
    format!("it has more than {MAX_CALLS} calls")
}

/// Returns the worse of two endings: the one that lets less happen, and says more about why.
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

/// Says why something is no response of a dialect, and what it seems to be instead.
fn unreadable(dialect: Dialect, response: &Value, wanted: &str) -> Error {
    let error =
        Error::new(ErrorKind::BadResponse, format!("this is no {dialect} response: {wanted}"));
    if let Some(said) = json::some(response, "error") {
        let said = match said {
            Value::String(text) => text.as_str(),
            other => json::text(other, "message"),
        };
        let said: String = said.chars().take(200).collect();
        return error.hint(format!("it is an error of the provider: {said}"));
    }
    if is_event(response) {
        return error.hint("it is one event of a stream; give the events to `Dialect::stream`");
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
