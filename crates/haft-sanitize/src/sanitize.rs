//! Sanitizes text for terminals and readers: removes terminal escape sequences, and makes invisible
//! characters visible (terminal injection, hidden text, Trojan Source).
//!
//! In: text of any origin. Out: the same without escape sequences, and with every invisible
//! character as its code point, as in `<U+202E>`. Changes are counted, so that nothing is lost
//! silently. Clean text is borrowed after one scan.
//!
//! INVARIANT: sanitizing is idempotent, and sanitizing in pieces equals sanitizing the whole.

use std::borrow::Cow;

use crate::{
    invisible::{is_invisible, is_unusual_blank, may_stay, push_code_point},
    plain_run::plain_run,
    stream_sanitizer::StreamSanitizer,
};

/// Sanitized text, and what was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SanitizedText<'a> {
    /// The sanitized text; borrowed if nothing changed.
    pub text: Cow<'a, str>,
    /// How many escape sequences were removed.
    pub stripped: usize,
    /// How many characters were replaced by their code point.
    pub made_visible: usize,
}

impl SanitizedText<'_> {
    /// Returns whether anything was changed.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.stripped + self.made_visible > 0
    }
}

/// Removes terminal escape sequences, and makes invisible characters visible.
///
/// A carriage return without a line feed becomes a line break: text that a terminal would have
/// overwritten becomes a line of its own. The text of a terminal hyperlink is kept. An incomplete
/// or unknown sequence is not removed; its escape character becomes visible and the rest is text.
///
/// ```
/// use haft_sanitize::sanitize;
///
/// let page = sanitize("\u{1b}[31mred\u{1b}[0m, gpj\u{202e}exe, 10%\r20%");
/// assert_eq!(page.text, "red, gpj<U+202E>exe, 10%\n20%");
/// assert_eq!((page.stripped, page.made_visible), (2, 2));
/// assert!(!sanitize("naïve 日本 👩‍🚀 ❤️").is_changed());
/// ```
#[must_use]
pub fn sanitize(text: &str) -> SanitizedText<'_> {
    let plain = plain_run(text);
    if plain == text.len() {
        return SanitizedText { text: Cow::Borrowed(text), stripped: 0, made_visible: 0 };
    }
    let mut stream = StreamSanitizer::default();
    let mut out = String::with_capacity(text.len() + 32);
    stream.feed_into(text, &mut out);
    stream.flush_into(&mut out);
    let (stripped, made_visible) = (stream.stripped(), stream.made_visible());
    let is_same = stripped + made_visible == 0;
    let text = if is_same { Cow::Borrowed(text) } else { Cow::Owned(out) };
    SanitizedText { text, stripped, made_visible }
}

/// Returns text for an approval prompt: nothing is removed, and every invisible or
/// display-controlling character is shown as its code point, including unusual blanks. Line breaks
/// and tabs are kept.
///
/// ```
/// assert_eq!(haft_sanitize::escape_invisible("rm\u{202e}\u{200b} -rf"), "rm<U+202E><U+200B> -rf");
/// assert_eq!(haft_sanitize::escape_invisible("naïve 日本"), "naïve 日本");
/// ```
#[must_use]
pub fn escape_invisible(text: &str) -> Cow<'_, str> {
    let is_odd = |c| is_invisible(c) || is_unusual_blank(c);
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 32);
    let mut before = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let stays = !is_odd(c) || may_stay(before, c, rest.clone().next());
        if stays {
            out.push(c)
        } else {
            push_code_point(c, &mut out)
        }
        before = Some(if stays { c } else { '>' });
    }
    Cow::Owned(out)
}

