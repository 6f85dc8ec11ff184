//! Background tasks: work that continues after its call has returned a result.

use std::{any::Any, fmt};

use super::ToolContext;
use crate::{BoxFuture, Failure, Output};

type Work = Box<dyn FnOnce(ToolContext) -> BoxFuture<'static, Result<Output, Failure>> + Send>;

/// A reserved slot for a background task.
pub struct TaskSlot {
    /// The interim result that the model receives.
    pub task: Output,
    /// The reservation until the task starts. Dropping it releases the slot.
    pub reservation: Box<dyn Any + Send>,
}

impl fmt::Debug for TaskSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskSlot").field("task", &self.task).finish_non_exhaustive()
    }
}

/// Work that a body has deferred, and the slot that the host reserved for it.
pub struct BackgroundTask {
    reservation: Box<dyn Any + Send>,
    work: Work,
}

impl BackgroundTask {
    pub(crate) fn new(
        reservation: Box<dyn Any + Send>,
        work: impl FnOnce(ToolContext) -> BoxFuture<'static, Result<Output, Failure>> + Send + 'static,
    ) -> Self {
        Self { reservation, work: Box::new(work) }
    }

    /// Returns the reservation and the work, which runs under its own context.
    #[must_use]
    pub fn into_parts(self) -> (Box<dyn Any + Send>, Work) {
        (self.reservation, self.work)
    }
}

impl fmt::Debug for BackgroundTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BackgroundTask")
    }
}
