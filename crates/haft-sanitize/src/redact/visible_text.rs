//! Removes invisible characters from a text before secrets are searched in it, and maps positions
//! back.
//!
//! In: text of any origin. Out: the same without gaps. A gap is an invisible character (zero-width,
//! bidi, control), raw or written out as `<U+200B>`, or a terminal escape sequence. For known
//! secrets, line breaks inside of an encoded value are gaps too: base64 and long keys are often
//! printed in several lines. Text without gaps is borrowed.
//!
//! INVARIANT: the gaps do not depend on how a text is split. An incomplete gap at the end is left
//! until more text arrives.

use std::{borrow::Cow, ops::Range, sync::LazyLock};

use memchr::memmem::Finder;

use crate::{invisible::is_invisible, plain_run::is_plain};

/// How a text is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) breaks: Breaks,
    pub(super) sequences: Sequences,
}

/// Which line breaks inside of an encoded value count as line wraps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Breaks {
    None,
    /// Only real line breaks. A written `\n` may also be a backslash and the first letter of a
    /// secret.
    Real,
    /// Real and written line breaks.
    All,
    /// Every blank, including line breaks: a secret with blanks in it may be wrapped at any of
    /// them.
    Blanks,
    /// Every blank, real or written as `\n`, `\r` and `\t`.
    WrittenBlanks,
}

impl Breaks {
    /// All passes of the search for known secrets, in order. Each works on the output of the one
    /// before.
    pub(super) const PASSES: [Self; 4] = [Self::All, Self::Real, Self::Blanks, Self::WrittenBlanks];

    /// Whether blanks are removed, so that secrets are searched without their blanks.
    pub(super) fn are_blanks(self) -> bool {
        matches!(self, Self::Blanks | Self::WrittenBlanks)
    }

    /// Whether this pass differs from the one before only if there is a backslash.
    pub(super) fn needs_backslash(self) -> bool {
        matches!(self, Self::Real | Self::WrittenBlanks)
    }
}

/// Which escape sequences are removed as a terminal would. A sequence may swallow letters of a
/// secret, so text with an escape is read both ways.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sequences {
    All,
    /// Colours and similar sequences, which occur inside of words; of all others only the escape
    /// character.
    Colours,
}

impl Reading {
    pub(super) fn skipping(self, breaks: Breaks) -> Self {
        Self { breaks, ..self }
    }
}

/// As a terminal shows it.
pub(super) const SHOWN: Reading = Reading { breaks: Breaks::None, sequences: Sequences::All };
/// As it is written, except for escapes and colours.
pub(super) const WRITTEN: Reading = Reading { breaks: Breaks::None, sequences: Sequences::Colours };

/// The first character of all escape sequences.
pub(super) const ESCAPE: char = '\u{1b}';
/// The first character of written line breaks.
pub(super) const BACKSLASH: char = '\\';

/// A text without its gaps.
pub(super) struct Bare<'a> {
    pub(super) text: Cow<'a, str>,
    /// For each gap, its position in the bare text, and how many bytes were removed up to its end.
    gaps: Vec<(usize, usize)>,
    /// How much of the original the bare text covers.
    end: usize,
    /// Whether the rest beyond the end is a line break that may turn out to be a gap.
    is_break: bool,
}

/// Longest escape sequence, in bytes: longer than any title or link.
const MAX_SEQUENCE_BYTES: usize = 4 << 10;
/// Maximum indent of a continued line of an encoded value.
const MAX_INDENT: usize = 16;
/// Maximum number of blanks at a line wrap: a break and the indent of the next line.
const MAX_WRAP_BYTES: usize = 256;

static WRITTEN_CHAR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("<U+"));

