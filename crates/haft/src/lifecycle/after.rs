//! Hooks after the body: each may transform the outcome, in order.
//!
//! A transform that breaks makes the call a failure whose body ran. Observers come later and can
//! change nothing.

use haft_core::{Code, Context, Failure, Output, Ran};

use super::watch::within;
use crate::runtime::Inner;

/// Runs the transforms.
pub(super) async fn after(
    inner: &Inner,
    cx: &Context,
    mut outcome: Result<Output, Failure>,
) -> Result<Output, Failure> {
    for hook in &inner.hooks {
        let ran = outcome.as_ref().map_or_else(Failure::ran, |_| Ran::Yes);
        let work = async { hook.after(cx, outcome).await };
        outcome = match within(inner.config.judge_timeout, work).await {
            Ok(outcome) => outcome,
            Err(stopped) => Err(Failure::new(
                Code::HookFailed,
                "the tool ran, but its result could not be passed on",
            )
            .with_ran(ran)
            .with_source(format!("hook `{}`: {stopped}", hook.name()))),
        };
    }
    outcome
}
