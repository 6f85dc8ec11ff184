//! Explains what would become of a call: the same steps as the walk, in the same order, up to the
//! moment where somebody would be asked or the body would run.
//!
//! Checks and guards are asked, because they only look. Hooks are named and not called: they are code
//! of somebody else that may do things.

use haft_core::{Decision, Failure, Verdict};

use super::{
    MAX_ROUNDS,
    permit::{self, Rewrite},
    unsettled,
    watch::{Stopped, watched},
};
use crate::{
    policy::{Check, Explanation},
    turn::{Admitted, TurnCore},
    watch::caught,
};

/// Explains a call that was taken in, or why it was not.
pub(crate) async fn explain(turn: &TurnCore, admitted: Result<Admitted, Failure>) -> Explanation {
    let mut call = match admitted {
        Ok(call) => call,
        Err(failure) => return refused(Vec::new(), "admit", &failure),
    };
    let mut checks = vec![step("admit", "passed", admitted_words(&call))];
    let mut rounds = 0;
    loop {
        if call.tool().body().checks() {
            match super::check::check(turn, &call).await {
                Ok(()) => checks.push(step("check", "passed", "the tool's own check".to_owned())),
                Err(failure) => return refused(checks, "check", &failure),
            }
        }
        if rounds == 0 {
            for name in turn.inner.hook_names(call.tool()) {
                let why = format!("`{name}` may rewrite, block or judge it");
                checks.push(step("hook", "not called", why));
            }
        }
        match permit::rewritten(turn, call) {
            Ok(Rewrite::None(same)) => {
                call = same;
                break;
            }
            Ok(Rewrite::Changed(again)) if rounds < MAX_ROUNDS => {
                rounds += 1;
                let why = format!("a rule changes the arguments to {}", again.arguments());
                checks.push(step("rewrite", "changed", why));
                call = again;
            }
            Ok(Rewrite::Changed(_)) => return refused(checks, "rewrite", &unsettled()),
            Err(failure) => return refused(checks, "rewrite", &failure),
        }
    }
    let mut explanation = match caught(|| turn.inner.policy.explain(&call)) {
        Ok(explanation) => explanation,
        Err(_) => Explanation::of(Verdict::deny("the policy panicked").by("the policy")),
    };
    checks.append(&mut explanation.checks);
    if checks.len() == 1 || !checks.iter().any(|check| check.what.contains("default")) {
        let verdict = &explanation.verdict;
        checks.push(step("verdict", verdict.decision.as_str(), verdict.to_string()));
    }
    for (name, said) in guards(turn, &call).await {
        match said {
            Ok(None) => checks.push(step(&name, "no opinion", String::new())),
            Ok(Some(verdict)) => {
                checks.push(step(&name, verdict.decision.as_str(), verdict.reason.to_string()));
                if verdict.decision > explanation.verdict.decision {
                    explanation.deciding = None;
                    explanation.flip = Some(format!("{name} would have to say otherwise"));
                }
                explanation.verdict = explanation.verdict.strictest(verdict);
            }
            Err(why) => {
                checks.push(step(&name, "deny", format!("it could not answer: {why}")));
                let silent = Verdict::deny("a judge could not answer").by(name);
                explanation.verdict = explanation.verdict.strictest(silent);
            }
        }
    }
    if let Some(asked) = call.asked()
        && explanation.verdict.decision == Decision::Allow
    {
        explanation.deciding = None;
        explanation.flip = None;
        explanation.verdict = asked.clone();
        checks.push(step("rewrite", "ask", "the rule that changed it asks".to_owned()));
    }
    explanation.checks = checks;
    explanation
}

async fn guards(
    turn: &TurnCore,
    call: &Admitted,
) -> Vec<(String, Result<Option<Verdict>, String>)> {
    let limit = turn.inner.config.judge_timeout;
    let cx = call.context();
    let mut said = Vec::new();
    let body = call.tool().body();
    if body.guards() {
        let own = async { body.guard(call.args(), cx).await };
        said.push((permit::OWN_GUARD.to_owned(), heard(watched(turn, cx, limit, own).await)));
    }
    for guard in &turn.inner.guards {
        let work = async { guard.judge(call).await };
        let name = format!("guard `{}`", guard.name());
        said.push((name, heard(watched(turn, cx, limit, work).await)));
    }
    said
}

fn heard(
    said: Result<Result<Option<Verdict>, Failure>, Stopped>,
) -> Result<Option<Verdict>, String> {
    match said {
        Ok(Ok(verdict)) => Ok(verdict),
        Ok(Err(failure)) => Err(failure.to_string()),
        Err(stopped) => Err(stopped.to_string()),
    }
}

fn refused(checks: Vec<Check>, what: &str, failure: &Failure) -> Explanation {
    let verdict = Verdict::deny(failure.message().to_owned()).by(failure.code().to_string());
    let mut explanation = Explanation::of(verdict);
    explanation.checks = checks;
    explanation.checks.push(step(what, failure.code().as_str(), failure.message().to_owned()));
    explanation.flip = failure.next().map(str::to_owned);
    explanation
}

fn admitted_words(call: &Admitted) -> String {
    match call.repairs().len() {
        0 => "the arguments fit".to_owned(),
        1 => "the arguments fit after one repair".to_owned(),
        n => format!("the arguments fit after {n} repairs"),
    }
}

fn step(what: &str, said: &str, why: String) -> Check {
    Check { what: what.to_owned(), said: said.to_owned(), why, place: None }
}
