//! A model of your own. Run it with `cargo run -p haft --example agent_own_model`.
//!
//! What to notice:
//! - `Model` has one method. `request.body(..)` is the provider's request: system prompt, messages,
//!   tools with a prompt-cache marker. Add the model's name, and post it with any HTTP client.
//! - `reply` takes the response as it comes: chunks with `feed` and then `end`, or a whole JSON
//!   with `response`. It decodes, and starts read-only calls while the rest is on its way.
//! - The client here answers from the request itself, so this needs no key and no network.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use haft::{
    BoxFuture, Dialect, Error, Failure, Runtime, ToolRegistry,
    agent::{Agent, Model, ModelInfo, ModelRequest, Reply, Runner},
    serde_json::{Value, json},
    tool,
    turn::StopReason,
};

/// Adds two numbers.
#[tool(read_only, capabilities())]
async fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// A client of a provider that speaks the chat format.
struct ChatClient {
    model: &'static str,
}

impl ChatClient {
    /// A real client posts the body and returns the chunks of the response.
    async fn post(&self, body: &Value) -> Vec<String> {
        let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        println!(
            "request: {} messages, tools {}",
            messages.len(),
            body["tools"][0]["function"]["name"]
        );
        let events = match messages.last() {
            Some(last) if last["role"] == "tool" => {
                let text = last["content"].as_str().unwrap_or_default();
                let sum = text.lines().nth(1).unwrap_or_default();
                vec![
                    json!({"choices": [{"delta": {"content": format!("It is {sum}.")}, "finish_reason": "stop"}]}),
                ]
            }
            _ => vec![
                json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "add", "arguments": "{\"a\": 20, "}}]}}]}),
                json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "\"b\": 22}"}}]}}]}),
                json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
                json!({"choices": [], "usage": {"prompt_tokens": 80, "completion_tokens": 20}}),
            ],
        };
        events.iter().map(|event| format!("data: {event}\n\n")).collect()
    }
}

impl Model for ChatClient {
    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        reply: &'a mut Reply,
    ) -> BoxFuture<'a, Result<StopReason, Error>> {
        Box::pin(async move {
            let mut body = Value::Object(request.body(Dialect::OpenAiChat)?);
            body["model"] = json!(self.model);
            body["max_completion_tokens"] = json!(request.max_tokens);
            body["stream"] = json!(true);
            for chunk in self.post(&body).await {
                reply.feed(chunk.as_bytes());
            }
            reply.end()
        })
    }

    fn info(&self) -> ModelInfo {
        ModelInfo { dialect: Dialect::OpenAiChat, ..ModelInfo::new(self.model) }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let registry = ToolRegistry::builder().add(AddTool).build()?;
    let runner = Runner::new(Runtime::builder().registry(registry).build()?);
    let agent = Agent::new("calculator", ChatClient { model: "local-7b" });
    let result = runner.run(&agent, "What is 20 + 22?").await?;
    println!("{}: {}", result.state, result.text);
    Ok(())
}
