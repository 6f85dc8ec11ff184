//! Keeps successful results for a while: the same call is answered again without its body.
//!
//! In: a call of a tool that declares `cache`. Out: what is kept for it, or the leave to make it.
//! Equal calls that come while one is being made wait for that one. If its body fails, they are told
//! the same: the same body would fail for them, one after the other. If it came to nothing for a
//! reason of its own (it was cancelled, or its own time was over), the next of them makes its own
//! attempt. A failure is never kept, and never makes a rush.
//!
//! A nested call waits like any other, unless whoever makes the result waits for it in turn: those
//! who wait and those who make are known, so a circle is seen before anybody stands in it.
//!
//! INVARIANT: what is kept never takes more than its bytes. Two calls share a result only if their
//! tool, its definition, their arguments, their folder and their scope are the same. No lock is held
//! while anybody waits.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use haft_core::{
    Args, Block, Cache, CallId, Code, Context, Failure, Label, NeedKind, Output, RunId, Spec,
};
use tokio::sync::Semaphore;

use super::{
    CacheUse, Course, Outcome, Work,
    key::{self, Asked, Key},
    past_cache, waiting,
};
use crate::{
    event::{Event, Wait},
    watch::{after, timed},
    weight::weight_of,
};

/// A result as it is kept: the output, and the label of what its call had heard beside its own.
#[derive(Debug)]
pub(crate) struct Known {
    output: Output,
    heard: Label,
}

/// Where results are kept, for a whole runtime.
#[derive(Debug)]
pub(crate) struct Pantry {
    most: usize,
    /// How arguments are hashed: with a key that nobody knows.
    by: ahash::RandomState,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    kept: HashMap<Key, Kept, key::Kept>,
    /// Who was used when, oldest first. Only the last mention of a key counts.
    order: VecDeque<(Key, u64)>,
    uses: u64,
    bytes: usize,
    making: HashMap<Key, Arc<Making>, key::Kept>,
    /// The nested calls that wait, and for what.
    nested: Vec<(Caller, Key)>,
}

#[derive(Debug)]
struct Kept {
    known: Arc<Known>,
    until: Instant,
    bytes: usize,
    used: u64,
}

/// A result that is being made. Whoever has the one place makes it; the first has it from the start.
#[derive(Debug)]
struct Making {
    place: Semaphore,
    /// What came of it, for those who wait.
    end: OnceLock<Ended>,
    maker: Mutex<Option<Caller>>,
    /// How many make it or wait for it; changed under the lock of the pantry alone.
    here: AtomicUsize,
}

/// What came of a result that others waited for.
#[derive(Debug, Clone)]
enum Ended {
    Made(Arc<Known>),
    /// The body failed, and would fail for them.
    Failed(Arc<Failure>, Label),
}

/// Who makes a result or waits for it. Ids repeat from run to run; where two calls are taken for one,
/// somebody does not wait who could have.
#[derive(Debug, Clone)]
struct Caller {
    run: RunId,
    cycle: u32,
    call: CallId,
}

impl Caller {
    fn of(cx: &Context) -> Self {
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
enum Joining<'a> {
    /// It is part of no call, so nobody who makes a result can be waiting for it.
    Freely,
    /// It is part of a call. It may wait where that makes no circle.
    Nested(&'a Caller),
    /// It is part of a call that its id does not tell, as in a run below another.
    Never,
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

/// The leave to make a result. Dropping it gives it to whoever waits longest.
#[derive(Debug)]
struct Leave<'a>(&'a Making);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.place.add_permits(1);
    }
}

enum Found<'a> {
    Known(Arc<Known>),
    Missing(Seat<'a>),
    /// Somebody makes it, and this call must not wait for them.
    Alone,
}

/// What one kept result costs beside its data: its key, its places in the map and in the order.
const OVERHEAD: usize = 256;
/// So many nested calls wait at most; each is looked at when another one comes. More go alone.
const MOST_NESTED: usize = 64;

