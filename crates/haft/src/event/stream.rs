//! Streams of events: a bounded queue for each reader, and a note wherever something is missing.
//!
//! A call never waits for a reader. It takes a lock for as long as it takes to append to a queue,
//! and drops at most what its own event displaces. What a full queue lets go of: notes of bodies
//! first, then whatever is oldest, and ends of calls last of all.
//!
//! INVARIANT: a reader sees numbers rise, and every number either as an event or in a `Lagged`, in
//! its place. What is missing is never written down: each event knows how many came before it.
//!
//! Memory: a queue holds at most `capacity` events, and notes of at most `MOST_TEXT` bytes. Events
//! are shared between readers, and arguments with the call's record.

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use haft_core::Progress;
use serde::Serialize;
use smallvec::SmallVec;

use super::{
    Event,
    meta::{EventMeta, EventRecord, EventSource},
};
use crate::clock::{Anchor, Clock};

/// So much text of bodies one queue keeps; more than a screen that scrolls past can be read from.
const MOST_TEXT: usize = 1 << 20;

/// What a reader is told.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum StreamItem {
    /// Something happened.
    Event(Arc<EventRecord>),
    /// Some events are missing here, because the reader was too slow for them.
    Lagged(Lagged),
}

impl StreamItem {
    /// Returns the event; nothing for a gap.
    #[must_use]
    pub fn event(&self) -> Option<&EventRecord> {
        match self {
            Self::Event(told) => Some(told),
            Self::Lagged(_) => None,
        }
    }
}

/// What is missing between two events.
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
    /// How many of them were notes of bodies.
    pub notes: u64,
    /// How many of them were ends of calls.
    pub ends: u64,
}

/// How many events there were up to one of them, by kind.
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

    /// Returns what lies between two marks; nothing when they are the same.
    fn missed(self, until: Mark) -> Option<Lagged> {
        let count = until.seq.saturating_sub(self.seq);
        (count > 0).then(|| Lagged {
            count,
            from_seq: self.seq + 1,
            to_seq: until.seq,
            notes: until.notes.saturating_sub(self.notes),
            ends: until.ends.saturating_sub(self.ends),
        })
    }
}

/// What a full queue lets go of first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    Note,
    Plain,
    End,
}

impl Rank {
    const ALL: [Self; 3] = [Self::Note, Self::Plain, Self::End];

    fn of(event: &Event) -> Self {
        match event {
            _ if event.is_terminal() => Self::End,
            _ if event.is_note() => Self::Note,
            _ => Self::Plain,
        }
    }
}

/// An event that has its number.
pub(super) enum Numbered {
    /// Somebody reads along.
    Kept(Arc<EventRecord>),
    /// Nobody does, so nothing was made to keep it.
    Alone(EventMeta, Event),
}

/// Numbers the events and hands them to the readers.
#[derive(Default)]
pub(super) struct Hub {
    /// How many readers there are, so that nobody takes the lock for none.
    readers: AtomicUsize,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    mark: Mark,
    anchor: Option<Anchor>,
    queues: SmallVec<[Arc<Queue>; 2]>,
}

impl Hub {
    pub(super) fn is_read(&self) -> bool {
        self.readers.load(Ordering::Relaxed) > 0
    }

    /// Gives an event its number and its date, and to every reader.
    pub(super) fn pass_on(
        &self,
        clock: &dyn Clock,
        who: Arc<EventSource>,
        event: Event,
    ) -> Numbered {
        let rank = Rank::of(&event);
        // Whatever a clock of the host's does, it does it outside of our locks.
        let time = clock.now();
        let mut line = lock(&self.line);
        let anchor = match line.anchor {
            Some(anchor) if anchor.is_fresh(time) => anchor,
            _ => {
                drop(line);
                let anchor = Anchor::of(clock);
                line = lock(&self.line);
                *line.anchor.insert(anchor)
            }
        };
        let before = line.mark;
        line.mark.count(rank);
        let after = line.mark;
        let at = EventMeta { seq: after.seq, time, anchor, who };
        if line.queues.is_empty() {
            return Numbered::Alone(at, event);
        }
        let told = Arc::new(EventRecord { at, event });
        let mut wakers: SmallVec<[Waker; 2]> = SmallVec::new();
        let mut gone: SmallVec<[Entry; 2]> = SmallVec::new();
        for queue in &line.queues {
            let mut waiting = lock(&queue.0);
            waiting.push(Entry { told: Arc::clone(&told), before, after }, rank, &mut gone);
            wakers.extend(waiting.waker.take());
        }
        // Neither somebody's waker nor a large event's end happens under a lock.
        drop(line);
        drop(gone);
        wakers.into_iter().for_each(Waker::wake);
        Numbered::Kept(told)
    }

