//! Limits of a run. Run it with `cargo run -p haft --example agent_budget`.
//!
//! What to notice:
//! - Turns, calls and time are never exceeded. Tokens and money are reserved before each model
//!   call: the longest answer times its price, and the request as estimated.
//! - A run that reaches a limit ends as failed, says which limit it was, and keeps its history.
//! - With a money limit and an unknown price nothing starts.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use haft::{
    Runtime, ToolRegistry,
    agent::{Agent, Price, Runner, ScriptedModel},
    budget::Budget,
    tool,
};

/// Returns the next page of a very long book.
#[tool(read_only, capabilities())]
async fn next_page() -> &'static str {
    "It was a dark and stormy night, again."
}

/// A model that reads on and on, and says what each message cost.
fn reader() -> Result<ScriptedModel, haft::Error> {
    let turn = r#"{"calls": [{"name": "next_page"}], "usage": {"input_tokens": 900, "output_tokens": 100}}"#;
    ScriptedModel::parse(&format!("{turn}\n").repeat(100))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let registry = ToolRegistry::builder().add(NextPageTool).build()?;
    let runner = Runner::new(Runtime::builder().registry(registry).build()?);
    let none = Budget::default;
    let price = Price { input: 3_000_000, output: 15_000_000, ..Price::default() };
    for (what, limits) in [
        ("turns", Budget { cycles: Some(3), ..none() }),
        ("tokens", Budget { tokens: Some(10_000), ..none() }),
        ("money", Budget { micros: Some(40_000), ..none() }),
        ("time", Budget { wall: Some(Duration::ZERO), ..none() }),
    ] {
        let agent = Agent::new("reader", reader()?).price(price).limits(limits).max_tokens(500);
        let result = runner.run(&agent, "Read the book to me.").await?;
        let usage = result.usage;
        println!("{what}: {}, {}", result.state, result.reason);
        println!(
            "  {} turns, {} calls, {} tokens, {} millionths",
            usage.turns,
            usage.calls,
            usage.tokens.total(),
            usage.micros
        );
    }
    let limits = Budget { micros: Some(1_000_000), ..none() };
    match runner.run(&Agent::new("reader", reader()?).limits(limits), "Read.").await {
        Ok(_) => println!("it ran without a price"),
        Err(error) => println!("without a price: {}", error.message()),
    }
    Ok(())
}
