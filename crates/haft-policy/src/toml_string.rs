//! Writes a text as a string of a TOML file, for rules and for the list of trusted directories.

/// Quotes a text as TOML; `None` if it has invisible characters.
pub(crate) fn quoted(text: &str) -> Option<String> {
    if text.contains(char::is_control) {
        return None;
    }
    Some(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_printable_text_survives_being_quoted(text in "\\PC{0,80}") {
            let table: toml::Table = format!("x = {}", quoted(&text).unwrap()).parse().unwrap();
            prop_assert_eq!(table["x"].as_str(), Some(&*text));
        }

        #[test]
        fn quotes_and_backslashes_survive_being_quoted(text in "[\"\\\\'#\\[\\]=éun ]{0,40}") {
            let table: toml::Table = format!("x = {}", quoted(&text).unwrap()).parse().unwrap();
            prop_assert_eq!(table["x"].as_str(), Some(&*text));
        }

        #[test]
        fn control_characters_are_never_quoted(a in "\\PC{0,9}", c in "\\p{Cc}", b in "\\PC{0,9}") {
            prop_assert_eq!(quoted(&format!("{a}{c}{b}")), None);
        }
    }
}
