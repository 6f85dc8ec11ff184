//! Sanitizes streamed text, with a terminal's parser for escape sequences.
//!
//! In: pieces of text, split anywhere between characters. Out: sanitized text. What depends on the
//! next piece is buffered: a carriage return, a joiner, an incomplete sequence. The parser decides
//! where a sequence ends; a sequence that a terminal would ignore is shown as text.
//!
//! INVARIANT: the buffer is bounded, and an escape always starts a new sequence, so text is parsed
//! at most twice.

use std::fmt;

use crate::{
    invisible::{is_invisible, may_stay, needs_next, push_code_point},
    plain_run::plain_run,
};

/// Longest sequence that is buffered, in bytes. Longer than any title or link, and most images; a
/// longer one is shown, and truncated with the rest of the result.
const MAX_SEQUENCE_BYTES: usize = 64 << 10;

const ESCAPE: char = '\u{1b}';

/// Sanitizes streamed text; the result does not depend on how the text is split.
///
/// ```
/// use haft_sanitize::StreamSanitizer;
///
/// let mut stream = StreamSanitizer::default();
/// let mut text = stream.feed("building \u{1b}[3").into_owned();
/// text += &stream.feed("2mok\r");
/// text += &stream.flush();
/// assert_eq!(text, "building ok\n");
/// assert_eq!((stream.stripped(), stream.made_visible()), (1, 1));
/// ```
#[derive(Debug, Default)]
pub struct StreamSanitizer {
    held: Held,
    /// The last sequence, to reuse its allocation.
    spare: Option<Box<Sequence>>,
    /// The last character of the output.
    before: Option<char>,
    stripped: usize,
    made_visible: usize,
}

/// What is buffered until the next piece.
#[derive(Debug, Default)]
enum Held {
    #[default]
    Nothing,
    /// A carriage return, or a joiner.
    One(char),
    Sequence(Box<Sequence>),
}

/// An incomplete sequence.
#[derive(Default)]
struct Sequence {
    parser: vte::Parser,
    /// All of it, from the escape on.
    text: String,
    /// A string may be at its end: its last character is an escape.
    is_closing: bool,
}

