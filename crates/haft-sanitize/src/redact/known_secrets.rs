//! The known secrets, and how to find them in a text.
//!
//! In: names and values, at any time. Out: one Aho-Corasick automaton over all encoded forms of all
//! values, built lazily after a change.
//!
//! INVARIANT: a value stays secret: if it is replaced by another of the same name, the old value is
//! still redacted.

use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::{
    encodings::{self, Forms},
    mark_collisions::Clashes,
    pattern_search, redaction_mark, then,
    visible_text::{BACKSLASH, Bare, Breaks, Reading, WRITTEN, bare},
};

/// Shorter values are rejected: they occur in many texts by chance, and their encoded forms in
/// nearly all. Redacting them would spoil every result and reveal what they are.
pub(super) const MIN_SECRET_BYTES: usize = 6;
/// Longest value, in bytes; the buffer of a stream grows with it.
const MAX_SECRET_BYTES: usize = 16 << 10;
/// Maximum number of secrets; each has a few dozen forms to search.
const MAX_SECRETS: usize = 1_000;
/// How many earlier values of one name are still redacted.
const MAX_EARLIER_VALUES: usize = 4;
/// Up to this many bytes of forms, the fastest automaton is worth its memory.
const MAX_DFA_FORM_BYTES: usize = 64 << 10;

/// Named secrets that a [`Redactor`](super::Redactor) finds in text. Clones share the same set, so
/// that secrets can be added later.
///
/// ```
/// use haft_sanitize::KnownSecrets;
///
/// let secrets = KnownSecrets::new();
/// secrets.add("mail", "correct horse battery")?;
/// assert!(secrets.add("pin", "1234").is_err(), "too short: it would match by chance");
/// # Ok::<(), haft_sanitize::AddSecretError>(())
/// ```
#[derive(Clone, Default)]
pub struct KnownSecrets(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Read first: most runtimes have no secrets.
    any: AtomicBool,
    /// Version number; increased by every change.
    version: AtomicU64,
    known: RwLock<Arc<Known>>,
    /// Locked during a whole addition, so that readers never wait for one.
    clashes: Mutex<Clashes>,
}

/// All secrets at one time.
#[derive(Default, Clone)]
pub(super) struct Known {
    list: Vec<Arc<Kept>>,
    finder: OnceLock<Option<Finder>>,
    /// Finds secrets that contain blanks, in text without blanks.
    wrapped: OnceLock<Option<Finder>>,
}

#[derive(Clone)]
struct Kept {
    name: Arc<str>,
    value: Value,
    /// Earlier values, newest first.
    earlier: Vec<Value>,
}

/// A value with its forms, which are computed once.
#[derive(Clone)]
struct Value {
    text: Arc<str>,
    forms: Forms,
    /// Its forms that contain blanks, with the blanks removed.
    wrapped: Forms,
}

