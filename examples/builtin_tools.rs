//! The built-in tools in a temporary directory.
//! Run it with `cargo run -p haft-tools --example builtin_tools`.
//!
//! What to notice:
//! - `init` is the first line of `main`: the sandbox starts this program again to confine a
//!   command.
//! - Reading and searching files run without approval, and so does a read-only command on files of
//!   the directory: its sandbox is read-only and shows nothing else. The rest needs approval.
//! - The run needs no working directory: the tools have a workspace, and a run works there.
//! - A path outside the directory is refused (path traversal), and so is a protected name that
//!   makes other programs run code. Approval could not allow it, so no question is asked.
//! - A command that writes outside gets a permission error. It ran, so its own output is the
//!   result.
//! - Without a sandbox, commands are refused, and file tools still work.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use haft::{
    BoxFuture, Failure, FailureCode, Run, Runtime, ToolCall, ToolRegistry,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    serde_json::{Value, json},
};
use haft_sandbox::{Access, Helper, Workspace};
use haft_tools::BuiltinTools;

/// An approver that prints the question and approves.
struct Person;

impl Approver for Person {
    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        println!("  asked: {}", question.verdict.reason);
        Box::pin(async { Ok(ApprovalResponse::allow()) })
    }
}

/// Makes one call and prints what a model reads of it.
async fn call(run: &Run, tool: &str, arguments: Value) -> Result<Option<FailureCode>, haft::Error> {
    println!("{tool}({arguments})");
    let answers = run.turn().await?.run([ToolCall::new("a", tool, arguments)]).await;
    let mut code = None;
    for answer in answers {
        for line in answer.text().lines() {
            println!("  {line}");
        }
        code = answer.failure().map(Failure::code);
    }
    Ok(code)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    haft_sandbox::init(); // before anything else
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work())
}

async fn work() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let workspace = Workspace::builder().root(directory.path(), Access::Write).build()?;
    let tools = BuiltinTools::new(workspace).helper(Helper::ThisProgram);
    let runtime = Runtime::builder()
        .registry(ToolRegistry::builder().add(tools).build()?)
        .approver(Person)
        .build()?;
    let run = runtime.run();

    let list = "eggs\nbraed\ntea\n";
    call(&run, "write_file", json!({"file_path": "shop/list.txt", "content": list})).await?;
    call(&run, "read_file", json!({"file_path": "shop/list.txt"})).await?;
    let edit = json!({"file_path": "shop/list.txt", "old_text": "braed", "new_text": "bread"});
    call(&run, "edit_file", edit).await?;
    call(&run, "search_files", json!({"pattern": "^b"})).await?;

    call(&run, "read_file", json!({"file_path": "../../etc/passwd"})).await?;
    call(&run, "write_file", json!({"file_path": ".git/hooks/pre-commit", "content": "x"})).await?;

    let reads = call(&run, "shell", json!({"command": "sort shop/list.txt | head -2"})).await?;
    if reads == Some(FailureCode::SandboxUnavailable) {
        println!("nothing confines processes here, so no command is run; `haft doctor` says why");
        return Ok(());
    }
    call(&run, "shell", json!({"command": "sort -o shop/list.txt shop/list.txt"})).await?;
    let out = "cp shop/list.txt /etc/list.txt 2> /dev/null || echo it stays here";
    call(&run, "shell", json!({"command": out})).await?;
    call(&run, "read_file", json!({"file_path": "shop/list.txt"})).await?;
    Ok(())
}
