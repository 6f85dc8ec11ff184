//! Rate limit: calls wait in a queue, as long as their deadline allows (token bucket, FIFO).
//!
//! In: a rate, a moment, a deadline. Out: a place in the queue, or how long the wait would be. The
//! bucket holds one window of tokens and refills evenly. Only the first in the queue has a timer,
//! so a queue of any length needs one timer and no polling, and an abandoned wait does not delay
//! the others.
//!
//! Our own code, because waiting is FIFO with deadlines and uses the runtime's clock.
//!
//! INVARIANT: in any time span at most `count` calls pass, plus the refill of that span, even if
//! the clock jumps. No lock is held while a call waits.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use haft_core::{Failure, FailureCode, Rate, sync::lock};
use tokio::sync::Notify;

use crate::{
    clock::{Clock, after},
    text::in_words,
};

/// Threads may arrive here in another order than they read the clock. An earlier moment within this
/// span is not a clock that was set back, so that no time is counted twice.
const MAX_REORDERING: Duration = Duration::from_secs(1);

/// The rate limiter of one tool, or of all tools together.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    rate: Rate,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The latest moment that was seen.
    last: Option<Instant>,
    /// How much time has passed since the first call.
    gone: Duration,
    /// When the bucket would be full again, in parts: a nanosecond has `count` of them, and a call
    /// costs as many as the window has nanoseconds. So no rate is rounded.
    full: u128,
    waiting: BTreeMap<u64, Arc<Notify>>,
    arrived: u64,
}

/// The answer to a call that needs a token.
#[derive(Debug)]
pub(crate) enum Acquire {
    /// The queue is empty and there is a token: the call has passed.
    Passed,
    /// It is in the queue.
    Wait(QueueSlot),
    /// It would still wait at its deadline, so it does not enter the queue.
    TooLong(Duration),
}

/// A slot in the queue. Dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct QueueSlot {
    limiter: Arc<RateLimiter>,
    number: u64,
    called: Arc<Notify>,
}

impl RateLimiter {
    pub(crate) fn new(rate: Rate) -> Self {
        // The builders refuse a rate of 0; here it must not be a divisor.
        let rate = Rate { count: rate.count.max(1), ..rate };
        Self { rate, state: Mutex::default() }
    }

    /// Takes a token, or a slot in the queue.
    pub(crate) fn acquire(self: &Arc<Self>, now: Instant, deadline: Instant) -> Acquire {
        let mut state = self.lock();
        let before = state.waiting.len();
        let wait = self.wait(&mut state, now, before);
        if before == 0 && wait.is_zero() {
            self.pass(&mut state, now);
            return Acquire::Passed;
        }
        if after(now, wait) >= deadline {
            return Acquire::TooLong(wait);
        }
        state.arrived += 1;
        let number = state.arrived;
        let called = Arc::new(Notify::new());
        state.waiting.insert(number, Arc::clone(&called));
        Acquire::Wait(QueueSlot { limiter: Arc::clone(self), number, called })
    }

    /// Returns the last token, which was not used.
    pub(crate) fn give_back(&self) {
        let mut state = self.lock();
        state.full = state.full.saturating_sub(self.price());
        notify_first(&state);
    }

