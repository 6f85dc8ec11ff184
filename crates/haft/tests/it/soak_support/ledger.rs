//! Counts submitted and finished calls, from the public events.
//!
//! A call is open from its submission to its terminal event. Only open calls are kept, so the
//! ledger does not grow. A call that ends twice, or that was never submitted, is an error; so is
//! one that is still open at the end.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use haft::events::{Event, Observer};

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    open: Mutex<HashMap<String, ()>>,
    asked: AtomicU64,
    ended: AtomicU64,
    mistakes: Mutex<Vec<String>>,
}

/// The ledger, as an observer of the runtime.
#[derive(Debug, Clone)]
pub(crate) struct Reader(pub(crate) Arc<Ledger>);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ledger {
    /// Opens a call that is about to be submitted.
    pub(crate) fn ask(&self, id: &str) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if lock(&self.open).insert(id.to_owned(), ()).is_some() {
            self.mistake(format!("{id} was asked twice"));
        }
    }

    fn end(&self, id: &str) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        if lock(&self.open).remove(id).is_none() {
            self.mistake(format!("{id} ended, and it was not open"));
        }
    }

    pub(crate) fn mistake(&self, what: String) {
        let mut mistakes = lock(&self.mistakes);
        // More than a hundred errors add no information.
        if mistakes.len() < 100 {
            mistakes.push(what);
        }
    }

    /// Returns how many calls were submitted and how many ended, nested ones included.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.asked.load(Ordering::Relaxed), self.ended.load(Ordering::Relaxed))
    }

    /// Returns the errors, once everything should be over.
    pub(crate) fn close(&self) -> Vec<String> {
        let mut all = lock(&self.mistakes).clone();
        all.extend(lock(&self.open).keys().take(20).map(|id| format!("{id} was never answered")));
        all
    }
}

impl Observer for Reader {
    fn observe(&self, event: &Event) {
        match event {
            // Nested calls are opened by the runtime itself.
            Event::Started { call, .. } if call.looks_nested() => self.0.ask(call.as_str()),
            Event::Finished { call, .. } => self.0.end(call.as_str()),
            _ => {}
        }
    }
}
