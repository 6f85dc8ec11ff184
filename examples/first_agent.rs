//! An agent in ten lines. Run it with `cargo run -p haft --example first_agent`.
//!
//! What to notice:
//! - `main` has the whole setup: tools, runtime, agent, run.
//! - The model plays a script, so this needs no key and no network. `{{result:a}}` is the result of
//!   the call `a`, and `expect` fails the run if the model was shown something else.
//! - The second call has a wrong argument. The model reads why, and the run goes on.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use haft::{
    Failure, Runtime, ToolRegistry,
    agent::{Agent, Runner, ScriptedModel},
    tool,
};

/// Returns the population of a city.
#[tool(read_only, capabilities())]
async fn population(
    /// City name, in English.
    city: String,
) -> Result<u64, Failure> {
    match city.as_str() {
        "Oslo" => Ok(717_710),
        "Bergen" => Ok(291_940),
        _ => Err(Failure::failed(format!("`{city}` is not in the list"))
            .with_next("ask for Oslo or Bergen")),
    }
}

const SCRIPT: &str = r#"
{"text": "I look up both.", "calls": [{"id": "a", "name": "population", "arguments": {"city": "Oslo"}}, {"id": "b", "name": "population", "arguments": {"town": "Bergen"}}]}
{"expect": {"results": [{"id": "b", "is_error": true, "contains": "`city` is missing"}]}, "calls": [{"id": "c", "name": "population", "arguments": {"city": "Bergen"}}]}
{"text": "Oslo has {{result:a}} people, Bergen {{result:c}}."}
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let registry = ToolRegistry::builder().add(PopulationTool).build()?;
    let runtime = Runtime::builder().registry(registry).build()?;
    let agent = Agent::new("geographer", ScriptedModel::parse(SCRIPT)?)
        .instructions("You know cities. Look numbers up instead of guessing.");
    let runner = Runner::new(runtime);
    let result = runner.run(&agent, "Which is larger, Oslo or Bergen?").await?;

    println!("{}: {}", result.state, result.text);
    for call in &result.executions {
        let outcome = call.failed.map_or("ok", |code| code.as_str());
        println!("turn {} {} {}: {outcome}", call.turn, call.call, call.tool);
    }
    println!("{} turns, {} calls", result.usage.turns, result.usage.calls);
    Ok(())
}
