//! What a run returns: its state, its text, what it did and what it used.

use std::{fmt, time::Duration};

use haft_core::{CallId, ErrorKind, Execution, FailureCode, RunId, ToolName};
use haft_dialect::history::Transcript;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{model::Usage, saved::SavedRun};
use crate::tool_result::ToolResult;

/// The state of a run that no longer works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The model gave its final answer.
    Completed,
    /// There is an answer, but a tool failed or the answer was truncated.
    Degraded,
    /// There is no final answer.
    Failed,
    /// Calls wait for an approval; [`Runner::resume`](super::Runner::resume) continues.
    Waiting,
    /// The host cancelled or interrupted it.
    Cancelled,
}

impl RunStatus {
    /// Returns its name, as written in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
            Self::Waiting => "waiting",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "end", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndReason {
    /// The model answered without a call.
    Answered,
    /// The model's answer was truncated, or ended for an unknown reason.
    Truncated,
    /// The model or its provider refused to answer.
    ModelRefused,
    /// The model could not be asked, or its message could not be used.
    ModelFailed {
        /// Why.
        message: String,
        /// What kind of error it is.
        kind: ErrorKind,
        /// What the operator can do about it.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        hints: Vec<String>,
    },
    /// A tool failed, and the agent does not go on after that.
    ToolFailed {
        /// The call.
        call: CallId,
        /// Its tool.
        tool: ToolName,
        /// How it failed.
        code: FailureCode,
    },
    /// A limit was reached.
    LimitReached {
        /// Which one, and how much of it was used.
        message: String,
    },
    /// The conversation does not fit into the model's context window.
    ContextLimit {
        /// How many tokens it has, and how many fit.
        message: String,
    },
    /// The policy does not allow to ask the model.
    Denied {
        /// The policy's reason.
        reason: String,
    },
    /// A hook or the host halted the run.
    Halted {
        /// Why.
        reason: String,
    },
    /// The tools could not be loaded.
    ToolsUnavailable {
        /// Why.
        message: String,
    },
    /// The model's final answer does not have the type that was asked for.
    InvalidOutput {
        /// What is wrong with it.
        message: String,
    },
    /// Calls wait for an approval.
    AwaitingApproval,
    /// The host interrupted the run.
    Interrupted,
    /// The host cancelled the run.
    Cancelled,
}

impl EndReason {
    /// Returns the state of a run that ended for this reason.
    pub(super) fn status(&self) -> RunStatus {
        match self {
            Self::Answered => RunStatus::Completed,
            Self::Truncated => RunStatus::Degraded,
            Self::AwaitingApproval => RunStatus::Waiting,
            Self::Interrupted | Self::Cancelled => RunStatus::Cancelled,
            _ => RunStatus::Failed,
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered => f.write_str("the model answered"),
            Self::Truncated => f.write_str("the model's answer was truncated"),
            Self::ModelRefused => f.write_str("the model refused to answer"),
            Self::ModelFailed { message, .. } => write!(f, "the model failed: {message}"),
            Self::ToolFailed { call, tool, code } => {
                write!(f, "the call `{call}` of `{tool}` failed: {code}")
            }
            Self::LimitReached { message } => write!(f, "a limit was reached: {message}"),
            Self::ContextLimit { message } => {
                write!(f, "the conversation is too long for the model: {message}")
            }
            Self::Denied { reason } => write!(f, "the policy denies the model call: {reason}"),
            Self::Halted { reason } => write!(f, "the run was halted: {reason}"),
            Self::ToolsUnavailable { message } => {
                write!(f, "the tools could not be loaded: {message}")
            }
            Self::InvalidOutput { message } => {
                write!(f, "the answer does not have the requested form: {message}")
            }
            Self::AwaitingApproval => f.write_str("a call waits for approval"),
            Self::Interrupted => f.write_str("the run was interrupted"),
            Self::Cancelled => f.write_str("the run was cancelled"),
        }
    }
}

/// One call of a run, in short. The journal has the whole record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallSummary {
    /// Which message of the model made it, from 1.
    pub turn: u32,
    /// Its id in the conversation.
    pub call: CallId,
    /// The tool.
    pub tool: ToolName,
    /// How it failed; `None` for a success.
    pub failed: Option<FailureCode>,
    /// Whether the body ran.
    pub execution: Execution,
    /// How long it took.
    #[serde(rename = "elapsed_us", serialize_with = "crate::clock::micros")]
    pub elapsed: Duration,
}

impl CallSummary {
    pub(super) fn of(turn: u32, call: CallId, result: &ToolResult) -> Self {
        Self {
            turn,
            call,
            tool: result.tool_name().clone(),
            failed: result.failure().map(haft_core::Failure::code),
            execution: result.execution(),
            elapsed: result.elapsed(),
        }
    }
}

/// A call that waits for an approval, or for the calls before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PendingCall {
    /// Its id in the conversation.
    pub call: CallId,
    /// The name the model wrote.
    pub tool: ToolName,
    /// The arguments the model wrote.
    pub arguments: Value,
    /// The question; `None` if the call only waits for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<ApprovalQuestion>,
}

/// What a person is asked about a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalQuestion {
    /// Why approval is needed.
    pub reason: String,
    /// The rule or policy that asks.
    pub source: String,
    /// The validated arguments that would run, redacted.
    pub arguments: Value,
    /// The argument that a person must supply; `None` for a plain question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_input: Option<String>,
    /// What the call would touch, in a few words each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub risk: Vec<String>,
    /// The rules that "always" would write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub always: Vec<String>,
}

/// What a run has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunUsage {
    /// Messages of the model.
    pub turns: u32,
    /// Calls that were answered.
    pub calls: u64,
    /// Tokens.
    #[serde(flatten)]
    pub tokens: Usage,
    /// Money for the model, in millionths of the currency unit; 0 if its price is unknown.
    pub micros: u64,
    /// Tokens beyond what was reserved before a model call.
    pub overshoot_tokens: u64,
    /// Wall-clock time.
    #[serde(rename = "elapsed_us", with = "micros")]
    pub elapsed: Duration,
}

/// What a run of an agent returns.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunResult {
    /// The run.
    pub run: RunId,
    /// The text of the model's last message; empty if it wrote none.
    pub text: String,
    /// The state.
    pub state: RunStatus,
    /// Why it ended.
    pub reason: EndReason,
    /// The calls since the last message of the user, in the model's order.
    pub executions: Vec<CallSummary>,
    /// What the whole run has used.
    pub usage: RunUsage,
    /// The calls that wait for an approval.
    pub pending: Vec<PendingCall>,
    /// The whole conversation.
    pub history: Transcript,
    /// The state to continue from, for a run that waits.
    pub saved: Option<Box<SavedRun>>,
}

/// Durations as whole microseconds.
mod micros {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        crate::clock::micros(time, to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_micros)
    }
}
