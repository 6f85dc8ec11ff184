//! Approvals. Run it with `cargo run -p haft --example approvals`.
//!
//! What to notice:
//! - The approver sees the frozen call and the reason, and answers for exactly that call. An answer
//!   about 40 does not cover 41.
//! - Edited arguments are validated, authorized and asked about again before they run.
//! - "Answer instead" gives the model a result without running anything; a denial with a comment
//!   gives the model the reason.
//! - An approval for the session covers the same call again, and nothing else.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::{Mutex, PoisonError};

use haft::{
    BoxFuture, Failure, Runtime, ToolCall, ToolRegistry,
    approval::{ApprovalRequest, ApprovalResponse, ApprovalScope, Approver},
    serde_json::json,
    tool,
};

/// Pays a person.
#[tool(capabilities(payment))]
async fn pay(to: String, amount: u32) -> String {
    format!("paid {amount} to {to}")
}

/// A scripted approver: gives one prepared answer for each question.
struct Script(Mutex<Vec<ApprovalResponse>>);

impl Approver for Script {
    fn name(&self) -> &str {
        "the script"
    }

    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(async move {
            let call = question.call;
            let (tool, arguments) = (call.tool().name(), call.arguments());
            println!("  asked about {tool}({arguments}): {}", question.verdict.reason);
            let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // An error is not an answer, and without an answer nothing runs.
            let answer = answers.pop().ok_or_else(|| Failure::failed("the script is over"))?;
            println!("  answered: {answer:?}");
            Ok(answer)
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut answers = vec![
        ApprovalResponse::Allow {
            scope: ApprovalScope::Once,
            comment: Some("the last one today".to_owned()),
        },
        ApprovalResponse::Edit(json!({"to": "Ada", "amount": 10})),
        ApprovalResponse::allow(),
        ApprovalResponse::ReplaceResult("already paid in cash".to_owned()),
        ApprovalResponse::Deny(Some("not on a Friday".to_owned())),
        ApprovalResponse::Allow { scope: ApprovalScope::Session, comment: None },
    ];
    answers.reverse();
    let runtime = Runtime::builder()
        .registry(ToolRegistry::builder().add(PayTool).build()?)
        .approver(Script(Mutex::new(answers)))
        .build()?;
    let run = runtime.run();

    for (what, amount) in [
        ("allowed once, with a comment", 5),
        ("edited, then allowed", 1_000),
        ("answered instead", 30),
        ("declined", 40),
        ("allowed for the session", 7),
        ("the same again: no question", 7),
        ("another amount: no answer is left, so it does not run", 8),
    ] {
        println!("{what}: pay Ada {amount}");
        let call = ToolCall::new("", "pay", json!({"to": "Ada", "amount": amount}));
        for answer in run.turn().await?.run([call]).await {
            println!("  model reads: {}", answer.text().replace('\n', "\n               "));
        }
    }
    Ok(())
}
