//! Shared by all writers: the changes, the ids, and the handling of unsupported content.
//!
//! INVARIANT: a writer drops nothing and adds nothing without recording a change.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use haft_core::{Arguments, CallId, ToolName};
use serde_json::{Map, Value};

use super::{
    ContentPart, Dialect, HistoryFix, Media, MediaSource, Message, PastCall, PastResult,
    ProviderFields, Transcript,
    ids::{self, Ids},
    read::{FAILED, UNPARSED},
};
use crate::tools::Names;

/// Fields that only number and mark a provider's stored items. Dropping them loses nothing.
const BOOKKEEPING_FIELDS: &[&str] = &["id", "status", "type", "index", "role", "item"];

/// A conversation in one dialect.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ConvertedHistory {
    /// The request fields that hold the conversation, such as `system` and `messages`.
    pub body: Value,
    /// What differs from the source.
    pub changes: Vec<HistoryChange>,
}

/// One difference from the source. Messages are counted from 0, in the repaired transcript; only a
/// [`HistoryFix`] counts them before the repair.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistoryChange {
    /// A broken pair was repaired.
    Repaired(HistoryFix),
    /// The dialect does not accept this id.
    Renamed {
        /// The id in the transcript.
        id: CallId,
        /// The id that was written.
        to: String,
    },
    /// The dialect does not accept the name of this tool. An export of the tool gives it the same
    /// name, unless another tool has taken that.
    RenamedTool {
        /// The name in the transcript.
        name: ToolName,
        /// The name that was written.
        to: String,
    },
    /// The conversation ends with a call that has no result yet.
    Open {
        /// The id in the transcript.
        id: CallId,
    },
    /// Content that only another provider understands was dropped.
    LeftOut {
        /// The message.
        message: usize,
        /// Its provider.
        from: Dialect,
        /// What it was.
        what: String,
    },
    /// An image, audio or a document was replaced by a text that names it.
    Described {
        /// The message.
        message: usize,
        /// Its media type.
        media_type: String,
    },
    /// Arguments that are not an object were wrapped into one as text.
    Wrapped {
        /// The message.
        message: usize,
        /// The id in the transcript.
        id: CallId,
    },
    /// System text from the middle was moved to the front.
    Hoisted {
        /// The message.
        message: usize,
    },
    /// Blank text was dropped, because the provider refuses it.
    Blank {
        /// The message.
        message: usize,
    },
    /// A message was added because the provider requires one there.
    Added {
        /// The message after it.
        message: usize,
        /// Its text.
        text: &'static str,
    },
}

impl fmt::Display for HistoryChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repaired(fix) => write!(f, "repaired {fix}"),
            Self::Renamed { id, to } => write!(f, "the call `{id}` is `{to}` here"),
            Self::RenamedTool { name, to } => write!(f, "the tool `{name}` is `{to}` here"),
            Self::Open { id } => write!(f, "the call `{id}` has no result yet"),
            Self::LeftOut { message, from, what } => {
                write!(f, "message {message}: {what} of {from} is left out")
            }
            Self::Described { message, media_type } => {
                write!(f, "message {message}: {media_type} is replaced by a description")
            }
            Self::Wrapped { message, id } => {
                write!(
                    f,
                    "message {message}: the arguments of `{id}` are not an object and were wrapped"
                )
            }
            Self::Hoisted { message } => {
                write!(f, "message {message}: the system text was moved to the front")
            }
            Self::Blank { message } => write!(f, "message {message}: blank text is left out"),
            Self::Added { message, text } => write!(f, "before message {message}: added `{text}`"),
        }
    }
}

/// The state of one conversion: the target, its ids, and the changes.
#[derive(Debug)]
pub(super) struct Writer {
    dialect: Dialect,
    ids: Ids,
    /// The target name of the tool of each call.
    names: HashMap<CallId, String>,
    changes: Vec<HistoryChange>,
    /// The message that is being written.
    message: usize,
}

impl Writer {
    pub(super) fn new(
        dialect: Dialect,
        transcript: &Transcript,
        ids: Ids,
        fixes: Vec<HistoryFix>,
    ) -> Self {
        let mut changes: Vec<HistoryChange> =
            fixes.into_iter().map(HistoryChange::Repaired).collect();
        let answered: HashSet<&CallId> = transcript
            .messages
            .iter()
            .filter_map(|message| match message {
                Message::Results(results) => Some(results),
                _ => None,
            })
            .flatten()
            .map(|result| &result.id)
            .collect();
        let mut tools = Tools::new(dialect, transcript);
        let mut names = HashMap::new();
        for call in transcript.calls() {
            let to = ids.get(&call.id);
            if to != call.id.as_str() {
                changes.push(HistoryChange::Renamed { id: call.id.clone(), to });
            }
            if !answered.contains(&call.id) {
                changes.push(HistoryChange::Open { id: call.id.clone() });
            }
            let (name, is_new) = tools.name(&call.name);
            if is_new && name != call.name.as_str() {
                changes
                    .push(HistoryChange::RenamedTool { name: call.name.clone(), to: name.clone() });
            }
            names.insert(call.id.clone(), name);
        }
        Self { dialect: dialect.family(), ids, names, changes, message: 0 }
    }

