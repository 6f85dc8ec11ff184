//! A journal in memory: the last calls, lost when the process ends.
//!
//! It is bounded by count and by bytes; the oldest records are evicted first. The position of an
//! intent is stored in the call's context, so that the outcome finds it without a search.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::{Instant, SystemTime},
};

use haft_core::{Failure, ToolContext, host::HostContext, sync::lock};

use super::{
    CallIntent, CallOutcome, Journal, WriteStatus,
    record::{ExecutionRecord, IntentRecord, OutcomeRecord, PolicyRecord, RecordQuery, head_of},
};
use crate::{
    clock::{Anchor, Clock, RuntimeClock},
    memory_size::memory_size_of,
    secrets::{Redact as _, RuntimeRedactor},
    text::head,
};

/// So much of the words of a failure is kept, in characters.
const MAX_MESSAGE_CHARS: usize = 2_000;
/// The bits of a ticket that say the place; those above say the journal.
const PLACE_BITS: u32 = 48;

/// Runtimes beyond so many that share one journal pay for each call.
const MAX_REDACTORS: usize = 8;

/// Keeps the last calls in memory. Clones share the records. Secrets are redacted when records are
/// read, so that unread records cost nothing.
#[derive(Clone)]
pub struct MemoryJournal {
    kept: Arc<Mutex<Kept>>,
    clock: Arc<dyn Clock>,
    max: usize,
    max_bytes: usize,
    /// How many characters of an output are kept.
    output: usize,
    /// Identifies this journal, so that a position is not used in another one.
    id: u64,
}

#[derive(Default)]
struct Kept {
    records: VecDeque<ExecutionRecord>,
    /// How many have been let go of.
    gone: u64,
    bytes: usize,
    anchor: Option<Anchor>,
    /// What takes secrets out: one for each runtime that writes here.
    redactors: Vec<RuntimeRedactor>,
}

impl MemoryJournal {
    /// Keeps at most this many calls, in at most 16 MiB, with the first 200 characters of their
    /// outputs.
    #[must_use]
    pub fn new(max: usize) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        Self {
            kept: Arc::default(),
            clock: Arc::new(RuntimeClock),
            max,
            max_bytes: 16 << 20,
            output: 200,
            id: IDS.fetch_add(1, Ordering::Relaxed) << PLACE_BITS,
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
        let kept = self.lock();
        let found = kept.records.iter().cloned().collect();
        let redactors = kept.redactors.clone();
        drop(kept);
        redacted(found, &redactors)
    }

    /// Returns the records that match, redacted.
    #[must_use]
    pub fn find(&self, query: &RecordQuery) -> Vec<ExecutionRecord> {
        let kept = self.lock();
        let wanted = |record: &&ExecutionRecord| query.matches(record);
        let found = match query.is_oldest_first {
            true => kept.records.iter().filter(wanted).take(query.most()).cloned().collect(),
            false => kept.records.iter().rev().filter(wanted).take(query.most()).cloned().collect(),
        };
        let redactors = kept.redactors.clone();
        drop(kept);
        redacted(found, &redactors)
    }

    /// Returns approximately how many bytes the records take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn keep<'a>(&'a self, mut kept: MutexGuard<'a, Kept>, record: ExecutionRecord) -> u64 {
        let place = kept.push(record);
        self.make_room(kept);
        place
    }

    /// Takes out the oldest until there is room. Each is freed after the lock: a record may hold large
    /// arguments.
    fn make_room<'a>(&'a self, mut kept: MutexGuard<'a, Kept>) {
        while let Some(oldest) = kept.surplus(self.max, self.max_bytes) {
            let more = kept.is_full(self.max, self.max_bytes);
            drop(kept);
            drop(oldest);
            if !more {
                return;
            }
            kept = self.lock();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }

    /// Locks, with the date of a moment. The clock is asked once in a while, and not under the lock:
    /// it may be the host's.
    fn lock_at(&self, moment: Instant) -> (MutexGuard<'_, Kept>, SystemTime) {
        let kept = self.lock();
        let (kept, anchor) = match kept.anchor {
            Some(anchor) if anchor.is_fresh(moment) => (kept, anchor),
            _ => {
                drop(kept);
                let anchor = Anchor::of(&*self.clock);
                let mut kept = self.lock();
                kept.anchor = Some(anchor);
                (kept, anchor)
            }
        };
        (kept, anchor.date_of(moment))
    }

    fn record(call: &ToolContext, at: SystemTime) -> ExecutionRecord {
        ExecutionRecord {
            run: call.run_id().clone(),
            cycle: call.cycle(),
            depth: call.depth(),
            agent_path: Arc::clone(&call.scope().agent_path),
            call: call.call_id().clone(),
            requested_name: call.requested_name().clone(),
            tool_name: call.tool_name().clone(),
            at,
            intent: None,
            policy: None,
            end: None,
        }
    }
}

