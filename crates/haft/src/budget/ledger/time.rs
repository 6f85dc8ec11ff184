//! The time limit of a run, and the time that does not count.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use haft_core::{Failure, RunId};

use super::{Ledger, exhausted, seconds};

impl Ledger {
    /// Returns the deadline of this run or of a parent, whichever is earlier.
    pub(crate) fn until(&self) -> Option<Instant> {
        let own = self.until.map(|until| crate::host_code::after(until, self.idle()));
        own.into_iter().chain(self.over.as_ref().and_then(|over| over.until())).min()
    }

    /// Adds time of a run that does not count, such as the wait for the next message of the user.
    /// The deadline of a parent does not move.
    pub(crate) fn add_idle(&self, run: &RunId, time: Duration) {
        if self.source.run != *run {
            return; // a run without limits has its parent's ledger
        }
        let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.idle_micros.fetch_add(time, Ordering::Relaxed);
    }

    pub(super) fn idle(&self) -> Duration {
        Duration::from_micros(self.idle_micros.load(Ordering::Relaxed))
    }

    /// Checks the deadline.
    ///
    /// # Errors
    /// Fails when the deadline has passed.
    pub(crate) fn has_time(&self) -> Result<(), Failure> {
        match self.until() {
            Some(until) if self.clock.now() >= until => Err(exhausted(match self.budget.wall {
                Some(wall) => format!("the time limit of this run, {}, has passed", seconds(wall)),
                None => "the time limit of this run has passed".to_owned(),
            })),
            _ => Ok(()),
        }
    }
}
