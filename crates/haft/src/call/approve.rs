//! One approval request, from its queue to the effect of its answer.
//!
//! In: a call that needs approval. Out: the new authorization result. A call that had to wait in
//! the queue is authorized again before an approver sees it. An approval counts only if what it is
//! based on is unchanged when it arrives (TOCTOU).
//!
//! INVARIANT: no approver, no answer, an invalid answer or an error: each is a denial.

use std::{borrow::Cow, sync::Arc};

use haft_core::{Decision, Failure, FailureCode, RetryHint, StopReason, ToolContext, Verdict};
use serde_json::Value;

use super::{
    File,
    authorize::{self, Judged, NEXT, Permit, Unfit, silent},
    message_end,
    watch::{Stopped, watched},
};
use crate::{
    approval::{
        Answered, ApprovalDigest, ApprovalRequest, ApprovalResponse, ApprovalScope, QueuePermit,
        SuggestedRules, in_words,
    },
    event::Event,
    turn::{TurnCore, ValidatedCall},
    watch::caught,
};

/// Asks whoever may be asked.
pub(super) async fn ask(
    turn: &TurnCore,
    call: ValidatedCall,
    judged: Judged,
    file: &mut Option<Box<File>>,
) -> Result<Permit, Failure> {
    let cx = call.context().clone();
    let came = turn.inner.clock.now();
    let mut waited = false;
    // Nobody is bothered about a message that may yet turn out to be cut off.
    if turn.end.get() != Some(StopReason::Done) {
        message_end(turn, &cx).await?;
        waited = true;
    }
    if !turn.inner.desk.is_staffed() {
        let reason = &judged.verdict.reason;
        let why = format!("this call needs approval ({reason}), and no approver is configured");
        return Err(unasked(turn, &call, &judged, file, why));
    }
    is_tired(turn, &call, &judged, file)?;
    let Some(seat) = seat(turn, &cx).await? else {
        return Err(unasked(turn, &call, &judged, file, TOO_MANY.to_owned()));
    };
    if turn.is_stopped(&cx) {
        return Err(turn.why_stopped(&cx));
    }
    // Meanwhile somebody may have said "always", or the rules or the run may have changed.
    let (call, judged) = if seat.waited || waited {
        match authorize::permit(turn, call).await? {
            Permit::Ask(call, judged) => (call, judged),
            other => return Ok(other),
        }
    } else {
        (call, judged)
    };
    is_tired(turn, &call, &judged, file)?;
    if !turn.run.manners.may_ask(turn.inner.config.max_prompts, turn.inner.clock.now()) {
        return Err(unasked(turn, &call, &judged, file, TOO_MANY.to_owned()));
    }
    // From here to the question nothing waits: it is asked about what was judged.
    let binding = authorize::bind(turn, &call)?;
    let offer = match judged.verdict.decision {
        // A rule that could not be worked out is not offered.
        Decision::Ask => {
            caught(|| turn.inner.policy.rule_store()?.suggest_for(&call.policy_request()))
                .unwrap_or_default()
        }
        _ => None,
    };
    // A rule with a secret in it would be shown, and then stand in a file.
    let is_open = |rule: &String| matches!(turn.inner.redactor.text(rule), Cow::Borrowed(_));
    let offer = offer.filter(|offer| offer.rules.iter().all(is_open));
    let answered = pose(turn, &call, &judged, &binding, offer.as_ref(), file).await?;
    if let Some(file) = file {
        file.answered_by = Some(Arc::clone(&answered.by));
    }
    turn.emit(|| Event::Answered {
        call: cx.call_id().clone(),
        by: Arc::clone(&answered.by),
        answer: in_words(&answered.answer),
        comment: comment(&answered.answer).map(str::to_owned),
        waited: turn.inner.clock.now().saturating_duration_since(came),
    });
    // The seat is kept until the answer is in force, so that the next in line is judged by it.
    let permit = heed(turn, call, &judged, &binding, offer, answered);
    drop(seat);
    if let (Ok(Permit::Instead(_)), Some(file)) = (&permit, file) {
        file.is_instead = true;
    }
    permit
}

/// Maximum length of an approver's comment in a result, in bytes.
const MAX_COMMENT_BYTES: usize = 4_000;
const TOO_MANY: &str = "this call needs approval, and too many approval requests are pending";

