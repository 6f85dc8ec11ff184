//! Refuses invisible and bidirectional characters before parsing (Trojan Source, homograph tricks
//! in approvals).

use super::{MAX_CHARACTERS, refuse};
use crate::ShellParseError;

/// Checks length and characters.
pub(crate) fn check(text: &str) -> Result<(), ShellParseError> {
    // Bytes first, so that the characters of a huge text are not counted.
    if text.len() > MAX_CHARACTERS * 4 || text.chars().count() > MAX_CHARACTERS {
        return refuse(format!("it is longer than {MAX_CHARACTERS} characters"));
    }
    match text.chars().find(|c| is_invisible(*c)) {
        Some(c) => refuse(format!("it contains the invisible character U+{:04X}", u32::from(c))),
        None => Ok(()),
    }
}

/// Returns whether a character is invisible or changes the visible order.
fn is_invisible(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        c if c.is_control() => true,
        c if c.is_ascii() => false,
        c if c.is_whitespace() => true,
        // Bidirectional controls, joiners, fillers, invisible operators, annotations, tags.
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => {
            true
        }
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' => true,
        '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' => true,
        '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_refused_and_other_scripts_are_not() {
        for text in
            ["a\0b", "a\rb", "a\r\nb", "a\u{1b}[2Jb", "a\u{85}b", "a\u{202e}b", "a\u{200b}b"]
        {
            assert!(check(text).is_err(), "{text:?}");
        }
        for text in
            ["a\u{a0}b", "a\u{3000}b", "a\u{2028}b", "a\u{feff}b", "a\u{e0041}b", "a\u{7f}b"]
        {
            assert!(check(text).is_err(), "{text:?}");
        }
        for text in ["a\tb\nc", "grüße 日本語 привет", "✔️ 🎉"] {
            assert!(check(text).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn length_limit_counts_characters() {
        assert!(check(&"é".repeat(MAX_CHARACTERS)).is_ok());
        assert!(check(&"é".repeat(MAX_CHARACTERS + 1)).is_err());
    }
}
