//! Questions of `ask_user` for the user of an MCP client.

use haft::{Failure, FailureCode};
use haft_mcp::server::{CallPeer, ClientRequest, QuestionTool, RequestKind};
use haft_tools::UserQuestion;
use serde_json::{Value, json};

/// Shows the questions of `ask_user` in place of its body, so that a call can wait for its answer
/// longer than this process runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AskUserQuestions;

impl QuestionTool for AskUserQuestions {
    fn name(&self) -> &str {
        "ask_user"
    }

    fn message(&self, arguments: &Value) -> String {
        let question = serde_json::from_value::<UserQuestion>(arguments.clone());
        question.map(|question| message(&question)).unwrap_or_default()
    }

    fn result(&self, answer: &str) -> String {
        UserQuestion::answer_text(answer)
    }
}

/// Asks from the body of `ask_user`: for a call that a hook has allowed.
pub(crate) async fn ask(peer: CallPeer, question: &UserQuestion) -> Result<String, Failure> {
    if !peer.supports(RequestKind::Form) {
        return Err(Failure::new(
            FailureCode::NeedsInteraction,
            "the MCP client cannot ask its user: it does not declare the capability `elicitation`",
        )
        .with_next("continue without an answer, or put the question into your reply"));
    }
    let answer = json!({"type": "string", "title": "Answer"});
    let schema =
        json!({"type": "object", "properties": {"answer": answer}, "required": ["answer"]});
    let response = peer.ask("ask_user", ClientRequest::form(message(question), schema)).await?;
    match response["content"]["answer"].as_str() {
        Some(answer) if response["action"] == "accept" => Ok(answer.to_owned()),
        _ => Err(Failure::new(FailureCode::Declined, "the user did not answer the question")
            .with_next("continue without an answer")),
    }
}

/// What the user reads.
fn message(question: &UserQuestion) -> String {
    let mut message = question.question.clone();
    if !question.choices.is_empty() {
        message.push_str("\nSuggested answers: ");
        message.push_str(&question.choices.join(", "));
    }
    message
}