/// Stands in line, as long as the call may.
async fn seat<'a>(
    turn: &'a TurnCore,
    cx: &ToolContext,
) -> Result<Option<QueuePermit<'a>>, Failure> {
    tokio::select! {
        biased;
        seat = turn.inner.desk.seat() => Ok(seat),
        () = cx.cancelled() => Err(turn.why_stopped(cx)),
        () = turn.interrupted(cx) => Err(turn.why_stopped(cx)),
    }
}

/// Opens the question and waits for its answer. Only this counts against the time a person has.
async fn pose(
    turn: &TurnCore,
    call: &ValidatedCall,
    judged: &Judged,
    binding: &ApprovalDigest,
    offer: Option<&SuggestedRules>,
    file: &mut Option<Box<File>>,
) -> Result<Answered, Failure> {
    let verdict = &judged.verdict;
    let explanation = authorize::explain(turn, call, judged);
    let shown = turn.inner.redactor.verdict(verdict.clone());
    *file = Some(File::new(shown.clone(), &explanation));
    turn.emit(|| Event::Asked {
        call: call.context().call_id().clone(),
        verdict: verdict.clone(),
        explanation: Arc::clone(&explanation),
    });
    let question = ApprovalRequest {
        call,
        verdict: &shown,
        explanation: &explanation,
        offer,
        session: turn.run.manners.has_more,
        binding,
        waiting: turn.inner.desk.waiting(),
    };
    let own = call.limits().and_then(|limits| limits.approval_timeout);
    let limit =
        own.or(call.tool().spec().approval_timeout).unwrap_or(turn.inner.config.approval_timeout);
    match watched(turn, call.context(), limit, turn.inner.desk.pose(&question)).await {
        Ok(answered) => answered,
        Err(Stopped::Cancelled(failure)) => Err(failure),
        Err(Stopped::TimedOut(_)) => {
            Err(Failure::new(FailureCode::ApprovalExpired, "no approver answered in time")
                .with_source(verdict.to_string()))
        }
        Err(stopped) => Err(silent("the desk", &stopped.to_string())),
    }
}

/// Does what the answer says.
fn heed(
    turn: &TurnCore,
    call: ValidatedCall,
    judged: &Judged,
    binding: &ApprovalDigest,
    offer: Option<SuggestedRules>,
    answered: Answered,
) -> Result<Permit, Failure> {
    let Answered { by, answer, is_person } = answered;
    let (manners, tool) = (&turn.run.manners, call.tool().name().clone());
    if !matches!(answer, ApprovalResponse::Deny(_)) {
        manners.forget_no(&tool);
    }
    match answer {
        ApprovalResponse::Allow { lasting, comment } => {
            // Signed for the question, and held against the call as it is now.
            let grants = &turn.inner.desk.grants;
            let token = grants.issue(binding, ApprovalScope::Once, authorize::MOMENT);
            let yes = Yes { by, token, lasting: Some(lasting), comment };
            allow(turn, call, judged, offer, yes)
        }
        ApprovalResponse::Grant(token) => {
            allow(turn, call, judged, offer, Yes { by, token, lasting: None, comment: None })
        }
        ApprovalResponse::Edit(arguments) => edited(call, arguments).map(Permit::Again),
        ApprovalResponse::Input(value) => {
            let Decision::NeedInput(argument) = &judged.verdict.decision else {
                return Err(silent(&by, "the approval response does not match the request"));
            };
            let mut arguments = Value::clone(call.arguments());
            if let Some(map) = arguments.as_object_mut() {
                map.insert(argument.clone(), value);
            }
            let mut again = edited(call, arguments)?;
            again.added_mut().supplied.push(argument.clone());
            Ok(Permit::Again(again))
        }
        ApprovalResponse::ReplaceResult(text) => Ok(Permit::Instead(text)),
        ApprovalResponse::Deny(comment) if !is_person => {
            let why = comment.unwrap_or_else(|| format!("{by} denied the call"));
            let source = format!("{by}: {}", judged.verdict);
            Err(Failure::new(FailureCode::Denied, why).with_next(NEXT).with_source(source))
        }
        ApprovalResponse::Deny(comment) => {
            let noes = manners.count_no(&tool);
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
            let failure = match noes >= turn.inner.config.max_refusals {
                true => stop_asking(failure, tool.as_str(), noes),
                false => failure.with_next(NEXT),
            };
            Err(failure.with_source(format!("{by}: {}", judged.verdict)))
        }
    }
}

