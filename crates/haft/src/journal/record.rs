//! The record of one call, and queries for records.
//!
//! The record of a plain success is small: ids and names are shared, arguments are the call's own,
//! and only the start of the output is kept. Data that only asked and refused calls have is boxed.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use haft_core::{
    CallId, ConcurrencyClass, Execution, FailureCode, Label, RunId, ToolName, Verdict,
};
use haft_policy::Explanation;
use serde::Serialize;
use serde_json::Value;

use crate::{
    clock::micros,
    outcome::ExecutionStats,
    schema::Repair,
    secrets::{Redact, RuntimeRedactor},
    tool_result::Truncation,
};

/// The record of one call.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ExecutionRecord {
    /// The run.
    pub run: RunId,
    /// Which turn of it.
    pub cycle: u32,
    /// How deep it is nested: 0 at the top.
    pub depth: u32,
    /// The agents, outermost first; the calling agent is the last.
    #[serde(skip_serializing_if = "is_empty")]
    pub agent_path: Arc<[String]>,
    /// The call.
    pub call: CallId,
    /// The name the model wrote.
    pub requested_name: ToolName,
    /// The tool it resolved to.
    pub tool_name: ToolName,
    /// When the call started.
    #[serde(rename = "at_unix_us", serialize_with = "unix_micros")]
    pub at: SystemTime,
    /// What it was about to do; `None` for a call that was never to run.
    pub intent: Option<IntentRecord>,
    /// The authorization of a call that was refused or needed approval.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Box<PolicyRecord>>,
    /// How it ended; `None` while it has not.
    pub end: Option<OutcomeRecord>,
}

impl ExecutionRecord {
    /// Returns the verdict and its source; `None` for a call that was never authorized.
    #[must_use]
    pub fn verdict(&self) -> Option<&Verdict> {
        let policy = self.policy.as_ref().map(|policy| &policy.verdict);
        policy.or(self.intent.as_ref().map(|intent| &intent.verdict))
    }

    /// Returns the full explanation; `None` for a call that the rules allowed without approval.
    #[must_use]
    pub fn explanation(&self) -> Option<&Arc<Explanation>> {
        self.policy.as_ref().map(|policy| &policy.explanation)
    }

    /// Returns the approver who answered.
    #[must_use]
    pub fn answered_by(&self) -> Option<&str> {
        self.policy.as_ref().and_then(|policy| policy.answered_by.as_deref())
    }

    /// Returns what is known about the call after its process has ended. A call without a record
    /// has not started.
    #[must_use]
    pub fn after_crash(&self) -> AfterCrash {
        match (&self.intent, &self.end) {
            (_, Some(_)) => AfterCrash::Finished,
            (Some(_), None) => AfterCrash::UnknownOutcome,
            (None, None) => AfterCrash::NotStarted,
        }
    }

    /// Returns whether the call has succeeded.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.failed.is_none())
    }
}

/// What a record says about a call whose process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AfterCrash {
    /// Its body has not started: it can be made again.
    NotStarted,
    /// Its body may have run, and its outcome is not recorded. It must not be repeated unasked.
    UnknownOutcome,
    /// It has its outcome.
    Finished,
}

/// The authorization of a call that was refused or needed approval.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct PolicyRecord {
    /// The verdict.
    pub verdict: Verdict,
    /// The full explanation.
    pub explanation: Arc<Explanation>,
    /// The approver who answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<Arc<str>>,
}

impl PolicyRecord {
    pub(super) fn memory_size(&self) -> usize {
        let checks = &self.explanation.checks;
        // What an explanation says is a few lines for each check; counting letters would cost more
        // than it tells.
        size_of::<Self>()
            + size_of::<Explanation>()
            + 200 * checks.len()
            + self.verdict.reason.len()
    }
}

/// What a call was about to do.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct IntentRecord {
    /// The frozen arguments.
    pub arguments: Arc<Value>,
    /// How it may run concurrently.
    pub class: ConcurrencyClass,
    /// Who allowed it, and why.
    pub verdict: Verdict,
    /// The repairs made to the model's arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<Repair>,
}

/// How a call ended.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct OutcomeRecord {
    /// The failure's code; `None` for a success.
    pub failed: Option<FailureCode>,
    /// The failure message for the model, truncated.
    pub error: Option<String>,
    /// The cause of the failure, for the operator only.
    pub cause: Option<String>,
    /// The start of the output that the model received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<str>>,
    /// The taint label of the result.
    pub label: Label,
    /// How much of the result was truncated; `None` if nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncation: Option<Box<Truncation>>,
    /// Whether the body ran.
    pub execution: Execution,
    /// Which sandbox confined the work, if the body reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<Arc<Value>>,
    /// Attempts, cache, waits.
    pub stats: ExecutionStats,
    /// How long the call took.
    #[serde(rename = "elapsed_us", serialize_with = "micros")]
    pub elapsed: Duration,
}

