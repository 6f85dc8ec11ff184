//! Splits a streamed body into events, independent of how the network chunked it.
//!
//! In: bytes. Out: the JSON text of each event, with its name if it has one. Two framings are
//! supported: server-sent events, and concatenated JSON objects (one per line, or inside one
//! array). The first byte that is not whitespace decides.
//!
//! Our own code: the crates for server-sent events wrap a stream of one framing and do not say
//! whether a body ended inside an event.
//!
//! INVARIANT: every byte is scanned once, and at most one event is buffered (bounded memory).

/// The largest event that is buffered.
pub(super) const MAX_EVENT_BYTES: usize = 16 << 20;

/// One event of the body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RawEvent {
    /// The name from the `event:` line; empty without one.
    pub(super) name: String,
    /// The JSON text.
    pub(super) data: Vec<u8>,
}

/// Why a body cannot be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FramingError {
    TooLarge,
    NotJson,
    /// It is neither framing: an HTML page, compressed bytes, the size of an HTTP chunk.
    Unknown,
    /// It looks like the binary event stream of Bedrock, which its SDKs decode.
    Binary,
}

/// Splits one body.
#[derive(Debug, Default)]
pub(super) struct EventSplitter {
    form: Form,
    /// The buffered line or object.
    buffered: Vec<u8>,
}

#[derive(Debug, Default)]
enum Form {
    /// Only whitespace and a byte order mark so far.
    #[default]
    Unknown,
    Events(Events),
    Objects(Objects),
}

/// The event that the current lines belong to.
#[derive(Debug, Default)]
struct Events {
    name: String,
    data: Vec<u8>,
    has_data: bool,
    /// A known field was seen, so later lines may have unknown fields.
    is_confirmed: bool,
    /// The last line ended in a carriage return, so a newline right after it is part of that line
    /// end.
    after_return: bool,
}

#[derive(Debug, Default)]
struct Objects {
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// Inside the array around the objects.
    in_array: bool,
}

impl EventSplitter {
    /// Takes bytes, and passes on each event that they complete.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        mut ready: impl FnMut(RawEvent),
    ) -> Result<(), FramingError> {
        let mut rest = bytes;
        while let Some((&byte, tail)) = rest.split_first() {
            match &mut self.form {
                Form::Unknown => match byte {
                    // No event of either framing starts with the bytes of a byte order mark.
                    b' ' | b'\t' | b'\r' | b'\n' | 0xEF | 0xBB | 0xBF => rest = tail,
                    0 => return Err(FramingError::Binary),
                    b'{' | b'[' => self.form = Form::Objects(Objects::default()),
                    _ => self.form = Form::Events(Events::default()),
                },
                Form::Events(events) => {
                    if events.after_return && byte == b'\n' {
                        events.after_return = false;
                        rest = tail;
                        continue;
                    }
                    events.after_return = false;
                    let Some(end) = rest.iter().position(|b| matches!(b, b'\n' | b'\r')) else {
                        buffer(&mut self.buffered, rest, events.data.len())?;
                        return Ok(());
                    };
                    buffer(&mut self.buffered, &rest[..end], events.data.len())?;
                    events.after_return = rest[end] == b'\r';
                    rest = &rest[end + 1..];
                    if !events.is_event_line(&self.buffered, true) {
                        return Err(FramingError::Unknown);
                    }
                    if let Some(event) = events.line(&self.buffered) {
                        ready(event);
                    }
                    self.buffered.clear();
                }
                Form::Objects(objects) => {
                    let scanned = objects.scan(rest)?;
                    if objects.depth > 0 || scanned.ends_object {
                        buffer(&mut self.buffered, &rest[scanned.from..scanned.to], 0)?;
                    }
                    if scanned.ends_object {
                        let data = std::mem::take(&mut self.buffered);
                        ready(RawEvent { name: String::new(), data });
                    }
                    rest = &rest[scanned.to..];
                }
            }
        }
        Ok(())
    }

    /// Ends the body. Returns the last event if it only lacked its blank line, and whether a
    /// partial event is left.
    pub(super) fn end(mut self) -> Result<(Option<RawEvent>, bool), FramingError> {
        match &mut self.form {
            Form::Unknown => Ok((None, false)),
            Form::Objects(objects) => Ok((None, objects.depth > 0 || objects.in_array)),
            Form::Events(events) => {
                if !events.is_event_line(&self.buffered, false) {
                    return Err(FramingError::Unknown);
                }
                let is_comment = self.buffered.starts_with(b":");
                let is_part = events.has_data
                    || !events.name.is_empty()
                    || !(self.buffered.is_empty() || is_comment);
                if !self.buffered.is_empty() {
                    events.line(&self.buffered);
                }
                Ok((events.line(b""), is_part))
            }
        }
    }
}

fn buffer(buffered: &mut Vec<u8>, bytes: &[u8], data_len: usize) -> Result<(), FramingError> {
    if buffered.len() + bytes.len() + data_len > MAX_EVENT_BYTES {
        return Err(FramingError::TooLarge);
    }
    buffered.extend_from_slice(bytes);
    Ok(())
}

impl Events {
    /// Whether a line, or one before it, has a known field. `is_whole` says that the line is
    /// complete.
    fn is_event_line(&mut self, line: &[u8], is_whole: bool) -> bool {
        let colon = line.iter().position(|b| *b == b':');
        let name = &line[..colon.unwrap_or(line.len())];
        let known: [&[u8]; 5] = [b"", b"data", b"event", b"id", b"retry"];
        let is_partial_line = !is_whole && colon.is_none();
        let is_known = known.iter().any(|k| *k == name || (is_partial_line && k.starts_with(name)));
        self.is_confirmed |= is_known;
        self.is_confirmed
    }

