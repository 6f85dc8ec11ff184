//! Work that may outlive the body of its call: a blocking job, a child process, a nested call.
//!
//! INVARIANT: what the call has locked stays locked until the last of its work has ended.
//! INVARIANT: no work starts after the call has its result.

use std::{
    any::Any,
    fmt,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering, fence},
    },
};

use super::ToolContext;
use crate::sync::lock;

/// Counts the running work of a call. Most calls have no such work; they pay for one atomic
/// operation.
#[derive(Default)]
pub(super) struct Lease {
    /// How much work runs, and `ENDED`.
    state: AtomicU32,
}

/// Resources of a call that are held until its work has ended.
#[derive(Default)]
pub(super) struct KeptResources(Mutex<Vec<Box<dyn Any + Send>>>);

impl KeptResources {
    /// Holds resources until the last work has ended, which may be now.
    pub(super) fn keep(&self, held: Box<dyn Any + Send>, lease: &Lease) {
        lock(&self.0).push(held);
        // The work may have ended before the resources were stored. It ends and then looks here; we
        // store and then look at its state. With both fences, at least one side sees the other.
        fence(Ordering::SeqCst);
        if !lease.is_running() {
            self.release();
        }
    }

    fn release(&self) {
        let kept = std::mem::take(&mut *lock(&self.0));
        drop(kept);
    }
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

    pub(super) fn is_running(&self) -> bool {
        self.state.load(Ordering::SeqCst) & !ENDED > 0
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state.load(Ordering::SeqCst) & ENDED > 0
    }
}

/// Work of a call that may outlive its body: a blocking job or a nested call. While it lives, the
/// resources of the call stay locked.
pub struct RunningWork(pub(super) ToolContext);

impl Drop for RunningWork {
    fn drop(&mut self) {
        let call = self.0.call_state();
        // Resources are kept only after the call has ended. If none are kept yet, the call sees
        // that the work has ended, and keeps none.
        if call.lease.state.fetch_sub(1, Ordering::SeqCst) == ENDED | 1 {
            fence(Ordering::SeqCst);
            if let Some(rare) = call.rare.get() {
                rare.kept.release();
            }
        }
    }
}

impl fmt::Debug for RunningWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunningWork")
    }
}
