//! Collects the matching lines of one file, bounded.

use std::{fmt::Write as _, io};

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch};

use super::Mode;

/// Bytes of a line that are shown.
const MAX_SHOWN_BYTES: usize = 500;
/// Bytes of a long line that are shown before its match.
const MAX_BEFORE_MATCH: usize = 100;

/// The matches of one file.
#[derive(Debug, Default)]
pub(super) struct FileMatches {
    pub(super) path: String,
    /// The lines, each with its line break.
    pub(super) text: String,
    pub(super) matches: u64,
    /// Whether there are more matches than requested.
    pub(super) more: bool,
    pub(super) outcome: Outcome,
}

/// How far a file was searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Outcome {
    #[default]
    Searched,
    /// It contains binary data.
    Binary,
    /// It has a line above the length limit.
    TooLong,
    /// It could not be read.
    Unreadable,
}

/// Receives matches from the searcher.
pub(super) struct MatchSink<'a> {
    pub(super) found: &'a mut FileMatches,
    pub(super) matcher: &'a RegexMatcher,
    pub(super) mode: Mode,
    /// Maximum number of matching lines.
    pub(super) limit: u64,
    /// Maximum number of bytes.
    pub(super) max_bytes: usize,
    pub(super) stop: &'a dyn Fn() -> bool,
}

impl MatchSink<'_> {
    fn write(&mut self, number: Option<u64>, mark: char, bytes: &[u8]) {
        let text = &mut self.found.text;
        let _ = write!(text, "{}{mark}", number.unwrap_or(0));
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        if bytes.len() <= MAX_SHOWN_BYTES {
            text.push_str(&String::from_utf8_lossy(bytes));
        } else {
            let at = self.matcher.find(bytes).ok().flatten().map_or(0, |found| found.start());
            let from = char_start(bytes, at.saturating_sub(MAX_BEFORE_MATCH));
            let to = char_start(bytes, (from + MAX_SHOWN_BYTES).min(bytes.len()));
            let shown = String::from_utf8_lossy(&bytes[from..to]);
            let (before, after) = (if from > 0 { "…" } else { "" }, bytes.len() - to);
            let _ = write!(text, "{before}{shown}");
            if after > 0 {
                let _ = write!(text, " [… {after} more bytes of this line …]");
            }
        }
        text.push('\n');
    }
}

/// Moves back to the start of a UTF-8 character.
fn char_start(bytes: &[u8], at: usize) -> usize {
    let back = (0..4).find(|back| {
        at.checked_sub(*back).and_then(|at| bytes.get(at)).is_none_or(|b| b & 0xc0 != 0x80)
    });
    at - back.unwrap_or(0).min(at)
}

impl Sink for MatchSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if (self.stop)() {
            return Ok(false);
        }
        if self.mode != Mode::Count
            && (self.found.matches >= self.limit || self.found.text.len() >= self.max_bytes)
        {
            self.found.more = true;
            return Ok(false);
        }
        self.found.matches += 1;
        match self.mode {
            Mode::Lines => self.write(found.line_number(), ':', found.bytes()),
            Mode::Files => return Ok(false),
            Mode::Count => {}
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, io::Error> {
        if *line.kind() != SinkContextKind::Other && self.mode == Mode::Lines {
            self.write(line.line_number(), '-', line.bytes());
        }
        Ok(!(self.stop)())
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        if self.mode == Mode::Lines && !self.found.text.is_empty() {
            self.found.text.push_str("--\n");
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> Result<(), io::Error> {
        if finish.binary_byte_offset().is_some() {
            self.found.outcome = Outcome::Binary;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncation_never_splits_a_character() {
        let text = "a🦀é漢b".as_bytes();
        for at in 0..=text.len() {
            let cut = char_start(text, at);
            assert!(cut <= at && str::from_utf8(&text[..cut]).is_ok(), "{at} {cut}");
        }
        assert_eq!(char_start(&[0x80; 9], 5), 5, "what is no text is cut where it is");
    }
}
