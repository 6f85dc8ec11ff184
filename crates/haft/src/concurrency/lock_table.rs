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
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use haft_core::{CallProfile, ConcurrencyClass, ToolName, sync::lock};
use tokio::sync::oneshot;

use super::conflict_set::ConflictSet;

/// The locks of running calls. Its mutex is never held across a wait. A request costs O(log n) for
/// n calls that run or wait; a release looks at the calls that wait.
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
    /// The calls that run, by ticket.
    here: BTreeMap<u64, Holder>,
    /// Their profiles, without those of abandoned bodies.
    running: ConflictSet,
    abandoned: ConflictSet,
    /// The calls that wait. Tickets are given in order, so the first one has waited longest.
    queue: BTreeMap<u64, (Holder, oneshot::Sender<()>)>,
    /// Their profiles.
    waiting: ConflictSet,
}

struct Holder {
    profile: CallProfile,
    tool: ToolName,
    abandoned: bool,
}

/// A lock, or a place in the queue for it. Dropping it releases it.
pub(crate) struct LockGuard<O: AsRef<LockTable>> {
    /// What contains the table; `None` once it was taken out.
    owner: Option<O>,
    /// The place in the list, or `COUNTED`. A counted reader that is abandoned moves to the list.
    ticket: AtomicU64,
}

/// The answer to a request for a lock.
pub(crate) enum LockRequest<O: AsRef<LockTable>> {
    /// The call has the lock.
    Acquired(LockGuard<O>),
    /// It waits for the signal; dropping the guard leaves the queue.
    Wait(LockGuard<O>, oneshot::Receiver<()>),
    /// An abandoned body of this tool still runs, and may never end.
    Abandoned(O, ToolName),
}

impl LockTable {
    /// Requests the lock of a call from the table of an owner, which is kept with the lock.
    pub(crate) fn request<O: AsRef<LockTable>>(
        owner: O,
        profile: &CallProfile,
        tool: &ToolName,
    ) -> LockRequest<O> {
        if is_plain_reader(profile) && owner.as_ref().count_reader() {
            return LockRequest::Acquired(LockGuard::new(owner, COUNTED));
        }
        Self::request_in_list(owner, profile, tool)
    }

    /// Counts a call that reads and has no keys, unless another call is in the list. The caller
    /// must call [`release_reader`](Self::release_reader) once.
    pub(crate) fn try_count_reader(&self, profile: &CallProfile) -> bool {
        is_plain_reader(profile) && self.count_reader()
    }

    /// Releases a counted reader.
    #[inline]
    pub(crate) fn release_reader(&self) {
        let before = self.readers.fetch_sub(READER, Ordering::SeqCst);
        if before & SLOW != 0 {
            self.release(None);
        }
    }

