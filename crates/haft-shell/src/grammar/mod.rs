//! Option parser with an allow-list: the grammar of each command, and nothing outside of it.
//!
//! A grammar is data. Short options use `getopt` syntax: `n` alone, `n:` with a value, `n::` with
//! an optional attached value. Long options are separated by spaces: `all`, `lines=` with a value,
//! `color?` with an optional value after `=`. Prefixes of long options are refused, although
//! programs accept them: `--outp` must not pass where `--output` would not.
//!
//! INVARIANT: a word that may be an option and is not in the grammar is refused.

pub(crate) mod tables;
mod special;
mod sed;
mod awk;
mod jq;

pub use self::jq::{JqWords, jq_words};
pub(crate) use self::{
    jq::uses_modules_or_environment, sed::only_changes_text, special::is_script_variable,
};
use crate::{SimpleCommand, Word, WordPiece};

/// Result of a check: read-only, or why not.
pub(crate) type Checked = Result<(), String>;

/// The grammar of one command, or of several similar ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grammar {
    /// Names, separated by spaces.
    pub(crate) names: &'static str,
    /// Short options, in `getopt` syntax.
    pub(crate) short: &'static str,
    /// Long options.
    pub(crate) long: &'static str,
    /// Additional rule.
    pub(crate) rule: Rule,
}

/// Rule for the operands.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    /// No option of this program writes, listed or not. So an unknown word that turns out to be an
    /// option is harmless.
    Lenient,
    /// Some unlisted option writes. Unknown words are refused where they could be options.
    Strict,
    /// At most this many operands, all known, after the options: a further one would be a file to
    /// write or a value to set.
    MaxOperands(usize),
    /// Like `Strict`, plus this check.
    Check(fn(&Given<'_>) -> Checked),
    /// A custom check of all words; options are not parsed.
    Custom(fn(&[Word]) -> Checked),
}

/// A command without an option that writes.
pub(crate) const fn lenient(
    names: &'static str,
    short: &'static str,
    long: &'static str,
) -> Grammar {
    Grammar { names, short, long, rule: Rule::Lenient }
}

/// A command with some options that write.
pub(crate) const fn strict(
    names: &'static str,
    short: &'static str,
    long: &'static str,
) -> Grammar {
    Grammar { names, short, long, rule: Rule::Strict }
}

/// A command that is read-only up to this many operands.
pub(crate) const fn limited_operands(
    names: &'static str,
    max: usize,
    short: &'static str,
    long: &'static str,
) -> Grammar {
    Grammar { names, short, long, rule: Rule::MaxOperands(max) }
}

/// A command with an additional check after option parsing.
pub(crate) const fn check(
    names: &'static str,
    short: &'static str,
    long: &'static str,
    check: fn(&Given<'_>) -> Checked,
) -> Grammar {
    Grammar { names, short, long, rule: Rule::Check(check) }
}

/// A command with its own syntax.
pub(crate) const fn custom(names: &'static str, check: fn(&[Word]) -> Checked) -> Grammar {
    Grammar { names, short: "", long: "", rule: Rule::Custom(check) }
}

/// The parsed arguments of a command.
#[derive(Debug, Default)]
pub(crate) struct Given<'c> {
    /// The name of the command, without directories.
    pub(crate) name: &'c str,
    /// Option names, with their values if known.
    pub(crate) options: Vec<(&'c str, Option<&'c str>)>,
    /// All other words.
    pub(crate) operands: Vec<&'c Word>,
    /// Whether an option follows an operand: not every program parses it as an option.
    late: bool,
    /// Whether an unknown word is where options are allowed.
    has_unknown_option: bool,
    /// Whether a value is unknown.
    unknown_values: bool,
}

impl<'c> Given<'c> {
    /// Returns whether one of these options is given.
    pub(crate) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(name))
    }

    /// Returns whether an option follows an operand.
    pub(crate) fn is_late(&self) -> bool {
        self.late
    }

    /// Returns the values of these options.
    pub(crate) fn values<'g>(&'g self, names: &'g [&str]) -> impl Iterator<Item = &'c str> + 'g {
        self.options.iter().filter(|(name, _)| names.contains(name)).filter_map(|(_, value)| *value)
    }

    /// Returns whether an option has a value that is known only at run time.
    pub(crate) fn has_unknown_values(&self) -> bool {
        self.unknown_values
    }

    /// Returns the operands, which must all be known.
    pub(crate) fn known(&self) -> Result<Vec<&'c str>, String> {
        let known: Option<Vec<_>> = self.operands.iter().map(|word| word.literal()).collect();
        known.ok_or_else(|| "its arguments are known only at run time".to_owned())
    }
}

