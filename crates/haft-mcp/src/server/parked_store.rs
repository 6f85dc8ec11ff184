//! Where calls wait that a client was asked about: in memory, or in a place that outlives the
//! process and that other processes see.
//!
//! INVARIANT: a call is taken at most once, also by two processes at the same time.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use haft::{
    host::{Clock, RuntimeClock},
    tool::BoxError,
};

/// How many calls wait in memory, over all clients.
const MAX_CALLS: usize = 1_000;

/// Keeps calls that wait for the answer of a client. A kept call contains its arguments as they
/// are; keep it like the conversation.
pub trait ParkedCallStore: Send + Sync + 'static {
    /// Keeps a call until a time. The id has letters and digits.
    ///
    /// # Errors
    /// Fails if it cannot be kept. The client gets an error then.
    fn put(&self, id: &str, call: &str, until: SystemTime) -> Result<(), BoxError>;

    /// Takes a call, so that no other caller gets it; `None` if it is not there.
    ///
    /// # Errors
    /// Fails if the place cannot be read. The call is then not run.
    fn take(&self, id: &str) -> Result<Option<String>, BoxError>;
}

/// Keeps calls until the process ends.
#[derive(Default)]
pub(super) struct MemoryStore(Mutex<HashMap<String, (String, SystemTime)>>);

impl ParkedCallStore for MemoryStore {
    fn put(&self, id: &str, call: &str, until: SystemTime) -> Result<(), BoxError> {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() >= MAX_CALLS {
            let now = RuntimeClock.wall();
            calls.retain(|_, (_, until)| *until > now);
        }
        if calls.len() >= MAX_CALLS {
            return Err("too many calls wait".into());
        }
        calls.insert(id.to_owned(), (call.to_owned(), until));
        Ok(())
    }

    fn take(&self, id: &str) -> Result<Option<String>, BoxError> {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(calls.remove(id).map(|(call, _)| call))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn calls_in_memory_are_bounded_taken_once_and_expired_ones_make_space() {
        let store = MemoryStore::default();
        let (past, later) = (SystemTime::UNIX_EPOCH, RuntimeClock.wall() + Duration::from_secs(60));
        for n in 0..MAX_CALLS {
            store.put(&n.to_string(), "old", past).unwrap();
        }
        store.put("new", "call", later).unwrap();
        assert_eq!(store.take("new").unwrap().as_deref(), Some("call"));
        assert_eq!(store.take("new").unwrap(), None, "once");
        for n in 0..MAX_CALLS {
            store.put(&n.to_string(), "call", later).unwrap();
        }
        assert!(store.put("more", "call", later).is_err());
    }
}
