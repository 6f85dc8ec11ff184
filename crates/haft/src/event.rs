//! Events of calls and turns: one closed enum, and exactly one terminal event per call.
//!
//! An event describes something that already happened. An observer cannot change or fail a call; if
//! it panics, the panic is caught. Each event has a sequence number and names its run, because call
//! ids repeat between runs.

mod meta;
mod redact;
mod stream;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_core::{
    CallId, ConcurrencyClass, Execution, FailureCode, Progress, RunId, ToolName, Verdict,
};
use haft_policy::Explanation;
use serde::Serialize;
use serde_json::Value;

use self::stream::{Hub, Numbered, Rank};
pub use self::{
    meta::{EventMeta, EventRecord, EventSource},
    stream::{EventStream, Lagged, StreamItem},
};
use crate::{
    artifact::ArtifactMeta,
    clock::{Clock, RuntimeClock, micros},
    concurrency::BatchSlot,
    host_code::caught,
    outcome::CacheStatus,
    parked::ParkedPhase,
    schema::Repair,
    secrets::{Redact as _, RuntimeRedactor},
};

/// Something that happened.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A turn began.
    TurnStarted {
        /// The run.
        run: RunId,
        /// Which turn of the run, from 1.
        cycle: u32,
        /// How many tools it offers.
        tools: usize,
    },
    /// A non-fatal problem: a tool source did not answer, or a rule could not be applied.
    Problem {
        /// The run.
        run: RunId,
        /// What went wrong.
        message: String,
    },
    /// A call was accepted and scheduled.
    Planned {
        /// The call.
        call: CallId,
        /// The name the model wrote.
        requested_name: ToolName,
        /// Its position in the plan.
        place: BatchSlot,
    },
    /// A call starts.
    Started {
        /// The call.
        call: CallId,
        /// The name the model wrote.
        requested_name: ToolName,
        /// The tool it resolves to.
        tool_name: ToolName,
        /// The frozen arguments, redacted; `None` if the call failed validation.
        arguments: Option<Arc<Value>>,
        /// How it may run concurrently; `None` if the call failed validation.
        class: Option<ConcurrencyClass>,
    },
    /// The arguments were repaired so that they parse or match the schema. Emitted right after
    /// `Started`.
    Repaired {
        /// The call.
        call: CallId,
        /// What was changed.
        repairs: Arc<[Repair]>,
    },
    /// A hook failed and is configured to fail open, so the call went on.
    HookFailedOpen {
        /// The run.
        run: RunId,
        /// The call; `None` for a hook around a turn.
        call: Option<CallId>,
        /// The hook.
        hook: String,
        /// Why it failed.
        why: String,
    },
    /// An approver is being asked about a call.
    Asked {
        /// The call.
        call: CallId,
        /// Why.
        verdict: Verdict,
        /// The full explanation.
        explanation: Arc<Explanation>,
    },
    /// An approver answered. The effect of the answer is the next event.
    Answered {
        /// The call.
        call: CallId,
        /// Who answered.
        by: Arc<str>,
        /// The answer: `allow`, `allow for the session`, `edit`, `deny`, ….
        answer: &'static str,
        /// The approver's comment.
        comment: Option<String>,
        /// How long the call was queued and the question was open.
        #[serde(rename = "waited_us", serialize_with = "micros")]
        waited: Duration,
    },
    /// A rule changed the arguments; the call is authorized again.
    Rewritten {
        /// The call.
        call: CallId,
        /// The new arguments, redacted.
        arguments: Arc<Value>,
    },
    /// A call is authorized.
    Authorized {
        /// The call.
        call: CallId,
        /// Who allowed it, and why.
        verdict: Verdict,
    },
    /// A policy, guard or approver denied a call.
    Refused {
        /// The call.
        call: CallId,
        /// Who refused it, and why.
        verdict: Verdict,
        /// The full explanation.
        explanation: Arc<Explanation>,
    },
    /// The call finished a phase. Emitted only for phases whose end has no other event.
    PhaseFinished {
        /// The call.
        call: CallId,
        /// The phase.
        phase: Phase,
    },
    /// The body starts its first attempt. A call answered from the cache has no such event.
    Running {
        /// The call.
        call: CallId,
    },
    /// A call waited between its authorization and its end. Waiting is not part of the run time.
    Waited {
        /// The call.
        call: CallId,
        /// For what.
        what: WaitReason,
        /// How long.
        #[serde(rename = "time_us", serialize_with = "micros")]
        time: Duration,
    },
    /// An attempt failed, and another will be made.
    Retrying {
        /// The call.
        call: CallId,
        /// Which attempt comes next, from 2.
        attempt: u32,
        /// How the last one failed.
        failed: FailureCode,
        /// How long the call waits before it.
        #[serde(rename = "wait_us", serialize_with = "micros")]
        wait: Duration,
    },
    /// The cache was queried for the result of a call.
    Cached {
        /// The call.
        call: CallId,
        /// Whether it was a hit, a miss, or joined an identical call in flight.
        how: CacheStatus,
    },
    /// The circuit breaker of a tool opened: the tool failed too often and rejects calls for a
    /// while.
    CircuitOpened {
        /// The tool, by its registered name.
        tool: ToolName,
        /// How many failures it took.
        failures: u32,
        /// For how long.
        #[serde(rename = "cooldown_us", serialize_with = "micros")]
        cooldown: Duration,
    },
    /// An attempt at the body has ended. A retried call has several of these.
    AttemptFinished {
        /// The call.
        call: CallId,
        /// The tool.
        tool_name: ToolName,
        /// Which attempt, from 1.
        attempt: u32,
        /// The failure's code; `None` for a success.
        failed: Option<FailureCode>,
        /// How long the body ran, without any waiting.
        #[serde(rename = "took_us", serialize_with = "micros")]
        took: Duration,
    },
    /// The body reports progress.
    Progress {
        /// The call.
        call: CallId,
        /// The progress.
        note: Progress,
    },
    /// A result, or a part of it, was too large for the model and was stored as an artifact.
    ResultOffloaded {
        /// The call.
        call: CallId,
        /// The artifact's id, size and expiry.
        facts: Arc<ArtifactMeta>,
        /// How many characters of it are shown.
        shown: usize,
    },
    /// The call waited and was parked. It has no terminal event here; it has one where it is
    /// resumed.
    Parked {
        /// The call.
        call: CallId,
        /// The tool it resolved to.
        tool_name: ToolName,
        /// What it waits for.
        phase: ParkedPhase,
    },
    /// The call has its result. Exactly one per call, always its last event.
    Finished {
        /// The call.
        call: CallId,
        /// The tool it resolved to.
        tool_name: ToolName,
        /// The failure's code; `None` for a success.
        failed: Option<FailureCode>,
        /// The cause of the failure, for the operator only.
        cause: Option<String>,
        /// Whether the body ran.
        execution: Execution,
        /// How long the whole call took.
        #[serde(rename = "elapsed_us", serialize_with = "micros")]
        elapsed: Duration,
    },
    /// A call is answered with a task; its work continues in the background.
    Deferred {
        /// The call.
        call: CallId,
        /// The task.
        task_id: Arc<str>,
        /// The tool.
        tool: ToolName,
        /// A summary of the work, from the tool.
        summary: String,
    },
    /// Background work has ended, and its result waits to be fetched.
    TaskFinished {
        /// The background work, as part of its call.
        call: CallId,
        /// The task.
        task_id: Arc<str>,
        /// The failure's code; `None` for a success.
        failed: Option<FailureCode>,
        /// Whether its end was observed.
        execution: Execution,
        /// How long the work took.
        #[serde(rename = "elapsed_us", serialize_with = "micros")]
        elapsed: Duration,
    },
    /// A background result is discarded: it was not fetched in time, or its run is over.
    Expired {
        /// The background work, as part of its call.
        call: CallId,
        /// The task.
        task_id: Arc<str>,
    },
    /// Most of one budget of the run is used. Emitted once for each kind.
    BudgetLow {
        /// The run whose budget it is; for a sub-run that may be one above it.
        run: RunId,
        /// What is low: `calls`, `milliseconds`, `bytes`, `tokens`, `micros`, `cycles`, or
        /// ``calls of `tool` ``.
        what: String,
        /// How much is left.
        left: u64,
        /// Of how much.
        of: u64,
    },
    /// All calls of the turn have their results.
    TurnFinished {
        /// The run.
        run: RunId,
        /// How many calls were answered.
        answers: usize,
    },
}

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitReason {
    /// A slot in the turn, the scheduler's lock, its resource keys, or a slot of its tool.
    Slot,
    /// The rate limit.
    Rate,
    /// The backoff between two attempts.
    Backoff,
    /// The result of an identical call in flight (single-flight).
    InFlight,
}