impl KnownSecrets {
    /// Makes an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a secret, or replaces its value. The replaced value is still redacted.
    ///
    /// # Errors
    /// Fails for a value shorter than 6 bytes, a value or name that could occur in a redaction
    /// mark, an invalid name, and beyond 1000 secrets.
    pub fn add(&self, name: &str, value: &str) -> Result<(), AddSecretError> {
        let refuse = |problem| AddSecretError::new(name, problem);
        if !is_name(name) {
            return Err(refuse(Problem::InvalidName));
        }
        let size = encodings::visible(value.trim()).len();
        if size < MIN_SECRET_BYTES {
            return Err(refuse(Problem::TooShort));
        }
        if value.len() > MAX_SECRET_BYTES {
            return Err(refuse(Problem::TooLong));
        }
        let forms = encodings::shared(value);
        let value = Value { wrapped: encodings::wrapped(&forms), forms, text: value.into() };
        let mut clashes = self.0.clashes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list = self.0.known.read().unwrap_or_else(PoisonError::into_inner).list.clone();
        let at = list.iter().position(|kept| *kept.name == *name);
        if at.is_none() && list.len() >= MAX_SECRETS {
            return Err(refuse(Problem::TooMany));
        }
        let rule = rule_of(name);
        let new_mark = at.is_none().then(|| redaction_mark(&rule, 12_345));
        let looks_like_key = new_mark.is_some_and(|own| pattern_search::text(&own, WRITTEN) != own);
        let start = mark_start(&rule);
        // The known secrets do not conflict with each other, so only the new one is compared.
        let new_start = at.is_none().then_some(&start);
        if looks_like_key || value.all().any(|forms| clashes.with_new(forms, new_start)) {
            return Err(refuse(Problem::InMark));
        }
        value.all().for_each(|forms| clashes.add_forms(forms));
        match at.and_then(|at| list.get_mut(at)) {
            Some(slot) => {
                let kept = Arc::make_mut(slot);
                let old = std::mem::replace(&mut kept.value, value);
                let is_known = |new: &Value| new.text == old.text;
                if is_known(&kept.value) || kept.earlier.iter().any(is_known) {
                    old.all().for_each(|forms| clashes.remove_forms(forms));
                } else {
                    kept.earlier.insert(0, old);
                    kept.earlier.drain(MAX_EARLIER_VALUES.min(kept.earlier.len())..).for_each(
                        |forgotten| {
                            forgotten.all().for_each(|forms| clashes.remove_forms(forms));
                        },
                    );
                }
            }
            None => {
                clashes.add_start(start);
                let name = Arc::from(name);
                list.push(Arc::new(Kept { name, value, earlier: Vec::new() }));
            }
        }
        let known = Arc::new(Known { list, ..Known::default() });
        *self.0.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        self.0.any.store(true, Ordering::Release);
        self.0.version.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.0.any.load(Ordering::Acquire)
    }

    /// Returns a number that grows with every change of the set.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the current set; `None` if there are no secrets.
    pub(super) fn known(&self) -> Option<Arc<Known>> {
        if self.is_empty() {
            return None;
        }
        Some(Arc::clone(&self.0.known.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// A secret that was not added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddSecretError {
    name: String,
    problem: Problem,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Problem {
    InvalidName,
    TooShort,
    TooLong,
    TooMany,
    InMark,
}

/// How much of an invalid name a message shows.
const MAX_SHOWN_NAME_CHARS: usize = 80;

impl AddSecretError {
    fn new(name: &str, problem: Problem) -> Self {
        let name = name.escape_debug().take(MAX_SHOWN_NAME_CHARS).collect();
        Self { name, problem }
    }

    /// Returns what to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self.problem {
            Problem::InvalidName => Some("a name is up to 64 letters, digits, `.`, `_` and `-`"),
            Problem::TooShort => Some(
                "so short a text occurs in many results by chance; redacting it everywhere would spoil them",
            ),
            Problem::InMark => {
                Some("give the secret another name; the value must not be part of a name")
            }
            Problem::TooLong | Problem::TooMany => None,
        }
    }
}

impl fmt::Display for AddSecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        let problem = match self.problem {
            Problem::InvalidName => return write!(f, "`{name}` is not a valid name for a secret"),
            Problem::TooShort => "its value is shorter than 6 bytes",
            Problem::TooLong => "its value is longer than 16384 bytes",
            Problem::TooMany => "there are 1000 secrets already",
            Problem::InMark => "it occurs in the mark that replaces a secret",
        };
        write!(f, "secret `{name}`: {problem}")
    }
}

impl std::error::Error for AddSecretError {}

impl fmt::Debug for KnownSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.known();
        let names = known.iter().flat_map(|known| known.list.iter().map(|kept| &kept.name));
        f.debug_set().entries(names).finish()
    }
}

impl Kept {
    fn values(&self) -> impl Iterator<Item = &Value> {
        std::iter::once(&self.value).chain(&self.earlier)
    }
}

impl Value {
    fn all(&self) -> impl Iterator<Item = &Forms> {
        [&self.forms, &self.wrapped].into_iter()
    }
}

