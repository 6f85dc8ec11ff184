//! Metadata of an event: sequence number, time, run and agent.
//!
//! Sequence numbers are per runtime and have no gaps. The data about the run is shared, so that
//! stamping an event costs one counter.

use std::{
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use haft_core::{RunId, Scope};
use serde::{Serialize, ser::SerializeStruct as _};

use super::Event;
use crate::clock::Anchor;

/// The run, turn and agent that an event belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct EventSource {
    /// The run.
    pub run: RunId,
    /// Which turn of it, from 1; 0 for events outside of a turn.
    pub cycle: u32,
    /// The agents, outermost first; the calling agent is the last.
    pub agent_path: Arc<[String]>,
}

impl EventSource {
    pub(crate) fn of(scope: &Scope) -> Arc<Self> {
        Arc::new(Self::in_turn(scope, scope.cycle))
    }

    /// The same run, outside of a turn.
    pub(crate) fn run_of(scope: &Scope) -> Arc<Self> {
        Arc::new(Self::in_turn(scope, 0))
    }

    fn in_turn(scope: &Scope, cycle: u32) -> Self {
        let agent_path = Arc::clone(&scope.agent_path);
        Self { run: scope.run.clone(), cycle, agent_path }
    }
}

/// When an event happened, and which run it belongs to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EventMeta {
    /// Its sequence number in the runtime, from 1, without gaps.
    pub seq: u64,
    /// The monotonic time, on the runtime's clock.
    pub time: Instant,
    /// Converts the time to wall-clock time.
    pub(super) anchor: Anchor,
    /// The run, turn and agent. Shared, because every event has it.
    pub source: Arc<EventSource>,
}

impl EventMeta {
    /// Returns the run.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.source.run
    }

    /// Returns the wall-clock time.
    #[must_use]
    pub fn wall(&self) -> SystemTime {
        self.anchor.date_of(self.time)
    }

    /// Returns the wall-clock time as microseconds since the Unix epoch.
    #[must_use]
    pub fn unix_micros(&self) -> u64 {
        let since = self.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }
}

impl Serialize for EventMeta {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut out = to.serialize_struct("At", 5)?;
        out.serialize_field("seq", &self.seq)?;
        out.serialize_field("unix_us", &self.unix_micros())?;
        out.serialize_field("run", &self.source.run)?;
        out.serialize_field("cycle", &self.source.cycle)?;
        if self.source.agent_path.is_empty() {
            out.skip_field("agent_path")?
        } else {
            out.serialize_field("agent_path", &self.source.agent_path)?
        }
        out.end()
    }
}

/// An event and its metadata.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct EventRecord {
    /// When it happened, and which run it belongs to.
    pub at: EventMeta,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}
