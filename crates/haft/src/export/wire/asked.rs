//! What a provider waits for: one entry per call, kept beside the calls from reading to answering.
//!
//! A call that walks through the house knows only its id and its name. A provider wants more back:
//! the id exactly as it wrote it (JSON-RPC tells `7` from `"7"`), no id where it gave none, the name
//! it used, the kind of item it sent. That is written down here, and never leaves `wire`.
//!
//! INVARIANT: the nth entry belongs to the nth call that was read, and so to the nth answer.

use std::{borrow::Cow, collections::HashSet};

use serde_json::{Map, Value};

use super::{Dialect, MAX_CALLS};
use crate::{tool_result::ToolResult, turn::ToolCall};

/// What a provider waits for, so that it can be answered in its own terms.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyContext {
    dialect: Dialect,
    calls: Vec<Expected>,
    is_batch: bool,
}

/// What one call's answer must repeat.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Expected {
    /// The id as the provider wrote it; nothing where it gave none.
    pub(super) id: Option<Value>,
    /// The name as the provider wrote it.
    pub(super) name: String,
    /// What kind of thing the call was.
    pub(super) form: Form,
    /// Other fields that the provider wants to find again.
    pub(super) also: Map<String, Value>,
}

/// In what form a provider sent a call; the answer takes the matching one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Form {
    /// A function with JSON arguments.
    #[default]
    Function,
    /// A tool whose input is free text.
    Custom,
    /// The single `function_call` of older chat servers.
    Legacy,
}

/// A call as it stood on the wire.
#[derive(Debug)]
pub(super) struct Spoken {
    pub(super) call: ToolCall,
    pub(super) expected: Expected,
}

impl Spoken {
    /// Makes one whose id is text, and is none when it is empty.
    pub(super) fn new(call: ToolCall) -> Self {
        let id = Some(call.id.as_str()).filter(|id| !id.is_empty()).map(Value::from);
        let name = call.name.as_str().to_owned();
        Self { expected: Expected { id, name, ..Expected::default() }, call }
    }

    /// Remembers these fields of the call for its answer.
    pub(super) fn with(mut self, from: &Value, keys: &[&str]) -> Self {
        for key in keys {
            if let Some(value) = super::json::some(from, key) {
                self.expected.also.insert((*key).to_owned(), value.clone());
            }
        }
        self
    }
}

/// One answer beside what its provider waits for.
pub(super) struct Reply<'a> {
    pub(super) answer: &'a ToolResult,
    pub(super) expected: &'a Expected,
    /// The id that is answered under, and echoed.
    shown: Cow<'a, str>,
    /// The provider gave no id, or gave it to an earlier call of the same message.
    is_new: bool,
}

impl Reply<'_> {
    /// Returns the id to answer under, for a provider that always wants one. It is the provider's
    /// own, unless there was none or another call had it first.
    pub(super) fn id(&self) -> &str {
        &self.shown
    }

    /// Returns the id that the provider gave, for one that does without.
    pub(super) fn given(&self) -> Option<&str> {
        self.expected.id.as_ref().and_then(Value::as_str)
    }
}

impl ReplyContext {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, calls: Vec::new(), is_batch: false }
    }

    /// Marks what was asked as a list, which a list must answer.
    pub(super) fn batch(mut self) -> Self {
        self.is_batch = true;
        self
    }

    /// Writes down what a call's provider waits for, and hands the call on.
    pub(super) fn note(&mut self, spoken: Spoken) -> ToolCall {
        self.calls.push(spoken.expected);
        spoken.call
    }

    /// Returns how many calls were noted.
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Makes the message that answers all calls of the turn; the nth answer is the nth call's. More
    /// answers than calls are not this provider's business.
    #[must_use]
    pub fn render_results(&self, answers: &[ToolResult]) -> Value {
        self.dialect.render(&self.replies(answers), self.is_batch)
    }

    /// Pairs answers with what is waited for. A new id is chosen only here, where all given ids are
    /// known: the runtime mints one when its call comes, before it can know the later ones.
    ///
    /// INVARIANT: no two replies show the same id, and a new id is one that the provider takes.
    fn replies<'a>(&'a self, answers: &'a [ToolResult]) -> Vec<Reply<'a>> {
        let given = |expected: &'a Expected| expected.id.as_ref().and_then(Value::as_str);
        let all: HashSet<&str> = self.calls.iter().filter_map(given).collect();
        let mut seen = HashSet::new();
        let mut chosen = HashSet::new();
        let pairs = answers.iter().zip(&self.calls);
        pairs
            .map(|(answer, expected)| {
                if let Some(id) = given(expected).filter(|id| seen.insert(*id)) {
                    return Reply { answer, expected, shown: Cow::Borrowed(id), is_new: false };
                }
                let mut fresh = (0..=MAX_CALLS * 2).map(|round| match round {
                    0 => self.dialect.call_id(answer.id().as_str()),
                    n => {
                        let id = format!("{}-{n}", answer.id());
                        Cow::Owned(self.dialect.call_id(&id).into_owned())
                    }
                });
                let shown = fresh
                    .find(|id| !all.contains(&**id) && !chosen.contains(id))
                    .unwrap_or_else(|| Cow::Borrowed(answer.id().as_str()));
                chosen.insert(shown.clone());
                Reply { answer, expected, shown, is_new: true }
            })
            .collect()
    }

    /// Writes the ids that the answers are given under into the message that is echoed, where the
    /// provider pairs by id: a call without one, and the second of two with the same.
    pub(super) fn settle(&self, answers: &[ToolResult], places: &[String], message: &mut Value) {
        for (reply, place) in self.replies(answers).iter().zip(places) {
            if reply.is_new {
                put(message, place, Value::from(reply.id()));
            }
        }
    }

    /// Guesses from the answers alone what was waited for. An id that looks minted counts as none.
    pub(super) fn guessed(dialect: Dialect, answers: &[ToolResult]) -> Self {
        let calls = answers.iter().map(|answer| {
            let id = answer.id().as_str();
            let minted = id.strip_prefix("haft-").is_some_and(|n| n.parse::<usize>().is_ok());
            Expected {
                id: (!minted).then(|| Value::from(id)),
                name: answer.requested_name().as_str().to_owned(),
                ..Expected::default()
            }
        });
        Self { dialect, calls: calls.collect(), is_batch: answers.len() != 1 }
    }
}

/// Writes a value at a place. The key may be missing; what holds it is made an object if it is none.
fn put(message: &mut Value, place: &str, value: Value) {
    let Some((parent, key)) = place.rsplit_once('/') else { return };
    let Some(parent) = message.pointer_mut(parent) else { return };
    if !parent.is_object() {
        *parent = Value::Object(Map::new());
    }
    if let Some(map) = parent.as_object_mut() {
        map.insert(key.to_owned(), value);
    }
}