impl StreamSanitizer {
    /// Takes the next piece and returns the text that is certain.
    pub fn feed<'t>(&mut self, text: &'t str) -> std::borrow::Cow<'t, str> {
        if matches!(self.held, Held::Nothing) && plain_run(text) == text.len() {
            self.before = text.chars().next_back().or(self.before);
            return text.into();
        }
        let mut out = String::with_capacity(text.len() + 32);
        self.feed_into(text, &mut out);
        out.into()
    }

    /// Returns the buffered text. Afterwards a new text may begin.
    pub fn flush(&mut self) -> String {
        let mut out = String::new();
        self.flush_into(&mut out);
        out
    }

    /// Returns how many escape sequences were removed so far.
    #[must_use]
    pub fn stripped(&self) -> usize {
        self.stripped
    }

    /// Returns how many characters were made visible so far.
    #[must_use]
    pub fn made_visible(&self) -> usize {
        self.made_visible
    }

    pub(super) fn feed_into(&mut self, text: &str, out: &mut String) {
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            match std::mem::take(&mut self.held) {
                Held::Nothing => rest = self.plain(rest, out),
                Held::One('\r') if next == '\n' => {
                    out.push_str("\r\n");
                    self.before = Some(next);
                    rest = &rest[1..];
                }
                Held::One(c) => self.settle(c, Some(next), out),
                Held::Sequence(mut sequence) => {
                    let (taken, end) = sequence.take(rest);
                    rest = &rest[taken..];
                    match end {
                        None => self.held = Held::Sequence(sequence),
                        Some(end) => self.end(sequence, end, out),
                    }
                }
            }
        }
    }

    pub(super) fn flush_into(&mut self, out: &mut String) {
        loop {
            match std::mem::take(&mut self.held) {
                Held::Nothing => break,
                Held::One(c) => self.settle(c, None, out),
                Held::Sequence(mut sequence) => {
                    let end = sequence.cut_short();
                    self.end(sequence, end, out);
                }
            }
        }
        self.before = None;
    }

    /// Ends a sequence: counts it as removed, or shows it.
    fn end(&mut self, sequence: Box<Sequence>, end: End, out: &mut String) {
        match end {
            End::Complete => self.stripped += 1,
            End::Broken => self.give_up(&sequence.text, out),
            End::Overtaken => {
                self.give_up(&sequence.text, out);
                if let Held::One(c) = std::mem::take(&mut self.held) {
                    self.settle(c, Some(ESCAPE), out);
                }
            }
        }
        self.spare = Some(sequence);
        if matches!(end, End::Overtaken) {
            self.begin();
        }
    }

    fn begin(&mut self) {
        let mut sequence = self.spare.take().unwrap_or_default();
        sequence.begin();
        self.held = Held::Sequence(sequence);
    }

    /// Copies clean text, and handles the first character that is not.
    fn plain<'t>(&mut self, text: &'t str, out: &mut String) -> &'t str {
        let (plain, rest) = text.split_at(plain_run(text));
        if let Some(last) = plain.chars().next_back() {
            out.push_str(plain);
            self.before = Some(last);
        }
        let mut chars = rest.chars();
        match chars.next() {
            None => {}
            Some(ESCAPE) => self.begin(),
            Some('\r') => self.held = Held::One('\r'),
            Some(c) if needs_next(self.before, c) => self.held = Held::One(c),
            Some(c) => self.settle(c, None, out),
        }
        chars.as_str()
    }

    /// Outputs an invisible character whose neighbours are known.
    fn settle(&mut self, c: char, after: Option<char>, out: &mut String) {
        if c == '\r' {
            // Text that would have been overwritten becomes a line of its own.
            out.push('\n');
            self.before = Some('\n');
            self.made_visible += 1;
        } else if !is_invisible(c) || may_stay(self.before, c, after) {
            out.push(c);
            self.before = Some(c);
        } else {
            self.write_out(c, out);
        }
    }

    fn write_out(&mut self, c: char, out: &mut String) {
        push_code_point(c, out);
        self.before = Some('>');
        self.made_visible += 1;
    }

    /// Shows an invalid sequence: the escape as its code point, the rest as text. It contains no
    /// other escape.
    fn give_up(&mut self, text: &str, out: &mut String) {
        self.write_out(ESCAPE, out);
        let mut rest = text.strip_prefix(ESCAPE).unwrap_or(text);
        while let Some(next) = rest.chars().next() {
            match std::mem::take(&mut self.held) {
                Held::One('\r') if next == '\n' => {
                    out.push_str("\r\n");
                    self.before = Some(next);
                    rest = &rest[1..];
                }
                Held::One(c) => self.settle(c, Some(next), out),
                Held::Nothing | Held::Sequence(_) => rest = self.plain(rest, out),
            }
        }
    }
}

/// How a sequence ended.
#[derive(Debug, Clone, Copy)]
enum End {
    /// A terminal would have executed it.
    Complete,
    /// It is not a valid sequence.
    Broken,
    /// It is not a valid sequence, and another has started: its escape is not part of this one.
    Overtaken,
}

/// The kind of sequence, by the character after the escape.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A few ASCII characters.
    Short,
    /// `ESC [`, up to a final character.
    Control,
    /// OSC: a title, a link, the clipboard. One line up to a bell or a terminator.
    Command,
    /// DCS and similar, such as images: anything up to a terminator.
    Data,
}

impl Sequence {
    fn begin(&mut self) {
        // Whatever state the parser is in, an escape starts a new sequence.
        self.parser.advance(&mut Dispatched::default(), b"\x1b");
        self.text.clear();
        self.text.push(ESCAPE);
        self.is_closing = false;
    }