impl Pantry {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, by: ahash::RandomState::new(), state: Mutex::default() }
    }

    fn find(&self, key: &Key, now: Instant, joining: Joining<'_>) -> Found<'_> {
        let mut state = self.lock();
        let mut old = None;
        if let Some(kept) = state.kept.get(key) {
            if now < kept.until {
                let known = Arc::clone(&kept.known);
                state.touch(key);
                return Found::Known(known);
            }
            old = state.remove(key);
        }
        let found = match state.making.get(key) {
            Some(_) if !state.may_join(key, joining) => Found::Alone,
            Some(making) => {
                let making = Arc::clone(making);
                making.here.fetch_add(1, Ordering::Relaxed);
                let nested = match joining {
                    Joining::Nested(caller) => {
                        state.nested.push((caller.clone(), key.clone()));
                        Some(caller.call.clone())
                    }
                    Joining::Freely | Joining::Never => None,
                };
                Found::Missing(Seat {
                    pantry: self,
                    key: key.clone(),
                    making,
                    is_first: false,
                    nested,
                })
            }
            None => {
                let making = Arc::new(Making::new());
                state.making.insert(key.clone(), Arc::clone(&making));
                let (is_first, nested) = (true, None);
                Found::Missing(Seat { pantry: self, key: key.clone(), making, is_first, nested })
            }
        };
        drop(state);
        // Freed after the lock: it may be large.
        drop(old);
        found
    }

    /// Keeps a result, unless it is larger than all there is room for.
    fn keep(&self, key: &Key, known: Arc<Known>, bytes: usize, until: Instant) {
        let mut gone = Vec::new();
        let mut state = self.lock();
        gone.extend(state.remove(key));
        if bytes <= self.most {
            while state.bytes > self.most - bytes {
                let Some((oldest, used)) = state.order.pop_front() else { break };
                if state.kept.get(&oldest).is_some_and(|kept| kept.used == used) {
                    gone.extend(state.remove(&oldest));
                }
            }
            state.bytes += bytes;
            state.uses += 1;
            let used = state.uses;
            state.kept.insert(key.clone(), Kept { known, until, bytes, used });
            state.mention(key.clone(), used);
        }
        drop(state);
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// Notes that something was used.
    fn touch(&mut self, key: &Key) {
        self.uses += 1;
        let used = self.uses;
        let Some(kept) = self.kept.get_mut(key) else { return };
        kept.used = used;
        self.mention(key.clone(), used);
    }

    fn mention(&mut self, key: Key, used: u64) {
        self.order.push_back((key, used));
        // Old mentions are let go when they are the larger part, so each costs its share once.
        if self.order.len() > 2 * self.kept.len() + 64 {
            let kept = &self.kept;
            self.order.retain(|(key, used)| kept.get(key).is_some_and(|k| k.used == *used));
        }
    }

    fn remove(&mut self, key: &Key) -> Option<Kept> {
        let kept = self.kept.remove(key)?;
        self.bytes -= kept.bytes;
        Some(kept)
    }
}

impl State {
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
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seat<'_> {
    /// Waits for what comes of it, or for the leave to make it. Who came first makes it first.
    async fn wait(&self) -> Result<Leave<'_>, Ended> {
        if !self.is_first {
            // The place closes only once there is an end.
            if let Ok(place) = self.making.place.acquire().await {
                place.forget();
            }
        }
        let leave = Leave(&self.making);
        match self.making.end.get() {
            Some(end) => Err(end.clone()),
            None => Ok(leave),
        }
    }

    /// Says who makes it. Said before the body begins: whoever is part of it must not wait for it.
    fn make(&self, caller: Caller) {
        *lock(&self.making.maker) = Some(caller);
        self.no_longer_waits(&mut self.pantry.lock());
    }

    fn no_longer_waits(&self, state: &mut State) {
        let Some(call) = &self.nested else { return };
        let is_own = |(caller, key): &(Caller, Key)| caller.call == *call && *key == self.key;
        if let Some(at) = state.nested.iter().position(is_own) {
            state.nested.swap_remove(at);
        }
    }

    /// Keeps what was made, and hands it to everybody who waits for it.
    fn made(&self, output: &Output, heard: Label, now: Instant, ttl: Duration) {
        let most = self.pantry.most;
        let bytes = weigh(output, most)
            .map(|bytes| bytes.saturating_add(self.key.weight(most)))
            .filter(|bytes| *bytes <= most);
        let known = || Arc::new(Known { output: output.clone(), heard });
        let kept = bytes.map(|bytes| {
            let known = known();
            self.pantry.keep(&self.key, Arc::clone(&known), bytes, after(now, ttl));
            known
        });
        self.end(|| Ended::Made(kept.unwrap_or_else(known)));
    }

    /// Tells everybody who waits for it how the body failed.
    fn failed(&self, failure: &Failure, heard: Label) {
        self.end(|| Ended::Failed(Arc::new(failure.retold()), heard));
    }

    /// Hands what came of it to everybody who waits.
    fn end(&self, end: impl FnOnce() -> Ended) {
        // From here on nobody joins; whoever comes finds it kept, or makes their own.
        let waiting = self.leave_open();
        if waiting > 1 {
            let _ = self.making.end.set(end());
            self.making.place.close();
        }
    }

    /// Takes the result off the list of those being made; returns how many make it or wait for it.
    fn leave_open(&self) -> usize {
        let mut state = self.pantry.lock();
        let is_this = |making: &Arc<Making>| Arc::ptr_eq(making, &self.making);
        if state.making.get(&self.key).is_some_and(is_this) {
            state.making.remove(&self.key);
        }
        self.making.here.load(Ordering::Relaxed)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut state = self.pantry.lock();
        let left = self.making.here.fetch_sub(1, Ordering::Relaxed) - 1;
        let is_this = |making: &Arc<Making>| Arc::ptr_eq(making, &self.making);
        if left == 0 && state.making.get(&self.key).is_some_and(is_this) {
            state.making.remove(&self.key);
        }
        self.no_longer_waits(&mut state);
    }
}

