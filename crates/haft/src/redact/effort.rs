//! Bounds the work that a hostile text can ask for: a text in which a key may begin at every few bytes,
//! and none does.
//!
//! In: how many bytes each try looked at. Out: whether it has become too much. Brackets end every
//! shape, and a mark has two, so the count starts again at each: redacting twice counts the same.
//!
//! INVARIANT: the count depends on the text alone, not on how it was cut.

use super::shape::is_bracket;

/// What a mark names a stretch that was not looked at.
pub(super) const CROWDED: &str = "crowded";

/// So many bytes may be looked at for each byte of text. Ordinary text needs fewer than one.
const RATE: usize = 16;
/// So many more may be looked at in a burst, as in a list of names.
const BURST: usize = 16 << 10;

/// The work since the last bracket.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Effort {
    /// So many bytes were looked at.
    spent: usize,
    /// So many bytes of text there are.
    bytes: usize,
    /// Up to here the text was counted.
    counted: usize,
}

impl Effort {
    /// Starts at a place.
    pub(super) fn from(place: usize) -> Self {
        Self { counted: place, ..Self::default() }
    }

    /// Counts the text up to a place.
    pub(super) fn go(&mut self, text: &[u8], to: usize) {
        let Some(passed) = text.get(self.counted..to) else { return };
        self.counted = to;
        match passed.iter().rposition(|b| is_bracket(*b)) {
            Some(bracket) => (self.spent, self.bytes) = (0, passed.len() - bracket - 1),
            None => self.bytes += passed.len(),
        }
    }

    /// Counts bytes that a try looked at.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.spent += bytes;
    }

    /// Whether there were more than any honest text needs.
    pub(super) fn is_over(&self) -> bool {
        self.spent > BURST + RATE * self.bytes
    }

    /// The same for a text of which so many bytes are gone.
    pub(super) fn rebased(self, gone: usize) -> Self {
        Self { counted: self.counted.saturating_sub(gone), ..self }
    }
}

/// How far a shape has to look at most: to the first byte that no shape passes. Some pass a few
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
    fn count_starts_again_at_a_bracket_and_grows_with_the_text() {
        let text = b"aaaa]bbbb";
        let mut effort = Effort::default();
        effort.go(text, 4);
        effort.spend(BURST + 4 * RATE);
        assert!(!effort.is_over());
        effort.spend(1);
        assert!(effort.is_over());
        effort.go(text, 6);
        assert!(!effort.is_over());
        effort.spend(BURST + RATE + 1);
        assert!(effort.is_over());
        effort.go(text, 9);
        assert!(!effort.is_over(), "more text came");
    }
}