/// A yes, and on which paper.
struct Yes {
    by: Arc<str>,
    token: String,
    /// Nothing where the token says it.
    lasting: Option<ApprovalScope>,
    comment: Option<String>,
}

/// Lets the call through if its grant covers it as it is now, and makes the yes last.
fn allow(
    turn: &TurnCore,
    call: ValidatedCall,
    judged: &Judged,
    offer: Option<SuggestedRules>,
    yes: Yes,
) -> Result<Permit, Failure> {
    let by = &yes.by;
    let reason = format!("approved: {}", judged.verdict.reason);
    let verdict = Verdict::allow(reason).by(by.to_string());
    let in_session = authorize::bind(turn, &call)?.in_session(&judged.because());
    let run = call.context().run_id().clone();
    let (mut permitted, lasting) = match authorize::under_grant(turn, call, &yes.token, verdict) {
        Ok(permitted) => permitted,
        Err(Unfit::Changed(call)) => return Ok(Permit::Again(call)),
        Err(Unfit::Refused(failure)) => return Err(failure),
    };
    match yes.lasting.unwrap_or(lasting) {
        ApprovalScope::Once => {}
        ApprovalScope::Session => turn.run.manners.session.allow(in_session, Arc::clone(by)),
        ApprovalScope::Always => {
            let kept = caught(|| match (&offer, turn.inner.policy.rule_store()) {
                (Some(offer), Some(store)) => store.save(offer).map_err(|e| e.to_string()),
                _ => Err("no rule was suggested".to_owned()),
            });
            // The yes to this call stands, whatever becomes of the file.
            if let Err(why) = kept.and_then(|kept| kept) {
                let message =
                    format!("the rule that {by} approved permanently could not be saved: {why}");
                turn.emit(|| Event::Problem { run, message });
            }
        }
    }
    if let Some(comment) = yes.comment.filter(|comment| !comment.trim().is_empty()) {
        permitted.remark(format!(
            "A person approved this call with the comment: {}",
            &comment[..comment.floor_char_boundary(MAX_COMMENT_BYTES)]
        ));
    }
    Ok(Permit::Granted(permitted))
}

fn edited(mut call: ValidatedCall, arguments: Value) -> Result<ValidatedCall, Failure> {
    if call.asked().is_some() {
        // A person has looked at it.
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

/// Tells and notes that a call is refused without a question, and returns its failure.
fn unasked(
    turn: &TurnCore,
    call: &ValidatedCall,
    judged: &Judged,
    file: &mut Option<Box<File>>,
    why: String,
) -> Failure {
    let explanation = authorize::explain(turn, call, judged);
    let verdict = Verdict::deny(why.clone()).by(judged.verdict.source.clone());
    let verdict = turn.inner.redactor.verdict(verdict);
    *file = Some(File::new(verdict.clone(), &explanation));
    let call = call.context().call_id().clone();
    turn.emit(|| Event::Refused { call, verdict, explanation });
    Failure::new(FailureCode::Denied, why).with_next(NEXT).with_source(judged.verdict.to_string())
}

/// Refuses a tool that a person has said no to so often that asking on would only wear them down.
fn is_tired(
    turn: &TurnCore,
    call: &ValidatedCall,
    judged: &Judged,
    file: &mut Option<Box<File>>,
) -> Result<(), Failure> {
    let tool = call.tool().name();
    let noes = turn.run.manners.noes(tool);
    if noes < turn.inner.config.max_refusals {
        return Ok(());
    }
    let why = "a person denied this tool repeatedly";
    let source = unasked(turn, call, judged, file, why.to_owned()).cause().unwrap_or_default();
    Err(stop_asking(Failure::new(FailureCode::Declined, why), tool.as_str(), noes)
        .with_source(source))
}

fn stop_asking(failure: Failure, tool: &str, noes: u32) -> Failure {
    failure.with_retry(RetryHint::Never).with_next(format!(
        "stop calling `{tool}`: a person denied it {noes} times in a row; continue without it, or tell the user what you would have done"
    ))
}

/// What a person said beside their answer, for the event.
fn comment(answer: &ApprovalResponse) -> Option<&str> {
    match answer {
        ApprovalResponse::Allow { comment, .. } | ApprovalResponse::Deny(comment) => {
            comment.as_deref()
        }
        ApprovalResponse::ReplaceResult(text) => Some(text),
        ApprovalResponse::Grant(_) | ApprovalResponse::Edit(_) | ApprovalResponse::Input(_) => None,
    }
}
