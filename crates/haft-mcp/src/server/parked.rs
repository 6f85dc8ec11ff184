//! Jobs and calls that wait for a client's next request, each under a sealed single-use state. A
//! call that has not started is data; a job whose body runs is in memory.
//!
//! INVARIANT: a state opens its job at most once. A job that is not fetched in time is dropped,
//! which cancels its work.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft::host::{Clock, RuntimeClock};

use super::{
    job::Job,
    owned_task::OwnedTask,
    parked_call::WaitingCall,
    parked_store::ParkedCallStore,
    seal::{Binding, ParkedId, Sealer, StateError},
};

/// How many jobs wait at once, over all clients.
const MAX_PARKED: usize = 1_000;

/// The parked jobs of a server.
pub(super) struct ParkedJobs {
    sealer: Sealer,
    lifetime: Duration,
    jobs: Mutex<HashMap<ParkedId, ParkedJob>>,
    calls: Box<dyn ParkedCallStore>,
}

/// What a state belongs to.
pub(super) enum Fetched {
    Job(Box<Job>),
    Call(Box<WaitingCall>),
}

struct ParkedJob {
    job: Job,
    /// Drops the job when its time is over.
    _timer: OwnedTask,
}

/// Why a job cannot be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FetchError {
    /// The state is forged, or belongs to another request.
    Invalid,
    /// The state was used, or its time is over.
    Gone,
}

impl FetchError {
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::Invalid => "`requestState` is not valid for this request",
            Self::Gone => {
                "`requestState` was already used or has expired; send the request again without it"
            }
        }
    }
}

impl ParkedJobs {
    pub(super) fn new(
        lifetime: Duration,
        sealer: Sealer,
        calls: Box<dyn ParkedCallStore>,
    ) -> Arc<Self> {
        Arc::new(Self { sealer, lifetime, jobs: Mutex::default(), calls })
    }

    /// Writes a call down and returns its state; `None` if it cannot be kept.
    pub(super) fn park_call(&self, call: &WaitingCall, binding: Binding) -> Option<String> {
        let (id, until) = (Sealer::id()?, RuntimeClock.wall() + self.lifetime);
        let text = serde_json::to_string(call).ok()?;
        self.calls.put(&name(id), &text, until).ok()?;
        Some(self.sealer.seal(id, until, binding))
    }

    /// Parks a job and returns its state; `None` if too many jobs wait.
    pub(super) fn park(self: &Arc<Self>, job: Job, binding: Binding) -> Option<String> {
        let id = Sealer::id()?;
        let mut jobs = self.lock();
        if jobs.len() >= MAX_PARKED {
            return None;
        }
        let (table, lifetime) = (Arc::downgrade(self), self.lifetime);
        let timer = OwnedTask::start(async move {
            tokio::time::sleep(lifetime).await;
            let expired = table.upgrade().and_then(|table| table.lock().remove(&id));
            // Dropping the job cancels its work; that happens without the lock.
            drop(expired);
        });
        jobs.insert(id, ParkedJob { job, _timer: timer });
        drop(jobs);
        Some(self.sealer.seal(id, RuntimeClock.wall() + self.lifetime, binding))
    }

    /// Takes what waits for a state that was made for the same request.
    pub(super) fn fetch(&self, state: &str, binding: Binding) -> Result<Fetched, FetchError> {
        let id = match self.sealer.open(state, RuntimeClock.wall(), binding) {
            Ok(id) => id,
            Err(StateError::Forged) => return Err(FetchError::Invalid),
            Err(StateError::Expired) => return Err(FetchError::Gone),
        };
        if let Some(parked) = self.lock().remove(&id) {
            return Ok(Fetched::Job(Box::new(parked.job)));
        }
        let call = self.calls.take(&name(id)).ok().flatten().ok_or(FetchError::Gone)?;
        let call = serde_json::from_str(&call).map_err(|_| FetchError::Gone)?;
        Ok(Fetched::Call(Box::new(call)))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ParkedId, ParkedJob>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of a kept call.
fn name(id: ParkedId) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use rmcp::ErrorData;

    use super::*;
    use crate::server::{
        call_peer::{CallPeer, ClientSupport},
        parked_store::MemoryStore,
    };

    fn table() -> Arc<ParkedJobs> {
        let (sealer, lifetime) = (Sealer::new().unwrap(), Duration::from_secs(60));
        ParkedJobs::new(lifetime, sealer, Box::new(MemoryStore::default()))
    }

    fn pending(alive: Arc<()>) -> Job {
        let (peer, messages) = CallPeer::new(ClientSupport::default(), None);
        Job::new(messages, async move {
            let _held = (alive, peer);
            std::future::pending::<()>().await;
            Err(ErrorData::internal_error("never", None))
        })
    }

    #[tokio::test(start_paused = true)]
    async fn state_is_used_once_and_an_abandoned_job_is_dropped() {
        let table = table();
        let (binding, alive) = (Binding::of(&[b"a"]), Arc::new(()));
        let state = table.park(pending(Arc::clone(&alive)), binding).unwrap();
        let other = Binding::of(&[b"b"]);
        assert_eq!(table.fetch(&state, other).err(), Some(FetchError::Invalid));
        assert!(table.fetch(&state, binding).is_ok());
        assert_eq!(table.fetch(&state, binding).err(), Some(FetchError::Gone), "single use");
        assert_eq!(Arc::strong_count(&alive), 1, "dropped with the job");

        let state = table.park(pending(Arc::clone(&alive)), binding).unwrap();
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(Arc::strong_count(&alive), 1, "cancelled after its time");
        assert_eq!(table.fetch(&state, binding).err(), Some(FetchError::Gone));
    }

    #[tokio::test]
    async fn number_of_parked_jobs_is_bounded() {
        let table = table();
        let binding = Binding::of(&[]);
        for _ in 0..MAX_PARKED {
            assert!(table.park(pending(Arc::default()), binding).is_some());
        }
        assert!(table.park(pending(Arc::default()), binding).is_none());
    }
}
