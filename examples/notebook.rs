//! A notebook as tools: state shared by several tools, resource keys, a guard, and a model's
//! response of four calls.
//!
//! `#[tools]` on an `impl` block makes one tool of each `#[tool]` method. Two reads run
//! concurrently, a write waits for the reads of the same note, and a guard denies one deletion that
//! the approver would allow.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::{collections::BTreeMap, error::Error, sync::Mutex};

use haft::{
    BoxFuture, Failure, Runtime, ToolCall, ToolRegistry,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    policy::Verdict,
    serde_json::json,
    tools,
};

/// Notes in memory, by name.
struct Notebook(Mutex<BTreeMap<String, String>>);

#[tools]
impl Notebook {
    fn new() -> Self {
        let notes = [("garden", "Water the beans."), ("trip", "Take a rain coat.")];
        Self(Mutex::new(notes.map(|(name, text)| (name.to_owned(), text.to_owned())).into()))
    }

    /// Returns the text of one note.
    #[tool(read_only, capabilities(), keys = Self::key, max_result = 10_000)]
    async fn read_note(&self, name: String) -> Result<String, Failure> {
        let notes = self.0.lock().map_err(|_| Failure::failed("the notebook is broken"))?;
        notes.get(&name).cloned().ok_or_else(|| Failure::failed(format!("no note `{name}`")))
    }

    /// Deletes a note permanently. The note `garden` cannot be deleted.
    #[tool(
        class = WriteExclusive,
        read_only = false,
        destructive,
        capabilities(destructive),
        keys = Self::key,
        guard = Self::not_garden,
        max_result = 200
    )]
    async fn delete_note(&self, name: String) -> Result<String, Failure> {
        let mut notes = self.0.lock().map_err(|_| Failure::failed("the notebook is broken"))?;
        match notes.remove(&name) {
            Some(_) => Ok(format!("deleted `{name}`")),
            None => Err(Failure::failed(format!("no note `{name}`"))),
        }
    }

    /// Calls that name the same note do not overlap, unless both read.
    fn key(name: &str) -> [String; 1] {
        [format!("note:/{name}")]
    }

    fn not_garden(name: &str) -> Option<Verdict> {
        (name == "garden").then(|| Verdict::deny("the note `garden` is pinned"))
    }
}

/// Approves everything; a guard still denies.
struct ApproveAll;

impl Approver for ApproveAll {
    fn ask<'a>(
        &'a self,
        _: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(async { Ok(ApprovalResponse::allow()) })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let registry = ToolRegistry::builder().add(Notebook::new()).build()?;
    let runtime = Runtime::builder().registry(registry).approver(ApproveAll).build()?;
    let call = |id: &str, tool: &str, name: &str| ToolCall::new(id, tool, json!({"name": name}));
    let calls = vec![
        call("a", "read_note", "garden"),
        call("b", "read_note", "trip"),
        call("c", "delete_note", "trip"),
        call("d", "delete_note", "garden"),
    ];
    let turn = runtime.run().turn().await?;
    for planned in turn.plan(calls.clone()) {
        println!("batch {}: {} ({})", planned.batch + 1, planned.tool, planned.why);
    }
    for answer in turn.run(calls).await {
        println!("{}: {}", answer.id(), answer.text().lines().next().unwrap_or_default());
    }
    Ok(())
}
