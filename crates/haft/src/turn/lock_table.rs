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

/// A floor. Locks are held for a scan of a short list, never across a wait.
#[derive(Default)]
pub(crate) struct Floor(Mutex<State>);

#[derive(Default)]
struct State {
    next: u64,
    here: Vec<Stand>,
    queue: VecDeque<(Stand, oneshot::Sender<()>)>,
}

struct Stand {
    ticket: u64,
    claim: CallProfile,
    tool: ToolName,
    abandoned: bool,
}

/// A place on a floor; leaving is dropping it.
pub(crate) struct Pass {
    floor: Arc<Floor>,
    ticket: u64,
}

/// What happens at the door.
pub(crate) enum Door {
    /// Come in.
    In(Pass),
    /// Wait for the signal; dropping the pass leaves the queue.
    Wait(Pass, oneshot::Receiver<()>),
    /// An abandoned body of this tool still works; nobody knows when it will end.
    Blocked(ToolName),
}

impl Floor {
    /// Asks to come in.
    pub(crate) fn enter(self: &Arc<Self>, claim: &CallProfile, tool: &ToolName) -> Door {
        let mut state = self.lock();
        if claim.class != ConcurrencyClass::ReadOnly
            && let Some(left) = state.here.iter().find(|s| s.abandoned && !s.claim.may_share(claim))
        {
            return Door::Blocked(left.tool.clone());
        }
        let ticket = state.next;
        state.next += 1;
        let stand = Stand { ticket, claim: claim.clone(), tool: tool.clone(), abandoned: false };
        let free = state.free_for(&stand.claim, state.queue.len());
        let pass = Pass { floor: Arc::clone(self), ticket };
        if free {
            state.here.push(stand);
            return Door::In(pass);
        }
        let (send, receive) = oneshot::channel();
        state.queue.push_back((stand, send));
        Door::Wait(pass, receive)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

impl State {
    /// Whether a claim meets nobody here and none of the first `ahead` waiters.
    fn free_for(&self, claim: &CallProfile, ahead: usize) -> bool {
        // A reader passes an abandoned body: it has waited long enough, and the record says so.
        let lets = |s: &Stand| {
            s.claim.may_share(claim) || (s.abandoned && claim.class == ConcurrencyClass::ReadOnly)
        };
        self.here.iter().all(lets)
            && self.queue.iter().take(ahead).all(|(s, _)| s.claim.may_share(claim))
    }

    /// Lets in whoever may come in now, in order.
    fn admit(&mut self) {
        let mut at = 0;
        while at < self.queue.len() {
            if self.free_for(&self.queue[at].0.claim, at) {
                let Some((stand, signal)) = self.queue.remove(at) else { return };
                // Nobody listens any more: its pass is being dropped and would only find nothing.
                if signal.send(()).is_ok() {
                    self.here.push(stand);
                }
            } else {
                at += 1;
            }
        }
    }
}

impl Pass {
    /// Marks the place as held by a body that nobody waits for any more.
    pub(crate) fn abandon(&self) {
        let mut state = self.floor.lock();
        if let Some(stand) = state.here.iter_mut().find(|s| s.ticket == self.ticket) {
            stand.abandoned = true;
        }
        // Those who wait for it must not wait for ever: they are told to ask again.
        let waiting = std::mem::take(&mut state.queue);
        for (stand, signal) in waiting {
            let writes = stand.claim.class != ConcurrencyClass::ReadOnly;
            let meets = |s: &Stand| s.abandoned && !s.claim.may_share(&stand.claim);
            if writes && state.here.iter().any(meets) {
                drop(signal);
            } else {
                state.queue.push_back((stand, signal));
            }
        }
        state.admit();
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.floor.lock();
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

    fn claim(class: ConcurrencyClass) -> CallProfile {
        CallProfile { class, ..CallProfile::strictest() }
    }

    fn enter(floor: &Arc<Floor>, class: ConcurrencyClass) -> Door {
        floor.enter(&claim(class), &"t".into())
    }

    #[test]
    fn readers_share_and_a_writer_waits_for_all_of_them() {
        let floor = Arc::default();
        let Door::In(one) = enter(&floor, ConcurrencyClass::ReadOnly) else { panic!() };
        let Door::In(two) = enter(&floor, ConcurrencyClass::ReadOnly) else { panic!() };
        let Door::Wait(writer, mut signal) = enter(&floor, ConcurrencyClass::WriteExclusive) else {
            panic!()
        };
        // A reader behind a waiting writer waits too, so writers are not starved.
        let Door::Wait(late, mut later) = enter(&floor, ConcurrencyClass::ReadOnly) else {
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
        assert!(floor.lock().here.is_empty() && floor.lock().queue.is_empty());
    }

    #[test]
    fn leaving_the_queue_lets_the_next_one_in() {
        let floor = Arc::default();
        let Door::In(_one) = enter(&floor, ConcurrencyClass::ReadOnly) else { panic!() };
        let Door::Wait(writer, signal) = enter(&floor, ConcurrencyClass::WriteExclusive) else {
            panic!()
        };
        let Door::Wait(_late, mut later) = enter(&floor, ConcurrencyClass::ReadOnly) else {
            panic!()
        };
        drop((writer, signal));
        assert!(later.try_recv().is_ok());
    }

    #[test]
    fn an_abandoned_writer_blocks_writers_and_lets_readers_pass() {
        let floor = Arc::default();
        let Door::In(stuck) = enter(&floor, ConcurrencyClass::WriteExclusive) else { panic!() };
        let Door::Wait(_w, mut waiting) = enter(&floor, ConcurrencyClass::WriteExclusive) else {
            panic!()
        };
        stuck.abandon();
        assert!(matches!(waiting.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
        assert!(matches!(enter(&floor, ConcurrencyClass::Unsafe), Door::Blocked(_)));
        assert!(matches!(enter(&floor, ConcurrencyClass::ReadOnly), Door::In(_)));
        drop(stuck);
        assert!(matches!(enter(&floor, ConcurrencyClass::Unsafe), Door::In(_)));
    }
}
