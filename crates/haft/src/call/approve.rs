//! One approval request: whether it may be made, what it shows, and the effect of its answer.
//!
//! In: a call that needs approval, and later the answer. Out: the new result of the authorization.
//! A call that had to wait in the queue is authorized again before an approver sees it. An approval
//! counts only if what it is based on is unchanged when it arrives (TOCTOU).
//!
//! INVARIANT: no approver, no answer, an invalid answer or an error: each is a denial.

use std::{
    borrow::Cow,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_core::{Decision, Failure, FailureCode, RetryHint, Verdict};
use haft_policy::Explanation;
use serde_json::Value;

use super::{
    authorize::{self, Assessment, Authorization, NEXT, NotGranted, failed},
    record::CallRecord,
    validate::ValidatedCall,
};
use crate::{
    approval::{
        Answered, ApprovalDigest, ApprovalRequest, ApprovalResponse, ApprovalScope, QueuePermit,
        SuggestedRules, in_words,
    },
    call::TurnCore,
    event::Event,
    host_code::{Stopped, caught},
    journal::PolicyRecord,
};

/// An open approval request, with all that its answer needs.
pub(crate) struct OpenApproval {
    call: ValidatedCall,
    assessment: Box<Assessment>,
    binding: ApprovalDigest,
    offers: Offers,
    shown: Verdict,
    explanation: Arc<Explanation>,
    /// When the call began to need approval.
    since: Instant,
    /// Held until the answer is in force, so that the next request in the queue is authorized with
    /// it.
    _permit: QueuePermit,
    has_session: bool,
    waiting: usize,
}

impl OpenApproval {
    /// Returns the call, and why it needs approval.
    pub(super) fn asked(&self) -> (&ValidatedCall, &Verdict) {
        (&self.call, &self.assessment.verdict)
    }

    /// Returns the request as approvers see it.
    pub(crate) fn request(&self) -> ApprovalRequest<'_> {
        ApprovalRequest {
            call: &self.call,
            verdict: &self.shown,
            explanation: &self.explanation,
            offer: self.offers.exact.as_ref(),
            directory_offer: self.offers.directory.as_ref(),
            no_offer: self.offers.missing.as_deref(),
            session: self.has_session,
            session_rule: self.offers.of_file.as_deref(),
            binding: &self.binding,
            waiting: self.waiting,
        }
    }
}

/// Maximum length of an approver's comment in a result, in bytes.
const MAX_COMMENT_BYTES: usize = 4_000;
const TOO_MANY: &str = "this call needs approval, and too many approval requests are pending";

/// Refuses a call that no approver can be asked about.
pub(super) fn has_approver(
    turn: &TurnCore,
    record: &mut CallRecord,
    call: &ValidatedCall,
    assessment: &Assessment,
) -> Result<(), Failure> {
    if !turn.run.inner.approvals.has_approver() {
        let reason = &assessment.verdict.reason;
        let why = format!("this call needs approval ({reason}), and no approver is configured");
        return Err(refuse_unasked(turn, record, call, assessment, why));
    }
    is_declined_too_often(turn, record, call, assessment)
}

/// The failure of a call that found the queue full.
pub(super) fn queue_is_full(
    turn: &TurnCore,
    record: &mut CallRecord,
    call: &ValidatedCall,
    assessment: &Assessment,
) -> Failure {
    refuse_unasked(turn, record, call, assessment, TOO_MANY.to_owned())
}

/// Opens the approval request. Nothing waits between the authorization and this, so the request is
/// about the call as it was authorized.
pub(super) fn open(
    turn: &TurnCore,
    record: &mut CallRecord,
    (call, assessment): (ValidatedCall, Box<Assessment>),
    (permit, since): (QueuePermit, Instant),
) -> Result<Arc<OpenApproval>, Failure> {
    is_declined_too_often(turn, record, &call, &assessment)?;
    let (limits, inner) = (&turn.run.prompt_limits, &turn.run.inner);
    if !record.is_counted && !limits.may_ask(inner.config.max_prompts, inner.clock.now()) {
        return Err(queue_is_full(turn, record, &call, &assessment));
    }
    record.is_counted = true;
    let binding = authorize::bind(turn, &call)?;
    let offers = Offers::of(turn, &call, &assessment);
    let explanation = authorize::explain(turn, &call, &assessment);
    let shown = turn.run.inner.redactor.verdict(assessment.verdict.clone());
    record.policy = Some(policy_record(shown.clone(), &explanation));
    turn.emit(|| Event::Asked {
        call: call.context().call_id().clone(),
        verdict: assessment.verdict.clone(),
        explanation: Arc::clone(&explanation),
    });
    Ok(Arc::new(OpenApproval {
        has_session: turn.run.prompt_limits.has_more,
        waiting: turn.run.inner.approvals.waiting(),
        _permit: permit,
        call,
        assessment,
        binding,
        offers,
        shown,
        explanation,
        since,
    }))
}

