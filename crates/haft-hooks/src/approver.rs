//! Hooks as approvers (`PermissionRequest`): they answer instead of a person.
//!
//! They are called one after the other. The first deny wins; an allow counts if none denies. If no
//! hook decides, the next approver is asked.
//!
//! INVARIANT: a hook that fails allows nothing (fail closed).

use std::fmt;

use haft::{
    BoxFuture, Failure, FailureCode,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
};
use serde_json::{Map, Value, json};

use crate::{configured::ConfiguredHook, input, names::Names, reply::Decision};

/// Asks hooks for approval, and then the next approver.
pub struct ExternalApprover {
    hooks: Vec<ConfiguredHook>,
    next: Option<Box<dyn Approver>>,
}

impl ExternalApprover {
    pub(crate) fn new(hooks: Vec<ConfiguredHook>) -> Self {
        Self { hooks, next: None }
    }

    /// Sets the approver to ask if no hook decides.
    #[must_use]
    pub fn or_ask(mut self, next: impl Approver) -> Self {
        self.next = Some(Box::new(next));
        self
    }

    async fn decide(&self, question: &ApprovalRequest<'_>) -> Result<ApprovalResponse, Failure> {
        let call = question.call;
        let names = Names::of(call.tool());
        let mut answer = None;
        for hook in &self.hooks {
            if !hook.matches_tool(&names) || !hook.condition_holds(call) {
                continue;
            }
            let parsed = hook.call(request_input(hook, question, &names)).await;
            if parsed.is_refused(hook.fails_closed) {
                return Err(hook.refusal(&parsed));
            }
            if let Some(reason) = parsed.block {
                return Ok(ApprovalResponse::Deny(Some(reason)));
            }
            match parsed.decision {
                Some((Decision::Deny, reason)) => return Ok(ApprovalResponse::Deny(Some(reason))),
                Some((Decision::Allow, _)) if answer.is_none() => {
                    answer = Some(match parsed.rewrite {
                        // Unchanged arguments are not an edit; asking again would not terminate.
                        Some(edited) => {
                            let edited = input::restored(
                                edited,
                                &call.redacted_arguments(),
                                call.arguments(),
                            );
                            if edited == **call.arguments() {
                                ApprovalResponse::allow()
                            } else {
                                ApprovalResponse::Edit(edited)
                            }
                        }
                        None => ApprovalResponse::allow(),
                    });
                }
                _ => {}
            }
        }
        match (answer, &self.next) {
            (Some(answer), _) => Ok(answer),
            (None, Some(next)) => next.ask(question).await,
            (None, None) => Err(Failure::new(FailureCode::NeedsInteraction, "no hook decided")),
        }
    }
}

fn request_input(
    hook: &ConfiguredHook,
    question: &ApprovalRequest<'_>,
    names: &Names,
) -> Map<String, Value> {
    let cx = question.call.context();
    let input = input::base(&hook.project_dir, cx.scope(), &hook.event);
    // Redacted, as for a person.
    let mut input =
        input::tool(input, names, &question.call.redacted_arguments(), cx.call_id().as_str());
    let rules = question.offer.map(|offer| offer.rules.as_slice()).unwrap_or_default();
    let suggestions = rules.iter().map(|rule| suggestion(rule)).collect();
    input.insert("permission_suggestions".to_owned(), Value::Array(suggestions));
    input
}

/// A rule that an "always" answer would add, in the format of the protocol.
fn suggestion(rule: &str) -> Value {
    let parts = rule.strip_suffix(')').and_then(|rest| rest.split_once('('));
    let rule = match parts {
        Some((tool, content)) => json!({"toolName": tool, "ruleContent": content}),
        None => json!({"toolName": rule}),
    };
    json!({
        "type": "addRules",
        "rules": [rule],
        "behavior": "allow",
        "destination": "localSettings",
    })
}

impl Approver for ExternalApprover {
    fn name(&self) -> &str {
        "the hooks"
    }

    fn closed(&self, question: &ApprovalRequest<'_>, by: &str) {
        if let Some(next) = &self.next {
            next.closed(question, by);
        }
    }

    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(self.decide(question))
    }
}

impl fmt::Debug for ExternalApprover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalApprover")
            .field("hooks", &self.hooks.len())
            .field("then_asks", &self.next.is_some())
            .finish()
    }
}