    /// Ends it at the end of the text.
    fn cut_short(&mut self) -> End {
        if !self.is_closing {
            return End::Broken;
        }
        // Its last escape did not end it, and starts another one.
        self.text.pop();
        End::Overtaken
    }

    fn kind(&self) -> Kind {
        match self.text.as_bytes().get(1) {
            Some(b'[') => Kind::Control,
            Some(b']') => Kind::Command,
            Some(b'P' | b'X' | b'^' | b'_') => Kind::Data,
            _ => Kind::Short,
        }
    }

    /// Consumes the text that belongs to the sequence; returns its length, and how the sequence
    /// ended.
    fn take(&mut self, text: &str) -> (usize, Option<End>) {
        let mut dispatched = Dispatched::default();
        for (at, c) in text.char_indices() {
            let kind = self.kind();
            if self.is_closing {
                if c == '\\' {
                    return (at + 1, Some(End::Complete));
                }
                return (at, Some(self.cut_short()));
            }
            let is_string = matches!(kind, Kind::Command | Kind::Data);
            let belongs = match c {
                ESCAPE => is_string,
                '\u{18}' | '\u{1a}' => false,
                '\n' | '\r' => kind == Kind::Data,
                // A bell ends a command; other control characters are allowed in strings.
                '\0'..='\u{1f}' => is_string,
                ' '..='~' => true,
                _ => is_string,
            };
            if !belongs || self.text.len() >= MAX_SEQUENCE_BYTES {
                return (at, Some(End::Broken));
            }
            self.text.push(c);
            if c == ESCAPE {
                self.is_closing = true;
                continue;
            }
            let mut buffer = [0; 4];
            self.parser.advance(&mut dispatched, c.encode_utf8(&mut buffer).as_bytes());
            let end = at + c.len_utf8();
            if dispatched.0 {
                return (end, Some(End::Complete));
            }
            // The parser has silently dropped it.
            if kind == Kind::Control && matches!(c, '@'..='~') {
                return (end, Some(End::Broken));
            }
        }
        (text.len(), None)
    }
}

impl fmt::Debug for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequence").field("text", &self.text).finish_non_exhaustive()
    }
}

/// Whether the parser has executed something.
#[derive(Default)]
struct Dispatched(bool);

impl vte::Perform for Dispatched {
    fn csi_dispatch(&mut self, _: &vte::Params, _: &[u8], _: bool, _: char) {
        self.0 = true;
    }

    fn esc_dispatch(&mut self, _: &[u8], _: bool, _: u8) {
        self.0 = true;
    }

