//! Carries a conversation from one provider's JSON to another's, and repairs one that is broken.
//!
//! In: the list of messages of a request, or the whole request. Between: a `Transcript` that no
//! provider owns. Out: the keys of a request as the target wants them, and what changed.
//! Each provider has one file that reads and writes; `read` and `write` hold what they share,
//! `ids` the rules for call ids, `mend` the rules for pairs. Pure: no clock, no I/O.
//!
//! INVARIANT: what is written answers every call exactly once, directly behind its message; only
//! the calls that end the conversation may still be open. Equal transcripts give equal bytes.

mod read;
mod anthropic;
mod openai_responses;
mod openai_chat;
mod gemini;
mod bedrock;
mod mistral;
mod ollama;
mod mend;
mod ids;
mod write;

use std::borrow::Cow;

use haft_core::{CallId, ToolName};
use serde_json::{Map, Value};

use self::{ids::Ids, read::Spot, write::Desk};
pub use self::{
    mend::{Ending, HistoryFix},
    write::{Change, Converted},
};
use super::Dialect;
use crate::{
    error::{Error, ErrorKind},
    turn::Arguments,
};

/// A conversation that belongs to no provider.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transcript {
    /// What was said, oldest first.
    pub messages: Vec<Message>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// What the model was told to be.
    System(Vec<ContentPart>),
    /// What the user said.
    User(Vec<ContentPart>),
    /// What the model said.
    Assistant(Vec<AssistantPart>),
    /// What the tools answered.
    Results(Vec<PastResult>),
}

/// A piece of a message of the model.
#[derive(Debug, Clone, PartialEq)]
pub enum AssistantPart {
    /// Something that is not a call.
    Part(ContentPart),
    /// A call of a tool.
    Call(PastCall),
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentPart {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// What only its provider understands of it.
        own: Option<ProviderFields>,
    },
    /// Data; tools answer with it.
    Json(Value),
    /// A picture, a sound, a document.
    Media {
        /// What it is and where.
        media: Media,
        /// What only its provider understands of it.
        own: Option<ProviderFields>,
    },
    /// A whole block that only its provider understands: thinking, reasoning, a server's tool.
    Opaque {
        /// Whose it is.
        dialect: Dialect,
        /// The block, unchanged.
        value: Value,
    },
    /// Fields that stand beside the content of the whole message, and that only its provider
    /// understands.
    Fields(ProviderFields),
}

/// Fields that only one provider understands. They go back to it unchanged, and to nobody else.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderFields {
    /// Whose they are.
    pub dialect: Dialect,
    /// The fields.
    pub fields: Map<String, Value>,
}

/// A picture, a sound or a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Media {
    /// What kind of thing it is, such as `image/png`. A star says that nobody knows: `image/*`.
    pub media_type: String,
    /// Where it is.
    pub at: MediaSource,
    /// What it is called.
    pub name: Option<String>,
}

/// Where a picture, a sound or a document is.
#[derive(Debug, Clone, PartialEq)]
pub enum MediaSource {
    /// Here, in base64.
    Base64(String),
    /// Elsewhere.
    Url(String),
}

/// A call that the model made.
#[derive(Debug, Clone, PartialEq)]
pub struct PastCall {
    /// Its id. A provider without ids gets one from its place.
    pub id: CallId,
    /// Which tool was called.
    pub name: ToolName,
    /// With what. Text stays text when reading it as JSON would lose something, or fails.
    pub arguments: Arguments,
    /// What only its provider understands of it.
    pub own: Option<ProviderFields>,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq)]
pub struct PastResult {
    /// The id of the call that this answers.
    pub id: CallId,
    /// Which tool answered, where the provider says so.
    pub name: Option<ToolName>,
    /// The answer.
    pub parts: Vec<ContentPart>,
    /// Whether the call failed.
    pub is_error: bool,
    /// What only its provider understands of it.
    pub own: Option<ProviderFields>,
}

