//! Checks whether a form of a secret could occur inside of a redaction mark. Such a mark would
//! reveal the secret, and would be redacted again.
//!
//! In: forms and mark prefixes, as they are added. Out: whether the new ones conflict with any
//! known one. Both are indexed by n-gram, so the cost does not grow with their number.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use super::{encodings::Forms, pattern_search};

/// Length of the n-grams. No form is shorter than the shortest secret.
const GRAM: usize = super::known_secrets::MIN_SECRET_BYTES;

type Gram = [u8; GRAM];

/// The index of known forms and marks.
#[derive(Default)]
pub(super) struct Clashes {
    /// Forms by their first bytes.
    forms: HashMap<Gram, Vec<Arc<str>>>,
    /// The prefix of each secret's mark, by all of its n-grams.
    starts: HashMap<Gram, Vec<Arc<str>>>,
    /// All prefixes, for forms that are too short for the index.
    all: Vec<Arc<str>>,
}

impl Clashes {
    /// Whether one of these forms could occur in a mark, or a known form in the mark with this
    /// prefix.
    pub(super) fn with_new(&self, forms: &Forms, start: Option<&String>) -> bool {
        let in_known = |form: &Arc<str>| {
            let known = match gram(core(form).as_bytes()) {
                Some(gram) => self.starts.get(&gram).map(Vec::as_slice).unwrap_or_default(),
                None => &self.all,
            };
            known.iter().any(|known| in_mark(form, known)) || in_shape_mark(form)
        };
        if forms.iter().filter(|form| can_clash(form)).any(in_known) {
            return true;
        }
        let Some(start) = start else { return false };
        let grams = start.as_bytes().windows(GRAM).filter_map(gram);
        let known = grams.filter_map(|gram| self.forms.get(&gram)).flatten();
        let short = self.forms.get(&SHORT).into_iter().flatten();
        forms.iter().chain(known).chain(short).any(|form| in_mark(form, start))
    }

    pub(super) fn add_forms(&mut self, forms: &Forms) {
        for form in forms.iter().filter(|form| can_clash(form)) {
            self.forms.entry(key(form)).or_default().push(Arc::clone(form));
        }
    }

    pub(super) fn remove_forms(&mut self, forms: &Forms) {
        for form in forms.iter().filter(|form| can_clash(form)) {
            if let Some(known) = self.forms.get_mut(&key(form))
                && let Some(at) = known.iter().position(|known| known == form)
            {
                known.swap_remove(at);
                if known.is_empty() {
                    self.forms.remove(&key(form));
                }
            }
        }
    }

    pub(super) fn add_start(&mut self, start: String) {
        let start: Arc<str> = start.into();
        let mut grams: Vec<Gram> = start.as_bytes().windows(GRAM).filter_map(gram).collect();
        grams.sort_unstable();
        grams.dedup();
        for gram in grams {
            self.starts.entry(gram).or_default().push(Arc::clone(&start));
        }
        self.all.push(start);
    }
}

/// The part of a form that would have to occur in the prefix of a mark. The rest may match the
/// length and the bracket that end a mark.
fn core(form: &str) -> &str {
    form.trim_end_matches(']').trim_end_matches(|c: char| c.is_ascii_digit())
}

fn gram(bytes: &[u8]) -> Option<Gram> {
    bytes.first_chunk::<GRAM>().copied()
}

/// The index key of forms whose core is too short. No form contains these bytes.
const SHORT: Gram = [0; GRAM];

fn key(form: &str) -> Gram {
    gram(core(form).as_bytes()).unwrap_or(SHORT)
}

/// Whether a form could occur in any mark at all. Digits occur only at the end of a mark, after a
/// colon.
fn can_clash(form: &str) -> bool {
    let core = core(form);
    core.len() == form.len() || core.ends_with(':')
}

/// Whether a form could occur in a mark with this prefix.
fn in_mark(form: &str, start: &str) -> bool {
    let core = core(form);
    let whole = core.len() == form.len() && start.contains(form);
    whole || (core.len() < form.len() && !core.is_empty() && start.ends_with(core))
}

/// The prefixes of the marks of all patterns, each followed by a NUL, which no form contains.
static SHAPE_STARTS: LazyLock<String> =
    LazyLock::new(|| pattern_search::ids().map(|id| format!("[REDACTED:{id}:\0")).collect());

/// Whether a form could occur in the mark of a pattern.
fn in_shape_mark(form: &str) -> bool {
    let core = core(form);
    if core.len() == form.len() {
        SHAPE_STARTS.contains(form)
    } else {
        !core.is_empty() && SHAPE_STARTS.contains(&format!("{core}\0"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailing_number_clashes_only_after_the_colon_of_a_mark() {
        for (form, clashes) in [
            ("openai-key", true),
            ("openai-key:51", true),
            ("openai-key:51]", true),
            ("openai-key51", false),
            ("key:7", true),
            ("123456", false),
            ("REDACTED", true),
            ("[REDACTED:", true),
            ("redacted", false),
        ] {
            let can = can_clash(form) && in_shape_mark(form);
            assert_eq!(can, clashes, "{form}");
            let slow = pattern_search::ids().any(|id| in_mark(form, &format!("[REDACTED:{id}:")));
            assert_eq!(slow, clashes, "{form}");
        }
    }
}
