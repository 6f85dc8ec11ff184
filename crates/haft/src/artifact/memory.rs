//! Artifacts in memory: bounded in bytes and in number, gone when the process ends.
//!
//! INVARIANT: `by_end` names what is in `all`, and `used` is the sum of it. So nobody looks at all of
//! them to take one in.

use std::{
    collections::{BTreeSet, HashMap},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Artifact, ArtifactId, ArtifactMeta, Body, MOST, NotKept, OVERHEAD, Store};

/// A shelf in memory.
pub(super) struct Memory {
    quota: u64,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    all: HashMap<ArtifactId, (ArtifactMeta, Arc<[u8]>)>,
    /// In the order they expire.
    by_end: BTreeSet<(u64, ArtifactId)>,
    used: u64,
}

impl Memory {
    pub(super) fn new(quota: u64) -> Self {
        Self { quota, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cost(facts: &ArtifactMeta) -> u64 {
    facts.bytes.saturating_add(facts.weight()).saturating_add(OVERHEAD)
}

impl Kept {
    /// Takes out what has expired, to be freed without the lock. All live equally long, so what has
    /// expired stands first, and what a clock that was set back has left in the future stands last.
    fn sweep(&mut self, now: u64) -> Vec<(ArtifactMeta, Arc<[u8]>)> {
        let mut gone = Vec::new();
        for next in [BTreeSet::first, BTreeSet::last] {
            while let Some(&(end, id)) = next(&self.by_end)
                && self.all.get(&id).is_none_or(|(facts, _)| !facts.is_alive(now))
            {
                self.by_end.remove(&(end, id));
                if let Some(kept) = self.all.remove(&id) {
                    self.used = self.used.saturating_sub(cost(&kept.0));
                    gone.push(kept);
                }
            }
        }
        gone
    }
}

impl Store for Memory {
    fn put(&self, facts: &ArtifactMeta, body: &Arc<[u8]>, now: u64) -> Result<(), NotKept> {
        let mut kept = self.kept();
        let gone = kept.sweep(now);
        let used = kept.used.saturating_add(cost(facts));
        let fits = used <= self.quota && kept.all.len() < MOST;
        if fits {
            kept.used = used;
            kept.by_end.insert((facts.expires, facts.id));
            kept.all.insert(facts.id, (facts.clone(), Arc::clone(body)));
        }
        drop(kept);
        drop(gone);
        if fits { Ok(()) } else { Err(NotKept::Full) }
    }

    fn open(&self, id: ArtifactId, now: u64) -> io::Result<Option<Artifact>> {
        let mut kept = self.kept();
        // Whoever saw it gone never sees it again, even if the clock is set back.
        let gone = kept.sweep(now);
        let found = kept.all.get(&id).map(|(facts, body)| Artifact {
            facts: facts.clone(),
            body: Body::Memory(Arc::clone(body)),
        });
        drop(kept);
        drop(gone);
        Ok(found)
    }

    fn list(&self, now: u64) -> io::Result<Vec<ArtifactMeta>> {
        let mut kept = self.kept();
        let gone = kept.sweep(now);
        let all = kept.all.values().map(|(facts, _)| facts.clone()).collect();
        drop(kept);
        drop(gone);
        Ok(all)
    }

    fn is_blocking(&self) -> bool {
        false
    }
}
