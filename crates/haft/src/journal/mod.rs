//! The journal: the intent before the side effect, the outcome before the result (write-ahead log).
//!
//! `perform` requires an `Intent` by type, and only `intend` here makes one. If the journal cannot
//! write the intent, the call does not run; if it cannot write the outcome, the result becomes
//! `unrecorded`.

mod record;
mod memory;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Instant,
};

use haft_core::{
    BoxError, BoxFuture, ConcurrencyClass, Execution, Failure, FailureCode, ToolContext, Verdict,
};
use serde_json::Value;

pub use self::{
    memory::MemoryJournal,
    record::{ExecutionRecord, IntentRecord, OutcomeRecord, PolicyRecord, RecordQuery},
};
use crate::{
    call::{AuthorizedCall, File},
    layers::ExecutionStats,
    policy::Explanation,
    registry::RegisteredTool,
    runtime::Inner,
    schema::Repair,
    secrets::RuntimeRedactor,
    tool_result::ToolResult,
    watch::{within, words},
};

/// A call that is about to run. Borrowed: a journal copies what it keeps, and the copies are
/// redacted.
#[derive(Debug)]
#[non_exhaustive]
pub struct CallIntent<'a> {
    /// The call: its run, its ids, its names.
    pub call: &'a ToolContext,
    /// How it may run concurrently.
    pub class: ConcurrencyClass,
    /// When the call started.
    pub began: Instant,
    pub(crate) tool: &'a RegisteredTool,
    pub(crate) arguments: &'a Arc<Value>,
    pub(crate) verdict: &'a Verdict,
    pub(crate) repairs: &'a [Repair],
    pub(crate) redactor: &'a RuntimeRedactor,
}

impl CallIntent<'_> {
    /// Returns the frozen arguments, redacted.
    #[must_use]
    pub fn arguments(&self) -> Arc<Value> {
        self.redactor.arguments(self.tool.input(), self.arguments)
    }

    /// Returns who allowed it, and why.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.redactor.verdict(self.verdict.clone())
    }

    /// Returns the repairs made to the model's arguments.
    #[must_use]
    pub fn repairs(&self) -> Vec<Repair> {
        self.redactor.repairs(self.repairs).unwrap_or_else(|| self.repairs.to_vec())
    }
}

/// A call that has ended, whether or not it ran.
#[derive(Debug)]
#[non_exhaustive]
pub struct CallOutcome<'a> {
    /// The call: its run, its ids, its names.
    pub call: &'a ToolContext,
    /// Its result, which is delivered after this is written.
    pub answer: &'a ToolResult,
    /// The verdict; `None` for a call that the rules allowed without approval, or that was not
    /// authorized at all.
    pub verdict: Option<&'a Verdict>,
    /// The full explanation.
    pub explanation: Option<&'a Arc<Explanation>>,
    /// The approver who answered.
    pub answered_by: Option<&'a str>,
    /// Attempts, cache, waits.
    pub course: ExecutionStats,
    /// When the call started.
    pub began: Instant,
}

/// The result of a write: now, for a journal in memory, or later.
pub enum WriteStatus<'a> {
    /// It is written, or has failed.
    Now(Result<(), BoxError>),
    /// It is written when this future completes.
    Later(BoxFuture<'a, Result<(), BoxError>>),
}

impl fmt::Debug for WriteStatus<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Now(_) => "WriteStatus::Now",
            Self::Later(_) => "WriteStatus::Later",
        })
    }
}

/// Stores intents and outcomes.
pub trait Journal: Send + Sync + 'static {
    /// Writes that a call is about to run. The body starts only after this has completed.
    fn intend(&self, intended: &CallIntent<'_>) -> WriteStatus<'_>;

    /// Writes how a call ended. The result is delivered only after this has completed.
    fn settle(&self, settled: &CallOutcome<'_>) -> WriteStatus<'_>;

    /// Returns the records that match; `None` if this journal does not support queries. It must not
    /// block.
    fn find(&self, _query: &RecordQuery) -> Option<Vec<ExecutionRecord>> {
        None
    }
}

/// The proof that an intent was written down.
#[derive(Debug)]
pub(crate) struct Intent {
    took_time: bool,
}

impl Intent {
    /// Returns whether writing it down took time, in which the world may have changed.
    pub(crate) fn took_time(&self) -> bool {
        self.took_time
    }
}

/// Writes down the intent of a permitted call.
pub(crate) async fn intend(
    inner: &Inner,
    permitted: &AuthorizedCall,
    began: Instant,
) -> Result<Intent, Failure> {
    let admitted = permitted.admitted();
    let intended = CallIntent {
        call: admitted.context(),
        tool: admitted.tool(),
        arguments: admitted.arguments(),
        redactor: &inner.redactor,
        class: admitted.profile().class,
        verdict: permitted.verdict(),
        repairs: admitted.repairs(),
        began,
    };
    let started = catch_unwind(AssertUnwindSafe(|| inner.journal.intend(&intended)));
    let took_time = matches!(started, Ok(WriteStatus::Later(_)));
    match end(inner, started).await {
        Ok(()) => Ok(Intent { took_time }),
        Err(e) => Err(Failure::new(
            FailureCode::Unrecorded,
            "the call was not run: the journal could not record it",
        )
        .with_execution(Execution::NotStarted)
        .with_source(e)),
    }
}

/// Writes down how a call ended.
pub(crate) fn settle<'a>(
    inner: &'a Inner,
    call: &ToolContext,
    answer: &ToolResult,
    file: Option<&File>,
    (course, began): (ExecutionStats, Instant),
) -> impl Future<Output = Result<(), BoxError>> + use<'a> {
    let settled = CallOutcome {
        call,
        answer,
        verdict: file.map(|file| &file.verdict),
        explanation: file.map(|file| &file.explanation),
        answered_by: file.and_then(|file| file.answered_by.as_deref()),
        course,
        began,
    };
    end(inner, catch_unwind(AssertUnwindSafe(|| inner.journal.settle(&settled))))
}

/// Waits for the end of what was started under the watch, if there is something to wait for. What
/// is written is not part of this future.
async fn end(inner: &Inner, started: std::thread::Result<WriteStatus<'_>>) -> Result<(), BoxError> {
    let limit = inner.config.policy_timeout;
    match started {
        Ok(WriteStatus::Now(written)) => written,
        Ok(WriteStatus::Later(writing)) => {
            match Box::pin(within(&*inner.clock, limit, writing)).await {
                Ok(written) => written,
                Err(stopped) => Err(stopped.to_string().into()),
            }
        }
        Err(panic) => Err(words(panic).into()),
    }
}
