//! Executes an authorized call through the layers, and releases its locks and slots at the end.
//!
//! In: an `AuthorizedCall`, a journaled `Intent`, its scheduler locks. Out: the outcome and its
//! statistics.

use std::{sync::Arc, time::Instant};

use haft_core::{Execution, Failure, FailureCode, host::HostContext};

use super::{acquire::Entered, authorize::AuthorizedCall};
use crate::{
    background,
    journal::Intent,
    layers::{self, ExecutionStats, Outcome, Work},
    secrets,
    turn::TurnCore,
};

/// Performs the call. A plain function, so that its future holds each of these once.
pub(super) fn perform<'a>(
    turn: &'a Arc<TurnCore>,
    mut permitted: AuthorizedCall,
    _intent: Intent,
    mut entered: Entered<'a>,
    deadline: Instant,
    course: &'a mut ExecutionStats,
) -> impl Future<Output = Outcome> + Send + 'a {
    let first = permitted.take_args();
    async move {
        let admitted = permitted.admitted();
        let (entry, cx) = (admitted.tool(), admitted.context());
        // At the last moment: whoever judged, asked or wrote down saw the reference.
        let first = match secrets::resolve(&turn.inner.redactor, entry, admitted.arguments())? {
            Some(args) => args,
            None => first,
        };
        cx.set_profile(admitted.profile().clone());
        cx.set_confined(permitted.verdict().confined);
        let work = Work { turn, permitted: &permitted, entry, cx, deadline };
        let outcome = match layers::is_plain(&work) {
            true => {
                let outcome = layers::straight(&work, first, course).await;
                layers::ended(&work, &outcome);
                outcome
            }
            false => Box::pin(layers::through(&work, first, course)).await,
        };
        // The last note comes before the end.
        cx.flush_progress();
        if let Some(later) = cx.take_background_task()
            && outcome.is_ok()
        {
            background::begin(turn, &permitted, entered.keep(), later);
        }
        // Dropping this lets go of the place, unless some work of the call still lives.
        let still_working = cx.has_running_work();
        drop(entered);
        outcome.map_err(|failure| match failure.execution() {
            _ if still_working => Failure::new(
                FailureCode::UnknownOutcome,
                "the tool did not stop when it was cancelled, and may still be running",
            )
            .with_next("check what happened before you call it again")
            .with_source(failure.to_string()),
            // The body ran, whatever the failure it passes on says of a nested call.
            Execution::NotStarted if course.attempts > 0 => {
                failure.with_execution(Execution::Completed)
            }
            Execution::NotStarted | Execution::Completed | Execution::Unknown => failure,
        })
    }
}
