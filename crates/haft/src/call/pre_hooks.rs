//! Hooks before authorization: proceed, rewrite, block, give a verdict, halt.
//!
//! In: the answer of one hook. Out: the call for the next hook, and whether the hook changed it. A
//! rewrite is validated again before the next hook sees it, so that rewrites compose and no hook
//! sees invalid arguments. Verdicts of hooks are used by the authorization.
//!
//! INVARIANT: an allow applies to the arguments that its hook saw or made; a later change voids it.

use haft_core::{Decision, Failure, FailureCode};

use super::{record::HostNotes, validate::ValidatedCall};
use crate::{
    hooks::{NamedHook, PreCallDecision},
    host_code::Stopped,
};

/// The answer of a hook with the call that it saw. A hook that was stopped has neither.
pub(super) type Answer = Result<(ValidatedCall, Result<PreCallDecision, Failure>), Stopped>;

/// Returns the next hook that applies to a call, from this one on.
pub(super) fn next(
    hooks: &[NamedHook],
    from: usize,
    call: &ValidatedCall,
) -> Result<Option<usize>, Failure> {
    for (at, hook) in hooks.iter().enumerate().skip(from) {
        match hook.applies_to(call.tool()) {
            Ok(true) => return Ok(Some(at)),
            Ok(false) => {}
            Err(why) => return Err(failed(hook.name(), &why)),
        }
    }
    Ok(None)
}

/// Applies the answer of a hook. Returns the call, and whether its arguments changed.
pub(super) fn apply(
    hook: &NamedHook,
    answer: Answer,
    notes: &mut HostNotes,
) -> Result<(ValidatedCall, bool), Failure> {
    let (mut call, decision) = match answer {
        Ok((call, Ok(decision))) => (call, decision),
        Err(Stopped::Cancelled(failure)) => return Err(failure),
        // FAIL CLOSED: a hook that cannot answer stops the call.
        Ok((_, Err(failure))) => return Err(failed(hook.name(), &failure.to_string())),
        Err(stopped) => return Err(failed(hook.name(), &stopped.to_string())),
    };
    let halt = decision.effects.halt.clone();
    notes.add_effects(hook.name(), decision.effects);
    if let Some(reason) = halt.or(decision.block) {
        return Err(Failure::new(FailureCode::BlockedByHook, reason)
            .with_source(format!("hook `{}`", hook.name())));
    }
    let is_changed = decision.rewrite.is_some();
    if let Some(arguments) = decision.rewrite {
        call = call.again(arguments).map_err(|failure| {
            Failure::new(
                FailureCode::HookFailed,
                "a hook changed the arguments, and the tool does not accept them",
            )
            .with_source(format!("hook `{}`: {failure}", hook.name()))
        })?;
        call.added_mut().hook_allow = None;
    }
    if let Some(mut verdict) = decision.verdict {
        if verdict.source.is_empty() {
            verdict = verdict.by(format!("hook `{}`", hook.name()));
        }
        match verdict.decision {
            Decision::Allow => call.added_mut().hook_allow = Some(verdict),
            _ => call.added_mut().opinions.push(verdict),
        }
    }
    Ok((call, is_changed))
}

fn failed(hook: &str, why: &str) -> Failure {
    Failure::new(FailureCode::HookFailed, "a hook of the host failed, so the tool was not run")
        .with_source(format!("hook `{hook}`: {why}"))
}
