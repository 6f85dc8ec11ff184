//! Redacts a text that comes piece by piece, as if it had come whole.
//!
//! In: pieces, cut anywhere. Out: what is sure not to be the beginning of a secret. What is held back
//! is at most as long as the longest form of a known secret and the longest key there is, and is
//! nothing most of the time.
//!
//! INVARIANT: all that is put out, joined, is what redacting the whole text gives.

use std::fmt;

use super::{Redactor, patterns};

/// Redacts a text that comes piece by piece.
///
/// ```
/// use haft::{Redactor, Secrets};
///
/// let secrets = Secrets::new();
/// secrets.add("door", "open sesame")?;
/// let mut stream = Redactor::new(secrets).stream();
/// assert_eq!(stream.feed("say open se"), "say ");
/// assert_eq!(stream.feed("same now"), "[REDACTED:secret/door:11] now");
/// assert_eq!(stream.finish(), "");
/// # Ok::<(), haft::Error>(())
/// ```
pub struct StreamRedactor {
    redactor: Redactor,
    /// What may be the beginning of a known secret.
    raw: String,
    /// What may be the beginning of a key, with known secrets out.
    known_out: String,
    /// The last bytes that were put out: whether a word may begin depends on them.
    before: Vec<u8>,
}

/// As far back as anyone looks to tell whether a word begins.
const LOOK_BACK: usize = 3;

impl StreamRedactor {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self { redactor, raw: String::new(), known_out: String::new(), before: Vec::new() }
    }

    /// Takes a piece and returns what can be shown now.
    pub fn feed(&mut self, piece: &str) -> String {
        self.go(piece, false)
    }

    /// Ends the text and returns the rest.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.go("", true)
    }

    /// Returns how many bytes are held back.
    #[must_use]
    pub fn held(&self) -> usize {
        self.raw.len() + self.known_out.len()
    }

    fn go(&mut self, piece: &str, last: bool) -> String {
        match self.redactor.secrets.known() {
            Some(known) => {
                self.raw.push_str(piece);
                let taken = known.sweep(&self.raw, last, &mut self.known_out);
                self.raw.drain(..taken);
            }
            None => {
                self.known_out.push_str(&std::mem::take(&mut self.raw));
                self.known_out.push_str(piece);
            }
        }
        let mut out = String::new();
        let taken = patterns::sweep(&self.known_out, &self.before, last, &mut out);
        self.known_out.drain(..taken);
        self.before.extend(out.bytes().rev().take(LOOK_BACK).collect::<Vec<_>>().iter().rev());
        let old = self.before.len().saturating_sub(LOOK_BACK);
        self.before.drain(..old);
        out
    }
}

impl fmt::Debug for StreamRedactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamRedactor").field("held", &self.held()).finish_non_exhaustive()
    }
}
