//! Result cache with single-flight: an identical call is answered without running its body.
//!
//! In: a call of a tool that declares `cache`. Out: a cached result, or permission to compute it.
//! Identical calls that arrive during the computation wait for it. If its body fails, they get the
//! same failure, because the same body would fail for each of them. If it ended for a reason of its
//! own (it was cancelled, or its timeout passed), the next of them computes. A failure is never
//! cached, and never causes a stampede.
//!
//! A nested call joins an in-flight computation unless that would deadlock. We keep a wait-for
//! graph and check for cycles before waiting.
//!
//! INVARIANT: the cache never exceeds its bytes. Two calls share a result only if tool, definition,
//! arguments, directory and scope are equal. No lock is held while a call waits.

mod flight;
mod shelf;

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use haft_core::{
    Args, Cache, CallId, DependencyKind, Failure, FailureCode, Label, Output, ToolSpec,
};

use self::{
    flight::{Caller, Ended, Flights, Joining, Leave, Making, Part, lock},
    shelf::{Known, Shelf, weigh},
};
use super::{
    CacheStatus, ExecutionStats, Outcome, Work,
    key::{Asked, Key},
    past_cache, waiting,
};
use crate::{
    event::{Event, WaitReason},
    watch::{after, timed},
};

/// Where results are kept, for a whole runtime.
#[derive(Debug)]
pub(crate) struct Pantry {
    most: usize,
    /// How arguments are hashed: with a key that nobody knows.
    by: ahash::RandomState,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    shelf: Shelf,
    flights: Flights,
}

/// A call that makes a result or waits for it. Dropping it leaves.
struct Seat<'a> {
    pantry: &'a Pantry,
    key: Key,
    making: Arc<Making>,
    /// Whether it came first, and so makes it.
    is_first: bool,
    /// The nested call that waits here.
    nested: Option<CallId>,
}

enum Found<'a> {
    Known(Arc<Known>),
    Missing(Seat<'a>),
    /// Somebody makes it, and this call must not wait for them.
    Alone,
}

impl Pantry {
    pub(crate) fn new(most: usize) -> Self {
        let state = State { shelf: Shelf::new(most), flights: Flights::default() };
        Self { most, by: ahash::RandomState::new(), state: Mutex::new(state) }
    }

