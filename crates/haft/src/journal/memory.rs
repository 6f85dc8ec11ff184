//! A journal in memory: the last calls, lost when the process ends.
//!
//! Records are slots of a ring. A new record is written over the oldest one, so that a call moves
//! and frees as little as possible. It is bounded by count and by bytes. The sequence number of an
//! intent is stored in the call's context, so that the outcome finds its slot without a search.

mod slot;

use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use haft_core::{ToolContext, host::HostContext, sync::lock};
use serde_json::Value;

use self::slot::{Slot, SlotIntent};
use super::{
    CallIntent, CallOutcome, Journal, WriteStatus,
    record::{ExecutionRecord, PolicyRecord, RecordQuery},
};
use crate::{
    clock::{Anchor, Clock, RuntimeClock},
    memory_size::memory_size_of,
    secrets::{Redact as _, RuntimeRedactor},
    text::head,
};

/// The bits of a journal position that hold the sequence number; those above identify the journal.
const SEQUENCE_BITS: u32 = 48;

/// Arguments up to this size are kept as the model's text: copying it is cheaper than sharing the
/// JSON, which would be freed when the record is evicted.
const MAX_TEXT_BYTES: usize = 1_024;

/// Runtimes beyond so many that share one journal pay for each call.
const MAX_REDACTORS: usize = 8;

/// Keeps the last calls in memory. Clones share the records. Secrets are redacted when records are
/// read, so that unread records cost nothing.
#[derive(Clone)]
pub struct MemoryJournal {
    ring: Arc<Mutex<Ring>>,
    clock: Arc<dyn Clock>,
    max: usize,
    max_bytes: usize,
    /// How many characters of an output are kept.
    output: usize,
    /// Identifies this journal, so that a position is not used in another one.
    id: u64,
}

/// The records. Number `n`, from 0, is in slot `n % max`; the slots grow until there are `max`.
#[derive(Default)]
struct Ring {
    slots: Vec<Slot>,
    /// The number of the oldest record.
    oldest: u64,
    /// The number of the next record.
    next: u64,
    bytes: usize,
    anchor: Option<Anchor>,
    /// The redactor of each runtime that writes here.
    redactors: Vec<RuntimeRedactor>,
}

/// What may be large in an evicted record. It is freed after the lock is released.
type Evicted = (Option<Arc<Value>>, Option<Box<PolicyRecord>>);

