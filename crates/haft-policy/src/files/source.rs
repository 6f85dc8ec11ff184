//! The text of one file, and the location of an offset in it.
//!
//! In: a byte offset. Out: line and column from 1, the column counted in characters. A file with
//! one very long line costs no more than one with many short lines.

use std::{path::Path, path::PathBuf, sync::Arc};

use crate::rule::SourceLocation;

/// Characters are counted in steps of this many bytes.
const STEP: usize = 1024;

/// The text of one file.
#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) path: Arc<PathBuf>,
    pub(super) text: &'a str,
    /// The offset of each line.
    lines: Vec<usize>,
    /// The number of characters before each step.
    marks: Vec<usize>,
}

impl<'a> Source<'a> {
    pub(super) fn new(path: &Path, text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let ends = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1);
        let mut count = 0;
        let marks = bytes.chunks(STEP).map(|chunk| {
            let before = count;
            count += starts(chunk);
            before
        });
        Self {
            path: Arc::new(path.to_owned()),
            text,
            lines: std::iter::once(0).chain(ends).collect(),
            marks: marks.collect(),
        }
    }

    /// Returns the location of an offset.
    pub(super) fn location(&self, at: usize) -> SourceLocation {
        let at = at.min(self.text.len());
        let line = self.lines.partition_point(|start| *start <= at).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or(0);
        SourceLocation {
            file: Some(Arc::clone(&self.path)),
            line,
            column: self.characters(at) - self.characters(start) + 1,
        }
    }

    /// Returns how many characters start before an offset.
    fn characters(&self, at: usize) -> usize {
        // At the end of a file whose length is a multiple of `STEP` there is no mark.
        let mark = (at / STEP).min(self.marks.len().saturating_sub(1));
        let counted = self.marks.get(mark).copied().unwrap_or(0);
        counted + self.text.as_bytes().get(mark * STEP..at).map_or(0, starts)
    }
}

/// Counts the bytes that start a character.
fn starts(bytes: &[u8]) -> usize {
    bytes.iter().filter(|b| **b & 0xC0 != 0x80).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn columns_count_characters_with_lf_and_crlf() {
        let source = Source::new(Path::new("a"), "é = 1\r\nöö = 2\n");
        let at = |offset| {
            let location = source.location(offset);
            (location.line, location.column)
        };
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(2), (1, 2));
        assert_eq!(at(8), (2, 1));
        assert_eq!(at(12), (2, 3));
        assert_eq!(at(9_999), (3, 1));
    }

    proptest! {
        #[test]
        fn locations_agree_with_counting(text in "[a-zé\n]{0,3000}", pick in 0usize..3000) {
            let at = text.char_indices().map(|(at, _)| at).nth(pick).unwrap_or(text.len());
            let before = &text[..at];
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
            let location = Source::new(Path::new("a"), &text).location(at);
            prop_assert_eq!((location.line, location.column), (line, column));
        }
    }
}
