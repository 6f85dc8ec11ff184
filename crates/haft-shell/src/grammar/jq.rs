//! `jq`: which of its words is the filter, and which are files.
//!
//! Options may come anywhere, and some take one or two operands, two of them a name and a file.
//! FAIL CLOSED: an option that is not listed, or an unknown word before the filter, gives `None`.

use crate::Word;

/// Options without an operand, as letters.
const LETTERS: &str = "nrjasScCMeRbhV";
/// Options without an operand, as words.
const SWITCHES: &str = "null-input raw-output raw-output0 join-output ascii-output slurp sort-keys \
    compact-output color-output monochrome-output exit-status raw-input tab stream stream-errors seq \
    unbuffered binary help version";

/// The words of a `jq` command, by their index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JqWords {
    /// The filter. `None` if there is none, or if it is in a file.
    pub filter: Option<usize>,
    /// The files that are read, and the directories of modules.
    pub files: Vec<usize>,
}

/// Returns which words of a `jq` command are its filter and its files; `None` if that is not known.
/// The first word is the name of the program.
///
/// ```
/// use haft_shell::{jq_words, parse};
///
/// let script = parse("jq --arg a b .env --rawfile c d.txt f.json").unwrap();
/// let found = jq_words(&script.commands[0].words).unwrap();
/// assert_eq!((found.filter, found.files), (Some(4), vec![7, 8]));
/// ```
#[must_use]
pub fn jq_words(words: &[Word]) -> Option<JqWords> {
    let mut found = JqWords::default();
    let (mut are_values, mut is_ended, mut is_from_file) = (false, false, false);
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let Some(text) = word.literal() else {
            // A glob after the filter names files.
            if word.may_be_option && !is_ended || found.filter.is_none() && !is_from_file {
                return None;
            }
            if !are_values {
                found.files.push(at);
            }
            at += 1;
            continue;
        };
        if is_ended || !is_option(text) {
            match found.filter {
                None if !is_from_file => found.filter = Some(at),
                _ if are_values => {}
                _ => found.files.push(at),
            }
            at += 1;
            continue;
        }
        let operands = match text {
            "--" => {
                is_ended = true;
                0
            }
            "--args" | "--jsonargs" => {
                are_values = true;
                0
            }
            "--indent" => 1,
            "-L" | "--library-path" => {
                found.files.push(at + 1);
                1
            }
            "--arg" | "--argjson" => 2,
            "--slurpfile" | "--rawfile" | "--argfile" => {
                found.files.push(at + 2);
                2
            }
            "--from-file" => {
                is_from_file = true;
                0
            }
            text => {
                is_from_file |= switch(text)?;
                0
            }
        };
        // An unknown word may expand to several.
        let given = words.get(at + 1..=at + operands)?;
        given.iter().all(|word| word.literal().is_some()).then_some(())?;
        at += 1 + operands;
    }
    if is_from_file {
        // The filter is in the first operand, or in the one after the option.
        found.files.extend(found.filter.take());
    }
    Some(found)
}

/// Returns whether a word is an option, unless options have ended.
fn is_option(text: &str) -> bool {
    let mut characters = text.strip_prefix('-').unwrap_or_default().chars();
    characters.next().is_some_and(|c| c == '-' || c.is_ascii_alphabetic())
}

/// Returns whether an option without an operand reads the filter from a file.
fn switch(text: &str) -> Option<bool> {
    if let Some(name) = text.strip_prefix("--") {
        return SWITCHES.split_whitespace().any(|own| own == name).then_some(false);
    }
    let letters = text.strip_prefix('-')?;
    let is_known = letters.chars().all(|c| c == 'f' || LETTERS.contains(c));
    is_known.then(|| letters.contains('f'))
}

/// Returns whether a filter includes modules by name, or prints the environment.
pub(crate) fn uses_modules_or_environment(word: &Word) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    // `.env` and `.a.env` are fields. After `..` or a digit the dot is not that of a field.
    let is_field = |before: &str| {
        let path = before.strip_suffix('.');
        path.is_some_and(|path| !path.ends_with(|c: char| c == '.' || c.is_ascii_digit()))
    };
    word.literal().is_none_or(|text| {
        let names = ["env", "ENV"].into_iter().flat_map(|name| text.match_indices(name));
        let mut environment = names.filter(|(at, name)| {
            let (before, after) = (text.get(..*at), text.get(at + name.len()..));
            let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
            !before.ends_with(is_part) && !after.starts_with(is_part) && !is_field(before)
        });
        ["import", "include", "modulemeta"].iter().any(|name| text.contains(name))
            || environment.next().is_some()
    })
}

#[cfg(test)]
mod tests {
    use crate::{jq_words, parse};

    /// The filter and the files of a command.
    fn shown(text: &str) -> Option<String> {
        let script = parse(text).unwrap();
        let words = &script.commands[0].words;
        let found = jq_words(words)?;
        let word = |at: &usize| words[*at].literal().unwrap_or("<unknown>").to_owned();
        let files: Vec<String> = found.files.iter().map(word).collect();
        let filter = found.filter.map_or("none".to_owned(), |at| word(&at));
        Some(format!("{filter}: {}", files.join(" ")))
    }

    #[test]
    fn filter_and_files_are_found_behind_options_with_operands() {
        for (text, wanted) in [
            ("jq .env f", ".env: f"),
            ("jq -r .env f g", ".env: f g"),
            ("jq -nr .env", ".env: "),
            ("jq --arg a b .env f", ".env: f"),
            ("jq --argjson a 1 .env f", ".env: f"),
            ("jq --arg .env .env . f", ".: f"),
            ("jq . f --arg a .env", ".: f"),
            ("jq --slurpfile a .env . f", ".: .env f"),
            ("jq --rawfile a .env . f", ".: .env f"),
            ("jq --argfile a .env . f", ".: .env f"),
            ("jq --indent 2 .env f", ".env: f"),
            ("jq --tab --sort-keys .env f", ".env: f"),
            ("jq -L .env . f", ".: .env f"),
            ("jq -f p .env", "none: p .env"),
            ("jq -nf p .env", "none: p .env"),
            ("jq --from-file p .env", "none: p .env"),
            ("jq p .env -f", "none: .env p"),
            ("jq --args .env a b", ".env: "),
            ("jq . f --args .env", ".: f"),
            ("jq --jsonargs . 1 2", ".: "),
            ("jq . -- -x", ".: -x"),
            ("jq . - f", ".: - f"),
            ("jq -1 f", "-1: f"),
            ("jq . src/*.json", ".: <unknown>"),
            ("jq", "none: "),
        ] {
            assert_eq!(shown(text).as_deref(), Some(wanted), "{text}");
        }
    }

    #[test]
    fn unlisted_option_or_unknown_word_before_the_filter_is_unclear() {
        for text in [
            "jq --other .env f",
            "jq -x .env f",
            "jq -rL d .env f",
            "jq --arg=a b .env f",
            "jq $OPTIONS .env f",
            "jq --arg a $B .env f",
            "jq src/*.json .env",
            "jq . $FILES",
            "jq --arg a",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }
}