impl WaitReason {
    /// Returns its name, as written in events and spans.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Slot => "slot",
            Self::Rate => "rate",
            Self::Backoff => "backoff",
            Self::InFlight => "in_flight",
        }
    }
}

/// A phase of a call whose end no other event marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Phase {
    /// The tool's own check of its arguments.
    Check,
    /// The hooks before the call.
    PreHooks,
    /// The wait for the end of the model's message.
    WaitForMessageEnd,
    /// The wait for the scheduler's lock.
    WaitForLock,
    /// The hooks after the body.
    PostHooks,
    /// Sanitizing and truncating the outcome.
    Sanitize,
}

impl Event {
    /// Returns whether this is the last event of a call.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Finished { .. })
    }

    /// Returns whether this is a progress event. A body may emit many of them.
    #[must_use]
    pub fn is_progress(&self) -> bool {
        matches!(self, Self::Progress { .. })
    }
}

/// Receives events. It is called inline on the call's task, so it must return quickly.
pub trait Observer: Send + Sync + 'static {
    /// Observes an event.
    fn observe(&self, event: &Event);

    /// Observes an event with its sequence number, time and run. Calls run concurrently, so events
    /// may arrive in another order than their numbers.
    fn observe_at(&self, _at: &EventMeta, event: &Event) {
        self.observe(event);
    }
}

