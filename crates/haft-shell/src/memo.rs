//! Keeps the last results of a function of a text.
//!
//! A policy, a tool and an explanation each ask several questions about one command; with this it
//! is parsed once per thread. Pure: a kept result is what the function returns again. Bounded: few
//! texts, none of them long.

use std::{cell::RefCell, thread::LocalKey};

/// Maximum number of kept texts.
const MAX_TEXTS: usize = 4;
/// Longer texts are not kept.
const MAX_TEXT_BYTES: usize = 8 * 1024;

/// The last results of one function, the newest first.
pub(crate) struct Memo<T>(RefCell<Vec<(Box<str>, T)>>);

impl<T> Memo<T> {
    pub(crate) const fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }
}

/// Returns the kept result for a text, or the result of `make`, which is then kept. `make` may call
/// this for other texts.
pub(crate) fn memoized<T: Clone>(
    kept: &'static LocalKey<Memo<T>>,
    text: &str,
    make: impl FnOnce() -> T,
) -> T {
    let find = |memo: &Memo<T>| {
        let mut texts = memo.0.try_borrow_mut().ok()?;
        let at = texts.iter().position(|(own, _)| **own == *text)?;
        texts.get_mut(..=at)?.rotate_right(1);
        texts.first().map(|(_, result)| result.clone())
    };
    // A thread that ends has dropped its results.
    if let Some(found) = kept.try_with(find).ok().flatten() {
        return found;
    }
    let made = make();
    if text.len() <= MAX_TEXT_BYTES {
        let keep = |memo: &Memo<T>| {
            if let Ok(mut texts) = memo.0.try_borrow_mut() {
                texts.truncate(MAX_TEXTS - 1);
                texts.insert(0, (text.into(), made.clone()));
            }
        };
        let _ = kept.try_with(keep);
    }
    made
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn last_results_are_kept_and_older_ones_are_computed_again() {
        thread_local! {
            static KEPT: Memo<usize> = const { Memo::new() };
        }
        let computed = Cell::new(0);
        let length = |text: &str| {
            memoized(&KEPT, text, || {
                computed.set(computed.get() + 1);
                text.len()
            })
        };
        for text in ["a", "bb", "a", "bb", "a"] {
            assert_eq!(length(text), text.len());
        }
        assert_eq!(computed.get(), 2);
        for text in ["ccc", "dddd", "eeeee", "a"] {
            assert_eq!(length(text), text.len());
        }
        assert_eq!(computed.get(), 5, "`a` was used last, so `bb` was dropped");
        assert_eq!((length("bb"), computed.get()), (2, 6));
        let long = "x".repeat(MAX_TEXT_BYTES + 1);
        assert_eq!((length(&long), length(&long), computed.get()), (long.len(), long.len(), 8));
    }
}
