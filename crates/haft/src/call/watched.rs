//! Work that a call waits for, and what may stop it: a timeout, a cancellation, parking.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::{self, Poll},
    time::{Duration, Instant},
};

use haft_core::{BoxFuture, ToolContext};

use super::step::Input;
use crate::{
    call::TurnCore,
    clock::Clock,
    host_code::{Stopped, after, caught, panic_message},
};

/// A need with its timeout and its cancellation.
pub(super) struct Watched {
    /// `None` once it has ended or was stopped.
    work: Option<BoxFuture<'static, Input>>,
    limit: Limit,
    /// Made when the work is not ready at once.
    stop: Option<BoxFuture<'static, Stopped>>,
}

/// What may stop the work of a need. Work without any of these has its own limits.
#[derive(Clone, Copy, Default)]
pub(super) struct Limit {
    timeout: Option<Duration>,
    /// Whether the cancellation of the call and an interrupt of the turn stop it.
    cancels: bool,
    /// Whether it stops when the turn is parked.
    parks: bool,
}

impl Limit {
    pub(super) const NONE: Self = Self { timeout: None, cancels: false, parks: false };
    pub(super) const CANCEL: Self = Self { timeout: None, cancels: true, parks: false };

    /// For work that must not be cancelled.
    pub(super) fn timeout(time: Duration) -> Self {
        Self { timeout: Some(time), ..Self::NONE }
    }

    pub(super) fn cancel_or_timeout(time: Duration) -> Self {
        Self { timeout: Some(time), ..Self::CANCEL }
    }

    pub(super) fn or_park(self, parks: bool) -> Self {
        Self { parks, ..self }
    }
}

impl Watched {
    pub(super) fn new(limit: Limit, work: impl Future<Output = Input> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)), limit, stop: None }
    }

    /// Polls the work, and then what may stop it.
    pub(super) fn poll(
        &mut self,
        turn: &Arc<TurnCore>,
        cx: &ToolContext,
        task: &mut task::Context<'_>,
    ) -> Poll<Input> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(task))) {
            Ok(Poll::Ready(input)) => return Poll::Ready(input),
            Ok(Poll::Pending) => {}
            Err(panic) => {
                self.drop_work();
                return Poll::Ready(Input::Stopped(Stopped::Panicked(panic_message(panic))));
            }
        }
        let stop = match (&mut self.stop, self.limit) {
            (Some(stop), _) => stop,
            (None, Limit { timeout: None, cancels: false, parks: false }) => return Poll::Pending,
            (None, limit) => {
                let stopped = stopped(Arc::clone(turn), cx.clone(), limit);
                self.stop.insert(Box::pin(stopped))
            }
        };
        let stopped = stop.as_mut().poll(task);
        if stopped.is_ready() {
            self.drop_work();
        }
        stopped.map(Input::Stopped)
    }

    /// Drops work that did not end. This runs the host's code, so its panic is caught.
    fn drop_work(&mut self) {
        let work = self.work.take();
        let _ = caught(|| drop(work));
    }
}

/// Waits until the work of a need must stop.
async fn stopped(turn: Arc<TurnCore>, cx: ToolContext, limit: Limit) -> Stopped {
    let clock = &*turn.run.inner.clock;
    let Limit { timeout, cancels, parks } = limit;
    let until = timeout.map(|time| after(clock.now(), time));
    tokio::select! {
        biased;
        () = cx.cancelled(), if cancels => Stopped::Cancelled(turn.why_stopped(&cx)),
        () = turn.interrupted(&cx), if cancels => Stopped::Cancelled(turn.why_stopped(&cx)),
        () = turn.parking(), if parks => Stopped::Parked,
        () = sleep(clock, until) => Stopped::TimedOut(timeout.unwrap_or_default()),
    }
}

async fn sleep(clock: &dyn Clock, until: Option<Instant>) {
    match until {
        Some(until) => clock.sleep_until(until).await,
        None => std::future::pending().await,
    }
}
