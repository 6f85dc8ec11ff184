//! What the model receives for one call: an outcome with an id, a size and a taint label.

mod framed;

use std::{
    borrow::Cow,
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Duration,
};

use haft_core::{
    Block, CallId, Effects, Execution, Failure, FailureCode, Label, Operation, Output, ToolName,
};
use serde::{Serialize, ser::SerializeStruct as _};
use serde_json::Value;

use crate::{
    artifact::ArtifactId,
    clock::micros,
    config::Config,
    frame::{Nonces, Seal},
    parked::ParkedCall,
    registry::RegisteredTool,
    schema::Repair,
};

/// The result of one call.
#[derive(Debug, Serialize)]
pub struct ToolResult {
    pub(crate) id: CallId,
    pub(crate) requested_name: ToolName,
    pub(crate) tool_name: ToolName,
    #[serde(flatten)]
    pub(crate) outcome: Answer,
    pub(crate) label: Label,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<Origin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) truncation: Option<Box<Truncation>>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "serialize_repairs")]
    pub(crate) repairs: Option<Arc<[Repair]>>,
    /// The approver, hook or middleware that answered in place of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replaced_by: Option<Arc<str>>,
    /// Which sandbox confined the work, if the body reported it. Never shown to a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tier: Option<Arc<Value>>,
    /// Data from hooks, or the parked call; `None` for most results. Boxed to keep results cheap to
    /// move.
    #[serde(flatten)]
    pub(crate) left: Option<Box<Left>>,
    #[serde(rename = "elapsed_us", serialize_with = "micros")]
    pub(crate) elapsed: Duration,
    /// The nonce of the frame. Never serialized: a reader could forge the next marker.
    #[serde(skip)]
    pub(crate) seal: Seal,
}

/// A result on the heap. The result of a lone call becomes the list of results without a copy.
#[derive(Debug)]
pub(crate) struct BoxedResult(Box<[ToolResult; 1]>);

impl BoxedResult {
    pub(crate) fn new(result: ToolResult) -> Self {
        Self(Box::new([result]))
    }

    /// Makes a result on the heap, without a copy of it on the stack.
    #[inline(always)]
    pub(crate) fn make(result: impl FnOnce() -> ToolResult) -> Self {
        Self(Box::write(Box::new_uninit(), [result()]))
    }

    pub(crate) fn into_inner(self) -> ToolResult {
        let [result] = *self.0;
        result
    }

    #[inline]
    pub(crate) fn into_list(self) -> Vec<ToolResult> {
        let list: Box<[ToolResult]> = self.0;
        list.into_vec()
    }
}

impl Deref for BoxedResult {
    type Target = ToolResult;

    fn deref(&self) -> &ToolResult {
        &self.0[0]
    }
}

impl DerefMut for BoxedResult {
    fn deref_mut(&mut self) -> &mut ToolResult {
        &mut self.0[0]
    }
}

/// Data that few results have: notes of hooks, and the parked call.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Left {
    /// Notes of the host next to the result, never part of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
    /// For hooks at the end of the turn.
    #[serde(skip)]
    pub(crate) arguments: Option<Arc<Value>>,
    /// The call, if it was parked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parked: Option<ParkedCall>,
}

/// How a call ended.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Output(Output),
    Failure {
        #[serde(flatten)]
        failure: Failure,
        /// What a streaming body had emitted before it was interrupted.
        #[serde(skip_serializing_if = "String::is_empty")]
        interrupted_output: String,
    },
}

/// Where a result comes from. Its parts are shared with the call, so that it is cheap to make.
#[derive(Debug, Clone)]
pub struct Origin {
    pub(crate) tool: Arc<RegisteredTool>,
    pub(crate) effects: Effects,
}

impl Origin {
    /// Returns the tool whose body produced it.
    #[must_use]
    pub fn tool(&self) -> &ToolName {
        self.tool.name()
    }

    /// Returns where the tool comes from.
    #[must_use]
    pub fn source(&self) -> &str {
        self.tool.shared_source()
    }