impl MemoryJournal {
    /// Keeps at most this many calls, in at most 16 MiB, with the first 200 characters of their
    /// outputs.
    #[must_use]
    pub fn new(max: usize) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        Self {
            ring: Arc::default(),
            clock: Arc::new(RuntimeClock),
            max,
            max_bytes: 16 << 20,
            output: 200,
            id: IDS.fetch_add(1, Ordering::Relaxed) << SEQUENCE_BITS,
        }
    }

    /// Keeps at most this many bytes, approximately.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Keeps at most this many characters of each output; 0 for none.
    #[must_use]
    pub fn output(mut self, characters: usize) -> Self {
        self.output = characters;
        self
    }

    /// Sets the clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Returns all records, oldest first, redacted.
    #[must_use]
    pub fn records(&self) -> Vec<ExecutionRecord> {
        self.find(&RecordQuery::default().limit(usize::MAX).oldest_first())
    }

    /// Returns the records that match, redacted.
    #[must_use]
    pub fn find(&self, query: &RecordQuery) -> Vec<ExecutionRecord> {
        let ring = self.lock();
        let slots = ring.numbers().filter_map(|number| ring.slot(number, self.max));
        let records = slots.map(|slot| slot.record(self.output > 0));
        let wanted = |record: &ExecutionRecord| query.matches(record);
        let found = match query.is_oldest_first {
            true => records.filter(wanted).take(query.max_records()).collect(),
            false => records.rev().filter(wanted).take(query.max_records()).collect(),
        };
        let redactors = ring.redactors.clone();
        drop(ring);
        redacted(found, &redactors)
    }

    /// Returns approximately how many bytes the records take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        lock(&self.ring)
    }

    /// Locks, with an anchor for a moment. The clock is asked once in a while, and not under the
    /// lock: it may be the host's.
    #[inline(always)]
    fn lock_at(&self, moment: Instant) -> (MutexGuard<'_, Ring>, Anchor) {
        let ring = self.lock();
        match ring.anchor {
            Some(anchor) if anchor.is_fresh(moment) => (ring, anchor),
            _ => {
                drop(ring);
                let anchor = Anchor::of(&*self.clock);
                let mut ring = self.lock();
                ring.anchor = Some(anchor);
                (ring, anchor)
            }
        }
    }

    /// Returns the start of the output, as it is kept.
    #[inline(always)]
    fn shown<'a>(&self, settled: &CallOutcome<'a>) -> Option<Cow<'a, str>> {
        let output = settled.answer.output().filter(|_| self.output > 0)?;
        Some(match output.as_text() {
            Cow::Borrowed(text) => Cow::Borrowed(head(text, self.output)),
            Cow::Owned(text) => Cow::Owned(head(&text, self.output).to_owned()),
        })
    }

    /// Appends the record of a call without intent: it was not to run, or its intent was evicted.
    #[cold]
    fn push_outcome(&self, settled: &CallOutcome<'_>, shown: Option<&str>) {
        let (mut ring, anchor) = self.lock_at(settled.began);
        let call = (settled.call, settled.began, anchor);
        let (_, evicted) = ring.push(call, self.max, |slot| slot.set_end(settled, shown));
        self.evict_over_limit(ring, evicted);
    }

    /// Evicts the oldest records until the rest is within the limit of bytes. What is large is
    /// freed without the lock.
    #[inline(always)]
    fn evict_over_limit<'a>(&'a self, mut ring: MutexGuard<'a, Ring>, mut evicted: Evicted) {
        while ring.bytes > self.max_bytes && ring.oldest < ring.next {
            let at = slot_of(ring.oldest, self.max);
            let next = ring.evict_oldest(self.max);
            let texts = ring.slots.get_mut(at).map(|slot| {
                (std::mem::take(&mut slot.arguments), std::mem::take(&mut slot.output))
            });
            drop(ring);
            drop((std::mem::replace(&mut evicted, next), texts));
            ring = self.lock();
        }
        drop(ring);
        drop(evicted);
    }
}

impl Ring {
    /// Returns the numbers of all records, oldest first.
    fn numbers(&self) -> std::ops::Range<u64> {
        self.oldest..self.next
    }

    fn slot(&self, number: u64, max: usize) -> Option<&Slot> {
        let is_kept = (self.oldest..self.next).contains(&number);
        is_kept.then(|| self.slots.get(slot_of(number, max)))?
    }

    /// Whether records of this runtime are redacted when they are read.
    #[inline(always)]
    fn knows(&mut self, redactor: &RuntimeRedactor) -> bool {
        if self.redactors.iter().any(|known| known.shares_secrets_with(redactor)) {
            return true;
        }
        let room = self.redactors.len() < MAX_REDACTORS;
        if room {
            self.redactors.push(redactor.clone());
        }
        room
    }

    /// Appends a record, over the oldest one if there are `max`. `fill` completes it and returns
    /// about how many bytes that takes. Returns its number, and what was large in the record that
    /// it replaced.
    #[inline(always)]
    fn push(
        &mut self,
        (call, began, anchor): (&ToolContext, Instant, Anchor),
        max: usize,
        fill: impl FnOnce(&mut Slot) -> usize,
    ) -> (u64, Evicted) {
        let number = self.next;
        let evicted = match usize::try_from(number - self.oldest) {
            Ok(kept) if kept < max => Evicted::default(),
            _ => self.evict_oldest(max),
        };
        let at = slot_of(number, max);
        if let Some(slot) = self.slots.get_mut(at) {
            slot.replace(call, began, anchor);
        } else {
            self.slots.push(Slot::of(call, began, anchor));
        }
        self.next += 1;
        if let Some(slot) = self.slots.get_mut(at) {
            slot.weight = slot.base_size() + fill(slot);
            self.bytes += slot.weight;
        }
        (number, evicted)
    }

    /// Evicts the oldest record. Its slot stays until a new record is written over it.
    #[inline(always)]
    fn evict_oldest(&mut self, max: usize) -> Evicted {
        let at = slot_of(self.oldest, max);
        self.oldest += 1;
        let Some(slot) = self.slots.get_mut(at) else { return Evicted::default() };
        self.bytes = self.bytes.saturating_sub(std::mem::take(&mut slot.weight));
        slot.end = None;
        (slot.intent.take().and_then(|intent| intent.arguments), slot.policy.take())
    }