    /// Counts a reader, unless another call is in the list.
    fn count_reader(&self) -> bool {
        let count = |readers: u64| (readers & SLOW == 0).then_some(readers + READER);
        self.readers.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count).is_ok()
    }

    #[inline(never)]
    fn request_in_list<O: AsRef<LockTable>>(
        owner: O,
        profile: &CallProfile,
        tool: &ToolName,
    ) -> LockRequest<O> {
        let table = owner.as_ref();
        let mut state = table.lock();
        let readers = table.readers.fetch_or(SLOW, Ordering::SeqCst) / READER;
        if let Some(left) = state.abandoned_by(profile) {
            drop(state);
            return LockRequest::Abandoned(owner, left);
        }
        let ticket = state.next;
        state.next += 1;
        let holder = Holder { profile: profile.clone(), tool: tool.clone(), abandoned: false };
        if !state.waiting.conflicts(profile) && state.is_free_for(profile, readers) {
            state.start(ticket, holder);
            drop(state);
            return LockRequest::Acquired(LockGuard::new(owner, ticket));
        }
        let (send, receive) = oneshot::channel();
        state.waiting.add(profile);
        state.queue.insert(ticket, (holder, send));
        drop(state);
        LockRequest::Wait(LockGuard::new(owner, ticket), receive)
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
    /// Returns the tool of an abandoned body that a call that writes must not run with.
    fn abandoned_by(&self, profile: &CallProfile) -> Option<ToolName> {
        // A reader does not wait for an abandoned body; the record reports it.
        if profile.class == ConcurrencyClass::ReadOnly || !self.abandoned.conflicts(profile) {
            return None;
        }
        let meets = |holder: &&Holder| {
            holder.abandoned && !holder.profile.can_run_concurrently_with(profile)
        };
        self.here.values().find(meets).map(|holder| holder.tool.clone())
    }

    /// Whether a call conflicts with no running call.
    fn is_free_for(&self, profile: &CallProfile, readers: u64) -> bool {
        let reads = profile.class == ConcurrencyClass::ReadOnly;
        (readers == 0
            || is_plain_reader(profile)
            || plain_reader().can_run_concurrently_with(profile))
            && !self.running.conflicts(profile)
            && (reads || !self.abandoned.conflicts(profile))
    }

    fn start(&mut self, ticket: u64, holder: Holder) {
        self.running.add(&holder.profile);
        self.here.insert(ticket, holder);
    }

    /// Gives the lock to every waiter that may have it now, in order.
    fn admit(&mut self, readers: u64) {
        let mut ahead = ConflictSet::default();
        let mut free = Vec::new();
        // What is admitted in this pass, so that it counts for the ones after it.
        for (ticket, (holder, _)) in &self.queue {
            let profile = &holder.profile;
            if !ahead.conflicts(profile) && self.is_free_for(profile, readers) {
                self.running.add(profile);
                free.push(*ticket);
            } else if excludes_all(profile) {
                // No later waiter may pass this one.
                break;
            } else {
                ahead.add(profile);
            }
        }
        for ticket in free {
            let Some((holder, signal)) = self.queue.remove(&ticket) else { continue };
            self.waiting.remove(&holder.profile);
            // If the receiver is gone, the guard is being dropped too.
            match signal.send(()) {
                Ok(()) => drop(self.here.insert(ticket, holder)),
                Err(()) => self.running.remove(&holder.profile),
            }
        }
    }

    /// Removes a call that runs or waits.
    fn remove(&mut self, ticket: u64) {
        if let Some(holder) = self.here.remove(&ticket) {
            match holder.abandoned {
                true => self.abandoned.remove(&holder.profile),
                false => self.running.remove(&holder.profile),
            }
        } else if let Some((holder, _)) = self.queue.remove(&ticket) {
            self.waiting.remove(&holder.profile);
        }
    }
}

impl<O: AsRef<LockTable>> LockGuard<O> {
    fn new(owner: O, ticket: u64) -> Self {
        Self { owner: Some(owner), ticket: AtomicU64::new(ticket) }
    }

    /// Makes the guard of a reader that is already counted in the owner's table.
    pub(crate) fn of_counted_reader(owner: O) -> Self {
        Self::new(owner, COUNTED)
    }

    /// Returns what contains the table.
    pub(crate) fn owner(&self) -> Option<&O> {
        self.owner.as_ref()
    }

    /// Releases the lock, and returns what contains the table.
    pub(crate) fn into_owner(mut self) -> Option<O> {
        self.release();
        self.owner.take()
    }

    /// Marks the lock as held by a body that no call waits for any more.
    pub(crate) fn abandon(&self, tool: &ToolName) {
        let Some(table) = self.owner.as_ref().map(AsRef::as_ref) else { return };
        let mut state = table.lock();
        let ticket = self.ticket.load(Ordering::SeqCst);
        if ticket == COUNTED {
            table.readers.fetch_or(SLOW, Ordering::SeqCst);
            let (ticket, tool) = (state.next, tool.clone());
            state.next += 1;
            let holder = Holder { profile: plain_reader(), tool, abandoned: true };
            state.abandoned.add(&holder.profile);
            state.here.insert(ticket, holder);
            self.ticket.store(ticket, Ordering::SeqCst);
            table.readers.fetch_sub(READER, Ordering::SeqCst);
        } else if let Some(mut holder) = state.here.remove(&ticket) {
            if !holder.abandoned {
                state.running.remove(&holder.profile);
                state.abandoned.add(&holder.profile);
            }
            holder.abandoned = true;
            state.here.insert(ticket, holder);
        }
        // Calls that wait for it must not wait forever: they request again, and get the reason.
        let stuck: Vec<u64> = state
            .queue
            .iter()
            .filter(|(_, (holder, _))| state.abandoned_by(&holder.profile).is_some())
            .map(|(ticket, _)| *ticket)
            .collect();
        stuck.into_iter().for_each(|ticket| state.remove(ticket));
        table.released(&mut state);
    }