    /// Returns what was read: a host, a path. `None` unless the call declared exactly one read or
    /// external effect.
    #[must_use]
    pub fn what(&self) -> Option<&str> {
        let Effects::Declared(effects) = &self.effects else { return None };
        let mut looked_at =
            effects.iter().filter(|e| matches!(e.operation, Operation::Read | Operation::External));
        match (looked_at.next(), looked_at.next()) {
            (Some(one), None) => one.target.as_deref(),
            _ => None,
        }
    }
}

impl PartialEq for Origin {
    fn eq(&self, other: &Self) -> bool {
        (self.tool(), self.source(), &self.effects)
            == (other.tool(), other.source(), &other.effects)
    }
}

impl Eq for Origin {}

impl Serialize for Origin {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut out = to.serialize_struct("Origin", 3)?;
        out.serialize_field("tool", self.tool())?;
        out.serialize_field("source", self.source())?;
        match self.what() {
            Some(what) => out.serialize_field("what", what)?,
            None => out.skip_field("what")?,
        }
        out.end()
    }
}

/// How much of a result was truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Truncation {
    /// Characters of the whole result.
    pub total_chars: usize,
    /// Characters that are shown.
    pub shown_chars: usize,
    /// The artifact with the whole result; `None` if it could not be stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ArtifactId>,
}

fn serialize_repairs<S: serde::Serializer>(
    repairs: &Option<Arc<[Repair]>>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_seq(repairs.iter().flat_map(|repairs| repairs.iter()))
}

impl ToolResult {
    /// The result of a call that our own code lost: its outcome is unknown.
    pub(crate) fn lost(config: &Config, nonces: &Nonces, id: CallId, name: ToolName) -> Self {
        let mut seal = Seal::draw(config.frame, nonces);
        seal.settle(Label::CLEAN, true, 0);
        let failure =
            Failure::new(FailureCode::UnknownOutcome, "the outcome of this call is unknown");
        Self {
            id,
            tool_name: name.clone(),
            requested_name: name,
            outcome: Answer::Failure { failure, interrupted_output: String::new() },
            label: Label::CLEAN,
            origin: None,
            truncation: None,
            repairs: None,
            replaced_by: None,
            tier: None,
            left: None,
            elapsed: Duration::ZERO,
            seal,
        }
    }

    /// The result of a call that was parked instead of answered.
    #[cold]
    pub(crate) fn of_parked(config: &Config, nonces: &Nonces, parked: ParkedCall) -> Self {
        let (id, name) = (parked.id().clone(), parked.state.requested_name.clone());
        let failure = Failure::new(FailureCode::NotRun, "the call waits and was parked")
            .with_next("wait until it is finished")
            .with_execution(Execution::NotStarted);
        Self {
            tool_name: parked.tool_name().clone(),
            outcome: Answer::Failure { failure, interrupted_output: String::new() },
            left: Some(Box::new(Left { parked: Some(parked), ..Left::default() })),
            ..Self::lost(config, nonces, id, name)
        }
    }

    /// Returns the id of the call.
    #[must_use]
    pub fn id(&self) -> &CallId {
        &self.id
    }

    /// Returns the name the model wrote.
    #[must_use]
    pub fn requested_name(&self) -> &ToolName {
        &self.requested_name
    }

    /// Returns the tool that the name resolved to, or the name the model wrote if there is none.
    #[must_use]
    pub fn tool_name(&self) -> &ToolName {
        &self.tool_name
    }

    /// Returns the output of a call that succeeded.
    #[must_use]
    pub fn output(&self) -> Option<&Output> {
        match &self.outcome {
            Answer::Output(output) => Some(output),
            Answer::Failure { .. } => None,
        }
    }

