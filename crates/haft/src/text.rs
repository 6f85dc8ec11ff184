//! Truncates text by characters, and estimates its tokens.

/// Returns the byte offset of the nth character, or the end of a shorter text.
pub(crate) fn nth_char(text: &str, n: usize) -> usize {
    // Bytes bound characters from above, so short text is not counted.
    if n >= text.len() {
        return text.len();
    }
    text.char_indices().nth(n).map_or(text.len(), |(at, _)| at)
}

/// Returns the first characters of a text.
pub(crate) fn head(text: &str, max_chars: usize) -> &str {
    &text[..nth_char(text, max_chars)]
}

/// Returns the first characters of a text, with an ellipsis if it is longer. For messages.
pub(crate) fn shortened(text: &str, max_chars: usize) -> String {
    let head = head(text, max_chars);
    if head.len() < text.len() { format!("{head}…") } else { text.to_owned() }
}

/// Estimates the tokens of a text of this many bytes. Three bytes a token is more than most texts
/// need, so that a reservation is rather too large.
pub(crate) fn estimate_tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(3)).unwrap_or(u64::MAX)
}

/// The length of a value as compact JSON text, without creating the text.
pub(crate) fn json_size(json: &serde_json::Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    let _ = serde_json::to_writer(&mut count, json);
    count.0
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
    }
}