    /// Returns the open intent of a call, with its number. A position of this journal says where it
    /// is, or that it was evicted; an intent that another journal recorded after us is searched.
    #[inline(always)]
    fn intent_of(&self, call: &ToolContext, journal: u64, max: usize) -> Option<u64> {
        let position = call.journal_position();
        if position == 0 {
            return None;
        }
        if position >> SEQUENCE_BITS == journal >> SEQUENCE_BITS {
            let number = position & ((1 << SEQUENCE_BITS) - 1);
            return self.slot(number, max).is_some_and(|slot| slot.end.is_none()).then_some(number);
        }
        let is_its =
            |number: &u64| self.slot(*number, max).is_some_and(|slot| slot.is_intent_of(call));
        self.numbers().rev().find(is_its)
    }
}

/// Returns the slot of a record.
fn slot_of(number: u64, max: usize) -> usize {
    usize::try_from(number % max.max(1) as u64).unwrap_or_default()
}

/// Takes secrets out of records, outside of the lock.
fn redacted(
    mut records: Vec<ExecutionRecord>,
    redactors: &[RuntimeRedactor],
) -> Vec<ExecutionRecord> {
    for redactor in redactors {
        records.iter_mut().for_each(|record| record.redact(redactor));
    }
    records
}

impl MemoryJournal {
    /// Writes that a call is about to run.
    #[inline(always)]
    pub(crate) fn write_intent(&self, intended: &CallIntent<'_>) {
        if self.max == 0 {
            return;
        }
        let began = intended.began;
        // What a schema marks as secret cannot be recognized later, so it is redacted now.
        let marks_secrets = intended.tool.input().marks_secrets();
        let text =
            intended.arguments.text().filter(|text| text.len() <= MAX_TEXT_BYTES && !marks_secrets);
        let size = match text {
            Some(_) => 0,
            None => memory_size_of(intended.arguments.json(), self.max_bytes),
        };
        let (mut ring, anchor) = self.lock_at(began);
        let knows = ring.knows(intended.redactor);
        let text = text.filter(|_| knows);
        let intent = SlotIntent {
            arguments: match text {
                Some(_) => None,
                None if !knows || marks_secrets => Some(intended.arguments()),
                None => Some(Arc::clone(intended.arguments.json())),
            },
            class: intended.class,
            verdict: intended.verdict.clone(),
            repairs: intended.repairs.map(Arc::clone),
        };
        let (number, evicted) = ring.push((intended.call, began, anchor), self.max, |slot| {
            slot.intent = Some(intent);
            slot.arguments.clear();
            slot.arguments.push_str(text.unwrap_or_default());
            size + slot.arguments.capacity()
        });
        self.evict_over_limit(ring, evicted);
        intended.call.set_journal_position(self.id | number);
    }

    /// Writes how a call ended.
    #[inline(always)]
    pub(crate) fn write_outcome(&self, settled: &CallOutcome<'_>) {
        if self.max == 0 {
            return;
        }
        let shown = self.shown(settled);
        let mut ring = self.lock();
        let found = ring.intent_of(settled.call, self.id, self.max);
        let at = found.map(|number| slot_of(number, self.max));
        if let Some(own) = at.and_then(|at| ring.slots.get_mut(at)) {
            let size = own.set_end(settled, shown.as_deref());
            own.weight += size;
            ring.bytes += size;
            self.evict_over_limit(ring, Evicted::default());
        } else {
            drop(ring);
            self.push_outcome(settled, shown.as_deref());
        }
    }
}

impl Journal for MemoryJournal {
    fn intend(&self, intended: &CallIntent<'_>) -> WriteStatus {
        self.write_intent(intended);
        WriteStatus::Now(Ok(()))
    }

    fn settle(&self, settled: &CallOutcome<'_>) -> WriteStatus {
        self.write_outcome(settled);
        WriteStatus::Now(Ok(()))
    }

    fn find(&self, query: &RecordQuery) -> Option<Vec<ExecutionRecord>> {
        Some(MemoryJournal::find(self, query))
    }
}

impl fmt::Debug for MemoryJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ring = self.lock();
        f.debug_struct("MemoryJournal")
            .field("records", &(ring.next - ring.oldest))
            .field("bytes", &ring.bytes)
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}
