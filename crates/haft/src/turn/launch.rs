//! Starts futures: polled in place if they are ready at once, spawned as tasks if not.
//!
//! Most calls of a fast tool never wait. Polling once in place saves them a task. A future that is
//! not ready is spawned, so that it completes and is recorded even if the caller stops waiting.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    task::{self, Poll, Waker},
};

use haft_core::BoxFuture;
use tokio::task::JoinHandle;

/// A started future.
pub(crate) enum Launched<T> {
    Done(T),
    Flying(JoinHandle<T>),
    /// Our own code panicked, or there is no tokio runtime: nothing is known.
    Lost,
}

/// A future that was polled once, where it stands.
pub(crate) enum Begun<T> {
    Done(T),
    Waiting(BoxFuture<'static, T>),
    /// Our own code panicked: nothing is known.
    Lost,
}

/// Polls a future once. What is not ready must become a task, or part of one.
pub(crate) fn begin<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> Begun<T> {
    begin_boxed(Box::pin(future))
}

fn begin_boxed<T: Send + 'static>(mut future: BoxFuture<'static, T>) -> Begun<T> {
    let mut nobody = task::Context::from_waker(Waker::noop());
    match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut nobody))) {
        Ok(Poll::Ready(value)) => Begun::Done(value),
        Ok(Poll::Pending) => Begun::Waiting(future),
        Err(_) => Begun::Lost,
    }
}

/// Starts a future. What is not ready at once needs a tokio runtime, and is lost without one.
pub(crate) fn launch<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> Launched<T> {
    match begin(future) {
        Begun::Done(value) => Launched::Done(value),
        Begun::Waiting(future) => match tokio::runtime::Handle::try_current() {
            Ok(handle) => Launched::Flying(handle.spawn(future)),
            Err(_) => Launched::Lost,
        },
        Begun::Lost => Launched::Lost,
    }
}

impl<T> Launched<T> {
    /// Waits for the end; nothing when it was lost.
    pub(crate) async fn end(self) -> Option<T> {
        match self {
            Self::Done(value) => Some(value),
            Self::Flying(handle) => handle.await.ok(),
            Self::Lost => None,
        }
    }
}

/// The error where there is no tokio runtime: calls need its timers and tasks.
pub(crate) const NO_TOKIO_RUNTIME: &str =
    "calls need a tokio runtime; run this inside `#[tokio::main]` or `block_on` of tokio";

/// Returns whether this code runs inside a tokio runtime.
pub(crate) fn in_tokio_runtime() -> bool {
    tokio::runtime::Handle::try_current().is_ok()
}
