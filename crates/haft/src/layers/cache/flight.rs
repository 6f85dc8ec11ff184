//! Single-flight: one call computes a result, and identical calls wait for it.
//!
//! A nested call joins an in-flight computation unless that would deadlock. We keep a wait-for
//! graph and check for cycles before waiting.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use haft_core::{CallId, Failure, Label, RunId, ToolContext};
use tokio::sync::Semaphore;

use super::shelf::Known;
use crate::layers::key::{self, Key};

/// The results that are being made.
#[derive(Debug, Default)]
pub(super) struct Flights {
    making: HashMap<Key, Arc<Making>, key::Kept>,
    /// The nested calls that wait, and for what.
    nested: Vec<(Caller, Key)>,
}

/// A result that is being made. Whoever has the one place makes it; the first has it from the start.
#[derive(Debug)]
pub(super) struct Making {
    place: Semaphore,
    /// What came of it, for those who wait.
    end: OnceLock<Ended>,
    maker: Mutex<Option<Caller>>,
    /// How many make it or wait for it; changed under the lock of the pantry alone.
    here: AtomicUsize,
}

/// What came of a result that others waited for.
#[derive(Debug, Clone)]
pub(super) enum Ended {
    Made(Arc<Known>),
    /// The body failed, and would fail for them.
    Failed(Arc<Failure>, Label),
}

/// Who makes a result or waits for it. Ids repeat from run to run; where two calls are taken for one,
/// somebody does not wait who could have.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    run: RunId,
    cycle: u32,
    call: CallId,
}

impl Caller {
    pub(super) fn of(cx: &ToolContext) -> Self {
        Self { run: cx.run_id().clone(), cycle: cx.cycle(), call: cx.call_id().clone() }
    }

    /// Returns whether this is the other call, or part of it.
    fn is_part_of(&self, other: &Self) -> bool {
        self.run == other.run
            && self.cycle == other.cycle
            && (self.call == other.call || self.call.is_within(&other.call))
    }
}

/// Whether a call may wait for somebody else's answer.
#[derive(Clone, Copy)]
pub(super) enum Joining<'a> {
    /// It is part of no call, so nobody who makes a result can be waiting for it.
    Freely,
    /// It is part of a call. It may wait where that makes no circle.
    Nested(&'a Caller),
    /// It is part of a call that its id does not tell, as in a run below another.
    Never,
}

/// The leave to make a result. Dropping it gives it to whoever waits longest.
#[derive(Debug)]
pub(super) struct Leave<'a>(pub(super) &'a Making);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.place.add_permits(1);
    }
}

/// What a call does that finds nothing kept.
pub(super) enum Part {
    /// It came first, and makes it.
    Make(Arc<Making>),
    /// It waits for whoever makes it; with its id, if it is nested.
    Wait(Arc<Making>, Option<CallId>),
    /// Somebody makes it, and this call must not wait for them.
    Alone,
}

/// So many nested calls wait at most; each is looked at when another one comes. More go alone.
pub(super) const MOST_NESTED: usize = 64;

impl Flights {
    /// Takes a call on: as the maker, or as one of those who wait.
    pub(super) fn join(&mut self, key: &Key, joining: Joining<'_>) -> Part {
        let Some(making) = self.making.get(key).map(Arc::clone) else {
            let making = Arc::new(Making::new());
            self.making.insert(key.clone(), Arc::clone(&making));
            return Part::Make(making);
        };
        if !self.may_join(key, joining) {
            return Part::Alone;
        }
        making.here.fetch_add(1, Ordering::Relaxed);
        let nested = match joining {
            Joining::Nested(caller) => {
                self.nested.push((caller.clone(), key.clone()));
                Some(caller.call.clone())
            }
            Joining::Freely | Joining::Never => None,
        };
        Part::Wait(making, nested)
    }

    /// From here on nobody joins it: whoever comes makes their own.
    pub(super) fn close(&mut self, key: &Key, making: &Arc<Making>) {
        if self.making.get(key).is_some_and(|open| Arc::ptr_eq(open, making)) {
            self.making.remove(key);
        }
    }

    /// A nested call no longer waits.
    pub(super) fn forget(&mut self, call: &CallId, key: &Key) {
        let is_own = |(caller, other): &(Caller, Key)| caller.call == *call && other == key;
        if let Some(at) = self.nested.iter().position(is_own) {
            self.nested.swap_remove(at);
        }
    }

    /// Returns whether a call may wait for what is being made, without anybody waiting for it in turn.
    fn may_join(&self, key: &Key, joining: Joining<'_>) -> bool {
        match joining {
            Joining::Freely => true,
            Joining::Nested(caller) => {
                self.nested.len() < MOST_NESTED && !self.is_circle(caller, key)
            }
            Joining::Never => false,
        }
    }

    /// Returns whether the maker of a result waits for this call: because the call is part of the
    /// maker, or because a part of the maker waits for a result whose maker does, and so on.
    ///
    /// Asked whenever a nested call begins to wait. A call that takes over the making has not begun
    /// its body, so nothing is part of it yet, and no circle can come about then.
    fn is_circle(&self, caller: &Caller, key: &Key) -> bool {
        let mut keys: Vec<&Key> = vec![key];
        let mut at = 0;
        while let Some(key) = keys.get(at).copied() {
            at += 1;
            let Some(making) = self.making.get(key) else { continue };
            let maker = lock(&making.maker);
            let Some(maker) = &*maker else { continue };
            if caller.is_part_of(maker) {
                return true;
            }
            for (other, waits_for) in &self.nested {
                if other.is_part_of(maker) && !keys.contains(&waits_for) {
                    keys.push(waits_for);
                }
            }
        }
        false
    }
}

impl Making {
    fn new() -> Self {
        Self {
            place: Semaphore::new(0),
            end: OnceLock::new(),
            maker: Mutex::default(),
            here: AtomicUsize::new(1),
        }
    }

    /// Says who makes it.
    pub(super) fn by(&self, caller: Caller) {
        *lock(&self.maker) = Some(caller);
    }

    /// Returns how many make it or wait for it.
    pub(super) fn here(&self) -> usize {
        self.here.load(Ordering::Relaxed)
    }

    /// One of them leaves; returns how many are left.
    pub(super) fn leave(&self) -> usize {
        self.here.fetch_sub(1, Ordering::Relaxed) - 1
    }

    /// Waits for the one place. It closes only once there is an end.
    pub(super) async fn wait(&self) {
        if let Ok(place) = self.place.acquire().await {
            place.forget();
        }
    }

    /// Returns what came of it, if that is known.
    pub(super) fn ended(&self) -> Option<Ended> {
        self.end.get().cloned()
    }

    /// Hands what came of it to everybody who waits.
    pub(super) fn end(&self, end: Ended) {
        let _ = self.end.set(end);
        self.place.close();
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Flights {
        pub(in crate::layers::cache) fn is_empty(&self) -> bool {
            self.making.is_empty()
        }

        pub(in crate::layers::cache) fn nested(&self) -> usize {
            self.nested.len()
        }
    }

    impl Caller {
        pub(in crate::layers::cache) fn named(call: &str) -> Self {
            Self { run: "r".into(), cycle: 1, call: call.into() }
        }

        pub(in crate::layers::cache) fn in_turn(self, cycle: u32) -> Self {
            Self { cycle, ..self }
        }
    }
}
