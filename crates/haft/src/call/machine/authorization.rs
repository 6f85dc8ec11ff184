//! The part of the call machine that authorizes a call: rules, guards, approval.

use haft_core::{Output, StopReason};

use super::{
    super::authorize::{Assessment, Authorization, Guards, Rewrite},
    Arc, CallMachine, Event, Failure, Guarding, Instant, Need, Phase, Step, TurnCore,
    ValidatedCall, approve, authorize,
};
use crate::approval::QueuePermit;

/// A call that needs approval.
pub(super) type Asking = (ValidatedCall, Box<Assessment>);

/// The permit of a call that waited in the approval queue, and since when it needs approval.
pub(super) type Queued = Option<(QueuePermit, Instant)>;

impl CallMachine {
    /// The rules may change the arguments; otherwise the guards are asked. `queued` is the permit
    /// of a call that waited in the approval queue and is authorized again.
    #[inline(always)]
    pub(in crate::call) fn authorize(
        &mut self,
        turn: &Arc<TurnCore>,
        call: ValidatedCall,
        queued: Queued,
    ) -> Step {
        match authorize::rewritten(turn, call) {
            Ok(Rewrite::None(call)) => match authorize::by_rules_alone(turn, call) {
                Ok(call) => self.allowed(turn, call),
                Err(call) => {
                    let rules = call.verdict().clone();
                    let guarding = Guarding::new(Guards::UntilDenied, rules);
                    self.guard(turn, call, guarding, queued)
                }
            },
            Ok(Rewrite::Changed(call)) => {
                self.authorized(turn, Ok(Authorization::Rewritten(call)), queued)
            }
            Err(failure) => self.outcome_of(turn, Err(failure)),
        }
    }

    #[inline(never)]
    pub(in crate::call) fn authorize_later(
        &mut self,
        turn: &Arc<TurnCore>,
        call: ValidatedCall,
        queued: Queued,
    ) -> Step {
        self.authorize(turn, call, queued)
    }

    #[inline(never)]
    pub(super) fn guard(
        &mut self,
        turn: &Arc<TurnCore>,
        call: ValidatedCall,
        mut guarding: Guarding,
        queued: Queued,
    ) -> Step {
        if let Some(guard) = guarding.next(turn, &call) {
            let phase = Phase::Guard(Box::new((guard, guarding, queued)));
            return self.wait(phase, Need::Guard(call, guard));
        }
        let assessment = guarding.assess(turn, &call);
        let result = assessment.and_then(|all| authorize::conclude(turn, call, all));
        self.authorized(turn, result, queued)
    }

    pub(super) fn authorized(
        &mut self,
        turn: &Arc<TurnCore>,
        result: Result<Authorization, Failure>,
        queued: Queued,
    ) -> Step {
        match result {
            Ok(Authorization::Allowed(call)) => self.allowed_later(turn, call),
            Ok(Authorization::Ask(call, assessment)) if self.resume.is_some() => {
                let grant = self.take_grant();
                let applied = authorize::approved_before(turn, call, assessment, grant);
                self.authorized(turn, applied, queued)
            }
            Ok(Authorization::Ask(call, assessment)) => match queued {
                Some(queued) => self.open_approval(turn, (call, assessment), queued),
                None => {
                    let since = turn.run.inner.clock.now();
                    self.ask(turn, (call, assessment), since, false)
                }
            },
            Ok(Authorization::Refused(call, assessment)) => {
                let verdict = assessment.verdict.clone();
                approve::refuse(turn, &mut self.record, &call, &assessment, verdict);
                let failure = authorize::refused(&assessment.verdict);
                self.outcome_of(turn, Err(failure))
            }
            Ok(Authorization::Rewritten(call)) => {
                turn.emit(|| Event::Rewritten {
                    call: call.context().call_id().clone(),
                    arguments: turn.shown(&call),
                });
                self.again(turn, call)
            }
            Ok(Authorization::Again(call)) => self.again(turn, call),
            Ok(Authorization::Replaced(text)) => self.outcome_of(turn, Ok(Output::text(text))),
            Err(failure) => self.outcome_of(turn, Err(failure)),
        }
    }

    /// Joins the approval queue. No approver is asked about a message that may yet be truncated.
    pub(super) fn ask(
        &mut self,
        turn: &Arc<TurnCore>,
        asking: Asking,
        since: Instant,
        waited: bool,
    ) -> Step {
        if turn.end.get() != Some(StopReason::Done) {
            let phase = Phase::MessageBeforeApproval(Box::new((asking, since)));
            return self.wait(phase, Need::MessageEnd);
        }
        if let Err(failure) = approve::has_approver(turn, &mut self.record, &asking.0, &asking.1) {
            return self.outcome_of(turn, Err(failure));
        }
        let phase = Phase::ApprovalQueue(Box::new((asking, since, waited)));
        self.wait(phase, Need::ApprovalPermit)
    }

    pub(super) fn queued(
        &mut self,
        turn: &Arc<TurnCore>,
        (call, assessment): Asking,
        (permit, since): (Option<QueuePermit>, Instant),
        waited: bool,
    ) -> Step {
        let Some(permit) = permit else {
            let failure = approve::queue_is_full(turn, &mut self.record, &call, &assessment);
            return self.outcome_of(turn, Err(failure));
        };
        if turn.is_stopped(&self.record.cx) {
            return self.outcome_of(turn, Err(turn.why_stopped(&self.record.cx)));
        }
        // Meanwhile an approver may have answered "always", or the rules or the run have changed.
        if permit.waited || waited {
            return self.authorize_later(turn, call, Some((permit, since)));
        }
        self.open_approval(turn, (call, assessment), (permit, since))
    }

    fn open_approval(
        &mut self,
        turn: &Arc<TurnCore>,
        asked: Asking,
        queued: (QueuePermit, Instant),
    ) -> Step {
        match approve::open(turn, &mut self.record, asked, queued) {
            Ok(open) => self.wait(Phase::Approval(Arc::clone(&open)), Need::Approval(open)),
            Err(failure) => self.outcome_of(turn, Err(failure)),
        }
    }
}
