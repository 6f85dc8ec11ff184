//! What all writers share: the changes, the ids, and what is done with what does not fit.
//!
//! INVARIANT: a writer leaves nothing out and adds nothing without a note.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use haft_core::{CallId, ToolName};
use serde_json::{Map, Value, json};

use super::{
    ContentPart, Dialect, HistoryFix, Media, MediaSource, Message, PastCall, PastResult,
    ProviderFields, Transcript,
    ids::{self, Ids},
    read::{FAILED, UNPARSED},
};
use crate::{export::tools::Names, turn::Arguments};

/// Opens a conversation that the model began, where a provider wants the user to begin.
const OPENING: &str = "(the conversation goes on from here)";

/// Fields that only number and mark a provider's stored items; to leave them out loses nothing.
const HOUSEKEEPING: &[&str] = &["id", "status", "type", "index", "role", "item"];

/// A conversation in one dialect.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Converted {
    /// The keys of a request that hold the conversation, such as `system` and `messages`.
    pub body: Value,
    /// What is not as it was.
    pub changes: Vec<Change>,
}

/// One thing that is not as it was. Messages are counted from 0, in the mended transcript; only a
/// [`HistoryFix`] counts as they stood before.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A pair was broken.
    Mended(HistoryFix),
    /// The dialect does not admit this id.
    Renamed {
        /// The id in the transcript.
        id: CallId,
        /// The id that was written.
        to: String,
    },
    /// The dialect does not admit the name of this tool. An export of the tool gives it the same
    /// name, as long as no other tool has taken that.
    RenamedTool {
        /// The name in the transcript.
        name: ToolName,
        /// The name that was written.
        to: String,
    },
    /// The conversation ends with a call that has no answer yet.
    Open {
        /// The id in the transcript.
        id: CallId,
    },
    /// What only another provider understands is not there.
    LeftOut {
        /// The message.
        message: usize,
        /// Whose it was.
        from: Dialect,
        /// What it was.
        what: String,
    },
    /// A picture, a sound or a document is only named, in text.
    Told {
        /// The message.
        message: usize,
        /// What it was.
        media_type: String,
    },
    /// Arguments that are no object stand as text inside one.
    Wrapped {
        /// The message.
        message: usize,
        /// The id in the transcript.
        id: CallId,
    },
    /// System text from the middle stands at the front.
    Hoisted {
        /// The message.
        message: usize,
    },
    /// Text without a letter is not there; the provider refuses it.
    Blank {
        /// The message.
        message: usize,
    },
    /// A message was put in because the provider wants one there.
    Added {
        /// The message that it stands before.
        message: usize,
        /// What it says.
        text: &'static str,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mended(mend) => write!(f, "mended {mend}"),
            Self::Renamed { id, to } => write!(f, "the call `{id}` is `{to}` here"),
            Self::RenamedTool { name, to } => write!(f, "the tool `{name}` is `{to}` here"),
            Self::Open { id } => write!(f, "the call `{id}` waits for its answer"),
            Self::LeftOut { message, from, what } => {
                write!(f, "message {message}: {what} of {from} is left out")
            }
            Self::Told { message, media_type } => {
                write!(f, "message {message}: {media_type} is only told of")
            }
            Self::Wrapped { message, id } => {
                write!(f, "message {message}: the arguments of `{id}` are no object, and wrapped")
            }
            Self::Hoisted { message } => {
                write!(f, "message {message}: the system text stands at the front")
            }
            Self::Blank { message } => write!(f, "message {message}: blank text is left out"),
            Self::Added { message, text } => write!(f, "before message {message}: added `{text}`"),
        }
    }
}

/// Where a conversation is written: the target, its ids, and the changes.
#[derive(Debug)]
pub(super) struct Desk {
    dialect: Dialect,
    ids: Ids,
    /// What the tool of each call is called here.
    names: HashMap<CallId, String>,
    changes: Vec<Change>,
    /// The message that is being written.
    message: usize,
}