    fn osc_dispatch(&mut self, _: &[&[u8]], _: bool) {
        self.0 = true;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::sanitize;

    fn cleaned(text: &str) -> String {
        sanitize(text).text.into_owned()
    }

    #[test]
    fn terminal_escape_sequences_are_removed() {
        for (text, plain) in [
            ("\x1b[1;31mred\x1b[0m", "red"),
            ("\x1b[38:2::1:2:3mrgb\x1b[K", "rgb"),
            ("a\x1b[2J\x1b[Hb\x1b[?25l", "ab"),
            ("\x1b]0;title\x07text", "text"),
            ("\x1b]8;;https://evil.example\x1b\\here\x1b]8;;\x1b\\", "here"),
            ("\x1b]52;c;cm0gLXJmIC8=\x07ok", "ok"),
            ("\x1bPq#0;2;0;0;0\n~~\x1b\\picture", "picture"),
            ("\x1b_Gf=24;AAAA\x1b\\kitty\x1b^pm\x1b\\\x1bXsos\x1b\\", "kitty"),
            ("\x1b(B\x1b7\x1b=x\x1bc", "x"),
            ("\x1b]0;日本\x07é", "é"),
        ] {
            let found = sanitize(text);
            assert_eq!((&*found.text, found.made_visible), (plain, 0), "{text:?}");
            assert!(found.stripped > 0);
        }
    }

    #[test]
    fn invalid_sequence_is_shown_and_swallows_nothing() {
        for (text, shown) in [
            ("\x1b", "<U+001B>"),
            ("\x1b[31", "<U+001B>[31"),
            ("\x1b[31\nnext", "<U+001B>[31\nnext"),
            ("\x1b[3é1m", "<U+001B>[3é1m"),
            ("\x1b]0;no end\nall the rest", "<U+001B>]0;no end\nall the rest"),
            ("\x1b]0;no end\x1b[0mrest", "<U+001B>]0;no endrest"),
            ("\x1bPnever closed", "<U+001B>Pnever closed"),
            ("\x1bPalmost\x1b", "<U+001B>Palmost<U+001B>"),
            ("\x1b[1\x18x", "<U+001B>[1<U+0018>x"),
            ("\x1b[1<2mx", "<U+001B>[1<2mx"),
            ("\x1bP\r\x1b", "<U+001B>P\n<U+001B>"),
            ("\u{9b}31m", "<U+009B>31m"),
            ("a\u{8}b\0\x07\x7f", "a<U+0008>b<U+0000><U+0007><U+007F>"),
        ] {
            assert_eq!(cleaned(text), shown, "{text:?}");
        }
        let long = format!("\x1b]0;{}\x07", "x".repeat(100_000));
        assert_eq!(cleaned(&long).len(), long.len() + 7 + 7, "shown, and its bell too");
    }

    #[test]
    fn carriage_return_becomes_a_line_break() {
        assert_eq!(cleaned("10%\r20%\r\n"), "10%\n20%\r\n");
        assert_eq!(cleaned("a\r\r\nb\r"), "a\n\r\nb\n");
        assert!(!sanitize("dos\r\nfile\r\n").is_changed());
    }

    /// Pieces that combine in all relevant ways.
    fn odd() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("\x1b"),
            Just("\x1b["),
            Just("31m"),
            Just("\x1b]0;"),
            Just("\x07"),
            Just("\x1b\\"),
            Just("\x1bP"),
            Just("\r"),
            Just("\n"),
            Just("\u{200d}"),
            Just("\u{fe0f}"),
            Just("\u{fe0f}\u{20e3}"),
            Just("1"),
            Just("👩"),
            Just("🚀"),
            Just("❤"),
            Just("\u{200c}"),
            Just("ب"),
            Just("क\u{94d}"),
            Just("é"),
            Just("\u{202e}"),
            Just("\u{e0041}"),
            Just("\0"),
            Just("\x18"),
            Just(" "),
            Just("plain text "),
            Just("\u{9b}"),
            Just("<U+202E>"),
            Just("\\"),
            Just("[haft"),
        ];
        let pieces = prop::collection::vec(piece, 0..24).prop_map(|all| all.concat());
        prop_oneof![3 => pieces, 1 => any::<String>()]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn streamed_sanitizing_equals_the_whole_for_any_split(text in odd(), seed in any::<u64>()) {
            let whole = sanitize(&text);
            let (mut stream, mut out) = (super::StreamSanitizer::default(), String::new());
            let (mut rest, mut seed) = (&*text, seed);
            while !rest.is_empty() {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = rest.ceil_char_boundary((seed >> 61) as usize);
                let (piece, later) = rest.split_at(at.min(rest.len()));
                out += &stream.feed(piece);
                rest = later;
            }
            out += &stream.flush();
            prop_assert_eq!(&*whole.text, &*out);
            prop_assert_eq!(whole.stripped, stream.stripped());
            prop_assert_eq!(whole.made_visible, stream.made_visible());
        }

        #[test]
        fn sanitizing_is_idempotent(text in odd()) {
            let once = cleaned(&text);
            let twice = sanitize(&once);
            prop_assert_eq!(&*twice.text, &*once);
            prop_assert!(!twice.is_changed());
        }
    }
}
