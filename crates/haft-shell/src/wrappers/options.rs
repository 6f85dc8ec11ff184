//! Parses the options and operands of a wrapper.

use crate::Word;

/// The options of a wrapper.
#[derive(Default, Clone, Copy)]
pub(crate) struct Options {
    /// Letters without a value.
    pub(crate) flags: &'static str,
    /// Letters with a value.
    pub(crate) valued: &'static str,
    /// Long options; those that end in `=` take a value.
    pub(crate) long: &'static [&'static str],
    /// Number of operands before the command.
    pub(crate) operands: usize,
}

/// The parsed arguments of a wrapper.
pub(crate) struct Given<'c> {
    /// Letters and long names, with their values.
    pub(crate) options: Vec<(String, Option<&'c str>)>,
    /// Index of the first word after the operands.
    pub(crate) rest: usize,
}

impl Given<'_> {
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(&&**name))
    }
}

impl Options {
    /// Parses the options of a command; `None` if one is unlisted.
    pub(crate) fn read<'c>(&self, words: &'c [Word]) -> Option<Given<'c>> {
        let mut options = Vec::new();
        let mut at = 1;
        while let Some(word) = words.get(at) {
            let word = word.literal()?;
            if word == "--" {
                at += 1;
                break;
            }
            if let Some(long) = word.strip_prefix("--") {
                let (name, attached) = match long.split_once('=') {
                    Some((name, value)) => (name, Some(value)),
                    None => (long, None),
                };
                let known = self.long.iter().find(|l| l.trim_end_matches('=') == name)?;
                at += 1;
                let value = match (known.ends_with('='), attached) {
                    (true, None) => {
                        at += 1;
                        Some(words.get(at - 1)?.literal()?)
                    }
                    (_, attached) => attached,
                };
                options.push((name.to_owned(), value));
                continue;
            }
            let Some(letters) = word.strip_prefix('-').filter(|l| !l.is_empty()) else { break };
            at += 1;
            for (n, letter) in letters.char_indices() {
                if self.flags.contains(letter) {
                    options.push((letter.to_string(), None));
                } else if self.valued.contains(letter) {
                    let attached = letters.get(n + letter.len_utf8()..).filter(|v| !v.is_empty());
                    let value = match attached {
                        Some(value) => value,
                        None => {
                            at += 1;
                            words.get(at - 1)?.literal()?
                        }
                    };
                    options.push((letter.to_string(), Some(value)));
                    break;
                } else {
                    return None;
                }
            }
        }
        let end = at + self.operands;
        let known = |range: &[Word]| range.iter().all(|w| !w.has_unknown());
        words
            .get(at..end.min(words.len()))
            .is_some_and(known)
            .then_some(Given { options, rest: end })
    }
}
