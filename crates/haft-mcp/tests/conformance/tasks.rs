//! The tools of the tasks extension.

use std::time::Duration;

use haft::{Failure, Output, ToolContext, tool::DynTool};
use haft_mcp::server::CallPeer;
use serde_json::{Value, json};

use crate::{
    questions::form,
    tools::{no_arguments, peer, spec},
};

pub(crate) fn all() -> Vec<DynTool> {
    vec![
        greet(),
        slow_compute(),
        failing_job(),
        protocol_error_job(),
        confirm_delete(),
        multi_input(),
        after_question(),
    ]
}

/// Fails unless the client knows tasks; then the call becomes one.
async fn require_task(cx: &ToolContext) -> Result<CallPeer, Failure> {
    let peer = peer(cx)?;
    if !peer.supports_tasks() {
        let required = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        let data = json!({"requiredCapabilities": required});
        return Err(peer.reject(-32021, "this tool needs a client that knows tasks", Some(data)));
    }
    Ok(peer)
}

fn greet() -> DynTool {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}},
        "required": ["name"]});
    DynTool::new(spec("greet", "Greets at once."), schema, |args, _| async move {
        let name = args["name"].as_str().unwrap_or("friend");
        Ok::<_, Failure>(Output::text(format!("Hello, {name}!")))
    })
}

fn slow_compute() -> DynTool {
    let schema = json!({"type": "object", "properties": {
        "seconds": {"type": "number"}, "label": {"type": "string"}}});
    DynTool::new(spec("slow_compute", "Takes a while."), schema, |args, cx| async move {
        peer(&cx)?.become_task().await;
        let seconds = args["seconds"].as_f64().unwrap_or(1.0);
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        Ok::<_, Failure>(Output::text(format!("done after {seconds} s")))
    })
}

fn failing_job() -> DynTool {
    DynTool::new(spec("failing_job", "Fails as a task."), no_arguments(), |_, cx| async move {
        require_task(&cx).await?.become_task().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        Err::<Output, _>(Failure::failed("failing_job: intentional tool execution error"))
    })
}

fn protocol_error_job() -> DynTool {
    let spec = spec("protocol_error_job", "Fails with an error of the protocol.");
    DynTool::new(spec, no_arguments(), |_, cx: ToolContext| async move {
        let peer = peer(&cx)?;
        peer.become_task().await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        Err::<Output, _>(peer.reject(-32603, "intentional protocol-level failure", None))
    })
}

fn confirm_delete() -> DynTool {
    let schema = json!({"type": "object", "properties": {"filename": {"type": "string"}}});
    DynTool::new(spec("confirm_delete", "Asks in a task."), schema, |args, cx| async move {
        let peer = peer(&cx)?;
        peer.become_task().await;
        let file = args["filename"].as_str().unwrap_or("file.txt");
        let question = form(&format!("Delete {file}?"), json!({"confirm": {"type": "boolean"}}));
        let answer = peer.ask("confirm", question).await?;
        Ok::<_, Failure>(Output::text(format!("confirmed: {}", answer["content"]["confirm"])))
    })
}

fn multi_input() -> DynTool {
    let spec = spec("multi_input", "Asks twice at once in a task.");
    DynTool::new(spec, no_arguments(), |_, cx: ToolContext| async move {
        let peer = require_task(&cx).await?;
        peer.become_task().await;
        let value = |name: &str| form(name, json!({"value": {"type": "string"}}));
        let questions = [("input-a".to_owned(), value("A?")), ("input-b".to_owned(), value("B?"))];
        let answers = peer.ask_all(questions).await?;
        let shown: Vec<&Value> = answers.values().map(|a| &a["content"]["value"]).collect();
        Ok::<_, Failure>(Output::text(format!("{shown:?}")))
    })
}

fn after_question() -> DynTool {
    let spec = spec("test_tool_with_task", "Asks, and then goes on as a task.");
    DynTool::new(spec, no_arguments(), |_, cx: ToolContext| async move {
        let peer = require_task(&cx).await?;
        let question = form("What is your name?", json!({"name": {"type": "string"}}));
        let answer = peer.ask("user_name", question).await?;
        peer.become_task().await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let name = answer["content"]["name"].as_str().unwrap_or("friend").to_owned();
        Ok::<_, Failure>(Output::text(format!("Hello, {name}! (async)")))
    })
}
