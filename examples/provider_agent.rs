//! One agent, any provider. Run it with `cargo run -p haft-models --example provider_agent`, or
//! name a model: `… -- anthropic:claude-sonnet-4-5`, `… -- http://localhost:11434/v1#llama3.2`.
//!
//! What to notice:
//! - `ProviderModel::parse` takes the name of a model. Nothing else of the agent depends on it.
//! - This crate reads no environment: the program passes the key, and it is never printed.
//! - Usage and cost come from the provider's own counts and a table of prices.
//! - Without a name a script plays the model, so this needs no key and no network.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use haft::{
    Failure, Runtime, ToolRegistry,
    agent::{Agent, Model, Runner, ScriptedModel},
    tool,
};
use haft_models::{Provider, ProviderModel};

/// Returns the population of a city.
#[tool(read_only, capabilities())]
async fn population(
    /// The name of the city, in English.
    city: String,
) -> Result<u64, Failure> {
    match city.as_str() {
        "Oslo" => Ok(717_710),
        "Bergen" => Ok(291_940),
        _ => Err(Failure::failed(format!("`{city}` is not in the list"))
            .with_next("the list has Oslo and Bergen")),
    }
}

/// The model that the command line names, or a script.
fn model(name: Option<String>) -> Result<Arc<dyn Model>, Box<dyn std::error::Error>> {
    let Some(name) = name else {
        return Ok(Arc::new(ScriptedModel::parse(
            r#"{"script": 1, "name": "a script", "price": {"input": 3000000, "output": 15000000}}
               {"calls": [{"id": "a", "name": "population", "arguments": {"city": "Oslo"}}, {"id": "b", "name": "population", "arguments": {"city": "Bergen"}}], "usage": {"input_tokens": 400, "output_tokens": 40}}
               {"text": "Oslo has {{result:a}} people, Bergen {{result:b}}.", "usage": {"input_tokens": 500, "output_tokens": 20}}"#,
        )?));
    };
    let mut builder = ProviderModel::parse(&name)?;
    let variable = match builder.provider() {
        Provider::Anthropic => "ANTHROPIC_API_KEY",
        Provider::Gemini => "GEMINI_API_KEY",
        Provider::OpenAi | Provider::OpenAiChat => "OPENAI_API_KEY",
        _ => "MODEL_KEY",
    };
    #[allow(clippy::disallowed_methods, reason = "a program reads its own environment")]
    if let Ok(key) = std::env::var(variable) {
        builder = builder.key(key);
    }
    Ok(Arc::new(builder.build()?))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let registry = ToolRegistry::builder().add(PopulationTool).build()?;
    let runner = Runner::new(Runtime::builder().registry(registry).build()?);
    let model = model(std::env::args().nth(1))?;
    println!("model: {}", model.info().name);

    let agent = Agent::new("geographer", model).instructions("Look numbers up. Answer briefly.");
    let result = runner.run(&agent, "Which is larger, Oslo or Bergen?").await?;
    for call in &result.executions {
        println!("call: {} {:?}", call.tool, call.execution);
    }
    println!("{}: {}", result.state, result.text);
    if !result.text.is_empty() {
        let usage = result.usage;
        println!("{} tokens, {} millionths of a dollar", usage.tokens.total(), usage.micros);
    } else {
        println!("{}", result.reason);
    }
    Ok(())
}
