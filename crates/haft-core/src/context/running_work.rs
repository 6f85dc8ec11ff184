//! Work that may outlive the body of its call: a blocking job, a child process, a nested call.
//!
//! INVARIANT: what the call has locked stays locked until the last of its work has ended.
//! INVARIANT: no work starts after the call has its result.

use std::{
    any::Any,
    fmt,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use super::ToolContext;
use crate::sync::lock;

/// Counts the running work of a call, and holds its resources until that work has ended. Most calls
/// have no such work; they pay for one atomic operation.
#[derive(Default)]
pub(super) struct Lease {
    /// How much work runs, and `ENDED`.
    state: AtomicU32,
    kept: Mutex<Vec<Box<dyn Any + Send>>>,
}

/// The call has its result. No new work may start under it.
const ENDED: u32 = 1 << 31;

impl Lease {
    /// Counts work, unless the call has ended.
    pub(super) fn begin(&self) -> bool {
        let count = |state| (state & ENDED == 0).then_some(state + 1);
        self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count).is_ok()
    }

    /// Ends the call. Returns whether some of its work still runs.
    pub(super) fn end(&self) -> bool {
        self.state.fetch_or(ENDED, Ordering::SeqCst) & !ENDED > 0
    }

    /// Holds resources until the last work has ended, which may be now.
    pub(super) fn keep(&self, held: Box<dyn Any + Send>) {
        lock(&self.kept).push(held);
        // The work may have ended before the resources were stored.
        if !self.is_running() {
            self.release();
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.state.load(Ordering::SeqCst) & !ENDED > 0
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state.load(Ordering::SeqCst) & ENDED > 0
    }

    fn release(&self) {
        let kept = std::mem::take(&mut *lock(&self.kept));
        drop(kept);
    }
}

/// Work of a call that may outlive its body: a blocking job or a nested call. While it lives, the
/// resources of the call stay locked.
pub struct RunningWork(pub(super) ToolContext);

impl Drop for RunningWork {
    fn drop(&mut self) {
        let lease = &self.0.call_state().lease;
        // Resources are kept only after the call has ended.
        if lease.state.fetch_sub(1, Ordering::SeqCst) == ENDED | 1 {
            lease.release();
        }
    }
}

impl fmt::Debug for RunningWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunningWork")
    }
}
