//! Work that may outlive the body of its call: a blocking job, a child process, a nested call.
//!
//! INVARIANT: what the call has locked stays locked until the last of its work has ended.

use std::{
    any::Any,
    fmt,
    sync::{MutexGuard, PoisonError},
};

use super::ToolContext;

/// Counts the running work of a call, and holds its resources until that work has ended.
#[derive(Default)]
pub(super) struct Lease {
    pub(super) running: usize,
    pub(super) kept: Vec<Box<dyn Any + Send>>,
    /// The call has its result. No new work may start under it.
    pub(super) ended: bool,
}

/// Work of a call that may outlive its body: a blocking job or a nested call. While it lives, the
/// resources of the call stay locked.
pub struct RunningWork(pub(super) ToolContext);

impl Drop for RunningWork {
    fn drop(&mut self) {
        let mut lease = self.0.lease();
        lease.running -= 1;
        let kept = if lease.running == 0 { std::mem::take(&mut lease.kept) } else { Vec::new() };
        drop(lease);
        drop(kept);
    }
}

impl fmt::Debug for RunningWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunningWork")
    }
}

impl ToolContext {
    pub(super) fn lease(&self) -> MutexGuard<'_, Lease> {
        self.call_state().lease.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