    fn find(&self, key: &Key, now: Instant, joining: Joining<'_>) -> Found<'_> {
        let mut state = self.lock();
        let old = match state.shelf.find(key, now) {
            Ok(known) => return Found::Known(known),
            Err(old) => old,
        };
        let part = state.flights.join(key, joining);
        drop(state);
        drop(old);
        let seat = |making, is_first, nested| {
            Found::Missing(Seat { pantry: self, key: key.clone(), making, is_first, nested })
        };
        match part {
            Part::Make(making) => seat(making, true, None),
            Part::Wait(making, nested) => seat(making, false, nested),
            Part::Alone => Found::Alone,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Seat<'_> {
    /// Waits for what comes of it, or for the leave to make it. Who came first makes it first.
    async fn wait(&self) -> Result<Leave<'_>, Ended> {
        if !self.is_first {
            self.making.wait().await;
        }
        let leave = Leave(&self.making);
        match self.making.ended() {
            Some(end) => Err(end),
            None => Ok(leave),
        }
    }

    /// Says who makes it. Said before the body begins: whoever is part of it must not wait for it.
    fn make(&self, caller: Caller) {
        self.making.by(caller);
        self.no_longer_waits();
    }

    fn no_longer_waits(&self) {
        if let Some(call) = &self.nested {
            self.pantry.lock().flights.forget(call, &self.key);
        }
    }

    /// Keeps what was made, and hands it to everybody who waits for it.
    fn made(&self, output: &Output, heard: Label, now: Instant, ttl: Duration) {
        let most = self.pantry.most;
        let bytes = weigh(output, most).map(|bytes| bytes.saturating_add(self.key.weight(most)));
        // Not copied unless somebody wants it: it may be large.
        let known = || Arc::new(Known { output: output.clone(), heard });
        let Some(bytes) = bytes.filter(|bytes| *bytes <= most) else {
            return self.end(self.pantry.lock(), || Ended::Made(known()));
        };
        let known = known();
        let mut state = self.pantry.lock();
        let gone = state.shelf.keep(&self.key, Arc::clone(&known), bytes, after(now, ttl));
        self.end(state, || Ended::Made(known));
        // Freed after the lock, as what was too old.
        drop(gone);
    }

    /// Tells everybody who waits for it how the body failed.
    fn failed(&self, failure: &Failure, heard: Label) {
        let end = || Ended::Failed(Arc::new(failure.retold()), heard);
        self.end(self.pantry.lock(), end);
    }

    /// Hands what came of it to everybody who waits. From here on nobody joins: whoever comes finds it
    /// kept, or makes their own.
    fn end(&self, mut state: MutexGuard<'_, State>, end: impl FnOnce() -> Ended) {
        state.flights.close(&self.key, &self.making);
        drop(state);
        if self.making.here() > 1 {
            self.making.end(end());
        }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut state = self.pantry.lock();
        if self.making.leave() == 0 {
            state.flights.close(&self.key, &self.making);
        }
        if let Some(call) = &self.nested {
            state.flights.forget(call, &self.key);
        }
    }
}

/// Answers a call with what is kept, or lets it make it.
pub(super) async fn through(
    work: &Work<'_>,
    cache: &Cache,
    first: Args,
    course: &mut ExecutionStats,
) -> Outcome {
    let inner = &work.turn.inner;
    let Some(asked) = asked(work, cache) else { return past_cache(work, first, course).await };
    let key = Key::new(asked, &inner.layers.pantry.by);
    let caller = Caller::of(work.cx);
    let joining = match work.cx.depth() {
        0 => Joining::Freely,
        depth if work.cx.call_id().levels() >= depth => Joining::Nested(&caller),
        _ => Joining::Never,
    };
    let seat = match inner.layers.pantry.find(&key, inner.clock.now(), joining) {
        Found::Known(known) => return Ok(hand_out(work, &known, CacheStatus::Hit, course)),
        Found::Alone => {
            tell(work, CacheStatus::Miss, course);
            return past_cache(work, first, course).await;
        }
        Found::Missing(seat) => seat,
    };
    let leave = match seat.is_first {
        true => Ok(Leave(&seat.making)),
        false => match joined(work, &seat, course).await? {
            Some(joined) => joined,
            None => {
                seat.no_longer_waits();
                tell(work, CacheStatus::Miss, course);
                return past_cache(work, first, course).await;
            }
        },
    };
    let leave = match leave {
        Ok(leave) => leave,
        Err(Ended::Made(known)) => return Ok(hand_out(work, &known, CacheStatus::Joined, course)),
        Err(Ended::Failed(failure, heard)) => {
            work.cx.heard(heard);
            tell(work, CacheStatus::Joined, course);
            return Err(failure.retold());
        }
    };
    seat.make(caller);
    tell(work, CacheStatus::Miss, course);
    let outcome = past_cache(work, first, course).await;
    match &outcome {
        // A body that was told to stop may have given what it had; that is not the whole answer. And
        // a ticket is for the run that made it.
        Ok(_) if course.was_hurried || work.cx.is_cancelled() || work.cx.is_deferred() => {}
        Ok(output) => seat.made(output, work.cx.heard_label(), inner.clock.now(), cache.ttl),
        Err(failure) if is_the_body_s(work, failure) => {
            seat.failed(failure, work.cx.heard_label());
        }
        Err(_) => {}
    }
    drop(leave);
    outcome
}

/// Waits for an equal call. A nested call waits only a while, because whoever makes the result may need
/// something that the call it is part of holds; nothing when that was too long.
async fn joined<'a>(
    work: &Work<'_>,
    seat: &'a Seat<'_>,
    course: &mut ExecutionStats,
) -> Result<Option<Result<Leave<'a>, Ended>>, Failure> {
    let inner = &work.turn.inner;
    match &seat.nested {
        None => waiting(work, course, WaitReason::Flight, seat.wait()).await.map(Some),
        Some(_) => {
            let wait = timed(&*inner.clock, inner.config.judge_timeout, seat.wait());
            waiting(work, course, WaitReason::Flight, wait).await
        }
    }
}

