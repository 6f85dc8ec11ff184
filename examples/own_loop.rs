//! An agent loop of your own. Run it with `cargo run -p haft --example own_loop`.
//!
//! What to notice:
//! - The loop owns the conversation and the model; haft owns what happens in between. Each round
//!   makes two calls: `run.turn()` before the model is called, `turn.dispatch(..)` with its
//!   response.
//! - The model is a recording of three responses, so this needs no key and no network.
//! - Each result is between markers that no tool can forge; the system prompt says so once. Their
//!   nonces are counted here, so that the output is reproducible; leave `nonces` out elsewhere.
//! - The loop does not handle failed calls. A wrong name, a wrong argument and a denial are results
//!   inside the message, under the ids of the model, and the model goes on from there.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use haft::{
    Dialect, Failure, Runtime, ToolRegistry,
    serde_json::{self, Value, json},
    testing::Nonces,
    tool,
};

/// The model's responses, turn by turn, as the provider sent them.
const RECORDED: &str = include_str!("recorded/weather.json");

/// Returns the temperature of a city in degrees Celsius.
#[tool(read_only, capabilities())]
async fn get_temperature(
    /// City name as people write it.
    city: String,
    /// Which day.
    #[param(pattern = "^(today|tomorrow)$")]
    day: String,
) -> Result<i32, Failure> {
    match (city.as_str(), day.as_str()) {
        ("Paris", "today") => Ok(19),
        ("Oslo", "today") => Ok(7),
        ("Paris" | "Oslo", _) => Err(Failure::failed("there is no forecast yet")
            .with_next("ask for `today`, or go on without it")),
        _ => Err(Failure::failed(format!("there is no station in {city}"))),
    }
}

/// Sends a message to the user's phone.
#[tool(capabilities(network))]
async fn send_message(text: String) -> String {
    format!("sent {} characters", text.chars().count())
}

fn blocks(message: &Value) -> impl Iterator<Item = &Value> {
    message["content"].as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let registry = ToolRegistry::builder().add(GetTemperatureTool).add(SendMessageTool).build()?;
    let runtime = Runtime::builder().registry(registry).nonces(Nonces::counting(0)).build()?;
    let run = runtime.run();

    let mut model = serde_json::from_str::<Vec<Value>>(RECORDED)?.into_iter();
    let mut messages =
        vec![json!({"role": "user", "content": "Where is it warmer, Paris or Oslo?"})];
    // The system prompt comes first in a request.
    println!("system: {} …", runtime.system_text().split(". ").next().unwrap_or_default());
    println!("user: Where is it warmer, Paris or Oslo?");

    loop {
        // One turn, one frozen set of tools: a request would contain these.
        let turn = run.turn().await?;
        let Some(response) = model.next() else {
            return Err("the recording ends before the model does".into());
        };
        messages.push(json!({"role": "assistant", "content": response["content"]}));
        for block in blocks(&response) {
            match block["type"].as_str() {
                Some("text") => println!("model: {}", text(&block["text"])),
                _ => println!("model: {} {}", text(&block["name"]), block["input"]),
            }
        }
        if Dialect::Anthropic.parse(&response)?.calls.is_empty() {
            break;
        }
        let message = turn.dispatch(Dialect::Anthropic, &response).await?;
        for result in blocks(&message) {
            let said = text(&result["content"]).replace('\n', "\n       ");
            println!("tools: {} {said}", text(&result["tool_use_id"]));
        }
        messages.push(message);
    }
    println!("{} messages; what the run has read is {:?}", messages.len(), run.label().trust);
    Ok(())
}
