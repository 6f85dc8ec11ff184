//! Redacts streamed text, with the same result as for the whole text.
//!
//! In: pieces, split anywhere. Out: the text that cannot be the start of a secret. The buffer holds
//! at most the longest form of a known secret plus the longest key pattern, and some invisible
//! characters in between. Most of the time it is empty.
//!
//! INVARIANT: the concatenated output equals the redaction of the whole text, except for runs of
//! invisible characters longer than any match, which are dropped.

use std::fmt;

use super::{
    Redactor,
    pattern_search::{self, Past},
    visible_text::{BACKSLASH, Breaks, ESCAPE, Reading, SHOWN, WRITTEN, bare},
};
use crate::StreamSanitizer;

/// Redacts streamed text.
///
/// ```
/// use haft_sanitize::{KnownSecrets, Redactor};
///
/// let secrets = KnownSecrets::new();
/// secrets.add("door", "open sesame")?;
/// let mut stream = Redactor::new(secrets).stream();
/// assert_eq!(stream.feed("say open se"), "say ");
/// assert_eq!(stream.feed("same now"), "[REDACTED:secret/door:11] now");
/// assert_eq!(stream.finish(), "");
/// # Ok::<(), haft_sanitize::AddSecretError>(())
/// ```
pub struct StreamRedactor {
    redactor: Redactor,
    shown: Stage,
    /// The same text with escape sequences as text; `None` until there is an escape.
    written: Option<Stage>,
}

impl StreamRedactor {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self { redactor, shown: Stage::new(SHOWN, Past::default()), written: None }
    }

    /// Takes a piece and returns the text that can be shown now.
    pub fn feed(&mut self, piece: &str) -> String {
        self.go(piece, false)
    }

    /// Ends the text and returns the rest.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.go("", true)
    }

    /// Returns how many bytes are buffered.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.shown.held() + self.written.as_ref().map_or(0, Stage::held)
    }

    fn go(&mut self, piece: &str, last: bool) -> String {
        if self.written.is_none() && piece.contains(ESCAPE) {
            // Up to here both readings were the same.
            self.written = Some(Stage::new(WRITTEN, self.shown.past.clone()));
        }
        let shown = self.shown.go(&self.redactor, piece, last);
        match &mut self.written {
            Some(written) => written.go(&self.redactor, &shown, last),
            None => shown,
        }
    }
}

/// One reading of the text.
struct Stage {
    reading: Reading,
    /// What may be the start of a known secret, for each pass.
    passes: [String; Breaks::PASSES.len()],
    /// Whether there was a backslash; up to the first one some passes are the same.
    has_backslash: bool,
    /// What may be the start of a key, with known secrets redacted.
    known_redacted: String,
    /// State about the output before it.
    past: Past,
}

impl Stage {
    fn new(reading: Reading, past: Past) -> Self {
        let passes = Default::default();
        Self { reading, passes, has_backslash: false, known_redacted: String::new(), past }
    }

    fn held(&self) -> usize {
        self.passes.iter().map(String::len).sum::<usize>() + self.known_redacted.len()
    }

    fn go(&mut self, redactor: &Redactor, piece: &str, last: bool) -> String {
        let known = redactor.secrets.known();
        self.has_backslash |= piece.contains(BACKSLASH);
        let mut text = piece.to_owned();
        for (held, breaks) in self.passes.iter_mut().zip(Breaks::PASSES) {
            held.push_str(&text);
            let Some(known) = &known else {
                text = std::mem::take(held);
                continue;
            };
            text.clear();
            let reading = self.reading.skipping(breaks);
            let taken = known.sweep(held, reading, (self.has_backslash, last), &mut text);
            held.drain(..taken);
            drop_gaps(held, reading, known.longest());
        }
        self.known_redacted.push_str(&text);
        let mut out = String::new();
        let held = &self.known_redacted;
        let taken = pattern_search::sweep(held, self.reading, &mut self.past, last, &mut out);
        self.known_redacted.drain(..taken);
        drop_gaps(&mut self.known_redacted, self.reading, pattern_search::MAX_FIND_BYTES);
        out
    }
}

/// How many bytes of invisible characters are buffered beyond the longest match.
const MAX_GAP_BYTES: usize = 8 << 10;

/// Drops invisible characters from the buffer if they are more than the text. This bounds the
/// buffer, and shows no text too early.
fn drop_gaps(held: &mut String, reading: Reading, longest: usize) {
    if held.len() > longest.saturating_add(MAX_GAP_BYTES) {
        let bare = bare(held, reading, false);
        let rest = bare.settled(bare.text.len(), held);
        *held = [&*bare.text, &held[rest..]].concat();
    }
}

/// Sanitizes and redacts streamed text. As for whole text, secrets are searched before and after
/// sanitizing.
pub struct SanitizingRedactor {
    seen: StreamRedactor,
    cleaned: StreamSanitizer,
    shown: StreamRedactor,
}

impl SanitizingRedactor {
    pub(super) fn new(redactor: &Redactor) -> Self {
        let (seen, shown) = (redactor.stream(), redactor.stream());
        Self { seen, cleaned: StreamSanitizer::default(), shown }
    }

    /// Takes a piece and returns the text that can be shown now.
    pub fn feed(&mut self, piece: &str) -> String {
        let seen = self.seen.feed(piece);
        self.shown.feed(&self.cleaned.feed(&seen))
    }

    /// Ends the text and returns the rest.
    #[must_use]
    pub fn finish(mut self) -> String {
        let seen = self.seen.finish();
        let mut text = self.cleaned.feed(&seen).into_owned();
        text += &self.cleaned.flush();
        self.shown.feed(&text) + &self.shown.finish()
    }
}

impl fmt::Debug for SanitizingRedactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SanitizingRedactor").finish_non_exhaustive()
    }
}

impl fmt::Debug for StreamRedactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamRedactor").field("held", &self.buffered()).finish_non_exhaustive()
    }
}
