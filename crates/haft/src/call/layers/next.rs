//! The state between one middleware and the inner layers: whether they were started, how they
//! ended, whether they were abandoned, and whose timeout runs.
//!
//! The inner layers are never just dropped. If a middleware stops waiting for them, they are
//! cancelled and left here, and the layer around the middleware awaits their end.

use std::{
    hash::{BuildHasher as _, Hash as _, Hasher as _},
    pin::Pin,
    sync::{Arc, LazyLock, Mutex, MutexGuard},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use haft_core::{Block, BoxFuture, Execution, FailureCode, Output, host::RandomState, sync::lock};
use serde_json::Value;

use super::{Outcome, Work};

/// The state between one middleware and the inner layers.
pub(super) struct Frame<'a>(Mutex<State<'a>>);

struct State<'a> {
    passed: Passed,
    left: Option<BoxFuture<'a, Outcome>>,
    /// Since when the middleware's own time runs; `None` while the inner layers run.
    outside_since: Option<Instant>,
    /// What it has used of its own time before that.
    used: Duration,
}

/// What the inner layers returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    /// They were not started, or have not ended.
    Nothing,
    /// An output, identified by a hash of its content. Its address would be cheaper to compare, but
    /// the content at an address can change.
    Output(u64),
    /// A failure.
    Failure(FailureCode, Execution),
}

impl Passed {
    /// Records an outcome.
    pub(super) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Ok(output) => Self::Output(hash_of(output)),
            Err(failure) => Self::Failure(failure.code(), failure.execution()),
        }
    }

    /// Returns whether an outcome has the same hash as the returned one.
    pub(super) fn is(self, outcome: &Outcome) -> bool {
        self == Self::of(outcome)
    }
}

/// Returns a hash of everything in an output. A collision can only come from the host's own code,
/// and only keeps its name out of the record.
fn hash_of(output: &Output) -> u64 {
    static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::default);
    let mut hash = HASHER.build_hasher();
    let mut values: Vec<&Value> = Vec::new();
    for block in &output.blocks {
        std::mem::discriminant(block).hash(&mut hash);
        match block {
            Block::Text { text } => text.hash(&mut hash),
            Block::Image { data, media_type } | Block::Audio { data, media_type } => {
                (data, media_type).hash(&mut hash);
            }
            Block::Link { uri, name, media_type } => (uri, name, media_type).hash(&mut hash),
            Block::Json { json } => values.push(json),
        }
    }
    (output.structured.is_some(), values.len()).hash(&mut hash);
    values.extend(output.structured.as_deref());
    // Not recursive: the depth of data from a tool is not limited.
    while let Some(value) = values.pop() {
        std::mem::discriminant(value).hash(&mut hash);
        match value {
            Value::Null => {}
            Value::Bool(is) => is.hash(&mut hash),
            Value::Number(number) => number.hash(&mut hash),
            Value::String(text) => text.hash(&mut hash),
            Value::Array(list) => {
                list.len().hash(&mut hash);
                values.extend(list);
            }
            Value::Object(map) => {
                map.len().hash(&mut hash);
                for (key, value) in map {
                    key.hash(&mut hash);
                    values.push(value);
                }
            }
        }
    }
    hash.finish()
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

    /// Returns what the inner layers returned.
    pub(super) fn passed(&self) -> Passed {
        self.lock().passed
    }

    /// Records what the inner layers returned.
    pub(super) fn pass(&self, passed: Passed) {
        self.lock().passed = passed;
    }

    /// Returns the inner layers if the middleware abandoned them.
    pub(super) fn take_left(&self) -> Option<BoxFuture<'a, Outcome>> {
        self.lock().left.take()
    }

    /// Returns when the middleware has used up this much time of its own; `None` while the inner
    /// layers run.
    pub(super) fn ends_at(&self, limit: Duration) -> Option<Instant> {
        let state = self.lock();
        let since = state.outside_since?;
        Some(crate::host_code::after(since, limit.saturating_sub(state.used)))
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
        lock(&self.0)
    }
}

/// The running inner layers.
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
        self.work.turn.run.inner.clock.now()
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
        let why = "a middleware stopped waiting for it";
        self.work.turn.stop_body(self.work.cx, FailureCode::Cancelled, why);
        self.frame.leave(self.now());
        self.frame.lock().left = Some(way);
    }
}
