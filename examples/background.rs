//! Background work. Run it with `cargo run -p haft --example background`.
//!
//! What to notice:
//! - The tool returns a task at once, and the model goes on.
//! - Progress of the work comes as throttled events.
//! - The model gets the result in two ways: it polls with `check_task`, or the loop takes
//!   finished results and adds them to the conversation. Each result is delivered once.
//! - Cancelling the run stops work that is still running, and the result says so.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use haft::{
    Failure, Output, Run, Runtime, ToolCall, ToolContext, ToolRegistry,
    background::CheckTask,
    events::Event,
    serde_json::{Value, json},
    tool,
    tool::Progress,
};

/// Builds a part of the project.
#[tool(read_only, capabilities())]
async fn build(part: String, cx: &ToolContext) -> Result<Output, Failure> {
    cx.spawn_background(format!("building {part}"), move |cx| async move {
        cx.progress(0.1, "compiling");
        // Simulated work; a body that wants a clean shutdown also waits for its cancellation.
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(if part == "docs" { 60_000 } else { 20 })) => {}
            () = cx.cancelled() => return Err(Failure::failed("stopped between two files")),
        }
        Ok(format!("{part} is built"))
    })
    .await
}

async fn call(run: &Run, name: &str, arguments: Value) -> Result<(), Box<dyn std::error::Error>> {
    println!("model calls {name}({arguments})");
    for answer in run.turn().await?.run([ToolCall::new("a", name, arguments)]).await {
        println!("  reads: {}", answer.text());
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder()
        .registry(ToolRegistry::builder().add(BuildTool).add(CheckTask).build()?)
        .observer(|event: &Event| match event {
            Event::Progress { call, note: Progress::Progress(_, what) } => {
                println!("  {call}: {what}")
            }
            Event::TaskFinished { task_id, failed, .. } => {
                println!("  {task_id} ended: {failed:?}")
            }
            _ => {}
        })
        .build()?;
    let run = runtime.run();

    call(&run, "build", json!({"part": "library"})).await?;
    call(&run, "check_task", json!({"task_id": "task-1", "wait_s": 10})).await?;

    call(&run, "build", json!({"part": "command"})).await?;
    call(&run, "build", json!({"part": "docs"})).await?;
    // The loop's way: each result is added to the conversation as a message of its own.
    if let Some(late) = run.next_background_result().await {
        println!("loop adds: {}: {}", late.task_id, late.answer.text());
    }
    println!(
        "outstanding: {:?}",
        run.background_tasks().iter().map(|t| &t.summary).collect::<Vec<_>>()
    );
    run.cancel();
    if let Some(late) = run.next_background_result().await {
        println!("loop adds: {}: {}", late.task_id, late.answer.text());
    }
    runtime.close().await;
    Ok(())
}
