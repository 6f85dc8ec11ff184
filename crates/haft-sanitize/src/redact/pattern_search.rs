//! Searches key patterns in a text, in time linear in the text and independent of the number of
//! patterns.
//!
//! One Aho-Corasick automaton searches the literal prefixes of all patterns. Only at a prefix is a
//! regex tried, and only over a bounded stretch.
//!
//! INVARIANT: the result depends on the text alone, not on how it was split: a prefix is examined
//! when all of its stretch is there, or the text has ended.

use std::{borrow::Cow, ops::Range, sync::LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};

use super::{
    key_patterns::RULES,
    pattern_rule::{Kind, is_word},
    redaction_mark,
    visible_text::{Bare, Reading, bare},
    work_limit::{CROWDED, Effort},
};

/// Maximum length of a merged find: patterns may overlap, and a stream waits for all of them.
pub(super) const MAX_FIND_BYTES: usize = 32 << 10;

struct Words {
    automaton: AhoCorasick,
    all: Vec<Word>,
    /// Which prefixes start with a byte, in either case.
    by_first: Vec<Vec<u16>>,
    longest: usize,
}

struct Word {
    text: &'static str,
    rules: Vec<u16>,
    reach: usize,
    /// Whether it counts in the middle of a longer word.
    is_inside: bool,
    /// Whether one of its patterns may contain a blank.
    passes_blanks: bool,
    /// Whether its match may contain any byte.
    is_block: bool,
}

static WORDS: LazyLock<Option<Words>> = LazyLock::new(Words::new);
impl Words {
    fn new() -> Option<Self> {
        let mut texts: Vec<&'static str> = RULES.iter().flat_map(|r| r.words).copied().collect();
        texts.sort_unstable();
        texts.dedup();
        let all: Vec<Word> = texts
            .into_iter()
            .map(|text| {
                // The automaton reports the longest prefix at a position, so it includes the rules
                // of the shorter ones.
                let within = |word: &&str| begins(text.as_bytes(), word.as_bytes());
                let ours = RULES.iter().enumerate().filter(|(_, r)| r.words.iter().any(&within));
                let rules: Vec<u16> = ours.filter_map(|(at, _)| u16::try_from(at).ok()).collect();
                let own = || rules.iter().filter_map(|at| RULES.get(usize::from(*at)));
                Word {
                    text,
                    reach: own().map(|rule| rule.reach).max().unwrap_or(0),
                    is_inside: own().any(|rule| rule.kind.counts_inside_words()),
                    passes_blanks: own().any(|rule| rule.kind.passes_blanks()),
                    is_block: own().any(|rule| rule.extend.is_some()),
                    rules,
                }
            })
            .collect();
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(all.iter().map(|word| word.text))
            .ok()?;
        let mut by_first = vec![Vec::new(); 256];
        for (at, word) in all.iter().enumerate() {
            let (Some(first), Ok(at)) = (word.text.bytes().next(), u16::try_from(at)) else {
                continue;
            };
            by_first[usize::from(first.to_ascii_lowercase())].push(at);
        }
        let longest = all.iter().map(|word| word.text.len()).max().unwrap_or(0);
        Some(Self { automaton, all, by_first, longest })
    }

    fn next(&self, text: &str, from: usize) -> Option<(usize, &Word)> {
        let found = self.automaton.find(Input::new(text).range(from..))?;
        Some((found.start(), self.all.get(found.pattern().as_usize())?))
    }
}

/// Returns the ids of all patterns.
pub(super) fn ids() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.id).chain([CROWDED])
}

/// Builds the automaton, so that the first text need not wait for it.
pub(super) fn prepare() {
    LazyLock::force(&WORDS);
}

