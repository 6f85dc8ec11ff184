//! A tool call as the model wrote it, before validation.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{CallId, RetryPolicy, ToolName};

/// The arguments of a call, as the provider delivers them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// Set if the provider's format names the properties differently than the tool does.
    restore: Option<ArgumentMapping>,
    /// Timeouts and retries of this one call; usually `None`.
    overrides: Option<Box<CallOverrides>>,
}

/// Timeouts and retries that the host sets for one call. They override the tool's, and those the
/// runtime's.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CallOverrides {
    /// The timeout of one attempt.
    pub timeout: Option<Duration>,
    /// The timeout of the whole call.
    pub deadline: Option<Duration>,
    /// The timeout of an approval request.
    pub approval_timeout: Option<Duration>,
    /// The retry policy.
    pub retry: Option<RetryPolicy>,
}

/// Restores the tool's own property names in arguments that a model wrote for an exported tool.
pub trait RestoreArguments: fmt::Debug + Send + Sync {
    /// Restores the arguments of the exported tool with this index.
    fn restore_arguments(&self, tool: usize, arguments: &mut Map<String, Value>);
}

/// An export and the index of a tool in it; applied once the arguments are parsed.
#[derive(Debug, Clone)]
pub struct ArgumentMapping {
    export: Arc<dyn RestoreArguments>,
    tool: usize,
}

impl ArgumentMapping {
    /// Makes the mapping of one exported tool.
    #[must_use]
    pub fn new(export: Arc<dyn RestoreArguments>, tool: usize) -> Self {
        Self { export, tool }
    }

    /// Restores the tool's own property names.
    pub fn apply(&self, arguments: &mut Map<String, Value>) {
        self.export.restore_arguments(self.tool, arguments);
    }
}

impl PartialEq for ArgumentMapping {
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
            restore: None,
            overrides: None,
        }
    }

    /// Sets the timeout of one attempt at this call, overriding the tool and the runtime.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.overrides_mut().timeout = Some(time);
        self
    }

    /// Sets the timeout of the whole call, from its authorization on: all attempts and waits. An
    /// outer call or the budget of a run can still end it earlier.
    #[must_use]
    pub fn deadline(mut self, time: Duration) -> Self {
        self.overrides_mut().deadline = Some(time);
        self
    }

    /// Sets the timeout of an approval request for this call.
    #[must_use]
    pub fn approval_timeout(mut self, time: Duration) -> Self {
        self.overrides_mut().approval_timeout = Some(time);
        self
    }

    /// Sets the retry policy of this call. A call that may have had side effects is still not
    /// repeated.
    #[must_use]
    pub fn retry(mut self, retries: RetryPolicy) -> Self {
        self.overrides_mut().retry = Some(retries);
        self
    }

    fn overrides_mut(&mut self) -> &mut CallOverrides {
        self.overrides.get_or_insert_default()
    }

    /// For runtimes: sets how the arguments are restored once they are parsed.
    #[doc(hidden)]
    pub fn set_restore(&mut self, restore: Option<ArgumentMapping>) {
        self.restore = restore;
    }

    /// For runtimes: takes out how the arguments are restored, and the host's overrides.
    #[doc(hidden)]
    pub fn take_host_parts(&mut self) -> (Option<ArgumentMapping>, Option<Box<CallOverrides>>) {
        (self.restore.take(), self.overrides.take())
    }
}

/// How the model's message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
