//! The tool's own check of a call's meaning.
//!
//! In: the answer of the check, or why there is none. Out: nothing, or the failure for the model.
//!
//! FAIL CLOSED: a check that panics or times out refuses the call.

use haft_core::{Execution, Failure, FailureCode};

use crate::host_code::Stopped;

/// Reads the answer of a check.
pub(super) fn passed(answer: Result<Result<(), Failure>, Stopped>) -> Result<(), Failure> {
    match answer {
        Ok(checked) => checked.map_err(as_invalid),
        Err(Stopped::Cancelled(failure)) => Err(failure),
        Err(stopped) => Err(Failure::new(
            FailureCode::Panicked,
            "the tool's own check of the arguments failed, so it was not run",
        )
        .with_execution(Execution::NotStarted)
        .with_source(stopped.to_string())),
    }
}

/// An ordinary error of a check is about the meaning of the arguments, and nothing ran.
fn as_invalid(failure: Failure) -> Failure {
    if failure.code() == FailureCode::ToolFailed {
        let invalid = Failure::invalid(failure.message());
        match failure.next() {
            Some(next) => invalid.with_next(next),
            None => invalid,
        }
    } else {
        failure.with_execution(Execution::NotStarted)
    }
}
