//! Text as it grows from a page: words with one space, gaps of at most one empty line.
//!
//! What stands before a word (line ends, a bullet, a quote's mark) waits until the word comes, so
//! that what is empty leaves no trace.
//!
//! INVARIANT: the text is only ever added to, and never beyond its bound.

use std::mem::take;

/// A page gives no more text than this; many short links could else grow far beyond the page.
pub(super) const LONG: usize = 4 << 20;

/// Text as it grows: words with one space, gaps of at most one empty line.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) text: String,
    /// Line ends that come before the next word.
    gap: usize,
    /// A space that comes before the next word.
    pub(super) space: bool,
    /// What comes before the first word of a line: a bullet, a number, a heading's mark.
    pub(super) marker: String,
    pub(super) quotes: usize,
    pub(super) fences: usize,
    pub(super) full: bool,
}

impl Writer {
    /// Adds words; runs of space are one.
    pub(super) fn words(&mut self, text: &str) {
        let mut rest = text;
        while let Some(start) = rest.find(|c: char| !is_space(c)) {
            self.space |= start > 0;
            rest = &rest[start..];
            let end = rest.find(is_space).unwrap_or(rest.len());
            self.begin();
            self.add(&rest[..end]);
            rest = &rest[end..];
        }
        self.space |= !rest.is_empty();
    }

    /// Adds text whose space counts.
    pub(super) fn lines(&mut self, text: &str) {
        if !text.is_empty() {
            self.begin();
            self.add(text);
        }
    }

    /// Adds text as it is, behind what is there already.
    pub(super) fn raw(&mut self, text: &str) {
        self.space = false;
        self.begin();
        self.add(text);
    }

    /// Wants so many line ends before the next word.
    pub(super) fn gap(&mut self, lines: usize) {
        self.space = false;
        // A bullet waits for its words, also where those begin with a paragraph.
        if self.marker.is_empty() {
            self.gap = self.gap.max(lines);
        }
    }

    pub(super) fn line_break(&mut self) {
        match self.fences {
            0 => self.gap(1),
            _ => self.lines("\n"),
        }
    }

    pub(super) fn open_fence(&mut self) {
        self.gap(2);
        self.raw("```\n");
        self.fences += 1;
    }

    pub(super) fn close_fence(&mut self) {
        self.fences = self.fences.saturating_sub(1);
        let own_line = self.text.ends_with('\n');
        self.add(if own_line { "```" } else { "\n```" });
        self.gap(2);
    }

    /// Writes what waits before the next word.
    fn begin(&mut self) {
        let fresh = self.text.is_empty();
        if self.gap > 0 || fresh {
            if !fresh {
                let ends = "\n".repeat(self.gap);
                self.add(&ends);
            }
            let quotes = "> ".repeat(self.quotes.min(8));
            self.add(&quotes);
        } else if self.space && !self.text.ends_with([' ', '\n']) {
            self.add(" ");
        }
        let marker = take(&mut self.marker);
        self.add(&marker);
        self.gap = 0;
        self.space = false;
    }

    pub(super) fn add(&mut self, text: &str) {
        let room = LONG.saturating_sub(self.text.len());
        self.full |= text.len() > room;
        self.text.push_str(&text[..text.floor_char_boundary(room)]);
    }
}

/// The space of HTML; a space that does not break is a space to a reader as well.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0c' | '\u{a0}')
}