impl Kept {
    /// Whether records of this runtime are redacted when they are read.
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

    /// Appends a record, and returns its place.
    fn push(&mut self, record: ExecutionRecord) -> u64 {
        self.bytes += record.memory_size();
        self.records.push_back(record);
        self.gone + self.records.len() as u64
    }

    /// Returns whether something must go.
    fn is_full(&self, max: usize, max_bytes: usize) -> bool {
        self.records.len() > max || self.bytes > max_bytes
    }

    /// Takes out the oldest, if something must go.
    fn surplus(&mut self, max: usize, max_bytes: usize) -> Option<ExecutionRecord> {
        if !self.is_full(max, max_bytes) {
            return None;
        }
        let oldest = self.records.pop_front()?;
        self.bytes = self.bytes.saturating_sub(oldest.memory_size());
        self.gone += 1;
        Some(oldest)
    }

    /// Finds the intent of a call. A ticket of this journal says where it is, or that it has been
    /// let go of; only a call that somebody else wrote down after us is looked for.
    fn intent_of(&mut self, call: &ToolContext, journal: u64) -> Option<&mut ExecutionRecord> {
        let ticket = call.journal_position();
        let is_its = |record: &ExecutionRecord| {
            record.end.is_none()
                && record.call == *call.call_id()
                && record.cycle == call.cycle()
                && record.run == *call.run_id()
        };
        if ticket == 0 {
            return None;
        }
        if ticket >> PLACE_BITS == journal >> PLACE_BITS {
            let place = ticket & ((1 << PLACE_BITS) - 1);
            let at = usize::try_from(place.checked_sub(self.gone + 1)?).ok()?;
            return self.records.get_mut(at).filter(|record| is_its(record));
        }
        self.records.iter_mut().rev().find(|record| is_its(record))
    }
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

impl Journal for MemoryJournal {
    fn intend(&self, intended: &CallIntent<'_>) -> WriteStatus {
        let weight = memory_size_of(intended.arguments, self.max_bytes);
        // What a schema marks as secret cannot be told later, so it is taken out now.
        let now = intended.tool.input().marks_secrets();
        let mut intent = IntentRecord {
            arguments: if now { intended.arguments() } else { Arc::clone(intended.arguments) },
            class: intended.class,
            verdict: intended.verdict.clone(),
            repairs: intended.repairs.to_vec(),
            weight,
        };
        let (mut kept, at) = self.lock_at(intended.began);
        if !kept.knows(intended.redactor) {
            intent.arguments = intended.arguments();
        }
        let record = Self::record(intended.call, at);
        let place = self.keep(kept, ExecutionRecord { intent: Some(intent), ..record });
        intended.call.set_journal_position(self.id | place);
        WriteStatus::Now(Ok(()))
    }

    fn settle(&self, settled: &CallOutcome<'_>) -> WriteStatus {
        let answer = settled.answer;
        let failure = answer.failure();
        let end = OutcomeRecord {
            failed: failure.map(Failure::code),
            error: failure.map(|f| head(f.message(), MAX_MESSAGE_CHARS).to_owned()),
            cause: failure
                .and_then(Failure::cause)
                .map(|cause| head(&cause, MAX_MESSAGE_CHARS).to_owned()),
            output: answer.output().and_then(|output| head_of(output, self.output)),
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
        let (mut kept, at) = self.lock_at(settled.began);
        match kept.intent_of(settled.call, self.id) {
            Some(own) => {
                let before = own.memory_size();
                own.end = Some(end);
                own.policy = policy;
                let after = own.memory_size();
                kept.bytes = kept.bytes.saturating_add(after).saturating_sub(before);
                self.make_room(kept);
            }
            None => {
                let record = Self::record(settled.call, at);
                self.keep(kept, ExecutionRecord { policy, end: Some(end), ..record });
            }
        }
        WriteStatus::Now(Ok(()))
    }

    fn find(&self, query: &RecordQuery) -> Option<Vec<ExecutionRecord>> {
        Some(MemoryJournal::find(self, query))
    }
}

impl fmt::Debug for MemoryJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.lock();
        f.debug_struct("MemoryJournal")
            .field("records", &kept.records.len())
            .field("bytes", &kept.bytes)
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}
