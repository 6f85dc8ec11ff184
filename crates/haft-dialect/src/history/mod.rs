//! Converts message history from one provider's JSON to another's, and repairs a broken history.
//!
//! In: the list of messages of a request, or the whole request. Between: a provider-neutral
//! `Transcript`. Out: the request fields of the target dialect, and a list of changes. Each
//! provider has one file that reads and writes; `read` and `write` hold what they share, `ids` the
//! rules for call ids, `repair` the repair of call/result pairs. Pure: no clock, no I/O.
//!
//! INVARIANT: in a written history every call has exactly one result, directly after its message;
//! only the calls that end the conversation may be open. Equal transcripts give equal bytes.

mod read;
mod anthropic;
mod openai_responses;
mod openai_chat;
mod gemini;
mod bedrock;
mod mistral;
mod ollama;
mod repair;
mod ids;
mod write;
mod alternating;
mod cache_marks;

use std::borrow::Cow;

use haft_core::{Arguments, CallId, Error, ErrorKind, ToolName};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::{ids::Ids, read::Node, write::Writer};
pub use self::{
    repair::{HistoryFix, LastTurn},
    write::{ConvertedHistory, HistoryChange},
};
use super::{Dialect, options::PromptCacheTtl};

/// A provider-neutral conversation. As JSON it can be stored and read again without a loss.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transcript {
    /// The messages, oldest first.
    pub messages: Vec<Message>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// The system prompt.
    System(Vec<ContentPart>),
    /// A message of the user.
    User(Vec<ContentPart>),
    /// A message of the model.
    Assistant(Vec<AssistantPart>),
    /// The results of tools.
    Results(Vec<PastResult>),
}

/// A part of a message of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AssistantPart {
    /// Content that is not a call.
    Part(ContentPart),
    /// A tool call.
    Call(PastCall),
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentPart {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// Fields that only its provider understands.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_fields: Option<ProviderFields>,
    },
    /// A JSON value; tools return it.
    Json(Value),
    /// An image, audio or a document.
    Media {
        /// Its type and location.
        media: Media,
        /// Fields that only its provider understands.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_fields: Option<ProviderFields>,
    },
    /// A block that only its provider understands: thinking, reasoning, a server-side tool.
    Opaque {
        /// Its provider.
        dialect: Dialect,
        /// The block, unchanged.
        value: Value,
    },
    /// Fields of the whole message that only its provider understands.
    Fields(ProviderFields),
}

/// Fields that only one provider understands. They are sent back to it unchanged, and never to
/// another provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderFields {
    /// Their provider.
    pub dialect: Dialect,
    /// The fields.
    pub fields: Map<String, Value>,
}

/// An image, audio or a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Media {
    /// The media type, such as `image/png`. A star means unknown: `image/*`.
    pub media_type: String,
    /// Its location.
    pub source: MediaSource,
    /// Its name.
    pub name: Option<String>,
}

/// Where an image, audio or a document is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaSource {
    /// Inline, as base64.
    Base64(String),
    /// At a URL.
    Url(String),
}

/// A call that the model made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PastCall {
    /// Its id. Where the provider has no ids, one is derived from its position.
    pub id: CallId,
    /// The tool.
    pub name: ToolName,
    /// The arguments. They stay text where parsing them as JSON fails or loses something.
    pub arguments: Arguments,
    /// Fields that only its provider understands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_fields: Option<ProviderFields>,
}

/// The result of a past call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PastResult {
    /// The id of its call.
    pub id: CallId,
    /// The tool, where the provider names it.
    pub name: Option<ToolName>,
    /// The content.
    pub parts: Vec<ContentPart>,
    /// Whether the call failed.
    pub is_error: bool,
    /// Fields that only its provider understands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_fields: Option<ProviderFields>,
}

impl ContentPart {
    /// Makes a text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), provider_fields: None }
    }
}

impl From<ContentPart> for AssistantPart {
    fn from(part: ContentPart) -> Self {
        Self::Part(part)
    }
}

impl From<PastCall> for AssistantPart {
    fn from(call: PastCall) -> Self {
        Self::Call(call)
    }
}

impl PastCall {
    /// Makes a call.
    pub fn new(
        id: impl Into<CallId>,
        name: impl Into<ToolName>,
        arguments: impl Into<Arguments>,
    ) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            provider_fields: None,
        }
    }

    /// Returns the arguments as an object, if they are one.
    #[must_use]
    pub fn object(&self) -> Option<Cow<'_, Map<String, Value>>> {
        match &self.arguments {
            Arguments::Json(Value::Object(object)) => Some(Cow::Borrowed(object)),
            Arguments::Json(_) => None,
            Arguments::Text(text) => serde_json::from_str(text).ok().map(Cow::Owned),
        }
    }
}

impl PastResult {
    /// Makes the result of a successful call.
    pub fn new(id: impl Into<CallId>, text: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            name: None,
            parts: vec![ContentPart::text(text)],
            is_error: false,
            provider_fields: None,
        }
    }

    /// Makes the result of a failed call.
    pub fn error(id: impl Into<CallId>, text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::new(id, text) }
    }
}

