//! Rate limit: calls wait in a queue, as long as their deadline allows (token bucket, FIFO).
//!
//! In: a rate, a moment, a deadline. Out: a place in the queue, or how long the wait would be. The
//! bucket holds one window of tokens and refills evenly. Only the first in the queue has a timer,
//! so a queue of any length needs one timer and no polling, and an abandoned wait does not delay
//! the others.
//!
//! INVARIANT: in any time span at most `count` calls pass, plus the refill of that span, even if
//! the clock jumps. No lock is held while a call waits.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use haft_core::{Failure, FailureCode, Rate};
use tokio::sync::Notify;

use super::{ExecutionStats, Work, in_words, waiting};
use crate::{clock::Clock, event::WaitReason, watch::after};

/// Threads that look at the clock one after the other may come here the other way round. Time that is
/// counted only once cannot add up to more than its rate.
const OUT_OF_ORDER: Duration = Duration::from_secs(1);

/// The line before one tool, or before all of them.
#[derive(Debug)]
pub(crate) struct Line {
    rate: Rate,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The latest moment that was seen.
    last: Option<Instant>,
    /// How much time has gone by since the first call came.
    gone: Duration,
    /// When all credit would be there again, in parts: a nanosecond has `count` of them, and a call
    /// costs as many as the window has nanoseconds. So no rate is rounded.
    full: u128,
    waiting: BTreeMap<u64, Arc<Notify>>,
    came: u64,
}

/// What somebody finds who comes to the line.
#[derive(Debug)]
pub(crate) enum Door<'a> {
    /// Nobody is before them and there is credit: they have passed.
    In,
    /// They stand in line.
    Wait(Place<'a>),
    /// They would still wait at their deadline, so they do not even begin.
    TooLong(Duration),
}

/// A place in line. Dropping it leaves the line.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    line: &'a Line,
    number: u64,
    called: Arc<Notify>,
}

impl Line {
    pub(crate) fn new(rate: Rate) -> Self {
        // Nobody can build a tool or a runtime with a rate of nothing; here it must not divide.
        let rate = Rate { count: rate.count.max(1), ..rate };
        Self { rate, state: Mutex::default() }
    }