/// The rules that a lasting answer would write or follow.
#[derive(Default)]
struct Offers {
    /// For this call.
    exact: Option<SuggestedRules>,
    /// For the files of its directory.
    directory: Option<SuggestedRules>,
    /// Why there is none for this call.
    missing: Option<String>,
    /// For calls about the same file, within the session.
    of_file: Option<String>,
}

impl Offers {
    /// Asks the policy for them. A rule that could not be computed is not suggested.
    fn of(turn: &TurnCore, call: &ValidatedCall, assessment: &Assessment) -> Self {
        let none = |why: &str| Self { missing: Some(why.to_owned()), ..Self::default() };
        if assessment.verdict.decision != Decision::Ask {
            return Self::default();
        }
        if call.verdict().decision != Decision::Ask {
            return none("a hook or a guard asks, and a rule does not change that");
        }
        let offers = caught(|| {
            let (store, request) = (turn.run.inner.policy.rule_store()?, call.policy_request());
            let exact = store.suggest_for(&request);
            Some(Self {
                missing: if exact.is_none() { store.why_not_suggested(&request) } else { None },
                directory: store.suggest_for_directory(&request),
                of_file: store.file_rule(&request),
                exact,
            })
        });
        let Some(offers) = offers.ok().flatten() else {
            return none("the policy stores no rules");
        };
        // A rule that contains a secret would be shown, and then saved to a file.
        let is_public =
            |rule: &String| matches!(turn.run.inner.redactor.text(rule), Cow::Borrowed(_));
        let has_secret = |offer: &SuggestedRules| !offer.rules.iter().all(is_public);
        if offers.exact.iter().chain(&offers.directory).any(has_secret)
            || !offers.of_file.iter().all(is_public)
        {
            return none("the rule would contain a secret");
        }
        offers
    }
}

/// Returns how long approvers have for their answer.
pub(super) fn timeout(turn: &TurnCore, open: &OpenApproval) -> Duration {
    let own = open.call.limits().and_then(|limits| limits.approval_timeout);
    own.or(open.call.tool().spec().approval_timeout)
        .unwrap_or(turn.run.inner.config.approval_timeout)
}

/// The failure of a call whose approval request was stopped before its answer.
pub(super) fn unanswered(record: &CallRecord, stopped: Stopped) -> Failure {
    match stopped {
        Stopped::Cancelled(failure) => failure,
        Stopped::TimedOut(_) => {
            let asked = record.policy.as_ref().map(|policy| policy.verdict.to_string());
            Failure::new(FailureCode::ApprovalExpired, "no approver answered in time")
                .with_source(asked.unwrap_or_default())
        }
        stopped @ (Stopped::Panicked(_) | Stopped::Parked) => {
            failed("the approval queue", &stopped.to_string())
        }
    }
}

/// Applies the answer of an approver.
pub(super) fn answer(
    turn: &TurnCore,
    record: &mut CallRecord,
    open: OpenApproval,
    answered: Result<Answered, Failure>,
) -> Result<Authorization, Failure> {
    let answered = answered?;
    // The next request of the call, about other arguments, is another one.
    record.is_counted = false;
    if let Some(policy) = &mut record.policy {
        policy.answered_by = Some(Arc::clone(&answered.by));
    }
    turn.emit(|| Event::Answered {
        call: record.cx.call_id().clone(),
        by: Arc::clone(&answered.by),
        answer: in_words(&answered.answer),
        comment: comment(&answered.answer).map(str::to_owned),
        waited: turn.run.inner.clock.now().saturating_duration_since(open.since),
    });
    apply(turn, record, open, answered)
}

