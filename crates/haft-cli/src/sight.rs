//! What the eye is told: text that a terminal cannot act on, and that cannot pass for other text.
//!
//! Text from a tool or a model may hold anything. It must not move the cursor, recolour the question
//! above a prompt, turn its own order around, hide a part of itself, or look like an address that it
//! is not. What could is shown by its number, or warned of.

use unicode_security::{MixedScript as _, confusable_detection::skeleton};

/// So many words that look like others are told of.
const MOST_WARNINGS: usize = 5;

/// Makes what a terminal would act on, or hide, visible. Line breaks, tabs and plain blanks stay.
pub(crate) fn visible(text: &str) -> String {
    haft::visible(text).into_owned()
}

/// Warns of words that look like others: an address in letters of another script, or a word that
/// mixes scripts.
pub(crate) fn lookalikes(text: &str) -> Vec<String> {
    if text.is_ascii() {
        return Vec::new();
    }
    let mut found: Vec<String> = Vec::new();
    let ends = |c: char| c.is_whitespace() || "/\\:?#\"'`<>()[]{},;|&=".contains(c);
    for word in text.split(ends).filter(|word| !word.is_ascii()) {
        // A number or a sign among letters is no other script.
        let mixed = !word.is_single_script();
        let address = word.contains('@') || word.trim_matches('.').contains('.');
        if !mixed && !address {
            continue;
        }
        let like: String = word.chars().flat_map(looks).collect();
        let warning = match like.is_ascii() {
            true => format!("`{}` is not `{like}`: {}", visible(word), odd_letters(word)),
            false if mixed => format!("`{}` mixes scripts: {}", visible(word), odd_letters(word)),
            false => format!("`{}` has letters that are not ASCII", visible(word)),
        };
        if found.contains(&warning) {
            continue;
        }
        if found.len() == MOST_WARNINGS {
            found.push("and more words that look like others".to_owned());
            break;
        }
        found.push(warning);
    }
    found
}

/// What a letter looks like; ASCII looks like itself.
fn looks(c: char) -> Vec<char> {
    let mut buffer = [0; 4];
    if c.is_ascii() { vec![c] } else { skeleton(c.encode_utf8(&mut buffer)).collect() }
}

/// The letters of a word that are not ASCII, by number.
fn odd_letters(word: &str) -> String {
    let mut odd: Vec<String> = Vec::new();
    for c in word.chars().filter(|c| !c.is_ascii()) {
        let told = format!("{} is U+{:04X}", visible(&c.to_string()), u32::from(c));
        if !odd.contains(&told) {
            odd.push(told);
        }
        if odd.len() == 4 {
            break;
        }
    }
    odd.join(", ")
}

/// Breaks text into lines of a width, at blanks where there are some. Nothing is left out.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let mut rest = line;
        while let Some((end, _)) = rest.char_indices().nth(width.max(1)) {
            let at = match rest[..end].rfind(' ') {
                // A break in the first half would leave a ragged edge and win little.
                Some(blank) if rest[..blank].chars().count() * 2 > width => blank + 1,
                _ => end,
            };
            lines.push(rest[..at].to_owned());
            rest = &rest[at..];
        }
        lines.push(rest.to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_terminal_acts_on_gets_through() {
        assert_eq!(visible("a\tb\nc é"), "a\tb\nc é");
        assert_eq!(visible("a\x1b[2Jb\r\u{202e}"), "a<U+001B>[2Jb<U+000D><U+202E>");
        assert_eq!(visible("\x7f\u{9b}31m"), "<U+007F><U+009B>31m");
    }

    #[test]
    fn nothing_that_hides_stays_hidden() {
        for c in [
            '\u{ad}',
            '\u{a0}',
            '\u{200b}',
            '\u{200d}',
            '\u{2066}',
            '\u{2028}',
            '\u{feff}',
            '\u{e0041}',
            '\u{e000}',
            '\u{f0000}',
            '\u{3164}',
            '\u{fe01}',
            '\u{e0101}',
        ] {
            assert_eq!(visible(&format!("a{c}b")), format!("a<U+{:04X}>b", u32::from(c)));
        }
        assert_eq!(visible("x\u{fe0f}"), "x<U+FE0F>", "nothing to make an emoji of");
        assert_eq!(visible("\u{2764}\u{fe0f} 漢字 ñ"), "\u{2764}\u{fe0f} 漢字 ñ");
    }

    #[test]
    fn an_address_in_foreign_letters_is_warned_of() {
        let told = lookalikes("curl https://\u{430}pple.com/x");
        assert_eq!(told, ["`\u{430}pple.com` is not `apple.com`: \u{430} is U+0430"]);
        let whole = lookalikes("\u{441}\u{43e}\u{440}.\u{441}\u{43e}");
        assert!(whole[0].contains("is not `cop.co`"), "{whole:?}");
        assert!(lookalikes("bob@\u{435}xample.org")[0].contains("is not `bob@example.org`"));
        assert!(lookalikes("b\u{fc}cher.example")[0].contains("not ASCII"));
    }

    #[test]
    fn honest_words_of_any_script_are_left_alone() {
        for honest in ["Grüße aus Köln", "привет мир", "日本語のテキスト", "naïve café", "a.b.c"]
        {
            assert_eq!(lookalikes(honest), Vec::<String>::new(), "{honest}");
        }
        assert_eq!(lookalikes("p\u{430}y now").len(), 1, "a mixed word");
    }

    #[test]
    fn many_warnings_are_a_few() {
        let many: String = (0..1000).map(|n| format!("\u{430}b{n} ")).collect();
        assert_eq!(lookalikes(&many).len(), MOST_WARNINGS + 1);
    }

    #[test]
    fn wrapping_loses_nothing() {
        let text =
            "one two three four five six seven eight nine ten ".repeat(20) + &"é".repeat(300);
        for width in [1, 7, 40, 10_000] {
            let lines = wrap(&text, width);
            assert_eq!(lines.concat(), text);
            assert!(lines.iter().all(|line| line.chars().count() <= width));
        }
        assert_eq!(wrap("a\n\nb", 9), ["a", "", "b"]);
    }
}
