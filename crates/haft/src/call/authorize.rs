//! Authorizes a call: the rules, the tool's guard, the runtime's guards, and the grants of
//! approvers.
//!
//! In: a validated call and what each guard answered. Out: an `AuthorizedCall`, a call changed by a
//! rule, an approval request, or a denial. The strictest verdict wins. From here on nothing can
//! change the arguments.
//!
//! INVARIANT: only this file makes an `AuthorizedCall`, and for a call that needs approval it
//! requires a single-use grant for exactly this call.

use std::{sync::Arc, time::Duration};

use haft_core::{Args, Decision, Failure, FailureCode, Verdict};
use haft_policy::{CheckStep, DefaultPolicy, Explanation, Policy as _};
use serde_json::Value;

use super::validate::ValidatedCall;
use crate::{
    approval::{ApprovalDigest, ApprovalScope, GrantError, digest},
    call::TurnCore,
    host_code::{Stopped, caught},
    secrets::secret_arguments,
};

const TOOL_GUARD: &str = "the tool's guard";

/// A call that may run, exactly as it is. It is immutable.
#[derive(Debug)]
pub struct AuthorizedCall(ValidatedCall);

impl AuthorizedCall {
    /// Marks a call as allowed. Private: only the functions of this file do so.
    fn new(mut call: ValidatedCall, verdict: Verdict) -> Self {
        call.set_verdict(verdict);
        Self(call)
    }

    /// Returns the call: its tool, its arguments, its profile, its context.
    #[must_use]
    pub fn validated(&self) -> &ValidatedCall {
        &self.0
    }

    /// Returns who allowed it, and why.
    #[must_use]
    pub fn verdict(&self) -> &Verdict {
        self.0.verdict()
    }

    /// Takes the decoded arguments, for the first attempt.
    pub(super) fn take_args(&mut self) -> Args {
        self.0.take_args()
    }
}

/// The result of the authorization.
pub(super) enum Authorization {
    Allowed(AuthorizedCall),
    /// An approver must be asked first.
    Ask(ValidatedCall, Box<Assessment>),
    /// A rule changed the arguments, so the call is checked and authorized again.
    Rewritten(ValidatedCall),
    /// An approver changed the arguments, or what an approval is based on has changed.
    Again(ValidatedCall),
    /// An approver answered in place of the tool.
    Replaced(String),
    /// A rule or guard denied it.
    Refused(ValidatedCall, Box<Assessment>),
}

/// All verdicts about a call, and the strictest.
pub(super) struct Assessment {
    pub(super) verdict: Verdict,
    /// Every verdict that asks, not only the first.
    asks: Vec<Verdict>,
    /// The verdicts of the guards, for the explanation.
    guards: Vec<CheckStep>,
}

/// What a model can always do instead.
pub(super) const NEXT: &str = "continue without it, or report to the user what you would have done";

/// The failure of a denied call. Who denied it is for the operator only.
pub(super) fn refused(verdict: &Verdict) -> Failure {
    Failure::new(FailureCode::Denied, &*verdict.reason)
        .with_next(NEXT)
        .with_source(verdict.to_string())
}

/// What the rules make of a call before it is authorized.
pub(super) enum Rewrite {
    /// Nothing. The call has their verdict.
    None(ValidatedCall),
    Changed(ValidatedCall),
}

/// Evaluates the rules, and gives a call the arguments that they want it to have.
#[inline(always)]
pub(super) fn rewritten(turn: &TurnCore, mut call: ValidatedCall) -> Result<Rewrite, Failure> {
    let Some(policy) = turn.run.inner.policy.of_host() else {
        if !call.set_verdict_of_tool() {
            let verdict = DefaultPolicy.decide(&call.policy_request());
            call.set_verdict(verdict);
        }
        return Ok(Rewrite::None(call));
    };
    let evaluated = caught(|| {
        let request = call.policy_request();
        let rewrite = policy.rewrite(&request).filter(|new| *new != *request.arguments);
        (rewrite.map(Box::new), policy.decide(&request))
    });
    match evaluated {
        Ok((None, verdict)) => {
            call.set_verdict(verdict);
            Ok(Rewrite::None(call))
        }
        Ok((Some(arguments), verdict)) => {
            let again = changed(call, *arguments).map_err(|failure| {
                failed("the rules", &format!("a rewrite does not fit: {failure}"))
            });
            let mut again = again?;
            // A rule that asks and changes the arguments still asks.
            if verdict.decision == Decision::Ask {
                again.added_mut().asked = Some(verdict);
            }
            Ok(Rewrite::Changed(again))
        }
        // FAIL CLOSED: a policy that panics denies.
        Err(panic) => Err(failed("the policy", &format!("it panicked: {panic}"))),
    }
}

