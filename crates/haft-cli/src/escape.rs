//! Sanitizes untrusted text for the terminal: escape sequences, bidi overrides, invisible
//! characters, homoglyphs.
//!
//! Text from a tool or a model must not move the cursor, change colours, reverse its order (bidi),
//! hide a part, or imitate another address. Such characters are printed as `<U+XXXX>`, or a warning
//! is added.
//! INVARIANT: folded text never starts at the left edge, so it cannot forge a line of a prompt.

use unicode_security::{MixedScript as _, confusable_detection::skeleton};

/// The limit on homoglyph warnings.
const MAX_WARNINGS: usize = 5;

/// Escapes control and invisible characters. Line breaks, tabs and plain blanks stay.
pub(crate) fn visible(text: &str) -> String {
    haft::sanitize::escape_invisible(text).into_owned()
}

/// Warns of homoglyphs: an address in letters of another script, or a word that mixes scripts.
pub(crate) fn lookalikes(text: &str) -> Vec<String> {
    if text.is_ascii() {
        return Vec::new();
    }
    let mut found: Vec<String> = Vec::new();
    let ends = |c: char| c.is_whitespace() || "/\\:?#\"'`<>()[]{},;|&=".contains(c);
    for word in text.split(ends).filter(|word| !word.is_ascii()) {
        // Digits and signs belong to every script.
        let mixed = !word.is_single_script();
        let address = word.contains('@') || word.trim_matches('.').contains('.');
        if !mixed && !address {
            continue;
        }
        let like: String = word.chars().flat_map(skeleton_of).collect();
        let warning = if like.is_ascii() {
            format!("`{}` is not `{like}`: {}", visible(word), odd_letters(word))
        } else if mixed {
            format!("`{}` mixes scripts: {}", visible(word), odd_letters(word))
        } else {
            format!("`{}` has letters that are not ASCII", visible(word))
        };
        if found.contains(&warning) {
            continue;
        }
        if found.len() == MAX_WARNINGS {
            found.push("and more such words".to_owned());
            break;
        }
        found.push(warning);
    }
    found
}

/// The skeleton of a letter (UTS 39); ASCII is unchanged.
fn skeleton_of(c: char) -> Vec<char> {
    let mut buffer = [0; 4];
    if c.is_ascii() { vec![c] } else { skeleton(c.encode_utf8(&mut buffer)).collect() }
}

/// The non-ASCII letters of a word with their code points.
fn odd_letters(word: &str) -> String {
    let mut odd: Vec<String> = Vec::new();
    for c in word.chars().filter(|c| !c.is_ascii()) {
        let text = format!("{} is U+{:04X}", visible(&c.to_string()), u32::from(c));
        if !odd.contains(&text) {
            odd.push(text);
        }
        if odd.len() == 4 {
            break;
        }
    }
    odd.join(", ")
}

/// How many columns a terminal may use for a character, at most. A character that is counted too
/// wide folds a line too early; one that is counted too narrow lets the terminal fold it.
pub(crate) fn column_width(c: char) -> usize {
    match c {
        // Wide ones, emoji, and those that only some terminals show wide.
        '\u{1100}'.. => 2,
        _ => 1,
    }
}

/// How many columns a text takes on a screen, at most.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(column_width).sum()
}

/// Whether a character is drawn into the cell of the one before it.
fn is_joined(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5bd}'
        | '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{65f}' | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}' | '\u{200d}' | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}' | '\u{1f3fb}'..='\u{1f3ff}')
}

/// Where a line that is wider than this must be broken; `None` if it fits. At least one character
/// comes before the break, and combining marks stay with their letter.
fn break_at(line: &str, width: usize) -> Option<usize> {
    let mut used = 0;
    let too_far = |(_, c): &(usize, char)| {
        used += column_width(*c);
        used > width
    };
    let (end, first) = line.char_indices().find(too_far)?;
    let letter = if is_joined(first) { line[..end].rfind(|c| !is_joined(c)) } else { Some(end) };
    let one = line.chars().next().map_or(0, char::len_utf8);
    Some(letter.filter(|at| *at > 0).unwrap_or(end).max(one)).filter(|at| *at < line.len())
}

/// The prefix of each continuation line: text of a call never starts at the left edge, where it
/// could forge a line of the prompt.
const FOLDED: &str = "  │ ";

/// Folds each line to the width of the terminal, so that the terminal does not wrap it. Colour
/// codes take no columns; a tab becomes blanks.
pub(crate) fn fold(page: &str, width: usize) -> String {
    let mark = if width >= 12 { FOLDED } else { "│" };
    let mut out = String::with_capacity(page.len());
    let mut used = 0;
    let mut is_word_start = true;
    let mut chars = page.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => {
                out.push(c);
                for c in chars.by_ref() {
                    out.push(c);
                    if c.is_ascii_alphabetic() {
                        break;
                    }
                }
                continue;
            }
            '\n' => {
                out.push(c);
                used = 0;
                is_word_start = true;
                continue;
            }
            _ => {}
        }
        // A word that fits the next line is not broken.
        if is_word_start && !matches!(c, ' ' | '\t') && used > columns(mark) {
            let word = column_width(c) + word_columns(chars.clone());
            if used + word > width && columns(mark) + word <= width {
                out.push('\n');
                out.push_str(mark);
                used = columns(mark);
            }
        }
        is_word_start = matches!(c, ' ' | '\t');
        let (shown, times) = if c == '\t' { (' ', 4) } else { (c, 1) };
        for _ in 0..times {
            let wide = column_width(shown);
            // A letter goes down with the marks that belong to it.
            let marks = chars.clone().take_while(|c| is_joined(*c)).take(8);
            let whole = wide + marks.map(column_width).sum::<usize>();
            let needs = if whole + columns(mark) <= width { whole } else { wide };
            if used > columns(mark) && used + needs > width || used + wide > width {
                out.push('\n');
                out.push_str(mark);
                used = columns(mark);
            }
            out.push(shown);
            used += wide;
        }
    }
    out
}

