//! Bounded response body: decompresses gzip while streaming and stops at a byte limit
//! (decompression bomb).

use std::io::{self, Write};

use flate2::write::GzDecoder;

/// The bytes kept of a response.
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
    /// Keeps at most `cap` bytes, counted before and after decompression. `None` for a content
    /// encoding that was not requested.
    pub(super) fn new(encoding: Option<&str>, cap: usize) -> Option<Self> {
        let kept = Kept { bytes: Vec::new(), cap, full: false };
        let unpack = match encoding.map(str::trim) {
            None | Some("") => Unpack::Plain(kept),
            Some(encoding) if encoding.eq_ignore_ascii_case("identity") => Unpack::Plain(kept),
            Some(encoding) if encoding.eq_ignore_ascii_case("gzip") => {
                Unpack::Gzip(Box::new(GzDecoder::new(kept)))
            }
            Some(_) => return None,
        };
        Some(Self { unpack, arrived: 0, cap, ended: false })
    }

    /// Adds a chunk. Returns whether more is wanted.
    pub(super) fn push(&mut self, piece: &[u8]) -> io::Result<bool> {
        // A gzip stream that decompresses to nothing can be endless too.
        self.arrived = self.arrived.saturating_add(piece.len());
        let mut rest = piece;
        while !rest.is_empty() && !self.ended {
            let taken = match &mut self.unpack {
                Unpack::Plain(kept) => kept.write(rest),
                Unpack::Gzip(decoder) => decoder.write(rest),
            };
            match taken {
                // Bytes after the end of the gzip stream are ignored.
                Ok(0) => self.ended = true,
                Ok(taken) => rest = &rest[taken..],
                Err(_) if self.kept().full => break,
                Err(error) => return Err(error),
            }
        }
        Ok(!self.ended && !self.kept().full && self.arrived <= self.cap)
    }

    /// Returns the kept bytes and whether the body was truncated. Fails if the gzip stream ends
    /// early.
    pub(super) fn finish(mut self) -> io::Result<(Vec<u8>, bool)> {
        let truncated = self.kept().full || self.arrived > self.cap;
        match &mut self.unpack {
            Unpack::Plain(kept) => Ok((std::mem::take(&mut kept.bytes), truncated)),
            Unpack::Gzip(decoder) => {
                if self.arrived > 0 && !truncated {
                    match decoder.try_finish() {
                        Err(_) if decoder.get_ref().full => {}
                        other => other?,
                    }
                }
                let kept = decoder.get_mut();
                Ok((std::mem::take(&mut kept.bytes), truncated || kept.full))
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

/// A buffer with a limit. A write beyond it fails, so that the decoder stops.
struct Kept {
    bytes: Vec<u8>,
    cap: usize,
    full: bool,
}

impl Write for Kept {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let space = self.cap.saturating_sub(self.bytes.len());
        if space == 0 && !piece.is_empty() {
            self.full = true;
            return Err(io::Error::other("the response exceeds the size limit"));
        }
        let taken = space.min(piece.len());
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

    fn gzip(bytes: &[u8]) -> Vec<u8> {
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
    fn limit_applies_before_and_after_decompression() {
        let text = b"all work and no play ".repeat(500);
        let small = gzip(&text);
        assert_eq!(read(None, &text, 100_000).unwrap(), (text.clone(), false));
        assert_eq!(read(Some("gzip"), &small, 100_000).unwrap(), (text.clone(), false));
        for (encoding, bytes) in [(None, &text), (Some("GZIP"), &small)] {
            let (kept, truncated) = read(encoding, bytes, 1_000).unwrap();
            assert_eq!((kept.as_slice(), truncated), (&text[..1_000], true), "{encoding:?}");
        }
        assert_eq!(read(None, &text, text.len()).unwrap(), (text.clone(), false), "exactly full");
    }

    #[test]
    fn corrupt_gzip_is_an_error_and_trailing_bytes_are_ignored() {
        let small = gzip(b"hello hello hello");
        assert!(read(Some("gzip"), &small[..small.len() - 9], 1_000).is_err());
        assert!(read(Some("gzip"), b"this is not gzip at all, is it", 1_000).is_err());
        let followed = [small, b"garbage garbage".to_vec()].concat();
        let (kept, _) = read(Some("gzip"), &followed, 1_000).unwrap();
        assert_eq!(kept, b"hello hello hello");
        assert_eq!(read(Some("gzip"), b"", 10).unwrap(), (Vec::new(), false));
    }

    #[test]
    fn unrequested_content_encodings_are_refused() {
        for encoding in ["br", "deflate", "gzip, gzip", "zstd", "gzip;q=1"] {
            assert!(Body::new(Some(encoding), 10).is_none(), "{encoding}");
        }
    }
}