impl Transcript {
    /// Returns the calls, in the model's order.
    pub fn calls(&self) -> impl Iterator<Item = &PastCall> {
        self.messages
            .iter()
            .filter_map(|message| match message {
                Message::Assistant(assistant) => Some(assistant),
                _ => None,
            })
            .flatten()
            .filter_map(|assistant| match assistant {
                AssistantPart::Call(call) => Some(call),
                AssistantPart::Part(_) => None,
            })
    }

    /// Writes the conversation as request fields of this dialect.
    ///
    /// A broken history is repaired in a copy, and the changes say what was done. The calls that
    /// end the conversation stay open, so that their results can be appended. If only some of them
    /// have a result, all are closed for a provider that requires the results of a message together
    /// (Anthropic, Bedrock, Gemini), or that pairs without ids, because order alone would assign a
    /// result to the wrong call. To require a complete history, call [`check`](Self::check) first.
    ///
    /// ```
    /// use haft_dialect::Dialect;
    /// use serde_json::json;
    ///
    /// let history = json!([
    ///     {"role": "user", "content": "How warm is it in Oslo?"},
    ///     {"role": "assistant", "content": [
    ///         {"type": "tool_use", "id": "toolu_1", "name": "warmth", "input": {"city": "Oslo"}},
    ///     ]},
    ///     {"role": "user", "content": [
    ///         {"type": "tool_result", "tool_use_id": "toolu_1", "content": "7"},
    ///     ]},
    /// ]);
    /// let chat = Dialect::Anthropic.read_history(&history)?.write(Dialect::OpenAiChat)?;
    /// assert_eq!(
    ///     chat.body["messages"][2],
    ///     json!({"role": "tool", "tool_call_id": "toolu_1", "content": "7"})
    /// );
    /// assert!(chat.changes.is_empty());
    /// # Ok::<(), haft_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails for a dialect that has no conversation.
    pub fn write(&self, dialect: Dialect) -> Result<ConvertedHistory, Error> {
        let (mut whole, mut fixes) = self.repaired(LastTurn::Open);
        let is_one =
            matches!(dialect.family(), Dialect::Anthropic | Dialect::Bedrock | Dialect::Gemini);
        if (is_one || whole.pairs_by_order(dialect)) && whole.ends_with_results() {
            (whole, fixes) = self.repaired(LastTurn::Closed);
        }
        let mut writer = Writer::new(dialect, &whole, Ids::new(dialect, whole.calls()), fixes);
        let messages = whole.messages.as_slice();
        let body = match dialect {
            Dialect::Anthropic => anthropic::write(&mut writer, messages),
            Dialect::OpenAiResponses => openai_responses::write(&mut writer, messages),
            Dialect::OpenAiChat => openai_chat::write(&mut writer, messages),
            Dialect::Gemini | Dialect::GeminiJson => gemini::write(&mut writer, messages),
            Dialect::Bedrock => bedrock::write(&mut writer, messages),
            Dialect::Mistral => mistral::write(&mut writer, messages),
            Dialect::Ollama => ollama::write(&mut writer, messages),
            Dialect::Mcp => return Err(no_conversation(dialect)),
        };
        Ok(ConvertedHistory { body, changes: writer.into_changes() })
    }

    /// Does the same, and marks the system prompt and the last messages for the provider's prompt
    /// cache, so that the next request pays less for them.
    ///
    /// # Errors
    /// Fails for a dialect that has no conversation.
    pub fn write_cached(
        &self,
        dialect: Dialect,
        keep: PromptCacheTtl,
    ) -> Result<ConvertedHistory, Error> {
        let mut converted = self.write(dialect)?;
        if let Value::Object(body) = &mut converted.body {
            cache_marks::add(body, dialect, keep);
        }
        Ok(converted)
    }

    /// Returns whether a history of this dialect has calls that are paired by order only.
    fn pairs_by_order(&self, dialect: Dialect) -> bool {
        match dialect.family() {
            Dialect::Ollama => true,
            Dialect::Gemini => self.calls().any(|call| ids::is_positional(&call.id)),
            _ => false,
        }
    }

    fn ends_with_results(&self) -> bool {
        matches!(self.messages.last(), Some(Message::Results(_)))
    }
}

impl Dialect {
    /// Reads the conversation of a request: the list of messages, or the whole request with its
    /// system prompt.
    ///
    /// # Errors
    /// Fails for a dialect that has no conversation, and at the first invalid place, which it
    /// names. Broken pairs are no error here; see [`Transcript::repair`].
    pub fn read_history(self, history: &Value) -> Result<Transcript, Error> {
        let root = Node::root(self, history);
        match self {
            Self::Anthropic => anthropic::read(&root),
            Self::OpenAiResponses => openai_responses::read(&root),
            Self::OpenAiChat | Self::Mistral | Self::Ollama => openai_chat::read(&root),
            Self::Gemini | Self::GeminiJson => gemini::read(&root),
            Self::Bedrock => bedrock::read(&root),
            Self::Mcp => Err(no_conversation(self)),
        }
    }

    /// Returns the dialect that owns provider-specific blocks: both forms of Gemini share one
    /// history format.
    pub(self) const fn family(self) -> Self {
        match self {
            Self::GeminiJson => Self::Gemini,
            other => other,
        }
    }
}

fn no_conversation(dialect: Dialect) -> Error {
    Error::new(
        ErrorKind::BadHistory,
        format!("{dialect} has calls and results, but no message history to read or write"),
    )
    .hint("use the dialect of the model's provider")
}