impl Desk {
    pub(super) fn new(
        dialect: Dialect,
        transcript: &Transcript,
        ids: Ids,
        mends: Vec<HistoryFix>,
    ) -> Self {
        let mut changes: Vec<Change> = mends.into_iter().map(Change::Mended).collect();
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
                changes.push(Change::Renamed { id: call.id.clone(), to });
            }
            if !answered.contains(&call.id) {
                changes.push(Change::Open { id: call.id.clone() });
            }
            let (name, is_new) = tools.name(&call.name);
            if is_new && name != call.name.as_str() {
                changes.push(Change::RenamedTool { name: call.name.clone(), to: name.clone() });
            }
            names.insert(call.id.clone(), name);
        }
        Self { dialect: dialect.family(), ids, names, changes, message: 0 }
    }

    pub(super) fn into_changes(self) -> Vec<Change> {
        self.changes
    }

    /// Says which message is being written.
    pub(super) fn at(&mut self, message: usize) {
        self.message = message;
    }

    pub(super) fn id(&self, id: &CallId) -> String {
        self.ids.get(id)
    }

    /// Returns the id, unless it only stands for a missing one.
    pub(super) fn given_id(&self, id: &CallId) -> Option<String> {
        (!ids::is_placed(id)).then(|| self.id(id))
    }

    /// Returns the name of a call's tool.
    pub(super) fn called(&self, call: &PastCall) -> String {
        self.names.get(&call.id).cloned().unwrap_or_else(|| call.name.as_str().to_owned())
    }

    /// Returns the tool that a result answers for.
    pub(super) fn name(&self, result: &PastResult) -> String {
        let own = || result.name.as_ref().map(|name| name.as_str().to_owned());
        self.names.get(&result.id).cloned().or_else(own).unwrap_or_default()
    }

    /// Writes all system text together, with a note for what does not stand at the front.
    pub(super) fn hoisted(
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
                self.changes.push(Change::Hoisted { message });
            }
            self.at(message);
            blocks.extend(parts.iter().filter_map(|part| block(self, part)));
        }
        blocks
    }

    /// Returns fields that the target understands; those of another provider are left out.
    pub(super) fn own<'a>(
        &mut self,
        own: Option<&'a ProviderFields>,
    ) -> Option<&'a Map<String, Value>> {
        let own = own?;
        if own.dialect.family() == self.dialect {
            return Some(&own.fields);
        }
        let names: Vec<String> = own
            .fields
            .keys()
            .filter(|key| !HOUSEKEEPING.contains(&key.as_str()))
            .map(|key| format!("`{key}`"))
            .collect();
        if !names.is_empty() {
            self.leave_out(own.dialect, names.join(", "));
        }
        None
    }

    /// Adds fields that the target understands. What is already there stays.
    pub(super) fn add_own(&mut self, own: Option<&ProviderFields>, into: &mut Value) {
        if let (Some(fields), Value::Object(into)) = (self.own(own), into) {
            for (key, value) in fields {
                into.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }

    /// Returns a block that the target understands; one of another provider is left out.
    pub(super) fn opaque(&mut self, dialect: Dialect, value: &Value) -> Option<Value> {
        if dialect.family() == self.dialect {
            return Some(value.clone());
        }
        self.leave_out(dialect, described(value));
        None
    }

    fn leave_out(&mut self, from: Dialect, what: String) {
        self.changes.push(Change::LeftOut { message: self.message, from, what });
    }

    /// Returns whether text says nothing, where the provider refuses that.
    pub(super) fn is_blank(&mut self, text: &str) -> bool {
        let is_blank = text.trim().is_empty();
        if is_blank && !text.is_empty() {
            self.changes.push(Change::Blank { message: self.message });
        }
        is_blank
    }

    /// Names something in text that the target cannot carry here.
    pub(super) fn told(&mut self, media: &Media) -> String {
        let media_type = media.media_type.clone();
        let name = media.name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
        let text = match &media.at {
            MediaSource::Url(url) => format!("[{media_type}{name} at {url}]"),
            MediaSource::Base64(_) => format!("[{media_type}{name}, left out]"),
        };
        self.changes.push(Change::Told { message: self.message, media_type });
        text
    }

    /// Returns a part as text. What is opaque is left out, or, with the target's own, cannot stand
    /// in text either.
    pub(super) fn plain(&mut self, part: &ContentPart) -> Option<String> {
        match part {
            ContentPart::Text { text, own } => {
                self.own(own.as_ref());
                Some(text.clone())
            }
            ContentPart::Json(value) => Some(value.to_string()),
            ContentPart::Media { media, own } => {
                self.own(own.as_ref());
                Some(self.told(media))
            }
            ContentPart::Opaque { dialect, value } => {
                self.leave_out(*dialect, described(value));
                None
            }
            ContentPart::Fields(own) => {
                self.own(Some(own));
                None
            }
        }
    }

    /// Returns a part of a result as text. What is left out is named, so that the model knows.
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

    /// Returns a whole result as text, for providers without a flag for failure.
    pub(super) fn result_text(&mut self, result: &PastResult) -> String {
        let texts: Vec<String> = result.parts.iter().map(|part| self.plain_result(part)).collect();
        marked(result.is_error, joined(texts))
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
        self.changes.push(Change::Wrapped { message: self.message, id: call.id.clone() });
        let text = match &call.arguments {
            Arguments::Text(text) => text.clone(),
            Arguments::Json(value) => value.to_string(),
        };
        Map::from_iter([(UNPARSED.to_owned(), Value::String(text))])
    }

    pub(super) fn added(&mut self, text: &'static str) {
        self.changes.push(Change::Added { message: self.message, text });
    }
}

/// What the tools of a conversation are called: each one the same everywhere, and no two alike.
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

    /// Returns the name here, and whether it was asked for the first time.
    fn name(&mut self, own: &ToolName) -> (String, bool) {
        if let Some(name) = self.given.get(own) {
            return (name.clone(), false);
        }
        let name = self.names.assign(own.as_str());
        self.given.insert(own.clone(), name.clone());
        (name, true)
    }
}

