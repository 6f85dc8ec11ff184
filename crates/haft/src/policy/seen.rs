//! What a run has read, and what its user has said.
//!
//! A model that has read something may be steered by it. So a run remembers the join of all labels,
//! which results brought them, and enough of the untrusted text to tell where a value came from.
//! Bounded in every direction; what was dropped is said to have been dropped.

use std::sync::{Mutex, MutexGuard, PoisonError};

use haft_core::{CallId, Label, ToolName};

/// What a run has read, and what its user has said.
#[derive(Debug, Default)]
pub struct Seen(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    label: Label,
}

impl Default for Inner {
    fn default() -> Self {
        Self { label: Label::CLEAN }
    }
}

/// A result that made a run less trusted or more confidential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    /// The call that brought it.
    pub call: CallId,
    /// Its tool.
    pub tool: ToolName,
    /// Where it came from, where that is known: a host, a path.
    pub origin: Option<String>,
    /// Its label.
    pub label: Label,
}

impl Seen {
    /// Returns the join of what was read.
    #[must_use]
    pub fn label(&self) -> Label {
        self.lock().label
    }

    /// Notes that something with this label was read.
    pub(crate) fn read(&self, label: Label) {
        let mut own = self.lock();
        own.label = own.label.join(label);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
