//! Starts futures: polled in place if they are ready at once, spawned as tasks if not.
//!
//! Most calls of a fast tool never wait. Polling once in place saves them a task. A future that is
//! not ready is spawned, so that it completes and is recorded even if the caller stops waiting.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{self, Poll, Waker},
};

use haft_core::BoxFuture;
use tokio::{runtime::Handle, task::JoinHandle};

use super::driver::RunningCall;
use crate::tool_result::BoxedResult;

/// A started future.
pub(crate) enum Launched<T> {
    Done(T),
    Flying(JoinHandle<T>),
    /// Our own code panicked, or there is no tokio runtime: nothing is known.
    Lost,
}

/// A future that was polled once, in place.
pub(crate) enum Begun<T, F = BoxFuture<'static, T>> {
    Done(T),
    Waiting(F),
    /// Our own code panicked: nothing is known.
    Lost,
}

/// Polls a future once, in place. What is not ready must be polled again with a real waker.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Begun<F::Output, ()> {
    let mut no_waker = task::Context::from_waker(Waker::noop());
    match catch_unwind(AssertUnwindSafe(|| Pin::new(future).poll(&mut no_waker))) {
        Ok(Poll::Ready(value)) => Begun::Done(value),
        Ok(Poll::Pending) => Begun::Waiting(()),
        Err(_) => Begun::Lost,
    }
}

/// A waiting call that its caller polls: no task, no other thread. If the caller stops waiting, the
/// call becomes a task, so that it still ends and is still recorded.
pub(crate) struct LoneCall {
    call: Option<Box<RunningCall>>,
    executor: Option<Handle>,
}

impl LoneCall {
    pub(crate) fn new(call: Box<RunningCall>) -> Self {
        Self { call: Some(call), executor: Handle::try_current().ok() }
    }
}

impl Future for LoneCall {
    type Output = BoxedResult;

    fn poll(mut self: Pin<&mut Self>, task: &mut task::Context<'_>) -> Poll<Self::Output> {
        let Some(call) = &mut self.call else { return Poll::Pending };
        let Poll::Ready(result) = Pin::new(call).poll(task) else { return Poll::Pending };
        self.call = None;
        Poll::Ready(result)
    }
}

impl Drop for LoneCall {
    fn drop(&mut self) {
        if let (Some(call), Some(executor)) = (self.call.take(), &self.executor) {
            drop(executor.spawn(call));
        }
    }
}

/// Polls a future once. What is not ready must become a task, or part of one.
pub(crate) fn begin<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> Begun<T> {
    begin_boxed(Box::pin(future))
}

fn begin_boxed<T: Send + 'static>(mut future: BoxFuture<'static, T>) -> Begun<T> {
    match poll_once(&mut future) {
        Begun::Done(value) => Begun::Done(value),
        Begun::Waiting(()) => Begun::Waiting(future),
        Begun::Lost => Begun::Lost,
    }
}

/// Starts a future. What is not ready at once needs a tokio runtime, and is lost without one.
pub(crate) fn launch<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> Launched<T> {
    match begin(future) {
        Begun::Done(value) => Launched::Done(value),
        Begun::Waiting(future) => match Handle::try_current() {
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
