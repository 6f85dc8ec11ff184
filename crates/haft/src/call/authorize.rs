//! Authorizes a call: the rules, the tool's guard, the runtime's guards, and the grants of
//! approvers.
//!
//! In: a validated call. Out: an `AuthorizedCall`, a call changed by a rule, an approval request,
//! or a denial. The strictest verdict wins. From here on nothing can change the arguments.
//!
//! INVARIANT: only this file makes an `AuthorizedCall`, and for a call that needs approval it
//! requires a single-use grant for exactly this call.

use std::{sync::Arc, time::Duration};

use haft_core::{Args, Decision, Failure, FailureCode, Verdict};
use serde_json::Value;

use super::watch::{Stopped, watched};
use crate::{
    approval::{ApprovalDigest, ApprovalScope, GrantError, digest},
    policy::{CheckStep, Explanation},
    secrets::secret_arguments,
    turn::{TurnCore, ValidatedCall},
    watch::caught,
};

pub(super) const OWN_GUARD: &str = "the tool's guard";

/// A call that may run, exactly as it is. It is immutable.
#[derive(Debug)]
pub struct AuthorizedCall(ValidatedCall);

impl AuthorizedCall {
    /// The verdict is kept with the call, which stands in a box: what may run is handed on often.
    fn new(mut admitted: ValidatedCall, verdict: Verdict) -> Self {
        admitted.allow(verdict);
        Self(admitted)
    }

    /// Returns the call: its tool, its arguments, its profile, its context.
    #[must_use]
    pub fn admitted(&self) -> &ValidatedCall {
        &self.0
    }

    /// Returns who allowed it, and why.
    #[must_use]
    pub fn verdict(&self) -> &Verdict {
        self.0.allowed()
    }

    /// Tells the model something beside the result.
    pub(super) fn remark(&mut self, text: String) {
        self.0.added_mut().asides.push(text);
    }

    /// Gives out the decoded arguments, for the first attempt.
    pub(super) fn take_args(&mut self) -> Args {
        self.0.take_args()
    }
}

/// What judgement comes to.
pub(super) enum Permit {
    Granted(AuthorizedCall),
    /// Somebody must be asked first.
    Ask(ValidatedCall, Judged),
    /// A rule changed the arguments, so everything is looked at again.
    Rewritten(ValidatedCall),
    /// A person changed the arguments, or what an answer rests on has changed.
    Again(ValidatedCall),
    /// A person answered in place of the tool.
    Instead(String),
    /// A judge said no.
    Refused(ValidatedCall, Judged),
}

/// What all judges said, and what that comes to.
pub(super) struct Judged {
    pub(super) verdict: Verdict,
    /// Everyone who asks, not only the first.
    asks: Vec<Verdict>,
    /// What the guards said, for the explanation.
    guards: Vec<CheckStep>,
}

/// What a model can always do instead.
pub(super) const NEXT: &str = "continue without it, or tell the user what you would have done";

/// The failure of a call that a judge refused. Who refused it is the operator's to know.
pub(super) fn refused(verdict: &Verdict) -> Failure {
    Failure::new(FailureCode::Denied, &*verdict.reason)
        .with_next(NEXT)
        .with_source(verdict.to_string())
}

/// Judges a call that nobody but the policy has a say in, and lets it through if the policy does.
/// Everything else is given back, to be cleared step by step.
pub(super) fn at_once(
    turn: &TurnCore,
    admitted: ValidatedCall,
) -> Result<AuthorizedCall, ValidatedCall> {
    let inner = &turn.inner;
    let body = admitted.tool().body();
    if body.checks() || body.guards() || !inner.hooks.is_empty() || !inner.guards.is_empty() {
        return Err(admitted);
    }
    let judged = caught(|| {
        let request = admitted.policy_request();
        let verdict = inner.policy.decide(&request);
        let is_final =
            verdict.decision == Decision::Allow && inner.policy.rewrite(&request).is_none();
        is_final.then_some(verdict)
    });
    match judged {
        Ok(Some(verdict)) => Ok(AuthorizedCall::new(admitted, verdict)),
        _ => Err(admitted),
    }
}

/// Judges the call, as the rules want it to be.
pub(super) async fn permit(turn: &TurnCore, admitted: ValidatedCall) -> Result<Permit, Failure> {
    let admitted = match rewritten(turn, admitted)? {
        Rewrite::None(same) => same,
        Rewrite::Changed(again) => return Ok(Permit::Rewritten(again)),
    };
    let judged = judge(turn, &admitted, Guards::UntilDenied).await?;
    match &judged.verdict.decision {
        Decision::Allow => Ok(Permit::Granted(AuthorizedCall::new(admitted, judged.verdict))),
        Decision::Deny => Ok(Permit::Refused(admitted, judged)),
        Decision::NeedInput(_) => Ok(Permit::Ask(admitted, judged)),
        Decision::Ask => allowed_before(turn, admitted, judged),
    }
}

