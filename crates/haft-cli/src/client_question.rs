//! Questions of `ask_user` for the user of an MCP client.

use haft::{Failure, FailureCode};
use haft_mcp::server::{CallPeer, ClientRequest, RequestKind};
use haft_tools::UserQuestion;
use serde_json::json;

/// Asks the user of an MCP client a question of `ask_user`.
pub(crate) async fn ask(peer: CallPeer, question: &UserQuestion) -> Result<String, Failure> {
    if !peer.supports(RequestKind::Form) {
        return Err(Failure::new(
            FailureCode::NeedsInteraction,
            "the MCP client cannot ask its user: it does not declare the capability `elicitation`",
        )
        .with_next("continue without an answer, or put the question into your reply"));
    }
    let mut message = question.question.clone();
    if !question.choices.is_empty() {
        message.push_str("\nSuggested answers: ");
        message.push_str(&question.choices.join(", "));
    }
    let answer = json!({"type": "string", "title": "Answer"});
    let schema =
        json!({"type": "object", "properties": {"answer": answer}, "required": ["answer"]});
    let response = peer.ask("ask_user", ClientRequest::form(message, schema)).await?;
    match response["content"]["answer"].as_str() {
        Some(answer) if response["action"] == "accept" => Ok(answer.to_owned()),
        _ => Err(Failure::new(FailureCode::Declined, "the user did not answer the question")
            .with_next("continue without an answer")),
    }
}
