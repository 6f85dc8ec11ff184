//! Text output of the HTML converter: collapses whitespace and limits gaps to one empty line.
//!
//! Markup before a word (line ends, bullet, quote mark) is written only when the word arrives, so
//! an empty element leaves no trace.
//!
//! INVARIANT: the text only grows, and never beyond its limit.

use std::mem::take;

/// Maximum text of one page; many short links could multiply its size.
pub(super) const MAX_TEXT_BYTES: usize = 4 << 20;

/// The text, as it grows.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) text: String,
    /// Line ends before the next word.
    gap: usize,
    /// Whether a space precedes the next word.
    pub(super) space: bool,
    /// Prefix of the first word of a line: a bullet, a number, a heading mark.
    pub(super) marker: String,
    pub(super) quotes: usize,
    pub(super) fences: usize,
    pub(super) full: bool,
}

impl Writer {
    /// Adds text and collapses whitespace.
    pub(super) fn inline_text(&mut self, text: &str) {
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

    /// Adds text and keeps its whitespace.
    pub(super) fn lines(&mut self, text: &str) {
        if !text.is_empty() {
            self.begin();
            self.add(text);
        }
    }

    /// Adds text unchanged, without a space before it.
    pub(super) fn raw(&mut self, text: &str) {
        self.space = false;
        self.begin();
        self.add(text);
    }

    /// Requires at least this many line ends before the next word.
    pub(super) fn gap(&mut self, lines: usize) {
        self.space = false;
        // A bullet waits for its text, also if that starts with a paragraph.
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

    /// Writes the pending markup before the next word.
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
        let space_left = MAX_TEXT_BYTES.saturating_sub(self.text.len());
        self.full |= text.len() > space_left;
        self.text.push_str(&text[..text.floor_char_boundary(space_left)]);
    }
}

/// HTML whitespace, and the no-break space.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0c' | '\u{a0}')
}
