//! One key pattern: its prefixes, its regex or parser, its checks, and whether it matches.
//!
//! Pure: bytes in, a range out. A regex is compiled when its prefix is first found.

use std::{
    ops::Range,
    sync::{LazyLock, OnceLock},
};

use regex::bytes::{Regex, RegexBuilder};

use super::{
    assignment::Assigned,
    key_patterns::RULES,
    work_limit::{self, Effort},
};

/// In: a stretch, and where the regex match ends in it. Out: where the find ends; `None` if it is
/// not a key.
type Extend = fn(&[u8], usize) -> Option<usize>;
/// In: a stretch. Out: the match, and how many bytes were scanned.
type Parse = fn(&[u8]) -> (Option<Assigned>, usize);

/// One key pattern.
pub(super) struct Rule {
    pub(super) id: &'static str,
    /// Its literal prefixes, matched in either case.
    pub(super) words: &'static [&'static str],
    pub(super) shape: &'static str,
    pub(super) kind: Kind,
    /// Maximum length from the start of its prefix. A longer match is truncated here: no key is
    /// longer, and this bounds the buffer of a stream.
    pub(super) reach: usize,
    /// An additional check.
    pub(super) check: Option<fn(&Found<'_>) -> bool>,
    /// Extends the match, for what a regex cannot express.
    pub(super) extend: Option<Extend>,
    /// Parses the pattern by hand, where a regex would be too slow.
    pub(super) parse: Option<Parse>,
    /// Used by the tests only.
    #[cfg_attr(not(test), expect(dead_code, reason = "each rule shows what it is about"))]
    pub(super) yes: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "each rule shows what it is about"))]
    pub(super) no: &'static str,
}

/// Where a pattern may occur.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It starts at a word boundary and contains no blank, so that the first blank ends the
    /// stretch. No pattern of any kind contains a square or curly bracket, which ends the stretch
    /// as well.
    Token,
    /// It starts at a word boundary and may contain blanks.
    Line,
    /// Its prefix may occur inside a longer word, as in `DB_PASSWORD`, and it may contain blanks.
    Inside,
    /// Its prefix is so rare that it counts inside a longer word too: a key glued to other letters.
    /// There it needs a digit. It contains no blank.
    Anywhere,
}

impl Kind {
    pub(super) fn counts_inside_words(self) -> bool {
        matches!(self, Self::Inside | Self::Anywhere)
    }

    pub(super) fn passes_blanks(self) -> bool {
        matches!(self, Self::Line | Self::Inside)
    }
}

/// A match, for additional checks.
pub(super) struct Found<'a> {
    pub(super) value: &'a [u8],
    /// The byte after it.
    pub(super) next: Option<u8>,
    pub(super) is_quoted: bool,
}

static SHAPES: LazyLock<Vec<OnceLock<Option<Regex>>>> =
    LazyLock::new(|| RULES.iter().map(|_| OnceLock::new()).collect());

impl Rule {
    /// Where the rule matches at the start of a stretch.
    pub(super) fn fits(
        &self,
        at: usize,
        stretch: &[u8],
        effort: &mut Effort,
    ) -> Option<Range<usize>> {
        let Assigned { value: found, is_quoted } = match self.parse {
            Some(parse) => {
                let (found, looked_at) = parse(stretch);
                effort.spend(looked_at);
                found?
            }
            None => {
                effort.spend(work_limit::look(stretch));
                let shape = SHAPES.get(at)?.get_or_init(|| compile(self.shape)).as_ref()?;
                Assigned { value: found_by(shape, stretch)?, is_quoted: true }
            }
        };
        let value = Found {
            value: stretch.get(found.clone())?,
            next: stretch.get(found.end).copied(),
            is_quoted,
        };
        if self.check.is_some_and(|check| !check(&value)) {
            return None;
        }
        let end = match self.extend {
            Some(extend) => {
                effort.spend(stretch.len());
                extend(stretch, found.end)?
            }
            None => found.end,
        };
        Some(found.start..end)
    }
}

/// The range of the first group, or of the whole match without groups. Groups are much slower.
fn found_by(shape: &Regex, stretch: &[u8]) -> Option<Range<usize>> {
    if shape.captures_len() > 1 {
        let groups = shape.captures(stretch)?;
        groups.get(1).or_else(|| groups.get(0)).map(|found| found.range())
    } else {
        shape.find(stretch).map(|found| found.range())
    }
}

fn compile(shape: &str) -> Option<Regex> {
    RegexBuilder::new(&format!("^(?:{shape})")).unicode(false).build().ok()
}

/// Whether a byte belongs to a word.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