/// Allows a call that the rules allow, if no guard and no hook has a say in it. Otherwise returns
/// the call, which has the verdict of the rules.
#[inline(always)]
pub(super) fn by_rules_alone(
    turn: &TurnCore,
    call: ValidatedCall,
) -> Result<AuthorizedCall, ValidatedCall> {
    let is_alone = call.verdict().decision == Decision::Allow
        && turn.run.inner.guards.is_empty()
        && !call.tool().body().guards()
        && !call.has_additions();
    if is_alone { Ok(AuthorizedCall(call)) } else { Err(call) }
}

/// Which guards are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guards {
    /// None after one that denies: a further verdict would not matter, and may be expensive.
    UntilDenied,
    /// Every one, to explain the verdict of each.
    All,
}

/// A guard of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuardId {
    /// The guard that the tool declares.
    Tool,
    /// A guard of the runtime.
    Runtime(usize),
}

/// Collects the verdicts of the guards, one by one.
pub(super) struct Guarding {
    mode: Guards,
    asked_tool: bool,
    next: usize,
    answers: Vec<(GuardId, Option<Verdict>)>,
    /// The verdict of the rules, while no guard was asked since.
    rules: Option<Verdict>,
}

impl Guarding {
    pub(super) fn new(mode: Guards, rules: Verdict) -> Self {
        Self { mode, asked_tool: false, next: 0, answers: Vec::new(), rules: Some(rules) }
    }

    /// Returns the guard to call next.
    pub(super) fn next(&mut self, turn: &TurnCore, call: &ValidatedCall) -> Option<GuardId> {
        if !std::mem::replace(&mut self.asked_tool, true) && call.tool().body().guards() {
            return Some(GuardId::Tool);
        }
        if self.next >= turn.run.inner.guards.len() || self.is_denied() {
            return None;
        }
        self.next += 1;
        Some(GuardId::Runtime(self.next - 1))
    }

    fn is_denied(&self) -> bool {
        let denies = |verdict: &Verdict| verdict.decision == Decision::Deny;
        self.mode == Guards::UntilDenied
            && self.answers.iter().any(|(_, verdict)| verdict.as_ref().is_some_and(denies))
    }

    /// Takes the answer of a guard.
    ///
    /// FAIL CLOSED: an error, a panic or a timeout is not an opinion but a denial.
    pub(super) fn take(
        &mut self,
        turn: &TurnCore,
        guard: GuardId,
        answer: Result<Result<Option<Verdict>, Failure>, Stopped>,
    ) -> Result<(), Failure> {
        let name = name(turn, guard);
        self.rules = None;
        match answer {
            Ok(Ok(verdict)) => self.answers.push((guard, verdict)),
            Ok(Err(failure)) => return Err(failed(name, &failure.to_string())),
            Err(Stopped::Cancelled(failure)) => return Err(failure),
            Err(stopped) => return Err(failed(name, &stopped.to_string())),
        }
        Ok(())
    }

    /// Joins all verdicts; the strictest wins. Guards may take long, so the rules are evaluated
    /// again after them, and their verdict is current when it is used (TOCTOU).
    pub(super) fn assess(
        self,
        turn: &TurnCore,
        call: &ValidatedCall,
    ) -> Result<Assessment, Failure> {
        let verdict = match self.rules {
            Some(verdict) => verdict,
            None => match caught(|| turn.run.inner.policy.decide(&call.policy_request())) {
                Ok(verdict) => verdict,
                // FAIL CLOSED: a policy that panics denies.
                Err(_) => return Err(failed("the policy", "it panicked")),
            },
        };
        let mut assessment = Assessment { asks: asks(&verdict), verdict, guards: Vec::new() };
        for (guard, verdict) in self.answers {
            assessment.add_guard(turn, guard, verdict);
        }
        let not_asked = turn.run.inner.guards.iter().skip(self.next);
        assessment.guards.extend(not_asked.map(|guard| CheckStep {
            check: format!("guard `{}`", guard.name()),
            result: "not asked".to_owned(),
            why: "another guard denied the call before".to_owned(),
            location: None,
        }));
        for verdict in call.opinions() {
            assessment.add(verdict.clone());
        }
        if let Some(asked) = call.asked()
            && assessment.verdict.decision == Decision::Allow
        {
            assessment.add(asked.clone());
        }
        if let Decision::NeedInput(argument) = &assessment.verdict.decision
            && call.supplied_arguments().contains(argument)
        {
            // An approver has supplied it already. Asking again and again is no way to deny.
            let verdict = &assessment.verdict;
            let reason = format!("`{argument}` was supplied and is still not what is wanted");
            assessment.verdict = Verdict::deny(reason).by(verdict.source.clone());
        }
        Ok(assessment)
    }
}