    pub(super) fn into_changes(self) -> Vec<HistoryChange> {
        self.changes
    }

    /// Sets which message is being written.
    pub(super) fn at(&mut self, message: usize) {
        self.message = message;
    }

    pub(super) fn id(&self, id: &CallId) -> String {
        self.ids.get(id)
    }

    /// Returns the id; `None` if it only replaces a missing one.
    pub(super) fn given_id(&self, id: &CallId) -> Option<String> {
        (!ids::is_positional(id)).then(|| self.id(id))
    }

    /// Returns the name of a call's tool.
    pub(super) fn tool_name(&self, call: &PastCall) -> String {
        self.names.get(&call.id).cloned().unwrap_or_else(|| call.name.as_str().to_owned())
    }

    /// Returns the tool of a result.
    pub(super) fn name(&self, result: &PastResult) -> String {
        let named = || result.name.as_ref().map(|name| name.as_str().to_owned());
        self.names.get(&result.id).cloned().or_else(named).unwrap_or_default()
    }

    /// Writes all system text together, and records a change for text that was not at the front.
    pub(super) fn system_first(
        &mut self,
        messages: &[Message],
        block: fn(&mut Self, &ContentPart) -> Option<Value>,
    ) -> Vec<Value> {
        let mut blocks = Vec::new();
        let mut is_front = true;
        for (message, of) in messages.iter().enumerate() {
            let Message::System(parts) = of else {
                is_front = false;
                continue;
            };
            if !is_front {
                self.changes.push(HistoryChange::Hoisted { message });
            }
            self.at(message);
            blocks.extend(parts.iter().filter_map(|part| block(self, part)));
        }
        blocks
    }

