//! Judges a call: the tool's guard, the runtime's guards, the policy, and whoever may be asked.
//!
//! In: an admitted call. Out: a `Permitted`, or the call again with a person's change, or a no.
//! The strictest verdict wins. From here on nothing can change the arguments.
//!
//! INVARIANT: this is the only place that makes a `Permitted`.

use haft_core::{Code, Decision, Failure, Verdict};
use serde_json::Value;

use super::watch::{Stopped, watched};
use crate::{
    policy::{Answer, Question},
    turn::{Admitted, TurnCore},
    watch::caught,
};

pub(super) const OWN_GUARD: &str = "the tool's guard";

/// A call that may run, exactly as it is.
#[derive(Debug)]
pub(crate) struct Permitted {
    admitted: Admitted,
    verdict: Verdict,
}

impl Permitted {
    pub(crate) fn admitted(&self) -> &Admitted {
        &self.admitted
    }

    pub(crate) fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    pub(super) fn into_admitted(self) -> Admitted {
        self.admitted
    }
}

/// What judgement comes to when it is not a no.
pub(super) enum Permit {
    Granted(Permitted),
    /// Somebody must be asked first.
    Ask(Admitted, Verdict),
    /// The arguments were changed, so everything is looked at again.
    Again(Admitted),
    /// A judge said no.
    Refused(Verdict),
}

/// The failure of a call that a judge refused.
pub(super) fn refused(verdict: &Verdict) -> Failure {
    Failure::new(Code::Denied, &*verdict.reason).with_source(verdict.to_string())
}

/// Judges a call that nobody but the policy has a say in, and lets it through if the policy does.
/// Everything else is given back, to be cleared step by step.
pub(super) fn at_once(turn: &TurnCore, admitted: Admitted) -> Result<Permitted, Admitted> {
    let inner = &turn.inner;
    let body = admitted.tool().body();
    if body.checks() || body.guards() || !inner.hooks.is_empty() || !inner.guards.is_empty() {
        return Err(admitted);
    }
    let judged = caught(|| inner.policy.judge(&admitted));
    match judged {
        Ok(verdict) if verdict.decision == Decision::Allow => Ok(Permitted { admitted, verdict }),
        _ => Err(admitted),
    }
}

/// Judges the call.
pub(super) async fn permit(turn: &TurnCore, admitted: Admitted) -> Result<Permit, Failure> {
    let verdict = judge(turn, &admitted).await?;
    match &verdict.decision {
        Decision::Allow => Ok(Permit::Granted(Permitted { admitted, verdict })),
        Decision::Deny => Ok(Permit::Refused(verdict)),
        Decision::Ask | Decision::NeedInput(_) => Ok(Permit::Ask(admitted, verdict)),
    }
}

/// Gathers all verdicts; the strictest stays.
async fn judge(turn: &TurnCore, call: &Admitted) -> Result<Verdict, Failure> {
    let cx = call.context();
    let limit = turn.inner.config.judge_timeout;
    let mut verdict = match caught(|| turn.inner.policy.judge(call)) {
        Ok(verdict) => verdict,
        // FAIL CLOSED: a policy that panics says no.
        Err(_) => return Err(silent("the policy", "it panicked")),
    };
    for said in call.opinions() {
        verdict = verdict.strictest(said.clone());
    }
    let body = call.tool().body();
    if body.guards() {
        // Making the future runs the judge's code too, so it happens under the watch.
        let own = async { body.guard(call.args(), cx).await };
        if let Some(said) = opinion(OWN_GUARD, watched(turn, cx, limit, own).await)? {
            verdict = verdict.strictest(named(said, OWN_GUARD));
        }
    }
    for guard in &turn.inner.guards {
        let work = async { guard.judge(call).await };
        if let Some(said) = opinion(guard.name(), watched(turn, cx, limit, work).await)? {
            verdict = verdict.strictest(named(said, guard.name()));
        }
    }
    Ok(verdict)
}

