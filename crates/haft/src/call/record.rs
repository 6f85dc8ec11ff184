//! Side effects of phases: notes for the model, problems for observers, a halt.
//!
//! Phases collect them here; the call emits and applies them. Empty for almost every call, so
//! it is a box that is allocated on first use.

use std::sync::Arc;

use serde_json::Value;

use crate::{hooks::HookEffects, secrets::Redactor, tool_result::ToolResult};

/// The model reads so much of what hosts say beside one result, in characters.
const MAX_NOTES_CHARS: usize = 10_000;

/// What is said beside a call.
#[derive(Default)]
pub(crate) struct Beside(Option<Box<Inner>>);

#[derive(Default)]
struct Inner {
    asides: Vec<String>,
    problems: Vec<(String, String)>,
    halt: Option<String>,
    arguments: Option<Arc<Value>>,
}

impl Beside {
    /// Takes in what a hook said.
    pub(crate) fn take(&mut self, hook: &str, said: HookEffects) {
        if said == HookEffects::nothing() {
            return;
        }
        let own = self.0.get_or_insert_default();
        own.asides.extend(said.aside);
        own.problems.extend(said.problem.map(|why| (hook.to_owned(), why)));
        if own.halt.is_none() {
            own.halt = said.halt;
        }
    }

    /// Adds words for the model.
    pub(super) fn add(&mut self, asides: &[String]) {
        if !asides.is_empty() {
            self.0.get_or_insert_default().asides.extend_from_slice(asides);
        }
    }

    /// Forgets the words for the model: they were about arguments that changed.
    pub(super) fn forget(&mut self) {
        if let Some(own) = &mut self.0 {
            own.asides.clear();
        }
    }

    /// Remembers the arguments as they are now, for the hooks that look back at the turn.
    pub(super) fn note(&mut self, arguments: &Arc<Value>) {
        self.0.get_or_insert_default().arguments = Some(Arc::clone(arguments));
    }

    /// Gives out the problems that have not been told yet, each with its hook.
    pub(super) fn problems(&mut self) -> Vec<(String, String)> {
        self.0.as_mut().map(|own| std::mem::take(&mut own.problems)).unwrap_or_default()
    }

    /// Gives out the reason to halt the run, once.
    pub(super) fn halt(&mut self) -> Option<String> {
        self.0.as_mut()?.halt.take()
    }

    /// Puts what was said into the answer. Words are for the model, so code that made the call
    /// (`to_model` false) does not get them mixed into its result.
    pub(super) fn put(self, envelope: &mut ToolResult, to_model: bool, redactor: &Redactor) {
        let Some(own) = self.0 else { return };
        if own.arguments.is_some() {
            envelope.left.get_or_insert_default().arguments = own.arguments;
        }
        if to_model {
            add_asides(envelope, &own.asides, redactor);
        }
    }
}

/// Adds words of the host to an answer. They stand beside it, so that nothing in a result can pass
/// for one of them.
pub(crate) fn add_asides(envelope: &mut ToolResult, asides: &[String], redactor: &Redactor) {
    // Before they are cut: half a secret is no longer known for one.
    let shown: Vec<String> = asides.iter().map(|text| redactor.text(text).into_owned()).collect();
    let words = words(&shown);
    if !words.is_empty() {
        envelope.left.get_or_insert_default().notes.extend(words);
    }
}

/// Cuts the asides to the room there is for all of them.
fn words(asides: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    let mut room = MAX_NOTES_CHARS;
    for aside in asides.iter().map(|aside| aside.trim()).filter(|aside| !aside.is_empty()) {
        if let Some((end, _)) = aside.char_indices().nth(room) {
            out.push(format!("{} … cut", &aside[..end]));
            break;
        }
        out.push(aside.to_owned());
        room -= aside.chars().count();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asides_are_bounded_together() {
        assert!(words(&["  ".to_owned()]).is_empty());
        assert_eq!(words(&[" a".to_owned(), "b".to_owned()]), ["a", "b"]);
        let long = words(&[
            "é".repeat(MAX_NOTES_CHARS - 1),
            "x".repeat(MAX_NOTES_CHARS),
            "never".to_owned(),
        ]);
        assert_eq!(long, ["é".repeat(MAX_NOTES_CHARS - 1), "x … cut".to_owned()]);
    }
}