impl Grammar {
    /// Returns whether this is the grammar of a command of this name.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.names.split(' ').any(|own| own == name)
    }

    /// Returns whether this is a custom check, for which [`given`](Self::given) returns nothing
    /// useful.
    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.rule, Rule::Custom(_))
    }

    /// Checks the words of a command, its name first.
    pub(crate) fn check(&self, words: &[Word]) -> Checked {
        if let Rule::Custom(check) = self.rule {
            return check(words);
        }
        let given = self.given(words)?;
        if given.has_unknown_option && !matches!(self.rule, Rule::Lenient) {
            return Err("its options are known only at run time".to_owned());
        }
        match self.rule {
            Rule::Lenient | Rule::Strict | Rule::Custom(_) => Ok(()),
            Rule::MaxOperands(max) => {
                let operands = given.known()?.len();
                if operands > max {
                    return Err(format!("with more than {max} operands it would write"));
                }
                if given.late { Err("an option follows an operand".to_owned()) } else { Ok(()) }
            }
            Rule::Check(check) => check(&given),
        }
    }

    /// Parses the options.
    pub(crate) fn given<'c>(&self, words: &'c [Word]) -> Result<Given<'c>, String> {
        let name = words.first().and_then(Word::literal).unwrap_or_default();
        let name = name.rsplit('/').next().unwrap_or_default();
        let mut given = Given { name, ..Given::default() };
        let mut rest = words.iter().skip(1);
        while let Some(word) = rest.next() {
            let Some(text) = word.literal() else {
                given.has_unknown_option |= word.may_be_option;
                given.operands.push(word);
                self.check_beginning(word)?;
                continue;
            };
            if text == "--" {
                given.operands.extend(rest.by_ref());
                break;
            }
            if !text.starts_with('-') || text == "-" {
                given.operands.push(word);
                continue;
            }
            given.late |= !given.operands.is_empty();
            if let Some(long) = text.strip_prefix("--") {
                self.read_long(long, &mut given, &mut rest)?;
            } else {
                self.read_short(text, &mut given, &mut rest)?;
            }
        }
        Ok(given)
    }

    /// Checks an option with a known prefix: `-n$N`.
    fn check_beginning(&self, word: &Word) -> Checked {
        let Some(WordPiece::Text(text)) = word.pieces.first() else { return Ok(()) };
        let Some(letters) = text.strip_prefix('-').filter(|t| !t.is_empty()) else { return Ok(()) };
        match letters.strip_prefix('-') {
            Some(long) => match long.split_once('=') {
                Some((name, _)) if self.long(name).is_some_and(|takes| takes != Takes::Nothing) => {
                    Ok(())
                }
                _ => Err(not_listed(text)),
            },
            None => {
                for letter in letters.chars() {
                    match self.short(letter) {
                        None => return Err(not_listed(text)),
                        Some(Takes::Nothing) => {}
                        Some(_) => return Ok(()),
                    }
                }
                Ok(())
            }
        }
    }

    fn read_long<'c>(
        &self,
        long: &'c str,
        given: &mut Given<'c>,
        rest: &mut impl Iterator<Item = &'c Word>,
    ) -> Checked {
        let (name, attached) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        let value = match (self.long(name), attached) {
            (None, _) | (Some(Takes::Nothing), Some(_)) => {
                return Err(not_listed(&format!("--{name}")));
            }
            (Some(Takes::Value), None) => next_value(given, rest)?,
            (Some(_), attached) => attached,
        };
        given.options.push((name, value));
        Ok(())
    }

    fn read_short<'c>(
        &self,
        text: &'c str,
        given: &mut Given<'c>,
        rest: &mut impl Iterator<Item = &'c Word>,
    ) -> Checked {
        for (at, letter) in text.char_indices().skip(1) {
            let end = at + letter.len_utf8();
            let name = text.get(at..end).unwrap_or_default();
            let attached = text.get(end..).filter(|value| !value.is_empty());
            match self.short(letter) {
                None => return Err(not_listed(&format!("-{letter}"))),
                Some(Takes::Nothing) => given.options.push((name, None)),
                Some(Takes::Maybe) => {
                    given.options.push((name, attached));
                    return Ok(());
                }
                Some(Takes::Value) => {
                    let value = match attached {
                        Some(value) => Some(value),
                        None => next_value(given, rest)?,
                    };
                    given.options.push((name, value));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn short(&self, letter: char) -> Option<Takes> {
        if !letter.is_ascii_graphic() || letter == ':' || letter == '-' {
            return None;
        }
        let (_, after) = self.short.split_once(letter)?;
        Some(match after {
            after if after.starts_with("::") => Takes::Maybe,
            after if after.starts_with(':') => Takes::Value,
            _ => Takes::Nothing,
        })
    }

    fn long(&self, name: &str) -> Option<Takes> {
        self.long.split_whitespace().find_map(|entry| {
            let own = entry.trim_end_matches(['=', '?']);
            (own == name).then_some(match entry {
                entry if entry.ends_with('=') => Takes::Value,
                entry if entry.ends_with('?') => Takes::Maybe,
                _ => Takes::Nothing,
            })
        })
    }
}

/// Whether an option takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
    Maybe,
}

/// Takes the next word as value. An unknown word may expand to several.
fn next_value<'c>(
    given: &mut Given<'c>,
    rest: &mut impl Iterator<Item = &'c Word>,
) -> Result<Option<&'c str>, String> {
    let word = rest.next().ok_or("a value is missing")?;
    given.has_unknown_option |= word.has_unknown();
    given.unknown_values |= word.has_unknown();
    Ok(word.literal())
}

