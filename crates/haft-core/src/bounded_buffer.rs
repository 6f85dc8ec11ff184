//! A buffer for unbounded input: it keeps a bounded prefix, and reads, counts and drops the rest.
//!
//! For bodies that read from a process, a network or a stream. Not reading would block the writer
//! (a full pipe), and keeping everything would exhaust memory.

use std::{io, pin::pin};

use futures_core::Stream;

/// Bytes up to a cap, and a count of those beyond it.
///
/// ```
/// use haft_core::BoundedBuffer;
///
/// let mut all = BoundedBuffer::new(5);
/// all.push(b"one ");
/// all.push(b"two ");
/// assert_eq!((all.bytes(), all.seen(), all.dropped()), (&b"one t"[..], 8, 3));
/// assert_eq!(all.into_text(), "one t\n[… 3 bytes more were not kept …]");
/// ```
#[derive(Debug, Clone, Default)]
pub struct BoundedBuffer {
    kept: Vec<u8>,
    cap: usize,
    seen: u64,
}

impl BoundedBuffer {
    /// Makes a buffer that keeps up to `cap` bytes. More than
    /// [`ToolContext::max_result_bytes`](crate::ToolContext::max_result_bytes) is never used.
    #[must_use]
    pub fn new(cap: usize) -> Self {
        Self { kept: Vec::new(), cap, seen: 0 }
    }

    /// Appends bytes up to the cap, and counts the rest.
    pub fn push(&mut self, bytes: &[u8]) {
        self.seen = self.seen.saturating_add(bytes.len() as u64);
        let free = self.cap.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&bytes[..bytes.len().min(free)]);
    }

    /// Reads to the end, also beyond the cap. Blocks.
    ///
    /// # Errors
    /// Fails when reading fails; earlier bytes are kept.
    pub fn read(&mut self, mut from: impl io::Read) -> io::Result<()> {
        let mut chunk = vec![0; 64 << 10];
        loop {
            match from.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(n) => self.push(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Reads a stream to its end, also beyond the cap.
    ///
    /// # Errors
    /// Fails when the stream fails; earlier bytes are kept.
    pub async fn collect<B: AsRef<[u8]>, E>(
        &mut self,
        stream: impl Stream<Item = Result<B, E>>,
    ) -> Result<(), E> {
        let mut stream = pin!(stream);
        while let Some(chunk) = std::future::poll_fn(|task| stream.as_mut().poll_next(task)).await {
            self.push(chunk?.as_ref());
        }
        Ok(())
    }

    /// Returns the kept bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.kept
    }

    /// Returns how many bytes were received.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns how many bytes were dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.seen - self.kept.len() as u64
    }

    /// Returns the kept bytes as text, with a last line that counts the dropped ones. Invalid UTF-8
    /// is replaced. A character that the cap has split is dropped.
    #[must_use]
    pub fn into_text(mut self) -> String {
        let mut dropped = self.dropped();
        if dropped > 0 {
            let start = last_start(&self.kept);
            let is_split = match str::from_utf8(&self.kept[start..]) {
                Ok(_) => false,
                // Incomplete, not invalid: the rest of the character was dropped.
                Err(e) => e.error_len().is_none(),
            };
            if is_split {
                dropped += (self.kept.len() - start) as u64;
                self.kept.truncate(start);
            }
        }
        let mut text = match String::from_utf8(self.kept) {
            Ok(text) => text,
            Err(e) => String::from_utf8_lossy(e.as_bytes()).into_owned(),
        };
        if dropped > 0 {
            text.push_str(&format!("\n[… {dropped} bytes more were not kept …]"));
        }
        text
    }
}

/// Returns the index where the last character starts.
fn last_start(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(4);
    let tail = bytes[from..].iter().rposition(|byte| byte & 0xc0 != 0x80);
    tail.map_or(bytes.len(), |at| from + at)
}

impl io::Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_beyond_the_cap_are_read_and_counted_but_not_kept() {
        let mut all = BoundedBuffer::new(1_000);
        all.read(io::Read::take(io::repeat(b'x'), 10_000_000)).unwrap();
        assert_eq!((all.bytes().len(), all.seen(), all.dropped()), (1_000, 10_000_000, 9_999_000));
        assert!(all.kept.capacity() < 100_000);
    }

    #[test]
    fn a_character_that_the_cap_splits_is_dropped() {
        for cap in 1..12 {
            let mut all = BoundedBuffer::new(cap);
            all.push("a🦀é漢".as_bytes());
            let text = all.into_text();
            let kept = text.split("\n[…").next().unwrap();
            assert!("a🦀é漢".starts_with(kept), "{cap}: {text}");
            assert_eq!(text.contains("not kept"), cap < 10, "{cap}: {text}");
        }
        let mut all = BoundedBuffer::new(3);
        all.push(b"ab\xff\xffcd");
        assert_eq!(all.into_text(), "ab\u{fffd}\n[… 3 bytes more were not kept …]");
    }
}
