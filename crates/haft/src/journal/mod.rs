//! What is written down: the intent before the effect, the outcome before the answer.
//!
//! `perform` asks for an `Intent` by type, and only `intend` here makes one. A journal that cannot
//! take the intent stops the call; one that cannot settle turns its answer into `unrecorded`.

mod memory;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use haft_core::{BoxError, BoxFuture, CallId, Class, Code, Failure, Ran, RunId, ToolName, Verdict};
use serde::Serialize;
use serde_json::Value;

pub use self::memory::MemoryJournal;
use crate::{
    lifecycle::Permitted,
    watch::{panic_text, within},
};

/// A call that is about to run.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Intended {
    /// The run.
    pub run: RunId,
    /// Which turn of it.
    pub cycle: u32,
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: ToolName,
    /// The frozen arguments.
    pub arguments: Arc<Value>,
    /// How it shares the floor.
    pub class: Class,
    /// Who allowed it, and why.
    pub verdict: Verdict,
}

/// A call that has ended, whether or not it ran.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Settled {
    /// The run.
    pub run: RunId,
    /// Which turn of it.
    pub cycle: u32,
    /// The call.
    pub call: CallId,
    /// The name the model wrote.
    pub called: ToolName,
    /// The tool it meant.
    pub meant: ToolName,
    /// The failure's code; nothing for a success.
    pub failed: Option<Code>,
    /// What the model was told of a failure.
    pub error: Option<String>,
    /// What is behind the failure, for the operator alone.
    pub cause: Option<String>,
    /// Whether the body ran.
    pub ran: Ran,
    /// How long the walk took.
    #[serde(skip)]
    pub elapsed: Duration,
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
    fn intend(&self, intended: Intended) -> Written<'_>;

    /// Writes down how a call ended. Until this ends, nobody is told.
    fn settle(&self, settled: Settled) -> Written<'_>;
}

/// The proof that an intent was written down.
#[derive(Debug)]
pub(crate) struct Intent(());

/// Writes down the intent of a permitted call.
pub(crate) async fn intend(
    journal: &dyn Journal,
    permitted: &Permitted,
    limit: Duration,
) -> Result<Intent, Failure> {
    let admitted = permitted.admitted();
    let cx = admitted.context();
    let intended = Intended {
        run: cx.run_id().clone(),
        cycle: cx.cycle(),
        call: cx.call_id().clone(),
        tool: cx.meant().clone(),
        arguments: Arc::clone(admitted.arguments()),
        class: admitted.claim().class,
        verdict: permitted.verdict().clone(),
    };
    match written(|| journal.intend(intended), limit).await {
        Ok(()) => Ok(Intent(())),
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
    journal: &'a dyn Journal,
    settled: Settled,
    limit: Duration,
) -> impl Future<Output = Result<(), BoxError>> + 'a {
    written(|| journal.settle(settled), limit)
}

/// Starts writing at once, under the watch, and waits for the end if there is something to wait
/// for. A plain function, so that what is written does not stay in the future.
fn written<'a>(
    write: impl FnOnce() -> Written<'a>,
    limit: Duration,
) -> impl Future<Output = Result<(), BoxError>> + 'a {
    let started = catch_unwind(AssertUnwindSafe(write));
    async move {
        match started {
            Ok(Written::Now(written)) => written,
            Ok(Written::Later(writing)) => match Box::pin(within(limit, writing)).await {
                Ok(written) => written,
                Err(stopped) => Err(stopped.to_string().into()),
            },
            Err(panic) => Err(panic_text(&*panic).into()),
        }
    }
}