/// The prefix of every mark of a rule.
fn mark_start(rule: &str) -> String {
    format!("[REDACTED:{rule}:")
}

/// The rule name of a secret in its mark.
fn rule_of(name: &str) -> String {
    format!("secret/{name}")
}

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

/// Searches every form of every secret.
#[derive(Clone)]
struct Finder {
    automaton: AhoCorasick,
    /// For each form, the rule name of its mark.
    rules: Vec<Arc<str>>,
    /// All forms, sorted, to find out which a text could be the start of.
    sorted: Vec<Arc<str>>,
    /// The bytes that forms start with.
    first: Box<[bool; 256]>,
    longest: usize,
    /// Whether a form could be a number.
    in_numbers: bool,
}

impl Known {
    /// Redacts every secret in a text; borrowed if there is none.
    pub(super) fn text<'a>(&self, text: &'a str, reading: Reading) -> Cow<'a, str> {
        let has_backslash = text.contains(BACKSLASH);
        let mut shown = Cow::Borrowed(text);
        for breaks in Breaks::PASSES {
            if let Some(finder) = self.finder_of(breaks, has_backslash) {
                shown = then(shown, |text| finder.text(text, reading.skipping(breaks)));
            }
        }
        shown
    }

    /// Returns the finder for one pass; `None` if that pass finds no more than the one before.
    fn finder_of(&self, breaks: Breaks, has_backslash: bool) -> Option<&Finder> {
        if breaks.needs_backslash() && !has_backslash {
            return None;
        }
        if breaks.are_blanks() { self.wrapped() } else { self.finder() }
    }

    /// Whether a secret could be a number.
    pub(super) fn in_numbers(&self) -> bool {
        self.finder().is_some_and(|finder| finder.in_numbers)
    }

    /// Returns whether any form of a secret occurs in binary data.
    pub(super) fn is_in(&self, text: &str) -> bool {
        self.finder().is_some_and(|finder| finder.automaton.is_match(text))
    }

    /// Redacts the part of the text that is certain, and returns its length. What may be the start
    /// of a secret is left until more text arrives.
    pub(super) fn sweep(
        &self,
        text: &str,
        reading: Reading,
        (has_backslash, last): (bool, bool),
        out: &mut String,
    ) -> usize {
        match self.finder_of(reading.breaks, has_backslash) {
            Some(finder) => finder.sweep(text, &bare(text, reading, last), last, out),
            None => {
                out.push_str(text);
                text.len()
            }
        }
    }

    /// Builds the automatons, so that the first text need not wait for them.
    pub(super) fn prepare(&self) {
        let _ = (self.finder(), self.wrapped());
    }

    /// Returns the length of the longest form.
    pub(super) fn longest(&self) -> usize {
        self.finder().map_or(0, |finder| finder.longest)
    }

    fn finder(&self) -> Option<&Finder> {
        self.finder.get_or_init(|| Finder::new(&self.list, |value| &value.forms)).as_ref()
    }

    fn wrapped(&self) -> Option<&Finder> {
        self.wrapped.get_or_init(|| Finder::new(&self.list, |value| &value.wrapped)).as_ref()
    }
}

impl Finder {
    /// Makes a finder for these forms of all values; `None` if there are none.
    fn new(list: &[Arc<Kept>], forms: impl Fn(&Value) -> &Forms) -> Option<Self> {
        let mut sorted: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        for kept in list {
            let rule: Arc<str> = rule_of(&kept.name).into();
            let forms = kept.values().flat_map(|value| forms(value).iter());
            sorted.extend(forms.map(|form| (Arc::clone(form), Arc::clone(&rule))));
        }
        if sorted.is_empty() {
            return None;
        }
        // If two secrets share a form, the first name is shown; the sort is stable.
        sorted.sort_by(|one, two| one.0.cmp(&two.0));
        sorted.dedup_by(|next, kept| next.0 == kept.0);
        let (sorted, rules): (Vec<Arc<str>>, Vec<_>) = sorted.into_iter().unzip();
        let size: usize = sorted.iter().map(|form| form.len()).sum();
        let kind =
            if size <= MAX_DFA_FORM_BYTES { None } else { Some(AhoCorasickKind::ContiguousNFA) };
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(kind)
            .build(sorted.iter().map(|form| form.as_bytes()))
            .ok()?;
        let mut first = Box::new([false; 256]);
        for byte in sorted.iter().filter_map(|form| form.bytes().next()) {
            first[usize::from(byte)] = true;
        }
        let longest = sorted.iter().map(|form| form.len()).max().unwrap_or(0);
        let digit = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
        let in_numbers = sorted.iter().any(|form| form.bytes().all(digit));
        Some(Self { automaton, rules, sorted, first, longest, in_numbers })
    }

