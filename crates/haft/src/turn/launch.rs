//! Starts futures: where they stand if they are ready at once, as tasks if they are not.
//!
//! Most calls of a fast tool never wait. Polling once in place saves them a task; what is not ready
//! moves to a task of its own, so that it goes on (and ends, and is recorded) even when the caller
//! stops waiting.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{self, Poll, Waker},
};

use tokio::task::JoinHandle;

/// A started future.
pub(crate) enum Launched<T> {
    Done(T),
    Flying(JoinHandle<T>),
    /// Our own code panicked: nothing is known.
    Lost,
}

/// Starts a future. Must be called inside a tokio runtime.
pub(crate) fn launch<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> Launched<T> {
    launch_boxed(Box::pin(future))
}

fn launch_boxed<T: Send + 'static>(
    mut future: Pin<Box<dyn Future<Output = T> + Send>>,
) -> Launched<T> {
    let mut nobody = task::Context::from_waker(Waker::noop());
    match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut nobody))) {
        Ok(Poll::Ready(value)) => Launched::Done(value),
        #[expect(clippy::disallowed_methods, reason = "this is the one place that starts tasks")]
        Ok(Poll::Pending) => Launched::Flying(tokio::spawn(future)),
        Err(_) => Launched::Lost,
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
