//! One record of the memory journal: a slot of its ring, which the next record is written over.

use std::{sync::Arc, time::Instant};

use haft_core::{
    CallId, ConcurrencyClass, Failure, RunId, ToolContext, ToolName, Verdict, host::HostContext,
};
use serde_json::Value;

use super::super::{
    CallOutcome,
    record::{ExecutionRecord, IntentRecord, OutcomeRecord, PolicyRecord},
};
use crate::{clock::Anchor, schema::Repair, text::head};

/// The maximum length of a failure message that is kept, in characters.
const MAX_MESSAGE_CHARS: usize = 2_000;

/// One call. Its date is computed when it is read.
pub(super) struct Slot {
    run: RunId,
    cycle: u32,
    depth: u32,
    agent_path: Arc<[String]>,
    call: CallId,
    requested_name: ToolName,
    tool_name: ToolName,
    began: Instant,
    anchor: Anchor,
    pub(super) intent: Option<SlotIntent>,
    pub(super) policy: Option<Box<PolicyRecord>>,
    pub(super) end: Option<OutcomeRecord>,
    /// The arguments of the intent and the output of the end, as text. The next record in this slot
    /// uses the same memory.
    pub(super) arguments: String,
    pub(super) output: String,
    /// About how many bytes it takes.
    pub(super) weight: usize,
}

/// What a call was about to do.
pub(super) struct SlotIntent {
    /// The arguments, shared with the call. `None` if the slot has them as text.
    pub(super) arguments: Option<Arc<Value>>,
    pub(super) class: ConcurrencyClass,
    pub(super) verdict: Verdict,
    pub(super) repairs: Option<Arc<[Repair]>>,
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

impl Slot {
    pub(super) fn of(call: &ToolContext, began: Instant, anchor: Anchor) -> Self {
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
    pub(super) fn replace(&mut self, call: &ToolContext, began: Instant, anchor: Anchor) {
        let scope = call.scope();
        if !Arc::ptr_eq(&self.agent_path, &scope.agent_path) {
            self.agent_path = Arc::clone(&scope.agent_path);
        }
        self.run = scope.run.clone();
        self.call = call.call_id().clone();
        self.requested_name = call.requested_name().clone();
        self.tool_name = call.tool_name().clone();
        (self.cycle, self.depth) = (scope.cycle, scope.depth);
        (self.began, self.anchor) = (began, anchor);
    }

    /// Returns whether it is the open intent of this call.
    pub(super) fn is_intent_of(&self, call: &ToolContext) -> bool {
        self.end.is_none()
            && self.call == *call.call_id()
            && self.cycle == call.cycle()
            && self.run == *call.run_id()
    }

    /// Estimates the size of a record without intent and end. A model may make up a name or an id
    /// of any length. The name of the tool is the same text, or one that a tool has.
    pub(super) fn base_size(&self) -> usize {
        size_of::<Self>() + self.call.as_str().len() + self.requested_name.as_str().len()
    }

    /// Writes how the call ended. Returns about how many bytes that takes.
    #[inline(always)]
    pub(super) fn set_end(&mut self, settled: &CallOutcome<'_>, output: Option<&str>) -> usize {
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
    pub(super) fn record(&self, has_output: bool) -> ExecutionRecord {
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
