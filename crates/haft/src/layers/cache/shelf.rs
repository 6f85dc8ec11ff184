//! The cached results, with expiry and a byte limit. The least recently used is evicted first
//! (LRU).

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Instant,
};

use haft_core::{Block, Label, Output};
use smallvec::SmallVec;

use crate::{
    layers::key::{self, Key},
    weight::weight_of,
};

/// A result as it is kept: the output, and the label of what its call had heard beside its own.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) output: Output,
    pub(super) heard: Label,
}

/// The results that are kept.
#[derive(Debug)]
pub(super) struct Shelf {
    most: usize,
    kept: HashMap<Key, Kept, key::Kept>,
    /// Who was used when, oldest first. Only the last mention of a key counts.
    order: VecDeque<(Key, u64)>,
    uses: u64,
    bytes: usize,
}

#[derive(Debug)]
pub(super) struct Kept {
    known: Arc<Known>,
    until: Instant,
    bytes: usize,
    used: u64,
}

/// What one kept result costs beside its data: its key, its places in the map and in the order.
pub(super) const OVERHEAD: usize = 256;

impl Shelf {
    pub(super) fn new(most: usize) -> Self {
        Self { most, kept: HashMap::default(), order: VecDeque::new(), uses: 0, bytes: 0 }
    }

    /// Returns what is kept. What is too old is let go of, and handed out to be freed after the lock:
    /// it may be large.
    pub(super) fn find(&mut self, key: &Key, now: Instant) -> Result<Arc<Known>, Option<Kept>> {
        let Some(kept) = self.kept.get_mut(key) else { return Err(None) };
        if now >= kept.until {
            return Err(self.remove(key));
        }
        self.uses += 1;
        kept.used = self.uses;
        let known = Arc::clone(&kept.known);
        self.mention(key.clone(), self.uses);
        Ok(known)
    }

    /// Keeps a result, unless it is larger than all there is room for. Returns what had to go, to be
    /// freed after the lock.
    pub(super) fn keep(
        &mut self,
        key: &Key,
        known: Arc<Known>,
        bytes: usize,
        until: Instant,
    ) -> SmallVec<[Kept; 2]> {
        let mut gone = SmallVec::new();
        gone.extend(self.remove(key));
        if bytes > self.most {
            return gone;
        }
        while self.bytes > self.most - bytes {
            let Some((oldest, used)) = self.order.pop_front() else { break };
            if self.kept.get(&oldest).is_some_and(|kept| kept.used == used) {
                gone.extend(self.remove(&oldest));
            }
        }
        self.bytes += bytes;
        self.uses += 1;
        self.kept.insert(key.clone(), Kept { known, until, bytes, used: self.uses });
        self.mention(key.clone(), self.uses);
        gone
    }

    fn mention(&mut self, key: Key, used: u64) {
        self.order.push_back((key, used));
        // Old mentions are let go when they are the larger part, so each costs its share once.
        if self.order.len() > 2 * self.kept.len() + 64 {
            let kept = &self.kept;
            self.order.retain(|(key, used)| kept.get(key).is_some_and(|k| k.used == *used));
        }
    }

    fn remove(&mut self, key: &Key) -> Option<Kept> {
        let kept = self.kept.remove(key)?;
        self.bytes -= kept.bytes;
        Some(kept)
    }
}

/// Returns how many bytes an output takes, about; nothing when that is more than so many.
pub(super) fn weigh(output: &Output, most: usize) -> Option<usize> {
    let mut bytes = OVERHEAD + output.blocks.len() * size_of::<Block>();
    if let Some(data) = &output.structured {
        bytes = bytes.saturating_add(weight_of(data, most));
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
            Block::Json { json } => weight_of(json, most),
        });
    }
    (bytes <= most).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    impl Shelf {
        pub(in crate::layers::cache) fn bytes(&self) -> usize {
            self.bytes
        }

        /// Whether the count is right, and old mentions do not pile up.
        pub(in crate::layers::cache) fn is_sound(&self) -> bool {
            let bytes: usize = self.kept.values().map(|kept| kept.bytes).sum();
            bytes == self.bytes && self.order.len() <= 2 * self.kept.len() + 65
        }
    }

    #[test]
    fn everything_in_an_output_has_weight() {
        let nested = json!({"key": ["text", {"deep": [1, 2, null]}]});
        let output = Output { blocks: vec![Block::text("abc")], structured: Some(nested) };
        let all = weigh(&output, usize::MAX).unwrap();
        assert!(all > OVERHEAD + 7 * size_of::<serde_json::Value>());
        assert_eq!(weigh(&output, all), Some(all));
        assert_eq!(weigh(&output, all - 1), None);
    }
}
