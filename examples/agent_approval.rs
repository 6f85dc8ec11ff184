//! Approvals in code. Run it with `cargo run -p haft --example agent_approval`.
//!
//! What to notice:
//! - A call that is not declared read-only needs approval. The approver sees the call with its
//!   validated arguments and the reason; here it is a function, in a program it is a dialog.
//! - The run waits for the answer. A denial is a result that the model reads, with the comment.
//! - The record says who answered.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use haft::{
    Failure, Runtime, ToolRegistry,
    agent::{Agent, Runner, ScriptedModel},
    approval::{ApprovalResponse, approver_fn},
    journal::RecordQuery,
    tool,
};

/// Sends a mail.
#[tool(capabilities(email))]
async fn send_mail(to: String, text: String) -> String {
    format!("sent {} characters to {to}", text.len())
}

const SCRIPT: &str = r#"
{"calls": [{"id": "a", "name": "send_mail", "arguments": {"to": "ada@example.org", "text": "Lunch at noon?"}}, {"id": "b", "name": "send_mail", "arguments": {"to": "all@example.org", "text": "Lunch at noon?"}}]}
{"expect": {"results": [{"id": "a", "is_error": false}, {"id": "b", "is_error": true, "contains": "not to everyone"}]}, "text": "Ada is invited. I did not write to everyone."}
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let person = approver_fn("the office manager", |question| {
        Box::pin(async move {
            let to = question.call.arguments()["to"].as_str().unwrap_or_default();
            println!("may it send to {to}? ({})", question.verdict.reason);
            Ok(match to.starts_with("all@") {
                true => ApprovalResponse::Deny(Some("not to everyone".to_owned())),
                false => ApprovalResponse::allow(),
            })
        })
    });
    let registry = ToolRegistry::builder().add(SendMailTool).build()?;
    let runner = Runner::new(Runtime::builder().registry(registry).approver(person).build()?);
    let agent = Agent::new("secretary", ScriptedModel::parse(SCRIPT)?);
    let result = runner.run(&agent, "Invite people for lunch.").await?;
    println!("{}: {}", result.state, result.text);

    let records = runner.runtime().records(&RecordQuery::default().oldest_first());
    for record in records {
        let outcome = if record.succeeded() { "ran" } else { "did not run" };
        println!("{} {outcome}; answered by {:?}", record.call, record.answered_by());
    }
    Ok(())
}
