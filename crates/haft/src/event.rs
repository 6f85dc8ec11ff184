//! What observers receive: one closed enum, and exactly one terminal event per call.
//!
//! Events are facts that already happened. An observer cannot change or fail a call; one that
//! panics is left out for that event. Each event has its place among all events of the runtime, and
//! says whose it is, because ids of calls repeat from run to run.

mod meta;
mod stream;

use std::{fmt, sync::Arc, time::Duration};

use haft_core::{
    CallId, ConcurrencyClass, Execution, FailureCode, Progress, RunId, ToolName, Verdict,
};
use serde::Serialize;
use serde_json::Value;

use self::stream::{Hub, Numbered};
pub use self::{
    meta::{EventMeta, EventRecord, EventSource},
    stream::{EventStream, Lagged, StreamItem},
};
use crate::{
    artifact::ArtifactMeta,
    clock::{Clock, RuntimeClock},
    layers::CacheStatus,
    policy::Explanation,
    redact::Redactor,
    schema::Repair,
    turn::BatchSlot,
    watch::caught,
};

/// Something that happened.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A turn began, with this many tools.
    TurnStarted {
        /// The run.
        run: RunId,
        /// Which turn of the run, from 1.
        cycle: u32,
        /// How many tools it offers.
        tools: usize,
    },
    /// Something is not as it should be: a source that could not be asked, a rule that could not be
    /// kept.
    Problem {
        /// The run.
        run: RunId,
        /// What went wrong.
        message: String,
    },
    /// A call was taken in and has its place.
    Planned {
        /// The call.
        call: CallId,
        /// The name the model wrote.
        requested_name: ToolName,
        /// Its place in the plan.
        place: BatchSlot,
    },
    /// A call begins its walk.
    Started {
        /// The call.
        call: CallId,
        /// The name the model wrote.
        requested_name: ToolName,
        /// The tool it means.
        tool_name: ToolName,
        /// The frozen arguments, without secrets; nothing when they could not be admitted.
        arguments: Option<Arc<Value>>,
        /// How it may run concurrently; nothing when it could not be admitted.
        class: Option<ConcurrencyClass>,
    },
    /// The arguments were changed so that they could be read or fit; told right after the start.
    Repaired {
        /// The call.
        call: CallId,
        /// What was changed.
        repairs: Arc<[Repair]>,
    },
    /// A hook could not look, and things went on all the same, because it was set up so.
    HookFailedOpen {
        /// The run.
        run: RunId,
        /// The call; nothing for a hook around a turn.
        call: Option<CallId>,
        /// The hook.
        hook: String,
        /// Why it could not look.
        why: String,
    },
    /// Somebody is being asked about a call.
    Asked {
        /// The call.
        call: CallId,
        /// Why.
        verdict: Verdict,
        /// The same in full.
        explanation: Arc<Explanation>,
    },
    /// Somebody answered. What comes of it is told next.
    Answered {
        /// The call.
        call: CallId,
        /// Who answered.
        by: Arc<str>,
        /// The answer in a word or two: `allow`, `allow for the session`, `edit`, `deny`, ….
        answer: &'static str,
        /// What they said besides.
        comment: Option<String>,
        /// How long the call stood in line and the question was open.
        #[serde(rename = "waited_us", serialize_with = "micros")]
        waited: Duration,
    },
    /// A rule changed the arguments; the call is judged again.
    Rewritten {
        /// The call.
        call: CallId,
        /// The arguments it has now, without secrets.
        arguments: Arc<Value>,
    },
    /// A call may run.
    Permitted {
        /// The call.
        call: CallId,
        /// Who allowed it, and why.
        verdict: Verdict,
    },
    /// A judge refused a call.
    Refused {
        /// The call.
        call: CallId,
        /// Who refused it, and why.
        verdict: Verdict,
        /// The same in full.
        explanation: Arc<Explanation>,
    },
    /// The call has left a phase of its walk. Told only where nothing else marks the end of it.
    PhaseFinished {
        /// The call.
        call: CallId,
        /// The phase.
        phase: Phase,
    },
    /// The body begins, for the first time. A call that is answered from the cache has none.
    Running {
        /// The call.
        call: CallId,
    },
    /// A call has waited between its permission and its end. Waiting is not working.
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
        /// How long it waits before.
        #[serde(rename = "wait_us", serialize_with = "micros")]
        wait: Duration,
    },
    /// The cache was asked for the answer of a call.
    Cached {
        /// The call.
        call: CallId,
        /// What it had to do with it.
        how: CacheStatus,
    },
    /// A tool failed so often that it is left alone for a while.
    CircuitOpened {
        /// The tool, by the name it is registered by.
        tool: ToolName,
        /// How many failures it took.
        failures: u32,
        /// For how long.
        #[serde(rename = "cooldown_us", serialize_with = "micros")]
        cooldown: Duration,
    },
    /// An attempt at the body has ended. A call that is tried again has several of these.
    AttemptFinished {
        /// The call.
        call: CallId,
        /// The tool.
        tool_name: ToolName,
        /// Which attempt, from 1.
        attempt: u32,
        /// The failure's code; nothing for a success.
        failed: Option<FailureCode>,
        /// How long the body had it; no waiting is in this.
        #[serde(rename = "took_us", serialize_with = "micros")]
        took: Duration,
    },
    /// The body tells something.
    Progress {
        /// The call.
        call: CallId,
        /// What it tells.
        note: Progress,
    },
    /// A result, or a part of it, was too large to show and is kept aside.
    ResultOffloaded {
        /// The call.
        call: CallId,
        /// What is known about what is kept: its id, its size, when it is gone.
        facts: Arc<ArtifactMeta>,
        /// How many characters of it are shown.
        shown: usize,
    },
    /// The call has its answer. Exactly one per call, always the last.
    Finished {
        /// The call.
        call: CallId,
        /// The tool it meant.
        tool_name: ToolName,
        /// The failure's code; nothing for a success.
        failed: Option<FailureCode>,
        /// What is behind the failure, for the operator alone.
        cause: Option<String>,
        /// Whether the body ran.
        execution: Execution,
        /// How long the whole walk took.
        #[serde(rename = "elapsed_us", serialize_with = "micros")]
        elapsed: Duration,
    },
    /// A call is answered with a ticket; its work goes on.
    Deferred {
        /// The call.
        call: CallId,
        /// The ticket.
        ticket: Arc<str>,
        /// The tool.
        tool: ToolName,
        /// What the work is about, in its own words.
        summary: String,
    },
    /// Late work has ended, and its result waits to be heard of.
    TaskFinished {
        /// The late work, as part of its call.
        call: CallId,
        /// The ticket.
        ticket: Arc<str>,
        /// The failure's code; nothing for a success.
        failed: Option<FailureCode>,
        /// Whether its end was observed.
        execution: Execution,
        /// How long the work took.
        #[serde(rename = "elapsed_us", serialize_with = "micros")]
        elapsed: Duration,
    },
    /// A result that came later is let go of: nobody asked for it in time, or its run is over.
    Expired {
        /// The late work, as part of its call.
        call: CallId,
        /// The ticket.
        ticket: Arc<str>,
    },
    /// Most of something that the run may use is used. Told once for each kind.
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
    /// All calls of the turn have their answers.
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
    /// Its place: a seat in the turn, the floor, its keys, a slot of its tool.
    Place,
    /// Its rate.
    Rate,
    /// The time between two attempts.
    Backoff,
    /// The answer that an equal call is making.
    Flight,
}

