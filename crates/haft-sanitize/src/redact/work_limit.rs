//! Bounds the work that a hostile text can cause: a text in which a key could start every few
//! bytes, and none does (algorithmic complexity attack).
//!
//! In: how many bytes each attempt scanned. Out: whether it is too much. Brackets end every key
//! pattern, and a redaction mark contains two, so the count restarts at each bracket: redacting
//! twice counts the same.
//!
//! INVARIANT: the count depends on the text alone, not on how it was split into pieces.

use super::pattern_search::is_bracket;

/// The rule name in the mark of a stretch that was not scanned.
pub(super) const CROWDED: &str = "crowded";

/// How many bytes may be scanned for each byte of text. Ordinary text needs fewer than one.
const SCANNED_PER_BYTE: usize = 16;
/// How many more bytes may be scanned in a burst, as in a list of names.
const MAX_BURST_BYTES: usize = 16 << 10;

/// The work since the last bracket.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Effort {
    /// Bytes scanned.
    spent: usize,
    /// Bytes of text.
    bytes: usize,
    /// The text was counted up to here.
    counted: usize,
}

impl Effort {
    /// Starts at a position.
    pub(super) fn from(place: usize) -> Self {
        Self { counted: place, ..Self::default() }
    }

    /// Counts the text up to a position.
    pub(super) fn go(&mut self, text: &[u8], to: usize) {
        let Some(passed) = text.get(self.counted..to) else { return };
        self.counted = to;
        match passed.iter().rposition(|b| is_bracket(*b)) {
            Some(bracket) => (self.spent, self.bytes) = (0, passed.len() - bracket - 1),
            None => self.bytes += passed.len(),
        }
    }

    /// Counts bytes that an attempt scanned.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.spent += bytes;
    }

    /// Whether it is more than ordinary text needs.
    pub(super) fn is_over(&self) -> bool {
        self.spent > MAX_BURST_BYTES + SCANNED_PER_BYTE * self.bytes
    }

    /// The same for a text whose first bytes were removed.
    pub(super) fn rebased(self, gone: usize) -> Self {
        Self { counted: self.counted.saturating_sub(gone), ..self }
    }
}

/// How far a pattern scans at most: to the first byte that no pattern passes. Some pass a few
/// blanks.
pub(super) fn look(stretch: &[u8]) -> usize {
    let ends =
        |b: &u8| b.is_ascii_whitespace() || is_bracket(*b) || matches!(b, b'"' | b'<' | b'>');
    stretch.iter().position(ends).unwrap_or(stretch.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effort_restarts_at_a_bracket_and_grows_with_the_text() {
        let text = b"aaaa]bbbb";
        let mut effort = Effort::default();
        effort.go(text, 4);
        effort.spend(MAX_BURST_BYTES + 4 * SCANNED_PER_BYTE);
        assert!(!effort.is_over());
        effort.spend(1);
        assert!(effort.is_over());
        effort.go(text, 6);
        assert!(!effort.is_over());
        effort.spend(MAX_BURST_BYTES + SCANNED_PER_BYTE + 1);
        assert!(effort.is_over());
        effort.go(text, 9);
        assert!(!effort.is_over(), "more text came");
    }
}
