//! Approvals by the user of the client: the question is a form that the client shows. A tool that
//! is a question itself, such as `ask_user`, is answered by the same form in place of its body.
//!
//! INVARIANT: the text of a question is built from the registry and the frozen arguments, never
//! from what a remote server sends. A client that cannot show forms cannot approve.

use haft::{
    BoxFuture, Failure, FailureCode,
    approval::{ApprovalRequest, ApprovalResponse, Approver, deceptive_chars},
    sanitize::escape_invisible,
    tool::Preview,
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

/// A tool whose calls are questions to the user, such as `ask_user`.
///
/// Its calls need approval. The client shows the question instead of asking for permission, and
/// what the user answers is the result: the body does not run. So a call that waits for the user is
/// data, and another process can finish it.
pub trait QuestionTool: Send + Sync + 'static {
    /// Returns the name of the tool.
    fn name(&self) -> &str;

    /// Returns what the user reads.
    fn message(&self, arguments: &Value) -> String;

    /// Returns the result of the call, from what the user typed.
    fn result(&self, answer: &str) -> String;
}

/// A [`ClientApprover`] that also asks the questions of a tool.
#[derive(Debug, Clone)]
pub struct QuestionApprover<Q>(Q);

impl ClientApprover {
    /// Asks the questions of a tool as well. A guard or a rule must ask about its calls.
    #[must_use]
    pub fn question_tool<Q: QuestionTool>(self, tool: Q) -> QuestionApprover<Q> {
        QuestionApprover(tool)
    }
}

impl<Q: QuestionTool> Approver for QuestionApprover<Q> {
    fn name(&self) -> &str {
        ClientApprover.name()
    }

    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        if question.call.tool().name().as_str() != self.0.name() {
            return ClientApprover.ask(question);
        }
        Box::pin(async move {
            let peer = client(question)?;
            let message = self.0.message(question.call.arguments());
            let form = ClientRequest::form(escape_invisible(&message), answer_schema());
            let answer = peer.ask_before("question", form, can_park(question)).await?;
            Ok(match answer_of(&answer) {
                Some(text) => ApprovalResponse::ReplaceResult(self.0.result(text)),
                None => ApprovalResponse::Deny(Some(NOT_ANSWERED.to_owned())),
            })
        })
    }
}

/// The comment of a question that the user dismissed.
const NOT_ANSWERED: &str = "the user did not answer the question";

/// The form of a question of a tool.
fn answer_schema() -> Value {
    let answer = json!({"type": "string", "title": "Answer"});
    json!({"type": "object", "properties": {"answer": answer}, "required": ["answer"]})
}

/// What the user answered to the question of a tool; `None` if the question was dismissed.
fn answer_of(answer: &Value) -> Option<&str> {
    answer["content"]["answer"].as_str().filter(|_| answer["action"] == "accept")
}

/// The client of a call, if it can show a form.
fn client(question: &ApprovalRequest<'_>) -> Result<CallPeer, Failure> {
    let Some(peer) = CallPeer::of(question.call.context()) else {
        let why = "this needs approval, and the call has no MCP client that can be asked";
        return Err(Failure::new(FailureCode::NeedsInteraction, why));
    };
    if !peer.supports(RequestKind::Form) {
        let why = "this needs approval, and the MCP client cannot ask its user: it does not \
                   declare the capability `elicitation`";
        return Err(Failure::new(FailureCode::NeedsInteraction, why));
    }
    Ok(peer)
}

/// Whether the call can be written down. A nested call waits in the body of another one, which
/// cannot.
fn can_park(question: &ApprovalRequest<'_>) -> bool {
    !question.call.context().call_id().as_str().contains('>')
}

impl Approver for ClientApprover {
    fn name(&self) -> &str {
        "the user of the MCP client"
    }

    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(async move {
            let peer = client(question)?;
            let needed = needed_argument(question);
            let preview = question.call.preview().await;
            let text = message(question, preview.as_ref());
            let form = ClientRequest::form(text, schema(question, needed));
            let answer = peer.ask_before("approval", form, can_park(question)).await?;
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

fn message(question: &ApprovalRequest<'_>, preview: Option<&Preview>) -> String {
    let tool = question.call.tool();
    let title = tool.spec().title.as_deref().unwrap_or_default();
    let name = if title.is_empty() {
        format!("`{}`", tool.name())
    } else {
        format!("`{}` ({title})", tool.name())
    };
    let mut arguments = Value::clone(question.call.arguments());
    if let (Value::Object(shown), Some(preview)) = (&mut arguments, preview) {
        shown.retain(|key, _| !preview.replaces(key));
    }
    let mut arguments = serde_json::to_string_pretty(&arguments).unwrap_or_default();
    if let Some(preview) = preview {
        arguments.push_str(&format!("\n{}", preview.diff));
    }
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
        let what = match question.session_rule {
            Some(rule) => format!("Allow in this session: {}", escape_invisible(rule)),
            None => "Allow the same call in this session".to_owned(),
        };
        choices.push(json!({"const": "session", "title": what}));
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
    is_deny(false) && is_deny(true) && answer_of(answer).is_none()
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
