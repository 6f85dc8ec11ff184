//! Event streams: a bounded queue for each reader, and a `Lagged` item for each gap.
//!
//! There is no backpressure: a call never waits for a reader. It holds a lock only to append to a
//! queue, and evicts at most what its own event displaces. A full queue drops progress events
//! first, then the oldest events, and terminal events last.
//!
//! INVARIANT: a reader sees sequence numbers rise, and every number either as an event or within a
//! `Lagged`, in its position. Gaps are not stored: each event knows how many came before it.
//!
//! Memory: a queue holds at most `capacity` events, and at most `MAX_PROGRESS_BYTES` of progress
//! text. Events are shared between readers, and arguments with the call's record.

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Instant,
};

use haft_core::{Progress, sync::lock};
use serde::Serialize;
use smallvec::SmallVec;

use super::{
    Event,
    meta::{EventMeta, EventRecord, EventSource},
};
use crate::clock::{Anchor, Clock};

/// How much progress text one queue keeps; more than a reader can follow on a screen.
const MAX_PROGRESS_BYTES: usize = 1 << 20;

/// An item of an event stream.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum StreamItem {
    /// Something happened.
    Event(Arc<EventRecord>),
    /// Events are missing here, because the reader was too slow.
    Lagged(Lagged),
}

impl StreamItem {
    /// Returns the event; `None` for a gap.
    #[must_use]
    pub fn event(&self) -> Option<&EventRecord> {
        match self {
            Self::Event(record) => Some(record),
            Self::Lagged(_) => None,
        }
    }
}

/// A gap between two events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Lagged {
    /// How many events.
    #[serde(rename = "lagged")]
    pub count: u64,
    /// The number of the first of them.
    pub from_seq: u64,
    /// The number of the last of them.
    pub to_seq: u64,
    /// How many of them were progress events.
    pub progress_events: u64,
    /// How many of them were terminal events.
    pub terminal_events: u64,
}

/// Counts of events up to a point, by kind.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    seq: u64,
    notes: u64,
    ends: u64,
}

impl Mark {
    fn count(&mut self, rank: Rank) {
        self.seq += 1;
        match rank {
            Rank::Note => self.notes += 1,
            Rank::Plain => {}
            Rank::End => self.ends += 1,
        }
    }

    /// Returns the gap between two marks; `None` if they are the same.
    fn missed(self, until: Mark) -> Option<Lagged> {
        let count = until.seq.saturating_sub(self.seq);
        (count > 0).then(|| Lagged {
            count,
            from_seq: self.seq + 1,
            to_seq: until.seq,
            progress_events: until.notes.saturating_sub(self.notes),
            terminal_events: until.ends.saturating_sub(self.ends),
        })
    }
}

/// Eviction order of a full queue, first to last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rank {
    Note,
    Plain,
    End,
}

impl Rank {
    const ALL: [Self; 3] = [Self::Note, Self::Plain, Self::End];

    pub(super) fn of(event: &Event) -> Self {
        match event {
            _ if event.is_terminal() => Self::End,
            _ if event.is_progress() => Self::Note,
            _ => Self::Plain,
        }
    }
}

/// The sequence number of an event.
pub(super) enum Numbered {
    /// The event is buffered for at least one reader.
    Kept(Arc<EventRecord>),
    /// There is no reader, so the event was not taken.
    Alone(EventMeta),
}

/// Numbers the events and appends them to the queues of the readers.
#[derive(Default)]
pub(super) struct Hub {
    /// Number of readers, so that the lock is not taken without any.
    readers: AtomicUsize,
    state: Mutex<HubState>,
}

#[derive(Default)]
struct HubState {
    mark: Mark,
    anchor: Option<Anchor>,
    queues: SmallVec<[Arc<Queue>; 2]>,
}

impl Hub {
    pub(super) fn is_read(&self) -> bool {
        self.readers.load(Ordering::Relaxed) > 0
    }

    /// Assigns the sequence number, and appends the event to every queue. It is taken only if there
    /// is a queue.
    pub(super) fn emit(
        &self,
        (clock, time): (&dyn Clock, Instant),
        who: Arc<EventSource>,
        rank: Rank,
        event: &mut Option<Event>,
    ) -> Numbered {
        let mut state = lock(&self.state);
        let anchor = match state.anchor {
            Some(anchor) if anchor.is_fresh(time) => anchor,
            _ => {
                // The clock may be the host's code, so it runs outside of our locks.
                drop(state);
                let anchor = Anchor::of(clock);
                state = lock(&self.state);
                *state.anchor.insert(anchor)
            }
        };
        let before = state.mark;
        state.mark.count(rank);
        let after = state.mark;
        let at = EventMeta { seq: after.seq, time, anchor, source: who };
        let event = if state.queues.is_empty() { None } else { event.take() };
        let Some(event) = event else { return Numbered::Alone(at) };
        let record = Arc::new(EventRecord { at, event });
        let mut wakers: SmallVec<[Waker; 2]> = SmallVec::new();
        let mut evicted: SmallVec<[Entry; 2]> = SmallVec::new();
        for queue in &state.queues {
            let mut waiting = lock(&queue.0);
            waiting.push(Entry { record: Arc::clone(&record), before, after }, rank, &mut evicted);
            wakers.extend(waiting.waker.take());
        }
        // Wakers and drops of large events run without a lock.
        drop(state);
        drop(evicted);
        wakers.into_iter().for_each(Waker::wake);
        Numbered::Kept(record)
    }

