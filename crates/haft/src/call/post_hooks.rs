//! Hooks after the body: each may transform the outcome, success or failure, in order.
//!
//! A transform that fails turns the call into a failure whose body ran. Observers come later and
//! cannot change anything.
//!
//! INVARIANT: a transform cannot change whether the body ran.

use haft_core::{Execution, Failure, FailureCode, Output};

use super::{record::Beside, watch::within};
use crate::{hooks::CompletedCall, runtime::Inner};

/// Runs the transforms.
pub(super) async fn after(
    inner: &Inner,
    call: &CompletedCall,
    mut outcome: Result<Output, Failure>,
    beside: &mut Beside,
) -> Result<Output, Failure> {
    for placed in &inner.hooks {
        let ran = outcome.as_ref().map_or_else(Failure::execution, |_| Execution::Completed);
        let broken = |why: String| {
            Failure::new(
                FailureCode::HookFailed,
                "the tool ran, but code of the host failed afterwards, so its result is not available",
            )
            .with_execution(ran)
            .with_source(format!("hook `{}`: {why}", placed.name()))
        };
        match placed.applies_to(&call.tool) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(why) => {
                outcome = Err(broken(why));
                continue;
            }
        }
        let work = async { placed.hook().after(call, outcome).await };
        outcome = match within(&*inner.clock, placed.limit(), work).await {
            Ok(after) => {
                beside.take(placed.name(), after.said);
                after.outcome.map_err(|failure| match (failure.execution(), ran) {
                    (Execution::NotStarted, ran) => failure.with_execution(ran),
                    (_, Execution::Unknown) => failure.with_execution(Execution::Unknown),
                    _ => failure,
                })
            }
            Err(stopped) => Err(broken(stopped.to_string())),
        };
    }
    outcome
}