fn not_listed(option: &str) -> String {
    format!("its option `{option}` is not in the read-only list")
}

/// Returns whether the grammar of a command proves it read-only.
pub(crate) fn only_prints(command: &SimpleCommand) -> bool {
    let name = command.words.first().and_then(Word::literal);
    let grammar = name.and_then(tables::of);
    grammar.is_some_and(|grammar| grammar.check(&command.words).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(grammar: Grammar, text: &str) -> bool {
        grammar.check(&crate::parse(text).unwrap().commands[0].words).is_ok()
    }

    #[test]
    fn options_are_read_as_getopt_reads_them() {
        let sort = strict("sort", "nru:k:t::", "reverse key= color?");
        for text in [
            "sort -nr a -",
            "sort -k2 a",
            "sort -nk 2 a",
            "sort -t: a",
            "sort -t a",
            "sort --key 2",
            "sort --key=2",
            "sort --color",
            "sort --color=always a",
            "sort -- -o",
            "sort -- $x",
        ] {
            assert!(checked(sort, text), "{text}");
        }
        for text in [
            "sort -o a",
            "sort -no a",
            "sort -oa",
            "sort --out a",
            "sort --rev",
            "sort --reverse=x",
            "sort a -o b",
            "sort -k",
            "sort $x",
            "sort -k $x",
            "sort -k$x",
            "sort -é",
            "sort -:",
            "sort --=x",
            "sort -n-",
            "sort ---",
        ] {
            assert!(!checked(sort, text), "{text}");
        }
    }

    #[test]
    fn lenient_command_accepts_unknown_words_and_no_unlisted_option() {
        let cat = lenient("cat", "nl:", "number lines=");
        for text in ["cat $x", "cat -n $x", "cat -l$x", "cat -l $x", "cat --lines=$x", "cat *"] {
            assert!(checked(cat, text), "{text}");
        }
        for text in ["cat -z", "cat -z$x", "cat --numb", "cat --numb$x", "cat --number=$x"] {
            assert!(!checked(cat, text), "{text}");
        }
    }

    #[test]
    fn limited_operands_must_be_known_and_last() {
        let uniq = limited_operands("uniq", 1, "cf:", "");
        for text in ["uniq", "uniq -c a", "uniq -f 1 a", "uniq -- -c"] {
            assert!(checked(uniq, text), "{text}");
        }
        for text in ["uniq a b", "uniq a -c", "uniq $x", "uniq -- $x", "uniq -- a b"] {
            assert!(!checked(uniq, text), "{text}");
        }
    }
}