    /// Comes to the line.
    pub(crate) fn come(&self, now: Instant, deadline: Instant) -> Door<'_> {
        let mut state = self.lock();
        let before = state.waiting.len();
        let wait = self.wait(&mut state, now, before);
        if before == 0 && wait.is_zero() {
            self.pass(&mut state, now);
            return Door::In;
        }
        if after(now, wait) >= deadline {
            return Door::TooLong(wait);
        }
        state.came += 1;
        let number = state.came;
        let called = Arc::new(Notify::new());
        state.waiting.insert(number, Arc::clone(&called));
        Door::Wait(Place { line: self, number, called })
    }

    /// Takes back the last pass, which was not used after all.
    pub(crate) fn give_back(&self) {
        let mut state = self.lock();
        state.full = state.full.saturating_sub(self.price());
        call_first(&state);
    }

    /// How long somebody waits who has so many before them.
    fn wait(&self, state: &mut State, now: Instant, before: usize) -> Duration {
        let now = self.parts(state, now);
        let price = self.price();
        // Once all before them have passed, this much must not be owed any more.
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
        } else if last.saturating_duration_since(now) > OUT_OF_ORDER {
            // The clock went back. What is owed is owed from here on, and not until it catches up.
            state.last = Some(now);
        }
        state.gone.as_nanos().saturating_mul(u128::from(self.rate.count))
    }

    fn price(&self) -> u128 {
        self.rate.per.duration().as_nanos()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the first in line to look again. A call that comes early is kept for it.
fn call_first(state: &State) {
    if let Some(called) = state.waiting.values().next() {
        called.notify_one();
    }
}

impl Place<'_> {
    /// Waits until it may pass, and passes.
    pub(crate) async fn wait(self, clock: &dyn Clock) {
        loop {
            let until = {
                let mut state = self.line.lock();
                let now = clock.now();
                if state.waiting.keys().next() == Some(&self.number) {
                    let wait = self.line.wait(&mut state, now, 0);
                    if wait.is_zero() {
                        self.line.pass(&mut state, now);
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

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.line.lock();
        let was_first = state.waiting.keys().next() == Some(&self.number);
        state.waiting.remove(&self.number);
        if was_first {
            call_first(&state);
        }
    }
}

/// Takes one attempt through the runtime's line and the tool's own.
pub(super) async fn pass(work: &Work<'_>, course: &mut ExecutionStats) -> Result<(), Failure> {
    let all = work.turn.inner.layers.rate.as_ref();
    let own = work.entry.layers().rate.as_ref();
    if let Some(all) = all {
        stand(work, all, None, course).await?;
    }
    if let Some(own) = own {
        let stood = stand(work, own, Some(work.cx.tool_name().as_str()), course).await;
        if let (Err(_), Some(all)) = (&stood, all) {
            all.give_back();
        }
        stood?;
    }
    Ok(())
}

async fn stand(
    work: &Work<'_>,
    line: &Line,
    tool: Option<&str>,
    course: &mut ExecutionStats,
) -> Result<(), Failure> {
    let clock = &*work.turn.inner.clock;
    match line.come(clock.now(), work.deadline) {
        Door::In => Ok(()),
        Door::TooLong(wait) => Err(refused(line.rate, tool, wait)),
        Door::Wait(place) => waiting(work, course, WaitReason::Rate, place.wait(clock)).await,
    }
}

fn refused(rate: Rate, tool: Option<&str>, wait: Duration) -> Failure {
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

    fn line(count: u32) -> Line {
        Line::new(Rate { count, per: Window::Second })
    }

    fn far(clock: &ManualClock) -> Instant {
        clock.now() + SECOND * 3600
    }

    /// How many pass at once.
    fn burst(line: &Line, clock: &ManualClock) -> usize {
        std::iter::from_fn(|| match line.come(clock.now(), clock.now()) {
            Door::In => Some(()),
            Door::Wait(_) | Door::TooLong(_) => None,
        })
        .count()
    }

    fn place<'a>(line: &'a Line, clock: &ManualClock) -> Place<'a> {
        match line.come(clock.now(), far(clock)) {
            Door::Wait(place) => place,
            other => panic!("expected to wait, got {other:?}"),
        }
    }

    #[test]
    fn a_window_is_a_burst_and_fills_up_evenly() {
        let (line, clock) = (line(4), ManualClock::new());
        assert_eq!(burst(&line, &clock), 4);
        clock.advance(SECOND / 4);
        assert_eq!(burst(&line, &clock), 1);
        clock.advance(SECOND);
        assert_eq!(burst(&line, &clock), 4);
    }

    #[test]
    fn a_jump_forward_is_worth_one_burst() {
        let (line, clock) = (line(3), ManualClock::new());
        assert_eq!(burst(&line, &clock), 3);
        let mut waiting: Vec<_> =
            (0..20).map(|_| Box::pin(place(&line, &clock).wait(&clock))).collect();
        for wait in &mut waiting {
            assert!(wait.as_mut().now_or_never().is_none());
        }
        clock.advance(SECOND * 86_400);
        // Everybody looks, as often as it takes, and still only so many pass.
        let mut passed = 0;
        for _ in 0..30 {
            let before = waiting.len();
            waiting.retain_mut(|wait| wait.as_mut().now_or_never().is_none());
            passed += before - waiting.len();
        }
        assert_eq!(passed, 3);
    }

    #[test]
    fn who_came_first_goes_first_and_who_leaves_holds_nobody_up() {
        let (line, clock) = (line(1), ManualClock::new());
        assert_eq!(burst(&line, &clock), 1);
        let mut first = Box::pin(place(&line, &clock).wait(&clock));
        let mut second = Box::pin(place(&line, &clock).wait(&clock));
        let mut third = Box::pin(place(&line, &clock).wait(&clock));
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
        assert!(line.lock().waiting.is_empty());
    }

    #[test]
    fn a_wait_that_cannot_end_in_time_is_refused_at_once_and_takes_nothing() {
        let (line, clock) = (line(1), ManualClock::new());
        assert_eq!(burst(&line, &clock), 1);
        let _first = place(&line, &clock);
        let late = line.come(clock.now(), clock.now() + SECOND * 2);
        assert!(matches!(late, Door::TooLong(wait) if wait == SECOND * 2), "{late:?}");
        let in_time = line.come(clock.now(), clock.now() + SECOND * 2 + SECOND / 10);
        assert!(matches!(in_time, Door::Wait(_)), "the one refused took no place");
    }

    #[test]
    fn a_pass_that_was_not_used_can_be_given_back() {
        let (line, clock) = (line(2), ManualClock::new());
        assert_eq!(burst(&line, &clock), 2);
        line.give_back();
        assert_eq!(burst(&line, &clock), 1);
    }

    #[test]
    fn a_clock_that_goes_back_neither_gives_nor_takes() {
        let (line, clock) = (line(2), ManualClock::new());
        let late = clock.now() + SECOND * 86_400;
        let come = |at| matches!(line.come(at, at), Door::In);
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
    fn the_largest_rate_and_the_longest_time_do_not_overflow() {
        let clock = ManualClock::new();
        let line = Line::new(Rate { count: u32::MAX, per: Window::Day });
        assert!(matches!(line.come(clock.now(), far(&clock)), Door::In));
        clock.advance(Duration::MAX);
        assert!(matches!(line.come(clock.now(), far(&clock)), Door::In));
        let none = Line::new(Rate { count: 0, per: Window::Second });
        assert!(matches!(none.come(clock.now(), far(&clock)), Door::In));
    }

    proptest! {
        #[test]
        fn no_stretch_of_time_lets_more_through_than_its_rate(
            count in 1u32..6,
            steps in prop::collection::vec((0u64..700, 0usize..4), 1..60),
        ) {
            let (line, clock) = (line(count), ManualClock::new());
            let began = clock.now();
            let mut waiting = Vec::new();
            let mut passed: Vec<Duration> = Vec::new();
            for (millis, come) in steps {
                clock.advance(Duration::from_millis(millis));
                for _ in 0..come {
                    match line.come(clock.now(), far(&clock)) {
                        Door::In => passed.push(clock.now() - began),
                        Door::Wait(place) => waiting.push(Box::pin(place.wait(&clock))),
                        Door::TooLong(_) => {}
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