    /// Returns fields that the target understands; those of another provider are dropped.
    pub(super) fn provider_fields<'a>(
        &mut self,
        provider_fields: Option<&'a ProviderFields>,
    ) -> Option<&'a Map<String, Value>> {
        let provider_fields = provider_fields?;
        if provider_fields.dialect.family() == self.dialect {
            return Some(&provider_fields.fields);
        }
        let names: Vec<String> = provider_fields
            .fields
            .keys()
            .filter(|key| !BOOKKEEPING_FIELDS.contains(&key.as_str()))
            .map(|key| format!("`{key}`"))
            .collect();
        if !names.is_empty() {
            self.leave_out(provider_fields.dialect, names.join(", "));
        }
        None
    }

    /// Adds fields that the target understands. What is already there stays.
    pub(super) fn add_provider_fields(
        &mut self,
        provider_fields: Option<&ProviderFields>,
        into: &mut Value,
    ) {
        if let (Some(fields), Value::Object(into)) = (self.provider_fields(provider_fields), into) {
            for (key, value) in fields {
                into.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }

    /// Returns a block that the target understands; one of another provider is dropped.
    pub(super) fn opaque(&mut self, dialect: Dialect, value: &Value) -> Option<Value> {
        if dialect.family() == self.dialect {
            return Some(value.clone());
        }
        self.leave_out(dialect, described(value));
        None
    }

    fn leave_out(&mut self, from: Dialect, what: String) {
        self.changes.push(HistoryChange::LeftOut { message: self.message, from, what });
    }

    /// Returns whether text is blank, where the provider refuses that.
    pub(super) fn is_blank(&mut self, text: &str) -> bool {
        let is_blank = text.trim().is_empty();
        if is_blank && !text.is_empty() {
            self.changes.push(HistoryChange::Blank { message: self.message });
        }
        is_blank
    }

    /// Describes media in text where the target does not support it.
    pub(super) fn describe_media(&mut self, media: &Media) -> String {
        let media_type = media.media_type.clone();
        let name = media.name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
        let text = match &media.source {
            MediaSource::Url(url) => format!("[{media_type}{name} at {url}]"),
            MediaSource::Base64(_) => format!("[{media_type}{name}, left out]"),
        };
        self.changes.push(HistoryChange::Described { message: self.message, media_type });
        text
    }

    /// Returns a part as text. An opaque part is dropped, or, if it is the target's own, cannot be
    /// text.
    pub(super) fn plain(&mut self, part: &ContentPart) -> Option<String> {
        match part {
            ContentPart::Text { text, provider_fields } => {
                self.provider_fields(provider_fields.as_ref());
                Some(text.clone())
            }
            ContentPart::Json(value) => Some(value.to_string()),
            ContentPart::Media { media, provider_fields } => {
                self.provider_fields(provider_fields.as_ref());
                Some(self.describe_media(media))
            }
            ContentPart::Opaque { dialect, value } => {
                self.leave_out(*dialect, described(value));
                None
            }
            ContentPart::Fields(provider_fields) => {
                self.provider_fields(Some(provider_fields));
                None
            }
        }
    }

    /// Returns a part of a result as text. A dropped part is named, so that the model knows.
    pub(super) fn plain_result(&mut self, part: &ContentPart) -> String {
        match part {
            ContentPart::Opaque { dialect, value } => {
                let what = described(value);
                let text = format!("[{what} of {dialect}, left out]");
                self.leave_out(*dialect, what);
                text
            }
            other => self.plain(other).unwrap_or_default(),
        }
    }

    /// Returns a whole result as text, for providers without an error flag.
    pub(super) fn result_text(&mut self, result: &PastResult) -> String {
        let texts: Vec<String> = result.parts.iter().map(|part| self.plain_result(part)).collect();
        mark_failure(result.is_error, joined(texts))
    }

    /// Returns the arguments as an object.
    pub(super) fn object(&mut self, call: &PastCall) -> Map<String, Value> {
        match call.object() {
            Some(object) => object.into_owned(),
            None => self.wrapped(call),
        }
    }

    /// Returns the arguments as the text of an object.
    pub(super) fn object_text(&mut self, call: &PastCall) -> String {
        match (&call.arguments, call.object()) {
            (Arguments::Text(text), Some(_)) => text.clone(),
            (_, Some(object)) => Value::Object(object.into_owned()).to_string(),
            (_, None) => Value::Object(self.wrapped(call)).to_string(),
        }
    }

    fn wrapped(&mut self, call: &PastCall) -> Map<String, Value> {
        self.changes.push(HistoryChange::Wrapped { message: self.message, id: call.id.clone() });
        let text = match &call.arguments {
            Arguments::Text(text) => text.clone(),
            Arguments::Json(value) => value.to_string(),
        };
        Map::from_iter([(UNPARSED.to_owned(), Value::String(text))])
    }

    pub(super) fn added(&mut self, text: &'static str) {
        self.changes.push(HistoryChange::Added { message: self.message, text });
    }
}

/// The target names of the tools of a conversation: consistent and unique.
#[derive(Debug)]
struct Tools {
    names: Names,
    given: HashMap<ToolName, String>,
}

impl Tools {
    fn new(dialect: Dialect, transcript: &Transcript) -> Self {
        let names = Names::new(dialect).reserve(transcript.calls().map(|call| call.name.as_str()));
        Self { names, given: HashMap::new() }
    }

    /// Returns the target name, and whether this is the first request for it.
    fn name(&mut self, provider_fields: &ToolName) -> (String, bool) {
        if let Some(name) = self.given.get(provider_fields) {
            return (name.clone(), false);
        }
        let name = self.names.assign(provider_fields.as_str());
        self.given.insert(provider_fields.clone(), name.clone());
        (name, true)
    }
}

/// Joins the texts that are not blank.
pub(super) fn joined(texts: impl IntoIterator<Item = String>) -> String {
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    texts.join("\n")
}

/// Marks the text of a failed call.
pub(super) fn mark_failure(is_error: bool, text: String) -> String {
    match (is_error, text.is_empty()) {
        (false, _) => text,
        (true, true) => FAILED.to_owned(),
        (true, false) => format!("{FAILED}\n{text}"),
    }
}

/// Returns the URL of an image or file; a `data:` URL if its bytes are inline.
pub(super) fn url(media: &Media) -> String {
    match &media.source {
        MediaSource::Url(url) => url.clone(),
        MediaSource::Base64(data) => format!("data:{};base64,{data}", media.media_type),
    }
}

/// Returns the kind of a block: its `type`, or its first key.
fn described(value: &Value) -> String {
    let key = value.get("type").and_then(Value::as_str);
    let first = || value.as_object().and_then(|fields| fields.keys().next()).map(String::as_str);
    match key.or_else(first) {
        Some(word) => format!("`{word}`"),
        None => "a part".to_owned(),
    }
}
