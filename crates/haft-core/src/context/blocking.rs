//! Runs blocking work of a body on the host's threads.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use tokio::sync::oneshot;

use super::{HostContext, ToolContext};
use crate::{Execution, Failure, FailureCode};

impl ToolContext {
    /// Runs blocking work on one of the runtime's threads.
    ///
    /// Work that has not started when the call ends is dropped. Work that has started cannot be
    /// cancelled; while it runs, an exclusive call keeps its locks.
    ///
    /// # Errors
    /// Fails when no thread is available.
    ///
    /// # Panics
    /// A panic of the work is resumed here; the pipeline turns it into a failure.
    pub async fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ToolContext) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        // The body is running already and may have changed something before.
        run_blocking(self, work)
            .await
            .map_err(|failure| failure.with_execution(Execution::Completed))
    }
}

/// Runs blocking work that is the whole body: if no thread is available, the body did not start.
pub(crate) async fn run_blocking<T: Send + 'static>(
    cx: &ToolContext,
    work: impl FnOnce(&ToolContext) -> T + Send + 'static,
) -> Result<T, Failure> {
    const QUEUED: u8 = 0;
    const STARTED: u8 = 1;
    const DROPPED: u8 = 2;

    struct Withdraw(Arc<AtomicU8>);
    impl Drop for Withdraw {
        fn drop(&mut self) {
            let _ = self.0.compare_exchange(QUEUED, DROPPED, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    let (send, receive) = oneshot::channel();
    let stage = Arc::new(AtomicU8::new(QUEUED));
    let withdraw = Withdraw(Arc::clone(&stage));
    let of = cx.clone();
    cx.0.host.spawn_blocking(Box::new(move || {
        // Count the job before it is marked as started, so that a running job is never missed.
        let Some(running) = of.begin_work() else { return };
        if stage.compare_exchange(QUEUED, STARTED, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return;
        }
        let result = catch_unwind(AssertUnwindSafe(|| work(&running.0)));
        drop(running);
        let _ = send.send(result);
    }))?;
    let received = receive.await;
    drop(withdraw);
    match received {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => Err(Failure::new(FailureCode::NotRun, "the runtime stopped before the tool ran")),
    }
}
