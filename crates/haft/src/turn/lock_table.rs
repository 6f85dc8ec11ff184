//! The scheduler lock: which calls may run at the same time.
//!
//! It knows the profiles of all running calls and blocks calls that conflict with them. Waiters are
//! served in FIFO order, except that a waiter without a conflict with earlier ones need not wait
//! for them. One lock per run separates concurrency classes; one per runtime separates resource
//! keys.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
};

use haft_core::{CallProfile, ConcurrencyClass, ToolName, sync::lock};
use tokio::sync::oneshot;

/// The locks of running calls. Its mutex is held for a scan of a short list, never across a wait.
#[derive(Default)]
pub(crate) struct LockTable(Mutex<State>);

#[derive(Default)]
struct State {
    next: u64,
    here: Vec<Holder>,
    queue: VecDeque<(Holder, oneshot::Sender<()>)>,
}

struct Holder {
    ticket: u64,
    profile: CallProfile,
    tool: ToolName,
    abandoned: bool,
}

/// A lock, or a place in the queue for it. Dropping it releases it.
pub(crate) struct LockGuard {
    table: Arc<LockTable>,
    ticket: u64,
}

/// The answer to a request for a lock.
pub(crate) enum LockRequest {
    /// The call has the lock.
    Acquired(LockGuard),
    /// It waits for the signal; dropping the guard leaves the queue.
    Wait(LockGuard, oneshot::Receiver<()>),
    /// An abandoned body of this tool still runs, and may never end.
    Abandoned(ToolName),
}

impl LockTable {
    /// Requests the lock of a call.
    pub(crate) fn request(self: &Arc<Self>, profile: &CallProfile, tool: &ToolName) -> LockRequest {
        let mut state = self.lock();
        if profile.class != ConcurrencyClass::ReadOnly
            && let Some(left) =
                state.here.iter().find(|s| s.abandoned && !s.profile.may_share(profile))
        {
            return LockRequest::Abandoned(left.tool.clone());
        }
        let ticket = state.next;
        state.next += 1;
        let holder =
            Holder { ticket, profile: profile.clone(), tool: tool.clone(), abandoned: false };
        let free = state.free_for(&holder.profile, state.queue.len());
        let guard = LockGuard { table: Arc::clone(self), ticket };
        if free {
            state.here.push(holder);
            return LockRequest::Acquired(guard);
        }
        let (send, receive) = oneshot::channel();
        state.queue.push_back((holder, send));
        LockRequest::Wait(guard, receive)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

impl State {
    /// Whether a call conflicts with no running call and with none of the first `ahead` waiters.
    fn free_for(&self, profile: &CallProfile, ahead: usize) -> bool {
        // A reader does not wait for an abandoned body; the record reports it.
        let lets = |s: &Holder| {
            s.profile.may_share(profile)
                || (s.abandoned && profile.class == ConcurrencyClass::ReadOnly)
        };
        self.here.iter().all(lets)
            && self.queue.iter().take(ahead).all(|(s, _)| s.profile.may_share(profile))
    }

    /// Gives the lock to every waiter that may have it now, in order.
    fn admit(&mut self) {
        let mut at = 0;
        while at < self.queue.len() {
            if self.free_for(&self.queue[at].0.profile, at) {
                let Some((holder, signal)) = self.queue.remove(at) else { return };
                // If the receiver is gone, the guard is being dropped too.
                if signal.send(()).is_ok() {
                    self.here.push(holder);
                }
            } else {
                at += 1;
            }
        }
    }
}

impl LockGuard {
    /// Marks the lock as held by a body that no call waits for any more.
    pub(crate) fn abandon(&self) {
        let mut state = self.table.lock();
        if let Some(holder) = state.here.iter_mut().find(|s| s.ticket == self.ticket) {
            holder.abandoned = true;
        }
        // Calls that wait for it must not wait forever: they request again, and get the reason.
        let waiting = std::mem::take(&mut state.queue);
        for (holder, signal) in waiting {
            let writes = holder.profile.class != ConcurrencyClass::ReadOnly;
            let meets = |s: &Holder| s.abandoned && !s.profile.may_share(&holder.profile);
            if writes && state.here.iter().any(meets) {
                drop(signal);
            } else {
                state.queue.push_back((holder, signal));
            }
        }
        state.admit();
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        let mut state = self.table.lock();
        match state.here.iter().position(|s| s.ticket == self.ticket) {
            Some(at) => drop(state.here.swap_remove(at)),
            None => state.queue.retain(|(s, _)| s.ticket != self.ticket),
        }
        state.admit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(class: ConcurrencyClass) -> CallProfile {
        CallProfile { class, ..CallProfile::strictest() }
    }

    fn request(table: &Arc<LockTable>, class: ConcurrencyClass) -> LockRequest {
        table.request(&profile(class), &"t".into())
    }

    #[test]
    fn readers_share_and_a_writer_waits_for_all_of_them() {
        let table = Arc::default();
        let LockRequest::Acquired(one) = request(&table, ConcurrencyClass::ReadOnly) else {
            panic!()
        };
        let LockRequest::Acquired(two) = request(&table, ConcurrencyClass::ReadOnly) else {
            panic!()
        };
        let LockRequest::Wait(writer, mut signal) =
            request(&table, ConcurrencyClass::WriteExclusive)
        else {
            panic!()
        };
        // A reader behind a waiting writer waits too, so writers are not starved.
        let LockRequest::Wait(late, mut later) = request(&table, ConcurrencyClass::ReadOnly) else {
            panic!()
        };
        drop(one);
        assert!(signal.try_recv().is_err());
        drop(two);
        assert!(signal.try_recv().is_ok());
        assert!(later.try_recv().is_err());
        drop(writer);
        assert!(later.try_recv().is_ok());
        drop(late);
        assert!(table.lock().here.is_empty() && table.lock().queue.is_empty());
    }

    #[test]
    fn leaving_the_queue_lets_the_next_one_in() {
        let table = Arc::default();
        let LockRequest::Acquired(_one) = request(&table, ConcurrencyClass::ReadOnly) else {
            panic!()
        };
        let LockRequest::Wait(writer, signal) = request(&table, ConcurrencyClass::WriteExclusive)
        else {
            panic!()
        };
        let LockRequest::Wait(_late, mut later) = request(&table, ConcurrencyClass::ReadOnly)
        else {
            panic!()
        };
        drop((writer, signal));
        assert!(later.try_recv().is_ok());
    }

    #[test]
    fn an_abandoned_writer_blocks_writers_and_lets_readers_pass() {
        let table = Arc::default();
        let LockRequest::Acquired(stuck) = request(&table, ConcurrencyClass::WriteExclusive) else {
            panic!()
        };
        let LockRequest::Wait(_w, mut waiting) = request(&table, ConcurrencyClass::WriteExclusive)
        else {
            panic!()
        };
        stuck.abandon();
        assert!(matches!(waiting.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
        assert!(matches!(request(&table, ConcurrencyClass::Unsafe), LockRequest::Abandoned(_)));
        assert!(matches!(request(&table, ConcurrencyClass::ReadOnly), LockRequest::Acquired(_)));
        drop(stuck);
        assert!(matches!(request(&table, ConcurrencyClass::Unsafe), LockRequest::Acquired(_)));
    }
}