/// Removes the gaps from a text. If more text follows, its end may be an incomplete gap.
pub(super) fn bare(text: &str, reading: Reading, last: bool) -> Bare<'_> {
    let whole =
        |end| Bare { text: Cow::Borrowed(&text[..end]), gaps: Vec::new(), end, is_break: false };
    if reading.breaks == Breaks::None
        && is_plain(text)
        && WRITTEN_CHAR.find(text.as_bytes()).is_none()
    {
        // Only a written-out character can be incomplete.
        let open = if last { None } else { open_end(text) };
        return whole(open.unwrap_or(text.len()));
    }
    let bytes = text.as_bytes();
    let mut found =
        Bare { text: Cow::Borrowed(text), gaps: Vec::new(), end: text.len(), is_break: false };
    let mut out = String::new();
    let (mut at, mut copied, mut skipped) = (0, 0, 0);
    let is_odd: fn(&u8) -> bool = if reading.breaks.are_blanks() {
        |b: &u8| ODD[usize::from(*b)] || is_blank(*b)
    } else {
        |b: &u8| ODD[usize::from(*b)]
    };
    while let Some(more) = bytes[at..].iter().position(is_odd) {
        at += more;
        let before = if copied < at { bytes.get(at - 1) } else { out.as_bytes().last() };
        match gap(&text[at..], before.copied(), reading, last) {
            Gap::None => at += 1,
            Gap::Not(len) => at += len,
            Gap::Of(len) => {
                out.push_str(&text[copied..at]);
                skipped += len;
                found.gaps.push((out.len(), skipped));
                at += len;
                copied = at;
            }
            Gap::Open { is_break } => {
                (found.end, found.is_break) = (at, is_break);
                break;
            }
        }
    }
    found.text = if found.gaps.is_empty() {
        Cow::Borrowed(&text[..found.end])
    } else {
        out.push_str(&text[copied..found.end]);
        Cow::Owned(out)
    };
    found
}

impl Bare<'_> {
    /// How many bytes were removed before a position, with or without a gap at it.
    fn skipped(&self, at: usize, with: bool) -> usize {
        let before = self.gaps.partition_point(|(place, _)| *place < at || with && *place == at);
        before.checked_sub(1).and_then(|n| self.gaps.get(n)).map_or(0, |(_, skipped)| *skipped)
    }

    /// The range of a find in the original, with the gaps inside of it and without those around it.
    pub(super) fn place(&self, found: &Range<usize>) -> Range<usize> {
        let start = found.start + self.skipped(found.start, true);
        start..(found.end + self.skipped(found.end, false)).max(start)
    }

    /// How far the original is final if the bare text is final up to `to`. A break at the end is
    /// not waited for, unless something before it is open.
    pub(super) fn settled(&self, to: usize, original: &str) -> usize {
        if to == self.text.len() && self.is_break {
            original.len()
        } else {
            to + self.skipped(to, true)
        }
    }
}

/// What is at a position.
enum Gap {
    None,
    /// This many bytes are not a gap.
    Not(usize),
    Of(usize),
    /// Not known yet.
    Open {
        is_break: bool,
    },
}

/// The bytes that a gap may start with. None of them occurs inside of a character.
const ODD: [bool; 256] = {
    let mut odd = [false; 256];
    let mut at = 0;
    while at < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "there are 256 bytes")]
        let byte = at as u8;
        odd[at] = match byte {
            b'\t' => false,
            0x00..b' ' | b'<' | b'\\' | 0x7f => true,
            // The same as in `sanitize`: the others start no invisible character.
            0xc2 | 0xcd | 0xd8 | 0xe1..=0xe3 | 0xee..=0xf4 => true,
            _ => false,
        };
        at += 1;
    }
    odd
};

fn gap(rest: &str, before: Option<u8>, reading: Reading, last: bool) -> Gap {
    let open = |is_break| if last { Gap::None } else { Gap::Open { is_break } };
    if reading.breaks.are_blanks() && rest.bytes().next().is_some_and(is_blank) {
        let len = rest.bytes().take_while(|b| is_blank(*b)).count();
        return match len {
            // More than any tool indents.
            MAX_WRAP_BYTES.. => Gap::Not(len),
            _ if len == rest.len() && !last => Gap::Open { is_break: true },
            _ => Gap::Of(len),
        };
    }
    match rest.as_bytes() {
        [b'\\', b'n' | b'r' | b't', ..] if reading.breaks == Breaks::WrittenBlanks => Gap::Of(2),
        [b'\\'] if reading.breaks == Breaks::WrittenBlanks => open(false),
        [b'<', ..] => match written_char(rest) {
            Some(Ok(len)) => Gap::Of(len),
            Some(Err(Incomplete)) => open(false),
            None => Gap::None,
        },
        [0x1b, ..] => match removed_sequence(rest.as_bytes(), reading.sequences) {
            Some(Ok(len)) => Gap::Of(len),
            Some(Err(Incomplete)) if !last => Gap::Open { is_break: false },
            // An escape that starts no sequence is invisible too.
            _ => Gap::Of(1),
        },
        [b'\r'] if !last => Gap::Open { is_break: true },
        [b'\n', ..] | [b'\r', b'\n', ..] | [b'\\', ..] => {
            let counts = match reading.breaks {
                Breaks::None | Breaks::Blanks | Breaks::WrittenBlanks => false,
                Breaks::Real => !rest.starts_with(BACKSLASH),
                Breaks::All => true,
            };
            if !counts || !before.is_some_and(is_code) {
                return Gap::None;
            }
            match line_break(rest.as_bytes()) {
                Some(Ok(len)) => Gap::Of(len),
                // A backslash may also start a JSON-escaped secret.
                Some(Err(Incomplete)) => open(!rest.starts_with('\\')),
                None => Gap::None,
            }
        }
        _ => match rest.chars().next() {
            Some(c) if is_invisible(c) => Gap::Of(c.len_utf8()),
            _ => Gap::None,
        },
    }
}

