//! Buffers the progress notes of a running call, so that a fast body cannot flood slow observers
//! (backpressure).
//!
//! The first note is sent at once. Output chunks within the host's interval are merged without loss
//! or reordering. Progress reports are sent one by one as long as there are no more than one per
//! interval on average, with a small burst; beyond that rate only the last is kept. A large buffer
//! is flushed early, so that memory stays bounded.

use std::{
    sync::{Mutex, MutexGuard, TryLockError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use crate::sync::lock;

/// One progress note of a running body.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// How far it is, from 0 to 1 where known, and what it is doing.
    Progress(Option<f32>, String),
    /// A chunk of output, before the end.
    Partial(String),
    /// A chunk of output under a key, before the end: the key, the text.
    Keyed(String, String),
}

impl Progress {
    /// What it costs to buffer, in bytes.
    fn weight(&self) -> usize {
        const NOTE_OVERHEAD_BYTES: usize = 64;
        NOTE_OVERHEAD_BYTES
            + match self {
                Self::Progress(_, text) | Self::Partial(text) => text.len(),
                Self::Keyed(key, text) => key.len() + text.len(),
            }
    }
}

/// How much partial output is kept for the result of an interrupted call.
const MAX_KEPT_BYTES: usize = 50_000;
/// A buffer of this size is flushed before its interval ends.
const FLUSH_BYTES: usize = 16 << 10;
/// How many progress reports are sent at once before the rate of one per interval applies.
const BURST_REPORTS: u32 = 10;
/// Above this size the sender waits for its turn instead of leaving the buffer to the thread that
/// is flushing.
const MAX_BUFFERED_BYTES: usize = 1 << 20;

/// The progress notes and the partial output of one call.
#[derive(Default)]
pub(crate) struct ProgressBuffer {
    state: Mutex<State>,
    /// Held while notes are sent, so that they stay in order.
    order: Mutex<()>,
    buffered: Notify,
}

#[derive(Default)]
struct State {
    /// The output so far, bounded, for the result of an interrupted call.
    kept: String,
    /// How many bytes of output there were, kept or not.
    size: u64,
    key: Option<String>,
    last_sent: Option<Instant>,
    /// When the reports that were sent would have been sent at one per interval (leaky bucket).
    reports_until: Option<Instant>,
    chunks: Vec<Progress>,
    progress: Option<Progress>,
    weight: usize,
}

impl ProgressBuffer {
    /// Keeps a chunk of output for the result of an interrupted call.
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

    /// Returns whether the kept output is truncated.
    pub(crate) fn is_full(&self) -> bool {
        let state = self.lock();
        state.size > state.kept.len() as u64
    }

    /// Drops the kept output: another attempt begins.
    pub(crate) fn clear(&self) {
        let mut state = self.lock();
        state.kept.clear();
        state.size = 0;
        state.key = None;
    }

    /// Buffers a note, and sends the buffer if it is due.
    pub(crate) fn add(
        &self,
        note: Progress,
        now: Instant,
        every: Duration,
        send: impl Fn(Progress),
    ) {
        let weight = {
            let mut state = self.lock();
            let is_in_rate =
                matches!(note, Progress::Progress(..)) && state.count_report(now, every);
            state.push(note);
            let is_due = is_in_rate
                || state.last_sent.is_none_or(|sent| now.saturating_duration_since(sent) >= every);
            if !is_due && state.weight < FLUSH_BYTES {
                drop(state);
                self.buffered.notify_waiters();
                return;
            }
            state.weight
        };
        let order = match self.order.try_lock() {
            Ok(order) => order,
            Err(TryLockError::Poisoned(order)) => order.into_inner(),
            Err(TryLockError::WouldBlock) if weight < MAX_BUFFERED_BYTES => {
                // Another thread is flushing; this note is sent with the next flush.
                self.buffered.notify_waiters();
                return;
            }
            Err(TryLockError::WouldBlock) => self.wait_for_order(),
        };
        self.flush_in_order(order, now, send);
    }

    /// Sends everything that is buffered.
    pub(crate) fn flush(&self, now: Instant, send: impl Fn(Progress)) {
        if self.lock().is_empty() {
            return;
        }
        self.flush_in_order(self.wait_for_order(), now, send);
    }

    /// Waits until a note is buffered, and returns when it is due.
    pub(crate) async fn due(&self, every: Duration) -> Option<Instant> {
        loop {
            let buffered = self.buffered.notified();
            {
                let state = self.lock();
                if !state.is_empty() {
                    return state.last_sent.and_then(|sent| sent.checked_add(every));
                }
            }
            buffered.await;
        }
    }

    fn flush_in_order(&self, order: MutexGuard<'_, ()>, now: Instant, send: impl Fn(Progress)) {
        let (chunks, progress) = {
            let mut state = self.lock();
            state.last_sent = Some(now);
            state.weight = 0;
            (std::mem::take(&mut state.chunks), state.progress.take())
        };
        chunks.into_iter().chain(progress).for_each(send);
        drop(order);
    }

    fn wait_for_order(&self) -> MutexGuard<'_, ()> {
        lock(&self.order)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.progress.is_none()
    }

    /// Counts a progress report that is to be sent now; `false` if there were too many.
    fn count_report(&mut self, now: Instant, every: Duration) -> bool {
        let until = self.reports_until.map_or(now, |until| until.max(now));
        let is_in_rate = until.saturating_duration_since(now) <= every * (BURST_REPORTS - 1);
        if is_in_rate {
            self.reports_until = until.checked_add(every);
        }
        is_in_rate
    }

    /// Keeps the beginning of the output. After the first truncation text is only counted, so that
    /// the kept text is always a prefix.
    fn keep(&mut self, text: &str) {
        let is_whole = self.size == self.kept.len() as u64;
        self.size = self.size.saturating_add(text.len() as u64);
        if is_whole {
            let free = MAX_KEPT_BYTES.saturating_sub(self.kept.len());
            self.kept.push_str(&text[..text.floor_char_boundary(free)]);
        }
    }

    fn push(&mut self, note: Progress) {
        self.weight = self.weight.saturating_add(note.weight());
        match (note, self.chunks.last_mut()) {
            (note @ Progress::Progress(..), _) => {
                self.weight -= self.progress.replace(note).map_or(0, |old| old.weight());
            }
            (Progress::Partial(more), Some(Progress::Partial(text))) => text.push_str(&more),
            (Progress::Keyed(key, more), Some(Progress::Keyed(last, text))) if *last == key => {
                text.push_str(&more);
            }
            (note, _) => self.chunks.push(note),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const EVERY: Duration = Duration::from_millis(100);

    #[expect(
        clippy::disallowed_methods,
        reason = "an `Instant` can only be made by the system clock"
    )]
    fn start() -> Instant {
        Instant::now()
    }

    fn partial(text: &str) -> Progress {
        Progress::Partial(text.to_owned())
    }

    #[test]
    fn chunks_within_the_interval_are_merged_and_none_is_lost() {
        let (notes, sent, start) = (ProgressBuffer::default(), RefCell::new(Vec::new()), start());
        let send = |note| sent.borrow_mut().push(note);
        for (n, text) in ["a", "b", "c", "d"].into_iter().enumerate() {
            let now = start + Duration::from_millis(40) * u32::try_from(n).unwrap();
            notes.add(partial(text), now, EVERY, send);
        }
        assert_eq!(
            *sent.borrow(),
            [partial("a"), partial("bcd")],
            "a due chunk flushes the buffer"
        );
        notes.add(partial("e"), start + EVERY, EVERY, send);
        notes.flush(start, send);
        assert_eq!(sent.borrow().last(), Some(&partial("e")));
        notes.flush(start, send);
        assert_eq!(sent.borrow().len(), 3, "nothing is sent twice");
    }

    fn report(n: u32) -> Progress {
        Progress::Progress(None, n.to_string())
    }

    #[test]
    fn reports_within_the_rate_are_all_sent() {
        // Three at once, then one per interval: any program that reports now and then.
        let (notes, sent, start) = (ProgressBuffer::default(), RefCell::new(Vec::new()), start());
        let send = |note| sent.borrow_mut().push(note);
        for n in 0..30 {
            notes.add(report(n), start + EVERY * n.saturating_sub(2), EVERY, send);
        }
        assert_eq!(*sent.borrow(), (0..30).map(report).collect::<Vec<_>>());
    }

    #[test]
    fn a_flood_of_reports_is_cut_to_the_rate_and_the_last_is_kept() {
        let (notes, sent, start) = (ProgressBuffer::default(), RefCell::new(Vec::new()), start());
        let send = |note| sent.borrow_mut().push(note);
        // A thousand per second, for ten seconds.
        for n in 0..10_000 {
            notes.add(report(n), start + Duration::from_millis(u64::from(n)), EVERY, send);
        }
        notes.flush(start, send);
        let sent = sent.into_inner();
        let burst = usize::try_from(BURST_REPORTS).unwrap();
        assert!((100..=100 + 2 * burst).contains(&sent.len()), "{}", sent.len());
        assert_eq!(sent[..burst], (0..BURST_REPORTS).map(report).collect::<Vec<_>>());
        assert_eq!(sent.last(), Some(&report(9_999)));
    }

    #[test]
    fn a_large_buffer_is_flushed_before_its_interval_ends() {
        let (notes, sent, now) = (ProgressBuffer::default(), RefCell::new(Vec::new()), start());
        let send = |note| sent.borrow_mut().push(note);
        notes.add(partial("a"), now, EVERY, send);
        let piece = "x".repeat(FLUSH_BYTES / 4);
        (0..8).for_each(|_| notes.add(partial(&piece), now, EVERY, send));
        notes.flush(now, send);
        let all: usize = sent.borrow().iter().map(|n| n.weight() - 64).sum();
        assert_eq!(all, 1 + 8 * piece.len());
        assert!(
            sent.borrow().len() > 2
                && sent.borrow().iter().all(|n| n.weight() <= FLUSH_BYTES + 128)
        );
    }

    #[test]
    fn chunks_are_merged_per_key_and_keep_their_order() {
        let (notes, sent, now) = (ProgressBuffer::default(), RefCell::new(Vec::new()), start());
        let send = |note| sent.borrow_mut().push(note);
        let keyed = |key: &str, text: &str| Progress::Keyed(key.to_owned(), text.to_owned());
        for (key, text) in [("a", "1"), ("a", "2"), ("b", "3"), ("b", "4"), ("a", "5")] {
            notes.keep(Some(key), text);
            notes.add(keyed(key, text), now, EVERY, send);
        }
        notes.flush(now, send);
        let wanted = [keyed("a", "1"), keyed("a", "2"), keyed("b", "34"), keyed("a", "5")];
        assert_eq!(*sent.borrow(), wanted);
        assert_eq!(notes.kept(), "a: 12\nb: 34\na: 5");
    }

    #[test]
    fn kept_output_is_bounded_and_truncated_on_a_character_boundary() {
        let notes = ProgressBuffer::default();
        (0..10).for_each(|_| notes.keep(None, &"é".repeat(10_000)));
        assert!(notes.kept().len() <= MAX_KEPT_BYTES && notes.kept().len() > MAX_KEPT_BYTES - 4);
        assert_eq!((notes.size(), notes.is_full()), (200_000, true));
        notes.clear();
        notes.keep(Some("a"), "漢");
        assert_eq!((notes.size(), notes.is_full()), (6, false));
    }

    #[test]
    fn kept_output_is_a_prefix_of_the_output() {
        let notes = ProgressBuffer::default();
        notes.keep(None, &"x".repeat(MAX_KEPT_BYTES - 1));
        ["漢", "y"].into_iter().for_each(|text| notes.keep(None, text));
        assert!(notes.kept().ends_with('x') && notes.is_full(), "`y` came after the truncation");
    }
}