/// What the rules make of a call before it is judged.
pub(super) enum Rewrite {
    None(ValidatedCall),
    Changed(ValidatedCall),
}

/// Gives a call the arguments that the rules want it to have.
pub(super) fn rewritten(turn: &TurnCore, call: ValidatedCall) -> Result<Rewrite, Failure> {
    let policy = &*turn.inner.policy;
    let rewritten = caught(|| {
        let request = call.policy_request();
        let arguments = policy.rewrite(&request)?;
        (arguments != *request.arguments).then(|| (arguments, policy.decide(&request)))
    });
    match rewritten {
        Ok(Some((arguments, verdict))) => {
            let again = changed(call, arguments).map_err(|failure| {
                silent("the rules", &format!("a rewrite does not fit: {failure}"))
            });
            let mut again = again?;
            // A rule that asks and changes what it asks about still asks.
            if verdict.decision == Decision::Ask {
                again.added_mut().asked = Some(verdict);
            }
            Ok(Rewrite::Changed(again))
        }
        Ok(None) => Ok(Rewrite::None(call)),
        Err(panic) => Err(silent("the policy", &format!("it panicked: {panic}"))),
    }
}

/// Which guards are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guards {
    /// None after one that denies: nothing they could say would matter, and they may cost something.
    UntilDenied,
    /// Every one, to explain what each says.
    All,
}

/// Gathers all verdicts; the strictest stays. Guards may take their time, so the rules speak last:
/// what they say is true when it is used.
pub(super) async fn judge(
    turn: &TurnCore,
    call: &ValidatedCall,
    guards: Guards,
) -> Result<Judged, Failure> {
    let cx = call.context();
    let limit = turn.inner.config.policy_timeout;
    let body = call.tool().body();
    let mut said = Vec::new();
    if body.guards() {
        // Making the future runs the judge's code too, so it happens under the watch.
        let own = async { body.guard(call.args(), cx).await };
        let name = OWN_GUARD;
        said.push((name, opinion(name, watched(turn, cx, limit, own).await)?));
    }
    let denies = |said: &Option<Verdict>| {
        guards == Guards::UntilDenied
            && said.as_ref().is_some_and(|said| said.decision == Decision::Deny)
    };
    let mut not_asked = Vec::new();
    for guard in &turn.inner.guards {
        if said.iter().any(|(_, said)| denies(said)) {
            not_asked.push(guard.name());
            continue;
        }
        let work = async { guard.decide(call).await };
        let name = guard.name();
        said.push((name, opinion(name, watched(turn, cx, limit, work).await)?));
    }
    let verdict = match caught(|| turn.inner.policy.decide(&call.policy_request())) {
        Ok(verdict) => verdict,
        // FAIL CLOSED: a policy that panics says no.
        Err(_) => return Err(silent("the policy", "it panicked")),
    };
    let mut judged = Judged { asks: asks(&verdict), verdict, guards: Vec::new() };
    for (guard, said) in said {
        judged.hear(guard, said);
    }
    judged.guards.extend(not_asked.into_iter().map(|guard| CheckStep {
        what: format!("guard `{guard}`"),
        said: "not asked".to_owned(),
        why: "another guard denied the call before".to_owned(),
        place: None,
    }));
    for said in call.opinions() {
        judged.take(said.clone());
    }
    if let Some(asked) = call.asked()
        && judged.verdict.decision == Decision::Allow
    {
        judged.take(asked.clone());
    }
    if let Decision::NeedInput(argument) = &judged.verdict.decision
        && call.supplied().contains(argument)
    {
        // A person has supplied it already, and asking for ever is no way to say no.
        let verdict = &judged.verdict;
        let reason = format!("`{argument}` was supplied and is still not what is wanted");
        judged.verdict = Verdict::deny(reason).by(verdict.source.clone());
    }
    Ok(judged)
}

impl Judged {
    /// Returns what the guards said.
    pub(super) fn guards(&self) -> &[CheckStep] {
        &self.guards
    }

    /// Takes in what a guard said.
    fn hear(&mut self, guard: &str, said: Option<Verdict>) {
        let what = match guard {
            OWN_GUARD => guard.to_owned(),
            _ => format!("guard `{guard}`"),
        };
        let check = |said: &str, why: &str| CheckStep {
            what: what.clone(),
            said: said.to_owned(),
            why: why.to_owned(),
            place: None,
        };
        let Some(mut said) = said else {
            self.guards.push(check("no opinion", ""));
            return;
        };
        self.guards.push(check(said.decision.as_str(), &said.reason));
        if said.source.is_empty() {
            said.source = what.into();
        }
        self.take(said);
    }

