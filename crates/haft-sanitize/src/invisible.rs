//! Classifies invisible Unicode characters, and where they are legitimate.
//!
//! One table for results, prompts and names. Pure.
//!
//! Three kinds are kept in their proper places: the variation selector after an emoji, the
//! zero-width joiner between two emoji, and the joiners that Arabic and Indic scripts need, where
//! IDNA allows them too. A second one in a row is never kept, so no hidden message fits between two
//! characters.

/// Writes a character as its code point, as in `<U+202E>`.
pub(crate) fn push_code_point(c: char, out: &mut String) {
    use std::fmt::Write as _;
    let _ = write!(out, "<U+{:04X}>", u32::from(c));
}

/// Whether a character is invisible, controls the display, or has no defined glyph. Line breaks and
/// tabs are visible.
#[must_use]
pub fn is_invisible(c: char) -> bool {
    match c {
        '\n' | '\t' | ' '..='~' => false,
        '\0'..='\u{9f}' => true,
        _ => {
            changes_direction(c)
                || matches!(c,
            // Invisible: fillers, joiners, selectors, and default-ignorable characters.
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
            // Private use: the glyph depends on the font.
            | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}'
            // Noncharacters.
            | '\u{fdd0}'..='\u{fdef}')
                || u32::from(c) & 0xfffe == 0xfffe
        }
    }
}

/// Whether a character changes the text direction (bidi override, Trojan Source).
pub(crate) fn changes_direction(c: char) -> bool {
    matches!(c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a character looks like a blank but is not ASCII white space.
pub(crate) fn is_unusual_blank(c: char) -> bool {
    matches!(
        c,
        '\u{a0}' | '\u{1680}' | '\u{2000}'
            ..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{2800}' | '\u{3000}'
    )
}

/// Whether an invisible character may stay between these two. `after` is `None` at the end.
pub(crate) fn may_stay(before: Option<char>, c: char, after: Option<char>) -> bool {
    let Some(before) = before else { return false };
    match c {
        '\u{fe0e}' | '\u{fe0f}' if before.is_ascii() => is_key(before) && after == Some('\u{20e3}'),
        '\u{fe0e}' | '\u{fe0f}' => is_emoji(before),
        '\u{200d}' if ends_emoji(before) => after.is_some_and(is_emoji),
        '\u{200c}' | '\u{200d}' => joins(before, after),
        _ => false,
    }
}

/// Whether the next character decides if this one may stay.
pub(crate) fn needs_next(before: Option<char>, c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
        || (matches!(c, '\u{fe0e}' | '\u{fe0f}') && before.is_some_and(is_key))
}

/// The characters of a keycap: `1️⃣`.
fn is_key(c: char) -> bool {
    c.is_ascii_digit() || c == '#' || c == '*'
}

fn ends_emoji(c: char) -> bool {
    c == '\u{fe0f}' || is_emoji(c)
}

/// The blocks that contain emoji. They contain other signs too; that is harmless, because each
/// keeps at most one selector.
fn is_emoji(c: char) -> bool {
    matches!(c,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2100}'..='\u{214f}'
        | '\u{2190}'..='\u{21ff}' | '\u{2300}'..='\u{23ff}' | '\u{24c2}' | '\u{25a0}'..='\u{27bf}'
        | '\u{2934}' | '\u{2935}' | '\u{2b00}'..='\u{2bff}' | '\u{3030}' | '\u{303d}'
        | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

/// After a virama a joiner selects the form of the next letter; between two letters of a cursive
/// script it separates them.
fn joins(before: char, after: Option<char>) -> bool {
    let Some(after) = after else { return false };
    is_virama(before) && after.is_alphabetic() || is_joined(before) && is_joined(after)
}

fn is_virama(c: char) -> bool {
    matches!(
        c,
        '\u{94d}'
            | '\u{9cd}'
            | '\u{a4d}'
            | '\u{acd}'
            | '\u{b4d}'
            | '\u{bcd}'
            | '\u{c4d}'
            | '\u{ccd}'
            | '\u{d4d}'
            | '\u{dca}'
            | '\u{f84}'
            | '\u{1039}'
            | '\u{17d2}'
    )
}

/// Letters and marks of Arabic, Syriac, N'Ko and Mongolian.
fn is_joined(c: char) -> bool {
    matches!(c,
        '\u{620}'..='\u{65f}' | '\u{66e}'..='\u{6d3}' | '\u{6fa}'..='\u{6ff}'
        | '\u{710}'..='\u{77f}' | '\u{7ca}'..='\u{7ea}' | '\u{8a0}'..='\u{8c9}'
        | '\u{1820}'..='\u{1878}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_control_and_ignorable_character_is_hidden() {
        for c in '\0'..=char::MAX {
            let private = matches!(u32::from(c), 0xe000..=0xf8ff | 0xf0000..);
            if c.is_control() && c != '\n' && c != '\t' || private {
                assert!(is_invisible(c), "{c:?}");
            }
            if c.is_alphabetic() && !private && !"\u{115f}\u{1160}\u{3164}\u{ffa0}".contains(c) {
                assert!(!is_invisible(c), "{c:?}");
            }
            assert!(!(is_invisible(c) && is_unusual_blank(c)), "{c:?}");
        }
    }
}
