//! Runs code of the host with a timeout, and catches its panics.
//!
//! The first poll happens before any timer is made, because most code answers at once. The wait
//! after it is boxed, to keep the call's future small.

use std::{
    any::Any,
    fmt,
    future::poll_fn,
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use futures_util::FutureExt as _;
use haft_core::{Error, ErrorKind, Failure};

use crate::clock::Clock;
pub(crate) use crate::clock::after;

/// Why supervised code gave no answer.
pub(crate) enum Stopped {
    TimedOut(Duration),
    Panicked(String),
    Cancelled(Failure),
    /// The turn is parked, and this work need not end here.
    Parked,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut(limit) => write!(f, "no answer within {limit:?}"),
            Self::Panicked(what) => write!(f, "it panicked: {what}"),
            Self::Cancelled(failure) => write!(f, "{failure}"),
            Self::Parked => f.write_str("the turn is parked"),
        }
    }
}

/// Supervises work that must not be cancelled, such as writing the journal.
pub(crate) async fn within<T>(
    clock: &dyn Clock,
    limit: Duration,
    work: impl Future<Output = T>,
) -> Result<T, Stopped> {
    let mut work = pin!(AssertUnwindSafe(work).catch_unwind());
    if let Poll::Ready(done) = once(work.as_mut()).await {
        return done.map_err(|panic| Stopped::Panicked(panic_message(panic)));
    }
    match Box::pin(timed(clock, limit, work)).await {
        Some(done) => done.map_err(|panic| Stopped::Panicked(panic_message(panic))),
        None => Err(Stopped::TimedOut(limit)),
    }
}

/// Waits for work with a timeout; `None` if it has not ended by then.
pub(crate) async fn timed<T>(
    clock: &dyn Clock,
    limit: Duration,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = clock.sleep_until(after(clock.now(), limit)) => None,
    }
}

/// Polls once and returns the result.
pub(crate) async fn once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(move |task| Poll::Ready(future.as_mut().poll(task))).await
}

/// Runs code of the host; returns the panic message if it panics.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).map_err(panic_message)
}

/// Reads the name of a hook or guard, with panics caught. A name is read once, when the runtime is
/// built: during a call it would run the host's code where nothing catches its panic.
pub(crate) fn read_name(what: &str, name: impl FnOnce() -> String) -> Result<String, Error> {
    caught(name).map_err(|panic| {
        Error::new(ErrorKind::BadConfig, format!("a {what} panicked in `name`: {panic}"))
            .hint("`name` must only return a string")
    })
}

/// Takes the message out of a panic payload and leaks the rest: dropping the payload would run its
/// `Drop` code outside of `catch_unwind`.
pub(crate) fn panic_message(panic: Box<dyn Any + Send>) -> String {
    let text = message_of(&*panic);
    std::mem::forget(panic);
    text
}

/// The message of a panic, for the operator.
fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_owned())
}

/// The error where there is no tokio runtime: calls need its timers and tasks.
pub(crate) const NO_TOKIO_RUNTIME: &str =
    "calls need a tokio runtime; run this inside `#[tokio::main]` or `block_on` of tokio";

/// Returns whether this code runs inside a tokio runtime.
pub(crate) fn in_tokio_runtime() -> bool {
    tokio::runtime::Handle::try_current().is_ok()
}
