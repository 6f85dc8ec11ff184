//! Where the runtime's time comes from.
//!
//! Everything that waits or counts time asks one clock, so that a test, a replay or a simulation can
//! put another in its place. Spans are measured on `now`, which never goes back; `wall` is for what
//! outlives the process.

use std::time::{Instant, SystemTime};

use haft_core::BoxFuture;

/// Tells the time, and waits for it.
pub trait Clock: Send + Sync + 'static {
    /// Returns the moment; it never goes back.
    fn now(&self) -> Instant;

    /// Returns the date, which may jump.
    fn wall(&self) -> SystemTime;

    /// Waits for a moment.
    fn sleep_until(&self, moment: Instant) -> BoxFuture<'static, ()>;
}

/// The clock of the async runtime that the calls run on. Where that one is paused, so is this.
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
