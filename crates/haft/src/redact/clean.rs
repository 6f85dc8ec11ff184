//! Words that were looked at before and hold no secret. Rules say the same words of every call, so they
//! are looked at once.
//!
//! INVARIANT: words are known by where they stand, and are kept for as long as they are known, so no
//! other words can stand there. Whatever changes the secrets voids all of it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use haft_core::Words;

/// So many words are remembered; few rules decide most calls.
const MOST: usize = 16;
/// Longer words are looked at each time, so that what is kept stays small.
const LONGEST: usize = 1_024;

/// Words that hold no secret.
#[derive(Debug, Default)]
pub(super) struct Clean(Mutex<Looked>);

#[derive(Debug, Default)]
struct Looked {
    /// How often the secrets had changed by then.
    changes: u64,
    words: Vec<Words>,
    /// Who makes room next.
    next: usize,
}

impl Clean {
    /// Returns whether these words were looked at, since the secrets last changed.
    pub(super) fn has(&self, words: &Words, changes: u64) -> bool {
        let looked = self.lock();
        looked.changes == changes && looked.words.iter().any(|known| known.is(words))
    }

    /// Remembers words that were looked at when the secrets had changed so often.
    pub(super) fn remember(&self, words: &Words, changes: u64) {
        if words.len() > LONGEST {
            return;
        }
        let mut looked = self.lock();
        if looked.changes != changes {
            *looked = Looked { changes, ..Looked::default() };
        }
        let at = looked.next % MOST;
        match looked.words.get_mut(at) {
            Some(old) => *old = words.clone(),
            None => looked.words.push(words.clone()),
        }
        looked.next = at + 1;
    }

    fn lock(&self) -> MutexGuard<'_, Looked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_known_by_where_they_stand_until_the_secrets_change() {
        let clean = Clean::default();
        let words = Words::from("said often".to_owned());
        clean.remember(&words, 1);
        assert!(clean.has(&words, 1) && clean.has(&words.clone(), 1));
        assert!(!clean.has(&Words::from("said often".to_owned()), 1), "equal, and elsewhere");
        assert!(!clean.has(&words, 2));
        clean.remember(&Words::from("other"), 2);
        assert!(!clean.has(&words, 2) && !clean.has(&words, 1), "all of it is void");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let clean = Clean::default();
        let all: Vec<Words> = (0..3 * MOST).map(|n| Words::from(n.to_string())).collect();
        all.iter().for_each(|words| clean.remember(words, 0));
        assert_eq!(all.iter().filter(|words| clean.has(words, 0)).count(), MOST);
        assert!(all.iter().rev().take(MOST).all(|words| clean.has(words, 0)), "the last stay");
        let long = Words::from("x".repeat(LONGEST + 1));
        clean.remember(&long, 0);
        assert!(!clean.has(&long, 0));
    }
}
