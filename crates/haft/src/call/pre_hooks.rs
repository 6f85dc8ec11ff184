//! Hooks before authorization: proceed, rewrite, block, give a verdict, halt.
//!
//! A rewrite is validated again before the next hook sees it, so that rewrites compose and no hook
//! sees invalid arguments. Verdicts of hooks are used by the authorization.
//!
//! INVARIANT: an allow applies to the arguments that its hook saw or made; a later change voids it.

use haft_core::{Decision, Failure, FailureCode};

use super::{
    check::check,
    record::Beside,
    watch::{Stopped, watched},
};
use crate::turn::{TurnCore, ValidatedCall};

/// Runs the hooks in order.
pub(crate) async fn before(
    turn: &TurnCore,
    mut call: ValidatedCall,
    beside: &mut Beside,
) -> Result<ValidatedCall, Failure> {
    // On another round the hooks are asked afresh, so what they said of the last one is void.
    call.forget_opinions();
    beside.forget();
    for placed in &turn.inner.hooks {
        match placed.applies_to(call.tool()) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(why) => return Err(broken(placed.name(), &why)),
        }
        let cx = call.context().clone();
        // Making the future runs the hook's code too, so it happens under the watch.
        let work = async { placed.hook().before(&call).await };
        let said = match watched(turn, &cx, placed.limit(), work).await {
            Ok(Ok(said)) => said,
            Err(Stopped::Cancelled(failure)) => return Err(failure),
            // FAIL CLOSED: a hook that cannot answer stops the call.
            Ok(Err(failure)) => return Err(broken(placed.name(), &failure.to_string())),
            Err(stopped) => return Err(broken(placed.name(), &stopped.to_string())),
        };
        let halt = said.said.halt.clone();
        beside.take(placed.name(), said.said);
        if let Some(reason) = halt.or(said.block) {
            return Err(Failure::new(FailureCode::BlockedByHook, reason)
                .with_source(format!("hook `{}`", placed.name())));
        }
        if let Some(arguments) = said.rewrite {
            call = call.again(arguments).map_err(|failure| {
                Failure::new(
                    FailureCode::HookFailed,
                    "a hook changed the arguments, and the tool does not accept them",
                )
                .with_source(format!("hook `{}`: {failure}", placed.name()))
            })?;
            call.added_mut().vouched = None;
            check(turn, &call).await?;
        }
        if let Some(mut verdict) = said.verdict {
            if verdict.source.is_empty() {
                verdict = verdict.by(format!("hook `{}`", placed.name()));
            }
            match verdict.decision {
                Decision::Allow => call.added_mut().vouched = Some(verdict),
                _ => call.added_mut().opinions.push(verdict),
            }
        }
    }
    Ok(call)
}

fn broken(hook: &str, why: &str) -> Failure {
    Failure::new(FailureCode::HookFailed, "a hook of the host failed, so the tool was not run")
        .with_source(format!("hook `{hook}`: {why}"))
}
