//! What is kept of a run. Run it with `cargo run -p haft --example agent_records`.
//!
//! What to notice:
//! - The journal has every call: arguments, verdict and its source, outcome, attempts.
//! - A `Recorder` turns the run into a script. It replays without the model, so it is a test and a
//!   bug report; secrets are redacted.
//! - The history is provider-neutral, and can be written in any provider's format.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use haft::{
    Dialect, Failure, Runtime, ToolRegistry,
    agent::{Agent, Recorder, Runner, ScriptedModel},
    journal::RecordQuery,
    testing::Nonces,
    tool,
};

/// Looks up a customer.
#[tool(read_only, capabilities())]
async fn find_customer(name: String, token: String) -> String {
    format!("{name} is customer 4711 (asked with {} characters of token)", token.len())
}

/// Deletes a customer.
#[tool(capabilities(database))]
async fn delete_customer(number: u32) -> String {
    format!("deleted {number}")
}

const SCRIPT: &str = r#"
{"calls": [{"id": "a", "name": "find_customer", "arguments": {"name": "Ada", "token": "tk_51Habcdefghij"}}]}
{"calls": [{"id": "b", "name": "delete_customer", "arguments": {"number": 4711}}]}
{"text": "I may not delete customers."}
"#;

fn runtime() -> Result<Runtime, Failure> {
    let registry = ToolRegistry::builder().add(FindCustomerTool).add(DeleteCustomerTool).build()?;
    let runtime = Runtime::builder().registry(registry).secret("token", "tk_51Habcdefghij");
    Ok(runtime.nonces(Nonces::counting(0)).build()?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let recorder = Recorder::new();
    let runner = Runner::new(runtime()?).record(recorder.clone());
    let agent = Agent::new("clerk", ScriptedModel::parse(SCRIPT)?);
    let result = runner.run(&agent, "Remove Ada.").await?;
    println!("{}: {}", result.state, result.text);

    for record in runner.runtime().records(&RecordQuery::default().oldest_first()) {
        let verdict = record.verdict().map(ToString::to_string).unwrap_or_default();
        let execution = record.end.as_ref().map(|end| end.execution);
        println!("{} {}: {execution:?}; {verdict}", record.call, record.tool_name);
    }
    let script = recorder.script();
    println!(
        "script: {} lines, secret inside: {}",
        script.lines().count(),
        script.contains("tk_51H")
    );

    let replayed = Agent::new("clerk", ScriptedModel::parse(&script)?);
    let again = Runner::new(runtime()?).run(&replayed, "Remove Ada.").await?;
    println!("replayed: {}: {}", again.state, again.text);
    for dialect in [Dialect::Anthropic, Dialect::OpenAiChat, Dialect::Gemini] {
        let body = again.history.write(dialect)?.body;
        println!("as {dialect}: {} bytes", body.to_string().len());
    }
    Ok(())
}
