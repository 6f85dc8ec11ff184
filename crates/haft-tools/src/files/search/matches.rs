//! What one file has: its matching lines as they are shown, bounded.

use std::{fmt::Write as _, io};

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch};

use super::Mode;

/// So much of a line is shown, in bytes.
const LONG: usize = 500;
/// So much of a long line is shown before its match.
const BEFORE: usize = 100;

/// What was found in one file.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) path: String,
    /// The lines, each with its line break.
    pub(super) text: String,
    pub(super) matches: u64,
    /// There are more than were wanted.
    pub(super) more: bool,
    pub(super) outcome: Outcome,
}

/// How far a file was searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Outcome {
    #[default]
    Searched,
    /// It is no text, from some point on.
    Binary,
    /// It has a line that is too long to be searched.
    TooLong,
    /// It could not be read.
    Unreadable,
}

/// Takes matches from the searcher.
pub(super) struct Taker<'a> {
    pub(super) found: &'a mut Found,
    pub(super) matcher: &'a RegexMatcher,
    pub(super) mode: Mode,
    /// So many matching lines are enough.
    pub(super) limit: u64,
    /// So many bytes are enough.
    pub(super) room: usize,
    pub(super) stop: &'a dyn Fn() -> bool,
}

impl Taker<'_> {
    fn write(&mut self, number: Option<u64>, mark: char, bytes: &[u8]) {
        let text = &mut self.found.text;
        let _ = write!(text, "{}{mark}", number.unwrap_or(0));
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        if bytes.len() <= LONG {
            text.push_str(&String::from_utf8_lossy(bytes));
        } else {
            let at = self.matcher.find(bytes).ok().flatten().map_or(0, |found| found.start());
            let from = whole(bytes, at.saturating_sub(BEFORE));
            let to = whole(bytes, (from + LONG).min(bytes.len()));
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

/// Goes back to where a character begins.
fn whole(bytes: &[u8], at: usize) -> usize {
    let back = (0..4).find(|back| {
        at.checked_sub(*back).and_then(|at| bytes.get(at)).is_none_or(|b| b & 0xc0 != 0x80)
    });
    at - back.unwrap_or(0).min(at)
}

impl Sink for Taker<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if (self.stop)() {
            return Ok(false);
        }
        if self.mode != Mode::Count
            && (self.found.matches >= self.limit || self.found.text.len() >= self.room)
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
    fn a_cut_never_falls_into_a_character() {
        let text = "a🦀é漢b".as_bytes();
        for at in 0..=text.len() {
            let cut = whole(text, at);
            assert!(cut <= at && str::from_utf8(&text[..cut]).is_ok(), "{at} {cut}");
        }
        assert_eq!(whole(&[0x80; 9], 5), 5, "what is no text is cut where it is");
    }
}
