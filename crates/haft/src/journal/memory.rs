//! A journal in memory: the last so many calls, and nothing after the process ends.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Intended, Journal, Settled, Written};

/// Keeps the last calls in memory. Clones share what they keep.
#[derive(Debug, Clone)]
pub struct MemoryJournal {
    kept: Arc<Mutex<Kept>>,
    max: usize,
}

#[derive(Debug, Default)]
struct Kept {
    intents: VecDeque<Intended>,
    settled: VecDeque<Settled>,
}

impl MemoryJournal {
    /// Keeps at most this many intents and outcomes each.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { kept: Arc::default(), max }
    }

    /// Returns the calls that were about to run, oldest first.
    #[must_use]
    pub fn intents(&self) -> Vec<Intended> {
        self.lock().intents.iter().cloned().collect()
    }

    /// Returns the calls that have ended, oldest first.
    #[must_use]
    pub fn settled(&self) -> Vec<Settled> {
        self.lock().settled.iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn push<T>(list: &mut VecDeque<T>, item: T, max: usize) {
    if list.len() >= max {
        list.pop_front();
    }
    if max > 0 {
        list.push_back(item);
    }
}

impl Journal for MemoryJournal {
    fn intend(&self, intended: Intended) -> Written<'_> {
        push(&mut self.lock().intents, intended, self.max);
        Written::Now(Ok(()))
    }

    fn settle(&self, settled: Settled) -> Written<'_> {
        push(&mut self.lock().settled, settled, self.max);
        Written::Now(Ok(()))
    }
}
