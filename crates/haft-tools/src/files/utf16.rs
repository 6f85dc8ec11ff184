//! Decodes UTF-16 files to UTF-8 while reading; Windows and some editors write them.
//!
//! In: a reader after the byte order mark. Out: a reader of UTF-8. Invalid units become U+FFFD.
//! Only files with a byte order mark count as UTF-16: guessing would show binary data as text.
//!
//! INVARIANT: memory is one chunk, whatever the file contains.

use std::io::{self, Read};

use encoding_rs::{Decoder, UTF_16BE, UTF_16LE};

/// Bytes decoded at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Two bytes of UTF-16 become at most three of UTF-8.
const MAX_DECODED_BYTES: usize = CHUNK_BYTES / 2 * 3 + 16;

/// Returns the decoder for a file with a UTF-16 byte order mark (two bytes).
pub(super) fn decoder(head: &[u8]) -> Option<Decoder> {
    match head {
        // The byte order mark of UTF-32, which is not supported.
        [0xff, 0xfe, 0, 0, ..] => None,
        [0xff, 0xfe, ..] => Some(UTF_16LE.new_decoder_without_bom_handling()),
        [0xfe, 0xff, ..] => Some(UTF_16BE.new_decoder_without_bom_handling()),
        _ => None,
    }
}

/// A UTF-8 reader over a UTF-16 reader.
pub(super) struct Utf16Reader<R> {
    from: R,
    decoder: Decoder,
    wide: Vec<u8>,
    text: Vec<u8>,
    /// Start of the text that was not yet returned.
    at: usize,
    is_over: bool,
}

impl<R: Read> Utf16Reader<R> {
    /// Starts after the byte order mark.
    pub(super) fn new(from: R, decoder: Decoder) -> Self {
        Self { from, decoder, wide: vec![0; CHUNK_BYTES], text: Vec::new(), at: 0, is_over: false }
    }

    fn fill(&mut self) -> io::Result<()> {
        let length = self.from.read(&mut self.wide)?;
        self.is_over = length == 0;
        self.text.resize(MAX_DECODED_BYTES, 0);
        self.at = 0;
        let wide = self.wide.get(..length).unwrap_or_default();
        let (_, _, written, _) = self.decoder.decode_to_utf8(wide, &mut self.text, self.is_over);
        self.text.truncate(written);
        Ok(())
    }
}

impl<R: Read> Read for Utf16Reader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.text.len() {
            if self.is_over {
                return Ok(0);
            }
            self.fill()?;
        }
        let left = self.text.get(self.at..).unwrap_or_default();
        let length = left.len().min(into.len());
        for (to, from) in into.iter_mut().zip(left) {
            *to = *from;
        }
        self.at += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(text: &str, big: bool) -> Vec<u8> {
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        units.flat_map(|u| if big { u.to_be_bytes() } else { u.to_le_bytes() }).collect()
    }

    /// Returns at most this many bytes per read.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(into.len());
            (&mut self.0).take(length as u64).read(into)
        }
    }

    #[test]
    fn both_byte_orders_are_decoded_across_chunk_boundaries() {
        let long = "häft 漢字 🦀\r\n".repeat(20_000);
        for (text, pieces) in
            [("", 1), ("a", 1), ("aé漢🦀\nb", 1), ("aé漢🦀\nb", 3), (&*long, 4_097)]
        {
            for big in [false, true] {
                let bytes = wide(text, big);
                let decoder = decoder(&bytes).expect("it has a mark");
                let mut read = String::new();
                let mut wide = Utf16Reader::new(Slow(&bytes[2..], pieces), decoder);
                wide.read_to_string(&mut read).expect("it is UTF-8");
                assert!(read == text, "{pieces} {big}");
            }
        }
    }

    #[test]
    fn invalid_units_are_replaced_and_other_files_have_no_decoder() {
        let mut read = String::new();
        let broken = [0x3d, 0xd8, b'a', 0, b'b'];
        let mut wide = Utf16Reader::new(&broken[..], UTF_16LE.new_decoder_without_bom_handling());
        wide.read_to_string(&mut read).expect("it is UTF-8");
        assert_eq!(read, "\u{fffd}a\u{fffd}");
        for head in [&b""[..], b"\xff", b"a\0b\0", b"\xff\xfe\0\0a\0\0\0", b"\x89PNG"] {
            assert!(decoder(head).is_none(), "{head:?}");
        }
    }
}
