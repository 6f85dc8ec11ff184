//! What a body tells while it runs, at a pace that observers can follow.
//!
//! The first note is told at once; what follows within the host's pace is held back for a moment. Of
//! several reports of progress only the last is worth telling. Pieces of output are all worth it, so
//! they are put together: order and content stay whole, there are only fewer of them. A lot of text
//! is told without waiting, so that little is held.

use std::{
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

/// What a body tells while it runs.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// How far it is, from 0 to 1 where known, and what it is doing.
    Progress(Option<f32>, String),
    /// A piece of output, before the end.
    Partial(String),
    /// A piece of output under a key, before the end: the key, the text.
    Keyed(String, String),
}

impl Progress {
    /// What it costs to hold.
    fn weight(&self) -> usize {
        const EACH: usize = 64;
        EACH + match self {
            Self::Progress(_, text) | Self::Partial(text) => text.len(),
            Self::Keyed(key, text) => key.len() + text.len(),
        }
    }
}

/// How much partial output is kept for the answer of an interrupted call.
const KEPT: usize = 50_000;
/// So much held text is told without waiting for its time.
const HELD: usize = 16 << 10;
/// So much held text is not left to whoever is telling just now.
const MOST: usize = 1 << 20;

/// What one call has told.
#[derive(Default)]
pub(crate) struct Notes {
    state: Mutex<State>,
    /// Taken while notes are told, so that they are told in order.
    order: Mutex<()>,
    held: Notify,
}

#[derive(Default)]
struct State {
    /// The output so far, bounded, for the answer of an interrupted call.
    kept: String,
    /// How many bytes there were of it, kept or not.
    size: u64,
    key: Option<String>,
    told: Option<Instant>,
    pieces: Vec<Progress>,
    progress: Option<Progress>,
    weight: usize,
}

impl Notes {
    /// Keeps a piece of output for the answer of an interrupted call.
    pub(crate) fn keep(&self, key: Option<&str>, text: &str) {
        let mut state = self.lock();
        if let Some(key) = key
            && state.key.as_deref() != Some(key)
        {
            let start = if state.kept.is_empty() || state.kept.ends_with('\n') { "" } else { "\n" };
            let start = format!("{start}{key}: ");
            state.keep(&start);
            state.key = Some(key.to_owned());
        }
        state.keep(text);
    }

    /// Returns the output that was kept.
    pub(crate) fn kept(&self) -> String {
        self.lock().kept.clone()
    }

    /// Returns how many bytes of output there were, kept or not.
    pub(crate) fn size(&self) -> u64 {
        self.lock().size
    }

    /// Returns whether output was left out because there was too much.
    pub(crate) fn is_full(&self) -> bool {
        let state = self.lock();
        state.size > state.kept.len() as u64
    }

    /// Forgets the output that was kept: another attempt begins.
    pub(crate) fn forget(&self) {
        let mut state = self.lock();
        state.kept.clear();
        state.size = 0;
        state.key = None;
    }

    /// Takes in a note, and tells whatever is due.
    pub(crate) fn add(
        &self,
        note: Progress,
        now: Instant,
        every: Duration,
        tell: impl Fn(Progress),
    ) {
        let weight = {
            let mut state = self.lock();
            state.hold(note);
            let is_due = state.told.is_none_or(|told| now.saturating_duration_since(told) >= every);
            if !is_due && state.weight < HELD {
                drop(state);
                self.held.notify_waiters();
                return;
            }
            state.weight
        };
        let order = match self.order.try_lock() {
            Ok(order) => order,
            Err(TryLockError::Poisoned(order)) => order.into_inner(),
            Err(TryLockError::WouldBlock) if weight < MOST => {
                // Somebody is telling just now; this comes after it, in a moment.
                self.held.notify_waiters();
                return;
            }
            Err(TryLockError::WouldBlock) => self.turn(),
        };
        self.tell_in_turn(order, now, tell);
    }

    /// Tells everything that is held back.
    pub(crate) fn tell(&self, now: Instant, tell: impl Fn(Progress)) {
        if self.lock().is_empty() {
            return;
        }
        self.tell_in_turn(self.turn(), now, tell);
    }

    /// Waits until something is held back, and returns when it is due.
    pub(crate) async fn due(&self, every: Duration) -> Option<Instant> {
        loop {
            let held = self.held.notified();
            {
                let state = self.lock();
                if !state.is_empty() {
                    return state.told.and_then(|told| told.checked_add(every));
                }
            }
            held.await;
        }
    }

    fn tell_in_turn(&self, order: MutexGuard<'_, ()>, now: Instant, tell: impl Fn(Progress)) {
        let (pieces, progress) = {
            let mut state = self.lock();
            state.told = Some(now);
            state.weight = 0;
            (std::mem::take(&mut state.pieces), state.progress.take())
        };
        pieces.into_iter().chain(progress).for_each(tell);
        drop(order);
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.progress.is_none()
    }

