//! Quotes words so that a shell parses exactly these words.
//!
//! So a command given as a list is classified like the same command as text. Plain words get no
//! quotes: a quoted command name counts as disguised.

/// Reserved words in command position.
const RESERVED: [&str; 22] = [
    "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for",
    "in", "function", "select", "time", "coproc", "{", "}", "!", "[[", "]]",
];

/// Writes words as a text that a shell parses as exactly these words.
///
/// ```
/// assert_eq!(haft_shell::quoted(["grep", "-e", "it's", "a b.txt"]), r"grep -e 'it'\''s' 'a b.txt'");
/// ```
#[must_use]
pub fn quoted(words: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut text = String::new();
    for (at, word) in words.into_iter().enumerate() {
        let word = word.as_ref();
        if at > 0 {
            text.push(' ');
        }
        let is_odd = at == 0 && (word.contains('=') || RESERVED.contains(&word));
        if !is_odd && !word.is_empty() && word.bytes().all(is_plain) {
            text.push_str(word);
            continue;
        }
        text.push('\'');
        text.push_str(&word.replace('\'', r"'\''"));
        text.push('\'');
    }
    text
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_words_parse_back_to_the_same_words() {
        for words in [
            &["ls", "-la"][..],
            &["a b", "", "'", "$HOME", "`id`", "*.rs", "~", "x;y", "a|b", "#", "\\", "\"", "!"],
            &["if", "true"],
            &["A=b", "ls"],
            &["echo", "A=b", "{a,b}", "[x]", "<(ls)", ">f", "&"],
        ] {
            let script = crate::parse(&quoted(words)).unwrap();
            assert_eq!(script.commands.len(), 1, "{words:?}");
            let command = &script.commands[0];
            let read: Vec<_> = command.words.iter().map(|word| word.literal().unwrap()).collect();
            assert_eq!(read, words);
            assert!(command.assignments.is_empty() && command.redirects.is_empty(), "{words:?}");
        }
    }

    #[test]
    fn word_list_is_classified_like_the_same_text() {
        use crate::{Kind, classify};
        assert_eq!(classify(&quoted(["grep", "-e", "it's so", "a b"])).kind, Kind::ReadOnly);
        assert_eq!(classify(&quoted(["rm", "-rf", "x"])).kind, Kind::Destructive);
        assert_eq!(classify(&quoted(["cat", "$(rm x)"])).kind, Kind::ReadOnly, "only a name");
        assert_ne!(classify(&quoted(["LD_PRELOAD=x", "ls"])).kind, Kind::ReadOnly);
    }
}
