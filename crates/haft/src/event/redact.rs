//! Redacts an event before observers receive it.

use haft_core::Progress;

use super::Event;
use crate::secrets::{Redact, RuntimeRedactor};

/// The arguments of a call are redacted where the event is made, because that needs the tool's
/// schema; streamed output where it is emitted, because a secret may span several pieces.
impl Redact for Event {
    fn redact(&mut self, redactor: &RuntimeRedactor) {
        match self {
            Event::Problem { message, .. } => message.redact(redactor),
            Event::HookFailedOpen { why, .. } => why.redact(redactor),
            Event::Asked { verdict, .. }
            | Event::Refused { verdict, .. }
            | Event::Authorized { verdict, .. } => verdict.redact(redactor),
            Event::Answered { comment, .. } => comment.redact(redactor),
            Event::Progress { note: Progress::Progress(_, text), .. }
            | Event::Deferred { summary: text, .. } => text.redact(redactor),
            Event::Finished { cause, .. } => cause.redact(redactor),
            Event::Repaired { repairs, .. } => {
                if let Some(changed) = redactor.repairs(repairs) {
                    *repairs = changed.into();
                }
            }
            _ => {}
        }
    }
}