fn apply(
    turn: &TurnCore,
    record: &mut CallRecord,
    open: OpenApproval,
    answered: Answered,
) -> Result<Authorization, Failure> {
    let Answered { by, answer, is_person } = answered;
    let OpenApproval { call, assessment, binding, offers, .. } = open;
    let (limits, tool) = (&turn.run.prompt_limits, call.tool().name().clone());
    if !matches!(answer, ApprovalResponse::Deny(_)) {
        limits.forget_no(&tool);
    }
    match answer {
        ApprovalResponse::Allow { scope: lasting, comment } => {
            // Signed for the request, and compared with the call as it is now.
            let grants = &turn.run.inner.approvals.grants;
            let token = grants.issue(&binding, ApprovalScope::Once, authorize::GRANT_LIFETIME);
            let approval = Approval { by, token, lasting: Some(lasting), comment };
            allow(turn, record, call, &assessment, offers, approval)
        }
        ApprovalResponse::Grant(token) => {
            let approval = Approval { by, token, lasting: None, comment: None };
            allow(turn, record, call, &assessment, offers, approval)
        }
        ApprovalResponse::Edit(arguments) => edited(call, arguments).map(Authorization::Again),
        ApprovalResponse::Input(value) => {
            let Decision::NeedInput(argument) = &assessment.verdict.decision else {
                return Err(failed(&by, "the approval response does not match the request"));
            };
            let mut arguments = Value::clone(call.arguments());
            if let Some(map) = arguments.as_object_mut() {
                map.insert(argument.clone(), value);
            }
            let mut again = edited(call, arguments)?;
            again.added_mut().supplied.push(argument.clone());
            Ok(Authorization::Again(again))
        }
        ApprovalResponse::ReplaceResult(text) => {
            record.is_replaced = true;
            Ok(Authorization::Replaced(text))
        }
        ApprovalResponse::Deny(comment) if !is_person => {
            let why = comment.unwrap_or_else(|| format!("{by} denied the call"));
            let source = format!("{by}: {}", assessment.verdict);
            Err(Failure::new(FailureCode::Denied, why).with_next(NEXT).with_source(source))
        }
        ApprovalResponse::Deny(comment) => {
            let count = limits.count_no(&tool);
            let failure = match comment {
                Some(comment) => Failure::new(
                    FailureCode::Declined,
                    format!("a person denied this call: {comment}"),
                ),
                None => Failure::new(
                    FailureCode::Declined,
                    "a person denied this call without a comment",
                ),
            };
            let failure = if count >= turn.run.inner.config.max_refusals {
                stop_asking(failure, tool.as_str(), count)
            } else {
                failure.with_next(NEXT)
            };
            Err(failure.with_source(format!("{by}: {}", assessment.verdict)))
        }
    }
}

/// An approver's allow.
struct Approval {
    by: Arc<str>,
    token: String,
    /// `None` if the token contains it.
    lasting: Option<ApprovalScope>,
    comment: Option<String>,
}

/// Allows the call if the grant covers it as it is now, and saves the approval for its scope.
fn allow(
    turn: &TurnCore,
    record: &mut CallRecord,
    call: ValidatedCall,
    assessment: &Assessment,
    offers: Offers,
    approval: Approval,
) -> Result<Authorization, Failure> {
    let by = &approval.by;
    let reason = format!("approved: {}", assessment.verdict.reason);
    let verdict = Verdict::allow(reason).by(by.to_string());
    let binding = authorize::bind(turn, &call)?;
    let in_session = match &offers.of_file {
        Some(rule) => binding.in_session_by_rule(rule, &assessment.digest()),
        None => binding.in_session(&assessment.digest()),
    };
    let run = call.context().run_id().clone();
    let (allowed, lasting) = match authorize::under_grant(turn, call, &approval.token, verdict) {
        Ok(allowed) => allowed,
        Err(NotGranted::Changed(call)) => return Ok(Authorization::Again(call)),
        Err(NotGranted::Refused(failure)) => return Err(failure),
    };
    let lasting = approval.lasting.unwrap_or(lasting);
    match lasting {
        ApprovalScope::Once => {}
        ApprovalScope::Session => turn.run.prompt_limits.session.allow(in_session, Arc::clone(by)),
        ApprovalScope::Always | ApprovalScope::AlwaysInDirectory => {
            let offer = match lasting {
                ApprovalScope::AlwaysInDirectory => offers.directory,
                _ => offers.exact,
            };
            let saved = caught(|| match (&offer, turn.run.inner.policy.rule_store()) {
                (Some(offer), Some(store)) => store.save(offer).map_err(|e| e.to_string()),
                _ => Err("no rule was suggested".to_owned()),
            });
            // This call stays allowed, even if the rule could not be saved.
            if let Err(why) = saved.and_then(|saved| saved) {
                let message =
                    format!("the rule that {by} approved permanently could not be saved: {why}");
                turn.emit(|| Event::Problem { run, message });
            }
        }
    }
    if let Some(comment) = approval.comment.filter(|comment| !comment.trim().is_empty()) {
        record.notes.add_text(format!(
            "A person approved this call with the comment: {}",
            &comment[..comment.floor_char_boundary(MAX_COMMENT_BYTES)]
        ));
    }
    Ok(Authorization::Allowed(allowed))
}