    /// Keeps text as long as there is room. What comes after a cut is only counted: what is kept is
    /// the beginning, and nothing but.
    fn keep(&mut self, text: &str) {
        let is_whole = self.size == self.kept.len() as u64;
        self.size = self.size.saturating_add(text.len() as u64);
        if is_whole {
            let room = KEPT.saturating_sub(self.kept.len());
            self.kept.push_str(&text[..text.floor_char_boundary(room)]);
        }
    }

    fn hold(&mut self, note: Progress) {
        self.weight = self.weight.saturating_add(note.weight());
        match (note, self.pieces.last_mut()) {
            (note @ Progress::Progress(..), _) => {
                self.weight -= self.progress.replace(note).map_or(0, |old| old.weight());
            }
            (Progress::Partial(more), Some(Progress::Partial(text))) => text.push_str(&more),
            (Progress::Keyed(key, more), Some(Progress::Keyed(last, text))) if *last == key => {
                text.push_str(&more);
            }
            (note, _) => self.pieces.push(note),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const EVERY: Duration = Duration::from_millis(100);

    #[expect(clippy::disallowed_methods, reason = "a moment can only be had from the machine")]
    fn start() -> Instant {
        Instant::now()
    }

    fn partial(text: &str) -> Progress {
        Progress::Partial(text.to_owned())
    }

    #[test]
    fn pieces_within_a_moment_are_put_together_and_none_is_lost() {
        let (notes, told, start) = (Notes::default(), RefCell::new(Vec::new()), start());
        let tell = |note| told.borrow_mut().push(note);
        for (n, text) in ["a", "b", "c", "d"].into_iter().enumerate() {
            let now = start + Duration::from_millis(40) * u32::try_from(n).unwrap();
            notes.add(partial(text), now, EVERY, tell);
            notes.add(Progress::Progress(None, text.to_owned()), now, EVERY, tell);
        }
        assert_eq!(
            *told.borrow(),
            [partial("a"), partial("bcd"), Progress::Progress(None, "c".to_owned())],
            "what is due takes along what was held back"
        );
        notes.tell(start, tell);
        assert_eq!(told.borrow().last(), Some(&Progress::Progress(None, "d".to_owned())));
        notes.tell(start, tell);
        assert_eq!(told.borrow().len(), 4, "nothing is told twice");
    }

    #[test]
    fn much_text_does_not_wait() {
        let (notes, told, now) = (Notes::default(), RefCell::new(Vec::new()), start());
        let tell = |note| told.borrow_mut().push(note);
        notes.add(partial("a"), now, EVERY, tell);
        let piece = "x".repeat(HELD / 4);
        (0..8).for_each(|_| notes.add(partial(&piece), now, EVERY, tell));
        notes.tell(now, tell);
        let all: usize = told.borrow().iter().map(|n| n.weight() - 64).sum();
        assert_eq!(all, 1 + 8 * piece.len());
        assert!(told.borrow().len() > 2 && told.borrow().iter().all(|n| n.weight() <= HELD + 128));
    }

    #[test]
    fn keys_keep_their_own_text_and_the_order_stays() {
        let (notes, told, now) = (Notes::default(), RefCell::new(Vec::new()), start());
        let tell = |note| told.borrow_mut().push(note);
        let keyed = |key: &str, text: &str| Progress::Keyed(key.to_owned(), text.to_owned());
        for (key, text) in [("a", "1"), ("a", "2"), ("b", "3"), ("b", "4"), ("a", "5")] {
            notes.keep(Some(key), text);
            notes.add(keyed(key, text), now, EVERY, tell);
        }
        notes.tell(now, tell);
        let wanted = [keyed("a", "1"), keyed("a", "2"), keyed("b", "34"), keyed("a", "5")];
        assert_eq!(*told.borrow(), wanted);
        assert_eq!(notes.kept(), "a: 12\nb: 34\na: 5");
    }

    #[test]
    fn what_is_kept_is_bounded_and_cut_between_characters() {
        let notes = Notes::default();
        (0..10).for_each(|_| notes.keep(None, &"é".repeat(10_000)));
        assert!(notes.kept().len() <= KEPT && notes.kept().len() > KEPT - 4);
        assert_eq!((notes.size(), notes.is_full()), (200_000, true));
        notes.forget();
        notes.keep(Some("a"), "漢");
        assert_eq!((notes.size(), notes.is_full()), (6, false));
    }

    #[test]
    fn what_is_kept_is_the_beginning_and_nothing_from_behind_the_cut() {
        let notes = Notes::default();
        notes.keep(None, &"x".repeat(KEPT - 1));
        ["漢", "y"].into_iter().for_each(|text| notes.keep(None, text));
        assert!(notes.kept().ends_with('x') && notes.is_full(), "`y` came after what was cut");
    }
}