impl WaitReason {
    /// Returns its word, as it is written in events and spans.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Place => "place",
            Self::Rate => "rate",
            Self::Backoff => "backoff",
            Self::Flight => "flight",
        }
    }
}

/// A part of a call's walk that no other event marks the end of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Phase {
    /// The tool's own check.
    Check,
    /// The hooks before the call.
    Before,
    /// The wait for the end of the model's message.
    Message,
    /// The wait for a place on the floor.
    Gate,
    /// The hooks after the body.
    After,
    /// Making the outcome fit to be shown.
    Shape,
}

impl Event {
    /// Returns whether this is the last event of a call.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Finished { .. })
    }

    /// Returns whether this is something a body told on the way, of which there may be many.
    #[must_use]
    pub fn is_note(&self) -> bool {
        matches!(self, Self::Progress { .. })
    }
}

/// Writes a time as whole microseconds. All times in events and records are written so.
pub(crate) fn micros<S: serde::Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

/// Receives events. It is called in place, so it should only take note and return.
pub trait Observer: Send + Sync + 'static {
    /// Takes note of something that happened.
    fn observe(&self, event: &Event);

    /// Takes note of something that happened, and of when and whose it was. Calls run side by side,
    /// so events may come in another order than they have numbers.
    fn observe_at(&self, _at: &EventMeta, event: &Event) {
        self.observe(event);
    }
}

impl<F: Fn(&Event) + Send + Sync + 'static> Observer for F {
    fn observe(&self, event: &Event) {
        self(event);
    }
}

/// All observers of a runtime, and all readers of its stream.
pub(crate) struct Events {
    observers: Vec<Box<dyn Observer>>,
    clock: Arc<dyn Clock>,
    redactor: Redactor,
    hub: Arc<Hub>,
}

impl Events {
    pub(crate) fn new(
        observers: Vec<Box<dyn Observer>>,
        clock: Arc<dyn Clock>,
        redactor: Redactor,
    ) -> Self {
        Self { observers, clock, redactor, hub: Arc::default() }
    }

    /// Returns whether anybody listens.
    pub(crate) fn is_heard(&self) -> bool {
        !self.observers.is_empty() || self.hub.is_read()
    }

    /// Opens a stream that keeps at most so many events.
    pub(crate) fn stream(&self, capacity: usize) -> EventStream {
        self.hub.open(capacity)
    }

    /// Tells an event, without secrets; it is not even made when nobody listens.
    pub(crate) fn tell(
        &self,
        who: impl FnOnce() -> Arc<EventSource>,
        event: impl FnOnce() -> Event,
    ) {
        if self.is_heard() {
            self.pass_on(who(), event());
        }
    }

    fn pass_on(&self, who: Arc<EventSource>, mut event: Event) {
        self.redactor.event(&mut event);
        // Shared only where somebody keeps it.
        match self.hub.pass_on(&*self.clock, who, event) {
            Numbered::Kept(told) => self.show(&told.at, &told.event),
            Numbered::Alone(at, event) => self.show(&at, &event),
        }
    }

    fn show(&self, at: &EventMeta, event: &Event) {
        for observer in &self.observers {
            let _ = caught(|| observer.observe_at(at, event));
        }
    }
}

impl Default for Events {
    fn default() -> Self {
        Self::new(Vec::new(), Arc::new(RuntimeClock), Redactor::default())
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("observers", &self.observers.len()).finish_non_exhaustive()
    }
}

impl Drop for Events {
    /// Whoever still reads hears what is left, and then the end.
    fn drop(&mut self) {
        self.hub.close();
    }
}
