//! The tool's own semantic check, immediately before the call is authorized.
//!
//! It may read external state, so it waits until earlier batches have changed it. A check that
//! fails stops the call: the body does not run.

use haft_core::{Execution, Failure, FailureCode};

use super::watch::{Stopped, watched};
use crate::turn::{TurnCore, ValidatedCall};

/// Runs the check.
pub(crate) async fn check(turn: &TurnCore, call: &ValidatedCall) -> Result<(), Failure> {
    let cx = call.context();
    let body = call.tool().body();
    if !body.checks() {
        return Ok(());
    }
    // Making the future runs the tool's code too, so it happens under the watch.
    let check = async { body.check(call.args(), cx).await };
    match watched(turn, cx, turn.inner.config.policy_timeout, check).await {
        Ok(said) => said.map_err(meaning),
        Err(Stopped::Cancelled(failure)) => Err(failure),
        Err(stopped) => Err(Failure::new(
            FailureCode::Panicked,
            "the tool's own check of the arguments failed, so it was not run",
        )
        .with_execution(Execution::NotStarted)
        .with_source(stopped.to_string())),
    }
}

/// An ordinary error in a check is about the meaning of the arguments, and nothing ran.
fn meaning(failure: Failure) -> Failure {
    if failure.code() == FailureCode::ToolFailed {
        let told = Failure::invalid(failure.message());
        match failure.next() {
            Some(next) => told.with_next(next),
            None => told,
        }
    } else {
        failure.with_execution(Execution::NotStarted)
    }
}
