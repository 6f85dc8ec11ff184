//! Calls of a turn that wait: the caller polls the only call, any other call becomes a task.

use std::sync::Arc;

use haft_core::{BoxFuture, ToolContext};
use smallvec::SmallVec;
use tokio::sync::oneshot;

use super::{
    batch_hooks::{Due, cleared},
    scheduler::CallScheduler,
};
use crate::{
    call::{DrivenCall, RunningCall, launch::launch},
    tool_result::BoxedResult,
};

impl CallScheduler {
    /// Keeps a call that waits.
    #[inline(never)]
    pub(super) fn wait_for_call(&mut self, at: usize, call: DrivenCall) {
        let call = RunningCall::from_driven(Arc::clone(&self.core), call);
        if self.rows.len() == 1 && self.core.end.get().is_some() {
            self.core.register_lone(call.context());
            self.lone = Some(Box::new(call));
        } else {
            self.spawn(at, call);
        }
    }

    /// Lets calls wait for the hooks, each of them stoppable.
    pub(super) fn wait_for(
        &mut self,
        calls: SmallVec<[(usize, ToolContext); 2]>,
        check: BoxFuture<'static, Vec<Due>>,
    ) {
        let (senders, ends): (Vec<_>, Vec<_>) = calls.iter().map(|_| oneshot::channel()).unzip();
        // The task is detached: it sends each call its answer.
        drop(launch(async move {
            for (call, sender) in check.await.into_iter().zip(senders) {
                let _ = sender.send(call.validated);
            }
        }));
        if let [(_, lone)] = &calls[..] {
            self.core.register_lone(lone);
        }
        for ((at, cx), receiver) in calls.into_iter().zip(ends) {
            let row = &mut self.rows[at];
            let (reservation, resume) = (row.reservation.take(), row.resume.take());
            let core = Arc::clone(&self.core);
            self.spawn(at, async move {
                let validated = cleared(&core, &cx, receiver).await;
                let mut call = RunningCall::new(core, validated, cx, None, reservation);
                call.set_resume(resume);
                call.await
            });
        }
    }

    fn spawn(&mut self, at: usize, call: impl Future<Output = BoxedResult> + Send + 'static) {
        let task = launch(call);
        let end = Box::pin(async move { (at, task.end().await) });
        self.in_flight.get_or_insert_default().push(end);
    }
}
