//! Cuts a streamed body into events, however the network has cut it before.
//!
//! In: bytes. Out: the JSON text of each event, with its name where it has one. Two forms are known:
//! server-sent events, and JSON objects one after another (a line each, or inside one array). The
//! first byte that is not blank decides.
//!
//! INVARIANT: every byte is looked at once, and no more than one event is held.

/// The largest event that is held.
pub(super) const MAX_EVENT: usize = 16 << 20;

/// One event as it stood in the body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The name from the `event:` line; empty without one.
    pub(super) name: String,
    /// The JSON text.
    pub(super) data: Vec<u8>,
}

/// What spoils a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spoilt {
    TooLarge,
    NotJson,
    /// It begins like nothing that is known: a page, compressed bytes, the size of an HTTP chunk.
    Strange,
    /// It begins like the framed events of Bedrock, which its SDKs decode.
    Binary,
}

/// Cuts one body.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    form: Form,
    /// The line or the object that is being read.
    held: Vec<u8>,
}

#[derive(Debug, Default)]
enum Form {
    /// Nothing but blanks and a byte order mark so far.
    #[default]
    Unknown,
    Events(Events),
    Objects(Objects),
}

/// The event that the lines so far belong to.
#[derive(Debug, Default)]
struct Events {
    name: String,
    data: Vec<u8>,
    has_data: bool,
    /// Some line was one of an event; what follows may have lines that nobody knows.
    is_sure: bool,
    /// The last line ended in a carriage return, so a newline that follows ends nothing.
    after_return: bool,
}

#[derive(Debug, Default)]
struct Objects {
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// The array around the objects is open.
    in_array: bool,
}

impl Cutter {
    /// Takes bytes, and gives each event that they complete.
    pub(super) fn feed(&mut self, bytes: &[u8], mut give: impl FnMut(Piece)) -> Result<(), Spoilt> {
        let mut rest = bytes;
        while let Some((&byte, tail)) = rest.split_first() {
            match &mut self.form {
                Form::Unknown => match byte {
                    // The bytes of a byte order mark open no event of either form.
                    b' ' | b'\t' | b'\r' | b'\n' | 0xEF | 0xBB | 0xBF => rest = tail,
                    0 => return Err(Spoilt::Binary),
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
                        hold(&mut self.held, rest, events.data.len())?;
                        return Ok(());
                    };
                    hold(&mut self.held, &rest[..end], events.data.len())?;
                    events.after_return = rest[end] == b'\r';
                    rest = &rest[end + 1..];
                    if !events.knows(&self.held, true) {
                        return Err(Spoilt::Strange);
                    }
                    if let Some(piece) = events.line(&self.held) {
                        give(piece);
                    }
                    self.held.clear();
                }
                Form::Objects(objects) => {
                    let taken = objects.scan(rest)?;
                    if objects.depth > 0 || taken.ends_object {
                        hold(&mut self.held, &rest[taken.from..taken.to], 0)?;
                    }
                    if taken.ends_object {
                        let data = std::mem::take(&mut self.held);
                        give(Piece { name: String::new(), data });
                    }
                    rest = &rest[taken.to..];
                }
            }
        }
        Ok(())
    }

    /// Ends the body. Gives the event that only lacked its blank line, and says whether something
    /// was left that may be part of one.
    pub(super) fn end(mut self) -> Result<(Option<Piece>, bool), Spoilt> {
        match &mut self.form {
            Form::Unknown => Ok((None, false)),
            Form::Objects(objects) => Ok((None, objects.depth > 0 || objects.in_array)),
            Form::Events(events) => {
                if !events.knows(&self.held, false) {
                    return Err(Spoilt::Strange);
                }
                let is_comment = self.held.starts_with(b":");
                let is_part = events.has_data
                    || !events.name.is_empty()
                    || !(self.held.is_empty() || is_comment);
                if !self.held.is_empty() {
                    events.line(&self.held);
                }
                Ok((events.line(b""), is_part))
            }
        }
    }
}

fn hold(held: &mut Vec<u8>, bytes: &[u8], beside: usize) -> Result<(), Spoilt> {
    if held.len() + bytes.len() + beside > MAX_EVENT {
        return Err(Spoilt::TooLarge);
    }
    held.extend_from_slice(bytes);
    Ok(())
}

impl Events {
    /// Whether a line is one of an event, or one before it was; `is_whole` says that its end came.
    fn knows(&mut self, line: &[u8], is_whole: bool) -> bool {
        let colon = line.iter().position(|b| *b == b':');
        let name = &line[..colon.unwrap_or(line.len())];
        let known: [&[u8]; 5] = [b"", b"data", b"event", b"id", b"retry"];
        let is_cut = !is_whole && colon.is_none();
        let is_known = known.iter().any(|k| *k == name || (is_cut && k.starts_with(name)));
        self.is_sure |= is_known;
        self.is_sure
    }

