//! `OpenSet`: the turns or sub-runs of a run that have not ended, so that a cancellation reaches
//! them. Adding and removing take constant time.

use std::sync::{Arc, Mutex, Weak};

use haft_core::sync::lock;
use slab::Slab;

/// Weak references to values that remove themselves when they are dropped.
pub(crate) struct OpenSet<T>(Mutex<Slab<Weak<T>>>);

impl<T> OpenSet<T> {
    /// Adds a value, and returns its key.
    pub(crate) fn add(&self, value: &Arc<T>) -> usize {
        lock(&self.0).insert(Arc::downgrade(value))
    }

    /// Makes a value that knows its key, and adds it.
    pub(crate) fn add_with(&self, make: impl FnOnce(usize) -> Arc<T>) -> Arc<T> {
        let mut open = lock(&self.0);
        let entry = open.vacant_entry();
        let made = make(entry.key());
        entry.insert(Arc::downgrade(&made));
        made
    }

    /// Removes the value with this key.
    pub(crate) fn remove(&self, key: usize) {
        let removed = lock(&self.0).try_remove(key);
        drop(removed);
    }

    /// Returns the values that are still alive.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        // Dropping the last reference to a value locks the set, so it is not locked meanwhile.
        let open: Vec<Weak<T>> = lock(&self.0).iter().map(|(_, open)| open.clone()).collect();
        open.iter().filter_map(Weak::upgrade).collect()
    }
}

impl<T> Default for OpenSet<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}
