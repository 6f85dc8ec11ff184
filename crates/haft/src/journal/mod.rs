//! What is written down: the intent before the effect, the outcome before the answer.
//!
//! `perform` asks for an `Intent` by type, and only `intend` here makes one. A journal that cannot
//! take the intent stops the call; one that cannot settle turns its answer into `unrecorded`.

mod record;
mod memory;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Instant,
};

use haft_core::{BoxError, BoxFuture, Class, Code, Context, Failure, Ran, Verdict};
use serde_json::Value;

pub use self::{
    memory::MemoryJournal,
    record::{End, Intention, Judgement, Query, Record},
};
use crate::{
    catalog::Entry,
    envelope::Envelope,
    fit::Repair,
    layers::Course,
    lifecycle::{File, Permitted},
    policy::Explanation,
    redact::Redactor,
    runtime::Inner,
    watch::{within, words},
};

/// A call that is about to run. Borrowed: a journal takes over what it wants to keep, and secrets are
/// taken out of what it takes.
#[derive(Debug)]
#[non_exhaustive]
pub struct Intended<'a> {
    /// The call: its run, its ids, its names.
    pub call: &'a Context,
    /// How it shares the floor.
    pub class: Class,
    /// When its walk began.
    pub began: Instant,
    pub(crate) tool: &'a Entry,
    pub(crate) arguments: &'a Arc<Value>,
    pub(crate) verdict: &'a Verdict,
    pub(crate) repairs: &'a [Repair],
    pub(crate) redactor: &'a Redactor,
}

impl Intended<'_> {
    /// Returns the frozen arguments, without secrets.
    #[must_use]
    pub fn arguments(&self) -> Arc<Value> {
        self.redactor.arguments(self.tool, self.arguments)
    }

    /// Returns who allowed it, and why.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.redactor.verdict(self.verdict.clone())
    }

    /// Returns what was changed in the model's arguments so that they could be read or fit.
    #[must_use]
    pub fn repairs(&self) -> Vec<Repair> {
        self.redactor.repairs(self.repairs).unwrap_or_else(|| self.repairs.to_vec())
    }
}

/// A call that has ended, whether or not it ran.
#[derive(Debug)]
#[non_exhaustive]
pub struct Settled<'a> {
    /// The call: its run, its ids, its names.
    pub call: &'a Context,
    /// What it will be answered with, once this is written down.
    pub answer: &'a Envelope,
    /// What the judges came to; nothing for a call that the rules allowed unasked, or that never got
    /// so far.
    pub verdict: Option<&'a Verdict>,
    /// The same in full.
    pub explanation: Option<&'a Arc<Explanation>>,
    /// Who was asked and answered.
    pub answered_by: Option<&'a str>,
    /// What happened on the way.
    pub course: Course,
    /// When its walk began.
    pub began: Instant,
}

/// The end of writing something down: now, for a journal in memory, or later.
pub enum Written<'a> {
    /// It is written, or it cannot be.
    Now(Result<(), BoxError>),
    /// It will be, when this ends.
    Later(BoxFuture<'a, Result<(), BoxError>>),
}

impl fmt::Debug for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Now(_) => "Written::Now",
            Self::Later(_) => "Written::Later",
        })
    }
}

/// Where intents and outcomes are kept.
pub trait Journal: Send + Sync + 'static {
    /// Writes down that a call is about to run. Until this ends, nothing runs.
    fn intend(&self, intended: &Intended<'_>) -> Written<'_>;

    /// Writes down how a call ended. Until this ends, nobody is told.
    fn settle(&self, settled: &Settled<'_>) -> Written<'_>;

    /// Returns the records that are wanted; nothing where this journal cannot be asked. It must
    /// answer at once.
    fn find(&self, _query: &Query) -> Option<Vec<Record>> {
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
    permitted: &Permitted,
    began: Instant,
) -> Result<Intent, Failure> {
    let admitted = permitted.admitted();
    let intended = Intended {
        call: admitted.context(),
        tool: admitted.tool(),
        arguments: admitted.arguments(),
        redactor: &inner.redactor,
        class: admitted.claim().class,
        verdict: permitted.verdict(),
        repairs: admitted.repairs(),
        began,
    };
    let started = catch_unwind(AssertUnwindSafe(|| inner.journal.intend(&intended)));
    let took_time = matches!(started, Ok(Written::Later(_)));
    match end(inner, started).await {
        Ok(()) => Ok(Intent { took_time }),
        Err(e) => Err(Failure::new(
            Code::Unrecorded,
            "the call could not be written down beforehand, so it was not run",
        )
        .with_ran(Ran::No)
        .with_source(e)),
    }
}

/// Writes down how a call ended.
pub(crate) fn settle<'a>(
    inner: &'a Inner,
    call: &Context,
    answer: &Envelope,
    file: Option<&File>,
    (course, began): (Course, Instant),
) -> impl Future<Output = Result<(), BoxError>> + use<'a> {
    let settled = Settled {
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
async fn end(inner: &Inner, started: std::thread::Result<Written<'_>>) -> Result<(), BoxError> {
    let limit = inner.config.judge_timeout;
    match started {
        Ok(Written::Now(written)) => written,
        Ok(Written::Later(writing)) => {
            match Box::pin(within(&*inner.clock, limit, writing)).await {
                Ok(written) => written,
                Err(stopped) => Err(stopped.to_string().into()),
            }
        }
        Err(panic) => Err(words(panic).into()),
    }
}
