//! Approvals that are answered later, perhaps by another process.
//!
//! The approver keeps the question, halts the run and denies the call for now. The loop then saves
//! the call as pending instead of answering it. On resume the call is validated and authorized
//! again, and the person's answer becomes a fresh grant.
//!
//! INVARIANT: an answer is used once, for the call of the run that it was given for.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
};

use haft_core::{BoxFuture, CallId, Decision, Failure, RunId, sync::lock};

use super::result::ApprovalQuestion;
use crate::{
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    run::Run,
};

/// Why calls of a run that waits are not started.
pub(super) const WAITING: &str = "the run waits for an approval";

/// An approver whose answers come later. Add it to the runtime, and give it to the runner:
///
/// ```
/// use haft::Runtime;
/// use haft::agent::{DeferredApprovals, Runner};
///
/// let approvals = DeferredApprovals::new();
/// let runtime = Runtime::builder().approver(approvals.clone()).build()?;
/// let runner = Runner::new(runtime).deferred_approvals(approvals);
/// # Ok::<(), haft::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct DeferredApprovals(Arc<Mutex<HashMap<RunId, WaitingRun>>>);

struct WaitingRun {
    run: Run,
    answers: HashMap<CallId, ApprovalResponse>,
    asked: Vec<(CallId, ApprovalQuestion)>,
}

impl DeferredApprovals {
    /// Makes an approver without answers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a run, with the answers that are known.
    pub(super) fn open(&self, run: &Run, answers: HashMap<CallId, ApprovalResponse>) {
        let waiting = WaitingRun { run: run.clone(), answers, asked: Vec::new() };
        lock(&self.0).insert(run.id().clone(), waiting);
    }

    /// Takes the questions that have come up.
    pub(super) fn take(&self, run: &RunId) -> Vec<(CallId, ApprovalQuestion)> {
        let mut runs = lock(&self.0);
        runs.get_mut(run).map(|run| std::mem::take(&mut run.asked)).unwrap_or_default()
    }

    /// Forgets a run.
    pub(super) fn close(&self, run: &RunId) {
        let closed = lock(&self.0).remove(run);
        // Dropping the last handle of a run ends it; that happens without the lock.
        drop(closed);
    }

    fn decide(&self, request: &ApprovalRequest<'_>) -> ApprovalResponse {
        let (cx, call) = (request.call.context(), request.call.context().call_id());
        let mut runs = lock(&self.0);
        let Some(waiting) = runs.get_mut(cx.run_id()).filter(|_| !call.looks_nested()) else {
            let why = "this needs approval, and only calls that the model makes can wait for it";
            return ApprovalResponse::Deny(Some(why.to_owned()));
        };
        if let Some(answer) = waiting.answers.remove(call) {
            return answer;
        }
        waiting.asked.push((call.clone(), question(request)));
        let run = waiting.run.clone();
        drop(runs);
        run.halt(WAITING);
        ApprovalResponse::Deny(Some(WAITING.to_owned()))
    }
}

/// What a person will be asked.
fn question(request: &ApprovalRequest<'_>) -> ApprovalQuestion {
    ApprovalQuestion {
        reason: request.verdict.reason.to_string(),
        source: request.verdict.source.to_string(),
        arguments: serde_json::Value::clone(request.call.arguments()),
        needs_input: match &request.verdict.decision {
            Decision::NeedInput(argument) => Some(argument.clone()),
            _ => None,
        },
        risk: request.explanation.touches.clone(),
        always: request.offer.map(|offer| offer.rules.clone()).unwrap_or_default(),
    }
}

impl Approver for DeferredApprovals {
    fn name(&self) -> &str {
        "deferred approvals"
    }

    fn is_person(&self) -> bool {
        false
    }

    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(async move { Ok(self.decide(question)) })
    }
}

impl fmt::Debug for DeferredApprovals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeferredApprovals").field("runs", &lock(&self.0).len()).finish()
    }
}