    /// Takes one line. Returns the event that an empty line ends.
    fn line(&mut self, line: &[u8]) -> Option<RawEvent> {
        if line.is_empty() {
            let after_return = self.after_return;
            let Events { name, data, has_data, .. } = std::mem::take(self);
            (self.is_confirmed, self.after_return) = (true, after_return);
            return has_data.then_some(RawEvent { name, data });
        }
        let colon = line.iter().position(|b| *b == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            // Comments, ids and reconnection times do not affect the message.
            _ => {}
        }
        None
    }
}

/// A range of bytes that belongs to one object.
struct Scanned {
    from: usize,
    to: usize,
    ends_object: bool,
}

impl Objects {
    /// Scans to the end of an object, or to the end of the input.
    fn scan(&mut self, bytes: &[u8]) -> Result<Scanned, FramingError> {
        let mut from = 0;
        for (at, byte) in bytes.iter().enumerate() {
            if self.in_text {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_text = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'{' | b'[' if self.depth > 0 => self.depth += 1,
                b'{' => {
                    (self.depth, from) = (1, at);
                }
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Ok(Scanned { from, to: at + 1, ends_object: true });
                    }
                }
                b'"' if self.depth > 0 => self.in_text = true,
                _ if self.depth > 0 => {}
                b'[' | b']' => self.in_array = *byte == b'[',
                // Between objects: whitespace, the array around them and its commas, record
                // separators.
                b' ' | b'\t' | b'\r' | b'\n' | b',' | 0x1E => {}
                _ => return Err(FramingError::NotJson),
            }
        }
        Ok(Scanned { from, to: bytes.len(), ends_object: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut splitter = EventSplitter::default();
        let mut events = Vec::new();
        for chunk in chunks {
            splitter.feed(chunk, |event| events.push(event)).unwrap();
        }
        events.extend(splitter.end().unwrap().0);
        let text = |data| String::from_utf8(data).unwrap();
        events.into_iter().map(|p| (p.name, text(p.data))).collect()
    }

    fn split_at_every_offset(body: &[u8], wanted: &[(&str, &str)]) {
        let wanted: Vec<_> =
            wanted.iter().map(|(n, d)| ((*n).to_owned(), (*d).to_owned())).collect();
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(split(&bytes), wanted);
        for at in 0..=body.len() {
            assert_eq!(split(&[&body[..at], &body[at..]]), wanted, "cut at {at}");
        }
    }

    #[test]
    fn events_are_split_independent_of_chunk_boundaries() {
        let body = "\u{feff}: hello\r\nevent: a\r\ndata: {\"x\":\r\ndata:1}\r\n\r\n\
                    retry: 5\n\nid: 1\ndata: é\n\n\rdata\r\revent: b\ndata: last";
        let wanted = [("a", "{\"x\":\n1}"), ("", "é"), ("", ""), ("b", "last")];
        split_at_every_offset(body.as_bytes(), &wanted);
    }

    #[test]
    fn objects_are_split_from_lines_and_arrays() {
        let wanted = [("", "{\"a\":\"}\\\"{\"}"), ("", "{\"b\":[{}]}")];
        split_at_every_offset(b"{\"a\":\"}\\\"{\"}\n{\"b\":[{}]}\n", &wanted);
        split_at_every_offset(b" [{\"a\":\"}\\\"{\"}\r\n,\r\n{\"b\":[{}]}]", &wanted);
    }

    #[test]
    fn partial_event_at_the_end_is_detected() {
        let mut splitter = EventSplitter::default();
        splitter.feed(b"{\"a\":", |_| unreachable!()).unwrap();
        assert_eq!(splitter.end(), Ok((None, true)));
        for (body, is_part) in [
            (&b"data: 1\n\n"[..], false),
            (b"data: 1\n\n: a comm", false),
            (b"data: 1\n\nda", true),
            (b"data: 1\n\nevent: name\n", true),
            (b"[{}", true),
            (b"[{}]", false),
            (b"{}\n", false),
        ] {
            let mut splitter = EventSplitter::default();
            splitter.feed(body, |_| {}).unwrap();
            let left = splitter.end();
            assert_eq!(left, Ok((None, is_part)), "{}", body.escape_ascii());
        }
    }

    #[test]
    fn invalid_and_oversized_bodies_are_refused() {
        let feed = |bytes: &[u8]| EventSplitter::default().feed(bytes, |_| {});
        assert_eq!(feed(b"{} x"), Err(FramingError::NotJson));
        assert_eq!(feed(b"<html>\n"), Err(FramingError::Unknown));
        assert_eq!(feed(b"id: 1\nwhatever\n"), Ok(()), "later lines may be new");
        assert_eq!(feed(b"\0\0\x01\x02"), Err(FramingError::Binary));
        let long = vec![b'x'; MAX_EVENT_BYTES + 1];
        assert_eq!(feed(&long), Err(FramingError::TooLarge));
        let mut splitter = EventSplitter::default();
        splitter.feed(b"data: ", |_| {}).unwrap();
        let half = vec![b'x'; MAX_EVENT_BYTES / 2 + 1];
        splitter.feed(&half, |_| {}).unwrap();
        assert_eq!(splitter.feed(&half, |_| {}), Err(FramingError::TooLarge));
    }
}
