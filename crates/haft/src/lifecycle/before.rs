//! Hooks before judgement: proceed, rewrite, block.
//!
//! A rewrite is admitted and checked again before the next hook sees it, so that rewrites compose
//! and nobody ever sees arguments the schema refuses.

use haft_core::{Code, Failure};

use super::{
    check::check,
    watch::{Stopped, watched},
};
use crate::turn::{Admitted, TurnCore};

/// Runs the hooks in order.
pub(crate) async fn before(turn: &TurnCore, mut call: Admitted) -> Result<Admitted, Failure> {
    for hook in &turn.inner.hooks {
        let cx = call.context().clone();
        let work = async { hook.before(&call).await };
        match watched(turn, &cx, turn.inner.config.judge_timeout, work).await {
            Ok(Ok(said)) => {
                if let Some(reason) = said.block {
                    return Err(Failure::new(Code::BlockedByHook, reason));
                }
                let Some(arguments) = said.rewrite else { continue };
                call = call.again(arguments).map_err(|failure| {
                    Failure::new(
                        Code::HookFailed,
                        "a hook changed the arguments into something the tool does not take",
                    )
                    .with_source(format!("hook `{}`: {failure}", hook.name()))
                })?;
                check(turn, &call).await?;
            }
            Err(Stopped::Cancelled(failure)) => return Err(failure),
            // FAIL CLOSED: a hook that cannot answer stops the call.
            Ok(Err(failure)) => return Err(broken(hook.name(), &failure.to_string())),
            Err(stopped) => return Err(broken(hook.name(), &stopped.to_string())),
        }
    }
    Ok(call)
}

fn broken(hook: &str, why: &str) -> Failure {
    Failure::new(Code::HookFailed, "a check of the host could not be made, so nothing was run")
        .with_source(format!("hook `{hook}`: {why}"))
}
