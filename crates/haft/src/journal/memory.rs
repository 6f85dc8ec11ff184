//! A journal in memory: the last calls, lost when the process ends.
//!
//! Records are slots of a ring. A new record is written over the oldest one, so that a call moves
//! and frees as little as possible. It is bounded by count and by bytes. The sequence number of an
//! intent is stored in the call's context, so that the outcome finds its slot without a search.

use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use haft_core::{
    CallId, ConcurrencyClass, Failure, RunId, ToolContext, ToolName, Verdict, host::HostContext,
    sync::lock,
};
use serde_json::Value;

use super::{
    CallIntent, CallOutcome, Journal, WriteStatus,
    record::{ExecutionRecord, IntentRecord, OutcomeRecord, PolicyRecord, RecordQuery},
};
use crate::{
    clock::{Anchor, Clock, RuntimeClock},
    memory_size::memory_size_of,
    schema::Repair,
    secrets::{Redact as _, RuntimeRedactor},
    text::head,
};

/// The maximum length of a failure message that is kept, in characters.
const MAX_MESSAGE_CHARS: usize = 2_000;
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

/// One call. Its date is computed when it is read.
struct Slot {
    run: RunId,
    cycle: u32,
    depth: u32,
    agent_path: Arc<[String]>,
    call: CallId,
    requested_name: ToolName,
    tool_name: ToolName,
    began: Instant,
    anchor: Anchor,
    intent: Option<SlotIntent>,
    policy: Option<Box<PolicyRecord>>,
    end: Option<OutcomeRecord>,
    /// The arguments of the intent and the output of the end, as text. The next record in this slot
    /// uses the same memory.
    arguments: String,
    output: String,
    /// About how many bytes it takes.
    weight: usize,
}

/// What a call was about to do.
struct SlotIntent {
    /// The arguments, shared with the call. `None` if the slot has them as text.
    arguments: Option<Arc<Value>>,
    class: ConcurrencyClass,
    verdict: Verdict,
    repairs: Option<Arc<[Repair]>>,
}

impl SlotIntent {
    /// Returns the arguments. The text was parsed before, so it is valid.
    fn arguments(&self, text: &str) -> Arc<Value> {
        match &self.arguments {
            Some(arguments) => Arc::clone(arguments),
            None => Arc::new(haft_schema::strict_json(text).unwrap_or_default()),
        }
    }
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

impl Slot {
    fn of(call: &ToolContext, began: Instant, anchor: Anchor) -> Self {
        let scope = call.scope();
        Self {
            run: scope.run.clone(),
            cycle: scope.cycle,
            depth: scope.depth,
            agent_path: Arc::clone(&scope.agent_path),
            call: call.call_id().clone(),
            requested_name: call.requested_name().clone(),
            tool_name: call.tool_name().clone(),
            began,
            anchor,
            intent: None,
            policy: None,
            end: None,
            arguments: String::new(),
            output: String::new(),
            weight: 0,
        }
    }

    /// Writes another call over an evicted one.
    #[inline(always)]
    fn replace(&mut self, call: &ToolContext, began: Instant, anchor: Anchor) {
        let scope = call.scope();
        if !Arc::ptr_eq(&self.agent_path, &scope.agent_path) {
            self.agent_path = Arc::clone(&scope.agent_path);
        }
        self.run.clone_from(&scope.run);
        self.call.clone_from(call.call_id());
        self.requested_name.clone_from(call.requested_name());
        self.tool_name.clone_from(call.tool_name());
        (self.cycle, self.depth) = (scope.cycle, scope.depth);
        (self.began, self.anchor) = (began, anchor);
    }

    /// Returns whether it is the open intent of this call.
    fn is_intent_of(&self, call: &ToolContext) -> bool {
        self.end.is_none()
            && self.call == *call.call_id()
            && self.cycle == call.cycle()
            && self.run == *call.run_id()
    }

    /// Estimates the size of a record without intent and end. A model may make up a name or an id
    /// of any length. The name of the tool is the same text, or one that a tool has.
    fn base_size(&self) -> usize {
        size_of::<Self>() + self.call.as_str().len() + self.requested_name.as_str().len()
    }

    /// Writes how the call ended. Returns about how many bytes that takes.
    #[inline(always)]
    fn set_end(&mut self, settled: &CallOutcome<'_>, output: Option<&str>) -> usize {
        let answer = settled.answer;
        let failure = answer.failure();
        self.output.clear();
        self.output.push_str(output.unwrap_or_default());
        let end = OutcomeRecord {
            failed: failure.map(Failure::code),
            error: failure.map(|f| head(f.message(), MAX_MESSAGE_CHARS).to_owned()),
            cause: failure
                .and_then(Failure::cause)
                .map(|cause| head(&cause, MAX_MESSAGE_CHARS).to_owned()),
            output: None,
            label: answer.label(),
            truncation: answer.truncation.clone(),
            execution: answer.execution(),
            tier: answer.tier.clone(),
            stats: settled.stats.clone(),
            elapsed: answer.elapsed(),
        };
        let policy = settled.verdict.zip(settled.explanation).map(|(verdict, explanation)| {
            Box::new(PolicyRecord {
                verdict: verdict.clone(),
                explanation: Arc::clone(explanation),
                answered_by: settled.answered_by.map(Arc::from),
            })
        });
        let size = end.memory_size()
            + self.output.capacity()
            + policy.as_ref().map_or(0, |policy| policy.memory_size());
        (self.end, self.policy) = (Some(end), policy);
        size
    }

    /// Returns it as people read it.
    fn record(&self, has_output: bool) -> ExecutionRecord {
        ExecutionRecord {
            run: self.run.clone(),
            cycle: self.cycle,
            depth: self.depth,
            agent_path: Arc::clone(&self.agent_path),
            call: self.call.clone(),
            requested_name: self.requested_name.clone(),
            tool_name: self.tool_name.clone(),
            at: self.anchor.date_of(self.began),
            intent: self.intent.as_ref().map(|intent| IntentRecord {
                arguments: intent.arguments(&self.arguments),
                class: intent.class,
                verdict: intent.verdict.clone(),
                repairs: intent.repairs.as_deref().unwrap_or_default().to_vec(),
            }),
            policy: self.policy.clone(),
            end: self.end.clone().map(|end| OutcomeRecord {
                output: (has_output && end.failed.is_none()).then(|| self.output.as_str().into()),
                ..end
            }),
        }
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
        let text = intended.text.filter(|text| text.len() <= MAX_TEXT_BYTES && !marks_secrets);
        let size = match text {
            Some(_) => 0,
            None => memory_size_of(intended.arguments, self.max_bytes),
        };
        let (mut ring, anchor) = self.lock_at(began);
        let knows = ring.knows(intended.redactor);
        let text = text.filter(|_| knows);
        let intent = SlotIntent {
            arguments: match text {
                Some(_) => None,
                None if !knows || marks_secrets => Some(intended.arguments()),
                None => Some(Arc::clone(intended.arguments)),
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
