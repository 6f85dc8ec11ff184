//! The bytes of an answer, unpacked as they come and never more than a bound of them.

use std::io::{self, Write};

use flate2::write::GzDecoder;

/// What is kept of an answer.
pub(super) struct Body {
    unpack: Unpack,
    arrived: usize,
    cap: usize,
    ended: bool,
}

enum Unpack {
    Plain(Kept),
    Gzip(Box<GzDecoder<Kept>>),
}

impl Body {
    /// Begins a body that keeps at most `cap` bytes, packed and unpacked alike. Nothing for an
    /// encoding that was not asked for.
    pub(super) fn new(encoding: Option<&str>, cap: usize) -> Option<Self> {
        let kept = Kept { bytes: Vec::new(), cap, full: false };
        let unpack = match encoding.map(str::trim) {
            None | Some("") => Unpack::Plain(kept),
            Some(word) if word.eq_ignore_ascii_case("identity") => Unpack::Plain(kept),
            Some(word) if word.eq_ignore_ascii_case("gzip") => {
                Unpack::Gzip(Box::new(GzDecoder::new(kept)))
            }
            Some(_) => return None,
        };
        Some(Self { unpack, arrived: 0, cap, ended: false })
    }

    /// Takes a piece. Returns whether more is wanted.
    pub(super) fn push(&mut self, piece: &[u8]) -> io::Result<bool> {
        // A packed stream of nothing at all has no end either.
        self.arrived = self.arrived.saturating_add(piece.len());
        let mut rest = piece;
        while !rest.is_empty() && !self.ended {
            let taken = match &mut self.unpack {
                Unpack::Plain(kept) => kept.write(rest),
                Unpack::Gzip(decoder) => decoder.write(rest),
            };
            match taken {
                // What follows the end of the packed bytes is nobody's.
                Ok(0) => self.ended = true,
                Ok(taken) => rest = &rest[taken..],
                Err(_) if self.kept().full => break,
                Err(error) => return Err(error),
            }
        }
        Ok(!self.ended && !self.kept().full && self.arrived <= self.cap)
    }

    /// Returns what was kept, and whether there was more. Fails where packed bytes end too soon.
    pub(super) fn finish(mut self) -> io::Result<(Vec<u8>, bool)> {
        let cut = self.kept().full || self.arrived > self.cap;
        match &mut self.unpack {
            Unpack::Plain(kept) => Ok((std::mem::take(&mut kept.bytes), cut)),
            Unpack::Gzip(decoder) => {
                if self.arrived > 0 && !cut {
                    match decoder.try_finish() {
                        Err(_) if decoder.get_ref().full => {}
                        other => other?,
                    }
                }
                let kept = decoder.get_mut();
                Ok((std::mem::take(&mut kept.bytes), cut || kept.full))
            }
        }
    }

    fn kept(&self) -> &Kept {
        match &self.unpack {
            Unpack::Plain(kept) => kept,
            Unpack::Gzip(decoder) => decoder.get_ref(),
        }
    }
}

/// Bytes up to a bound. What comes after is refused, so that a decoder stops unpacking.
struct Kept {
    bytes: Vec<u8>,
    cap: usize,
    full: bool,
}

impl Write for Kept {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let room = self.cap.saturating_sub(self.bytes.len());
        if room == 0 && !piece.is_empty() {
            self.full = true;
            return Err(io::Error::other("the answer is longer than what is kept"));
        }
        let taken = room.min(piece.len());
        self.bytes.extend_from_slice(&piece[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        to.write_all(bytes).unwrap();
        to.finish().unwrap()
    }

    fn read(encoding: Option<&str>, bytes: &[u8], cap: usize) -> io::Result<(Vec<u8>, bool)> {
        let mut body = Body::new(encoding, cap).unwrap();
        for piece in bytes.chunks(7) {
            if !body.push(piece)? {
                break;
            }
        }
        body.finish()
    }

    #[test]
    fn the_bound_holds_before_and_after_unpacking() {
        let text = b"all work and no play ".repeat(500);
        let small = packed(&text);
        assert_eq!(read(None, &text, 100_000).unwrap(), (text.clone(), false));
        assert_eq!(read(Some("gzip"), &small, 100_000).unwrap(), (text.clone(), false));
        for (encoding, bytes) in [(None, &text), (Some("GZIP"), &small)] {
            let (kept, cut) = read(encoding, bytes, 1_000).unwrap();
            assert_eq!((kept.as_slice(), cut), (&text[..1_000], true), "{encoding:?}");
        }
        assert_eq!(read(None, &text, text.len()).unwrap(), (text.clone(), false), "exactly full");
    }

    #[test]
    fn damaged_and_unfinished_packing_is_an_error_and_what_follows_it_is_dropped() {
        let small = packed(b"hello hello hello");
        assert!(read(Some("gzip"), &small[..small.len() - 9], 1_000).is_err());
        assert!(read(Some("gzip"), b"this is not gzip at all, is it", 1_000).is_err());
        let followed = [small, b"garbage garbage".to_vec()].concat();
        let (kept, _) = read(Some("gzip"), &followed, 1_000).unwrap();
        assert_eq!(kept, b"hello hello hello");
        assert_eq!(read(Some("gzip"), b"", 10).unwrap(), (Vec::new(), false));
    }

    #[test]
    fn encodings_nobody_asked_for_are_not_guessed_at() {
        for word in ["br", "deflate", "gzip, gzip", "zstd", "gzip;q=1"] {
            assert!(Body::new(Some(word), 10).is_none(), "{word}");
        }
    }
}