/// The text ends before something is complete.
struct Incomplete;

/// An invisible character that is written out, as `<U+200B>`.
fn written_char(rest: &str) -> Option<Result<usize, Incomplete>> {
    const OPEN: &[u8] = b"<U+";
    let bytes = rest.as_bytes();
    let start = bytes.get(..OPEN.len()).unwrap_or(bytes);
    if !OPEN.starts_with(start) {
        return None;
    }
    let number = bytes.get(OPEN.len()..).unwrap_or_default();
    let is_digit = |b: &&u8| matches!(b, b'0'..=b'9' | b'A'..=b'F');
    let digits = number.iter().take(7).take_while(is_digit).count();
    match number.get(digits) {
        None if digits <= 6 => Some(Err(Incomplete)),
        Some(b'>') if (4..=6).contains(&digits) => {
            let number = rest.get(OPEN.len()..OPEN.len() + digits)?;
            let c = u32::from_str_radix(number, 16).ok().and_then(char::from_u32)?;
            is_invisible(c).then_some(Ok(OPEN.len() + digits + 1))
        }
        _ => None,
    }
}

/// A sequence that is removed in this reading.
fn removed_sequence(rest: &[u8], sequences: Sequences) -> Option<Result<usize, Incomplete>> {
    let found = sequence(rest);
    if sequences == Sequences::All {
        return found;
    }
    let is_control = matches!(rest.get(1), None | Some(b'['));
    match found {
        Some(Ok(len)) if matches!(rest.get(..len), Some([_, b'[', .., b'm' | b'K'])) => found,
        Some(Err(Incomplete)) if is_control => found,
        _ => None,
    }
}

/// A terminal escape sequence, from its escape on.
fn sequence(rest: &[u8]) -> Option<Result<usize, Incomplete>> {
    let rest = rest.get(..MAX_SEQUENCE_BYTES).unwrap_or(rest);
    let cut = if rest.len() < MAX_SEQUENCE_BYTES { Some(Err(Incomplete)) } else { None };
    let Some(kind) = rest.get(1) else { return cut };
    let body = rest.get(2..).unwrap_or_default();
    match kind {
        b'[' => match body.iter().position(|b| !matches!(b, b' '..=b'?')) {
            None => cut,
            Some(at) => matches!(body.get(at), Some(b'@'..=b'~')).then_some(Ok(2 + at + 1)),
        },
        b']' | b'P' | b'X' | b'^' | b'_' => {
            let ends = |b: &u8| {
                matches!(b, 0x1b | 0x18 | 0x1a) || *kind == b']' && matches!(b, 0x07 | b'\n')
            };
            let Some(at) = body.iter().position(ends) else { return cut };
            match (body.get(at), body.get(at + 1)) {
                (Some(0x07), _) => Some(Ok(2 + at + 1)),
                (Some(0x1b), Some(b'\\')) => Some(Ok(2 + at + 2)),
                (Some(0x1b), None) => cut,
                _ => None,
            }
        }
        b' '..=b'/' => match body.iter().position(|b| !matches!(b, b' '..=b'/')) {
            None => cut,
            Some(at) => matches!(body.get(at), Some(b'0'..=b'~')).then_some(Ok(2 + at + 1)),
        },
        b'0'..=b'~' => Some(Ok(2)),
        _ => None,
    }
}

/// A line break before the rest of an encoded value, real or written as `\n`, with the indent of
/// the line.
fn line_break(rest: &[u8]) -> Option<Result<usize, Incomplete>> {
    const WAYS: [&[u8]; 4] = [b"\r\n", b"\n", b"\\r\\n", b"\\n"];
    let Some(way) = WAYS.into_iter().find(|way| rest.starts_with(way)) else {
        return WAYS.into_iter().any(|way| way.starts_with(rest)).then_some(Err(Incomplete));
    };
    let line = rest.get(way.len()..).unwrap_or_default();
    let indent = line.iter().take(MAX_INDENT).take_while(|b| matches!(b, b' ' | b'\t')).count();
    match line.get(indent) {
        None => Some(Err(Incomplete)),
        Some(b) => is_code(*b).then_some(Ok(way.len() + indent)),
    }
}

