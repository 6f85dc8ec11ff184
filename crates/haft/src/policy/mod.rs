//! Who may say whether a call runs: policies, guards, approvers.
//!
//! A policy is pure: the same call gets the same verdict. A guard may look around. An approver asks
//! somebody. The strictest verdict wins, and silence or trouble in any of them is a no.

mod default;

use haft_core::{BoxFuture, Failure, Scope, Verdict};
use serde_json::Value;

pub use self::default::{AllowEverything, DefaultPolicy};
use crate::{catalog::Entry, turn::Admitted};

/// Judges calls by rules alone.
pub trait Policy: Send + Sync + 'static {
    /// Judges one call.
    fn judge(&self, call: &Admitted) -> Verdict;

    /// Returns why a tool is refused whatever its arguments, so that it is not even offered.
    fn hides(&self, _tool: &Entry, _scope: &Scope) -> Option<String> {
        None
    }

    /// Returns whether `hides` may ever hide something; the walk skips it otherwise.
    fn hides_tools(&self) -> bool {
        false
    }
}

/// Judges calls with a look at the world. Added to the runtime, it sees every call.
pub trait Guard: Send + Sync + 'static {
    /// Returns its name, for verdicts and records.
    fn name(&self) -> &str;

    /// Judges one call; nothing means no opinion, an error refuses it.
    fn judge<'a>(&'a self, call: &'a Admitted) -> BoxFuture<'a, Result<Option<Verdict>, Failure>>;
}

/// What somebody is asked.
#[derive(Debug)]
#[non_exhaustive]
pub struct Question<'a> {
    /// The call.
    pub call: &'a Admitted,
    /// Why it is asked about. For `need_input` it names the argument that is wanted.
    pub verdict: &'a Verdict,
}

/// What somebody answered.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// Run it as it is.
    Allow,
    /// Run it with these arguments; they are admitted and judged again.
    Edit(Value),
    /// The value of the argument that was asked for.
    Input(Value),
    /// Do not run it; the comment is told to the model.
    Deny(Option<String>),
}

/// Asks somebody. Without one, whatever asks is denied.
pub trait Approver: Send + Sync + 'static {
    /// Asks and waits for the answer.
    fn ask<'a>(&'a self, question: &'a Question<'a>) -> BoxFuture<'a, Result<Answer, Failure>>;
}
