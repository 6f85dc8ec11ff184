//! Result cache with single-flight: an identical call is answered without running its body.
//!
//! In: a call of a tool that declares `cache`. Out: a cached result, or permission to compute it.
//! Identical calls that arrive during the computation wait for it. If its body fails, they get the
//! same failure, because the same body would fail for each of them. If it ended for a reason of its
//! own (it was cancelled, or its timeout passed), the next of them computes. A failure is never
//! cached, and never causes a stampede.
//!
//! A nested call never waits for another computation. It uses a cached result or runs its own body,
//! so calls cannot wait for each other in a cycle (deadlock).
//!
//! INVARIANT: the cache never exceeds its bytes. Two calls share a result only if tool, definition,
//! arguments, directory and scope are equal. No lock is held while a call waits.

mod flight;
mod store;

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use haft_core::{
    Cache, DependencyKind, Failure, FailureCode, Label, Output, ToolSpec,
    host::{HostContext, RandomState},
    sync::lock,
};

pub(crate) use self::flight::Flight;
use self::{
    flight::{ComputePermit, Flights, MayJoin, Role, SharedOutcome},
    store::{CachedResult, Store, estimate_bytes},
};
use super::{
    CacheStatus, ExecutionStats, Outcome, Work,
    key::{Key, KeyParts},
};
use crate::{event::Event, host_code::after};

/// The cached results and the computations in flight, of a whole runtime.
#[derive(Debug)]
pub(crate) struct ResultCache {
    max_bytes: usize,
    /// How arguments are hashed: with a random key, because the model chooses the arguments.
    hasher: RandomState,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    store: Store,
    flights: Flights,
}

/// A call that computes a result or waits for it. Dropping it leaves the flight.
#[derive(Debug)]
pub(super) struct FlightMember {
    cache: Arc<ResultCache>,
    key: Key,
    flight: Arc<Flight>,
    /// Held by the call that computes the result.
    permit: Option<ComputePermit>,
}

enum Lookup {
    Hit(Arc<CachedResult>),
    Leader(FlightMember),
    Follower(FlightMember),
    /// A computation is in flight, and this call must not wait for it.
    Independent,
}

/// What a call does after the lookup.
pub(super) enum Cached {
    /// The outcome is known.
    Outcome(Outcome),
    /// It waits for a computation in flight.
    Wait(Box<FlightMember>),
    /// It computes the result, for itself or for all.
    Compute(Option<Box<FlightMember>>),
}

impl ResultCache {
    pub(crate) fn new(max_bytes: usize) -> Self {
        let state = State { store: Store::new(max_bytes), flights: Flights::default() };
        Self { max_bytes, hasher: RandomState::default(), state: Mutex::new(state) }
    }