/// Decodes bytes as UTF-8, such as the output of a process or a file, and counts the invalid
/// places. Each becomes `U+FFFD`.
///
/// ```
/// use haft_sanitize::from_bytes;
///
/// assert_eq!(from_bytes(b"caf\xc3\xa9"), ("café".into(), 0));
/// assert_eq!(from_bytes(b"caf\xe9 \xff"), ("caf\u{fffd} \u{fffd}".into(), 2));
/// ```
#[must_use]
pub fn from_bytes(bytes: &[u8]) -> (Cow<'_, str>, usize) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return (Cow::Borrowed(text), 0);
    }
    let mut out = String::with_capacity(bytes.len() + 32);
    let mut invalid = 0;
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            out.push(char::REPLACEMENT_CHARACTER);
            invalid += 1;
        }
    }
    (Cow::Owned(out), invalid)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_invisible_unicode_character_passes() {
        for c in '\0'..=char::MAX {
            // What follows must not complete an escape sequence.
            let text = format!("a{c}é");
            let found = sanitize(&text);
            if c == '\r' {
                assert_eq!(found.text, "a\né");
            } else if is_invisible(c) {
                assert_eq!(found.text, format!("a<U+{:04X}>é", u32::from(c)));
                assert_eq!(escape_invisible(&text), found.text);
                assert_eq!(found.made_visible, 1);
            } else {
                assert!(matches!(found.text, Cow::Borrowed(_)), "{c:?}");
            }
        }
    }

    #[test]
    fn plain_text_of_any_script_is_borrowed() {
        for text in [
            "",
            "plain\ttext\nof two lines\n",
            "السلام عليكم",
            "می\u{200c}خواهم",
            "שלום עולם",
            "नमस्ते क्\u{200d}ष",
            "สวัสดีชาวโลก",
            "日本語のテキスト、\u{3000}かな",
            "한국어",
            "e\u{301} n\u{303}aïve",
            "Привет — «мир»",
            "l'été\u{a0}: 5\u{202f}€",
            "👩\u{200d}🚀 👨\u{200d}👩\u{200d}👧 ❤\u{fe0f} 1\u{fe0f}\u{20e3} 🏳\u{fe0f}\u{200d}🌈 👍🏽 🇳🇴",
        ] {
            assert!(matches!(sanitize(text).text, Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn emoji_joiners_and_selectors_are_escaped_elsewhere() {
        for (text, shown) in [
            ("ig\u{200d}nore", "ig<U+200D>nore"),
            ("👩\u{200d}\u{200d}🚀", "👩<U+200D><U+200D>🚀"),
            ("❤\u{fe0f}\u{fe0f}", "❤\u{fe0f}<U+FE0F>"),
            ("1\u{fe0f}2", "1<U+FE0F>2"),
            ("👩\u{200d}", "👩<U+200D>"),
            ("🏴\u{e0067}\u{e007f}", "🏴<U+E0067><U+E007F>"),
            ("葛\u{e0100}", "葛<U+E0100>"),
            ("😀\u{fe00}\u{fe01}", "😀<U+FE00><U+FE01>"),
        ] {
            assert_eq!(sanitize(text).text, shown);
            assert_eq!(escape_invisible(text), shown);
        }
    }

    #[test]
    fn escape_invisible_shows_sequences_and_unusual_blanks() {
        assert_eq!(escape_invisible("a\x1b[2Jb\r"), "a<U+001B>[2Jb<U+000D>");
        assert_eq!(escape_invisible("rm\u{a0}-rf\u{2800}"), "rm<U+00A0>-rf<U+2800>");
        assert!(matches!(escape_invisible("a\tb\nc é 漢"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn sanitized_text_has_no_invisible_characters(text in any::<String>()) {
            let out = sanitize(&text).text.into_owned();
            let crlf = out.replace("\r\n", "\n");
            let mut before = None;
            let mut rest = crlf.chars();
            while let Some(c) = rest.next() {
                prop_assert!(!is_invisible(c) || may_stay(before, c, rest.clone().next()), "{:?}", c);
                before = Some(c);
            }
        }

        #[test]
        fn bytes_are_decoded_like_from_utf8_lossy(bytes: Vec<u8>) {
            let (text, invalid) = from_bytes(&bytes);
            prop_assert_eq!(&*text, &*String::from_utf8_lossy(&bytes));
            prop_assert_eq!(invalid == 0, std::str::from_utf8(&bytes).is_ok());
        }
    }
}