fn name(turn: &TurnCore, guard: GuardId) -> &str {
    match guard {
        GuardId::Tool => TOOL_GUARD,
        GuardId::Runtime(at) => {
            turn.run.inner.guards.get(at).map_or("a guard", |guard| guard.name())
        }
    }
}

/// Turns an assessment into the result of the authorization.
pub(super) fn conclude(
    turn: &TurnCore,
    call: ValidatedCall,
    assessment: Assessment,
) -> Result<Authorization, Failure> {
    match &assessment.verdict.decision {
        Decision::Allow => {
            Ok(Authorization::Allowed(AuthorizedCall::new(call, assessment.verdict)))
        }
        Decision::Deny => Ok(Authorization::Refused(call, Box::new(assessment))),
        Decision::NeedInput(_) => Ok(Authorization::Ask(call, Box::new(assessment))),
        Decision::Ask => allowed_before(turn, call, Box::new(assessment)),
    }
}

impl Assessment {
    /// Returns the verdicts of the guards, as steps of an explanation.
    pub(super) fn guards(&self) -> &[CheckStep] {
        &self.guards
    }

    /// Adds the verdict of a guard.
    fn add_guard(&mut self, turn: &TurnCore, guard: GuardId, verdict: Option<Verdict>) {
        let what = match guard {
            GuardId::Tool => TOOL_GUARD.to_owned(),
            GuardId::Runtime(_) => format!("guard `{}`", name(turn, guard)),
        };
        let step = |result: &str, why: &str| CheckStep {
            check: what.clone(),
            result: result.to_owned(),
            why: why.to_owned(),
            location: None,
        };
        let Some(mut verdict) = verdict else {
            self.guards.push(step("no opinion", ""));
            return;
        };
        self.guards.push(step(verdict.decision.as_str(), &verdict.reason));
        if verdict.source.is_empty() {
            verdict.source = what.into();
        }
        self.add(verdict);
    }

    /// Adds a verdict; the strictest wins.
    fn add(&mut self, verdict: Verdict) {
        self.asks.extend(asks(&verdict));
        if verdict.decision > self.verdict.decision {
            self.verdict = verdict;
        }
    }

    /// Returns a digest of what is asked, by whom and why, so that an approval does not apply to
    /// another question.
    pub(super) fn digest(&self) -> [u8; 32] {
        digest(self.asks.iter().flat_map(|ask| [ask.source.as_bytes(), ask.reason.as_bytes()]))
    }
}

fn asks(verdict: &Verdict) -> Vec<Verdict> {
    match verdict.decision {
        Decision::Ask => vec![verdict.clone()],
        _ => Vec::new(),
    }
}

/// The failure of a call whose authorization failed.
pub(super) fn failed(who: &str, why: &str) -> Failure {
    Failure::new(FailureCode::GuardFailed, "the call is denied, because its authorization failed")
        .with_source(format!("{who}: {why}"))
}

/// Explains the assessment of a call, redacted.
pub(super) fn explain(
    turn: &TurnCore,
    call: &ValidatedCall,
    assessment: &Assessment,
) -> Arc<Explanation> {
    let hooks = super::explain::HOOKS_CALLED;
    let mut explanation = super::explain::explained(turn, call, assessment, hooks);
    let secret = secret_arguments(call.tool().input(), call.arguments());
    turn.run.inner.redactor.explanation(&mut explanation, &secret);
    Arc::new(explanation)
}

