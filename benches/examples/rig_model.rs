//! A model of another crate under haft's loop: any model of rig becomes a `Model`.
//! Run it with `cargo run -p haft-benches --example rig_model`.
//!
//! What to notice:
//! - The adapter is one method: the history in, rig's request out, rig's answer into the reply.
//! - Limits, approvals and records are haft's, whatever client makes the request.
//! - Here rig's own scripted model answers; with a provider's model only `main` changes.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use haft::{
    BoxFuture, Dialect, Error, ErrorKind, Runtime, ToolRegistry,
    agent::{Agent, Model, ModelInfo, ModelRequest, Reply, Runner, Usage},
    history::{AssistantPart, ContentPart, Message},
    tool,
    turn::StopReason,
};
use rig_core::{
    DynModel,
    completion::{AssistantContent, CompletionRequest, FinishReason, ToolDefinition},
    message::{AssistantMessage, CallId, Message as RigMessage, ToolCall, ToolFunction, ToolName},
    operation::Completion,
    test_utils::{MockCompletionModel, MockTurn},
};
use serde_json::{Value, json};

/// Adds two numbers.
#[tool(read_only, capabilities())]
async fn add(a: i64, b: i64) -> i64 {
    a + b
}

struct RigModel(DynModel<Completion>);

impl Model for RigModel {
    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        reply: &'a mut Reply,
    ) -> BoxFuture<'a, Result<StopReason, Error>> {
        Box::pin(async move {
            let messages = request.history.messages.iter().flat_map(rig_messages).collect();
            let tools = request.tools.tools().as_array().into_iter().flatten();
            let mut body = CompletionRequest::new("");
            body.chat_history = messages;
            let body = body
                .preamble(request.instructions)
                .tools(tools.filter_map(rig_tool).collect())
                .max_tokens(request.max_tokens);
            let response = self.0.call(body).await.map_err(|error| {
                Error::new(ErrorKind::BadResponse, error.to_string()).because(error)
            })?;
            for content in &response.choice {
                match content {
                    AssistantContent::Text(text) => reply.text(&text.text),
                    AssistantContent::ToolCall(call) => {
                        let arguments = Value::Object(call.function.arguments.clone());
                        reply.call(&*call.id.wire(), call.function.name.as_str(), arguments);
                    }
                    _ => {}
                }
            }
            if let (Some(input), Some(output)) =
                (response.usage.input_tokens, response.usage.output_tokens)
            {
                let (input_tokens, output_tokens) = (input, output);
                reply.usage(Usage { input_tokens, output_tokens, ..Usage::default() });
            }
            Ok(match response.finish_reason() {
                None | Some(FinishReason::Stop | FinishReason::ToolCalls) => StopReason::Done,
                Some(FinishReason::Length) => StopReason::Truncated,
                Some(FinishReason::ContentFilter) => StopReason::Refused,
                Some(_) => StopReason::Unknown,
            })
        })
    }

    fn info(&self) -> ModelInfo {
        // Plain JSON Schema, as MCP has it; rig lowers it for its provider.
        ModelInfo { dialect: Dialect::Mcp, ..ModelInfo::new(self.0.name()) }
    }
}

fn rig_tool(tool: &Value) -> Option<ToolDefinition> {
    let description = tool["description"].as_str().unwrap_or_default();
    let name = ToolName::new(tool["name"].as_str()?).ok()?;
    Some(ToolDefinition::new(name, description, tool["inputSchema"].clone()))
}

fn rig_messages(message: &Message) -> Vec<RigMessage> {
    match message {
        Message::System(parts) => vec![RigMessage::system(text(parts))],
        Message::User(parts) => vec![RigMessage::user(text(parts))],
        Message::Assistant(parts) => {
            let content = parts.iter().filter_map(|part| match part {
                AssistantPart::Part(part) => {
                    Some(AssistantContent::text(text(std::slice::from_ref(part))))
                }
                AssistantPart::Call(call) => {
                    let name = ToolName::new(call.name.as_str()).ok()?;
                    let arguments = call.object().map(|map| Value::Object(map.into_owned()));
                    let function = ToolFunction::new(name, arguments.unwrap_or(json!({})));
                    let id = call.id.as_str();
                    Some(AssistantContent::ToolCall(ToolCall::from_wire(id, function)))
                }
            });
            vec![RigMessage::Assistant(AssistantMessage::new(content.collect()))]
        }
        Message::Results(results) => {
            let results = results.iter().filter_map(|result| {
                let name = ToolName::new(result.name.as_ref()?.as_str()).ok()?;
                let id = CallId::from_wire(result.id.as_str());
                Some(RigMessage::tool_result(id, name, text(&result.parts)))
            });
            results.collect()
        }
    }
}

fn text(parts: &[ContentPart]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        ContentPart::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), haft::Error> {
    let script =
        [MockTurn::tool_call("a", "add", json!({"a": 20, "b": 22})), MockTurn::text("It is 42.")];
    let model = RigModel(MockCompletionModel::from_turns(script).erase());
    let registry = ToolRegistry::builder().add(AddTool).build()?;
    let runner = Runner::new(Runtime::builder().registry(registry).build()?);
    let result = runner.run(&Agent::new("calculator", model), "What is 20 + 22?").await?;
    println!("{}: {} ({} call)", result.state, result.text, result.usage.calls);
    Ok(())
}