/// Redacts what looks like a key; borrowed if nothing does.
pub(super) fn text(text: &str, reading: Reading) -> Cow<'_, str> {
    // No pattern is shorter.
    if text.len() < 8 {
        return Cow::Borrowed(text);
    }
    let Some(words) = &*WORDS else { return Cow::Borrowed(text) };
    let bare = bare(text, reading, true);
    let past = Past::default();
    let mut sweep = Sweep::new(words, &bare.text, &past);
    sweep.run(true);
    if sweep.finds.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    sweep.write(text, &bare, text.len(), &mut out);
    Cow::Owned(out)
}

/// State about the text that was already output.
#[derive(Clone, Default)]
pub(super) struct Past {
    /// Its last bytes, without invisible characters: word boundaries depend on them.
    before: Vec<u8>,
    effort: Effort,
}

/// Redacts the part of the text that is certain, and returns its length. What may be the start of a
/// key is left until more text arrives.
pub(super) fn sweep(
    text: &str,
    reading: Reading,
    past: &mut Past,
    last: bool,
    out: &mut String,
) -> usize {
    let Some(words) = &*WORDS else {
        out.push_str(text);
        return text.len();
    };
    let bare = bare(text, reading, last);
    let mut sweep = Sweep::new(words, &bare.text, past);
    let open = sweep.run(last);
    let settled = if last { text.len() } else { bare.settled(open, text) };
    sweep.write(text, &bare, settled, out);
    let mut tail = sweep.put_out().to_vec();
    let own = bare.text.as_bytes().get(sweep.done..open).unwrap_or_default();
    tail.extend(&own[own.len().saturating_sub(LOOK_BACK)..]);
    tail.drain(..tail.len().saturating_sub(LOOK_BACK));
    let effort = sweep.effort_at(open);
    *past = Past { before: tail, effort };
    settled
}

/// How many bytes before a word are needed to detect a word boundary.
const LOOK_BACK: usize = MAX_GLUED_BYTES + 1;

/// How many letters may precede a key in the same word. A pattern of fixed length ends in more than
/// this many, so that a redacted key after it cannot turn it into a match (idempotence). It also
/// keeps prefixes in base64 from matching by chance.
const MAX_GLUED_BYTES: usize = 8;

/// One scan of a text.
struct Sweep<'a> {
    words: &'a Words,
    text: &'a str,
    before: &'a [u8],
    /// The index of the rule and the range of each find, in order.
    finds: Vec<(usize, Range<usize>)>,
    /// Where the last find ends.
    done: usize,
    effort: Effort,
    /// The effort before each of the last prefixes, which may be examined again with more text.
    undo: Vec<(usize, Effort)>,
}

/// The rule index of a find that no rule made.
const NO_RULE: usize = usize::MAX;

impl<'a> Sweep<'a> {
    fn new(words: &'a Words, text: &'a str, past: &'a Past) -> Self {
        let (before, effort) = (past.before.as_slice(), past.effort);
        Self { words, text, before, finds: Vec::new(), done: 0, effort, undo: Vec::new() }
    }

    /// Scans as far as the result is certain, and returns how far that is.
    fn run(&mut self, last: bool) -> usize {
        let mut from = 0;
        while let Some((start, word)) = self.words.next(self.text, from) {
            if !last && !is_whole(self.text, start, word) {
                return self.until(start);
            }
            if start + self.words.longest >= self.text.len() {
                self.undo.push((start, self.effort));
            }
            let effort = self.effort;
            let Some((rule, found)) = self.at(start, word) else {
                from = start + 1;
                continue;
            };
            let grown = match rule {
                NO_RULE => self.crowded(found, last).map(|found| (rule, found)),
                _ => self.grown(start, rule, found, last),
            };
            match grown {
                None => {
                    self.effort = effort;
                    return self.until(start);
                }
                Some((rule, found)) => {
                    self.done = found.end;
                    from = found.end;
                    self.effort = Effort::from(found.end);
                    self.finds.push((rule, found));
                }
            }
        }
        if last { self.text.len() } else { self.open(self.done) }
    }

