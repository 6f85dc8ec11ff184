//! A fast filter before a name is folded and looked up: which lengths names have, by their first
//! byte.

use std::ffi::OsStr;

use super::table;

/// Lengths of names by their first byte.
#[derive(Debug, Clone)]
pub(super) struct Lengths([u64; 128]);

impl Default for Lengths {
    fn default() -> Self {
        let mut lengths = Self([0; 128]);
        // The search must always see `.git` directories.
        lengths.add(".git");
        table::DEPENDENCIES.iter().for_each(|name| lengths.add(name));
        lengths
    }
}

impl Lengths {
    fn bit(length: usize) -> u64 {
        1 << length.min(63)
    }

    pub(super) fn add(&mut self, folded: &str) {
        let first = folded.bytes().next().filter(u8::is_ascii);
        match first.and_then(|first| self.0.get_mut(usize::from(first))) {
            Some(bits) => *bits |= Self::bit(folded.len()),
            None => self.0 = [u64::MAX; 128],
        }
    }

    /// Whether a name may be one of those that were added, in some spelling.
    pub(super) fn may_have(&self, name: &OsStr) -> bool {
        let bytes = name.as_encoded_bytes();
        let [first, .., last] = bytes else { return true };
        // Folding changes the length of these.
        let changes = matches!(last, b'.' | b' ') || !bytes.is_ascii();
        changes
            || bytes.iter().any(|b| matches!(b, b':' | b'~'))
            || self
                .0
                .get(usize::from(first.to_ascii_lowercase()))
                .is_none_or(|bits| bits & Self::bit(bytes.len()) != 0)
    }
}
