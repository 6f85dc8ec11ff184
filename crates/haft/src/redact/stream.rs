//! Redacts a text that comes piece by piece, as if it had come whole.
//!
//! In: pieces, cut anywhere. Out: what is sure not to be the beginning of a secret. What is held back
//! is at most as long as the longest form of a known secret and the longest key there is, with some
//! room for what nobody sees between their characters, and is nothing most of the time.
//!
//! INVARIANT: all that is put out, joined, is what redacting the whole text gives; but for gaps that
//! are longer than anything they could stand in, which are left out.

use std::fmt;

use super::{
    Redactor,
    bare::{Breaks, ESCAPE, Reading, SHOWN, STROKE, WRITTEN, bare},
    patterns::{self, Past},
};
use crate::sanitize;

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
    shown: Stage,
    /// The same text as it is written; nothing until there is an escape in it.
    written: Option<Stage>,
}

impl StreamRedactor {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self { redactor, shown: Stage::new(SHOWN, Past::default()), written: None }
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
        self.shown.held() + self.written.as_ref().map_or(0, Stage::held)
    }

    fn go(&mut self, piece: &str, last: bool) -> String {
        if self.written.is_none() && piece.contains(ESCAPE) {
            // Up to here both ways to read it were one.
            self.written = Some(Stage::new(WRITTEN, self.shown.past.clone()));
        }
        let shown = self.shown.go(&self.redactor, piece, last);
        match &mut self.written {
            Some(written) => written.go(&self.redactor, &shown, last),
            None => shown,
        }
    }
}

/// One way to read the text.
struct Stage {
    reading: Reading,
    /// What may be the beginning of a known secret, in each way to look for one.
    passes: [String; Breaks::PASSES.len()],
    /// Whether there was a stroke; up to the first one some ways to look are one.
    has_stroke: bool,
    /// What may be the beginning of a key, with known secrets out.
    known_out: String,
    /// What was put out before it.
    past: Past,
}

impl Stage {
    fn new(reading: Reading, past: Past) -> Self {
        let passes = Default::default();
        Self { reading, passes, has_stroke: false, known_out: String::new(), past }
    }

    fn held(&self) -> usize {
        self.passes.iter().map(String::len).sum::<usize>() + self.known_out.len()
    }

    fn go(&mut self, redactor: &Redactor, piece: &str, last: bool) -> String {
        let known = redactor.secrets.known();
        self.has_stroke |= piece.contains(STROKE);
        let mut text = piece.to_owned();
        for (held, breaks) in self.passes.iter_mut().zip(Breaks::PASSES) {
            held.push_str(&text);
            let Some(known) = &known else {
                text = std::mem::take(held);
                continue;
            };
            text.clear();
            let reading = self.reading.skipping(breaks);
            let taken = known.sweep(held, reading, (self.has_stroke, last), &mut text);
            held.drain(..taken);
            thin(held, reading, known.longest());
        }
        self.known_out.push_str(&text);
        let mut out = String::new();
        let held = &self.known_out;
        let taken = patterns::sweep(held, self.reading, &mut self.past, last, &mut out);
        self.known_out.drain(..taken);
        thin(&mut self.known_out, self.reading, patterns::LONGEST_FIND);
        out
    }
}

/// So many bytes of gaps are held back beyond what must be.
const GAPS: usize = 8 << 10;

/// Leaves the gaps out of what is held back, where they have become more than the text. Nothing is
/// shown too early for that, and nothing grows without an end.
fn thin(held: &mut String, reading: Reading, longest: usize) {
    if held.len() > longest.saturating_add(GAPS) {
        let bare = bare(held, reading, false);
        let rest = bare.settled(bare.text.len(), held);
        *held = [&*bare.text, &held[rest..]].concat();
    }
}

/// Cleans and redacts a text that comes piece by piece. As with a whole text, secrets are looked for
/// before and after it is cleaned.
pub(crate) struct Washing {
    seen: StreamRedactor,
    cleaned: sanitize::StreamSanitizer,
    shown: StreamRedactor,
}

impl Washing {
    pub(super) fn new(redactor: &Redactor) -> Self {
        let (seen, shown) = (redactor.stream(), redactor.stream());
        Self { seen, cleaned: sanitize::StreamSanitizer::default(), shown }
    }

    pub(crate) fn feed(&mut self, piece: &str) -> String {
        let seen = self.seen.feed(piece);
        self.shown.feed(&self.cleaned.feed(&seen))
    }

    pub(crate) fn finish(mut self) -> String {
        let seen = self.seen.finish();
        let mut text = self.cleaned.feed(&seen).into_owned();
        text += &self.cleaned.flush();
        self.shown.feed(&text) + &self.shown.finish()
    }
}

impl fmt::Debug for StreamRedactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamRedactor").field("held", &self.held()).finish_non_exhaustive()
    }
}
