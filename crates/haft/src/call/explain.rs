//! Explains what would happen to a call: the same steps as a real call, in the same order, up to
//! the approval request or the body.
//!
//! Checks and guards run, because they are read-only. Hooks are listed but not called: they are
//! code of the host that may have side effects.

use std::{sync::Arc, time::Duration};

use haft_core::{Failure, Verdict, host::HostContext};
use haft_policy::{CheckStep, Explanation};
use haft_schema::Unexplained;

use super::{
    authorize::{self, Assessment, Guarding, Guards, Rewrite},
    check,
    driver::ask_guard,
    machine::{MAX_ROUNDS, unsettled},
    validate::ValidatedCall,
};
use crate::{
    call::TurnCore,
    host_code::{Stopped, caught, within},
    secrets::secret_arguments,
};

/// Explains a call that was taken in, or why it was not.
pub(crate) async fn explain(
    turn: &TurnCore,
    admitted: Result<ValidatedCall, Failure>,
) -> Explanation {
    let (tool, arguments) = match &admitted {
        Ok(call) => (Some(Arc::clone(call.tool())), Some(Arc::clone(call.arguments()))),
        Err(_) => (None, None),
    };
    let mut explanation = raw(turn, admitted).await;
    let secret = match tool.zip(arguments) {
        Some((tool, arguments)) => secret_arguments(tool.input(), &arguments),
        None => Vec::new(),
    };
    turn.run.inner.redactor.explanation(&mut explanation, &secret);
    explanation
}

async fn raw(turn: &TurnCore, admitted: Result<ValidatedCall, Failure>) -> Explanation {
    let mut call = match admitted {
        Ok(call) => call,
        Err(failure) => {
            let failure = Unexplained::complete_now(failure);
            return refused(Vec::new(), "admit", &failure);
        }
    };
    let mut rewrites = Vec::new();
    let rules = loop {
        let beforehand = || beforehand(turn, &call, HOOKS_NAMED);
        if let Err(failure) = check_call(turn, &call).await {
            let mut checks = beforehand();
            checks.retain(|check| check.check == "admit");
            return refused(checks, "check", &failure);
        }
        let checks = beforehand();
        match authorize::rewritten(turn, call) {
            Ok(Rewrite::None(same)) => {
                let verdict = same.verdict().clone();
                call = same;
                break verdict;
            }
            Ok(Rewrite::Changed(again)) if rewrites.len() < usize::from(MAX_ROUNDS) => {
                let shown = turn.shown(&again);
                let why = format!("a rule changes the arguments to {shown}");
                rewrites.push(step("rewrite", "changed", why));
                call = again;
            }
            Ok(Rewrite::Changed(_)) => return refused(checks, "rewrite", &unsettled()),
            Err(failure) => return refused(checks, "rewrite", &failure),
        }
    };
    let mut explanation = match assess(turn, &call, rules).await {
        Ok(assessment) => explained(turn, &call, &assessment, HOOKS_NAMED),
        Err(failure) => refused(beforehand(turn, &call, HOOKS_NAMED), "judges", &failure),
    };
    let at = beforehand(turn, &call, HOOKS_NAMED).len().min(explanation.checks.len());
    explanation.checks.splice(at..at, rewrites);
    explanation.checks.extend(masked_paths(&call));
    explanation
}

/// Runs the tool's own check.
async fn check_call(turn: &TurnCore, call: &ValidatedCall) -> Result<(), Failure> {
    if !call.tool().body().checks() {
        return Ok(());
    }
    let (cx, limit) = (call.context(), turn.run.inner.config.policy_timeout);
    let work = async { call.tool().body().check(call.args(), cx).await };
    check::passed(supervised(turn, call, limit, work).await)
}

/// Asks all guards, and evaluates the rules.
async fn assess(
    turn: &TurnCore,
    call: &ValidatedCall,
    rules: Verdict,
) -> Result<Assessment, Failure> {
    let limit = turn.run.inner.config.policy_timeout;
    let mut guarding = Guarding::new(Guards::All, rules);
    while let Some(guard) = guarding.next(turn, call) {
        let work = async { ask_guard(turn, call, guard).await };
        guarding.take(turn, guard, supervised(turn, call, limit, work).await)?;
    }
    guarding.assess(turn, call)
}

