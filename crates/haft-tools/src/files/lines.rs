//! Reads a range of numbered lines from a file of any size.
//!
//! In: a reader and a range. Out: `N<TAB>text` for each line, and how much follows. Lines before
//! the range are only counted, chunk by chunk.
//!
//! INVARIANT: memory is bounded by the page size, whatever the file contains.

use std::{
    fmt::Write as _,
    io::{self, Read},
};

/// Bytes per read: little memory, few syscalls.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes of one line that are shown. Longer lines are usually generated data.
pub(super) const MAX_LINE_BYTES: usize = 2_000;
/// A remainder up to this size is counted in lines: a few milliseconds.
const MAX_COUNTED_BYTES: u64 = 16 << 20;

/// The requested lines, and the maximum page size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    /// First line, from 1.
    pub(super) from: u64,
    /// Maximum number of lines.
    pub(super) limit: u64,
    /// Maximum bytes of the page.
    pub(super) max_bytes: usize,
}

/// Numbered lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) text: String,
    /// Number of lines shown.
    pub(super) shown: u64,
    /// Number of truncated lines.
    pub(super) truncated: u64,
    /// Number of lines that end with CRLF.
    pub(super) crlf: u64,
    pub(super) rest: Rest,
}

/// What follows a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Rest {
    /// Nothing.
    #[default]
    Nothing,
    /// Number of lines.
    Lines(u64),
    /// Number of bytes; too many to count lines.
    Bytes(u64),
}

/// Why there is no page.
#[derive(Debug)]
pub(super) enum NoPage {
    /// The file ends before the range; it has this many lines.
    PastEnd(u64),
    /// The call was cancelled.
    Stopped,
    /// Reading failed.
    Io(io::Error),
}

impl From<io::Error> for NoPage {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reads a page. `size` is the file size at open time.
pub(super) fn page(
    from: impl Read,
    size: u64,
    range: Range,
    stop: &dyn Fn() -> bool,
) -> Result<Page, NoPage> {
    let mut chunks =
        Chunks { from, buffer: vec![0; CHUNK_BYTES], filled: 0, at: 0, passed: 0, stop };
    chunks.skip(range.from.saturating_sub(1))?;
    let mut page = Page::default();
    let mut line = Line::default();
    while page.shown < range.limit && page.text.len() < range.max_bytes {
        if !chunks.line(&mut line)? {
            break;
        }
        page.add(range.from + page.shown, &line);
    }
    if page.shown == 0 && range.from > 1 {
        return Err(NoPage::PastEnd(range.from - 1));
    }
    page.rest = chunks.rest(size)?;
    Ok(page)
}

impl Page {
    fn add(&mut self, number: u64, line: &Line) {
        let mut kept = line.kept.as_slice();
        if number == 1 {
            kept = kept.strip_prefix(b"\xef\xbb\xbf").unwrap_or(kept);
        }
        if line.length <= MAX_LINE_BYTES as u64
            && let Some(text) = kept.strip_suffix(b"\r")
        {
            kept = text;
            self.crlf += 1;
        }
        if self.shown > 0 {
            self.text.push('\n');
        }
        let _ = write!(self.text, "{number}\t");
        let more = line.length - line.kept.len() as u64;
        match (more, str::from_utf8(kept)) {
            (0, Ok(text)) => self.text.push_str(text),
            (0, Err(_)) => self.text.push_str(&String::from_utf8_lossy(kept)),
            (_, _) => {
                let whole = &kept[..whole_characters(kept)];
                self.text.push_str(&String::from_utf8_lossy(whole));
                let more = line.length - whole.len() as u64;
                let _ = write!(self.text, " [… {more} more bytes of this line …]");
                self.truncated += 1;
            }
        }
        self.shown += 1;
    }
}

/// Returns the length without an incomplete UTF-8 character at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(3);
    let start = bytes[from..].iter().rposition(|byte| byte & 0xc0 != 0x80).map(|at| from + at);
    match start.map(|start| (start, str::from_utf8(&bytes[start..]))) {
        Some((start, Err(e))) if e.error_len().is_none() => start,
        _ => bytes.len(),
    }
}

/// One line: its first bytes and its full length.
#[derive(Default)]
struct Line {
    kept: Vec<u8>,
    length: u64,
}

impl Line {
    fn push(&mut self, bytes: &[u8]) {
        let max_bytes = MAX_LINE_BYTES.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&bytes[..bytes.len().min(max_bytes)]);
        self.length += bytes.len() as u64;
    }
}

/// A file, read chunk by chunk.
struct Chunks<'a, R> {
    from: R,
    buffer: Vec<u8>,
    filled: usize,
    /// Position in the buffer.
    at: usize,
    /// Bytes in the previous chunks.
    passed: u64,
    stop: &'a dyn Fn() -> bool,
}