    fn find(self: &Arc<Self>, key: &Key, now: Instant, may_join: MayJoin) -> Lookup {
        let mut state = self.lock();
        let expired = match state.store.find(key, now) {
            Ok(result) => return Lookup::Hit(result),
            Err(expired) => expired,
        };
        let role = state.flights.join(key, may_join);
        drop(state);
        drop(expired);
        let member = |flight: Arc<Flight>, permit| FlightMember {
            cache: Arc::clone(self),
            key: key.clone(),
            flight,
            permit,
        };
        match role {
            Role::Leader(flight) => {
                let permit = ComputePermit(Arc::clone(&flight));
                Lookup::Leader(member(flight, Some(permit)))
            }
            Role::Follower(flight) => Lookup::Follower(member(flight, None)),
            Role::Independent => Lookup::Independent,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl FlightMember {
    /// Returns the computation, to wait for.
    pub(super) fn flight(&self) -> &Arc<Flight> {
        &self.flight
    }

    /// Takes the outcome after the wait. Without one, the call has the permit to compute it.
    fn outcome(&mut self) -> Option<SharedOutcome> {
        self.permit = Some(ComputePermit(Arc::clone(&self.flight)));
        self.flight.outcome()
    }

    /// Stores the result, and gives it to all followers.
    fn computed(&self, output: &Output, label: Label, now: Instant, ttl: Duration) {
        let max_bytes = self.cache.max_bytes;
        let bytes = estimate_bytes(output, max_bytes)
            .map(|bytes| bytes.saturating_add(self.key.memory_size(max_bytes)));
        // Not copied unless a follower or the store needs it: it may be large.
        let result = || Arc::new(CachedResult { output: output.clone(), label });
        let Some(bytes) = bytes.filter(|bytes| *bytes <= max_bytes) else {
            return self.end(self.cache.lock(), || SharedOutcome::Computed(result()));
        };
        let result = result();
        let mut state = self.cache.lock();
        let evicted = state.store.insert(&self.key, Arc::clone(&result), bytes, after(now, ttl));
        self.end(state, || SharedOutcome::Computed(result));
        // Freed after the lock, like expired entries.
        drop(evicted);
    }

    /// Gives the failure of the body to all followers.
    fn failed(&self, failure: &Failure, label: Label) {
        let outcome = || SharedOutcome::Failed(Arc::new(failure.retold()), label);
        self.end(self.cache.lock(), outcome);
    }

    /// Gives the outcome to all followers. From here on no call joins: the next one finds the
    /// result in the store, or computes its own.
    fn end(&self, mut state: MutexGuard<'_, State>, outcome: impl FnOnce() -> SharedOutcome) {
        state.flights.close(&self.key, &self.flight);
        drop(state);
        if self.flight.has_followers() {
            self.flight.end(outcome());
        }
    }
}

impl Drop for FlightMember {
    fn drop(&mut self) {
        // The next call gets the permit before this one leaves.
        self.permit = None;
        let mut state = self.cache.lock();
        if self.flight.leave() == 0 {
            state.flights.close(&self.key, &self.flight);
        }
    }
}

/// Looks a call up: it has a result, waits for one, or computes one.
pub(super) fn look_up(work: &Work<'_>, cache: &Cache, stats: &mut ExecutionStats) -> Cached {
    let inner = &work.turn.run.inner;
    let Some(parts) = key_parts(work, cache) else { return Cached::Compute(None) };
    let key = Key::new(parts, &inner.layers.cache.hasher);
    let may_join = if work.cx.depth() == 0 { MayJoin::Yes } else { MayJoin::No };
    match inner.layers.cache.find(&key, inner.clock.now(), may_join) {
        Lookup::Hit(result) => Cached::Outcome(Ok(reuse(work, &result, CacheStatus::Hit, stats))),
        Lookup::Follower(member) => Cached::Wait(Box::new(member)),
        Lookup::Leader(member) => {
            report(work, CacheStatus::Miss, stats);
            Cached::Compute(Some(Box::new(member)))
        }
        Lookup::Independent => {
            report(work, CacheStatus::Miss, stats);
            Cached::Compute(None)
        }
    }
}

/// Continues after the wait for a computation in flight.
pub(super) fn joined(
    work: &Work<'_>,
    mut member: Box<FlightMember>,
    stats: &mut ExecutionStats,
) -> Cached {
    match member.outcome() {
        Some(SharedOutcome::Computed(result)) => {
            Cached::Outcome(Ok(reuse(work, &result, CacheStatus::Joined, stats)))
        }
        Some(SharedOutcome::Failed(failure, label)) => {
            work.cx.add_nested_label(label);
            report(work, CacheStatus::Joined, stats);
            Cached::Outcome(Err(failure.retold()))
        }
        None => {
            report(work, CacheStatus::Miss, stats);
            Cached::Compute(Some(member))
        }
    }
}

/// Stores the outcome of a computation.
pub(super) fn store(
    work: &Work<'_>,
    cache: &Cache,
    member: &FlightMember,
    outcome: &Outcome,
    was_cancelled: bool,
) {
    match outcome {
        // The result of a cancelled body may be incomplete. A task is for the run that made it.
        Ok(_) if was_cancelled || work.cx.is_cancelled() || work.cx.has_background_task() => {}
        Ok(output) => {
            let now = work.turn.run.inner.clock.now();
            member.computed(output, work.cx.nested_label(), now, cache.ttl);
        }
        Err(failure) if is_failure_of_the_body(work, failure) => {
            member.failed(failure, work.cx.nested_label());
        }
        Err(_) => {}
    }
}

/// Returns whether the body failed, which would fail for an equal call too. Other failures are of
/// this one call: its deadline, its turn, its budget or its authorization.
fn is_failure_of_the_body(work: &Work<'_>, failure: &Failure) -> bool {
    let is_own = work.limits().is_some();
    !is_own
        && matches!(
            failure.code(),
            FailureCode::ToolFailed
                | FailureCode::InvalidValue
                | FailureCode::Panicked
                | FailureCode::BadOutput
                | FailureCode::TimedOut
        )
}

fn reuse(
    work: &Work<'_>,
    result: &CachedResult,
    how: CacheStatus,
    stats: &mut ExecutionStats,
) -> Output {
    // This call now depends on everything that the first call had read.
    work.cx.add_nested_label(result.label);
    report(work, how, stats);
    result.output.clone()
}

fn report(work: &Work<'_>, how: CacheStatus, stats: &mut ExecutionStats) {
    stats.cache = Some(how);
    work.turn.emit(|| Event::Cached { call: work.cx.call_id().clone(), how });
}

/// Returns the parts of the cache key; `None` for a call that must run.
fn key_parts(work: &Work<'_>, cache: &Cache) -> Option<KeyParts> {
    let (entry, cx) = (work.entry, work.cx);
    let admitted = work.permitted.validated();
    // FAIL CLOSED: a call that changes something runs each time, whatever the tool declares.
    if !admitted.profile().read_only && entry.spec().idempotent != Some(true) {
        return None;
    }
    let (kind, whose) = match cache.scope.as_deref() {
        Some("user") => ("user", cx.user_id()?),
        Some("session") => ("session", cx.session_id()?),
        Some("agent") => ("agent", cx.agent_id()?),
        Some("run") => ("run", cx.run_id().as_str()),
        Some(name) => ("name", name),
        None if is_per_run(entry.spec()) => ("run", cx.run_id().as_str()),
        None => match cx.user_id() {
            Some(user) => ("user", user),
            None => ("anonymous", ""),
        },
    };
    Some(KeyParts {
        tool: entry.registered().clone(),
        source: Arc::clone(entry.shared_source()),
        definition: *entry.raw_hash(),
        arguments: Arc::clone(admitted.arguments()),
        directory: Arc::clone(&cx.scope().working_directory),
        scope: (kind, whose.into()),
    })
}

/// Returns whether results of a tool that names no scope stay within their run: a value that the
/// host supplies per run may be the account of a user.
pub(super) fn is_per_run(spec: &ToolSpec) -> bool {
    spec.needs.iter().any(|need| need.kind == DependencyKind::RunState)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use proptest::prelude::*;

    use super::{super::key::tests::key, *};
    use crate::clock::{Clock as _, ManualClock};

    const MINUTE: Duration = Duration::from_secs(60);

    fn cache(max_bytes: usize) -> Arc<ResultCache> {
        Arc::new(ResultCache::new(max_bytes))
    }

    fn keep(cache: &Arc<ResultCache>, n: u8, text: &str, now: Instant) {
        let Lookup::Leader(member) = cache.find(&key(n, &cache.hasher), now, MayJoin::Yes) else {
            return;
        };
        member.computed(&Output::text(text), Label::CLEAN, now, MINUTE);
    }

    fn has(cache: &Arc<ResultCache>, n: u8, now: Instant) -> bool {
        matches!(cache.find(&key(n, &cache.hasher), now, MayJoin::Yes), Lookup::Hit(_))
    }

    fn join(cache: &Arc<ResultCache>, clock: &ManualClock) -> FlightMember {
        match cache.find(&key(1, &cache.hasher), clock.now(), MayJoin::Yes) {
            Lookup::Leader(member) | Lookup::Follower(member) => member,
            Lookup::Hit(_) | Lookup::Independent => panic!("nothing is stored"),
        }
    }

    #[test]
    fn cached_result_expires() {
        let (cache, clock) = (cache(10_000), ManualClock::new());
        keep(&cache, 1, "one", clock.now());
        clock.advance(MINUTE - Duration::from_nanos(1));
        assert!(has(&cache, 1, clock.now()));
        clock.advance(Duration::from_nanos(1));
        assert!(!has(&cache, 1, clock.now()));
        assert_eq!(cache.lock().store.bytes(), 0, "an expired result is removed");
    }

    #[test]
    fn least_recently_used_is_evicted_and_oversized_is_not_stored() {
        let key = key(1, &RandomState::default()).memory_size(usize::MAX);
        let (cache, clock) = (cache(3 * (store::OVERHEAD + 200 + key)), ManualClock::new());
        let now = clock.now();
        for n in [1, 2, 3] {
            keep(&cache, n, &"x".repeat(100), now);
        }
        assert!(has(&cache, 1, now));
        keep(&cache, 4, &"x".repeat(100), now);
        let kept = [1, 2, 3, 4].map(|n| has(&cache, n, now));
        assert_eq!(kept, [true, false, true, true]);
        keep(&cache, 5, &"x".repeat(5_000), now);
        assert!(!has(&cache, 5, now) && has(&cache, 1, now), "it evicted nothing");
        let none = Arc::new(ResultCache::new(0));
        keep(&none, 1, "", now);
        assert!(!has(&none, 1, now));
    }

    #[test]
    fn followers_get_a_result_that_is_too_large_to_store() {
        let (cache, clock) = (cache(0), ManualClock::new());
        let (leader, mut follower) = (join(&cache, &clock), join(&cache, &clock));
        assert!(leader.permit.is_some() && follower.permit.is_none());
        let flight = Arc::clone(follower.flight());
        let mut waiting = Box::pin(flight.wait());
        assert!(waiting.as_mut().now_or_never().is_none());
        leader.computed(&Output::text("it"), Label::CLEAN, clock.now(), MINUTE);
        drop(leader);
        assert!(waiting.as_mut().now_or_never().is_some());
        let Some(SharedOutcome::Computed(made)) = follower.outcome() else {
            panic!("it was computed")
        };
        assert_eq!(made.output.to_text(), "it");
        assert!(cache.lock().flights.is_empty());
    }

    #[test]
    fn next_follower_computes_if_the_leader_gives_up() {
        let (cache, clock) = (cache(1_000), ManualClock::new());
        let (first, mut second) = (join(&cache, &clock), join(&cache, &clock));
        let third = join(&cache, &clock);
        let flight = Arc::clone(second.flight());
        let (mut next, mut last) = (Box::pin(flight.wait()), Box::pin(flight.wait()));
        assert!(next.as_mut().now_or_never().is_none() && last.as_mut().now_or_never().is_none());
        drop(first);
        assert!(last.as_mut().now_or_never().is_none(), "one at a time");
        assert!(next.as_mut().now_or_never().is_some());
        assert!(second.outcome().is_none() && second.permit.is_some(), "it computes");
        // The last one gives up while it waits.
        drop(last);
        drop(third);
        drop(second);
        assert!(cache.lock().flights.is_empty());
        assert!(matches!(
            cache.find(&key(1, &cache.hasher), clock.now(), MayJoin::No),
            Lookup::Leader(_)
        ));
    }

    #[test]
    fn call_that_must_not_wait_is_independent() {
        let (cache, clock) = (cache(1_000), ManualClock::new());
        let _leader = cache.find(&key(1, &cache.hasher), clock.now(), MayJoin::Yes);
        assert!(matches!(
            cache.find(&key(1, &cache.hasher), clock.now(), MayJoin::No),
            Lookup::Independent
        ));
    }

    proptest! {
        #[test]
        fn store_never_exceeds_its_bytes(
            max_bytes in 0usize..4_000,
            steps in prop::collection::vec((0u8..12, 0usize..900, 0u64..20), 1..120),
        ) {
            let (cache, clock) = (cache(max_bytes), ManualClock::new());
            for (n, size, seconds) in steps {
                clock.advance(Duration::from_secs(seconds));
                keep(&cache, n, &"x".repeat(size), clock.now());
                let state = cache.lock();
                prop_assert!(state.store.is_sound());
                prop_assert!(state.store.bytes() <= max_bytes);
                prop_assert!(state.flights.is_empty());
            }
        }
    }
}