    /// Takes one line, and gives the event that an empty one ends.
    fn line(&mut self, line: &[u8]) -> Option<Piece> {
        if line.is_empty() {
            let after_return = self.after_return;
            let Events { name, data, has_data, .. } = std::mem::take(self);
            (self.is_sure, self.after_return) = (true, after_return);
            return has_data.then_some(Piece { name, data });
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
            // Comments, ids and reconnection times say nothing about the message.
            _ => {}
        }
        None
    }
}

/// A stretch of bytes that belongs to one object.
struct Taken {
    from: usize,
    to: usize,
    ends_object: bool,
}

impl Objects {
    /// Looks at bytes up to the end of an object, or to the end of what there is.
    fn scan(&mut self, bytes: &[u8]) -> Result<Taken, Spoilt> {
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
                        return Ok(Taken { from, to: at + 1, ends_object: true });
                    }
                }
                b'"' if self.depth > 0 => self.in_text = true,
                _ if self.depth > 0 => {}
                b'[' | b']' => self.in_array = *byte == b'[',
                // Between objects: blanks, the array around them and its commas, record marks.
                b' ' | b'\t' | b'\r' | b'\n' | b',' | 0x1E => {}
                _ => return Err(Spoilt::NotJson),
            }
        }
        Ok(Taken { from, to: bytes.len(), ends_object: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut cutter = Cutter::default();
        let mut pieces = Vec::new();
        for chunk in chunks {
            cutter.feed(chunk, |piece| pieces.push(piece)).unwrap();
        }
        pieces.extend(cutter.end().unwrap().0);
        let text = |data| String::from_utf8(data).unwrap();
        pieces.into_iter().map(|p| (p.name, text(p.data))).collect()
    }

    fn everywhere(body: &[u8], wanted: &[(&str, &str)]) {
        let wanted: Vec<_> =
            wanted.iter().map(|(n, d)| ((*n).to_owned(), (*d).to_owned())).collect();
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(cut(&bytes), wanted);
        for at in 0..=body.len() {
            assert_eq!(cut(&[&body[..at], &body[at..]]), wanted, "cut at {at}");
        }
    }

    #[test]
    fn events_are_cut_out_wherever_the_bytes_are_cut() {
        let body = "\u{feff}: hello\r\nevent: a\r\ndata: {\"x\":\r\ndata:1}\r\n\r\n\
                    retry: 5\n\nid: 1\ndata: é\n\n\rdata\r\revent: b\ndata: last";
        let wanted = [("a", "{\"x\":\n1}"), ("", "é"), ("", ""), ("b", "last")];
        everywhere(body.as_bytes(), &wanted);
    }

    #[test]
    fn objects_are_cut_out_of_lines_and_of_arrays() {
        let wanted = [("", "{\"a\":\"}\\\"{\"}"), ("", "{\"b\":[{}]}")];
        everywhere(b"{\"a\":\"}\\\"{\"}\n{\"b\":[{}]}\n", &wanted);
        everywhere(b" [{\"a\":\"}\\\"{\"}\r\n,\r\n{\"b\":[{}]}]", &wanted);
    }

    #[test]
    fn what_is_left_is_known_to_be_left() {
        let mut cutter = Cutter::default();
        cutter.feed(b"{\"a\":", |_| unreachable!()).unwrap();
        assert_eq!(cutter.end(), Ok((None, true)));
        for (body, is_part) in [
            (&b"data: 1\n\n"[..], false),
            (b"data: 1\n\n: a comm", false),
            (b"data: 1\n\nda", true),
            (b"data: 1\n\nevent: name\n", true),
            (b"[{}", true),
            (b"[{}]", false),
            (b"{}\n", false),
        ] {
            let mut cutter = Cutter::default();
            cutter.feed(body, |_| {}).unwrap();
            let left = cutter.end();
            assert_eq!(left, Ok((None, is_part)), "{}", body.escape_ascii());
        }
    }

    #[test]
    fn garbage_and_size_spoil_a_body() {
        let feed = |bytes: &[u8]| Cutter::default().feed(bytes, |_| {});
        assert_eq!(feed(b"{} x"), Err(Spoilt::NotJson));
        assert_eq!(feed(b"<html>\n"), Err(Spoilt::Strange));
        assert_eq!(feed(b"id: 1\nwhatever\n"), Ok(()), "later lines may be new");
        assert_eq!(feed(b"\0\0\x01\x02"), Err(Spoilt::Binary));
        let long = vec![b'x'; MAX_EVENT + 1];
        assert_eq!(feed(&long), Err(Spoilt::TooLarge));
        let mut cutter = Cutter::default();
        cutter.feed(b"data: ", |_| {}).unwrap();
        let half = vec![b'x'; MAX_EVENT / 2 + 1];
        cutter.feed(&half, |_| {}).unwrap();
        assert_eq!(cutter.feed(&half, |_| {}), Err(Spoilt::TooLarge));
    }
}
