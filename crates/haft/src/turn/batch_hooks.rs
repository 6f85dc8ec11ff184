//! Hooks before a batch: they see the calls that are about to start together, before any of their
//! bodies runs, and may answer some of them.
//!
//! In: validated calls. Out: the same calls, some with a result. If no hook has to wait, it all
//! happens in place without a task.
//!
//! FAIL CLOSED: a hook that fails, or answers a call it was not shown, fails the whole batch.

use std::sync::Arc;

use haft_core::{Failure, FailureCode, ToolContext};
use smallvec::SmallVec;
use tokio::sync::oneshot;

use crate::call::TurnCore;
use crate::{call::ValidatedCall, host_code::within};

/// A call that is about to start.
pub(super) struct Due {
    /// Its row.
    pub(super) at: usize,
    pub(super) validated: Result<ValidatedCall, Failure>,
    pub(super) cx: ToolContext,
}

/// Why a batch does not start.
enum Trouble {
    Stopped,
    Broken(String),
}

/// Asks the hooks about calls that start together, and returns them in the same order.
pub(super) async fn before_batch(turn: Arc<TurnCore>, mut due: Vec<Due>) -> Vec<Due> {
    let asked = ask(&turn, &mut due).await;
    for call in due.iter_mut().filter(|call| call.validated.is_ok()) {
        match &asked {
            Ok(()) => {}
            Err(Trouble::Stopped) => call.validated = Err(turn.why_stopped(&call.cx)),
            Err(Trouble::Broken(why)) => call.validated = Err(failed(why)),
        }
    }
    due
}

/// Why a call does not start whose check was lost.
pub(super) fn lost() -> Failure {
    failed("the check was lost")
}

/// Waits until a call may start.
pub(super) async fn cleared(
    turn: &TurnCore,
    cx: &ToolContext,
    receiver: oneshot::Receiver<Result<ValidatedCall, Failure>>,
) -> Result<ValidatedCall, Failure> {
    tokio::select! {
        biased;
        validated = receiver => validated.unwrap_or_else(|_| Err(lost())),
        () = cx.cancelled() => Err(turn.why_stopped(cx)),
    }
}

async fn ask(turn: &TurnCore, due: &mut [Due]) -> Result<(), Trouble> {
    for placed in &turn.run.inner.hooks {
        let broken = |why: String| Trouble::Broken(format!("hook `{}`: {why}", placed.name()));
        let mut shown: SmallVec<[&ValidatedCall; 4]> = SmallVec::new();
        for call in due.iter().filter_map(|call| call.validated.as_ref().ok()) {
            if !call.is_answered() && placed.applies_to(call.tool()).map_err(broken)? {
                shown.push(call);
            }
        }
        let Some(first) = shown.first() else { continue };
        let work = async { placed.hook().before_batch(&shown).await };
        let work = within(&*turn.run.inner.clock, placed.limit(), work);
        let answered = tokio::select! {
            biased;
            answered = work => answered,
            () = turn.interrupted(first.context()) => return Err(Trouble::Stopped),
        };
        let answers = match answered {
            Ok(Ok(answers)) => answers,
            Ok(Err(failure)) => return Err(broken(failure.to_string())),
            Err(stopped) => return Err(broken(stopped.to_string())),
        };
        if answers.is_empty() {
            continue;
        }
        let ids: Vec<_> = shown.iter().map(|call| call.context().call_id().clone()).collect();
        drop(shown);
        for answer in answers {
            if !ids.contains(&answer.id) {
                return Err(broken(format!("it answered `{}`, which it was not shown", answer.id)));
            }
            let call = due
                .iter_mut()
                .filter_map(|call| call.validated.as_mut().ok())
                .find(|call| *call.context().call_id() == answer.id);
            if let Some(call) = call
                && !call.answer(answer.outcome)
            {
                return Err(broken(format!("it answered `{}` twice", answer.id)));
            }
        }
    }
    Ok(())
}

fn failed(why: &str) -> Failure {
    Failure::new(
        FailureCode::HookFailed,
        "a hook of the host failed for these calls, so none of them was run",
    )
    .with_source(why.to_owned())
}