    #[inline]
    fn release(&mut self) {
        let Some(table) = self.owner.as_ref().map(AsRef::as_ref) else { return };
        let ticket = *self.ticket.get_mut();
        if ticket == COUNTED {
            table.release_reader();
        } else {
            table.release(Some(ticket));
        }
    }
}

impl LockTable {
    /// Removes a call from the list, and admits the calls that may run now.
    #[inline(never)]
    fn release(&self, ticket: Option<u64>) {
        let mut state = self.lock();
        ticket.into_iter().for_each(|ticket| state.remove(ticket));
        self.released(&mut state);
    }
}

impl<O: AsRef<LockTable>> Drop for LockGuard<O> {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn profile(class: ConcurrencyClass) -> CallProfile {
        CallProfile { class, ..CallProfile::strictest() }
    }

    fn request(table: &Arc<LockTable>, class: ConcurrencyClass) -> LockRequest<Arc<LockTable>> {
        LockTable::request(Arc::clone(table), &profile(class), &"t".into())
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
        assert!(matches!(request(&table, ConcurrencyClass::Unsafe), LockRequest::Abandoned(..)));
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
        let LockRequest::Abandoned(_, tool) = request(&table, ConcurrencyClass::WriteExclusive)
        else {
            panic!()
        };
        assert_eq!(tool, "slow");
        assert!(matches!(request(&table, ConcurrencyClass::ReadOnly), LockRequest::Acquired(_)));
        drop(reader);
        assert!(matches!(request(&table, ConcurrencyClass::Unsafe), LockRequest::Acquired(_)));
        assert_eq!(table.readers.load(Ordering::SeqCst), 0);
    }

    /// The cost of a call among 10 n calls that wait is at most twice that among n.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "this test measures time")]
    fn a_call_costs_the_same_however_many_calls_wait() {
        let keyed = |n: usize, class| CallProfile {
            keys: vec![haft_core::ResourceKey::new(format!("file:/{n}"))],
            ..profile(class)
        };
        let cost = |waiting: usize| {
            let table: Arc<LockTable> = Arc::default();
            let writer = |n| keyed(n, ConcurrencyClass::WriteExclusive);
            let held: Vec<_> = (0..waiting)
                .flat_map(|n| {
                    [0; 2].map(|_| LockTable::request(Arc::clone(&table), &writer(n), &"t".into()))
                })
                .collect();
            assert_eq!(table.lock().queue.len(), waiting);
            let free = keyed(waiting, ConcurrencyClass::WriteExclusive);
            let took = (0..50).map(|_| {
                let began = std::time::Instant::now();
                let request = LockTable::request(Arc::clone(&table), &free, &"t".into());
                let took = began.elapsed();
                assert!(matches!(request, LockRequest::Acquired(_)));
                took
            });
            let took = took.min().unwrap_or_default();
            drop(held);
            assert!(table.lock().here.is_empty() && table.lock().queue.is_empty());
            took
        };
        // Other processes take the processor and its caches in some measurements, but not in all.
        let mut costs = Vec::new();
        for _ in 0..40 {
            let (few, many) = (cost(30), cost(300));
            if many <= 2 * few {
                return;
            }
            costs.push((few, many));
        }
        panic!("a call among 30 and among 300 that wait: {costs:?}");
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
                    LockRequest::Abandoned(..) => panic!("nothing is abandoned"),
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