    /// Returns the failure of a call that did not.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        match &self.outcome {
            Answer::Output(_) => None,
            Answer::Failure { failure, .. } => Some(failure),
        }
    }

    /// Returns which sandbox confined the work, whatever the outcome; `None` if no process was
    /// started. It is for people and records, and not part of what a model reads.
    #[must_use]
    pub fn tier(&self) -> Option<&Value> {
        self.tier.as_deref()
    }

    /// Returns what a streaming body had emitted before it was interrupted; empty otherwise.
    #[must_use]
    pub fn interrupted_output(&self) -> &str {
        match &self.outcome {
            Answer::Output(_) => "",
            Answer::Failure { interrupted_output, .. } => interrupted_output,
        }
    }

    /// Returns whether the call failed.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.failure().is_some()
    }

    /// Returns whether the body ran.
    #[must_use]
    pub fn execution(&self) -> Execution {
        match (&self.replaced_by, self.failure()) {
            (Some(_), _) => Execution::NotStarted,
            (None, Some(failure)) => failure.execution(),
            (None, None) => Execution::Completed,
        }
    }

    /// Returns who answered in place of the tool, if the body did not run for that reason.
    #[must_use]
    pub fn replaced_by(&self) -> Option<&str> {
        self.replaced_by.as_deref()
    }

    /// Returns the taint label: how far the content is trusted, and where it may be sent. Content
    /// that no body produced comes from the host or a person, and is clean.
    #[must_use]
    pub fn label(&self) -> Label {
        self.label
    }

    /// Returns where the content comes from; `None` if no body produced it.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Returns the call, if it was parked: it has no result yet. Store it, and resume it with
    /// [`Turn::resume`](crate::Turn::resume) instead of sending this result to the model.
    #[must_use]
    pub fn parked(&self) -> Option<&ParkedCall> {
        self.left.as_ref()?.parked.as_ref()
    }

    /// Returns how much was truncated; `None` if nothing was.
    #[must_use]
    pub fn truncation(&self) -> Option<Truncation> {
        self.truncation.as_deref().copied()
    }

    /// Returns the repairs made to the model's arguments.
    #[must_use]
    pub fn repairs(&self) -> &[Repair] {
        self.repairs.as_deref().unwrap_or_default()
    }

    /// Returns how long the whole call took.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns the notes of the host next to the result.
    #[must_use]
    pub fn host_notes(&self) -> &[String] {
        self.left.as_ref().map(|left| left.notes.as_slice()).unwrap_or_default()
    }

    /// Returns the content as text, or the failure message, followed by the host's notes: for
    /// people and for Rust callers. What a model reads is [`model_text`](Self::model_text).
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        let text = match &self.outcome {
            Answer::Output(output) => output.as_text(),
            Answer::Failure { failure, interrupted_output } if interrupted_output.is_empty() => {
                failure.model_text().into()
            }
            Answer::Failure { failure, interrupted_output } => format!(
                "{}\nOutput before the interruption ({} characters):\n{interrupted_output}",
                failure.model_text(),
                interrupted_output.chars().count()
            )
            .into(),
        };
        match self.notes_text() {
            Some(notes) => format!("{text}\n{notes}").into(),
            None => text,
        }
    }

    /// Returns the content blocks of a success, or the text of a failure as one block; the host's
    /// notes are a block of their own. What a model reads is [`model_blocks`](Self::model_blocks).
    #[must_use]
    pub fn blocks(&self) -> Vec<Block> {
        match &self.outcome {
            Answer::Output(output) => {
                output.blocks.iter().cloned().chain(self.notes_text().map(Block::text)).collect()
            }
            Answer::Failure { .. } => vec![Block::text(self.text().into_owned())],
        }
    }

    /// The host's notes, each marked as such.
    fn notes_text(&self) -> Option<String> {
        self.left.as_ref()?;
        let notes = self.host_notes().iter().map(|note| format!("[note from the host: {note}]"));
        let notes: Vec<String> = notes.collect();
        (!notes.is_empty()).then(|| notes.join("\n"))
    }

    /// Returns the outcome for a Rust caller.
    ///
    /// # Errors
    /// Returns the call's failure.
    pub fn into_outcome(self) -> Result<Output, Failure> {
        let notes_text = self.notes_text();
        match self.outcome {
            Answer::Output(mut output) => {
                output.blocks.extend(notes_text.map(Block::text));
                Ok(output)
            }
            Answer::Failure { failure, .. } => Err(failure),
        }
    }
}
