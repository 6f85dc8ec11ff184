//! Makes the intent and the outcome of a call, and gives them to the journal.

use std::time::Instant;

use super::{AuthorizedCall, CallRecord};
use crate::{
    host_code::caught,
    journal::{CallIntent, CallOutcome, Journal, WriteStatus},
    secrets::RuntimeRedactor,
    tool_result::ToolResult,
};

impl<'a> CallIntent<'a> {
    /// Makes the intent of an authorized call.
    pub(crate) fn of(
        redactor: &'a RuntimeRedactor,
        call: &'a AuthorizedCall,
        began: Instant,
    ) -> Self {
        let validated = call.validated();
        Self {
            call: validated.context(),
            tool: validated.tool(),
            arguments: validated.frozen_arguments(),
            redactor,
            class: validated.profile().class,
            verdict: call.verdict(),
            repairs: validated.shared_repairs(),
            began,
        }
    }
}

impl<'a> CallOutcome<'a> {
    /// Makes the outcome of a call with this result.
    pub(crate) fn of(record: &'a CallRecord, answer: &'a ToolResult) -> Self {
        let policy = record.policy.as_deref();
        Self {
            call: &record.cx,
            answer,
            verdict: policy.map(|policy| &policy.verdict),
            explanation: policy.map(|policy| &policy.explanation),
            answered_by: policy.and_then(|policy| policy.answered_by.as_deref()),
            stats: record.stats.clone(),
            began: record.began,
        }
    }
}

/// Writes an intent. A journal that panics has not written it.
pub(crate) fn intend(journal: &dyn Journal, intent: &CallIntent<'_>) -> WriteStatus {
    caught(|| journal.intend(intent)).unwrap_or_else(|panic| WriteStatus::Now(Err(panic.into())))
}

/// Writes an outcome. A journal that panics has not written it.
pub(crate) fn settle(journal: &dyn Journal, outcome: &CallOutcome<'_>) -> WriteStatus {
    caught(|| journal.settle(outcome)).unwrap_or_else(|panic| WriteStatus::Now(Err(panic.into())))
}