impl<F: Fn(&Event) + Send + Sync + 'static> Observer for F {
    fn observe(&self, event: &Event) {
        self(event);
    }
}

/// All observers of a runtime, and all readers of its event stream.
pub(crate) struct Events {
    observers: Vec<Box<dyn Observer>>,
    clock: Arc<dyn Clock>,
    redactor: RuntimeRedactor,
    hub: Arc<Hub>,
}

impl Events {
    pub(crate) fn new(
        observers: Vec<Box<dyn Observer>>,
        clock: Arc<dyn Clock>,
        redactor: RuntimeRedactor,
    ) -> Self {
        Self { observers, clock, redactor, hub: Arc::default() }
    }

    /// Returns whether there is an observer or a reader.
    pub(crate) fn has_observer(&self) -> bool {
        !self.observers.is_empty() || self.hub.is_read()
    }

    /// Opens a stream that buffers at most `capacity` events.
    pub(crate) fn stream(&self, capacity: usize) -> EventStream {
        self.hub.open(capacity)
    }

    /// Emits an event, redacted. The event is not even built without an observer or reader.
    #[inline]
    pub(crate) fn emit_as(
        &self,
        who: impl FnOnce() -> Arc<EventSource>,
        event: impl FnOnce() -> Event,
    ) {
        self.emit_at(|| self.clock.now(), who, event);
    }

    /// Emits an event of a known time: the events of one phase share it, so that the clock is read
    /// once.
    #[inline]
    pub(crate) fn emit_at(
        &self,
        time: impl FnOnce() -> Instant,
        who: impl FnOnce() -> Arc<EventSource>,
        event: impl FnOnce() -> Event,
    ) {
        if self.has_observer() {
            self.emit_made(time, who, event);
        }
    }

    /// Makes and emits an event. Not inlined, so that the code of a call that is not observed stays
    /// together.
    #[cold]
    #[inline(never)]
    fn emit_made(
        &self,
        time: impl FnOnce() -> Instant,
        who: impl FnOnce() -> Arc<EventSource>,
        event: impl FnOnce() -> Event,
    ) {
        let mut event = Some(event());
        self.emit(time(), who(), &mut event);
    }

    /// Emits an event. It is taken only if a stream buffers it, because it is large.
    fn emit(&self, time: Instant, who: Arc<EventSource>, event: &mut Option<Event>) {
        let Some(made) = event else { return };
        made.redact(&self.redactor);
        let rank = Rank::of(made);
        match (self.hub.emit((&*self.clock, time), who, rank, event), event) {
            (Numbered::Kept(record), _) => self.notify_observers(&record.at, &record.event),
            (Numbered::Alone(at), Some(event)) => self.notify_observers(&at, event),
            (Numbered::Alone(_), None) => {}
        }
    }

    fn notify_observers(&self, at: &EventMeta, event: &Event) {
        for observer in &self.observers {
            let _ = caught(|| observer.observe_at(at, event));
        }
    }
}

impl Default for Events {
    fn default() -> Self {
        Self::new(Vec::new(), Arc::new(RuntimeClock), RuntimeRedactor::default())
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("observers", &self.observers.len()).finish_non_exhaustive()
    }
}

impl Drop for Events {
    /// Readers still get the buffered events, then the end of the stream.
    fn drop(&mut self) {
        self.hub.close();
    }
}
