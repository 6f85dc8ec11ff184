//! When something happened, and whose it was.
//!
//! The number is the runtime's own and has no gaps. The moment is for spans, the date for people.
//! What is said of the run is shared, so that a stamp costs one counter.

use std::{
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use haft_core::{RunId, Scope};
use serde::{Serialize, ser::SerializeStruct as _};

use super::Event;
use crate::clock::Anchor;

/// Whose event it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct EventSource {
    /// The run.
    pub run: RunId,
    /// Which turn of it, from 1; 0 for what belongs to no turn.
    pub cycle: u32,
    /// The agents, outermost first, the one that asks last.
    pub agent_path: Arc<[String]>,
}

impl EventSource {
    pub(crate) fn of(scope: &Scope) -> Arc<Self> {
        Arc::new(Self::in_turn(scope, scope.cycle))
    }

    /// The same run, in no turn.
    pub(crate) fn run_of(scope: &Scope) -> Arc<Self> {
        Arc::new(Self::in_turn(scope, 0))
    }

    fn in_turn(scope: &Scope, cycle: u32) -> Self {
        let agent_path = Arc::clone(&scope.agent_path);
        Self { run: scope.run.clone(), cycle, agent_path }
    }
}

/// When something happened, and whose it was.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EventMeta {
    /// Its place among all events of the runtime, from 1, without gaps.
    pub seq: u64,
    /// The moment, on the runtime's clock.
    pub time: Instant,
    /// What its date is told by.
    pub(super) anchor: Anchor,
    /// Whose it is. Shared, because every event says it.
    pub who: Arc<EventSource>,
}

impl EventMeta {
    /// Returns the run.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.who.run
    }

    /// Returns the date.
    #[must_use]
    pub fn wall(&self) -> SystemTime {
        self.anchor.date_of(self.time)
    }

    /// Returns the date as microseconds since 1970.
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
        out.serialize_field("run", &self.who.run)?;
        out.serialize_field("cycle", &self.who.cycle)?;
        match self.who.agent_path.is_empty() {
            true => out.skip_field("agent_path")?,
            false => out.serialize_field("agent_path", &self.who.agent_path)?,
        }
        out.end()
    }
}

/// An event and its stamp.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct EventRecord {
    /// When it happened, and whose it was.
    pub at: EventMeta,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}