    pub(super) fn open(self: &Arc<Self>, capacity: usize) -> EventStream {
        let mut state = lock(&self.state);
        let waiting = QueueState {
            lanes: Default::default(),
            capacity: capacity.max(1),
            text: 0,
            read: state.mark,
            last: state.mark,
            is_closed: false,
            waker: None,
        };
        let queue = Arc::new(Queue(Mutex::new(waiting)));
        state.queues.push(Arc::clone(&queue));
        self.readers.store(state.queues.len(), Ordering::Relaxed);
        EventStream { queue, hub: Arc::downgrade(self) }
    }

    /// Ends the stream of every reader.
    pub(super) fn close(&self) {
        let queues = {
            let mut state = lock(&self.state);
            self.readers.store(0, Ordering::Relaxed);
            std::mem::take(&mut state.queues)
        };
        for queue in queues {
            let waker = {
                let mut waiting = lock(&queue.0);
                waiting.is_closed = true;
                waiting.waker.take()
            };
            waker.into_iter().for_each(Waker::wake);
        }
    }

    fn unsubscribe(&self, queue: &Arc<Queue>) {
        let mut state = lock(&self.state);
        state.queues.retain(|other| !Arc::ptr_eq(other, queue));
        self.readers.store(state.queues.len(), Ordering::Relaxed);
    }
}

/// The queue of one reader.
struct Queue(Mutex<QueueState>);

struct QueueState {
    /// One for each rank, each in order.
    lanes: [VecDeque<Entry>; 3],
    capacity: usize,
    /// Bytes of text in the progress events.
    text: usize,
    /// How far the reader has read.
    read: Mark,
    /// The last event that arrived, kept or not.
    last: Mark,
    is_closed: bool,
    waker: Option<Waker>,
}

struct Entry {
    record: Arc<EventRecord>,
    before: Mark,
    after: Mark,
}

impl Entry {
    fn text(&self) -> usize {
        match &self.record.event {
            Event::Progress {
                note: Progress::Progress(_, text) | Progress::Partial(text), ..
            } => text.len(),
            Event::Progress { note: Progress::Keyed(key, text), .. } => key.len() + text.len(),
            _ => 0,
        }
    }
}

impl QueueState {
    /// Appends an event; evicted entries go to `evicted`.
    fn push(&mut self, entry: Entry, rank: Rank, evicted: &mut SmallVec<[Entry; 2]>) {
        self.last = entry.after;
        self.text += entry.text();
        self.lanes[rank as usize].push_back(entry);
        let len: usize = self.lanes.iter().map(VecDeque::len).sum();
        if len > self.capacity {
            let lane = Rank::ALL.into_iter().find(|rank| !self.lanes[*rank as usize].is_empty());
            evicted.extend(lane.and_then(|rank| self.take(rank)));
        }
        // Each entry is evicted once, so the cost is amortized over the pushes.
        while self.text > MAX_PROGRESS_BYTES {
            match self.take(Rank::Note) {
                Some(note) => evicted.push(note),
                None => break,
            }
        }
    }

    fn take(&mut self, rank: Rank) -> Option<Entry> {
        let entry = self.lanes[rank as usize].pop_front()?;
        self.text = self.text.saturating_sub(entry.text());
        Some(entry)
    }

    /// Returns the next item for the reader.
    fn next(&mut self) -> Option<StreamItem> {
        let front = |rank: &Rank| self.lanes[*rank as usize].front().map(|entry| entry.after.seq);
        let first = Rank::ALL.into_iter().filter(|rank| front(rank).is_some()).min_by_key(front);
        let Some(rank) = first else {
            let missed = self.read.missed(self.last);
            self.read = self.last;
            return missed.map(StreamItem::Lagged);
        };
        let before = self.lanes[rank as usize].front()?.before;
        if let Some(missed) = self.read.missed(before) {
            self.read = before;
            return Some(StreamItem::Lagged(missed));
        }
        let entry = self.take(rank)?;
        self.read = entry.after;
        Some(StreamItem::Event(entry.record))
    }
}

/// The events of a runtime, as they happen. Made by [`Runtime::events`](crate::Runtime::events).
///
/// It starts with the first event after it was opened, and ends when the runtime and everything
/// that runs on it is dropped. A slow reader gets a [`Lagged`] item for each gap.
#[must_use = "it keeps events until they are read"]
pub struct EventStream {
    queue: Arc<Queue>,
    hub: Weak<Hub>,
}

impl EventStream {
    /// Waits for the next item; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<StreamItem> {
        poll_fn(|task| self.poll(task)).await
    }

    /// Returns the next buffered item; `None` if there is none.
    pub fn try_next(&mut self) -> Option<StreamItem> {
        lock(&self.queue.0).next()
    }

    /// Returns how many events are buffered.
    #[must_use]
    pub fn waiting(&self) -> usize {
        lock(&self.queue.0).lanes.iter().map(VecDeque::len).sum()
    }

    fn poll(&mut self, task: &mut Context<'_>) -> Poll<Option<StreamItem>> {
        let mut waiting = lock(&self.queue.0);
        match waiting.next() {
            Some(record) => Poll::Ready(Some(record)),
            None if waiting.is_closed => Poll::Ready(None),
            None => {
                let old = waiting.waker.replace(task.waker().clone());
                drop(waiting);
                drop(old);
                Poll::Pending
            }
        }
    }
}

impl futures_util::Stream for EventStream {
    type Item = StreamItem;

    fn poll_next(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<StreamItem>> {
        self.get_mut().poll(task)
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        if let Some(hub) = self.hub.upgrade() {
            hub.unsubscribe(&self.queue);
        }
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
