//! Redacts what people and observers receive: events, verdicts, explanations, notes.
//!
//! None of this runs for a call without observers.

use std::sync::Arc;

use haft_core::{Effect, Effects, Progress, Verdict, Words};
use serde_json::Value;

use super::Redactor;
use crate::{
    event::Event, journal::ExecutionRecord, policy::Explanation, registry::RegisteredTool,
    schema::Repair,
};

impl Redactor {
    fn redact_in_place(&self, text: &mut String) {
        if let Some(changed) = self.told(text) {
            *text = changed;
        }
    }

    fn redact_shared(&self, text: &mut Words) {
        // Read before the scan: a change in between invalidates the result.
        let changes = self.secrets.changes();
        if self.clean.has(text, changes) {
            return;
        }
        match self.told(text) {
            Some(changed) => *text = changed.into(),
            None => self.clean.remember(text, changes),
        }
    }

    /// Returns a redacted verdict.
    pub(crate) fn verdict(&self, mut verdict: Verdict) -> Verdict {
        self.redact_shared(&mut verdict.reason);
        self.redact_shared(&mut verdict.source);
        verdict
    }

    /// Redacts an explanation. Values that the schema of the tool marks as secret are redacted from
    /// its text too, unless they are too short.
    pub(crate) fn explanation(
        &self,
        explanation: &mut Explanation,
        call: Option<(&RegisteredTool, &Arc<Value>)>,
    ) {
        let hidden =
            call.map(|(tool, arguments)| secret_texts(tool, arguments)).unwrap_or_default();
        let redact_in_place = |text: &mut String| {
            self.redact_in_place(text);
            for (value, mark) in &hidden {
                if text.contains(value.as_str()) {
                    *text = text.replace(value.as_str(), mark);
                }
            }
        };
        let said = &mut explanation.verdict;
        for text in [&mut said.reason, &mut said.source] {
            let mut own = text.to_string();
            redact_in_place(&mut own);
            if own != **text {
                *text = own.into();
            }
        }
        for check in &mut explanation.checks {
            redact_in_place(&mut check.why);
        }
        for near in &mut explanation.near {
            redact_in_place(&mut near.missing);
        }
        explanation.flip.iter_mut().for_each(redact_in_place);
        explanation.risk.iter_mut().for_each(redact_in_place);
        explanation.tainted_by.iter_mut().for_each(redact_in_place);
    }

    /// Redacts an event. The arguments of a call are redacted where the event is made, because that
    /// needs the tool's schema; streamed output where it is emitted, because a secret may span
    /// several pieces.
    pub(crate) fn event(&self, event: &mut Event) {
        match event {
            Event::Problem { message, .. } => self.redact_in_place(message),
            Event::HookFailedOpen { why, .. } => self.redact_in_place(why),
            Event::Asked { verdict, .. }
            | Event::Refused { verdict, .. }
            | Event::Permitted { verdict, .. } => {
                self.redact_shared(&mut verdict.reason);
                self.redact_shared(&mut verdict.source);
            }
            Event::Answered { comment, .. } => {
                comment.iter_mut().for_each(|text| self.redact_in_place(text))
            }
            Event::Progress { note: Progress::Progress(_, text), .. }
            | Event::Deferred { summary: text, .. } => self.redact_in_place(text),
            Event::Finished { cause, .. } => {
                cause.iter_mut().for_each(|text| self.redact_in_place(text))
            }
            Event::Repaired { repairs, .. } => {
                if let Some(changed) = self.repairs(repairs) {
                    *repairs = changed.into();
                }
            }
            _ => {}
        }
    }

    /// Redacts a record. Most of it was redacted when it was made; a secret that was added since is
    /// redacted as well.
    pub(crate) fn record(&self, record: &mut ExecutionRecord) {
        if let Some(intent) = &mut record.intent {
            if let Some(shown) = self.json(&intent.arguments) {
                intent.arguments = Arc::new(shown);
            }
            self.redact_shared(&mut intent.verdict.reason);
            self.redact_shared(&mut intent.verdict.source);
            if let Some(shown) = self.repairs(&intent.repairs) {
                intent.repairs = shown;
            }
        }
        if let Some(judged) = &mut record.judged {
            self.redact_shared(&mut judged.verdict.reason);
            self.redact_shared(&mut judged.verdict.source);
            self.explanation(Arc::make_mut(&mut judged.explanation), None);
        }
        if let Some(end) = &mut record.end {
            end.error.iter_mut().for_each(|text| self.redact_in_place(text));
            end.cause.iter_mut().for_each(|text| self.redact_in_place(text));
            if let Some(changed) = end.output.as_deref().and_then(|text| self.changed(text)) {
                end.output = Some(changed.into());
            }
        }
    }

    /// Returns effects with redacted targets: a URL may contain a key.
    pub(crate) fn effects(&self, effects: &Effects) -> Effects {
        let Effects::Declared(list) = effects else { return effects.clone() };
        let target = |effect: &Effect| effect.target.as_deref().and_then(|text| self.changed(text));
        if !list.iter().any(|effect| target(effect).is_some()) {
            return effects.clone();
        }
        let mut shown = list.to_vec();
        for effect in &mut shown {
            if let Some(text) = target(effect) {
                effect.target = Some(text);
            }
        }
        Effects::Declared(shown.into())
    }

    /// Returns redacted repairs; `None` if nothing changes.
    pub(crate) fn repairs(&self, repairs: &[Repair]) -> Option<Vec<Repair>> {
        let is_open = |repair: &Repair| {
            self.told(&repair.before).is_none()
                && self.told(&repair.pointer).is_none()
                && repair.after.as_deref().and_then(|text| self.told(text)).is_none()
        };
        if repairs.iter().all(is_open) {
            return None;
        }
        let mut all = repairs.to_vec();
        for repair in &mut all {
            self.redact_in_place(&mut repair.before);
            self.redact_in_place(&mut repair.pointer);
            repair.after.iter_mut().for_each(|text| self.redact_in_place(text));
        }
        Some(all)
    }
}

/// The texts that the schema marks as secret, each with its mark. Short ones are skipped, because
/// they occur in ordinary text by chance.
fn secret_texts(tool: &RegisteredTool, arguments: &Arc<Value>) -> Vec<(String, String)> {
    let found = std::cell::RefCell::new(Vec::new());
    let _ = tool.input().masked(arguments, &|value| {
        let mut open = vec![value];
        while let Some(value) = open.pop() {
            match value {
                Value::String(text) if text.len() >= 4 => {
                    let mark = super::mark("secret-argument", text.len());
                    found.borrow_mut().push((text.clone(), mark));
                }
                Value::Array(items) => open.extend(items),
                Value::Object(map) => open.extend(map.values()),
                _ => {}
            }
        }
        Value::Null
    });
    found.into_inner()
}
