//! Keeps successful results for a while: the same call is answered again without its body.
//!
//! In: a call of a tool that declares `cache`. Out: what is kept for it, or the leave to make it.
//! Equal calls that come while one is being made wait for that one; if it comes to nothing, the next
//! of them makes its own attempt, so that a failure is never handed on and never makes a rush.
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

use haft_core::{Args, Block, Cache, Label, NeedKind, Output};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    CacheUse, Course, Outcome, Work,
    key::{self, Asked, Key},
    past_cache,
};
use crate::{event::Event, watch::after, weight::weight_of};

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
}

#[derive(Debug)]
struct Kept {
    known: Arc<Known>,
    until: Instant,
    bytes: usize,
    used: u64,
}

/// A result that is being made. Whoever has the one place makes it.
#[derive(Debug)]
struct Making {
    place: Semaphore,
    made: OnceLock<Arc<Known>>,
    /// How many make it or wait for it; changed under the lock of the pantry alone.
    here: AtomicUsize,
}

/// A call that makes a result or waits for it. Dropping it leaves.
struct Seat<'a> {
    pantry: &'a Pantry,
    key: Key,
    making: Arc<Making>,
}

enum Found<'a> {
    Known(Arc<Known>),
    Missing(Seat<'a>),
    /// Somebody makes it, and this call must not wait for them.
    Alone,
}

/// What one kept result costs beside its data: its key, its places in the map and in the order.
const OVERHEAD: usize = 256;

impl Pantry {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, by: ahash::RandomState::new(), state: Mutex::default() }
    }

    fn find(&self, key: Key, now: Instant, may_wait: bool) -> Found<'_> {
        let mut state = self.lock();
        let mut old = None;
        if let Some(kept) = state.kept.get(&key) {
            if now < kept.until {
                let known = Arc::clone(&kept.known);
                state.touch(&key);
                return Found::Known(known);
            }
            old = state.remove(&key);
        }
        let found = match state.making.get(&key) {
            Some(_) if !may_wait => Found::Alone,
            making => {
                let making = making.cloned().unwrap_or_else(|| Arc::new(Making::new()));
                making.here.fetch_add(1, Ordering::Relaxed);
                state.making.entry(key.clone()).or_insert_with(|| Arc::clone(&making));
                Found::Missing(Seat { pantry: self, key, making })
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Making {
    fn new() -> Self {
        Self { place: Semaphore::new(1), made: OnceLock::new(), here: AtomicUsize::new(0) }
    }
}

impl Seat<'_> {
    /// Waits for the result, or for the leave to make it. Who came first makes it first.
    async fn wait(&self) -> Result<Option<SemaphorePermit<'_>>, Arc<Known>> {
        let place = self.making.place.acquire().await;
        match self.making.made.get() {
            Some(made) => Err(Arc::clone(made)),
            // The place closes only once it is made, so this is the leave.
            None => Ok(place.ok()),
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
        // From here on nobody joins; whoever comes finds it kept, or makes their own.
        let waiting = self.leave_open();
        if waiting > 1 {
            let _ = self.making.made.set(kept.unwrap_or_else(known));
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
    let began = inner.clock.now();
    // A nested call waits for nobody: whoever makes the result may be waiting for it.
    let may_wait = work.cx.depth() == 0;
    let seat = match inner.layers.pantry.find(key, began, may_wait) {
        Found::Known(known) => return Ok(hand_out(work, &known, CacheUse::Hit, course)),
        Found::Alone => {
            tell(work, CacheUse::Miss, course);
            return past_cache(work, first, course).await;
        }
        Found::Missing(seat) => seat,
    };
    let leave = match seat.making.place.try_acquire() {
        Ok(place) if seat.making.made.get().is_none() => Ok(Some(place)),
        _ => {
            let leave = work.turn.waiting(work.cx, work.deadline, seat.wait()).await;
            let time = inner.clock.now().saturating_duration_since(began);
            course.waited = course.waited.saturating_add(time);
            leave?
        }
    };
    let _place = match leave {
        Ok(place) => place,
        Err(known) => return Ok(hand_out(work, &known, CacheUse::Joined, course)),
    };
    tell(work, CacheUse::Miss, course);
    let outcome = past_cache(work, first, course).await;
    if let Ok(output) = &outcome
        // A body that was told to stop may have given what it had; that is not the whole answer. And
        // a ticket is for the run that made it.
        && !(course.was_hurried || work.cx.is_cancelled() || work.cx.is_deferred())
    {
        seat.made(output, work.cx.heard_label(), inner.clock.now(), cache.ttl);
    }
    outcome
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
        // What the host supplies per run may be somebody's account.
        None if entry.spec().needs.iter().any(|need| need.kind == NeedKind::Side) => {
            ("run", cx.run_id().as_str())
        }
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
        let Found::Missing(seat) = pantry.find(key(n, &pantry.by), now, true) else { return };
        seat.made(&Output::text(text), Label::CLEAN, now, MINUTE);
    }

    fn has(pantry: &Pantry, n: u8, now: Instant) -> bool {
        matches!(pantry.find(key(n, &pantry.by), now, true), Found::Known(_))
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
        let seat = || match pantry.find(key(1, &pantry.by), clock.now(), true) {
            Found::Missing(seat) => seat,
            Found::Known(_) | Found::Alone => panic!("nothing can be kept here"),
        };
        let (leader, follower) = (seat(), seat());
        let place = leader.wait().now_or_never().unwrap().unwrap();
        let mut waiting = Box::pin(follower.wait());
        assert!(waiting.as_mut().now_or_never().is_none());
        leader.made(&Output::text("it"), Label::CLEAN, clock.now(), MINUTE);
        drop(place);
        let made = waiting.as_mut().now_or_never().unwrap().unwrap_err();
        assert_eq!(made.output.to_text(), "it");
        assert!(pantry.lock().making.is_empty());
    }

    #[test]
    fn when_the_first_comes_to_nothing_the_next_makes_it_and_nobody_is_left_behind() {
        let (pantry, clock) = (Pantry::new(1_000), ManualClock::new());
        let seat = || match pantry.find(key(1, &pantry.by), clock.now(), true) {
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
        assert!(place.is_some());
        // Given up while it waits: the list forgets it.
        drop(last);
        drop(third);
        drop(place);
        drop(next);
        drop(second);
        assert!(pantry.lock().making.is_empty());
        assert!(matches!(pantry.find(key(1, &pantry.by), clock.now(), false), Found::Missing(_)));
    }

    #[test]
    fn who_must_not_wait_goes_alone() {
        let (pantry, clock) = (Pantry::new(1_000), ManualClock::new());
        let _leader = pantry.find(key(1, &pantry.by), clock.now(), true);
        assert!(matches!(pantry.find(key(1, &pantry.by), clock.now(), false), Found::Alone));
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
