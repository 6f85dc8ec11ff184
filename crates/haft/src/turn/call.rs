//! What the model asked for, before anyone has looked at it.

use std::sync::Arc;

use haft_core::{CallId, ToolName};
use serde_json::Value;

use crate::export::Export;

/// The arguments of a call, as the provider carries them.
#[derive(Debug, Clone, PartialEq)]
pub enum Arguments {
    /// JSON text that nobody has parsed yet.
    Text(String),
    /// JSON that the provider's response already held as data.
    Json(Value),
}

impl From<Value> for Arguments {
    fn from(json: Value) -> Self {
        Self::Json(json)
    }
}

impl From<String> for Arguments {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Arguments {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// One call of a model's response.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The provider's id; empty when it gives none.
    pub id: CallId,
    /// The name the model wrote.
    pub name: ToolName,
    /// The arguments the model wrote.
    pub arguments: Arguments,
    /// The words in which the model was shown the tool, when they are not the tool's own.
    pub(crate) shown: Option<Wording>,
}

/// The words of an export, to be undone once the arguments have been read.
#[derive(Debug, Clone)]
pub(crate) struct Wording {
    pub(crate) export: Arc<Export>,
    pub(crate) tool: usize,
}

impl PartialEq for Wording {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.export, &other.export) && self.tool == other.tool
    }
}

impl Call {
    /// Makes a call.
    #[must_use]
    pub fn new(
        id: impl Into<CallId>,
        name: impl Into<ToolName>,
        arguments: impl Into<Arguments>,
    ) -> Self {
        Self { id: id.into(), name: name.into(), arguments: arguments.into(), shown: None }
    }
}

/// How the model's message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stop {
    /// As it should: the calls are complete.
    Done,
    /// The message was cut off; its calls may be too.
    Truncated,
    /// The provider or the model refused.
    Refused,
    /// It ended for a reason we do not know.
    Unknown,
}

impl Stop {
    /// Returns why nothing of the message may run, unless it may.
    #[must_use]
    pub fn why_not(self) -> Option<&'static str> {
        match self {
            Self::Done => None,
            Self::Truncated => Some("the message was cut off, so nothing of it is run"),
            Self::Refused => Some("the message ended in a refusal, so nothing of it is run"),
            Self::Unknown => {
                Some("the message ended for an unknown reason, so nothing of it is run")
            }
        }
    }
}