    /// Takes in an opinion; the strictest stays.
    fn take(&mut self, said: Verdict) {
        self.asks.extend(asks(&said));
        if said.decision > self.verdict.decision {
            self.verdict = said;
        }
    }

    /// Says what is asked, by whom and why, so that an answer does not stand for another question.
    pub(super) fn because(&self) -> [u8; 32] {
        digest(self.asks.iter().flat_map(|ask| [ask.source.as_bytes(), ask.reason.as_bytes()]))
    }
}

fn asks(verdict: &Verdict) -> Vec<Verdict> {
    match verdict.decision {
        Decision::Ask => vec![verdict.clone()],
        _ => Vec::new(),
    }
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

/// The failure of a call that somebody should have judged and could not.
pub(super) fn silent(who: &str, why: &str) -> Failure {
    Failure::new(FailureCode::GuardFailed, "the call is denied, because its authorization failed")
        .with_source(format!("{who}: {why}"))
}

/// Says why a call is judged as it is.
pub(super) fn explain(turn: &TurnCore, call: &ValidatedCall, judged: &Judged) -> Arc<Explanation> {
    let hooks = super::explain::HOOKS_CALLED;
    let mut explanation = super::explain::explained(turn, call, judged, hooks);
    let secret = secret_arguments(call.tool().input(), call.arguments());
    turn.inner.redactor.explanation(&mut explanation, &secret);
    Arc::new(explanation)
}

/// What an approval of the call rests on now.
pub(super) fn bind(turn: &TurnCore, call: &ValidatedCall) -> Result<ApprovalDigest, Failure> {
    if !turn.inner.registry.still_has(call.tool()) {
        return Err(redefined());
    }
    caught(|| ApprovalDigest::of(call, &*turn.inner.policy))
        .map_err(|panic| silent("the policy", &format!("it panicked: {panic}")))
}

fn redefined() -> Failure {
    Failure::new(
        FailureCode::Denied,
        "the tool definition changed after it was shown to you, so it was not run",
    )
    .with_next("read the new definition, and call it again if it still fits")
    .with_source(GrantError::WrongDefinition.to_string())
}

/// Long enough to be spent at once, short enough not to crowd the book.
pub(super) const MOMENT: Duration = Duration::from_secs(5);

/// Permits a call that a person has allowed for the session, if nothing about it differs.
fn allowed_before(turn: &TurnCore, call: ValidatedCall, judged: Judged) -> Result<Permit, Failure> {
    let session = &turn.run.manners.session;
    if session.is_empty() {
        return Ok(Permit::Ask(call, judged));
    }
    let binding = bind(turn, &call)?;
    let Some(by) = session.allowed_by(&binding.in_session(&judged.because())) else {
        return Ok(Permit::Ask(call, judged));
    };
    let verdict = Verdict::allow(format!("allowed for this session by {by}")).by(by.to_string());
    let token = turn.inner.desk.grants.issue(&binding, ApprovalScope::Once, MOMENT);
    match under_grant(turn, call, &token, verdict) {
        Ok((permitted, _)) => Ok(Permit::Granted(permitted)),
        Err(Unfit::Changed(call)) => Ok(Permit::Ask(call, judged)),
        Err(Unfit::Refused(failure)) => Err(failure),
    }
}

/// Why a grant does not permit a call.
pub(super) enum Unfit {
    /// The rules or the world changed meanwhile; the call must be judged again.
    Changed(ValidatedCall),
    Refused(Failure),
}

/// Permits a call under a grant, if the grant covers the call as it is now.
pub(super) fn under_grant(
    turn: &TurnCore,
    call: ValidatedCall,
    token: &str,
    verdict: Verdict,
) -> Result<(AuthorizedCall, ApprovalScope), Unfit> {
    let now = bind(turn, &call).map_err(Unfit::Refused)?;
    match turn.inner.desk.grants.spend(token, &now) {
        Ok(lasting) => Ok((AuthorizedCall::new(call, verdict), lasting)),
        Err(refusal) if refusal.is_change() => Err(Unfit::Changed(call)),
        Err(GrantError::WrongDefinition) => Err(Unfit::Refused(redefined())),
        Err(refusal) => Err(Unfit::Refused(silent("the grant", &refusal.to_string()))),
    }
}

/// Admits other arguments for a call. A hook that spoke for it spoke for the old ones.
pub(super) fn changed(mut call: ValidatedCall, arguments: Value) -> Result<ValidatedCall, Failure> {
    if call.vouched().is_some() {
        call.added_mut().vouched = None;
    }
    call.again(arguments)
}
