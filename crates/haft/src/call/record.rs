//! `CallRecord`: the one place where facts about a call are collected.
//!
//! Phases read it and add to it. The result, the journal's record, the spans and the last event are
//! made from it at the end.

use std::{cell::Cell, sync::Arc, time::Instant};

use haft_core::{CallProfile, ToolContext};
use serde_json::Value;

use crate::{
    budget::BudgetReservation, call::TurnCore, frame::Seal, hooks::HookEffects,
    journal::PolicyRecord, outcome::ExecutionStats, registry::RegisteredTool, schema::Repair,
    secrets::Redactor, tool_result::ToolResult,
};

/// The model reads at most this much of the host's notes on one result, in characters.
const MAX_NOTES_CHARS: usize = 10_000;

/// Facts about one call.
pub(crate) struct CallRecord {
    pub(crate) cx: ToolContext,
    pub(crate) origin: CallOrigin,
    pub(crate) began: Instant,
    /// The time of the current phase. Code of the host may take long, so it is read again after it.
    now: Cell<Option<Instant>>,
    /// The tool; `None` for a call that was never valid.
    pub(crate) tool: Option<Arc<RegisteredTool>>,
    /// The repairs, redacted.
    pub(crate) repairs: Option<Arc<[Repair]>>,
    /// The authorization of a call that was refused or needed approval. Calls that the rules allow
    /// without approval have none.
    pub(crate) policy: Option<Box<PolicyRecord>>,
    /// Whether an approver's answer replaces the result of the tool.
    pub(crate) is_replaced: bool,
    /// Whether the open approval request is counted against `max_prompts`. A call keeps it when it
    /// is parked, so that its request counts once.
    pub(crate) is_counted: bool,
    /// The hook that replaced the failure of a call whose body did not run.
    pub(crate) replaced_by_hook: Option<Arc<str>>,
    pub(crate) notes: HostNotes,
    pub(crate) stats: ExecutionStats,
    /// What the call has reserved of the budget.
    pub(crate) reservation: Option<Box<BudgetReservation>>,
    pub(crate) frame: Seal,
}

/// Who made a call.
pub(crate) enum CallOrigin {
    /// The model.
    Model,
    /// The body of another call.
    Nested(Arc<Parent>),
    /// It is not a call of its own, but the late result of one.
    Background,
}

/// The call that a nested call is part of.
pub(crate) struct Parent {
    pub(crate) cx: ToolContext,
    pub(crate) profile: CallProfile,
    pub(crate) deadline: Option<Instant>,
}

impl CallRecord {
    #[inline]
    pub(super) fn new(
        turn: &TurnCore,
        cx: ToolContext,
        origin: CallOrigin,
        tool: Option<Arc<RegisteredTool>>,
        reservation: Option<Box<BudgetReservation>>,
    ) -> Self {
        let began = turn.run.inner.clock.now();
        Self {
            cx,
            origin,
            began,
            now: Cell::new(Some(began)),
            tool,
            repairs: None,
            policy: None,
            is_replaced: false,
            is_counted: false,
            replaced_by_hook: None,
            notes: HostNotes::default(),
            stats: ExecutionStats::default(),
            reservation,
            frame: Seal::draw(turn.run.inner.config.frame, &turn.run.inner.nonces),
        }
    }

    /// Returns the time of the current phase.
    pub(crate) fn moment(&self, turn: &TurnCore) -> Instant {
        self.now.get().unwrap_or_else(|| {
            let now = turn.run.inner.clock.now();
            self.now.set(Some(now));
            now
        })
    }

    /// Forgets the time, because code of the host runs or the call waits.
    pub(crate) fn forget_moment(&self) {
        self.now.set(None);
    }

    /// Returns the call that this one is nested in.
    pub(crate) fn parent(&self) -> Option<&Parent> {
        match &self.origin {
            CallOrigin::Nested(parent) => Some(parent),
            CallOrigin::Model | CallOrigin::Background => None,
        }
    }

    /// Returns the call that this one is nested in, shared.
    pub(super) fn shared_parent(&self) -> Option<Arc<Parent>> {
        match &self.origin {
            CallOrigin::Nested(parent) => Some(Arc::clone(parent)),
            CallOrigin::Model | CallOrigin::Background => None,
        }
    }

    /// Returns whether it is the late result of a call.
    pub(super) fn is_task(&self) -> bool {
        matches!(self.origin, CallOrigin::Background)
    }

