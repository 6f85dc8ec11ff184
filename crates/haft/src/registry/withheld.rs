//! The tools of a tool set that are not offered in a turn.
//!
//! A policy, conditions of tools and a selector each leave out some. Most turns leave out the same
//! ones, so the result is kept with what led to it: an unchanged turn does not look at every tool.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use haft_core::{ToolName, sync::lock};

use super::{deferral::DeferredSet, hidden::HiddenReason};

/// How many results each set keeps: runs with different state may share a registry.
const MAX_KEPT: usize = 4;

/// Tools of a set that are not offered, and the hash of those that are.
#[derive(Debug)]
pub(super) struct Withheld {
    pub(super) reasons: HashMap<ToolName, HiddenReason>,
    pub(super) fingerprint: [u8; 32],
    /// Which of the others are deferred, for the budget that was asked last.
    pub(super) deferred: Mutex<Option<Arc<DeferredSet>>>,
    /// What was left out besides, and the result.
    kept: Mutex<Vec<(Further, Arc<Withheld>)>>,
}

/// What a turn leaves out besides.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Further {
    /// The tools that are unavailable, by position.
    Unavailable(Vec<(usize, HiddenReason)>),
    /// All tools but these.
    NotSelected(Vec<String>),
}

impl Withheld {
    pub(super) fn new(reasons: HashMap<ToolName, HiddenReason>, fingerprint: [u8; 32]) -> Self {
        Self { reasons, fingerprint, deferred: Mutex::default(), kept: Mutex::default() }
    }

    /// Leaves out more. `make` gets the reasons so far, and is asked only for a new combination.
    pub(super) fn and(
        &self,
        further: Further,
        make: impl FnOnce(&Further, HashMap<ToolName, HiddenReason>) -> Self,
    ) -> Arc<Self> {
        if let Some((_, known)) = lock(&self.kept).iter().find(|(own, _)| *own == further) {
            return Arc::clone(known);
        }
        let made = Arc::new(make(&further, self.reasons.clone()));
        let mut kept = lock(&self.kept);
        if kept.len() >= MAX_KEPT {
            kept.remove(0);
        }
        kept.push((further, Arc::clone(&made)));
        made
    }
}