/// Messages whose roles take turns.
#[derive(Debug, Default)]
pub(super) struct Turns(Vec<(&'static str, Vec<Value>)>);

impl Turns {
    /// Adds blocks, to the last message if it has the same role.
    pub(super) fn add(&mut self, role: &'static str, blocks: Vec<Value>) {
        match self.0.last_mut() {
            _ if blocks.is_empty() => {}
            Some((last, all)) if *last == role => all.extend(blocks),
            _ => self.0.push((role, blocks)),
        }
    }

    /// Returns the messages, with their blocks under `key`. The user begins.
    pub(super) fn finish(
        mut self,
        desk: &mut Desk,
        key: &str,
        text: fn(&str) -> Value,
    ) -> Vec<Value> {
        if self.0.first().is_some_and(|(role, _)| *role != "user") {
            desk.at(0);
            desk.added(OPENING);
            self.0.insert(0, ("user", vec![text(OPENING)]));
        }
        self.0.into_iter().map(|(role, blocks)| json!({"role": role, key: blocks})).collect()
    }
}

/// Joins the texts that say something.
pub(super) fn joined(texts: impl IntoIterator<Item = String>) -> String {
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    texts.join("\n")
}

/// Marks the text of a failed call.
pub(super) fn marked(is_error: bool, text: String) -> String {
    match (is_error, text.is_empty()) {
        (false, _) => text,
        (true, true) => FAILED.to_owned(),
        (true, false) => format!("{FAILED}\n{text}"),
    }
}

/// Returns the address of a picture or file, with its bytes if it has them.
pub(super) fn url(media: &Media) -> String {
    match &media.at {
        MediaSource::Url(url) => url.clone(),
        MediaSource::Base64(data) => format!("data:{};base64,{data}", media.media_type),
    }
}

/// Returns what a block is: its `type`, or its first key.
fn described(value: &Value) -> String {
    let key = value.get("type").and_then(Value::as_str);
    let first = || value.as_object().and_then(|fields| fields.keys().next()).map(String::as_str);
    match key.or_else(first) {
        Some(word) => format!("`{word}`"),
        None => "a part".to_owned(),
    }
}