/// Answers a call with what is kept, or lets it make it.
pub(super) async fn through(
    work: &Work<'_>,
    cache: &Cache,
    first: Args,
    course: &mut Course,
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
        Found::Known(known) => return Ok(hand_out(work, &known, CacheUse::Hit, course)),
        Found::Alone => {
            tell(work, CacheUse::Miss, course);
            return past_cache(work, first, course).await;
        }
        Found::Missing(seat) => seat,
    };
    let leave = match seat.is_first {
        true => Ok(Leave(&seat.making)),
        false => match joined(work, &seat, course).await? {
            Some(joined) => joined,
            None => {
                seat.no_longer_waits(&mut inner.layers.pantry.lock());
                tell(work, CacheUse::Miss, course);
                return past_cache(work, first, course).await;
            }
        },
    };
    let leave = match leave {
        Ok(leave) => leave,
        Err(Ended::Made(known)) => return Ok(hand_out(work, &known, CacheUse::Joined, course)),
        Err(Ended::Failed(failure, heard)) => {
            work.cx.heard(heard);
            tell(work, CacheUse::Joined, course);
            return Err(failure.retold());
        }
    };
    seat.make(caller);
    tell(work, CacheUse::Miss, course);
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
    course: &mut Course,
) -> Result<Option<Result<Leave<'a>, Ended>>, Failure> {
    let inner = &work.turn.inner;
    match &seat.nested {
        None => waiting(work, course, Wait::Flight, seat.wait()).await.map(Some),
        Some(_) => {
            let wait = timed(&*inner.clock, inner.config.judge_timeout, seat.wait());
            waiting(work, course, Wait::Flight, wait).await
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
            Code::ToolFailed
                | Code::InvalidValue
                | Code::Panicked
                | Code::BadOutput
                | Code::TimedOut
        )
}

fn hand_out(work: &Work<'_>, known: &Known, how: CacheUse, course: &mut Course) -> Output {
    // Whoever reads it reads what the first call had heard.
    work.cx.heard(known.heard);
    tell(work, how, course);
    known.output.clone()
}

fn tell(work: &Work<'_>, how: CacheUse, course: &mut Course) {
    course.cache = Some(how);
    work.turn.tell(|| Event::Cached { call: work.cx.call_id().clone(), how });
}