    /// Writes the original up to a position, with marks for the finds.
    fn write(&self, original: &str, bare: &Bare<'_>, to: usize, out: &mut String) {
        let mut copied = 0;
        for (rule, found) in &self.finds {
            let place = bare.place(found);
            out.push_str(&original[copied..place.start]);
            out.push_str(&redaction_mark(RULES.get(*rule).map_or(CROWDED, |r| r.id), found.len()));
            copied = place.end;
        }
        out.push_str(&original[copied..to]);
    }

    /// The last bytes that were output before the current position.
    fn put_out(&self) -> &[u8] {
        if self.finds.is_empty() {
            self.before
        } else {
            // The end of every mark.
            b":0]"
        }
    }

    /// How far the result is certain if a prefix cannot be examined yet: a longer one may start
    /// before it.
    fn until(&self, start: usize) -> usize {
        self.open(self.done).min(start)
    }

    /// Merges a find with those that start inside it, so that no part of them remains. `None` if
    /// that is not known yet.
    fn grown(
        &mut self,
        start: usize,
        mut rule: usize,
        mut found: Range<usize>,
        last: bool,
    ) -> Option<(usize, Range<usize>)> {
        let mut from = start + 1;
        while found.len() < MAX_FIND_BYTES
            && let Some((next, word)) = self.words.next(self.text, from)
            && next < found.end
        {
            if !last && !is_whole(self.text, next, word) {
                return None;
            }
            let inner = self.at(next, word);
            if let Some((NO_RULE, more)) = inner {
                return self.crowded(found.start..found.end.max(more.end), last).map(|f| (rule, f));
            }
            if let Some((other, more)) = inner
                && more.start < found.end
            {
                rule = rule.min(other);
                found = found.start.min(more.start)..found.end.max(more.end);
            }
            from = next + 1;
        }
        if !last && self.open(self.done) < found.end {
            return None;
        }
        Some((rule, found))
    }

    /// The range of a stretch that is not scanned: as far as any prefix in it could reach. `None`
    /// if that is not known yet.
    fn crowded(&self, found: Range<usize>, last: bool) -> Option<Range<usize>> {
        let bytes = self.text.as_bytes();
        let blank = |b: &u8| b.is_ascii_whitespace() || is_bracket(*b);
        let run_end = |from: usize| {
            let rest = bytes.get(from..).unwrap_or_default();
            from.min(bytes.len()) + rest.iter().position(blank).unwrap_or(rest.len())
        };
        let most = found.start + MAX_FIND_BYTES;
        let (mut from, mut end) = (found.start + 1, run_end(found.end));
        while end < most
            && let Some((next, word)) = self.words.next(self.text, from)
            && next < end
        {
            if word.passes_blanks && next + word.reach > end {
                end = run_end(next + word.reach);
            }
            from = next + 1;
        }
        let is_known = last || end >= most || end < bytes.len();
        let end = self.text.ceil_char_boundary(end.min(most));
        (is_known && (last || self.open(self.done) >= end)).then_some(found.start..end)
    }

    /// The effort up to a position, as it is when all before it is output.
    fn effort_at(&self, open: usize) -> Effort {
        let before = self.undo.iter().find(|(start, _)| *start >= open);
        let mut effort = before.map_or(self.effort, |(_, effort)| *effort);
        effort.go(self.text.as_bytes(), open);
        effort.rebased(open)
    }

