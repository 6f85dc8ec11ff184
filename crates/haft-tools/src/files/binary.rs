//! Detects binary files and describes them in a few lines.
//!
//! Pure. In: the first bytes of a file. Out: a text.

use std::fmt::Write as _;

/// Bytes of a file that are inspected.
pub(super) const INSPECTED_BYTES: usize = 8 << 10;
/// Bytes shown as a hex dump.
const DUMP_BYTES: usize = 64;

/// Magic numbers.
const MAGIC_NUMBERS: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"BM", "BMP image"),
    (b"II*\0", "TIFF image"),
    (b"MM\0*", "TIFF image"),
    (b"\0\0\x01\0", "icon"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive, or a document made of one"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (b"\x7fELF", "ELF program or library"),
    (b"MZ", "Windows program"),
    (b"\xcf\xfa\xed\xfe", "Mach-O program or library"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O program"),
    (b"\0asm", "WebAssembly module"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"OggS", "Ogg sound"),
    (b"ID3", "MP3 sound"),
    (b"fLaC", "FLAC sound"),
    (b"RIFF", "RIFF container (WAV, AVI, WebP)"),
    (b"wOFF", "WOFF font"),
    (b"wOF2", "WOFF2 font"),
    (b"\0\x01\0\0", "TrueType font"),
    (b"OTTO", "OpenType font"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
];

/// Returns whether these first bytes are binary. Text has no NUL; most binary formats have one
/// early.
pub(super) fn is_binary(head: &[u8]) -> bool {
    let head = &head[..head.len().min(INSPECTED_BYTES)];
    memchr::memchr(0, head).is_some() || head.starts_with(b"%PDF-")
}

/// Describes a binary file.
pub(super) fn describe(head: &[u8], size: u64) -> String {
    let kind =
        MAGIC_NUMBERS.iter().find(|(start, _)| head.starts_with(start)).map(|(_, kind)| *kind);
    let size = super::paths::count(size, "byte");
    let mut text = format!("binary file: {}, {size}", kind.unwrap_or("unknown kind"));
    for (row, bytes) in head[..head.len().min(DUMP_BYTES)].chunks(16).enumerate() {
        let _ = write!(text, "\n{:04x} ", row * 16);
        for byte in bytes {
            let _ = write!(text, " {byte:02x}");
        }
        let shown = |byte: &u8| match byte {
            b' '..=b'~' => *byte as char,
            _ => '.',
        };
        let pad = (16 - bytes.len()) * 3;
        let plain: String = bytes.iter().map(shown).collect();
        let _ = write!(text, "{:pad$}  {plain}", "");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_file_is_described_by_kind_size_and_first_bytes() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0";
        assert!(is_binary(png));
        assert_eq!(
            describe(png, 4_321),
            "binary file: PNG image, 4321 bytes\n\
             0000  89 50 4e 47 0d 0a 1a 0a 00 00 00 0d 49 48 44 52  .PNG........IHDR\n\
             0010  00                                               ."
        );
        assert!(describe(&[0, 1, 2], 3).starts_with("binary file: unknown kind, 3 bytes\n"));
    }

    #[test]
    fn text_in_any_script_is_not_binary() {
        for text in ["", "plain", "größe 漢字 🦀", "tab\tand\u{b}", "BM starts this"] {
            assert!(!is_binary(text.as_bytes()), "{text}");
        }
        assert!(!is_binary(b"latin \xe9\xe8 text"));
    }
}