/// Returns whether a failure is that of the body, which would fail for an equal call too, and not that
/// of this one call: of its time, its turn, its budget, or what it may do.
fn is_the_body_s(work: &Work<'_>, failure: &Failure) -> bool {
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

fn hand_out(
    work: &Work<'_>,
    known: &Known,
    how: CacheStatus,
    course: &mut ExecutionStats,
) -> Output {
    // Whoever reads it reads what the first call had heard.
    work.cx.heard(known.heard);
    tell(work, how, course);
    known.output.clone()
}

fn tell(work: &Work<'_>, how: CacheStatus, course: &mut ExecutionStats) {
    course.cache = Some(how);
    work.turn.tell(|| Event::Cached { call: work.cx.call_id().clone(), how });
}

/// Returns what the result of a call is kept under; nothing for a call that must run.
fn asked(work: &Work<'_>, cache: &Cache) -> Option<Asked> {
    let (entry, cx) = (work.entry, work.cx);
    let admitted = work.permitted.admitted();
    // FAIL CLOSED: what this one call would change happens each time, whatever the tool declares.
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
            None => ("nobody", ""),
        },
    };
    Some(Asked {
        tool: entry.registered().clone(),
        source: Arc::clone(entry.shared_source()),
        definition: *entry.raw_hash(),
        arguments: Arc::clone(admitted.arguments()),
        folder: Arc::clone(&cx.scope().working_directory),
        scope: (kind, whose.into()),
    })
}

