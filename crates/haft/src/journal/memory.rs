//! A journal in memory: the last so many calls, and nothing after the process ends.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_core::{CallId, Class, Code, Context, Failure, Ran, RunId, ToolName, Verdict};
use serde::Serialize;
use serde_json::Value;

use super::{Intended, Journal, Settled, Written};
use crate::{envelope::Cut, fit::Repair, policy::Explanation};

/// What is kept of one call.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Record {
    /// The run.
    pub run: RunId,
    /// Which turn of it.
    pub cycle: u32,
    /// The call.
    pub call: CallId,
    /// The name the model wrote.
    pub called: ToolName,
    /// The tool it meant.
    pub meant: ToolName,
    /// What it was about to do; nothing for a call that was never to run.
    pub intent: Option<Intention>,
    /// What the judges came to: for a call that was refused or asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The same in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Arc<Explanation>>,
    /// Who was asked and answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    /// How it ended; nothing while it has not.
    pub end: Option<End>,
}

/// What a call was about to do.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Intention {
    /// The frozen arguments.
    pub arguments: Arc<Value>,
    /// How it shares the floor.
    pub class: Class,
    /// Who allowed it, and why.
    pub verdict: Verdict,
    /// What was changed in the model's arguments so that they could be read or fit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<Repair>,
}

/// How a call ended.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct End {
    /// The failure's code; nothing for a success.
    pub failed: Option<Code>,
    /// What the model was told of a failure.
    pub error: Option<String>,
    /// What is behind the failure, for the operator alone.
    pub cause: Option<String>,
    /// Whether the body ran.
    pub ran: Ran,
    /// How long the walk took.
    pub elapsed: Duration,
    /// How much of the result is not shown, and where all of it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Box<Cut>>,
}

/// Keeps the last calls in memory. Clones share what they keep.
#[derive(Debug, Clone)]
pub struct MemoryJournal {
    kept: Arc<Mutex<VecDeque<Record>>>,
    max: usize,
}

impl MemoryJournal {
    /// Keeps at most this many calls.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { kept: Arc::default(), max }
    }

    /// Returns what is kept, oldest first.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        self.lock().iter().cloned().collect()
    }

    fn keep(&self, mut kept: MutexGuard<'_, VecDeque<Record>>, record: Record) {
        let oldest = if kept.len() >= self.max { kept.pop_front() } else { None };
        if self.max > 0 {
            kept.push_back(record);
        }
        drop(kept);
        // Freed after the lock: a record may hold large arguments.
        drop(oldest);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Record>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn record(call: &Context, intent: Option<Intention>, end: Option<End>) -> Record {
    Record {
        run: call.run_id().clone(),
        cycle: call.cycle(),
        call: call.call_id().clone(),
        called: call.called().clone(),
        meant: call.meant().clone(),
        intent,
        verdict: None,
        explanation: None,
        answered_by: None,
        end,
    }
}

impl Journal for MemoryJournal {
    fn intend(&self, intended: &Intended<'_>) -> Written<'_> {
        let intent = Intention {
            arguments: Arc::clone(intended.arguments),
            class: intended.class,
            verdict: intended.verdict.clone(),
            repairs: intended.repairs.to_vec(),
        };
        self.keep(self.lock(), record(intended.call, Some(intent), None));
        Written::Now(Ok(()))
    }

    fn settle(&self, settled: &Settled<'_>) -> Written<'_> {
        let failure = settled.answer.failure();
        let end = End {
            failed: failure.map(Failure::code),
            error: failure.map(|f| f.message().to_owned()),
            cause: failure.and_then(Failure::cause),
            ran: settled.answer.ran(),
            elapsed: settled.answer.elapsed(),
            cut: settled.answer.cut.clone(),
        };
        let call = settled.call;
        let mut kept = self.lock();
        // The call's own intent is among the last, unless it has none.
        let own = kept.iter_mut().rev().find(|r| {
            r.end.is_none()
                && r.call == *call.call_id()
                && r.cycle == call.cycle()
                && r.run == *call.run_id()
        });
        let verdict = settled.verdict.cloned();
        let explanation = settled.explanation.cloned();
        let answered_by = settled.answered_by.map(str::to_owned);
        match own {
            Some(own) => {
                own.end = Some(end);
                own.verdict = verdict;
                own.explanation = explanation;
                own.answered_by = answered_by;
            }
            None => {
                let record = record(call, None, Some(end));
                self.keep(kept, Record { verdict, explanation, answered_by, ..record });
            }
        }
        Written::Now(Ok(()))
    }
}
