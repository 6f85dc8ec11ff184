//! Hooks after the body: each may transform the outcome, success or failure, in order.
//!
//! In: the answer of one hook. Out: the outcome for the next one. A transform that fails turns the
//! call into a failure whose body ran. Observers come later and cannot change anything.
//!
//! INVARIANT: a transform cannot change whether the body ran.

use haft_core::{Execution, Failure, FailureCode};

use super::record::HostNotes;
use crate::{
    hooks::{NamedHook, PostCallResult},
    host_code::Stopped,
    outcome::Outcome,
};

/// Returns whether the body ran, by its outcome.
pub(super) fn execution(outcome: &Outcome) -> Execution {
    outcome.as_ref().map_or_else(Failure::execution, |_| Execution::Completed)
}

/// Applies the answer of a hook to an outcome whose body ran like this.
pub(super) fn apply(
    hook: &NamedHook,
    ran: Execution,
    answer: Result<PostCallResult, Stopped>,
    notes: &mut HostNotes,
) -> Outcome {
    match answer {
        Ok(after) => {
            notes.add_effects(hook.name(), after.effects);
            after.outcome.map_err(|failure| match (failure.execution(), ran) {
                (Execution::NotStarted, ran) => failure.with_execution(ran),
                (_, Execution::Unknown) => failure.with_execution(Execution::Unknown),
                _ => failure,
            })
        }
        Err(stopped) => Err(failed(hook.name(), ran, &stopped.to_string())),
    }
}

/// The failure of a call whose result was lost because a hook failed.
pub(super) fn failed(hook: &str, ran: Execution, why: &str) -> Failure {
    Failure::new(
        FailureCode::HookFailed,
        "the tool ran, but code of the host failed afterwards, so its result is not available",
    )
    .with_execution(ran)
    .with_source(format!("hook `{hook}`: {why}"))
}