    /// Returns who answered in place of the tool.
    pub(super) fn replaced_by(&self, is_success: bool) -> Option<Arc<str>> {
        if is_success && self.replaced_by_hook.is_some() {
            return self.replaced_by_hook.clone();
        }
        if self.stats.answered_by.is_some() && is_success {
            return self.stats.replaced_by();
        }
        self.policy.as_ref().filter(|_| self.is_replaced).and_then(|p| p.answered_by.clone())
    }
}

/// Notes for the model, problems for observers, a halt of the run. Empty for almost every call, so
/// it is a box that is allocated on first use.
#[derive(Default)]
pub(crate) struct HostNotes(Option<Box<Notes>>);

#[derive(Default)]
struct Notes {
    texts: Vec<String>,
    problems: Vec<(String, String)>,
    halt: Option<String>,
    arguments: Option<Arc<Value>>,
}

impl HostNotes {
    /// Adds the effects of a hook.
    pub(super) fn add_effects(&mut self, hook: &str, effects: HookEffects) {
        if effects.is_nothing() {
            return;
        }
        let own = self.0.get_or_insert_default();
        own.texts.extend(effects.aside);
        own.problems.extend(effects.problem.map(|why| (hook.to_owned(), why)));
        if own.halt.is_none() {
            own.halt = effects.halt;
        }
    }

    /// Adds a note for the model.
    pub(super) fn add_text(&mut self, text: String) {
        self.0.get_or_insert_default().texts.push(text);
    }

    /// Takes the notes for the model.
    pub(super) fn take_texts(&mut self) -> Vec<String> {
        self.0.as_mut().map(|own| std::mem::take(&mut own.texts)).unwrap_or_default()
    }

    /// Removes the notes for the model: they were about arguments that changed.
    pub(super) fn clear_texts(&mut self) {
        if let Some(own) = &mut self.0 {
            own.texts.clear();
        }
    }

    /// Keeps the arguments as they are now, for the hooks at the end of the turn.
    pub(super) fn set_arguments(&mut self, arguments: &Arc<Value>) {
        self.0.get_or_insert_default().arguments = Some(Arc::clone(arguments));
    }

    /// Takes the problems that were not reported yet, each with its hook.
    pub(super) fn take_problems(&mut self) -> Vec<(String, String)> {
        self.0.as_mut().map(|own| std::mem::take(&mut own.problems)).unwrap_or_default()
    }

    /// Takes the reason to halt the run, once.
    pub(super) fn take_halt(&mut self) -> Option<String> {
        self.0.as_mut()?.halt.take()
    }

    /// Moves the notes to the result. They are for the model, so code that made the call
    /// (`for_model` false) does not get them.
    pub(super) fn move_to(
        &mut self,
        result: &mut ToolResult,
        for_model: bool,
        redactor: &Redactor,
    ) {
        let Some(own) = self.0.take() else { return };
        if own.arguments.is_some() {
            result.left.get_or_insert_default().arguments = own.arguments;
        }
        if for_model {
            add_notes(result, &own.texts, redactor);
        }
    }
}

/// Adds notes of the host to a result. They are separate from it, so that nothing in a result can
/// pass for one of them (prompt injection).
pub(crate) fn add_notes(result: &mut ToolResult, texts: &[String], redactor: &Redactor) {
    // Redacted before they are truncated: half a secret would not be recognized.
    let shown: Vec<String> = texts.iter().map(|text| redactor.text(text).into_owned()).collect();
    let notes = truncate(&shown);
    if !notes.is_empty() {
        result.left.get_or_insert_default().notes.extend(notes);
    }
}

/// Truncates the notes to their common limit.
fn truncate(texts: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    let mut left = MAX_NOTES_CHARS;
    for text in texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
        if let Some((end, _)) = text.char_indices().nth(left) {
            out.push(format!("{} … cut", &text[..end]));
            break;
        }
        out.push(text.to_owned());
        left -= text.chars().count();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_bounded_together() {
        assert!(truncate(&["  ".to_owned()]).is_empty());
        assert_eq!(truncate(&[" a".to_owned(), "b".to_owned()]), ["a", "b"]);
        let long = truncate(&[
            "é".repeat(MAX_NOTES_CHARS - 1),
            "x".repeat(MAX_NOTES_CHARS),
            "never".to_owned(),
        ]);
        assert_eq!(long, ["é".repeat(MAX_NOTES_CHARS - 1), "x … cut".to_owned()]);
    }
}
