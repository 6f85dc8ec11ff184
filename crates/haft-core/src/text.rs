//! Truncated text for messages: by characters, or by bytes between characters.

/// Returns the byte offset of the nth character, or the end of a shorter text.
pub fn nth_char(text: &str, n: usize) -> usize {
    // Bytes bound characters from above, so short text is not counted.
    if n >= text.len() {
        return text.len();
    }
    text.char_indices().nth(n).map_or(text.len(), |(at, _)| at)
}

/// Returns the first characters of a text.
pub fn head(text: &str, max_chars: usize) -> &str {
    &text[..nth_char(text, max_chars)]
}

/// Returns the first characters of a text, with an ellipsis if it is longer.
pub fn shortened(text: &str, max_chars: usize) -> String {
    with_ellipsis(text, head(text, max_chars))
}

/// Returns the first bytes of a text, with an ellipsis if it is longer. No character is split.
pub fn shortened_bytes(text: &str, max_bytes: usize) -> String {
    with_ellipsis(text, &text[..text.floor_char_boundary(max_bytes)])
}

fn with_ellipsis(text: &str, head: &str) -> String {
    if head.len() < text.len() { format!("{head}…") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_truncated_between_characters() {
        assert_eq!(head("äöü", 2), "äö");
        assert_eq!(head("äöü", 3), "äöü");
        assert_eq!(head("äöü", 6), "äöü");
        assert_eq!(head("", 0), "");
        assert_eq!(shortened("äöü", 2), "äö…");
        assert_eq!(shortened("äöü", 3), "äöü");
        assert_eq!(shortened_bytes("äöü", 3), "ä…");
        assert_eq!(shortened_bytes("äöü", 6), "äöü");
    }
}
