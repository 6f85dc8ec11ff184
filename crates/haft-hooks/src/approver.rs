//! Hooks that answer instead of a person (`PermissionRequest`).
//!
//! They are asked one after the other; a deny ends it, an allow counts if none denies. Where none
//! decides, whoever comes next is asked. A hook that cannot answer allows nothing.

use std::fmt;

use haft::{ApprovalRequest, ApprovalResponse, Approver, BoxFuture, Failure, FailureCode};
use serde_json::{Map, Value, json};

use crate::{input, line::Line, names::Names, ruling::Decision};

/// Asks hooks, and then whoever comes next.
pub struct ExternalApprover {
    lines: Vec<Line>,
    next: Option<Box<dyn Approver>>,
}

impl ExternalApprover {
    pub(crate) fn new(lines: Vec<Line>) -> Self {
        Self { lines, next: None }
    }

    /// Asks this approver where no hook decides.
    #[must_use]
    pub fn or_ask(mut self, next: impl Approver) -> Self {
        self.next = Some(Box::new(next));
        self
    }

    async fn decide(&self, question: &ApprovalRequest<'_>) -> Result<ApprovalResponse, Failure> {
        let call = question.call;
        let names = Names::of(call.tool());
        let mut answer = None;
        for line in &self.lines {
            if !line.is_about(&names) || !line.holds(call) {
                continue;
            }
            let ruling = line.call(told(line, question, &names)).await;
            if ruling.is_refused(line.fails_closed) {
                return Err(line.refusal(&ruling));
            }
            if let Some(reason) = ruling.block {
                return Ok(ApprovalResponse::Deny(Some(reason)));
            }
            match ruling.decision {
                Some((Decision::Deny, reason)) => return Ok(ApprovalResponse::Deny(Some(reason))),
                Some((Decision::Allow, _)) if answer.is_none() => {
                    answer = Some(match ruling.rewrite {
                        // The same arguments again are no edit; asking about them would not end.
                        Some(edited) => {
                            let edited = input::restored(edited, &call.shown(), call.arguments());
                            match edited == **call.arguments() {
                                true => ApprovalResponse::allow(),
                                false => ApprovalResponse::Edit(edited),
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

fn told(line: &Line, question: &ApprovalRequest<'_>, names: &Names) -> Map<String, Value> {
    let cx = question.call.context();
    let told = input::base(&line.place, cx.scope(), &line.event);
    // As any person who is asked: without secrets.
    let mut told = input::tool(told, names, &question.call.shown(), cx.call_id().as_str());
    let rules = question.offer.map(|offer| offer.rules.as_slice()).unwrap_or_default();
    let suggestions = rules.iter().map(|rule| suggestion(rule)).collect();
    told.insert("permission_suggestions".to_owned(), Value::Array(suggestions));
    told
}

/// A rule that "always" would write, as the protocol writes it.
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
            .field("hooks", &self.lines.len())
            .field("then_asks", &self.next.is_some())
            .finish()
    }
}
