//! Names deceptive characters in text that a person approves: bidi overrides, invisible characters,
//! homoglyphs.
//!
//! Arguments come from a model, and possibly from a page with a prompt injection.
//! `escape_invisible` escapes invisible characters; this module describes them, and mixed
//! alphabets, in plain words.

use crate::invisible::{changes_direction, is_invisible, is_unusual_blank};

/// Names what in a text may not be what it looks like, one phrase each; usually empty.
///
/// ```
/// assert_eq!(haft_sanitize::deceptive_chars("p\u{430}ypal.com"), ["mixed alphabets in one word"]);
/// assert!(haft_sanitize::deceptive_chars("paypal.com").is_empty());
/// ```
#[must_use]
pub fn deceptive_chars(text: &str) -> Vec<&'static str> {
    let mut found = Vec::new();
    if text.contains(changes_direction) {
        found.push("characters that reverse the text direction (bidi)");
    }
    if text.contains(|c| is_invisible(c) && !changes_direction(c) && !c.is_control()) {
        found.push("invisible characters");
    }
    if text.contains(|c: char| c.is_control() && c != '\n' && c != '\t') {
        found.push("terminal control characters");
    }
    // The wide space of Chinese and Japanese is the usual one there.
    if text.contains(|c| is_unusual_blank(c) && c != '\u{3000}') {
        found.push("unusual space characters");
    }
    let mixed = |word: &str| {
        let mut first = None;
        word.chars().filter_map(alphabet).any(|own| *first.get_or_insert(own) != own)
    };
    if text.split(|c: char| !c.is_alphanumeric()).any(mixed) {
        found.push("mixed alphabets in one word");
    }
    found
}

/// Alphabets whose letters are confused with each other (homoglyphs).
fn alphabet(c: char) -> Option<u8> {
    match c {
        'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => Some(0),
        '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => Some(1),
        '\u{400}'..='\u{52f}' => Some(2),
        '\u{530}'..='\u{58f}' => Some(3),
        '\u{13a0}'..='\u{13ff}' | '\u{ab70}'..='\u{abbf}' => Some(4),
        '\u{ff21}'..='\u{ff3a}' | '\u{ff41}'..='\u{ff5a}' => Some(5),
        '\u{1d400}'..='\u{1d7ff}' => Some(6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_named() {
        for c in
            ['\u{1b}', '\r', '\u{0}', '\u{ad}', '\u{200d}', '\u{2066}', '\u{fe0f}', '\u{e0041}']
        {
            assert!(!deceptive_chars(&format!("a{c}b")).is_empty(), "{c:?}");
        }
    }

    #[test]
    fn normal_text_in_any_language_is_not_deceptive() {
        for text in
            ["git push origin main", "Привет, мир", "καλημέρα", "日本語 text", "naïve_x1", ""]
        {
            assert!(deceptive_chars(text).is_empty(), "{text}");
        }
        assert_eq!(deceptive_chars("a\u{a0}b"), ["unusual space characters"]);
        assert_eq!(deceptive_chars("gοοgle"), ["mixed alphabets in one word"]);
    }
}