/// Returns what the result of a call is kept under; nothing for a call that must run.
fn asked(work: &Work<'_>, cache: &Cache) -> Option<Asked> {
    let (entry, cx) = (work.entry, work.cx);
    let admitted = work.permitted.admitted();
    // FAIL CLOSED: what this one call would change happens each time, whatever the tool declares.
    if !admitted.claim().read_only && entry.spec().idempotent != Some(true) {
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
pub(super) fn is_per_run(spec: &Spec) -> bool {
    spec.needs.iter().any(|need| need.kind == NeedKind::Side)
}

/// Returns how many bytes an output takes, about; nothing when that is more than so many.
fn weigh(output: &Output, most: usize) -> Option<usize> {
    let mut bytes = OVERHEAD + output.blocks.len() * size_of::<Block>();
    if let Some(data) = &output.structured {
        bytes = bytes.saturating_add(weight_of(data, most));
    }
    for block in &output.blocks {
        bytes = bytes.saturating_add(match block {
            Block::Text { text } => text.len(),
            Block::Image { data, media_type } | Block::Audio { data, media_type } => {
                data.len() + media_type.len()
            }
            Block::Link { uri, name, media_type } => {
                uri.len() + name.len() + media_type.as_ref().map_or(0, String::len)
            }
            Block::Json { json } => weight_of(json, most),
        });
    }
    (bytes <= most).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use proptest::prelude::*;
    use serde_json::json;

    use super::{key::tests::key, *};
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
        assert_eq!(pantry.lock().bytes, 0, "what is too old is let go");
    }

    #[test]
    fn what_was_used_longest_ago_goes_first_and_what_is_too_large_is_not_kept() {
        let key = key(1, &ahash::RandomState::new()).weight(usize::MAX);
        let (pantry, clock) = (Pantry::new(3 * (OVERHEAD + 200 + key)), ManualClock::new());
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
        assert!(pantry.lock().making.is_empty());
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
        assert!(pantry.lock().making.is_empty());
        assert!(matches!(
            pantry.find(&key(1, &pantry.by), clock.now(), Joining::Never),
            Found::Missing(_)
        ));
    }

    fn caller(call: &str) -> Caller {
        Caller { run: "r".into(), cycle: 1, call: call.into() }
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
        let other = Caller { cycle: 2, ..caller("c5>1") };
        assert!(matches!(find(1, Joining::Nested(&other)), Found::Missing(_)), "another turn");
        assert_eq!(pantry.lock().nested.len(), 4, "who does not wait is not on the list");
        drop(seats);
        assert!(pantry.lock().nested.is_empty() && pantry.lock().making.is_empty());
    }

    #[test]
    fn only_so_many_nested_calls_wait() {
        let (pantry, clock) = (Pantry::new(1_000), ManualClock::new());
        let _leader = pantry.find(&key(1, &pantry.by), clock.now(), Joining::Freely);
        let all: Vec<_> = (0..2 * MOST_NESTED)
            .map(|n| {
                let part = caller(&format!("c{n}>1"));
                pantry.find(&key(1, &pantry.by), clock.now(), Joining::Nested(&part))
            })
            .collect();
        let waiting = all.iter().filter(|found| matches!(found, Found::Missing(_))).count();
        assert_eq!(waiting, MOST_NESTED);
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

    #[test]
    fn everything_in_an_output_has_weight() {
        let nested = json!({"key": ["text", {"deep": [1, 2, null]}]});
        let output = Output { blocks: vec![Block::text("abc")], structured: Some(nested) };
        let all = weigh(&output, usize::MAX).unwrap();
        assert!(all > OVERHEAD + 7 * size_of::<serde_json::Value>());
        assert_eq!(weigh(&output, all), Some(all));
        assert_eq!(weigh(&output, all - 1), None);
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
                let bytes: usize = state.kept.values().map(|kept| kept.bytes).sum();
                prop_assert_eq!(bytes, state.bytes);
                prop_assert!(bytes <= most);
                prop_assert!(state.order.len() <= 2 * state.kept.len() + 65);
                prop_assert!(state.making.is_empty());
            }
        }
    }
}
