//! Single-flight: one call computes a result, and identical calls wait for it.
//!
//! INVARIANT: only a call that is part of no other call waits here. So no call that computes a
//! result waits for another computation, and no cycle of waiting calls can exist.

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use haft_core::{Failure, Label};
use tokio::sync::Semaphore;

use super::store::CachedResult;
use crate::call::layers::key::{Key, KeyHasher};

/// The computations in flight.
#[derive(Debug, Default)]
pub(super) struct Flights {
    open: HashMap<Key, Arc<Flight>, KeyHasher>,
}

/// A result that is being computed. The call that has the one permit computes it; the first call
/// has it from the start.
#[derive(Debug)]
pub(crate) struct Flight {
    permit: Semaphore,
    /// The outcome, for the calls that wait.
    outcome: OnceLock<SharedOutcome>,
    /// How many calls compute it or wait for it. Changed only under the lock of the cache.
    calls: AtomicUsize,
}

/// The outcome of a computation that other calls waited for.
#[derive(Debug, Clone)]
pub(super) enum SharedOutcome {
    Computed(Arc<CachedResult>),
    /// The body failed, and would fail for each of them.
    Failed(Arc<Failure>, Label),
}

/// Whether a call may wait for another call's computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MayJoin {
    /// It is part of no other call.
    Yes,
    /// It is part of another call, which could be the one that computes.
    No,
}

/// The permission to compute a result. Dropping it passes it to the call that waits longest.
#[derive(Debug)]
pub(super) struct ComputePermit(pub(super) Arc<Flight>);

impl Drop for ComputePermit {
    fn drop(&mut self) {
        self.0.permit.add_permits(1);
    }
}

/// What a call does if no result is cached.
pub(super) enum Role {
    /// It is the first, and computes the result.
    Leader(Arc<Flight>),
    /// It waits for the leader.
    Follower(Arc<Flight>),
    /// A computation is in flight, and this call must not wait for it.
    Independent,
}

impl Flights {
    /// Gives a call its role.
    pub(super) fn join(&mut self, key: &Key, may_join: MayJoin) -> Role {
        let Some(flight) = self.open.get(key) else {
            let flight = Arc::new(Flight::new());
            self.open.insert(key.clone(), Arc::clone(&flight));
            return Role::Leader(flight);
        };
        if may_join == MayJoin::No {
            return Role::Independent;
        }
        flight.calls.fetch_add(1, Ordering::Relaxed);
        Role::Follower(Arc::clone(flight))
    }

    /// From here on no call joins it; the next one starts a computation of its own.
    pub(super) fn close(&mut self, key: &Key, flight: &Arc<Flight>) {
        if self.open.get(key).is_some_and(|open| Arc::ptr_eq(open, flight)) {
            self.open.remove(key);
        }
    }
}

impl Flight {
    fn new() -> Self {
        Self { permit: Semaphore::new(0), outcome: OnceLock::new(), calls: AtomicUsize::new(1) }
    }

    /// Returns whether other calls wait for it.
    pub(super) fn has_followers(&self) -> bool {
        self.calls.load(Ordering::Relaxed) > 1
    }

    /// One call leaves; returns how many are left.
    pub(super) fn leave(&self) -> usize {
        self.calls.fetch_sub(1, Ordering::Relaxed) - 1
    }

    /// Waits for the permit, or for the outcome: only that closes the semaphore.
    pub(in crate::call::layers) async fn wait(&self) {
        if let Ok(permit) = self.permit.acquire().await {
            permit.forget();
        }
    }

    /// Returns the outcome, if there is one.
    pub(super) fn outcome(&self) -> Option<SharedOutcome> {
        self.outcome.get().cloned()
    }

    /// Gives the outcome to all calls that wait.
    pub(super) fn end(&self, outcome: SharedOutcome) {
        let _ = self.outcome.set(outcome);
        self.permit.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Flights {
        pub(in crate::call::layers::cache) fn is_empty(&self) -> bool {
            self.open.is_empty()
        }
    }
}