impl OutcomeRecord {
    /// Estimates its size, without the output.
    pub(super) fn memory_size(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::capacity);
        // A tier is a few words, and counting letters would cost more than it tells.
        let tier = if self.tier.is_some() { 1_000 } else { 0 };
        text(&self.error) + text(&self.cause) + tier
    }
}

/// A query for records. An omitted condition matches everything.
///
/// ```
/// use haft::FailureCode;
/// use haft::journal::RecordQuery;
///
/// let refused = RecordQuery::default().code(FailureCode::Denied).limit(10);
/// let of_a_tool = RecordQuery::default().tool("fetch").failed(true).oldest_first();
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct RecordQuery {
    run: Option<RunId>,
    call: Option<CallId>,
    tool: Option<ToolName>,
    failed: Option<bool>,
    code: Option<FailureCode>,
    since: Option<SystemTime>,
    limit: usize,
    pub(super) is_oldest_first: bool,
}

impl Default for RecordQuery {
    fn default() -> Self {
        Self {
            run: None,
            call: None,
            tool: None,
            failed: None,
            code: None,
            since: None,
            // As many as a person reads.
            limit: 100,
            is_oldest_first: false,
        }
    }
}

impl RecordQuery {
    /// Selects calls of a run.
    pub fn run(mut self, run: impl Into<RunId>) -> Self {
        self.run = Some(run.into());
        self
    }

    /// Selects the calls with this id; each run may have one.
    pub fn call(mut self, call: impl Into<CallId>) -> Self {
        self.call = Some(call.into());
        self
    }

    /// Selects calls of a tool, by its name or the one the model wrote.
    pub fn tool(mut self, tool: impl Into<ToolName>) -> Self {
        self.tool = Some(tool.into());
        self
    }

    /// Selects calls that failed, or calls that succeeded. A call that has not ended is neither.
    pub fn failed(mut self, failed: bool) -> Self {
        self.failed = Some(failed);
        self
    }

    /// Selects calls that failed with this code.
    pub fn code(mut self, code: FailureCode) -> Self {
        self.code = Some(code);
        self
    }

    /// Selects calls that started then or later.
    pub fn since(mut self, since: SystemTime) -> Self {
        self.since = Some(since);
        self
    }

    /// Sets the maximum number of records; the default is 100.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Returns the oldest records first, instead of the newest. With a limit these are the oldest
    /// that are kept.
    pub fn oldest_first(mut self) -> Self {
        self.is_oldest_first = true;
        self
    }

    /// Returns the maximum number of records.
    #[must_use]
    pub fn max_records(&self) -> usize {
        self.limit
    }

    /// Returns whether a record matches.
    #[must_use]
    pub fn matches(&self, record: &ExecutionRecord) -> bool {
        let end = record.end.as_ref();
        self.run.as_ref().is_none_or(|run| record.run == *run)
            && self.call.as_ref().is_none_or(|call| record.call == *call)
            && self
                .tool
                .as_ref()
                .is_none_or(|t| record.tool_name == *t || record.requested_name == *t)
            && self.failed.is_none_or(|f| end.is_some_and(|end| end.failed.is_some() == f))
            && self.code.is_none_or(|code| end.is_some_and(|end| end.failed == Some(code)))
            && self.since.is_none_or(|since| record.at >= since)
    }
}

fn is_empty(path: &Arc<[String]>) -> bool {
    path.is_empty()
}

fn unix_micros<S: serde::Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    micros(&time.duration_since(UNIX_EPOCH).unwrap_or_default(), to)
}

/// Most of a record was redacted when it was made; a secret that was added since is redacted as
/// well.
impl Redact for ExecutionRecord {
    fn redact(&mut self, redactor: &RuntimeRedactor) {
        if let Some(intent) = &mut self.intent {
            if let Some(shown) = redactor.json(&intent.arguments) {
                intent.arguments = Arc::new(shown);
            }
            intent.verdict.redact(redactor);
            if let Some(shown) = redactor.repairs(&intent.repairs) {
                intent.repairs = shown;
            }
        }
        if let Some(policy) = &mut self.policy {
            policy.verdict.redact(redactor);
            Arc::make_mut(&mut policy.explanation).redact(redactor);
        }
        if let Some(end) = &mut self.end {
            end.error.redact(redactor);
            end.cause.redact(redactor);
            if let Some(changed) = end.output.as_deref().and_then(|text| redactor.changed(text)) {
                end.output = Some(changed.into());
            }
        }
    }
}