    fn text<'a>(&self, text: &'a str, reading: Reading) -> Cow<'a, str> {
        let bare = bare(text, reading, true);
        if self.automaton.find(&*bare.text).is_none() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        self.sweep(text, &bare, true, &mut out);
        Cow::Owned(out)
    }

    fn sweep(&self, text: &str, bare: &Bare<'_>, last: bool, out: &mut String) -> usize {
        let shown = &*bare.text;
        let (mut done, mut copied) = (0, 0);
        let mut open = self.open(shown, 0, last);
        while let Some(found) = self.automaton.find(&shown[done..]) {
            let rule = self.rules.get(found.pattern().as_usize()).map_or("secret", |rule| rule);
            let found = done + found.start()..done + found.end();
            // A longer find may still start at or before this position.
            if found.start >= open {
                break;
            }
            let place = bare.place(&found);
            out.push_str(&text[copied..place.start]);
            out.push_str(&redaction_mark(rule, found.len()));
            (done, copied) = (found.end, place.end);
            if open < done {
                open = self.open(shown, done, last);
            }
        }
        let settled = if last { text.len() } else { bare.settled(open, text) };
        out.push_str(&text[copied..settled]);
        settled
    }

    /// Where an incomplete form may start at the end of the text; the text's length if there is
    /// none.
    fn open(&self, text: &str, from: usize, last: bool) -> usize {
        let bytes = text.as_bytes();
        if last {
            return bytes.len();
        }
        let from = from.max(bytes.len().saturating_sub(self.longest.saturating_sub(1)));
        let is_open = |at: &usize| {
            let tail = &bytes[*at..];
            if !tail.first().is_some_and(|byte| self.first[usize::from(*byte)]) {
                return false;
            }
            // The forms that start with the tail are adjacent, and only one equals the tail itself.
            let next = self.sorted.partition_point(|form| form.as_bytes() <= tail);
            self.sorted.get(next).is_some_and(|form| form.as_bytes().starts_with(tail))
        };
        (from..bytes.len()).find(is_open).unwrap_or(bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::visible_text::SHOWN, *};

    fn known(list: &[(&str, &str)]) -> Arc<Known> {
        let secrets = KnownSecrets::new();
        for (name, value) in list {
            secrets.add(name, value).unwrap();
        }
        secrets.known().unwrap()
    }

    #[test]
    fn every_form_is_redacted_with_the_name_of_the_secret() {
        let known = known(&[("mail", "hunter2hunter2")]);
        for text in ["hunter2hunter2", "aHVudGVyMmh1bnRlcjI=", "68756e7465723268756e74657232"] {
            let shown = known.text(text, SHOWN).into_owned();
            assert_eq!(shown, format!("[REDACTED:secret/mail:{}]", text.len()));
        }
        assert!(matches!(known.text("nothing here", SHOWN), Cow::Borrowed(_)));
    }

    #[test]
    fn the_longer_of_two_secrets_wins() {
        let known = known(&[("short", "abcdef"), ("long", "abcdefghij")]);
        let shown = known.text("xabcdefghijx abcdefgh", SHOWN);
        assert_eq!(shown, "x[REDACTED:secret/long:10]x [REDACTED:secret/short:6]gh");
    }

    #[test]
    fn replaced_value_is_still_redacted() {
        let secrets = KnownSecrets::new();
        secrets.add("key", "old-value").unwrap();
        secrets.add("key", "new-value").unwrap();
        let known = secrets.known().unwrap();
        assert_eq!(
            known.text("old-value new-value", SHOWN),
            "[REDACTED:secret/key:9] [REDACTED:secret/key:9]"
        );
    }

    #[test]
    fn invalid_secret_is_refused_and_not_shown() {
        let secrets = KnownSecrets::new();
        for (name, value) in [
            ("short", "12345"),
            ("blank", "  ab   \n"),
            ("no name", "long enough"),
            ("", "long enough"),
            ("tricky", "REDACTED"),
            ("tricky", "secret/tricky"),
            ("mybank", "mybank:77"),
        ] {
            let error = secrets.add(name, value).unwrap_err();
            assert!(!error.to_string().contains(value.trim()), "{error}");
        }
        assert!(secrets.is_empty());
        secrets.add("bank", "one value").unwrap();
        assert!(secrets.add("other", "secret/bank").is_err(), "a mark would show it");
        assert_eq!(format!("{secrets:?}"), r#"{"bank"}"#);
    }

    #[test]
    fn adding_a_secret_costs_the_same_whether_a_hundred_or_a_thousand_are_known() {
        let name = |n: usize| format!("service-{n}-token");
        let value = |n: usize| format!("correct-{n}-horse-{n}-battery");
        // The cost of the last ones among so many. Comparing all with all was 40 times slower.
        let per_item = |known: usize| {
            let secrets = KnownSecrets::new();
            let add = |range: std::ops::Range<usize>| {
                range.for_each(|n| secrets.add(&name(n), &value(n)).unwrap());
            };
            add(0..known - 50);
            #[expect(clippy::disallowed_methods, reason = "the test measures real time")]
            let clock = std::time::Instant::now();
            add(known - 50..known);
            clock.elapsed() / 50
        };
        // Another process may take the processor during one measurement, but not during all.
        let costs: Vec<_> = (0..5).map(|_| (per_item(100), per_item(MAX_SECRETS))).collect();
        assert!(
            costs.iter().any(|(few, many)| *many <= *few * 2),
            "each of the last 50 of 100 and of {MAX_SECRETS}: {costs:?}"
        );
        let secrets = KnownSecrets::new();
        (0..MAX_SECRETS).for_each(|n| secrets.add(&name(n), &value(n)).unwrap());
        assert!(secrets.add("one-more", "correct horse").is_err());
    }

    #[test]
    fn only_dropped_values_stop_clashing_with_names() {
        let secrets = KnownSecrets::new();
        secrets.add("key", "my-first-name").unwrap();
        for n in 0..MAX_EARLIER_VALUES {
            assert!(secrets.add("my-first-name", "long enough").is_err(), "{n}: it is still known");
            secrets.add("key", &format!("value-number-{n}")).unwrap();
            secrets.add("key", &format!("value-number-{n}")).unwrap();
        }
        assert!(secrets.add("my-first-name", "long enough").is_err(), "the last of four");
        secrets.add("key", "one more value").unwrap();
        secrets.add("my-first-name", "long enough").unwrap();
        assert!(secrets.add("key", "x my-first-name").is_ok(), "more than the name");
        assert!(secrets.add("key", "first-name").is_err());
    }

    #[test]
    fn only_the_start_of_a_possible_secret_is_buffered() {
        let known = known(&[("key", "SECRETVALUE")]);
        let mut out = String::new();
        let sweep = |text: &str, out: &mut String| {
            known.sweep(text, SHOWN.skipping(Breaks::All), (false, false), out)
        };
        let taken = sweep("a text and SECR", &mut out);
        assert_eq!((out.as_str(), taken), ("a text and ", 11));
        out.clear();
        assert_eq!(sweep("SECRETVALUE x", &mut out), 13);
        assert_eq!(out, "[REDACTED:secret/key:11] x");
    }
}