/// Returns a digest of everything that an approval of the call is based on, as it is now.
pub(super) fn bind(turn: &TurnCore, call: &ValidatedCall) -> Result<ApprovalDigest, Failure> {
    if !turn.run.inner.registry.still_has(call.tool()) {
        return Err(redefined());
    }
    caught(|| ApprovalDigest::of(call, &*turn.run.inner.policy))
        .map_err(|panic| failed("the policy", &format!("it panicked: {panic}")))
}

pub(super) fn redefined() -> Failure {
    Failure::new(
        FailureCode::Denied,
        "the tool definition changed after it was shown to you, so it was not run",
    )
    .with_next("read the new definition, and call it again if it still fits")
    .with_source(GrantError::WrongDefinition.to_string())
}

/// The lifetime of a grant that is used at once.
pub(super) const GRANT_LIFETIME: Duration = Duration::from_secs(5);

/// Allows a call that an approver has allowed for the session, if nothing about it differs.
fn allowed_before(
    turn: &TurnCore,
    call: ValidatedCall,
    assessment: Box<Assessment>,
) -> Result<Authorization, Failure> {
    let session = &turn.run.prompt_limits.session;
    if session.is_empty() {
        return Ok(Authorization::Ask(call, assessment));
    }
    let binding = bind(turn, &call)?;
    let because = assessment.digest();
    let of_file = || {
        let rule = caught(|| turn.run.inner.policy.rule_store()?.file_rule(&call.policy_request()));
        session.allowed_by(&binding.in_session_by_rule(&rule.ok().flatten()?, &because))
    };
    let by = session.allowed_by(&binding.in_session(&because)).or_else(of_file);
    let Some(by) = by else {
        return Ok(Authorization::Ask(call, assessment));
    };
    let verdict = Verdict::allow(format!("allowed for this session by {by}")).by(by.to_string());
    let token = turn.run.inner.approvals.grants.issue_once(&binding, GRANT_LIFETIME);
    match under_grant(turn, call, &token, verdict) {
        Ok((permitted, _)) => Ok(Authorization::Allowed(permitted)),
        Err(NotGranted::Changed(call)) => Ok(Authorization::Ask(call, assessment)),
        Err(NotGranted::Refused(failure)) => Err(failure),
    }
}

/// Allows a call that was approved before it was parked, if nothing about it differs. Otherwise an
/// approver is asked again.
pub(super) fn approved_before(
    turn: &TurnCore,
    call: ValidatedCall,
    assessment: Box<Assessment>,
    grant: Option<String>,
) -> Result<Authorization, Failure> {
    let Some(grant) = grant else { return Ok(Authorization::Ask(call, assessment)) };
    let verdict = Verdict::allow("approved before the call was parked").by("a grant");
    match under_grant(turn, call, &grant, verdict) {
        Ok((permitted, _)) => Ok(Authorization::Allowed(permitted)),
        Err(NotGranted::Changed(call)) => Ok(Authorization::Ask(call, assessment)),
        Err(NotGranted::Refused(failure)) => Err(failure),
    }
}

/// Why a grant does not allow a call.
pub(super) enum NotGranted {
    /// The rules or the file system changed meanwhile; the call is authorized again.
    Changed(ValidatedCall),
    Refused(Failure),
}

/// Allows a call under a grant, if the grant covers the call as it is now.
pub(super) fn under_grant(
    turn: &TurnCore,
    call: ValidatedCall,
    token: &str,
    verdict: Verdict,
) -> Result<(AuthorizedCall, ApprovalScope), NotGranted> {
    let now = bind(turn, &call).map_err(NotGranted::Refused)?;
    match turn.run.inner.approvals.grants.spend(token, &now) {
        Ok(lasting) => Ok((AuthorizedCall::new(call, verdict), lasting)),
        Err(refusal) if refusal.is_change() => Err(NotGranted::Changed(call)),
        Err(GrantError::WrongDefinition) => Err(NotGranted::Refused(redefined())),
        Err(refusal) => Err(NotGranted::Refused(failed("the grant", &refusal.to_string()))),
    }
}

/// Validates other arguments for a call. The allow of a hook was for the old ones.
pub(super) fn changed(mut call: ValidatedCall, arguments: Value) -> Result<ValidatedCall, Failure> {
    if call.hook_allow().is_some() {
        call.added_mut().hook_allow = None;
    }
    call.again(arguments)
}
