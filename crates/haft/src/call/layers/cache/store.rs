//! The cached results, with expiry and a byte limit. The least recently used is evicted first
//! (LRU). Our own code, because the caches we know have no clock that a test can set, or no expiry.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Instant,
};

use haft_core::{Block, Label, Output};
use smallvec::SmallVec;

use crate::{
    call::layers::key::{Key, KeyHasher},
    memory_size::memory_size_of,
};

/// A cached result: the output, and the label of everything that its call had read.
#[derive(Debug)]
pub(super) struct CachedResult {
    pub(super) output: Output,
    pub(super) label: Label,
}

/// The cached results.
#[derive(Debug)]
pub(super) struct Store {
    max_bytes: usize,
    entries: HashMap<Key, Entry, KeyHasher>,
    /// The uses, oldest first. Only the last use of a key counts.
    order: VecDeque<(Key, u64)>,
    uses: u64,
    bytes: usize,
}

#[derive(Debug)]
pub(super) struct Entry {
    result: Arc<CachedResult>,
    until: Instant,
    bytes: usize,
    used: u64,
}

/// What one result costs in addition to its data: its key, its entry in the map and in the order.
pub(super) const OVERHEAD: usize = 256;

impl Store {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, entries: HashMap::default(), order: VecDeque::new(), uses: 0, bytes: 0 }
    }

    /// Returns a cached result. An expired one is removed and returned as the error, so that the
    /// caller frees it after the lock: it may be large.
    pub(super) fn find(
        &mut self,
        key: &Key,
        now: Instant,
    ) -> Result<Arc<CachedResult>, Option<Entry>> {
        let Some(entry) = self.entries.get_mut(key) else { return Err(None) };
        if now >= entry.until {
            return Err(self.remove(key));
        }
        self.uses += 1;
        entry.used = self.uses;
        let result = Arc::clone(&entry.result);
        self.record_use(key.clone(), self.uses);
        Ok(result)
    }

    /// Stores a result, unless it is larger than the cache. Returns the evicted entries, so that
    /// the caller frees them after the lock.
    pub(super) fn insert(
        &mut self,
        key: &Key,
        result: Arc<CachedResult>,
        bytes: usize,
        until: Instant,
    ) -> SmallVec<[Entry; 2]> {
        let mut evicted = SmallVec::new();
        evicted.extend(self.remove(key));
        if bytes > self.max_bytes {
            return evicted;
        }
        while self.bytes > self.max_bytes - bytes {
            let Some((oldest, used)) = self.order.pop_front() else { break };
            if self.entries.get(&oldest).is_some_and(|entry| entry.used == used) {
                evicted.extend(self.remove(&oldest));
            }
        }
        self.bytes += bytes;
        self.uses += 1;
        self.entries.insert(key.clone(), Entry { result, until, bytes, used: self.uses });
        self.record_use(key.clone(), self.uses);
        evicted
    }

    fn record_use(&mut self, key: Key, used: u64) {
        self.order.push_back((key, used));
        // Old uses are dropped when they are the larger part, so the cost per use is constant.
        if self.order.len() > 2 * self.entries.len() + 64 {
            let entries = &self.entries;
            self.order.retain(|(key, used)| entries.get(key).is_some_and(|e| e.used == *used));
        }
    }

    fn remove(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.bytes -= entry.bytes;
        Some(entry)
    }
}

/// Estimates the bytes of an output; `None` if there are more than the maximum.
pub(super) fn estimate_bytes(output: &Output, max_bytes: usize) -> Option<usize> {
    let mut bytes = OVERHEAD + output.blocks.len() * size_of::<Block>();
    if let Some(data) = &output.structured {
        bytes = bytes.saturating_add(memory_size_of(data, max_bytes));
    }
    for block in &output.blocks {
        bytes = bytes.saturating_add(match block {
            Block::Text { text } => text.len(),
            Block::Image { data, media_type } | Block::Audio { data, media_type } => {
                data.len() + media_type.len()
            }
            Block::Link { uri, name, media_type } => {
                uri.len() + name.len() + media_type.as_ref().map_or(0, String::len)
            }
            Block::Json { json } => memory_size_of(json, max_bytes),
        });
    }
    (bytes <= max_bytes).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    impl Store {
        pub(in crate::call::layers::cache) fn bytes(&self) -> usize {
            self.bytes
        }

        /// Returns whether the byte count is right and old uses do not accumulate.
        pub(in crate::call::layers::cache) fn is_sound(&self) -> bool {
            let bytes: usize = self.entries.values().map(|entry| entry.bytes).sum();
            bytes == self.bytes && self.order.len() <= 2 * self.entries.len() + 65
        }
    }

    #[test]
    fn estimate_covers_every_part_of_an_output() {
        let nested = json!({"key": ["text", {"deep": [1, 2, null]}]});
        let output =
            Output { blocks: vec![Block::text("abc")], structured: Some(Box::new(nested)) };
        let all = estimate_bytes(&output, usize::MAX).unwrap();
        assert!(all > OVERHEAD + 7 * size_of::<serde_json::Value>());
        assert_eq!(estimate_bytes(&output, all), Some(all));
        assert_eq!(estimate_bytes(&output, all - 1), None);
    }
}
