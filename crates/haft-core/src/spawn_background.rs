//! Lets a body return a task at once and continue its work in the background.

use crate::{
    Execution, Failure, IntoOutput, Output, ToolContext,
    host::{BackgroundTask, HostContext, TaskSlot},
};

impl ToolContext {
    /// Returns a task at once and continues the work in the background. The model receives the
    /// result of the work in a later turn. The work may return everything that is [`IntoOutput`].
    ///
    /// The work has its own context and cancellation token; the body's context ends with its
    /// result. The work holds the call's resource keys and concurrency slot until it ends, and does
    /// not block the run otherwise. If it must exclude other calls, the tool declares resource
    /// keys. If the result could not be delivered later (a nested call, or a run with only one
    /// turn), the work runs at once and its result is returned.
    ///
    /// ```
    /// use haft_core::{ToolContext, Failure, Output, tool};
    ///
    /// /// Builds the project.
    /// #[tool]
    /// async fn build(cx: &ToolContext) -> Result<Output, Failure> {
    ///     cx.spawn_background("building", |cx| async move {
    ///         cx.progress(0.5, "linking");
    ///         "built"
    ///     })
    ///     .await
    /// }
    /// ```
    ///
    /// # Errors
    /// Fails when too much work is pending, when this call has deferred work before, and when work
    /// that runs at once fails.
    pub async fn spawn_background<F, W, C>(
        &self,
        summary: impl Into<String>,
        work: W,
    ) -> Result<Output, Failure>
    where
        W: FnOnce(ToolContext) -> F + Send + 'static,
        F: Future<Output: IntoOutput<C>> + Send + 'static,
    {
        let work =
            move |cx: ToolContext| async move { work(cx.clone()).await.into_output(&cx).await };
        if self.has_background_task() {
            return Err(Failure::failed("a call can start only one background task"));
        }
        // The body is running already and may have changed something before.
        let deferred = self.reserve_background_slot(&summary.into());
        match deferred.map_err(|failure| failure.with_execution(Execution::Completed))? {
            None => work(self.clone()).await,
            Some(TaskSlot { task, reservation }) => {
                self.set_background_task(BackgroundTask::new(reservation, |cx| Box::pin(work(cx))));
                Ok(task)
            }
        }
    }
}
