//! A call waits for an approval, is written down, and another runtime finishes it. Run it with
//! `cargo run -p haft --example parked_call`.
//!
//! What to notice:
//! - `TurnHandle::park` ends calls that wait; calls whose body runs finish first.
//! - The parked call is JSON. It is signed: a changed one is refused.
//! - The second runtime validates and authorizes the call again, and asks its own approver.
//! - Both runtimes have the same key for grants. A parked call is resumed once.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use haft::{
    Runtime, ToolCall, ToolRegistry,
    approval::{ApprovalResponse, GrantStore, approver_fn},
    serde_json::{self, json},
    tool,
    turn::ParkedCall,
};

/// Sends an invoice.
#[tool(capabilities(payment))]
async fn send_invoice(customer: String) -> String {
    format!("the invoice for {customer} is sent")
}

/// A runtime with a key that outlives it. Its approver answers, or never does.
fn process(answers: bool) -> Result<Runtime, Box<dyn std::error::Error>> {
    // The host stores the key, and a clock that continues after a restart.
    let (key, now) = ([7; 32], Duration::from_secs(1_700_000_000));
    let approver = approver_fn("the office", move |question| {
        println!("the office is asked: {}", question.verdict.reason);
        Box::pin(async move {
            if !answers {
                std::future::pending::<()>().await;
            }
            Ok(ApprovalResponse::allow())
        })
    });
    Ok(Runtime::builder()
        .registry(ToolRegistry::builder().add(SendInvoiceTool).build()?)
        .grants(GrantStore::with_key(key, now)?)
        .approver(approver)
        .build()?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The first process: the office has closed.
    let saved = {
        let run = process(false)?.run_builder().id("billing").start();
        let turn = run.turn().await?;
        let handle = turn.handle();
        let call = ToolCall::new("call-1", "send_invoice", json!({"customer": "Ada"}));
        let running = turn.run([call]);
        tokio::pin!(running);
        let results = tokio::select! {
            results = &mut running => results,
            () = tokio::time::sleep(Duration::from_millis(50)) => {
                handle.park();
                running.await
            }
        };
        let parked = results[0].parked().ok_or("the call did not wait")?;
        println!("parked: {} waits for {:?}", parked.tool_name(), parked.phase());
        serde_json::to_string(parked)?
    };

    // The second process, the next morning.
    let run = process(true)?.run_builder().id("billing").start();
    let forged: ParkedCall = serde_json::from_str(&saved.replace("Ada", "Eve"))?;
    let results = run.turn().await?.resume([forged]).await;
    println!("forged: {}", results[0].text());
    let parked: ParkedCall = serde_json::from_str(&saved)?;
    let results = run.turn().await?.resume([parked.clone()]).await;
    println!("resumed: {}", results[0].text());
    let results = run.turn().await?.resume([parked]).await;
    println!("resumed again: {}", results[0].text());
    Ok(())
}
