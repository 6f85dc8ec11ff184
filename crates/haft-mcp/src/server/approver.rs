//! Approvals by the user of the client: the question is a form that the client shows.
//!
//! INVARIANT: the text of a question is built from the registry and the frozen arguments, never
//! from what a remote server sends. A client that cannot show forms cannot approve.

use haft::{
    BoxFuture, Failure, FailureCode,
    approval::{ApprovalRequest, ApprovalResponse, Approver, deceptive_chars},
    sanitize::escape_invisible,
};
use serde_json::{Value, json};

use super::{
    call_peer::CallPeer,
    client_request::{ClientRequest, RequestKind},
};

/// How much of the arguments a question shows, in characters.
const MAX_ARGUMENT_CHARS: usize = 4_000;

/// Asks the user of the MCP client that made the call. Add it to the runtime of a server:
///
/// ```
/// use haft::Runtime;
/// use haft_mcp::server::ClientApprover;
///
/// let runtime = Runtime::builder().approver(ClientApprover).build()?;
/// # Ok::<(), haft::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct ClientApprover;

impl Approver for ClientApprover {
    fn name(&self) -> &str {
        "the user of the MCP client"
    }

    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(async move {
            let Some(peer) = CallPeer::of(question.call.context()) else {
                let why = "this needs approval, and the call has no MCP client that can be asked";
                return Err(Failure::new(FailureCode::NeedsInteraction, why));
            };
            if !peer.supports(RequestKind::Form) {
                let why = "this needs approval, and the MCP client cannot ask its user: it does \
                           not declare the capability `elicitation`";
                return Err(Failure::new(FailureCode::NeedsInteraction, why));
            }
            let needed = needed_argument(question);
            let form = ClientRequest::form(message(question), schema(question, needed));
            // A nested call waits in the body of another one, which cannot be written down.
            let is_nested = question.call.context().call_id().as_str().contains('>');
            let answer = peer.ask_before("approval", form, !is_nested).await?;
            Ok(response(&answer, needed.is_some()))
        })
    }
}

/// The argument that a rule requires a person to fill in.
fn needed_argument<'a>(question: &'a ApprovalRequest<'_>) -> Option<&'a str> {
    match &question.verdict.decision {
        haft::policy::Decision::NeedInput(argument) => Some(argument),
        _ => None,
    }
}

fn message(question: &ApprovalRequest<'_>) -> String {
    let tool = question.call.tool();
    let title = tool.spec().title.as_deref().unwrap_or_default();
    let name = if title.is_empty() {
        format!("`{}`", tool.name())
    } else {
        format!("`{}` ({title})", tool.name())
    };
    let arguments = serde_json::to_string_pretty(&**question.call.arguments()).unwrap_or_default();
    let mut shown: String = arguments.chars().take(MAX_ARGUMENT_CHARS).collect();
    if shown.len() < arguments.len() {
        shown.push_str("\n(truncated)");
    }
    let mut text = format!("Allow the tool {name}?\nReason: {}\n{shown}", question.verdict.reason);
    let deceptive = deceptive_chars(&text);
    if !deceptive.is_empty() {
        text.push_str(&format!("\nWarning: the arguments have {}.", deceptive.join(", ")));
    }
    escape_invisible(&text).into_owned()
}

fn schema(question: &ApprovalRequest<'_>, needed: Option<&str>) -> Value {
    if let Some(argument) = needed {
        let value = json!({"type": "string", "title": argument});
        return json!({"type": "object", "properties": {"value": value}, "required": ["value"]});
    }
    let mut choices = vec![json!({"const": "allow", "title": "Allow once"})];
    if question.session {
        choices.push(json!({"const": "session", "title": "Allow the same call in this session"}));
    }
    choices.push(json!({"const": "deny", "title": "Deny"}));
    let decision = json!({"type": "string", "title": "Decision", "oneOf": choices});
    let comment = json!({"type": "string", "title": "Comment for the model"});
    json!({
        "type": "object",
        "properties": {"decision": decision, "comment": comment},
        "required": ["decision"],
    })
}

/// Whether an answer to any question of an approval is not a yes.
pub(super) fn is_refusal(answer: &Value) -> bool {
    let is_deny = |needs_input| matches!(response(answer, needs_input), ApprovalResponse::Deny(_));
    is_deny(false) && is_deny(true)
}

/// Reads an answer. Anything but a clear yes is a no.
fn response(answer: &Value, needs_input: bool) -> ApprovalResponse {
    let content = &answer["content"];
    let comment = content["comment"].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    if answer["action"] != "accept" {
        return ApprovalResponse::Deny(comment);
    }
    if needs_input {
        return match content.get("value").filter(|value| !value.is_null()) {
            Some(value) => ApprovalResponse::Input(value.clone()),
            None => ApprovalResponse::Deny(comment),
        };
    }
    let scope = match content["decision"].as_str() {
        Some("allow") => haft::approval::ApprovalScope::Once,
        Some("session") => haft::approval::ApprovalScope::Session,
        _ => return ApprovalResponse::Deny(comment),
    };
    ApprovalResponse::Allow { scope, comment }
}

#[cfg(test)]
mod tests {
    use haft::approval::ApprovalScope;

    use super::*;

    #[test]
    fn only_a_clear_yes_allows() {
        let accept = |content: Value| json!({"action": "accept", "content": content});
        let allow = |scope| ApprovalResponse::Allow { scope, comment: None };
        assert_eq!(
            response(&accept(json!({"decision": "allow"})), false),
            allow(ApprovalScope::Once)
        );
        assert_eq!(
            response(&accept(json!({"decision": "session"})), false),
            allow(ApprovalScope::Session)
        );
        for no in [
            accept(json!({"decision": "deny"})),
            accept(json!({"decision": true})),
            accept(json!({})),
            accept(json!(null)),
            json!({"action": "accept"}),
            json!({"action": "decline", "content": {"decision": "allow"}}),
            json!({"action": "cancel"}),
            json!({}),
        ] {
            assert_eq!(response(&no, false), ApprovalResponse::Deny(None), "{no}");
        }
        assert_eq!(
            response(&accept(json!({"value": "x", "decision": "allow"})), true),
            ApprovalResponse::Input(json!("x"))
        );
        assert_eq!(
            response(&accept(json!({"decision": "allow"})), true),
            ApprovalResponse::Deny(None)
        );
    }
}
