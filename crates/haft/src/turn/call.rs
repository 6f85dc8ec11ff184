//! A tool call as the model wrote it, before validation.

use std::{sync::Arc, time::Duration};

use haft_core::{CallId, RetryPolicy, ToolName};
use serde_json::Value;

use crate::export::ToolExport;

/// The arguments of a call, as the provider delivers them.
#[derive(Debug, Clone, PartialEq)]
pub enum Arguments {
    /// JSON text that is not parsed yet.
    Text(String),
    /// JSON that the provider's response contained as data.
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
pub struct ToolCall {
    /// The provider's id; empty if there is none.
    pub id: CallId,
    /// The name the model wrote.
    pub name: ToolName,
    /// The arguments the model wrote.
    pub arguments: Arguments,
    /// The words in which the model was shown the tool, when they are not the tool's own.
    pub(crate) shown: Option<Wording>,
    /// What the host says about the time of this one call; most often nothing.
    pub(crate) limits: Option<Box<Limits>>,
}

/// What the host says about the time of one call. It comes before what the tool says, and that before
/// what the runtime says.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Limits {
    pub(crate) timeout: Option<Duration>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) approval_timeout: Option<Duration>,
    pub(crate) retry: Option<RetryPolicy>,
}

/// The words of an export, to be undone once the arguments have been read.
#[derive(Debug, Clone)]
pub(crate) struct Wording {
    pub(crate) export: Arc<ToolExport>,
    pub(crate) tool: usize,
}

impl PartialEq for Wording {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.export, &other.export) && self.tool == other.tool
    }
}

impl ToolCall {
    /// Makes a call.
    #[must_use]
    pub fn new(
        id: impl Into<CallId>,
        name: impl Into<ToolName>,
        arguments: impl Into<Arguments>,
    ) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            shown: None,
            limits: None,
        }
    }

    /// Sets the timeout of one attempt at this call, overriding the tool and the runtime.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.limits().timeout = Some(time);
        self
    }

    /// Sets the timeout of the whole call, from its authorization on: all attempts and waits. An
    /// outer call or the budget of a run can still end it earlier.
    #[must_use]
    pub fn deadline(mut self, time: Duration) -> Self {
        self.limits().deadline = Some(time);
        self
    }

    /// Sets the timeout of an approval request for this call.
    #[must_use]
    pub fn approval_timeout(mut self, time: Duration) -> Self {
        self.limits().approval_timeout = Some(time);
        self
    }

    /// Sets the retry policy of this call. A call that may have had side effects is still not
    /// repeated.
    #[must_use]
    pub fn retry(mut self, retries: RetryPolicy) -> Self {
        self.limits().retry = Some(retries);
        self
    }

    fn limits(&mut self) -> &mut Limits {
        self.limits.get_or_insert_default()
    }
}

/// How the model's message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// Normally: the calls are complete.
    Done,
    /// The message was truncated; its calls may be too.
    Truncated,
    /// The provider or the model refused.
    Refused,
    /// For an unknown reason.
    Unknown,
}

impl StopReason {
    /// Returns why no call of the message may run; `None` if they may.
    #[must_use]
    pub fn why_not(self) -> Option<&'static str> {
        match self {
            Self::Done => None,
            Self::Truncated => Some("the message was truncated, so none of its calls is run"),
            Self::Refused => Some("the message ended in a refusal, so none of its calls is run"),
            Self::Unknown => {
                Some("the message ended for an unknown reason, so none of its calls is run")
            }
        }
    }
}
