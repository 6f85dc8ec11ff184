//! Refuses what a person cannot see, or would see in another order, before anything is parsed.

use crate::{MOST_CHARACTERS, Unparseable, no};

/// Checks length and characters.
pub(crate) fn check(text: &str) -> Result<(), Unparseable> {
    // Bytes first: a text of a gigabyte is not counted.
    if text.len() > MOST_CHARACTERS * 4 || text.chars().count() > MOST_CHARACTERS {
        return no(format!("it is longer than {MOST_CHARACTERS} characters"));
    }
    match text.chars().find(|c| hides(*c)) {
        Some(c) => no(format!("it holds the hidden character U+{:04X}", u32::from(c))),
        None => Ok(()),
    }
}

/// Returns whether a character cannot be seen for what it is.
fn hides(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        c if c.is_control() => true,
        c if c.is_ascii() => false,
        c if c.is_whitespace() => true,
        // Direction, joiners, fillers, invisible operators, annotations, tags.
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
    fn what_cannot_be_seen_is_refused_and_other_scripts_are_not() {
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
    fn the_longest_text_is_counted_in_characters() {
        assert!(check(&"é".repeat(MOST_CHARACTERS)).is_ok());
        assert!(check(&"é".repeat(MOST_CHARACTERS + 1)).is_err());
    }
}
