//! Asks the policy before a model call, and the approvers if the policy wants that.
//!
//! An approver is asked about calls of tools. A model call is shown to it as a call of the tool
//! `model_call` in a runtime of its own, whose policy repeats the verdict.
//!
//! FAIL CLOSED: a policy that panics denies, and a model call that no approver can be asked about
//! is denied.

use std::sync::{
    Arc, LazyLock, Mutex,
    atomic::{AtomicBool, Ordering},
};

use haft_core::{
    BoxFuture, Capabilities, Decision, DynTool, Error, Failure, ToolCall, ToolName, ToolSpec,
    Verdict, sync::lock,
};
use haft_policy::{Policy, PolicyRequest, PolicyTool, ToolTraits};
use serde_json::{Value, json};

use super::{definition::Agent, model::ModelInfo, result::EndReason};
use crate::{
    approval::{ApprovalRequest, ApprovalResponse, ApprovalScope, Approver},
    call::Inner,
    host_code::caught,
    registry::ToolRegistry,
    run::Run,
    runtime::Runtime,
    tool_result::ToolResult,
};

/// The name under which rules know a model call.
static NAME: LazyLock<ToolName> = LazyLock::new(|| ToolName::from("model_call"));
static SPEC: LazyLock<ToolSpec> = LazyLock::new(|| {
    ToolSpec::new("model_call", "Asks the model for its next message.")
        .read_only()
        .capabilities(Capabilities::NONE)
});
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object",
        "properties": {
            "agent": {"type": "string"},
            "model": {"type": "string"},
            "turn": {"type": "integer"},
            "input_tokens": {"type": "integer"},
        },
    })
});
static TRAITS: LazyLock<ToolTraits> = LazyLock::new(ToolTraits::default);

/// The reasons for which model calls of a run were approved until its end.
#[derive(Debug, Default)]
pub(super) struct ApprovedReasons(Mutex<Vec<String>>);

impl ApprovedReasons {
    fn contains(&self, reason: &str) -> bool {
        lock(&self.0).iter().any(|approved| approved == reason)
    }
}

/// Fails if the policy does not allow the model call, or if it wants approval and does not get it.
pub(super) async fn check(
    run: &Run,
    approved: &ApprovedReasons,
    agent: &Agent,
    info: &ModelInfo,
    turn: u32,
    input_tokens: u64,
) -> Result<(), EndReason> {
    let policy = &run.services().policy;
    let arguments = json!({
        "agent": agent.name,
        "model": info.name,
        "turn": turn,
        "input_tokens": input_tokens,
    });
    let scope = run.scope().clone();
    let profile = SPEC.profile();
    let tool = PolicyTool::new(&NAME, &SPEC, &SCHEMA, &TRAITS);
    let request = PolicyRequest::new(tool, &arguments, &profile, &scope).with_taint(run.taint());
    let verdict = caught(|| policy.decide_model_call(&request))
        .unwrap_or_else(|why| Verdict::deny(format!("the policy panicked: {why}")));
    match verdict.decision {
        Decision::Allow => Ok(()),
        Decision::Deny => Err(EndReason::Denied { reason: verdict.reason.to_string() }),
        Decision::Ask if approved.contains(&verdict.reason) => Ok(()),
        Decision::Ask => ask(run, approved, arguments, verdict).await,
        Decision::NeedInput(_) => Err(EndReason::Denied {
            reason: format!("{} (a model call takes no input of a person)", verdict.reason),
        }),
    }
}

/// Asks the approvers of the runtime.
async fn ask(
    run: &Run,
    approved: &ApprovedReasons,
    arguments: Value,
    verdict: Verdict,
) -> Result<(), EndReason> {
    let reason = verdict.reason.to_string();
    let services = run.services();
    if !services.approvals.has_approver() {
        let reason = format!("{reason} (this needs approval, and no approver is configured)");
        return Err(EndReason::Denied { reason });
    }
    let answer = Arc::new(Answer::default());
    let forward = Forward { services: Arc::clone(services), answer: Arc::clone(&answer) };
    let denied = |reason: String| EndReason::Denied { reason };
    let asking = runtime_that_asks(services, verdict, forward);
    let asking = asking.map_err(|error| denied(error.to_string()))?;
    let scope = run.scope();
    // A run of its own: deferred approvals know only the calls of the agent's run.
    let mut same = asking.run_builder().id(format!("{}/model_call", run.id()));
    // An answer can last for a session; without one, the run is it.
    same = same.session(scope.session.clone().unwrap_or_else(|| run.id().to_string()));
    if let Some(user) = &scope.user {
        same = same.user(user.clone());
    }
    let turn = same.start().turn().await.map_err(|error| denied(error.to_string()))?;
    let call = ToolCall::new("model_call", NAME.clone(), arguments);
    match turn.run(vec![call]).await.first().map(ToolResult::failure) {
        Some(None) => {
            if answer.lasts.load(Ordering::Relaxed) {
                lock(&approved.0).push(reason);
            }
            Ok(())
        }
        Some(Some(failure)) => {
            let why = lock(&answer.comment).take();
            Err(denied(why.unwrap_or_else(|| failure.message().to_owned())))
        }
        None => Err(denied(reason)),
    }
}

/// A runtime with the tool `model_call`, about which it asks the approvers of another runtime.
fn runtime_that_asks(
    services: &Inner,
    verdict: Verdict,
    forward: Forward,
) -> Result<Runtime, Error> {
    let tool = DynTool::new(SPEC.clone(), SCHEMA.clone(), |_, _| async { "allowed" });
    Runtime::builder()
        .registry(ToolRegistry::builder().add(tool).build()?)
        .config(services.config.clone())
        .policy(SameVerdict(verdict))
        .approver(forward)
        .grants(Arc::clone(&services.approvals.grants))
        .clock(Arc::clone(&services.clock))
        .build()
}

/// Repeats the verdict of the runtime's policy.
struct SameVerdict(Verdict);

impl Policy for SameVerdict {
    fn decide(&self, _: &PolicyRequest<'_>) -> Verdict {
        self.0.clone()
    }
}

/// Asks the approvers of another runtime, in its queue.
struct Forward {
    services: Arc<Inner>,
    answer: Arc<Answer>,
}

/// What the approvers answered.
#[derive(Default)]
struct Answer {
    /// Whether the approval lasts longer than this call.
    lasts: AtomicBool,
    /// Why it is denied, unless a person said no.
    comment: Mutex<Option<String>>,
}

impl Approver for Forward {
    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(async move {
            let queue = &self.services.approvals;
            let Some(_permit) = queue.permit().await else {
                return Ok(ApprovalResponse::Deny(Some("too many questions are open".to_owned())));
            };
            let answered = queue.ask(question).await?;
            let comment = match &answered.answer {
                ApprovalResponse::Allow { scope, .. } => {
                    self.answer.lasts.store(*scope != ApprovalScope::Once, Ordering::Relaxed);
                    return Ok(answered.answer);
                }
                ApprovalResponse::Deny(comment) if answered.is_person => {
                    return Ok(ApprovalResponse::Deny(comment.clone()));
                }
                ApprovalResponse::Deny(comment) => comment.clone(),
                // FAIL CLOSED: the model would be asked as if the call had been allowed.
                _ => Some("a model call can only be allowed or denied as it is".to_owned()),
            };
            lock(&self.answer.comment).clone_from(&comment);
            Ok(ApprovalResponse::Deny(comment))
        })
    }
}
