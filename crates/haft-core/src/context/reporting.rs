//! The part of `ToolContext` that reports: progress, partial output, background work, and the
//! sandbox that confines the call. Most calls report nothing, so the state is allocated lazily.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use serde_json::Value;

use super::ToolContext;
use crate::{
    BackgroundTask, Execution, Failure, IntoOutput, Output, Progress, TaskSlot,
    progress::ProgressBuffer,
};

/// State that most calls never need.
#[derive(Default)]
pub(super) struct Extra {
    notes: ProgressBuffer,
    background: Mutex<Option<BackgroundTask>>,
    tier: Mutex<Option<Arc<Value>>>,
    denied: Mutex<super::denied::DeniedPathsCache>,
    confinement: Mutex<Option<Result<Confinement, String>>>,
}

/// What a sandboxed run of a call could read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Confinement {
    /// Readable directories and files apart from the system's, with everything below them.
    pub readable: Vec<PathBuf>,
    /// Directories of the system, with everything below them.
    pub system: Vec<PathBuf>,
}

/// A longer description of the sandbox is not kept.
const MAX_TIER_BYTES: usize = 8_000;

impl Extra {
    pub(super) fn denied(&self) -> &Mutex<super::denied::DeniedPathsCache> {
        &self.denied
    }

    fn background(&self) -> MutexGuard<'_, Option<BackgroundTask>> {
        self.background.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tier(&self) -> MutexGuard<'_, Option<Arc<Value>>> {
        self.tier.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ToolContext {
    /// Reports progress, from 0 to 1. Of several reports in a short interval only the last is sent.
    pub fn progress(&self, fraction: f32, message: impl Into<String>) {
        let fraction = fraction.is_finite().then(|| fraction.clamp(0.0, 1.0));
        self.note(Progress::Progress(fraction, message.into()));
    }

    /// Sends a chunk of output before the end. If the call is interrupted or fails, its result
    /// keeps the partial output. Chunks that follow each other closely may be merged.
    pub fn partial(&self, text: impl Into<String>) {
        let text = text.into();
        self.extra().notes.keep(None, &text);
        self.note(Progress::Partial(text));
    }

    /// Sends a chunk of output under a key, such as a line of one of several jobs.
    pub fn partial_of(&self, key: impl Into<String>, text: impl Into<String>) {
        let (key, text) = (key.into(), text.into());
        self.extra().notes.keep(Some(&key), &text);
        self.note(Progress::Keyed(key, text));
    }

    /// Returns the partial output so far, bounded.
    #[must_use]
    pub fn partial_so_far(&self) -> String {
        self.call_state().extra.get().map(|extra| extra.notes.kept()).unwrap_or_default()
    }

    /// Returns how many bytes of partial output were sent so far, kept or not. For hosts.
    #[doc(hidden)]
    #[must_use]
    pub fn partial_size(&self) -> u64 {
        self.call_state().extra.get().map_or(0, |extra| extra.notes.size())
    }

    /// Returns whether the kept partial output is truncated. For hosts.
    #[doc(hidden)]
    #[must_use]
    pub fn partial_is_full(&self) -> bool {
        self.call_state().extra.get().is_some_and(|extra| extra.notes.is_full())
    }

    /// Sets the description of the sandbox that confines this call, as data. Observers and records
    /// get it however the call ends; the model never does. For tools that start processes.
    ///
    /// More than 8000 bytes of JSON are not kept.
    pub fn set_tier(&self, tier: Value) {
        let fits = tier.to_string().len() <= MAX_TIER_BYTES;
        *self.extra().tier() = fits.then(|| Arc::new(tier));
    }

    /// Returns the description of the sandbox that confines this call. `None` if the body set none.
    #[must_use]
    pub fn tier(&self) -> Option<Arc<Value>> {
        self.call_state().extra.get()?.tier().clone()
    }

    /// Sets what a sandboxed run of this call could read, or why no sandbox is available. A tool
    /// sets it in its check, before the call is authorized. The last value counts.
    pub fn set_confinement(&self, confinement: Result<Confinement, String>) {
        let mut own = self.extra().confinement.lock().unwrap_or_else(PoisonError::into_inner);
        *own = Some(confinement);
    }

    /// Returns what a sandboxed run of this call could read, or why no sandbox is available. `None`
    /// if the tool set neither.
    #[must_use]
    pub fn confinement(&self) -> Option<Result<Confinement, String>> {
        let own = &self.call_state().extra.get()?.confinement;
        own.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn extra(&self) -> &Extra {
        self.call_state().extra.get_or_init(Box::default)
    }

    fn note(&self, note: Progress) {
        let host = &self.0.host;
        let every = host.note_every();
        if every.is_zero() {
            host.tell(self, note);
        } else {
            self.extra().notes.add(note, host.now(), every, |note| host.tell(self, note));
        }
    }

    /// Sends all buffered notes. For hosts: the last note is sent before the call ends.
    pub fn tell_rest(&self) {
        if let Some(extra) = self.call_state().extra.get() {
            extra.notes.flush(self.0.host.now(), |note| self.0.host.tell(self, note));
        }
    }

    /// Waits until a note is buffered, and returns when it should be sent. For hosts.
    pub async fn rest_due(&self) -> Option<Instant> {
        self.extra().notes.due(self.0.host.note_every()).await
    }

    /// Returns a ticket at once and continues the work in the background. The model receives the
    /// result of the work in a later turn.
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
    ///         Ok("built")
    ///     })
    ///     .await
    /// }
    /// ```
    ///
    /// # Errors
    /// Fails when too much work is pending, when this call has deferred work before, and when work
    /// that runs at once fails.
    pub async fn spawn_background<T, F, W>(
        &self,
        summary: impl Into<String>,
        work: W,
    ) -> Result<Output, Failure>
    where
        W: FnOnce(ToolContext) -> F + Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
        T: IntoOutput + 'static,
    {
        let work =
            move |cx: ToolContext| async move { work(cx.clone()).await?.into_output(&cx).await };
        if self.is_deferred() {
            return Err(Failure::failed("a call can start only one background task"));
        }
        // The body is running already and may have changed something before.
        let deferred = self.0.host.defer(self, &summary.into());
        match deferred.map_err(|failure| failure.with_execution(Execution::Completed))? {
            None => work(self.clone()).await,
            Some(TaskSlot { ticket, place }) => {
                *self.extra().background() =
                    Some(BackgroundTask::new(place, |cx| Box::pin(work(cx))));
                Ok(ticket)
            }
        }
    }

    /// Returns whether the body has deferred work to the background. For hosts.
    #[must_use]
    pub fn is_deferred(&self) -> bool {
        self.call_state().extra.get().is_some_and(|extra| extra.background().is_some())
    }

    /// Takes the work that the body has deferred. For hosts.
    #[must_use]
    pub fn take_later(&self) -> Option<BackgroundTask> {
        self.call_state().extra.get()?.background().take()
    }

    /// Drops partial output, deferred work and sandbox description: another attempt begins.
    pub(super) fn reset_for_retry(&self) {
        if let Some(extra) = self.call_state().extra.get() {
            extra.notes.clear();
            drop(extra.background().take());
            drop(extra.tier().take());
        }
    }
}
