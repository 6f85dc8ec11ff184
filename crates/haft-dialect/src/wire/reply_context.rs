//! What the results must repeat: one entry per call, from decoding to rendering.
//!
//! A `ToolCall` has only an id and a name. Providers need more back: the id exactly as sent
//! (JSON-RPC distinguishes `7` from `"7"`), no id where none was sent, the name that was used, the
//! kind of item. These stay inside `wire`.
//!
//! INVARIANT: the nth entry belongs to the nth decoded call, and so to the nth result.

use std::{borrow::Cow, collections::HashSet};

use haft_core::ToolCall;
use serde_json::{Map, Value};

use super::{
    Dialect, MAX_CALLS,
    content::{RenderResult, ResultContent},
};

/// What the results of a response must repeat, so that the provider accepts them.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyContext {
    dialect: Dialect,
    calls: Vec<Expected>,
    is_batch: bool,
}

/// What the result of one call must repeat.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Expected {
    /// The id as the provider sent it; `None` if it sent none.
    pub(super) id: Option<Value>,
    /// The name as the provider sent it.
    pub(super) name: String,
    /// The kind of call.
    pub(super) form: Form,
    /// Other fields that the provider expects back.
    pub(super) also: Map<String, Value>,
}

/// The kind of a call; the result has the matching kind.
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

/// A decoded call, with what its result must repeat.
#[derive(Debug)]
pub(super) struct DecodedCall {
    pub(super) call: ToolCall,
    pub(super) expected: Expected,
}

impl DecodedCall {
    /// Makes one with a text id; an empty id counts as none.
    pub(super) fn new(call: ToolCall) -> Self {
        let id = Some(call.id.as_str()).filter(|id| !id.is_empty()).map(Value::from);
        let name = call.name.as_str().to_owned();
        Self { expected: Expected { id, name, ..Expected::default() }, call }
    }

    /// Keeps these fields of the call for its result.
    pub(super) fn with(mut self, from: &Value, keys: &[&str]) -> Self {
        for key in keys {
            if let Some(value) = super::json::some(from, key) {
                self.expected.also.insert((*key).to_owned(), value.clone());
            }
        }
        self
    }
}

/// One result, with what it must repeat.
pub(super) struct Reply<'a> {
    pub(super) content: ResultContent<'a>,
    pub(super) expected: &'a Expected,
    /// The id that the result and the echoed call have.
    id: Cow<'a, str>,
}

impl Reply<'_> {
    /// Returns the id for a provider that always needs one: its own, unless it is missing or a
    /// duplicate.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the id that the provider sent, for a provider that works without ids.
    pub(super) fn given(&self) -> Option<&str> {
        self.expected.id.as_ref().and_then(Value::as_str)
    }
}

impl ReplyContext {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, calls: Vec::new(), is_batch: false }
    }

    /// Marks the request as a batch, whose responses must be a list.
    pub(super) fn batch(mut self) -> Self {
        self.is_batch = true;
        self
    }

    /// Records what the result of a call must repeat, and returns the call.
    pub(super) fn note(&mut self, decoded: DecodedCall) -> ToolCall {
        self.calls.push(decoded.expected);
        decoded.call
    }

    /// Returns the number of recorded calls.
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Builds the message with the results of a turn; the nth result belongs to the nth call.
    /// Results beyond the number of calls are ignored.
    #[must_use]
    pub fn render_results<R: RenderResult>(&self, results: &[R]) -> Value {
        self.dialect.render(&self.replies(results), self.is_batch)
    }

    /// Pairs results with calls.
    fn replies<'a, R: RenderResult>(&'a self, results: &'a [R]) -> Vec<Reply<'a>> {
        let ids = self.choose_ids(results).into_iter();
        let pairs = results.iter().zip(&self.calls).zip(ids);
        pairs
            .map(|((result, expected), chosen)| Reply {
                content: result.content(),
                expected,
                id: chosen.id,
            })
            .collect()
    }

    /// Chooses the id of each result. New ids are chosen here, where all given ids are known: the
    /// runtime assigns one when a call arrives, before it can know the later ones.
    ///
    /// INVARIANT: no two results have the same id, and a new id is one that the provider accepts.
    fn choose_ids<'a, R: RenderResult>(&'a self, results: &'a [R]) -> Vec<ChosenId<'a>> {
        let given = |expected: &'a Expected| expected.id.as_ref().and_then(Value::as_str);
        let all: HashSet<&str> = self.calls.iter().filter_map(given).collect();
        let mut seen = HashSet::new();
        let mut chosen = HashSet::new();
        let pairs = results.iter().zip(&self.calls);
        pairs
            .map(|(result, expected)| {
                if let Some(id) = given(expected).filter(|id| seen.insert(*id)) {
                    return ChosenId { id: Cow::Borrowed(id), is_new: false };
                }
                let mut fresh = (0..=MAX_CALLS * 2).map(|round| match round {
                    0 => self.dialect.call_id(result.call_id()),
                    n => {
                        let id = format!("{}-{n}", result.call_id());
                        Cow::Owned(self.dialect.call_id(&id).into_owned())
                    }
                });
                let id = fresh
                    .find(|id| !all.contains(&**id) && !chosen.contains(id))
                    .unwrap_or_else(|| Cow::Borrowed(result.call_id()));
                chosen.insert(id.clone());
                ChosenId { id, is_new: true }
            })
            .collect()
    }

    /// Writes new ids into the echoed message, where the provider pairs by id: for a call without
    /// an id, and for the second of two with the same.
    pub(super) fn write_new_ids<R: RenderResult>(
        &self,
        results: &[R],
        places: &[String],
        message: &mut Value,
    ) {
        for (chosen, place) in self.choose_ids(results).iter().zip(places) {
            if chosen.is_new {
                put(message, place, Value::from(&*chosen.id));
            }
        }
    }

    /// Guesses the calls from the results alone. An id that looks assigned by haft counts as none.
    pub(super) fn from_results<R: RenderResult>(dialect: Dialect, results: &[R]) -> Self {
        let calls = results.iter().map(|result| {
            let id = result.call_id();
            let minted = id.strip_prefix("haft-").is_some_and(|n| n.parse::<usize>().is_ok());
            Expected {
                id: (!minted).then(|| Value::from(id)),
                name: result.name().to_owned(),
                ..Expected::default()
            }
        });
        Self { dialect, calls: calls.collect(), is_batch: results.len() != 1 }
    }
}

/// The id of one result.
struct ChosenId<'a> {
    id: Cow<'a, str>,
    /// The provider sent no id, or sent the id of an earlier call in the same message.
    is_new: bool,
}

/// Writes a value at a JSON pointer. The key may be missing; a parent that is not an object is
/// replaced by one.
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
