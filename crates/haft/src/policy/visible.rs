//! Text that is shown to people before they say yes: nothing hides in it.
//!
//! Arguments come from a model, and perhaps from a page it has read. So whatever is not seen, turns
//! the order of a line around, or borrows letters of another alphabet is made visible or named.

use std::borrow::Cow;

/// Returns the text with everything written out that a screen would act on or not show. Line breaks
/// and tabs stay.
///
/// ```
/// assert_eq!(haft::visible("rm\u{202e}\u{200b} -rf"), "rm\\u{202e}\\u{200b} -rf");
/// assert_eq!(haft::visible("naïve 日本"), "naïve 日本");
/// ```
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_hidden(c) {
            true => out.extend(c.escape_unicode()),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Names what in a text may not be what it looks like, in a few words each; most often nothing.
///
/// ```
/// assert_eq!(haft::tricks("p\u{430}ypal.com"), ["letters of several alphabets in one word"]);
/// assert!(haft::tricks("paypal.com").is_empty());
/// ```
#[must_use]
pub fn tricks(text: &str) -> Vec<&'static str> {
    let mut found = Vec::new();
    if text.contains(turns_order) {
        found.push("characters that turn the order of the text around");
    }
    if text.contains(|c| is_hidden(c) && !turns_order(c) && !c.is_control()) {
        found.push("characters that are not seen");
    }
    if text.contains(|c: char| c.is_control() && c != '\n' && c != '\t') {
        found.push("characters that control a terminal");
    }
    if text.contains(is_space_like) {
        found.push("spaces that are not the usual one");
    }
    let mixed = |word: &str| {
        let mut first = None;
        word.chars().filter_map(alphabet).any(|own| *first.get_or_insert(own) != own)
    };
    if text.split(|c: char| !c.is_alphanumeric()).any(mixed) {
        found.push("letters of several alphabets in one word");
    }
    found
}

/// Whether a screen would act on a character, or show nothing for it.
fn is_hidden(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || turns_order(c)
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}'
            | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

fn turns_order(c: char) -> bool {
    matches!(c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn is_space_like(c: char) -> bool {
    c.is_whitespace() && !matches!(c, ' ' | '\n' | '\t' | '\r' | '\u{3000}')
}

/// The alphabets whose letters are mistaken for each other.
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
    fn whatever_is_not_seen_is_written_out() {
        for c in
            ['\u{1b}', '\r', '\u{0}', '\u{ad}', '\u{200d}', '\u{2066}', '\u{fe0f}', '\u{e0041}']
        {
            let text = format!("a{c}b");
            assert_eq!(visible(&text), format!("a{}b", c.escape_unicode()), "{c:?}");
            assert!(!tricks(&text).is_empty(), "{c:?}");
        }
        assert!(matches!(visible("a\tb\nc é 漢"), Cow::Borrowed("a\tb\nc é 漢")));
    }

    #[test]
    fn honest_text_in_any_language_has_no_tricks() {
        for text in
            ["git push origin main", "Привет, мир", "καλημέρα", "日本語 text", "naïve_x1", ""]
        {
            assert!(tricks(text).is_empty(), "{text}");
        }
        assert_eq!(tricks("a\u{a0}b"), ["spaces that are not the usual one"]);
        assert_eq!(tricks("gοοgle"), ["letters of several alphabets in one word"]);
    }
}
