//! An approval that another process answers. Run it with
//! `cargo run -p haft --example agent_resume`.
//!
//! What to notice:
//! - With deferred approvals a run ends as waiting instead of blocking. Its state is one JSON file,
//!   and contains no authorization.
//! - The program starts itself a second time. That process loads the file and answers; the call is
//!   validated and authorized again, and runs once.
//! - The script goes on at the right line, because it counts the model's messages.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::{path::Path, process::Command};

use haft::{
    Failure, Runtime, ToolRegistry,
    agent::{Agent, DeferredApprovals, FileRunStore, RunStore as _, Runner, ScriptedModel},
    approval::ApprovalResponse,
    tool,
};

/// Deploys a version.
#[tool(capabilities(network))]
async fn deploy(version: String) -> String {
    format!("{version} is live")
}

const SCRIPT: &str = r#"
{"text": "I deploy it.", "calls": [{"id": "d", "name": "deploy", "arguments": {"version": "1.4.2"}}]}
{"text": "Done: {{result:d}}."}
"#;

/// What both processes set up.
fn runner(store: &FileRunStore) -> Result<Runner, Failure> {
    let approvals = DeferredApprovals::new();
    let registry = ToolRegistry::builder().add(DeployTool).build()?;
    let runtime = Runtime::builder().registry(registry).approver(approvals.clone()).build()?;
    let runner = Runner::new(runtime).deferred_approvals(approvals).store(store.clone());
    Ok(runner.configure_run(|run| run.id("deploy-7")))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let agent = Agent::new("deployer", ScriptedModel::parse(SCRIPT)?);
    if let Some(directory) = std::env::args().nth(1) {
        // The second process.
        let store = FileRunStore::new(directory);
        let run = "deploy-7".into();
        let Some(saved) = store.load(&run).await? else {
            return Err(Failure::failed("there is no such run"));
        };
        let waiting = saved.pending().iter().map(|call| call.call.clone());
        let answers: Vec<_> = waiting.map(|call| (call, ApprovalResponse::allow())).collect();
        let result = runner(&store)?.resume(&agent, saved, answers).await?;
        println!("  {}: {}", result.state, result.text);
        return Ok(store.remove(&run).await?);
    }
    let directory = std::env::temp_dir().join(format!("haft-resume-{}", std::process::id()));
    let result = runner(&FileRunStore::new(&directory))?.run(&agent, "Deploy 1.4.2.").await?;
    println!("{}: {}", result.state, result.reason);
    for call in &result.pending {
        let why = call.question.as_ref().map(|question| question.reason.as_str());
        println!("  {} {}: {}", call.tool, call.arguments, why.unwrap_or("waits for another call"));
    }
    again(&directory)?;
    std::fs::remove_dir(&directory)?;
    Ok(())
}

/// Starts this program again, as the process of the person who approves.
fn again(directory: &Path) -> Result<(), Failure> {
    println!("another process approves:");
    let status = Command::new(std::env::current_exe()?).arg(directory).status()?;
    if status.success() { Ok(()) } else { Err(Failure::failed("the second process failed")) }
}