fn named(verdict: Verdict, source: &str) -> Verdict {
    if verdict.source.is_empty() { verdict.by(format!("guard `{source}`")) } else { verdict }
}

/// Reads a guard's answer. Trouble is not an opinion; it is a no.
fn opinion(
    name: &str,
    said: Result<Result<Option<Verdict>, Failure>, Stopped>,
) -> Result<Option<Verdict>, Failure> {
    match said {
        Ok(Ok(verdict)) => Ok(verdict),
        Ok(Err(failure)) => Err(silent(name, &failure.to_string())),
        Err(Stopped::Cancelled(failure)) => Err(failure),
        Err(stopped) => Err(silent(name, &stopped.to_string())),
    }
}

fn silent(who: &str, why: &str) -> Failure {
    Failure::new(
        Code::GuardFailed,
        "whether this call is allowed could not be found out, so it is not",
    )
    .with_source(format!("{who}: {why}"))
}

/// Asks whoever may be asked. Nobody there, no answer, trouble: no.
pub(super) async fn ask(
    turn: &TurnCore,
    call: Admitted,
    verdict: Verdict,
) -> Result<Permit, Failure> {
    let Some(approver) = &turn.inner.approver else {
        return Err(Failure::new(
            Code::Denied,
            format!("it must be asked about ({}), and nobody can be asked here", verdict.reason),
        )
        .with_next("go on without it, or tell the user what you would have done")
        .with_source(verdict.to_string()));
    };
    let explanation = turn.inner.policy.explain(&call);
    let question = Question {
        call: &call,
        verdict: &verdict,
        explanation: &explanation,
        offer: None,
        session: false,
    };
    let limit = turn.inner.config.approval_timeout;
    let asking = async { approver.ask(&question).await };
    let answer = watched(turn, call.context(), limit, asking).await;
    let answer = match answer {
        Ok(Ok(answer)) => answer,
        Ok(Err(failure)) => return Err(silent("the approver", &failure.to_string())),
        Err(Stopped::Cancelled(failure)) => return Err(failure),
        Err(Stopped::TimedOut(_)) => {
            return Err(Failure::new(Code::ApprovalExpired, "nobody answered in time")
                .with_source(verdict.to_string()));
        }
        Err(stopped) => return Err(silent("the approver", &stopped.to_string())),
    };
    match (answer, &verdict.decision) {
        (Answer::Allow { .. }, Decision::Ask) => {
            let verdict =
                Verdict::allow(format!("approved: {}", verdict.reason)).by("the approver");
            Ok(Permit::Granted(Permitted { admitted: call, verdict }))
        }
        (Answer::Edit(arguments), _) => again(call, arguments),
        (Answer::Input(value), Decision::NeedInput(argument)) => {
            let mut arguments = Value::clone(call.arguments());
            if let Some(map) = arguments.as_object_mut() {
                map.insert(argument.clone(), value);
            }
            again(call, arguments)
        }
        (Answer::Deny(comment), _) => {
            let failure = match comment {
                Some(comment) => {
                    Failure::new(Code::Declined, format!("a person said no: {comment}"))
                }
                None => Failure::new(Code::Declined, "a person said no, without a comment"),
            };
            Err(failure.with_source(verdict.to_string()))
        }
        // An allow does not supply what was asked for, and an input does not allow.
        (Answer::Allow { .. } | Answer::Input(_) | Answer::Grant(_) | Answer::Instead(_), _) => {
            Err(silent("the approver", "the answer does not fit the question"))
        }
    }
}

fn again(call: Admitted, arguments: Value) -> Result<Permit, Failure> {
    call.again(arguments).map(Permit::Again).map_err(|failure| {
        Failure::new(
            Code::Declined,
            "the answer changed the arguments into something the tool does not take",
        )
        .with_source(failure.to_string())
    })
}
