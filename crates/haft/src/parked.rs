//! `ParkedCall`: a call that waits, as data.

use haft_core::{CallId, RunId, ToolName, Verdict, host::CallOverrides};
use haft_schema::Repair;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A call that waits, as data: store it, and finish it with
/// [`Turn::resume`](crate::Turn::resume), also in another process.
///
/// It contains the arguments of the call as they are; store it like the conversation. It is signed
/// with the key of the runtime's [`GrantStore`](crate::approval::GrantStore), so the process that
/// resumes it needs a store with the same key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ParkedCall {
    #[serde(flatten)]
    pub(crate) state: ParkedState,
    pub(crate) seal: String,
}

/// What a parked call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ParkedPhase {
    /// Its start: calls before it have not finished.
    Start,
    /// An approval.
    Approval,
    /// An argument that a person must supply.
    Input,
    /// A concurrency slot, the scheduler lock, its resource keys, or a slot of its tool.
    Locks,
}

/// What is saved of a call. All of it is signed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ParkedState {
    pub(crate) version: u32,
    pub(crate) run: RunId,
    pub(crate) cycle: u32,
    pub(crate) call: CallId,
    pub(crate) requested_name: ToolName,
    pub(crate) tool_name: ToolName,
    /// The hash of the tool's definition.
    pub(crate) definition: String,
    pub(crate) arguments: Value,
    pub(crate) phase: ParkedPhase,
    /// How often a rule or a person has changed the arguments.
    pub(crate) round: u8,
    /// Whether an approver was asked, which counted against `max_prompts`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) counted: bool,
    /// Why approval is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) question: Option<String>,
    /// The grant of a call that is authorized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) grant: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) repairs: Vec<Repair>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) supplied: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hook_allow: Option<Verdict>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) asked: Option<Verdict>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) opinions: Vec<Verdict>,
    /// Notes of hooks for the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) overrides: Option<CallOverrides>,
}

impl ParkedCall {
    /// Returns the id of the call.
    #[must_use]
    pub fn id(&self) -> &CallId {
        &self.state.call
    }

    /// Returns the run of the call. It is resumed in a run with the same id.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.state.run
    }

    /// Returns the tool.
    #[must_use]
    pub fn tool_name(&self) -> &ToolName {
        &self.state.tool_name
    }

    /// Returns the arguments, as hooks, rules and approvers have left them.
    #[must_use]
    pub fn arguments(&self) -> &Value {
        &self.state.arguments
    }

    /// Returns what the call waits for.
    #[must_use]
    pub fn phase(&self) -> ParkedPhase {
        self.state.phase
    }

    /// Returns why approval is needed; `None` if the call does not wait for an approval.
    #[must_use]
    pub fn question(&self) -> Option<&str> {
        self.state.question.as_deref()
    }
}