impl<R: Read> Chunks<'_, R> {
    /// Reads the next chunk if this one is used up; returns whether there are bytes.
    fn fill(&mut self) -> Result<bool, NoPage> {
        if self.at < self.filled {
            return Ok(true);
        }
        if (self.stop)() {
            return Err(NoPage::Stopped);
        }
        self.passed += self.filled as u64;
        (self.at, self.filled) = (0, 0);
        loop {
            match self.from.read(&mut self.buffer) {
                Ok(n) => self.filled = n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e.into()),
            }
            return Ok(self.filled > 0);
        }
    }

    fn left(&self) -> &[u8] {
        &self.buffer[self.at..self.filled]
    }

    /// Skips lines.
    fn skip(&mut self, lines: u64) -> Result<(), NoPage> {
        let (mut passed, mut last) = (0, b'\n');
        while passed < lines {
            if !self.fill()? {
                // The last line may have no line break.
                return Err(NoPage::PastEnd(passed + u64::from(last != b'\n')));
            }
            let left = self.left();
            let here = memchr::memchr_iter(b'\n', left).count() as u64;
            if passed + here < lines {
                passed += here;
                last = left.last().copied().unwrap_or(last);
                self.at = self.filled;
                continue;
            }
            let nth = usize::try_from(lines - passed - 1).unwrap_or(usize::MAX);
            let end = memchr::memchr_iter(b'\n', left).nth(nth).unwrap_or(left.len());
            self.at += end + 1;
            return Ok(());
        }
        Ok(())
    }

    /// Reads one line; returns whether there was one.
    fn line(&mut self, line: &mut Line) -> Result<bool, NoPage> {
        line.kept.clear();
        line.length = 0;
        let mut any = false;
        while self.fill()? {
            any = true;
            let left = self.left();
            match memchr::memchr(b'\n', left) {
                Some(end) => {
                    line.push(&left[..end]);
                    self.at += end + 1;
                    return Ok(true);
                }
                None => {
                    line.push(left);
                    self.at = self.filled;
                }
            }
        }
        Ok(any)
    }

    /// Returns what follows, in lines if that is cheap to count.
    fn rest(&mut self, size: u64) -> Result<Rest, NoPage> {
        let done = self.passed + self.at as u64;
        let behind = size.saturating_sub(done).max((self.filled - self.at) as u64);
        if behind > MAX_COUNTED_BYTES {
            return Ok(Rest::Bytes(behind));
        }
        let (mut lines, mut last, mut read) = (0, b'\n', 0);
        // The file may grow during the read; counting still ends.
        while read <= MAX_COUNTED_BYTES && self.fill()? {
            let left = self.left();
            lines += memchr::memchr_iter(b'\n', left).count() as u64;
            last = left.last().copied().unwrap_or(last);
            read += left.len() as u64;
            self.at = self.filled;
        }
        match lines + u64::from(last != b'\n') {
            0 => Ok(Rest::Nothing),
            lines => Ok(Rest::Lines(lines)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, from: u64, limit: u64) -> Result<Page, NoPage> {
        let range = Range { from, limit, max_bytes: 100_000 };
        page(text.as_bytes(), text.len() as u64, range, &|| false)
    }

    #[test]
    fn lines_have_their_numbers_in_the_file() {
        let page = read("a\nb\nc\nd", 2, 2).unwrap();
        assert_eq!((page.text.as_str(), page.shown), ("2\tb\n3\tc", 2));
        assert_eq!(page.rest, Rest::Lines(1));
        assert_eq!(read("a\nb\n", 1, 9).unwrap().text, "1\ta\n2\tb");
        assert_eq!(read("a\nb\n", 1, 9).unwrap().rest, Rest::Nothing);
        assert_eq!(read("\n\n", 1, 9).unwrap().text, "1\t\n2\t");
        assert_eq!(read("", 1, 9).unwrap(), Page::default());
    }

    #[test]
    fn range_past_the_end_reports_the_number_of_lines() {
        for (text, lines) in [("a\nb\n", 2), ("a\nb", 2), ("", 0), ("\n", 1)] {
            for from in [lines + 1, lines + 2, 1_000].into_iter().filter(|from| *from > 1) {
                let error = read(text, from, 1).unwrap_err();
                assert!(
                    matches!(error, NoPage::PastEnd(n) if n == lines),
                    "{text:?} {from}: {error:?}"
                );
            }
        }
    }

    #[test]
    fn lines_that_cross_chunks_are_whole() {
        let long = "x".repeat(CHUNK_BYTES - 3);
        let text = format!("{long}\nsecond line\nthird");
        let page = read(&text, 2, 1).unwrap();
        assert_eq!((page.text.as_str(), page.rest), ("2\tsecond line", Rest::Lines(1)));
    }

    #[test]
    fn long_line_is_truncated_at_a_character_boundary() {
        for shift in 0..4 {
            let text = format!("{}{}\nnext", "a".repeat(shift), "🦀".repeat(1_000));
            let page = read(&text, 1, 2).unwrap();
            assert_eq!(page.truncated, 1);
            assert!(!page.text.contains('\u{fffd}'), "shift {shift}");
            assert!(page.text.contains("more bytes of this line …]\n2\tnext"));
            assert!(page.text.len() < MAX_LINE_BYTES + 100);
        }
    }

    #[test]
    fn endless_line_uses_bounded_memory() {
        let range = Range { from: 1, limit: 10, max_bytes: 1_000 };
        let page = page(io::repeat(b'x').take(50 << 20), 50 << 20, range, &|| false).unwrap();
        assert_eq!((page.shown, page.truncated), (1, 1));
        assert!(page.text.contains(&format!("{} more bytes", (50 << 20) - MAX_LINE_BYTES)));
    }

    #[test]
    fn full_page_reports_what_follows() {
        let text = "0123456789\n".repeat(1_000);
        let range = Range { from: 1, limit: 1_000, max_bytes: 100 };
        let page = page(text.as_bytes(), text.len() as u64, range, &|| false).unwrap();
        assert_eq!(page.rest, Rest::Lines(1_000 - page.shown));
        assert!(page.text.len() < 120);
    }

    #[test]
    fn carriage_returns_are_counted_and_not_shown() {
        let page = read("a\r\nb\r\n", 1, 9).unwrap();
        assert_eq!((page.text.as_str(), page.crlf), ("1\ta\n2\tb", 2));
    }
}
