//! What a body tells before its end, and what it leaves for after it: progress, pieces of output,
//! work that goes on. Most calls do neither, and carry no more than a pointer for it.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use serde_json::Value;

use super::ToolContext;
use crate::{
    BackgroundTask, Execution, Failure, IntoOutput, Output, Progress, TaskSlot, progress::Notes,
};

/// What most calls never need.
#[derive(Default)]
pub(super) struct Extra {
    notes: Notes,
    later: Mutex<Option<BackgroundTask>>,
    tier: Mutex<Option<Arc<Value>>>,
    denied: Mutex<super::denied::Known>,
    confinement: Mutex<Option<Result<Confinement, String>>>,
}

/// What a confined run of a call could read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Confinement {
    /// Directories and files besides those of the system, with everything below them.
    pub readable: Vec<PathBuf>,
    /// Directories of the system, with everything below them.
    pub system: Vec<PathBuf>,
}

/// A tier is a few words; more than this is no tier.
const LONGEST_TIER: usize = 8_000;

impl Extra {
    pub(super) fn denied(&self) -> &Mutex<super::denied::Known> {
        &self.denied
    }

    fn later(&self) -> MutexGuard<'_, Option<BackgroundTask>> {
        self.later.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tier(&self) -> MutexGuard<'_, Option<Arc<Value>>> {
        self.tier.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ToolContext {
    /// Tells how far the body is, from 0 to 1. Of several reports in a short while only the last is
    /// told.
    pub fn progress(&self, fraction: f32, message: impl Into<String>) {
        let fraction = fraction.is_finite().then(|| fraction.clamp(0.0, 1.0));
        self.note(Progress::Progress(fraction, message.into()));
    }

    /// Tells a piece of output before the end. If the call is interrupted or fails, its answer keeps
    /// what was told. Pieces that follow each other closely may be told as one.
    pub fn partial(&self, text: impl Into<String>) {
        let text = text.into();
        self.extra().notes.keep(None, &text);
        self.note(Progress::Partial(text));
    }

    /// Tells a piece of output under a key, such as a line of one of several jobs.
    pub fn partial_of(&self, key: impl Into<String>, text: impl Into<String>) {
        let (key, text) = (key.into(), text.into());
        self.extra().notes.keep(Some(&key), &text);
        self.note(Progress::Keyed(key, text));
    }

    /// Returns the partial output told so far, bounded.
    #[must_use]
    pub fn partial_so_far(&self) -> String {
        self.call_itself().extra.get().map(|extra| extra.notes.kept()).unwrap_or_default()
    }

    /// Returns how many bytes of partial output were told so far, kept or not. For hosts.
    #[doc(hidden)]
    #[must_use]
    pub fn partial_size(&self) -> u64 {
        self.call_itself().extra.get().map_or(0, |extra| extra.notes.size())
    }

    /// Returns whether partial output was left out because it grew too long. For hosts.
    #[doc(hidden)]
    #[must_use]
    pub fn partial_is_full(&self) -> bool {
        self.call_itself().extra.get().is_some_and(|extra| extra.notes.is_full())
    }

    /// Says what confines the work of this call, as data. People and records read it however the call
    /// ends, the model never does. For tools that start processes.
    ///
    /// What takes more than 8000 bytes as text is not kept.
    pub fn set_tier(&self, tier: Value) {
        let fits = tier.to_string().len() <= LONGEST_TIER;
        *self.extra().tier() = fits.then(|| Arc::new(tier));
    }

    /// Returns what confines the work of this call, where its body has said so.
    #[must_use]
    pub fn tier(&self) -> Option<Arc<Value>> {
        self.call_itself().extra.get()?.tier().clone()
    }

    /// Says what a confined run of this call could read, or why it cannot be confined here. A tool
    /// says so in its check, before the call is judged; what it says last counts.
    pub fn set_confinement(&self, confinement: Result<Confinement, String>) {
        let mut own = self.extra().confinement.lock().unwrap_or_else(PoisonError::into_inner);
        *own = Some(confinement);
    }

    /// Returns what a confined run of this call could read, or why it cannot be confined; `None` where
    /// the tool has said neither.
    #[must_use]
    pub fn confinement(&self) -> Option<Result<Confinement, String>> {
        let own = &self.call_itself().extra.get()?.confinement;
        own.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn extra(&self) -> &Extra {
        self.call_itself().extra.get_or_init(Box::default)
    }

    fn note(&self, note: Progress) {
        let host = &self.0.host;
        let every = host.note_every();
        match every.is_zero() {
            true => host.tell(self, note),
            false => {
                self.extra().notes.add(note, host.now(), every, |note| host.tell(self, note));
            }
        }
    }

    /// Tells what is held back. For hosts: the last note is told before the call ends.
    pub fn tell_rest(&self) {
        if let Some(extra) = self.call_itself().extra.get() {
            extra.notes.tell(self.0.host.now(), |note| self.0.host.tell(self, note));
        }
    }

    /// Waits until something is held back, and returns when it should be told. For hosts.
    pub async fn rest_due(&self) -> Option<Instant> {
        self.extra().notes.due(self.0.host.note_every()).await
    }

    /// Answers with a ticket and goes on working: what the work gives back is the result, and the
    /// model hears of it later.
    ///
    /// The work has a context of its own, with its own token, and the body's own ends with its
    /// answer. It holds the call's resource keys and its slot until it ends, and nothing else: the
    /// run goes on beside it. A tool whose late work must keep others away names what it works on
    /// with keys. Where nobody would hear of the end (the call is nested in another, or its run has
    /// only this turn) the work is done at once and its result is returned.
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
    /// Fails when too much is pending already, when this call has deferred something before, and,
    /// where the work is done at once, when it fails.
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
            return Err(Failure::failed("a call can put off one piece of work only"));
        }
        // Whoever asks is a body that runs, and may have changed something before.
        let deferred = self.0.host.defer(self, &summary.into());
        match deferred.map_err(|failure| failure.with_execution(Execution::Completed))? {
            None => work(self.clone()).await,
            Some(TaskSlot { ticket, place }) => {
                *self.extra().later() = Some(BackgroundTask::new(place, |cx| Box::pin(work(cx))));
                Ok(ticket)
            }
        }
    }

    /// Returns whether the body has put off some of its work. For hosts.
    #[must_use]
    pub fn is_deferred(&self) -> bool {
        self.call_itself().extra.get().is_some_and(|extra| extra.later().is_some())
    }

    /// Gives out the work that the body has put off. For hosts.
    #[must_use]
    pub fn take_later(&self) -> Option<BackgroundTask> {
        self.call_itself().extra.get()?.later().take()
    }

    /// Forgets what was told or put off: another attempt begins.
    pub(super) fn forget_told(&self) {
        if let Some(extra) = self.call_itself().extra.get() {
            extra.notes.forget();
            drop(extra.later().take());
            drop(extra.tier().take());
        }
    }
}