fn edited(mut call: ValidatedCall, arguments: Value) -> Result<ValidatedCall, Failure> {
    if call.asked().is_some() {
        // An approver has seen it.
        call.added_mut().asked = None;
    }
    authorize::changed(call, arguments).map_err(|failure| {
        Failure::new(
            FailureCode::Declined,
            "the approver changed the arguments, and the tool does not accept them",
        )
        .with_source(failure.to_string())
    })
}

/// Refuses a call without an approval request, and returns its failure.
fn refuse_unasked(
    turn: &TurnCore,
    record: &mut CallRecord,
    call: &ValidatedCall,
    assessment: &Assessment,
    why: String,
) -> Failure {
    let verdict = Verdict::deny(why.clone()).by(assessment.verdict.source.clone());
    refuse(turn, record, call, assessment, verdict);
    let source = assessment.verdict.to_string();
    Failure::new(FailureCode::Denied, why).with_next(NEXT).with_source(source)
}

/// Records a refusal and emits its event.
pub(super) fn refuse(
    turn: &TurnCore,
    record: &mut CallRecord,
    call: &ValidatedCall,
    assessment: &Assessment,
    verdict: Verdict,
) {
    let explanation = authorize::explain(turn, call, assessment);
    let verdict = turn.run.inner.redactor.verdict(verdict);
    record.policy = Some(policy_record(verdict.clone(), &explanation));
    let call = call.context().call_id().clone();
    turn.emit(|| Event::Refused { call, verdict, explanation });
}

fn policy_record(verdict: Verdict, explanation: &Arc<Explanation>) -> Box<PolicyRecord> {
    let explanation = Arc::clone(explanation);
    Box::new(PolicyRecord { verdict, explanation, answered_by: None })
}

/// Refuses a tool that a person has declined so often that another request would only annoy them.
fn is_declined_too_often(
    turn: &TurnCore,
    record: &mut CallRecord,
    call: &ValidatedCall,
    assessment: &Assessment,
) -> Result<(), Failure> {
    let tool = call.tool().name();
    let count = turn.run.prompt_limits.noes(tool);
    if count < turn.run.inner.config.max_refusals {
        return Ok(());
    }
    let why = "a person denied this tool repeatedly";
    let refused = refuse_unasked(turn, record, call, assessment, why.to_owned());
    let source = refused.cause().unwrap_or_default();
    let failure = Failure::new(FailureCode::Declined, why);
    Err(stop_asking(failure, tool.as_str(), count).with_source(source))
}

fn stop_asking(failure: Failure, tool: &str, count: u32) -> Failure {
    failure.with_retry(RetryHint::Never).with_next(format!(
        "stop calling `{tool}`: a person denied it {count} times in a row; continue without it, or report to the user what you would have done"
    ))
}

/// The comment of an answer, for the event.
fn comment(answer: &ApprovalResponse) -> Option<&str> {
    match answer {
        ApprovalResponse::Allow { comment, .. } | ApprovalResponse::Deny(comment) => {
            comment.as_deref()
        }
        ApprovalResponse::ReplaceResult(text) => Some(text),
        ApprovalResponse::Grant(_) | ApprovalResponse::Edit(_) | ApprovalResponse::Input(_) => None,
    }
}
