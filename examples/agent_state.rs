//! An agent whose tool has state. Run it with `cargo run -p haft --example agent_state`.
//!
//! What to notice:
//! - `State<T>` is a value of the host. The model never sees it, and it is not part of the schema.
//! - The chat is one run: what the first message put into the basket is there for the second.
//! - A tool that is not declared read-only runs alone and needs approval; this policy allows it.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Mutex;

use haft::{
    Failure, Runtime, State, ToolRegistry,
    agent::{Agent, Runner, ScriptedModel},
    policy::AllowAll,
    tool,
};

/// The basket of one customer.
#[derive(Default)]
struct Basket(Mutex<Vec<(String, u32)>>);

/// Puts something into the basket.
#[tool(capabilities())]
async fn add_to_basket(
    /// What to buy.
    item: String,
    /// How many.
    #[param(min = 1, max = 99)]
    count: u32,
    basket: State<Basket>,
) -> Result<String, Failure> {
    let mut items = basket.0.lock().map_err(|_| Failure::failed("the basket is broken"))?;
    items.push((item.clone(), count));
    Ok(format!("{count} × {item}, entry {}", items.len()))
}

/// Lists the basket.
#[tool(read_only, capabilities())]
async fn list_basket(basket: State<Basket>) -> Result<Vec<String>, Failure> {
    let items = basket.0.lock().map_err(|_| Failure::failed("the basket is broken"))?;
    Ok(items.iter().map(|(item, count)| format!("{count} × {item}")).collect())
}

const SCRIPT: &str = r#"
{"calls": [{"id": "a", "name": "add_to_basket", "arguments": {"item": "pear", "count": 4}}]}
{"text": "Added: {{result:a}}."}
{"calls": [{"id": "b", "name": "list_basket"}]}
{"text": "The basket has {{result:b}}."}
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let registry = ToolRegistry::builder().add(AddToBasketTool).add(ListBasketTool).build()?;
    let runtime =
        Runtime::builder().registry(registry).policy(AllowAll).state(Basket::default()).build()?;
    let runner = Runner::new(runtime);
    let agent = Agent::new("shop", ScriptedModel::parse(SCRIPT)?);
    let mut chat = runner.chat(&agent)?;
    for message in ["Four pears, please.", "What do I have?"] {
        println!("user: {message}");
        println!("shop: {}", chat.send(message).await?.text);
    }
    println!("{} messages in one run", chat.history().messages.len());
    Ok(())
}