/// Returns whether results of a tool that names no scope stay within their run: what the host supplies
/// per run may be somebody's account.
pub(super) fn is_per_run(spec: &ToolSpec) -> bool {
    spec.needs.iter().any(|need| need.kind == DependencyKind::Side)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use proptest::prelude::*;

    use super::{super::key::tests::key, *};
    use crate::clock::{Clock as _, ManualClock};

    const MINUTE: Duration = Duration::from_secs(60);

    fn keep(pantry: &Pantry, n: u8, text: &str, now: Instant) {
        let Found::Missing(seat) = pantry.find(&key(n, &pantry.by), now, Joining::Freely) else {
            return;
        };
        seat.made(&Output::text(text), Label::CLEAN, now, MINUTE);
    }

    fn has(pantry: &Pantry, n: u8, now: Instant) -> bool {
        matches!(pantry.find(&key(n, &pantry.by), now, Joining::Freely), Found::Known(_))
    }

    #[test]
    fn what_is_kept_is_kept_for_its_time() {
        let (pantry, clock) = (Pantry::new(10_000), ManualClock::new());
        keep(&pantry, 1, "one", clock.now());
        clock.advance(MINUTE - Duration::from_nanos(1));
        assert!(has(&pantry, 1, clock.now()));
        clock.advance(Duration::from_nanos(1));
        assert!(!has(&pantry, 1, clock.now()));
        assert_eq!(pantry.lock().shelf.bytes(), 0, "what is too old is let go");
    }

    #[test]
    fn what_was_used_longest_ago_goes_first_and_what_is_too_large_is_not_kept() {
        let key = key(1, &ahash::RandomState::new()).weight(usize::MAX);
        let (pantry, clock) = (Pantry::new(3 * (shelf::OVERHEAD + 200 + key)), ManualClock::new());
        let now = clock.now();
        for n in [1, 2, 3] {
            keep(&pantry, n, &"x".repeat(100), now);
        }
        assert!(has(&pantry, 1, now));
        keep(&pantry, 4, &"x".repeat(100), now);
        let kept = [1, 2, 3, 4].map(|n| has(&pantry, n, now));
        assert_eq!(kept, [true, false, true, true]);
        keep(&pantry, 5, &"x".repeat(5_000), now);
        assert!(!has(&pantry, 5, now) && has(&pantry, 1, now), "it pushed nobody out");
        let none = Pantry::new(0);
        keep(&none, 1, "", now);
        assert!(!has(&none, 1, now));
    }

    #[test]
    fn who_waits_is_given_what_was_made_even_when_it_is_not_kept() {
        let (pantry, clock) = (Pantry::new(0), ManualClock::new());
        let seat = || match pantry.find(&key(1, &pantry.by), clock.now(), Joining::Freely) {
            Found::Missing(seat) => seat,
            Found::Known(_) | Found::Alone => panic!("nothing can be kept here"),
        };
        let (leader, follower) = (seat(), seat());
        let place = leader.wait().now_or_never().unwrap().unwrap();
        let mut waiting = Box::pin(follower.wait());
        assert!(waiting.as_mut().now_or_never().is_none());
        leader.made(&Output::text("it"), Label::CLEAN, clock.now(), MINUTE);
        drop(place);
        let Ended::Made(made) = waiting.as_mut().now_or_never().unwrap().unwrap_err() else {
            panic!("it was made")
        };
        assert_eq!(made.output.to_text(), "it");
        assert!(pantry.lock().flights.is_empty());
    }

    #[test]
    fn when_the_first_comes_to_nothing_the_next_makes_it_and_nobody_is_left_behind() {
        let (pantry, clock) = (Pantry::new(1_000), ManualClock::new());
        let seat = || match pantry.find(&key(1, &pantry.by), clock.now(), Joining::Freely) {
            Found::Missing(seat) => seat,
            Found::Known(_) | Found::Alone => panic!("nothing is kept yet"),
        };
        let (first, second, third) = (seat(), seat(), seat());
        let place = first.wait().now_or_never().unwrap().unwrap();
        let (mut next, mut last) = (Box::pin(second.wait()), Box::pin(third.wait()));
        assert!(next.as_mut().now_or_never().is_none() && last.as_mut().now_or_never().is_none());
        drop(place);
        drop(first);
        assert!(last.as_mut().now_or_never().is_none(), "one at a time");
        let place = next.as_mut().now_or_never().unwrap().unwrap();
        // Given up while it waits: the list forgets it.
        drop(last);
        drop(third);
        drop(place);
        drop(next);
        drop(second);
        assert!(pantry.lock().flights.is_empty());
        assert!(matches!(
            pantry.find(&key(1, &pantry.by), clock.now(), Joining::Never),
            Found::Missing(_)
        ));
    }

    fn caller(call: &str) -> Caller {
        Caller::named(call)
    }

    #[test]
    fn a_circle_is_seen_however_long_it_is_and_nobody_is_left_on_the_list() {
        let (pantry, clock) = (Pantry::new(1_000), ManualClock::new());
        let find =
            |n: u8, joining: Joining<'_>| pantry.find(&key(n, &pantry.by), clock.now(), joining);
        let mut seats = Vec::new();
        for n in 1..=5 {
            let Found::Missing(seat) = find(n, Joining::Freely) else { panic!("nobody makes it") };
            seat.make(caller(&format!("c{n}")));
            seats.push(seat);
        }
        // A part of each waits for what the next one makes.
        for n in 1..5 {
            let part = caller(&format!("c{n}>1"));
            let Found::Missing(seat) = find(n + 1, Joining::Nested(&part)) else {
                panic!("no circle yet")
            };
            seats.push(seat);
        }
        let is_alone =
            |n, call: &str| matches!(find(n, Joining::Nested(&caller(call))), Found::Alone);
        for n in 1..=5 {
            assert!(is_alone(n, "c5>1>1"), "the last one waits for nobody of those before it");
        }
        assert!(is_alone(1, "c1>2") && is_alone(1, "c3>1") && !is_alone(5, "c1>2"));
        let other = caller("c5>1").in_turn(2);
        assert!(matches!(find(1, Joining::Nested(&other)), Found::Missing(_)), "another turn");
        assert_eq!(pantry.lock().flights.nested(), 4, "who does not wait is not on the list");
        drop(seats);
        assert_eq!(pantry.lock().flights.nested(), 0);
        assert!(pantry.lock().flights.is_empty());
    }

    #[test]
    fn only_so_many_nested_calls_wait() {
        let (pantry, clock) = (Pantry::new(1_000), ManualClock::new());
        let _leader = pantry.find(&key(1, &pantry.by), clock.now(), Joining::Freely);
        let all: Vec<_> = (0..2 * flight::MOST_NESTED)
            .map(|n| {
                let part = caller(&format!("c{n}>1"));
                pantry.find(&key(1, &pantry.by), clock.now(), Joining::Nested(&part))
            })
            .collect();
        let waiting = all.iter().filter(|found| matches!(found, Found::Missing(_))).count();
        assert_eq!(waiting, flight::MOST_NESTED);
    }

    #[test]
    fn who_must_not_wait_goes_alone() {
        let (pantry, clock) = (Pantry::new(1_000), ManualClock::new());
        let _leader = pantry.find(&key(1, &pantry.by), clock.now(), Joining::Freely);
        assert!(matches!(
            pantry.find(&key(1, &pantry.by), clock.now(), Joining::Never),
            Found::Alone
        ));
    }

    proptest! {
        #[test]
        fn no_more_is_kept_than_there_are_bytes(
            most in 0usize..4_000,
            steps in prop::collection::vec((0u8..12, 0usize..900, 0u64..20), 1..120),
        ) {
            let (pantry, clock) = (Pantry::new(most), ManualClock::new());
            for (n, size, seconds) in steps {
                clock.advance(Duration::from_secs(seconds));
                keep(&pantry, n, &"x".repeat(size), clock.now());
                let state = pantry.lock();
                prop_assert!(state.shelf.is_sound());
                prop_assert!(state.shelf.bytes() <= most);
                prop_assert!(state.flights.is_empty());
            }
        }
    }
}