impl ContentPart {
    /// Makes a piece of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), own: None }
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
        Self { id: id.into(), name: name.into(), arguments: arguments.into(), own: None }
    }

    /// Returns the arguments as an object, if that is what they are.
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
    /// Makes the answer of a call that went well.
    pub fn new(id: impl Into<CallId>, text: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            name: None,
            parts: vec![ContentPart::text(text)],
            is_error: false,
            own: None,
        }
    }

    /// Makes the answer of a call that failed.
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
                Message::Assistant(said) => Some(said),
                _ => None,
            })
            .flatten()
            .filter_map(|said| match said {
                AssistantPart::Call(call) => Some(call),
                AssistantPart::Part(_) => None,
            })
    }

    /// Writes the conversation as this dialect's requests hold it.
    ///
    /// What is broken is mended on the way, in a copy, and the changes say what was done; the calls
    /// that end the conversation stay open, so that their answers can be appended. Where some of
    /// them are answered and some not, all are closed for a provider that takes the answers of a
    /// message only together (Anthropic, Bedrock, Gemini), or that pairs without ids: by its order
    /// alone an answer would belong to the wrong one. For a history that must be whole, call
    /// [`check`](Self::check) first.
    ///
    /// ```
    /// use haft::{Dialect, serde_json::json};
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
    /// # Ok::<(), haft::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails for a dialect that has no conversation.
    pub fn write(&self, dialect: Dialect) -> Result<Converted, Error> {
        let (mut whole, mut mends) = self.mended(Ending::Open);
        let is_one =
            matches!(dialect.family(), Dialect::Anthropic | Dialect::Bedrock | Dialect::Gemini);
        if (is_one || whole.pairs_by_order(dialect)) && whole.ends_with_results() {
            (whole, mends) = self.mended(Ending::Closed);
        }
        let mut desk = Desk::new(dialect, &whole, Ids::new(dialect, whole.calls()), mends);
        let messages = whole.messages.as_slice();
        let body = match dialect {
            Dialect::Anthropic => anthropic::write(&mut desk, messages),
            Dialect::OpenAiResponses => openai_responses::write(&mut desk, messages),
            Dialect::OpenAiChat => openai_chat::write(&mut desk, messages),
            Dialect::Gemini | Dialect::GeminiJson => gemini::write(&mut desk, messages),
            Dialect::Bedrock => bedrock::write(&mut desk, messages),
            Dialect::Mistral => mistral::write(&mut desk, messages),
            Dialect::Ollama => ollama::write(&mut desk, messages),
            Dialect::Mcp => return Err(no_conversation(dialect)),
        };
        Ok(Converted { body, changes: desk.into_changes() })
    }

    /// Returns whether a history of this dialect has calls that only their order pairs.
    fn pairs_by_order(&self, dialect: Dialect) -> bool {
        match dialect.family() {
            Dialect::Ollama => true,
            Dialect::Gemini => self.calls().any(|call| ids::is_placed(&call.id)),
            _ => false,
        }
    }

    fn ends_with_results(&self) -> bool {
        matches!(self.messages.last(), Some(Message::Results(_)))
    }
}

impl Dialect {
    /// Reads the conversation of a request: the bare list of messages, or the whole request with
    /// its system text.
    ///
    /// # Errors
    /// Fails for a dialect that has no conversation, and at the first place that cannot be read,
    /// which it names. Broken pairs are no error here; see [`Transcript::mend`].
    pub fn read_history(self, history: &Value) -> Result<Transcript, Error> {
        let root = Spot::root(self, history);
        match self {
            Self::Anthropic => anthropic::read(&root),
            Self::OpenAiResponses => openai_responses::read(&root),
            Self::OpenAiChat | Self::Mistral | Self::Ollama => openai_chat::read(&root),
            Self::Gemini | Self::GeminiJson => gemini::read(&root),
            Self::Bedrock => bedrock::read(&root),
            Self::Mcp => Err(no_conversation(self)),
        }
    }

    /// Returns whose blocks these are: both forms of Gemini speak of the past in one way.
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
        format!("{dialect} has calls and results, and no conversation to read or write"),
    )
    .hint("name the dialect of the model's provider")
}
