//! Gives every call of a turn an id of its own.

use haft_core::{CallId, ToolCall};

use super::scheduler::CallScheduler;

/// Up to here comparing is cheaper than hashing.
const MAX_COMPARED_IDS: usize = 8;

impl CallScheduler {
    /// Makes sure the call has an id of its own; returns the id it came with if that was taken.
    ///
    /// Ids that are given later are not known yet, so a new one looks like none that a provider
    /// writes: a call that comes with its own must not be refused for one that was made up.
    pub(super) fn name(&mut self, call: &mut ToolCall) -> Option<CallId> {
        // An id that looks like a nested call's is as good as none, but still the call's own.
        let is_odd = call.id.looks_nested();
        let is_twice = match is_odd {
            true => !self.odd.get_or_insert_default().insert(call.id.clone()),
            false => !call.id.as_str().is_empty() && self.is_taken(&call.id),
        };
        let mut came = None;
        if is_odd || is_twice || call.id.as_str().is_empty() {
            let fresh = (self.rows.len() + 1..)
                .map(|n| CallId::from(format!("haft-{n}")))
                .find(|id| !self.is_taken(id));
            came = Some(std::mem::replace(&mut call.id, fresh.unwrap_or_default()));
        }
        if let Some(ids) = &mut self.ids {
            ids.insert(call.id.clone());
        }
        came.filter(|_| is_twice)
    }

    /// Looks among a few ids one by one, and among many by their hash.
    fn is_taken(&mut self, id: &CallId) -> bool {
        if self.rows.len() < MAX_COMPARED_IDS {
            return self.rows.iter().any(|row| row.id == *id);
        }
        let rows = &self.rows;
        let ids = self.ids.get_or_insert_with(|| rows.iter().map(|row| row.id.clone()).collect());
        ids.contains(id)
    }
}
