//! What the agent loop needs to know about a runtime.

use std::{sync::Arc, time::Instant};

use super::{Run, Runtime};

impl Runtime {
    /// Returns the runtime that a run belongs to.
    pub(crate) fn of(run: &Run) -> Self {
        Self(Arc::clone(run.services()))
    }

    /// Returns the monotonic time of its clock.
    pub(crate) fn now(&self) -> Instant {
        self.0.clock.now()
    }
}
