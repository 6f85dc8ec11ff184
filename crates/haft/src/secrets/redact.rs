//! Redacts what leaves the runtime: failures, verdicts, arguments, and through [`Redact`] events,
//! records and explanations, each in the file of its type.
//!
//! Most of this runs only for a call with observers.

use std::{cell::RefCell, ops::Deref, sync::Arc};

use haft_core::{Effect, Effects, Failure, SharedStr, ToolContext, Verdict, host::HostContext};
use haft_policy::Explanation;
use haft_sanitize::{Redactor, redaction_mark};
use serde_json::Value;

use super::{Secrets, references, scanned_cache::ScannedCache};
use crate::schema::{Repair, Schema};

/// The redactor of a runtime: a [`Redactor`] that remembers which shared strings have no secret.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuntimeRedactor {
    redactor: Redactor,
    secrets: Secrets,
    scanned: Arc<ScannedCache>,
}

/// A value that can redact its own texts.
pub(crate) trait Redact {
    /// Redacts every text that a person or an observer reads.
    fn redact(&mut self, redactor: &RuntimeRedactor);
}

impl Redact for Explanation {
    fn redact(&mut self, redactor: &RuntimeRedactor) {
        redactor.explanation(self, &[]);
    }
}

impl RuntimeRedactor {
    pub(crate) fn new(secrets: Secrets) -> Self {
        let redactor = Redactor::new(secrets.clone());
        Self { redactor, secrets, scanned: Arc::default() }
    }

    /// Returns the redactor for texts about a call: that of its runtime, if it belongs to one.
    pub(crate) fn of(cx: &ToolContext) -> Self {
        cx.service::<Self>().cloned().unwrap_or_default()
    }

    /// Returns the secrets of the runtime.
    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Returns a redacted verdict.
    pub(crate) fn verdict(&self, mut verdict: Verdict) -> Verdict {
        verdict.redact(self);
        verdict
    }

    /// Redacts every text of an explanation, and replaces the secret arguments of the call by their
    /// marks.
    pub(crate) fn explanation(&self, explanation: &mut Explanation, secret: &[(String, String)]) {
        explanation.change_texts(|text| {
            text.redact(self);
            for (value, mark) in secret {
                if text.contains(value.as_str()) {
                    *text = text.replace(value.as_str(), mark);
                }
            }
        });
    }

    /// Returns a failure with redacted text.
    pub(crate) fn failure(&self, failure: Failure) -> Failure {
        failure.reworded(|text| self.message(text))
    }

    /// Returns the redacted arguments of a call: fields that the tool's schema marks as secret are
    /// replaced, whatever their content.
    pub(crate) fn arguments(&self, input: &Schema, arguments: &Arc<Value>) -> Arc<Value> {
        let masked = input.masked(arguments, &|value| {
            let len = match value {
                Value::String(text) => text.len(),
                other => other.to_string().len(),
            };
            // A reference is not the secret, and shows which one is used.
            match value.as_str().and_then(references::secret_name) {
                Some(_) => value.clone(),
                None => Value::String(redaction_mark(SECRET_ARGUMENT, len)),
            }
        });
        match (self.json(masked.as_ref().unwrap_or(arguments)), masked) {
            (Some(shown), _) | (None, Some(shown)) => Arc::new(shown),
            (None, None) => Arc::clone(arguments),
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
        let is_clean = |repair: &Repair| {
            self.message(&repair.before).is_none()
                && self.message(&repair.pointer).is_none()
                && repair.after.as_deref().and_then(|text| self.message(text)).is_none()
        };
        if repairs.iter().all(is_clean) {
            return None;
        }
        let mut all = repairs.to_vec();
        for repair in &mut all {
            repair.before.redact(self);
            repair.pointer.redact(self);
            repair.after.redact(self);
        }
        Some(all)
    }
}

impl Deref for RuntimeRedactor {
    type Target = Redactor;

    fn deref(&self) -> &Redactor {
        &self.redactor
    }
}

impl Redact for String {
    fn redact(&mut self, redactor: &RuntimeRedactor) {
        if let Some(changed) = redactor.message(self) {
            *self = changed;
        }
    }
}

impl Redact for SharedStr {
    fn redact(&mut self, redactor: &RuntimeRedactor) {
        // Read before the scan: a change in between invalidates the result.
        let version = redactor.secrets.known().version();
        if redactor.scanned.has(self, version) {
            return;
        }
        match redactor.message(self) {
            Some(changed) => *self = changed.into(),
            None => redactor.scanned.remember(self, version),
        }
    }
}

impl<T: Redact> Redact for Option<T> {
    fn redact(&mut self, redactor: &RuntimeRedactor) {
        self.iter_mut().for_each(|value| value.redact(redactor));
    }
}

impl Redact for Verdict {
    fn redact(&mut self, redactor: &RuntimeRedactor) {
        self.reason.redact(redactor);
        self.source.redact(redactor);
    }
}

/// The rule name in the mark of an argument that the schema marks as secret.
const SECRET_ARGUMENT: &str = "secret-argument";
/// Shorter secret arguments occur in ordinary text by chance.
const MIN_ARGUMENT_BYTES: usize = 4;

/// Returns the argument texts that the schema marks as secret, each with its mark. Short ones are
/// skipped.
pub(crate) fn secret_arguments(input: &Schema, arguments: &Value) -> Vec<(String, String)> {
    let found = RefCell::new(Vec::new());
    let _ = input.masked(arguments, &|value| {
        let mut open = vec![value];
        while let Some(value) = open.pop() {
            match value {
                Value::String(text) if text.len() >= MIN_ARGUMENT_BYTES => {
                    let mark = redaction_mark(SECRET_ARGUMENT, text.len());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_failure_does_not_end_in_half_a_secret() {
        let secrets = Secrets::new();
        secrets.add("long", "0123456789abcdef").unwrap();
        let redactor = RuntimeRedactor::new(secrets);
        let text = format!("{}0123456789abcdef and so on", "x".repeat(3_990));
        let failure = redactor.failure(Failure::failed(text).with_next("use 0123456789abcdef"));
        assert!(!failure.message().contains("0123"), "{}", &failure.message()[3_980..]);
        assert!(failure.message().ends_with("bytes in all)"));
        assert_eq!(failure.next(), Some("use [REDACTED:secret/long:16]"));
        let failure = redactor.failure(Failure::hidden("it was 0123456789abcdef"));
        assert_eq!(failure.cause().unwrap(), "it was [REDACTED:secret/long:16]");
    }
}