/// Runs code of the host with a timeout and the cancellation of the call, with panics caught.
async fn supervised<T>(
    turn: &TurnCore,
    call: &ValidatedCall,
    limit: Duration,
    work: impl Future<Output = T>,
) -> Result<T, Stopped> {
    let cx = call.context();
    tokio::select! {
        biased;
        done = within(&*turn.run.inner.clock, limit, work) => done,
        () = cx.cancelled() => Err(Stopped::Cancelled(turn.why_stopped(cx))),
        () = turn.interrupted(cx) => Err(Stopped::Cancelled(turn.why_stopped(cx))),
    }
}

/// Describes the files that the sandbox of the call would mask, as the tool counted them.
fn masked_paths(call: &ValidatedCall) -> Option<CheckStep> {
    let masked = call.context().masked_paths()?;
    let decision = match (&masked.missing, masked.read + masked.edit) {
        (None, 0) => return None,
        (None, _) => "masked",
        (Some(_), _) => "ask",
    };
    Some(step("denied paths", decision, masked.to_string()))
}

/// The result of the hook step in an explanation: nothing was run.
const HOOKS_NAMED: &str = "not called";
/// The result of the hook step in the explanation of a real call.
pub(super) const HOOKS_CALLED: &str = "called";

/// Explains a verdict with the reasons of rules, guards and hooks. Prompts, records and `explain`
/// show the same text.
pub(super) fn explained(
    turn: &TurnCore,
    call: &ValidatedCall,
    assessment: &Assessment,
    hooks: &str,
) -> Explanation {
    let explained = caught(|| turn.run.inner.policy.explain(&call.policy_request()));
    // The verdict is valid without an explanation.
    let mut explanation = explained.unwrap_or_else(|_| Explanation::of(assessment.verdict.clone()));
    let mut checks = beforehand(turn, call, hooks);
    checks.extend(assessment.guards().iter().cloned());
    checks.append(&mut explanation.checks);
    explanation.checks = checks;
    let verdict = &assessment.verdict;
    if explanation.verdict != *verdict {
        // A guard or a hook decided, so no change of a rule would change the verdict.
        explanation.deciding = None;
        explanation.smallest_change =
            Some(format!("{} would have to say otherwise", verdict.source));
        explanation.verdict = verdict.clone();
    }
    if !explanation.checks.iter().any(|check| check.check == "the default") {
        explanation.checks.push(step("verdict", verdict.decision.as_str(), verdict.to_string()));
    }
    explanation
}

/// The steps before guards and rules.
fn beforehand(turn: &TurnCore, call: &ValidatedCall, hooks: &str) -> Vec<CheckStep> {
    let mut checks = vec![step("admit", "passed", admitted_words(call))];
    if call.tool().body().checks() {
        checks.push(step("check", "passed", "the tool's own check".to_owned()));
    }
    for name in turn.run.inner.hook_names(call.tool()) {
        let why = format!("`{name}` may rewrite, block or judge it");
        checks.push(step("hook", hooks, why));
    }
    checks
}

fn refused(checks: Vec<CheckStep>, what: &str, failure: &Failure) -> Explanation {
    let verdict = Verdict::deny(failure.message().to_owned()).by(failure.code().to_string());
    let mut explanation = Explanation::of(verdict);
    explanation.checks = checks;
    explanation.checks.push(step(what, failure.code().as_str(), failure.message().to_owned()));
    explanation.smallest_change = failure.next().map(str::to_owned);
    explanation
}

fn admitted_words(call: &ValidatedCall) -> String {
    match call.repairs().len() {
        0 => "the arguments fit".to_owned(),
        1 => "the arguments fit after one repair".to_owned(),
        n => format!("the arguments fit after {n} repairs"),
    }
}

fn step(what: &str, result: &str, why: String) -> CheckStep {
    CheckStep { check: what.to_owned(), result: result.to_owned(), why, location: None }
}
