//! Asks the policy before a model call.
//!
//! FAIL CLOSED: a policy that panics denies, and so does one that wants a person to be asked.

use std::sync::{Arc, LazyLock};

use haft_core::{Capabilities, Decision, Scope, ToolName, ToolSpec, Verdict};
use haft_policy::{PolicyRequest, PolicyTool, ToolTraits};
use serde_json::{Value, json};

use super::{definition::Agent, model::ModelInfo, result::EndReason};
use crate::{host_code::caught, run::Run};

/// The name under which rules know a model call.
static NAME: LazyLock<ToolName> = LazyLock::new(|| ToolName::from("model_call"));
static SPEC: LazyLock<ToolSpec> = LazyLock::new(|| {
    ToolSpec::new("model_call", "Asks the model for its next message.")
        .read_only()
        .capabilities(Capabilities::NONE)
});
static SCHEMA: LazyLock<Value> = LazyLock::new(|| json!({"type": "object"}));
static TRAITS: LazyLock<ToolTraits> = LazyLock::new(ToolTraits::default);

/// Fails if the policy does not allow the model call.
pub(super) fn check(
    run: &Run,
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
    let scope: Arc<Scope> = Arc::new(run.scope().clone());
    let profile = SPEC.profile();
    let tool = PolicyTool::new(&NAME, &SPEC, &SCHEMA, &TRAITS);
    let request = PolicyRequest::new(tool, &arguments, &profile, &scope).with_taint(run.taint());
    let verdict = caught(|| policy.decide_model_call(&request))
        .unwrap_or_else(|why| Verdict::deny(format!("the policy panicked: {why}")));
    match verdict.decision {
        Decision::Allow => Ok(()),
        Decision::Deny => Err(EndReason::Denied { reason: verdict.reason.to_string() }),
        Decision::Ask | Decision::NeedInput(_) => Err(EndReason::Denied {
            reason: format!("{} (no person can be asked about a model call)", verdict.reason),
        }),
    }
}
