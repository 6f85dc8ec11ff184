//! The clock of the runtime.
//!
//! All waits and time measurements use one `Clock`, so that a test, a replay or a simulation can
//! replace it. Durations are measured on `now`, which is monotonic; `wall` is for data that
//! outlives the process.
//!
//! INVARIANT: no other code in this crate reads the time or sleeps.

use std::{
    collections::BTreeMap,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
    time::{Duration, Instant, SystemTime},
};

use haft_core::{BoxFuture, ToolContext, host::HostContext, sync::lock};

/// A source of time and of timers.
pub trait Clock: Send + Sync + 'static {
    /// Returns the monotonic time.
    fn now(&self) -> Instant;

    /// Returns the wall-clock time, which may jump.
    fn wall(&self) -> SystemTime;

    /// Sleeps until a moment.
    fn sleep_until(&self, moment: Instant) -> BoxFuture<'static, ()>;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Instant {
        (**self).now()
    }

    fn wall(&self) -> SystemTime {
        (**self).wall()
    }

    fn sleep_until(&self, moment: Instant) -> BoxFuture<'static, ()> {
        (**self).sleep_until(moment)
    }
}

impl fmt::Debug for dyn Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// Adds a duration to a moment, saturating at the clock's range.
pub(crate) fn after(from: Instant, time: Duration) -> Instant {
    const MAX_WAIT: Duration = Duration::from_secs(30 * 365 * 86_400);
    from.checked_add(time).unwrap_or_else(|| from + MAX_WAIT)
}

/// Serializes a duration as whole microseconds. Events and records write all durations this way.
pub(crate) fn micros<S: serde::Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

/// A monotonic time and its wall-clock time, to convert other moments without a query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Anchor {
    moment: Instant,
    date: SystemTime,
    fresh_until: Instant,
}

impl Anchor {
    /// An anchor older than this is renewed, because the system clock may have been set since.
    const MAX_ANCHOR_AGE: Duration = Duration::from_secs(1);

    /// Queries a clock. It may be the host's code, so no lock is held meanwhile.
    pub(crate) fn of(clock: &dyn Clock) -> Self {
        let moment = clock.now();
        let fresh_until = after(moment, Self::MAX_ANCHOR_AGE);
        Self { moment, date: clock.wall(), fresh_until }
    }

    /// Returns whether it is recent enough for a moment.
    pub(crate) fn is_fresh(&self, moment: Instant) -> bool {
        moment < self.fresh_until
    }

    /// Returns the wall-clock time of a moment.
    pub(crate) fn date_of(&self, moment: Instant) -> SystemTime {
        let dated = match moment.checked_duration_since(self.moment) {
            Some(later) => self.date.checked_add(later),
            None => self.date.checked_sub(self.moment.saturating_duration_since(moment)),
        };
        dated.unwrap_or(self.date)
    }
}

/// The clock of the tokio runtime that calls run on. If tokio's time is paused, so is this clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuntimeClock;

impl Clock for RuntimeClock {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    #[expect(clippy::disallowed_methods, reason = "this is where the date comes from")]
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep_until(&self, moment: Instant) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(moment.into()))
    }
}

/// Returns the clock of a call: that of its runtime, if the call belongs to one.
pub(crate) fn clock_of(cx: &ToolContext) -> Arc<dyn Clock> {
    cx.service::<Arc<dyn Clock>>().cloned().unwrap_or_else(|| Arc::new(RuntimeClock))
}

/// A clock that only moves when it is advanced: for tests and simulations. Clones are the same
/// clock.
///
/// ```
/// use std::time::Duration;
/// use haft::host::Clock;
/// use haft::testing::ManualClock;
///
/// let clock = ManualClock::new();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(3600));
/// assert_eq!(clock.now() - before, Duration::from_secs(3600));
/// ```
#[derive(Clone)]
pub struct ManualClock(Arc<Mutex<ClockState>>);

struct ClockState {
    now: Instant,
    wall: SystemTime,
    /// How many sleeps there were, so that sleeps until the same moment wake in the order they
    /// began.
    slept: u64,
    sleepers: BTreeMap<(Instant, u64), Waker>,
}

