//! What lies between one middleware and the rest of the way: whether the rest was begun, how it
//! ended, what was left behind, and whose time it is.
//!
//! The rest of the way never ends by being dropped. A middleware that stops waiting for it leaves it
//! here, told to stop, and whoever stands around the middleware takes it to its end.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use haft_core::{Block, BoxFuture, Code, Ran};

use super::{Outcome, Work};

/// Between one middleware and the rest.
pub(super) struct Frame<'a>(Mutex<State<'a>>);

struct State<'a> {
    passed: Passed,
    left: Option<BoxFuture<'a, Outcome>>,
    /// Since when the middleware's own time runs; nothing while the rest is under way.
    outside_since: Option<Instant>,
    /// What it has used of its own time before that.
    used: Duration,
}

/// What came back from the rest of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    /// It was never begun, or has not ended.
    Nothing,
    /// An output, known by where it stands in memory: comparing texts would cost as much as they are
    /// long.
    Output(usize),
    /// A failure.
    Failure(Code, Ran),
}

impl Passed {
    /// Takes note of an outcome.
    pub(super) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Ok(output) => {
                let mark = |block: &Block| match block {
                    Block::Text { text } => text.as_ptr() as usize ^ text.len().rotate_left(32),
                    other => std::ptr::from_ref(other) as usize,
                };
                let blocks = output.blocks.iter().map(mark);
                let start = output.blocks.as_ptr() as usize ^ output.blocks.len();
                let data = usize::from(output.structured.is_some());
                Self::Output(blocks.fold(start ^ data, |all, one| all.rotate_left(7) ^ one))
            }
            Err(failure) => Self::Failure(failure.code(), failure.ran()),
        }
    }

    /// Returns whether an outcome is what came back, as far as can be told.
    pub(super) fn is(self, outcome: &Outcome) -> bool {
        self == Self::of(outcome)
    }
}

impl<'a> Frame<'a> {
    pub(super) fn new(now: Instant) -> Self {
        Self(Mutex::new(State {
            passed: Passed::Nothing,
            left: None,
            outside_since: Some(now),
            used: Duration::ZERO,
        }))
    }

    /// Returns what came back.
    pub(super) fn passed(&self) -> Passed {
        self.lock().passed
    }

    /// Takes note of what came back.
    pub(super) fn pass(&self, passed: Passed) {
        self.lock().passed = passed;
    }

    /// Gives out what the middleware left behind unfinished.
    pub(super) fn take_left(&self) -> Option<BoxFuture<'a, Outcome>> {
        self.lock().left.take()
    }

    /// Returns when the middleware has used up so much time of its own; nothing while the rest of
    /// the way is under way.
    pub(super) fn ends_at(&self, limit: Duration) -> Option<Instant> {
        let state = self.lock();
        let since = state.outside_since?;
        Some(crate::watch::after(since, limit.saturating_sub(state.used)))
    }

    /// Returns since when the middleware's own time runs.
    pub(super) fn outside_since(&self) -> Option<Instant> {
        self.lock().outside_since
    }

    fn enter(&self, now: Instant) {
        let mut state = self.lock();
        if let Some(since) = state.outside_since.take() {
            state.used = state.used.saturating_add(now.saturating_duration_since(since));
        }
    }

    fn leave(&self, now: Instant) {
        self.lock().outside_since = Some(now);
    }

    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rest of the way, under way.
pub(super) struct Going<'a> {
    way: Option<BoxFuture<'a, Outcome>>,
    begun: bool,
    frame: Arc<Frame<'a>>,
    work: &'a Work<'a>,
}

impl<'a> Going<'a> {
    pub(super) fn new(
        way: BoxFuture<'a, Outcome>,
        frame: Arc<Frame<'a>>,
        work: &'a Work<'a>,
    ) -> Self {
        Self { way: Some(way), begun: false, frame, work }
    }

    fn now(&self) -> Instant {
        self.work.turn.inner.clock.now()
    }
}

impl Future for Going<'_> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Outcome> {
        if !self.begun {
            self.begun = true;
            self.frame.enter(self.now());
        }
        let Some(way) = &mut self.way else { return Poll::Pending };
        let Poll::Ready(outcome) = way.as_mut().poll(task) else { return Poll::Pending };
        self.way = None;
        self.frame.pass(Passed::of(&outcome));
        self.frame.leave(self.now());
        Poll::Ready(outcome)
    }
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        let Some(way) = self.way.take().filter(|_| self.begun) else { return };
        let why = "code of the host around the tool no longer waited for it";
        self.work.turn.stop_body(self.work.cx, Code::Cancelled, why);
        self.frame.leave(self.now());
        self.frame.lock().left = Some(way);
    }
}