    /// Tries the patterns of a prefix at a position. The longest find counts, then the first.
    fn at(&mut self, start: usize, word: &Word) -> Option<(usize, Range<usize>)> {
        let begins_word = self.begins_word(start);
        if !begins_word && !word.is_inside {
            return None;
        }
        let bytes = self.text.as_bytes();
        self.effort.go(bytes, start);
        if self.effort.is_over() {
            // FAIL CLOSED: what is not scanned is not shown.
            return Some((NO_RULE, start..start + word.text.len()));
        }
        let mut best: Option<(usize, Range<usize>)> = None;
        for at in word.rules.iter().map(|at| usize::from(*at)) {
            let Some(rule) = RULES.get(at) else { continue };
            let counts = match rule.kind {
                Kind::Inside => true,
                Kind::Anywhere => begins_word || self.is_near_word_start(start),
                Kind::Token | Kind::Line => begins_word,
            };
            if !counts {
                continue;
            }
            let end = bytes.len().min(start + rule.reach);
            let Some(found) = rule.fits(at, &bytes[start..end], &mut self.effort) else { continue };
            let found = start + found.start..self.text.ceil_char_boundary(start + found.end);
            let is_glued = !begins_word && rule.kind == Kind::Anywhere;
            if is_glued && !self.text[found.clone()].contains(|c: char| c.is_ascii_digit()) {
                continue;
            }
            if best.as_ref().is_none_or(|(_, best)| found.end > best.end) {
                best = Some((at, found));
            }
        }
        best
    }

    /// Whether there is a word boundary here. The last letter of an escape, as in `\n` or `%20`, is
    /// not part of a word.
    fn begins_word(&self, at: usize) -> bool {
        let bytes = self.text.as_bytes();
        if !bytes.get(at).copied().is_some_and(is_word) {
            return true;
        }
        let own = bytes.get(self.done..at).unwrap_or_default();
        let before = self.put_out();
        let back = |n: usize| own.iter().rev().chain(before.iter().rev()).nth(n).copied();
        match (back(2), back(1), back(0)) {
            (_, _, None) => true,
            (_, _, Some(last)) if !is_word(last) => true,
            (_, Some(b'\\'), Some(b'n' | b'r' | b't')) => true,
            (Some(b'%'), Some(one), Some(two)) => {
                one.is_ascii_hexdigit() && two.is_ascii_hexdigit()
            }
            _ => false,
        }
    }

    /// Whether few letters precede a position in its word.
    fn is_near_word_start(&self, at: usize) -> bool {
        let own = self.text.as_bytes().get(self.done..at).unwrap_or_default();
        let before = own.iter().rev().chain(self.put_out().iter().rev());
        before.take(LOOK_BACK).take_while(|b| is_word(**b)).count() <= MAX_GLUED_BYTES
    }

    /// Where an incomplete prefix may start at the end of the text.
    fn open(&self, from: usize) -> usize {
        let bytes = self.text.as_bytes();
        let from = from.max(bytes.len().saturating_sub(self.words.longest.saturating_sub(1)));
        let is_open = |at: &usize| {
            let tail = &bytes[*at..];
            let Some(first) = tail.first() else { return false };
            let words = self.words.by_first.get(usize::from(first.to_ascii_lowercase()));
            words.into_iter().flatten().any(|word| {
                self.words.all.get(usize::from(*word)).is_some_and(|word| {
                    tail.len() < word.text.len()
                        && begins(word.text.as_bytes(), tail)
                        && (word.is_inside || self.begins_word(*at))
                })
            })
        };
        (from..bytes.len()).find(is_open).unwrap_or(bytes.len())
    }
}

/// Whether all that the patterns of a prefix may match is there: to their maximum length, or to a
/// byte that none of them passes. A mark ends in such a byte, so it never delays a stream.
fn is_whole(text: &str, start: usize, word: &Word) -> bool {
    let bytes = text.as_bytes();
    // One more byte than the maximum length: regexes look at the byte after the match.
    if bytes.len() > start + word.reach {
        return true;
    }
    let ends = |b: &u8| is_bracket(*b) || (!word.passes_blanks && b.is_ascii_whitespace());
    !word.is_block && bytes[start..].iter().any(ends)
}

/// Whether a text starts with another, in either case.
fn begins(text: &[u8], with: &[u8]) -> bool {
    text.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with))
}

/// No pattern contains one.
pub(super) fn is_bracket(byte: u8) -> bool {
    matches!(byte, b'[' | b']' | b'{' | b'}')
}