    /// How long a call waits that has so many before it in the queue.
    fn wait(&self, state: &mut State, now: Instant, before: usize) -> Duration {
        let now = self.parts(state, now);
        let price = self.price();
        // Once all calls before it have passed, this much must not be owed any more.
        let owed = state.full.max(now).saturating_add(price.saturating_mul(before as u128));
        let credit = price * u128::from(self.rate.count - 1);
        let parts = owed.saturating_sub(credit).saturating_sub(now);
        let nanos = parts.div_ceil(u128::from(self.rate.count));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn pass(&self, state: &mut State, now: Instant) {
        let now = self.parts(state, now);
        state.full = state.full.max(now).saturating_add(self.price());
    }

    fn parts(&self, state: &mut State, now: Instant) -> u128 {
        let last = *state.last.get_or_insert(now);
        if let Some(more) = now.checked_duration_since(last) {
            state.gone = state.gone.saturating_add(more);
            state.last = Some(now);
        } else if last.saturating_duration_since(now) > MAX_REORDERING {
            // The clock went back. What is owed is owed from here on, and not until it catches up.
            state.last = Some(now);
        }
        state.gone.as_nanos().saturating_mul(u128::from(self.rate.count))
    }

    fn price(&self) -> u128 {
        self.rate.per.duration().as_nanos()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Wakes the first in the queue. `Notify` keeps a notification that comes before the wait.
fn notify_first(state: &State) {
    if let Some(called) = state.waiting.values().next() {
        called.notify_one();
    }
}

impl QueueSlot {
    /// Waits until it may pass, and passes.
    pub(crate) async fn wait(self, clock: &dyn Clock) {
        loop {
            let until = {
                let mut state = self.limiter.lock();
                let now = clock.now();
                if state.waiting.keys().next() == Some(&self.number) {
                    let wait = self.limiter.wait(&mut state, now, 0);
                    if wait.is_zero() {
                        self.limiter.pass(&mut state, now);
                        return;
                    }
                    Some(after(now, wait))
                } else {
                    None
                }
            };
            match until {
                None => self.called.notified().await,
                Some(until) => tokio::select! {
                    biased;
                    () = self.called.notified() => {}
                    () = clock.sleep_until(until) => {}
                },
            }
        }
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        let mut state = self.limiter.lock();
        let was_first = state.waiting.keys().next() == Some(&self.number);
        state.waiting.remove(&self.number);
        if was_first {
            notify_first(&state);
        }
    }
}

/// The failure of a call that would still wait at its deadline.
pub(crate) fn refused(limiter: &RateLimiter, tool: Option<&str>, wait: Duration) -> Failure {
    let rate = limiter.rate;
    let who = tool.map_or_else(|| "all tools together".to_owned(), |tool| format!("`{tool}`"));
    let often = match rate.count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    };
    let (per, wait_words) = (rate.per.as_str(), in_words(wait));
    Failure::new(
        FailureCode::RateLimited,
        format!(
            "{who} may be called {often} per {per}; this call would have to wait {wait_words}, \
             longer than its deadline allows, so the tool was not run"
        ),
    )
    .with_next(format!("call it again in {wait_words}"))
    .with_retry_after(wait)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use haft_core::Window;
    use proptest::prelude::*;

    use super::*;
    use crate::clock::ManualClock;

    const SECOND: Duration = Duration::from_secs(1);

    fn limiter(count: u32) -> Arc<RateLimiter> {
        Arc::new(RateLimiter::new(Rate { count, per: Window::Second }))
    }

    fn far(clock: &ManualClock) -> Instant {
        clock.now() + SECOND * 3600
    }

    /// How many pass at once.
    fn burst(limiter: &Arc<RateLimiter>, clock: &ManualClock) -> usize {
        std::iter::from_fn(|| match limiter.acquire(clock.now(), clock.now()) {
            Acquire::Passed => Some(()),
            Acquire::Wait(_) | Acquire::TooLong(_) => None,
        })
        .count()
    }

    fn place(limiter: &Arc<RateLimiter>, clock: &ManualClock) -> QueueSlot {
        match limiter.acquire(clock.now(), far(clock)) {
            Acquire::Wait(place) => place,
            other => panic!("expected to wait, got {other:?}"),
        }
    }

    #[test]
    fn bucket_holds_one_window_and_refills_evenly() {
        let (limiter, clock) = (limiter(4), ManualClock::new());
        assert_eq!(burst(&limiter, &clock), 4);
        clock.advance(SECOND / 4);
        assert_eq!(burst(&limiter, &clock), 1);
        clock.advance(SECOND);
        assert_eq!(burst(&limiter, &clock), 4);
    }

    #[test]
    fn clock_jump_forward_refills_at_most_one_window() {
        let (limiter, clock) = (limiter(3), ManualClock::new());
        assert_eq!(burst(&limiter, &clock), 3);
        let mut waiting: Vec<_> =
            (0..20).map(|_| Box::pin(place(&limiter, &clock).wait(&clock))).collect();
        for wait in &mut waiting {
            assert!(wait.as_mut().now_or_never().is_none());
        }
        clock.advance(SECOND * 86_400);
        // All of them are polled again and again, and still only three pass.
        let mut passed = 0;
        for _ in 0..30 {
            let before = waiting.len();
            waiting.retain_mut(|wait| wait.as_mut().now_or_never().is_none());
            passed += before - waiting.len();
        }
        assert_eq!(passed, 3);
    }

    #[test]
    fn queue_is_fifo_and_an_abandoned_slot_delays_no_other() {
        let (limiter, clock) = (limiter(1), ManualClock::new());
        assert_eq!(burst(&limiter, &clock), 1);
        let mut first = Box::pin(place(&limiter, &clock).wait(&clock));
        let mut second = Box::pin(place(&limiter, &clock).wait(&clock));
        let mut third = Box::pin(place(&limiter, &clock).wait(&clock));
        for wait in [&mut third, &mut second, &mut first] {
            assert!(wait.as_mut().now_or_never().is_none());
        }
        drop(first);
        assert!(second.as_mut().now_or_never().is_none(), "it is its turn, and still early");
        clock.advance(SECOND);
        assert!(third.as_mut().now_or_never().is_none(), "it is not its turn");
        assert!(second.as_mut().now_or_never().is_some());
        assert!(third.as_mut().now_or_never().is_none());
        clock.advance(SECOND);
        assert!(third.as_mut().now_or_never().is_some());
        assert!(limiter.lock().waiting.is_empty());
    }

    #[test]
    fn wait_beyond_the_deadline_is_refused_at_once_and_takes_no_token() {
        let (limiter, clock) = (limiter(1), ManualClock::new());
        assert_eq!(burst(&limiter, &clock), 1);
        let _first = place(&limiter, &clock);
        let late = limiter.acquire(clock.now(), clock.now() + SECOND * 2);
        assert!(matches!(late, Acquire::TooLong(wait) if wait == SECOND * 2), "{late:?}");
        let in_time = limiter.acquire(clock.now(), clock.now() + SECOND * 2 + SECOND / 10);
        assert!(matches!(in_time, Acquire::Wait(_)), "the one refused took no place");
    }

    #[test]
    fn unused_token_can_be_returned() {
        let (limiter, clock) = (limiter(2), ManualClock::new());
        assert_eq!(burst(&limiter, &clock), 2);
        limiter.give_back();
        assert_eq!(burst(&limiter, &clock), 1);
    }

    #[test]
    fn clock_set_back_neither_adds_nor_removes_tokens() {
        let (limiter, clock) = (limiter(2), ManualClock::new());
        let late = clock.now() + SECOND * 86_400;
        let come = |at| matches!(limiter.acquire(at, at), Acquire::Passed);
        assert!(come(late) && come(late) && !come(late));
        let back = clock.now();
        assert!(!come(back), "going back pays nothing");
        assert!(!come(back + SECOND / 4));
        assert!(come(back + SECOND / 2), "and costs nothing: half a second is worth one");
        // Moments that are only out of order are not counted twice.
        let now = back + SECOND;
        assert!(come(now) && !come(now));
        for _ in 0..1_000 {
            assert!(!come(now + SECOND / 4) && !come(now));
        }
    }

    #[test]
    fn largest_rate_and_longest_time_do_not_overflow() {
        let clock = ManualClock::new();
        let limiter = Arc::new(RateLimiter::new(Rate { count: u32::MAX, per: Window::Day }));
        assert!(matches!(limiter.acquire(clock.now(), far(&clock)), Acquire::Passed));
        clock.advance(Duration::MAX);
        assert!(matches!(limiter.acquire(clock.now(), far(&clock)), Acquire::Passed));
        let none = Arc::new(RateLimiter::new(Rate { count: 0, per: Window::Second }));
        assert!(matches!(none.acquire(clock.now(), far(&clock)), Acquire::Passed));
    }

    proptest! {
        #[test]
        fn no_stretch_of_time_lets_more_through_than_its_rate(
            count in 1u32..6,
            steps in prop::collection::vec((0u64..700, 0usize..4), 1..60),
        ) {
            let (limiter, clock) = (limiter(count), ManualClock::new());
            let began = clock.now();
            let mut waiting = Vec::new();
            let mut passed: Vec<Duration> = Vec::new();
            for (millis, come) in steps {
                clock.advance(Duration::from_millis(millis));
                for _ in 0..come {
                    match limiter.acquire(clock.now(), far(&clock)) {
                        Acquire::Passed => passed.push(clock.now() - began),
                        Acquire::Wait(place) => waiting.push(Box::pin(place.wait(&clock))),
                        Acquire::TooLong(_) => {}
                    }
                }
                loop {
                    let before = waiting.len();
                    waiting.retain_mut(|wait| wait.as_mut().now_or_never().is_none());
                    if waiting.len() == before {
                        break;
                    }
                    passed.extend((waiting.len()..before).map(|_| clock.now() - began));
                }
            }
            for (at, from) in passed.iter().enumerate() {
                for (n, to) in passed[at..].iter().enumerate() {
                    let allowed = f64::from(count) * (1.0 + (*to - *from).as_secs_f64());
                    prop_assert!((n + 1) as f64 <= allowed + 1e-6, "{from:?} to {to:?}");
                }
            }
        }
    }
}