/// The columns up to the next blank or the end of the line. Colour codes take none.
fn word_columns(mut chars: impl Iterator<Item = char>) -> usize {
    let mut used = 0;
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' => break,
            '\u{1b}' => drop(chars.find(char::is_ascii_alphabetic)),
            _ => used += column_width(c),
        }
    }
    used
}

/// Wraps text at a width, at blanks where possible. No character is lost.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let mut rest = line;
        while let Some(end) = break_at(rest, width) {
            let at = match rest[..end].rfind(' ') {
                // A word that is wider than a line is broken, and starts on the present line if
                // more than half of that is free.
                Some(blank)
                    if columns(&rest[..blank]) * 2 > width
                        || word_columns(rest[blank + 1..].chars()) <= width =>
                {
                    blank + 1
                }
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
    fn control_characters_are_escaped() {
        assert_eq!(visible("a\tb\nc é"), "a\tb\nc é");
        assert_eq!(visible("a\x1b[2Jb\r\u{202e}"), "a<U+001B>[2Jb<U+000D><U+202E>");
        assert_eq!(visible("\x7f\u{9b}31m"), "<U+007F><U+009B>31m");
    }

    #[test]
    fn invisible_characters_are_escaped() {
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
    fn address_with_homoglyphs_is_warned_of() {
        let text = lookalikes("curl https://\u{430}pple.com/x");
        assert_eq!(text, ["`\u{430}pple.com` is not `apple.com`: \u{430} is U+0430"]);
        let whole = lookalikes("\u{441}\u{43e}\u{440}.\u{441}\u{43e}");
        assert!(whole[0].contains("is not `cop.co`"), "{whole:?}");
        assert!(lookalikes("bob@\u{435}xample.org")[0].contains("is not `bob@example.org`"));
        assert!(lookalikes("b\u{fc}cher.example")[0].contains("not ASCII"));
    }

    #[test]
    fn words_of_one_script_cause_no_warning() {
        for honest in ["Grüße aus Köln", "привет мир", "日本語のテキスト", "naïve café", "a.b.c"]
        {
            assert_eq!(lookalikes(honest), Vec::<String>::new(), "{honest}");
        }
        assert_eq!(lookalikes("p\u{430}y now").len(), 1, "a mixed word");
    }

    #[test]
    fn number_of_warnings_is_bounded() {
        let many: String = (0..1000).map(|n| format!("\u{430}b{n} ")).collect();
        assert_eq!(lookalikes(&many).len(), MAX_WARNINGS + 1);
    }

    #[test]
    fn folded_page_fits_the_terminal_and_never_starts_at_the_left_edge() {
        let forged = "x".repeat(37) + "  [y] once   [n] no  > y";
        let page = format!(
            "  name: {forged}\n  {}\n  {}\n  a\tb\t{forged}\n\u{1b}[1m  {forged}\u{1b}[0m\n",
            "漢字".repeat(60),
            "e\u{301}\u{302}".repeat(120),
        );
        for width in [7, 11, 12, 19, 20, 40, 79, 100] {
            let folded = fold(&page, width);
            let plain = anstream::adapter::strip_str(&folded).to_string();
            for line in plain.lines() {
                assert!(columns(line) <= width, "{width}: {line}");
                assert!(line.starts_with([' ', '│']), "{width}: {line}");
                assert!(!line.trim_start_matches([' ', '│']).starts_with(is_joined), "{line}");
            }
            let joined: String = plain.chars().filter(|c| !" │\n\t".contains(*c)).collect();
            let whole = anstream::adapter::strip_str(&page).to_string();
            let whole: String = whole.chars().filter(|c| !" │\n\t".contains(*c)).collect();
            assert_eq!(joined, whole, "{width}: nothing is left out");
        }
    }

    #[test]
    fn word_that_fits_a_line_is_not_broken() {
        assert_eq!(wrap("a approval-question x", 17), ["a ", "approval-question", " x"]);
        assert_eq!(wrap("ab abcdefghijkl", 6), ["ab abc", "defghi", "jkl"], "wider than a line");
        let folded = fold("  asked because  the \u{1b}[33mclassification is unknown\u{1b}[0m", 20);
        let plain = anstream::adapter::strip_str(&folded).to_string();
        let lines: Vec<&str> = plain.lines().map(str::trim_end).collect();
        assert_eq!(lines, ["  asked because  the", "  │  classification", "  │  is unknown"]);
    }

    #[test]
    fn wide_characters_count_as_two_columns() {
        assert_eq!((columns("aé"), columns("漢字"), columns("👍")), (2, 4, 2));
        assert_eq!(wrap("漢字漢字", 5), ["漢字", "漢字"]);
        assert_eq!(wrap("漢字", 1), ["漢", "字"], "at least one");
        assert_eq!(wrap("abe\u{301}", 3), ["ab", "e\u{301}"], "a mark stays with its letter");
    }

    #[test]
    fn wrapping_loses_no_character() {
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
