//! The part of `ToolContext` that reports: progress, partial output, background work, and the
//! sandbox that confines the call. Most calls report nothing, so the state is allocated lazily.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard},
};

use serde_json::Value;

use super::{BackgroundTask, TaskSlot, ToolContext};
use crate::{Failure, MaskedPaths, Progress, progress::ProgressBuffer, sync::lock};

/// State that most calls never need.
#[derive(Default)]
pub(super) struct Extra {
    pub(super) notes: ProgressBuffer,
    background: Mutex<Option<BackgroundTask>>,
    tier: Mutex<Option<Arc<Value>>>,
    denied: Mutex<super::denied_paths_cache::DeniedPathsCache>,
    pub(super) confinement: Mutex<Option<Result<Confinement, String>>>,
    pub(super) masked: Mutex<Option<MaskedPaths>>,
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
pub(super) const MAX_TIER_BYTES: usize = 8_000;

impl Extra {
    pub(super) fn denied(&self) -> &Mutex<super::denied_paths_cache::DeniedPathsCache> {
        &self.denied
    }

    pub(super) fn background(&self) -> MutexGuard<'_, Option<BackgroundTask>> {
        lock(&self.background)
    }

    pub(super) fn tier(&self) -> MutexGuard<'_, Option<Arc<Value>>> {
        lock(&self.tier)
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

    /// Returns the description of the sandbox that confines this call. `None` if the body set none.
    #[must_use]
    pub fn tier(&self) -> Option<Arc<Value>> {
        self.call_state().extra.get()?.tier().clone()
    }

    pub(super) fn extra(&self) -> &Extra {
        self.call_state().extra.get_or_init(Box::default)
    }

    fn note(&self, note: Progress) {
        let host = &self.0.host;
        let every = host.progress_interval();
        if every.is_zero() {
            host.report(self, note);
        } else {
            self.extra().notes.add(note, host.now(), every, |note| host.report(self, note));
        }
    }

    /// Asks the host for a slot for background work. `None` if the work must run at once.
    pub(crate) fn reserve_background_slot(
        &self,
        summary: &str,
    ) -> Result<Option<TaskSlot>, Failure> {
        self.0.host.defer(self, summary)
    }

    /// Sets the background work that starts when the body has returned.
    pub(crate) fn set_background_task(&self, task: BackgroundTask) {
        *self.extra().background() = Some(task);
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
