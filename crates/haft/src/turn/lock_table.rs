//! The scheduler lock: which calls may run at the same time.
//!
//! It knows the profiles of all running calls and blocks calls that conflict with them. Waiters are
//! served in FIFO order, except that a waiter without a conflict with earlier ones need not wait
//! for them. One lock per run separates concurrency classes; one per runtime separates resource
//! keys.
//!
//! Readers without keys are only counted, in one atomic, while no other call runs or waits. The
//! first other call sets `SLOW` in the atomic; from then on all calls use the list behind the
//! mutex, until it is empty again.
//!
//! INVARIANT: a reader is counted only while `SLOW` is not set, and every call of the list was
//! added after `SLOW` was set. So a call of the list sees all counted readers.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use haft_core::{CallProfile, ConcurrencyClass, ToolName, sync::lock};
use tokio::sync::oneshot;

/// The locks of running calls. Its mutex is held for a scan of a short list, never across a wait.
#[derive(Default)]
pub(crate) struct LockTable {
    /// The number of counted readers, times `READER`, and `SLOW`.
    readers: AtomicU64,
    list: Mutex<State>,
}

const SLOW: u64 = 1;
const READER: u64 = 2;
/// The ticket of a counted reader.
const COUNTED: u64 = u64::MAX;

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
    /// The place in the list, or `COUNTED`. A counted reader that is abandoned moves to the list.
    ticket: AtomicU64,
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
        if is_plain_reader(profile) && self.count_reader() {
            return LockRequest::Acquired(self.guard(COUNTED));
        }
        self.request_in_list(profile, tool)
    }

    /// Counts a reader, unless another call is in the list.
    fn count_reader(&self) -> bool {
        let count = |readers: u64| (readers & SLOW == 0).then_some(readers + READER);
        self.readers.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count).is_ok()
    }

    fn request_in_list(self: &Arc<Self>, profile: &CallProfile, tool: &ToolName) -> LockRequest {
        let mut state = self.lock();
        let readers = self.readers.fetch_or(SLOW, Ordering::SeqCst) / READER;
        if profile.class != ConcurrencyClass::ReadOnly
            && let Some(left) = state
                .here
                .iter()
                .find(|s| s.abandoned && !s.profile.can_run_concurrently_with(profile))
        {
            return LockRequest::Abandoned(left.tool.clone());
        }
        let ticket = state.next;
        state.next += 1;
        let holder =
            Holder { ticket, profile: profile.clone(), tool: tool.clone(), abandoned: false };
        let free = state.free_for(&holder.profile, state.queue.len(), readers);
        let guard = self.guard(ticket);
        if free {
            state.here.push(holder);
            return LockRequest::Acquired(guard);
        }
        let (send, receive) = oneshot::channel();
        state.queue.push_back((holder, send));
        LockRequest::Wait(guard, receive)
    }

    fn guard(self: &Arc<Self>, ticket: u64) -> LockGuard {
        LockGuard { table: Arc::clone(self), ticket: AtomicU64::new(ticket) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.list)
    }

    /// Admits waiters after a release, and counts readers again once the list is empty.
    fn released(&self, state: &mut State) {
        state.admit(self.readers.load(Ordering::SeqCst) / READER);
        if state.here.is_empty() && state.queue.is_empty() {
            self.readers.fetch_and(!SLOW, Ordering::SeqCst);
        }
    }
}

/// Whether a call excludes only calls that are no readers.
fn is_plain_reader(profile: &CallProfile) -> bool {
    profile.class == ConcurrencyClass::ReadOnly && profile.keys.is_empty()
}

/// The profile of all counted readers.
fn plain_reader() -> CallProfile {
    CallProfile { class: ConcurrencyClass::ReadOnly, ..CallProfile::strictest() }
}

/// Whether no call can run at the same time as this one.
fn excludes_all(profile: &CallProfile) -> bool {
    profile.class != ConcurrencyClass::ReadOnly && profile.keys.is_empty()
}

impl State {
    /// Whether a call conflicts with no running call and with none of the first `ahead` waiters.
    fn free_for(&self, profile: &CallProfile, ahead: usize, readers: u64) -> bool {
        // A reader does not wait for an abandoned body; the record reports it.
        let lets = |s: &Holder| {
            s.profile.can_run_concurrently_with(profile)
                || (s.abandoned && profile.class == ConcurrencyClass::ReadOnly)
        };
        (readers == 0 || is_plain_reader(profile) || plain_reader().can_run_concurrently_with(profile))
            // Most waiters exclude all others, so the last one usually decides.
            && self.queue.iter().take(ahead).rev().all(|(s, _)| s.profile.can_run_concurrently_with(profile))
            && self.here.iter().all(lets)
    }

    /// Gives the lock to every waiter that may have it now, in order.
    fn admit(&mut self, readers: u64) {
        let mut at = 0;
        while at < self.queue.len() {
            if self.free_for(&self.queue[at].0.profile, at, readers) {
                let Some((holder, signal)) = self.queue.remove(at) else { return };
                // If the receiver is gone, the guard is being dropped too.
                if signal.send(()).is_ok() {
                    self.here.push(holder);
                }
            } else if excludes_all(&self.queue[at].0.profile) {
                // No later waiter may pass this one.
                return;
            } else {
                at += 1;
            }
        }
    }
}

