//! What is said beside a call on its way: words for the model, problems for observers, a halt.
//!
//! Phases put it here; the hub tells and carries it out. Empty for almost every call, so it is a
//! box that is made when somebody speaks.

use std::sync::Arc;

use haft_core::Block;
use serde_json::Value;

use crate::{
    envelope::{Answer, Envelope},
    hooks::Said,
    redact::Redactor,
};

/// The model reads so much of what hosts say beside one result, in characters.
const ROOM: usize = 10_000;

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
    pub(crate) fn take(&mut self, hook: &str, said: Said) {
        if said == Said::nothing() {
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
    pub(super) fn put(self, envelope: &mut Envelope, to_model: bool, redactor: &Redactor) {
        let Some(own) = self.0 else { return };
        if own.arguments.is_some() {
            envelope.left.get_or_insert_default().arguments = own.arguments;
        }
        if to_model {
            add_asides(envelope, &own.asides, redactor);
        }
    }
}

/// Adds words of the host to an answer: a block after the output, or lines below the failure.
pub(crate) fn add_asides(envelope: &mut Envelope, asides: &[String], redactor: &Redactor) {
    let Some(text) = words(asides) else { return };
    let text = redactor.text(&text).into_owned();
    match &mut envelope.outcome {
        Answer::Output(output) => output.blocks.push(Block::text(text)),
        Answer::Failure { .. } => {
            let note = &mut envelope.left.get_or_insert_default().note;
            if !note.is_empty() {
                note.push('\n');
            }
            note.push_str(&text);
        }
    }
}

/// Marks each aside as the host's, within the room there is for all of them.
fn words(asides: &[String]) -> Option<String> {
    let mut out = String::new();
    let mut room = ROOM;
    for aside in asides.iter().map(|aside| aside.trim()).filter(|aside| !aside.is_empty()) {
        if !out.is_empty() {
            out.push('\n');
        }
        let end = aside.char_indices().nth(room).map(|(at, _)| at);
        let shown = &aside[..end.unwrap_or(aside.len())];
        out.push_str("[note from the host: ");
        out.push_str(shown);
        if end.is_some() {
            out.push_str(" … cut]");
            break;
        }
        out.push(']');
        room -= shown.chars().count();
    }
    (!out.is_empty()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asides_are_marked_and_bounded_together() {
        assert_eq!(words(&["  ".to_owned()]), None);
        assert_eq!(
            words(&["a".to_owned(), "b".to_owned()]).unwrap(),
            "[note from the host: a]\n[note from the host: b]"
        );
        let long = words(&["é".repeat(ROOM - 1), "x".repeat(ROOM), "never".to_owned()]).unwrap();
        assert!(long.ends_with("[note from the host: x … cut]"), "{}", &long[long.len() - 60..]);
        assert_eq!(long.matches('é').count(), ROOM - 1);
    }
}