impl ManualClock {
    /// Makes a clock with an arbitrary `now`; its wall-clock time is the Unix epoch.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "a moment can only be had from the machine")]
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(ClockState {
            now: Instant::now(),
            wall: SystemTime::UNIX_EPOCH,
            slept: 0,
            sleepers: BTreeMap::new(),
        })))
    }

    /// Advances both times and wakes the sleeps that are due, the earliest first.
    pub fn advance(&self, time: Duration) {
        let due = {
            let mut state = self.state();
            state.now = after(state.now, time);
            state.wall = state.wall.checked_add(time).unwrap_or(state.wall);
            let later = match state.now.checked_add(Duration::from_nanos(1)) {
                Some(next) => state.sleepers.split_off(&(next, 0)),
                None => BTreeMap::new(),
            };
            std::mem::replace(&mut state.sleepers, later)
        };
        // Wakers run foreign code, so they are called without the lock.
        due.into_values().for_each(Waker::wake);
    }

    /// Sets only the wall-clock time, as if the system clock was set. No sleep wakes.
    pub fn set_wall(&self, date: SystemTime) {
        self.state().wall = date;
    }

    /// Returns the time until the next sleep wakes; `None` if there is none.
    #[must_use]
    pub fn until_next(&self) -> Option<Duration> {
        let state = self.state();
        let ((first, _), _) = state.sleepers.first_key_value()?;
        Some(first.saturating_duration_since(state.now))
    }

    fn state(&self) -> MutexGuard<'_, ClockState> {
        lock(&self.0)
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock")
            .field("sleepers", &self.state().sleepers.len())
            .finish_non_exhaustive()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.state().now
    }

    fn wall(&self) -> SystemTime {
        self.state().wall
    }

    fn sleep_until(&self, moment: Instant) -> BoxFuture<'static, ()> {
        let mut state = self.state();
        state.slept += 1;
        let place = (moment, state.slept);
        drop(state);
        Box::pin(Sleep { clock: self.clone(), place })
    }
}

/// A sleep on a manual clock. Dropping it removes its waker.
struct Sleep {
    clock: ManualClock,
    place: (Instant, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<()> {
        let mut state = self.clock.state();
        if state.now >= self.place.0 {
            return Poll::Ready(());
        }
        state.sleepers.insert(self.place, task.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let waker = self.clock.state().sleepers.remove(&self.place);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn sleeps_wake_in_the_order_of_their_deadlines() {
        let clock = ManualClock::new();
        let mut all = FuturesUnordered::new();
        for n in [3, 1, 2] {
            all.push(clock.sleep_until(clock.now() + SECOND * n).map(move |()| n));
        }
        assert!(all.next().now_or_never().is_none(), "no sleeper wakes before its time");
        assert_eq!(clock.until_next(), Some(SECOND));
        clock.advance(SECOND * 2);
        assert_eq!((all.next().await, all.next().await), (Some(1), Some(2)));
        assert!(all.next().now_or_never().is_none());
        clock.advance(SECOND);
        assert_eq!(all.next().await, Some(3));
        assert_eq!(clock.until_next(), None);
    }

    #[test]
    fn dropped_sleep_leaves_no_waker_behind() {
        let clock = ManualClock::new();
        let mut sleep = clock.sleep_until(clock.now() + SECOND);
        assert!((&mut sleep).now_or_never().is_none());
        assert!(clock.until_next().is_some());
        drop(sleep);
        assert_eq!(clock.until_next(), None);
        assert!(clock.sleep_until(clock.now()).now_or_never().is_some(), "now is not later");
    }

    #[test]
    fn wall_clock_may_jump_and_monotonic_time_does_not() {
        let clock = ManualClock::new();
        let (moment, date) = (clock.now(), clock.wall());
        clock.set_wall(date + SECOND * 5);
        assert_eq!((clock.now(), clock.wall()), (moment, date + SECOND * 5));
        clock.advance(SECOND);
        assert_eq!((clock.now(), clock.wall()), (moment + SECOND, date + SECOND * 6));
        clock.advance(Duration::MAX);
        assert!(clock.now() > moment, "a time beyond the range is as far as it goes");
    }
}
