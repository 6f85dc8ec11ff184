//! Work that goes on after its call has been answered.

use std::{any::Any, fmt};

use crate::{BoxFuture, Failure, Output, ToolContext};

type Work = Box<dyn FnOnce(ToolContext) -> BoxFuture<'static, Result<Output, Failure>> + Send>;

/// What a host gives for work that goes on after its answer. For hosts.
pub struct TaskSlot {
    /// The answer in the meantime.
    pub ticket: Output,
    /// What keeps the work's place until it begins; dropping it gives the place back.
    pub place: Box<dyn Any + Send>,
}

impl fmt::Debug for TaskSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskSlot").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

/// Work that a body has put off, and the place that its host keeps for it. For hosts.
pub struct BackgroundTask {
    place: Box<dyn Any + Send>,
    work: Work,
}

impl BackgroundTask {
    pub(crate) fn new(
        place: Box<dyn Any + Send>,
        work: impl FnOnce(ToolContext) -> BoxFuture<'static, Result<Output, Failure>> + Send + 'static,
    ) -> Self {
        Self { place, work: Box::new(work) }
    }

    /// Returns the place that the host keeps, and what is to be done under a context of its own.
    #[must_use]
    pub fn into_parts(self) -> (Box<dyn Any + Send>, Work) {
        (self.place, self.work)
    }
}

impl fmt::Debug for BackgroundTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Later")
    }
}
