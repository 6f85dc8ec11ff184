//! Finds the prefix of a text that needs no sanitizing, with SIMD.

use crate::invisible::is_invisible;

/// How many bytes are checked together; this compiles to two SIMD registers.
const STRIDE: usize = 32;

/// Returns whether the text has no invisible characters and no escape sequences. CRLF is allowed.
pub(crate) fn is_plain(text: &str) -> bool {
    plain_run(text) == text.len()
}

/// Returns the length of the clean prefix of a text. A carriage return before a line feed is clean.
pub(crate) fn plain_run(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        while let Some(chunk) = bytes.get(at..at + STRIDE)
            && !chunk.iter().fold(false, |odd, &b| odd | is_odd_byte(b))
        {
            at += STRIDE;
        }
        let Some(&byte) = bytes.get(at) else { return bytes.len() };
        at += match byte {
            b'\r' if bytes.get(at + 1) == Some(&b'\n') => 2,
            0x00..0x80 if is_odd_byte(byte) => return at,
            0x00..0x80 => 1,
            // Most leading bytes start no invisible character, so most characters are not decoded.
            0xc2 | 0xcd | 0xd8 | 0xe1..=0xe3 | 0xee | 0xef | 0xf0.. => {
                match text.get(at..).and_then(|rest| rest.chars().next()) {
                    Some(c) if !is_invisible(c) => c.len_utf8(),
                    _ => return at,
                }
            }
            0x80..0xe0 => 2,
            0xe0.. => 3,
        };
    }
}

/// Whether a byte is an invisible ASCII character, or not ASCII.
fn is_odd_byte(byte: u8) -> bool {
    (byte < b' ') & (byte != b'\n') & (byte != b'\t') | (byte >= 0x7f)
}
