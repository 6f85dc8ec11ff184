//! What the model receives for one call: an outcome with a size, a label and an id.

use std::{borrow::Cow, sync::Arc, time::Duration};

use haft_core::{Block, CallId, Effects, Execution, Failure, Label, Operation, Output, ToolName};
use serde::{Serialize, ser::SerializeStruct as _};
use serde_json::Value;

use crate::{artifact::ArtifactId, frame::Seal, schema::Repair};

/// The answer to one call.
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
    pub(crate) cut: Option<Box<Truncation>>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "listed")]
    pub(crate) repairs: Option<Arc<[Repair]>>,
    /// The person, or the middleware, who answered in place of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) instead_by: Option<Arc<str>>,
    /// What confined the work, where the body has said so. Never shown to a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tier: Option<Arc<Value>>,
    /// What hooks left; nothing where there are none. A box, because answers are moved about.
    #[serde(flatten)]
    pub(crate) left: Option<Box<Left>>,
    #[serde(rename = "elapsed_us", serialize_with = "micros")]
    pub(crate) elapsed: Duration,
    /// What the frame needs. Never written down: whoever reads it could forge the next mark.
    #[serde(skip)]
    pub(crate) seal: Seal,
}

/// What hooks left beside an answer.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Left {
    /// What the host says beside the result; never a part of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
    /// For hooks that look back at the turn.
    #[serde(skip)]
    pub(crate) arguments: Option<Arc<Value>>,
}

/// How a call ended.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Output(Output),
    Failure {
        #[serde(flatten)]
        failure: Failure,
        /// What a streaming body had told before it was interrupted.
        #[serde(skip_serializing_if = "String::is_empty")]
        interrupted_output: String,
    },
}

/// Where a result comes from. What it was made from is shared with the call, so that making one
/// costs nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub(crate) tool: ToolName,
    pub(crate) source: Arc<str>,
    pub(crate) effects: Effects,
}

impl Origin {
    /// Returns the tool whose body gave it.
    #[must_use]
    pub fn tool(&self) -> &ToolName {
        &self.tool
    }

    /// Returns where the tool comes from.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns what was looked at: a host, a path. Known only when the call said that it reads or
    /// reaches exactly one thing.
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

impl Serialize for Origin {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut out = to.serialize_struct("Origin", 3)?;
        out.serialize_field("tool", &self.tool)?;
        out.serialize_field("source", &*self.source)?;
        match self.what() {
            Some(what) => out.serialize_field("what", what)?,
            None => out.skip_field("what")?,
        }
        out.end()
    }
}

/// How much of a result is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Truncation {
    /// Characters of the whole result.
    pub of: usize,
    /// Characters that are shown.
    pub shown: usize,
    /// Where all of it is kept; nothing where it could not be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<ArtifactId>,
}

fn micros<S: serde::Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

fn listed<S: serde::Serializer>(repairs: &Option<Arc<[Repair]>>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(repairs.iter().flat_map(|repairs| repairs.iter()))
}

impl ToolResult {
    /// Returns the id that the answer is given under.
    #[must_use]
    pub fn id(&self) -> &CallId {
        &self.id
    }

    /// Returns the name the model wrote.
    #[must_use]
    pub fn requested_name(&self) -> &ToolName {
        &self.requested_name
    }

    /// Returns the tool that was meant; the name the model wrote when there is none.
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

    /// Returns what confined the work of the call, however it ended; nothing where no process was to be
    /// started. It is for people and records, and no part of what a model reads.
    #[must_use]
    pub fn tier(&self) -> Option<&Value> {
        self.tier.as_deref()
    }

    /// Returns what a streaming body had told before it was interrupted; empty otherwise.
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
        match (&self.instead_by, self.failure()) {
            (Some(_), _) => Execution::NotStarted,
            (None, Some(failure)) => failure.execution(),
            (None, None) => Execution::Completed,
        }
    }

    /// Returns who answered in place of the tool, if somebody did: nothing ran then.
    #[must_use]
    pub fn instead_by(&self) -> Option<&str> {
        self.instead_by.as_deref()
    }

    /// Returns how far the content is trusted and how far it may travel. What no body had a hand in
    /// was written by the host or a person, and is clean.
    #[must_use]
    pub fn label(&self) -> Label {
        self.label
    }

    /// Returns where the content comes from; nothing when no body had a hand in it.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Returns how much is not shown, if anything.
    #[must_use]
    pub fn cut(&self) -> Option<Truncation> {
        self.cut.as_deref().copied()
    }

    /// Returns what was changed in the model's arguments so that they could be read or fit.
    #[must_use]
    pub fn repairs(&self) -> &[Repair] {
        self.repairs.as_deref().unwrap_or_default()
    }

    /// Returns how long the whole walk took.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns what the host says beside the result, aside by aside.
    #[must_use]
    pub fn host_notes(&self) -> &[String] {
        self.left.as_ref().map(|left| left.notes.as_slice()).unwrap_or_default()
    }

    /// Returns the content as text, or what the failure says, with the host's asides below: for people
    /// and for Rust. What a model reads is [`shown`](Self::model_text).
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        let text = match &self.outcome {
            Answer::Output(output) => output.as_text(),
            Answer::Failure { failure, interrupted_output } if interrupted_output.is_empty() => {
                failure.to_string().into()
            }
            Answer::Failure { failure, interrupted_output } => format!(
                "{failure}\nOutput before the interruption ({} characters):\n{interrupted_output}",
                interrupted_output.chars().count()
            )
            .into(),
        };
        match self.noted() {
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
                output.blocks.iter().cloned().chain(self.noted().map(Block::text)).collect()
            }
            Answer::Failure { .. } => vec![Block::text(self.text().into_owned())],
        }
    }

    /// The asides, each marked as the host's.
    fn noted(&self) -> Option<String> {
        let asides = self.host_notes().iter().map(|aside| format!("[note from the host: {aside}]"));
        let asides: Vec<String> = asides.collect();
        (!asides.is_empty()).then(|| asides.join("\n"))
    }

    /// Returns the outcome for a Rust caller.
    ///
    /// # Errors
    /// Returns the call's failure.
    pub fn into_outcome(self) -> Result<Output, Failure> {
        let noted = self.noted();
        match self.outcome {
            Answer::Output(mut output) => {
                output.blocks.extend(noted.map(Block::text));
                Ok(output)
            }
            Answer::Failure { failure, .. } => Err(failure),
        }
    }
}