    pub(super) fn open(self: &Arc<Self>, capacity: usize) -> EventStream {
        let mut line = lock(&self.line);
        let waiting = Waiting {
            lanes: Default::default(),
            capacity: capacity.max(1),
            text: 0,
            read: line.mark,
            last: line.mark,
            is_closed: false,
            waker: None,
        };
        let queue = Arc::new(Queue(Mutex::new(waiting)));
        line.queues.push(Arc::clone(&queue));
        self.readers.store(line.queues.len(), Ordering::Relaxed);
        EventStream { queue, hub: Arc::downgrade(self) }
    }

    /// Tells every reader that nothing more will come.
    pub(super) fn close(&self) {
        let queues = {
            let mut line = lock(&self.line);
            self.readers.store(0, Ordering::Relaxed);
            std::mem::take(&mut line.queues)
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

    fn leave(&self, queue: &Arc<Queue>) {
        let mut line = lock(&self.line);
        line.queues.retain(|other| !Arc::ptr_eq(other, queue));
        self.readers.store(line.queues.len(), Ordering::Relaxed);
    }
}

/// What waits for one reader.
struct Queue(Mutex<Waiting>);

struct Waiting {
    /// One for each rank, each in order.
    lanes: [VecDeque<Entry>; 3],
    capacity: usize,
    /// Bytes of text in the notes.
    text: usize,
    /// How far the reader has come.
    read: Mark,
    /// The last event that came, kept or not.
    last: Mark,
    is_closed: bool,
    waker: Option<Waker>,
}

struct Entry {
    told: Arc<EventRecord>,
    before: Mark,
    after: Mark,
}

impl Entry {
    fn text(&self) -> usize {
        match &self.told.event {
            Event::Progress {
                note: Progress::Progress(_, text) | Progress::Partial(text), ..
            } => text.len(),
            Event::Progress { note: Progress::Keyed(key, text), .. } => key.len() + text.len(),
            _ => 0,
        }
    }
}

impl Waiting {
    /// Takes an event in; what has no room any more goes to `gone`.
    fn push(&mut self, entry: Entry, rank: Rank, gone: &mut SmallVec<[Entry; 2]>) {
        self.last = entry.after;
        self.text += entry.text();
        self.lanes[rank as usize].push_back(entry);
        let len: usize = self.lanes.iter().map(VecDeque::len).sum();
        if len > self.capacity {
            let lane = Rank::ALL.into_iter().find(|rank| !self.lanes[*rank as usize].is_empty());
            gone.extend(lane.and_then(|rank| self.take(rank)));
        }
        // Each note is let go of once, so this is paid for by what came in.
        while self.text > MOST_TEXT {
            match self.take(Rank::Note) {
                Some(note) => gone.push(note),
                None => break,
            }
        }
    }

    fn take(&mut self, rank: Rank) -> Option<Entry> {
        let entry = self.lanes[rank as usize].pop_front()?;
        self.text = self.text.saturating_sub(entry.text());
        Some(entry)
    }

    /// Returns what the reader is told next.
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
        Some(StreamItem::Event(entry.told))
    }
}

/// The events of a runtime, as they happen. Made by [`Runtime::events`](crate::Runtime::events).
///
/// It starts with what happens after it was opened, and ends when the runtime and everything that
/// runs on it is gone. A reader that is too slow is told what it missed, where it missed it.
#[must_use = "it keeps events until they are read"]
pub struct EventStream {
    queue: Arc<Queue>,
    hub: Weak<Hub>,
}

impl EventStream {
    /// Waits for what comes next; nothing when nothing more will come.
    pub async fn next(&mut self) -> Option<StreamItem> {
        poll_fn(|task| self.poll(task)).await
    }

    /// Returns what is there already; nothing when nothing is.
    pub fn try_next(&mut self) -> Option<StreamItem> {
        lock(&self.queue.0).next()
    }

    /// Returns how many events wait to be read.
    #[must_use]
    pub fn waiting(&self) -> usize {
        lock(&self.queue.0).lanes.iter().map(VecDeque::len).sum()
    }

    fn poll(&mut self, task: &mut Context<'_>) -> Poll<Option<StreamItem>> {
        let mut waiting = lock(&self.queue.0);
        match waiting.next() {
            Some(told) => Poll::Ready(Some(told)),
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
            hub.leave(&self.queue);
        }
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