impl LockGuard {
    /// Marks the lock as held by a body that no call waits for any more.
    pub(crate) fn abandon(&self, tool: &ToolName) {
        let mut state = self.table.lock();
        let ticket = self.ticket.load(Ordering::SeqCst);
        if ticket == COUNTED {
            self.table.readers.fetch_or(SLOW, Ordering::SeqCst);
            let (ticket, tool) = (state.next, tool.clone());
            state.next += 1;
            state.here.push(Holder { ticket, profile: plain_reader(), tool, abandoned: true });
            self.ticket.store(ticket, Ordering::SeqCst);
            self.table.readers.fetch_sub(READER, Ordering::SeqCst);
        } else if let Some(holder) = state.here.iter_mut().find(|s| s.ticket == ticket) {
            holder.abandoned = true;
        }
        // Calls that wait for it must not wait forever: they request again, and get the reason.
        let waiting = std::mem::take(&mut state.queue);
        for (holder, signal) in waiting {
            let writes = holder.profile.class != ConcurrencyClass::ReadOnly;
            let meets =
                |s: &Holder| s.abandoned && !s.profile.can_run_concurrently_with(&holder.profile);
            if writes && state.here.iter().any(meets) {
                drop(signal);
            } else {
                state.queue.push_back((holder, signal));
            }
        }
        self.table.released(&mut state);
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        let ticket = *self.ticket.get_mut();
        if ticket == COUNTED {
            let before = self.table.readers.fetch_sub(READER, Ordering::SeqCst);
            if before & SLOW != 0 {
                let mut state = self.table.lock();
                self.table.released(&mut state);
            }
            return;
        }
        let mut state = self.table.lock();
        match state.here.iter().position(|s| s.ticket == ticket) {
            Some(at) => drop(state.here.swap_remove(at)),
            None => state.queue.retain(|(s, _)| s.ticket != ticket),
        }
        self.table.released(&mut state);
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
        stuck.abandon(&"t".into());
        assert!(matches!(waiting.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
        assert!(matches!(request(&table, ConcurrencyClass::Unsafe), LockRequest::Abandoned(_)));
        assert!(matches!(request(&table, ConcurrencyClass::ReadOnly), LockRequest::Acquired(_)));
        drop(stuck);
        assert!(matches!(request(&table, ConcurrencyClass::Unsafe), LockRequest::Acquired(_)));
    }

    #[test]
    fn readers_are_counted_until_a_writer_comes_and_again_after_it() {
        let table: Arc<LockTable> = Arc::default();
        let readers = || table.readers.load(Ordering::SeqCst);
        let LockRequest::Acquired(one) = request(&table, ConcurrencyClass::ReadOnly) else {
            panic!()
        };
        assert_eq!(readers(), READER);
        assert!(table.lock().here.is_empty());
        let LockRequest::Wait(writer, mut signal) = request(&table, ConcurrencyClass::Unsafe)
        else {
            panic!()
        };
        assert_eq!(readers(), READER | SLOW);
        drop(one);
        assert!(signal.try_recv().is_ok());
        drop(writer);
        assert_eq!(readers(), 0);
        assert!(matches!(request(&table, ConcurrencyClass::Unsafe), LockRequest::Acquired(_)));
    }

    #[test]
    fn an_abandoned_counted_reader_still_blocks_writers() {
        let table: Arc<LockTable> = Arc::default();
        let LockRequest::Acquired(reader) = request(&table, ConcurrencyClass::ReadOnly) else {
            panic!()
        };
        reader.abandon(&"slow".into());
        let LockRequest::Abandoned(tool) = request(&table, ConcurrencyClass::WriteExclusive) else {
            panic!()
        };
        assert_eq!(tool, "slow");
        assert!(matches!(request(&table, ConcurrencyClass::ReadOnly), LockRequest::Acquired(_)));
        drop(reader);
        assert!(matches!(request(&table, ConcurrencyClass::Unsafe), LockRequest::Acquired(_)));
        assert_eq!(table.readers.load(Ordering::SeqCst), 0);
    }

    /// Readers and writers of several threads: a writer is always alone.
    #[test]
    fn a_writer_is_alone_on_real_threads() {
        use std::sync::atomic::AtomicUsize;
        let table: Arc<LockTable> = Arc::default();
        let inside = AtomicUsize::new(0);
        let work = |class: ConcurrencyClass| {
            for _ in 0..3_000 {
                let guard = match request(&table, class) {
                    LockRequest::Acquired(guard) => guard,
                    LockRequest::Wait(guard, signal) => {
                        assert!(signal.blocking_recv().is_ok());
                        guard
                    }
                    LockRequest::Abandoned(_) => panic!("nothing is abandoned"),
                };
                let weight = if class == ConcurrencyClass::ReadOnly { 1 } else { 1_000 };
                let before = inside.fetch_add(weight, Ordering::SeqCst);
                assert!(if weight == 1 { before < 1_000 } else { before == 0 }, "{before}");
                inside.fetch_sub(weight, Ordering::SeqCst);
                drop(guard);
            }
        };
        std::thread::scope(|threads| {
            for class in [ConcurrencyClass::ReadOnly, ConcurrencyClass::ReadOnly] {
                threads.spawn(move || work(class));
            }
            threads.spawn(|| work(ConcurrencyClass::WriteExclusive));
            threads.spawn(|| work(ConcurrencyClass::Unsafe));
        });
        assert_eq!(table.readers.load(Ordering::SeqCst), 0);
    }
}
