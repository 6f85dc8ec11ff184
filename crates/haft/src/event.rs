//! What observers receive: one closed enum, and exactly one terminal event per call.
//!
//! Events are facts that already happened. An observer cannot change or fail a call; one that
//! panics is left out for that event.

use std::{sync::Arc, time::Duration};

use haft_core::{CallId, Class, Code, Note, Ran, RunId, ToolName, Verdict};
use serde_json::Value;

use crate::{artifact::Facts, fit::Repair, policy::Explanation, turn::Place, watch::caught};

/// Something that happened.
#[derive(Debug, Clone)]
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
        called: ToolName,
        /// Its place in the plan.
        place: Place,
    },
    /// A call begins its walk.
    Started {
        /// The call.
        call: CallId,
        /// The name the model wrote.
        called: ToolName,
        /// The tool it means.
        meant: ToolName,
        /// The frozen arguments; nothing when they could not be admitted.
        arguments: Option<Arc<Value>>,
        /// How it shares the floor; nothing when it could not be admitted.
        class: Option<Class>,
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
    },
    /// A rule changed the arguments; the call is judged again.
    Rewritten {
        /// The call.
        call: CallId,
        /// The arguments it has now.
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
    /// The body begins.
    Running {
        /// The call.
        call: CallId,
    },
    /// The body tells something.
    Noted {
        /// The call.
        call: CallId,
        /// What it tells.
        note: Note,
    },
    /// A result, or a part of it, was too large to show and is kept aside.
    KeptAside {
        /// The call.
        call: CallId,
        /// What is known about what is kept: its id, its size, when it is gone.
        facts: Arc<Facts>,
        /// How many characters of it are shown.
        shown: usize,
    },
    /// The call has its answer. Exactly one per call, always the last.
    Finished {
        /// The call.
        call: CallId,
        /// The tool it meant.
        meant: ToolName,
        /// The failure's code; nothing for a success.
        failed: Option<Code>,
        /// What is behind the failure, for the operator alone.
        cause: Option<String>,
        /// Whether the body ran.
        ran: Ran,
        /// How long the whole walk took.
        elapsed: Duration,
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

impl Event {
    /// Returns whether this is the last event of a call.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Finished { .. })
    }
}

/// Receives events. It is called in place, so it should only take note and return.
pub trait Observer: Send + Sync + 'static {
    /// Takes note of something that happened.
    fn observe(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync + 'static> Observer for F {
    fn observe(&self, event: &Event) {
        self(event);
    }
}

/// All observers of a runtime.
#[derive(Default)]
pub(crate) struct Events(Vec<Box<dyn Observer>>);

impl Events {
    pub(crate) fn new(observers: Vec<Box<dyn Observer>>) -> Self {
        Self(observers)
    }

    /// Tells an event; it is not even made when nobody listens.
    pub(crate) fn tell(&self, event: impl FnOnce() -> Event) {
        if self.0.is_empty() {
            return;
        }
        let event = event();
        for observer in &self.0 {
            let _ = caught(|| observer.observe(&event));
        }
    }
}