/// Whether a byte is a blank or a line break.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Whether a byte may occur in base64, in hex, in most keys.
fn is_code(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'_' | b'-')
}

/// Where a plain text ends in what may be the start of a gap.
fn open_end(text: &str) -> Option<usize> {
    let from = text.floor_char_boundary(text.len().saturating_sub("<U+10FFFF".len()));
    let at = from + text[from..].rfind('<')?;
    matches!(written_char(&text[at..]), Some(Err(Incomplete))).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, reading: Reading) -> String {
        bare(text, reading, true).text.into_owned()
    }

    #[test]
    fn invisible_characters_are_removed_raw_or_written_out() {
        for (text, plain) in [
            ("a\u{200b}b", "ab"),
            ("a<U+200B>b", "ab"),
            ("a<U+E0041><U+202E>b", "ab"),
            ("a\x1b[1;31mb\x1b[0m", "ab"),
            ("a\x1b]8;;https://x.example\x1b\\b\x1b]0;t\x07c", "abc"),
            ("a\x1b(Bb\x1b7c", "abc"),
            ("a\u{8}\0\rb", "ab"),
            ("a\x1b", "a"),
            ("a\x1b[1\nb", "a[1\nb"),
            ("a<U+003C>b <U+> <U+20 <b>", "a<U+003C>b <U+> <U+20 <b>"),
            ("a\r\nb\n  c", "a\r\nb\n  c"),
            ("é漢 👍", "é漢 👍"),
        ] {
            assert_eq!(shown(text, SHOWN), plain, "{text:?}");
        }
        let text = "a\x1b open\u{200b}\x1b[1mb\x1b[2open\x1b]0;title\x07";
        assert_eq!(shown(text, WRITTEN), "a openb[2open]0;title", "nothing is swallowed");
    }

    #[test]
    fn line_break_is_removed_only_inside_an_encoded_value_and_on_request() {
        for (text, plain) in [
            ("QUJD\nREVG", "QUJDREVG"),
            ("QUJD\r\n\t  REVG", "QUJDREVG"),
            ("QUJD\\nREVG\\r\\nx", "QUJDREVGx"),
            ("QUJD\n\nREVG", "QUJD\n\nREVG"),
            ("a.\nb \nc\n(d", "a.\nb \nc\n(d"),
            ("c:\\new\\table", "c:\\new\\table"),
        ] {
            assert_eq!(shown(text, SHOWN.skipping(Breaks::All)), plain, "{text:?}");
            assert_eq!(shown(text, SHOWN), text, "{text:?}");
        }
    }

    #[test]
    fn blanks_are_removed_only_on_request_and_up_to_a_limit() {
        let much = format!("a{}b", " ".repeat(MAX_WRAP_BYTES));
        for (text, blanks, written) in [
            ("a b\n  c\td\r\ne", "abcde", "abcde"),
            ("a\\nb \\tc\\x", "a\\nb\\tc\\x", "abc\\x"),
            (" a ", "a", "a"),
            (&much, &much, &much),
        ] {
            assert_eq!(shown(text, SHOWN.skipping(Breaks::Blanks)), blanks, "{text:?}");
            assert_eq!(shown(text, SHOWN.skipping(Breaks::WrittenBlanks)), written, "{text:?}");
        }
    }

    #[test]
    fn find_maps_back_to_its_range_with_the_gaps_inside() {
        let text = "\u{200b}a<U+200B>b\u{200b}c\x1b[0m";
        let bare = bare(text, SHOWN, true);
        assert_eq!(bare.text, "abc");
        assert_eq!(&text[bare.place(&(0..3))], "a<U+200B>b\u{200b}c");
        assert_eq!(&text[bare.place(&(1..2))], "b");
        assert_eq!(bare.settled(3, text), text.len());
        assert_eq!(&text[..bare.settled(2, text)], "\u{200b}a<U+200B>b\u{200b}");
    }

    #[test]
    fn incomplete_gap_at_the_end_is_buffered() {
        for (text, settled) in [
            ("a<U+20", 1),
            ("a<", 1),
            ("a\x1b[3", 1),
            ("a\x1b]8;;x\x1b", 1),
            ("a<b", 3),
            ("a<U+202E", 1),
            ("a<U+1234567", 11),
            ("a\r", 2),
        ] {
            let bare = bare(text, SHOWN, false);
            assert_eq!(bare.settled(bare.text.len(), text), settled, "{text:?}");
        }
        let long = format!("a\x1b]0;{}", "x".repeat(MAX_SEQUENCE_BYTES));
        assert_eq!(bare(&long, SHOWN, false).text.len(), long.len() - 1, "it is given up on");
    }
}
