//! The journal: the intent before the side effect, the outcome before the result (write-ahead log).
//!
//! An execution requires an `Intent` by type, and only a written intent makes one. If the journal
//! cannot write the intent, the call does not run; if it cannot write the outcome, the result
//! becomes `unrecorded`.

mod record;
mod memory;

use std::{any::Any, fmt, sync::Arc, time::Instant};

use haft_core::{
    BoxError, BoxFuture, ConcurrencyClass, Execution, Failure, FailureCode, ToolContext, Verdict,
};
use haft_policy::Explanation;
use serde_json::Value;

pub use self::{
    memory::MemoryJournal,
    record::{AfterCrash, ExecutionRecord, IntentRecord, OutcomeRecord, PolicyRecord, RecordQuery},
};
use crate::{
    frozen_arguments::FrozenArguments, outcome::ExecutionStats, registry::RegisteredTool,
    schema::Repair, secrets::RuntimeRedactor, tool_result::ToolResult,
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
    pub(crate) arguments: &'a FrozenArguments,
    pub(crate) verdict: &'a Verdict,
    pub(crate) repairs: Option<&'a Arc<[Repair]>>,
    pub(crate) redactor: &'a RuntimeRedactor,
}

impl CallIntent<'_> {
    /// Returns the frozen arguments, redacted.
    #[must_use]
    pub fn arguments(&self) -> Arc<Value> {
        self.redactor.arguments(self.tool.input(), self.arguments.json())
    }

    /// Returns who allowed it, and why.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.redactor.verdict(self.verdict.clone())
    }

    /// Returns the repairs made to the model's arguments.
    #[must_use]
    pub fn repairs(&self) -> Vec<Repair> {
        let repairs = self.repairs.map(|all| &**all).unwrap_or_default();
        self.redactor.repairs(repairs).unwrap_or_else(|| repairs.to_vec())
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
    pub stats: ExecutionStats,
    /// When the call started.
    pub began: Instant,
}

/// The result of a write: now, for a journal in memory, or later.
pub enum WriteStatus {
    /// It is written, or has failed.
    Now(Result<(), BoxError>),
    /// It is written when this future completes. The future owns what it needs, because the call
    /// may move to another task while it waits.
    Later(BoxFuture<'static, Result<(), BoxError>>),
}

impl fmt::Debug for WriteStatus {
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
    fn intend(&self, intended: &CallIntent<'_>) -> WriteStatus;

    /// Writes how a call ended. The result is delivered only after this has completed.
    fn settle(&self, settled: &CallOutcome<'_>) -> WriteStatus;

    /// Returns the records that match; `None` if this journal does not support queries. It must not
    /// block.
    fn find(&self, _query: &RecordQuery) -> Option<Vec<ExecutionRecord>> {
        None
    }
}

/// The proof that an intent was written.
#[derive(Debug)]
pub(crate) struct Intent(());

impl Intent {
    /// Returns the proof, if the journal has written the intent.
    pub(crate) fn written(result: Result<(), BoxError>) -> Result<Self, Failure> {
        result.map(|()| Self(())).map_err(|e| {
            Failure::new(
                FailureCode::Unrecorded,
                "the call was not run: the journal could not record it",
            )
            .with_execution(Execution::NotStarted)
            .with_source(e)
        })
    }
}

/// The journal of a runtime. The one in memory writes at once; that of the host may take time.
pub(crate) enum RuntimeJournal {
    Memory(MemoryJournal),
    Host(Box<dyn Journal>),
}

impl RuntimeJournal {
    pub(crate) fn new(journal: impl Journal) -> Self {
        match (&journal as &dyn Any).downcast_ref::<MemoryJournal>() {
            Some(memory) => Self::Memory(memory.clone()),
            None => Self::Host(Box::new(journal)),
        }
    }

    /// Returns the journal, if it is in memory.
    #[inline]
    pub(crate) fn memory(&self) -> Option<&MemoryJournal> {
        match self {
            Self::Memory(journal) => Some(journal),
            Self::Host(_) => None,
        }
    }

    /// Returns the journal behind its trait.
    pub(crate) fn any(&self) -> &dyn Journal {
        match self {
            Self::Memory(journal) => journal,
            Self::Host(journal) => &**journal,
        }
    }
}
