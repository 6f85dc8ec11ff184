//! Bounds the lines of a server. A line that is too long becomes an error response to its request,
//! so that the call is answered at once and not by its timeout.
//!
//! In: the bytes of standard output. Out: the same, with a long line cut and an error after it.
//! INVARIANT: at most a few kilobytes of a line are kept here, however long it is.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, ReadBuf};

/// How much of the start and of the end of a line is searched for the id of its request.
const ID_BYTES: usize = 256;
/// A line of this size ends the stream: the server does nothing but write.
const MAX_DISCARDED_BYTES: usize = 256 << 20;
/// How much is read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// A stream of lines with a bound on each.
pub(super) struct BoundedLines<R> {
    inner: R,
    max: usize,
    chunk: Box<[u8]>,
    /// What is ready for the reader.
    ready: VecDeque<u8>,
    /// The length of the current line so far.
    length: usize,
    start: Vec<u8>,
    /// The last bytes of a line that is too long.
    end: VecDeque<u8>,
}

impl<R> BoundedLines<R> {
    pub(super) fn new(inner: R, max: usize) -> Self {
        Self {
            inner,
            max,
            chunk: vec![0; CHUNK_BYTES].into_boxed_slice(),
            ready: VecDeque::new(),
            length: 0,
            start: Vec::new(),
            end: VecDeque::new(),
        }
    }

    /// Takes a part of one line; whether the line ends with it.
    fn take(&mut self, part: &[u8], is_end: bool) {
        let missing = ID_BYTES.saturating_sub(self.start.len());
        self.start.extend(part.iter().take(missing));
        let before = self.length;
        self.length += part.len();
        if self.length <= self.max {
            self.ready.extend(part);
        } else {
            if before <= self.max {
                // The reader drops a line that is not whole JSON.
                self.ready.push_back(b'\n');
            }
            self.end.extend(part.iter().rev().take(ID_BYTES).rev());
            let excess = self.end.len().saturating_sub(ID_BYTES);
            self.end.drain(..excess);
        }
        if is_end {
            self.finish();
        }
    }

    fn finish(&mut self) {
        if self.length > self.max {
            let end: Vec<u8> = self.end.drain(..).collect();
            if let Some(id) = id_of(&self.start, &end) {
                let message = format!("the response is larger than {} bytes", self.max);
                let error = serde_json::json!({"jsonrpc": "2.0", "id": id,
                    "error": {"code": -32603, "message": message}});
                self.ready.extend(format!("{error}\n").as_bytes());
            }
        } else {
            self.ready.push_back(b'\n');
        }
        self.length = 0;
        self.start.clear();
        self.end.clear();
    }
}

/// Finds the id of a response in the start or the end of its line. Ids of haft are numbers.
fn id_of(start: &[u8], end: &[u8]) -> Option<u64> {
    let compact = |bytes: &[u8]| -> String {
        String::from_utf8_lossy(bytes).chars().filter(|c| !c.is_whitespace()).collect()
    };
    let (start, end) = (compact(start), compact(end));
    let first =
        start.strip_prefix("{\"jsonrpc\":\"2.0\",\"id\":").or(start.strip_prefix("{\"id\":"));
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    let from_start = first.and_then(|rest| digits(rest).parse().ok());
    from_start.or_else(|| {
        let at = end.rfind("\"id\":")?;
        let id = digits(end.get(at + 5..)?);
        // Nothing but the end of the message may follow, otherwise it is an id inside the result.
        let rest = end.get(at + 5 + id.len()..)?;
        matches!(rest, "}" | ",\"jsonrpc\":\"2.0\"}").then(|| id.parse().ok()).flatten()
    })
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        while this.ready.is_empty() {
            if this.length > MAX_DISCARDED_BYTES {
                return Poll::Ready(Ok(())); // the end of the stream
            }
            let mut chunk = std::mem::take(&mut this.chunk);
            let mut buffer = ReadBuf::new(&mut chunk);
            let read = Pin::new(&mut this.inner).poll_read(cx, &mut buffer);
            let filled = buffer.filled();
            let is_end = filled.is_empty();
            let mut lines = filled.split_inclusive(|byte| *byte == b'\n');
            if matches!(read, Poll::Ready(Ok(()))) {
                lines.by_ref().for_each(|line| match line.strip_suffix(b"\n") {
                    Some(line) => this.take(line, true),
                    None => this.take(line, false),
                });
            }
            this.chunk = chunk;
            ready!(read)?;
            if is_end {
                return Poll::Ready(Ok(()));
            }
        }
        let (front, _) = this.ready.as_slices();
        let n = front.len().min(out.remaining());
        out.put_slice(front.get(..n).unwrap_or_default());
        this.ready.drain(..n);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    async fn read(input: &str, max: usize) -> String {
        let mut out = String::new();
        BoundedLines::new(input.as_bytes(), max).read_to_string(&mut out).await.unwrap();
        out
    }

    #[tokio::test]
    async fn short_lines_pass_unchanged() {
        let input = "{\"a\":1}\n\n{\"b\":2}\n";
        assert_eq!(read(input, 100).await, input);
    }

    #[tokio::test]
    async fn a_long_line_becomes_an_error_response_to_its_request() {
        let long = "x".repeat(500);
        let forms = [
            format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"{long}\"}}\n{{}}\n"),
            format!(
                "{{\"result\":{{\"id\":3,\"t\":\"{long}\"}},\"jsonrpc\":\"2.0\",\"id\":7}}\n{{}}\n"
            ),
        ];
        for input in forms {
            let out = read(&input, 300).await;
            let lines: Vec<&str> = out.lines().collect();
            assert!(serde_json::from_str::<serde_json::Value>(lines[0]).is_err(), "cut");
            let error: serde_json::Value = serde_json::from_str(lines[1]).unwrap();
            assert_eq!((&error["id"], &error["error"]["code"]), (&7.into(), &(-32603).into()));
            assert_eq!(lines[2], "{}", "the next line is whole");
        }
    }

    #[tokio::test]
    async fn an_id_inside_the_result_is_not_the_id_of_the_request() {
        let long = "x".repeat(500);
        let input = format!("{{\"method\":\"n\",\"params\":{{\"t\":\"{long}\",\"id\":7}}}}\n");
        assert_eq!(read(&input, 300).await.lines().count(), 1, "no answer is invented");
    }
}
