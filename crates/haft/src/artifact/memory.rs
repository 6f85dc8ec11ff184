//! Artifacts in memory: bounded in bytes and in number, lost when the process ends.
//!
//! INVARIANT: `by_end` has the same entries as `all`, and `used` is their total cost. So `put` does
//! not scan all of them.

use std::{
    collections::{BTreeSet, HashMap},
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use haft_core::sync::lock;

use super::{Artifact, ArtifactId, ArtifactMeta, Body, MAX_ARTIFACTS, NotKept, OVERHEAD, Store};

/// A store in memory.
pub(super) struct Memory {
    quota: u64,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    all: HashMap<ArtifactId, (ArtifactMeta, Arc<[u8]>)>,
    /// In the order of expiry.
    by_end: BTreeSet<(u64, ArtifactId)>,
    used: u64,
}

impl Memory {
    pub(super) fn new(quota: u64) -> Self {
        Self { quota, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }
}

fn cost(facts: &ArtifactMeta) -> u64 {
    facts.bytes.saturating_add(facts.memory_size()).saturating_add(OVERHEAD)
}

impl Kept {
    /// Removes expired artifacts and returns them, to be freed without the lock. All have the same
    /// lifetime, so expired ones are first, and those that a clock set back left in the future are
    /// last.
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
        let fits = used <= self.quota && kept.all.len() < MAX_ARTIFACTS;
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
        // An artifact that was reported as expired stays expired, even if the clock is set back.
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
