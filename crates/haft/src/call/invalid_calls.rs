//! Counts invalid calls in a row, so that a model that fails twice gets an example.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use haft_core::{ToolName, sync::lock};

/// In how many turns in a row each tool was called with invalid arguments.
#[derive(Default)]
pub(crate) struct InvalidCallCounts {
    /// Whether there are any, so that valid calls need not lock.
    any: AtomicBool,
    counts: Mutex<Vec<InvalidCalls>>,
}

struct InvalidCalls {
    tool: ToolName,
    cycle: u32,
    count: u32,
}

impl InvalidCallCounts {
    /// More tools than this are not counted; the oldest entry is dropped.
    const MAX_TOOLS: usize = 32;

    /// Counts an invalid call and returns the new count. Several in one turn count once, because
    /// the model has not seen the first error when it writes the second call.
    pub(crate) fn count(&self, tool: &ToolName, cycle: u32) -> u32 {
        let mut counts = lock(&self.counts);
        self.any.store(true, Ordering::Relaxed);
        if let Some(slip) = counts.iter_mut().find(|slip| slip.tool == *tool) {
            slip.count = slip.count.saturating_add(u32::from(slip.cycle != cycle));
            slip.cycle = cycle;
            return slip.count;
        }
        if counts.len() >= Self::MAX_TOOLS {
            counts.remove(0);
        }
        counts.push(InvalidCalls { tool: tool.clone(), cycle, count: 1 });
        1
    }

    /// Resets the count after a valid call.
    pub(crate) fn forget(&self, tool: &ToolName) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let mut counts = lock(&self.counts);
        counts.retain(|slip| slip.tool != *tool);
        self.any.store(!counts.is_empty(), Ordering::Relaxed);
    }
}
