//! Tools with state. Run it with `cargo run -p haft --example state`.
//!
//! What to notice:
//! - `#[tools]` makes a tool of each marked method; they share one `Ledger`.
//! - `State<Limit>` comes from the runtime and is checked when the runtime is built;
//!   `RunState<User>` comes from the run. Neither is in the schema, so a model cannot choose its
//!   user.
//! - A run that supplies no user is not offered these tools, and calling one anyway is refused.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::{Mutex, PoisonError};

use haft::{
    Failure, Run, Runtime, State, ToolCall, ToolRegistry,
    serde_json::{Value, json},
    tool::{Json, RunState},
    tools,
};

/// Bookings of all users, in order.
#[derive(Default)]
struct Ledger(Mutex<Vec<(String, i64)>>);

/// The largest amount that is booked at once.
struct Limit(i64);

/// The person a run works for.
struct User(&'static str);

#[tools(prefix = "ledger_")]
impl Ledger {
    /// Books an amount for the current user.
    #[tool(class = "write_exclusive", capabilities(), permission = "none")]
    async fn book(
        &self,
        /// Whole euros; negative takes away.
        amount: i64,
        limit: State<Limit>,
        user: RunState<User>,
    ) -> Result<String, Failure> {
        if amount.unsigned_abs() > limit.0.unsigned_abs() {
            return Err(Failure::failed(format!("{amount} is more than {} at once", limit.0))
                .with_next("book it in smaller parts"));
        }
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push((user.0.to_owned(), amount));
        Ok(format!("booked {amount} for {}", user.0))
    }

    /// Lists the bookings of the current user.
    #[tool(read_only, capabilities())]
    async fn list(&self, user: RunState<User>) -> Json<Vec<i64>> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Json(entries.iter().filter(|(who, _)| who == user.0).map(|(_, amount)| *amount).collect())
    }
}

/// Runs one turn and prints each result.
async fn turn(run: &Run, calls: [(&str, Value); 2]) -> Result<(), Box<dyn std::error::Error>> {
    let turn = run.turn().await?;
    println!("{}: {} tools offered", run.id(), turn.snapshot().entries().count());
    let calls = calls.into_iter().map(|(name, arguments)| ToolCall::new("", name, arguments));
    for answer in turn.run(calls).await {
        println!("  {} {}", answer.requested_name(), answer.text().replace('\n', "\n  "));
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tools = || ToolRegistry::builder().add(Ledger::default()).build();
    // A missing `State` is found before anything runs.
    if let Err(error) = Runtime::builder().registry(tools()?).build() {
        println!("without a limit: {error}");
    }

    let runtime = Runtime::builder().registry(tools()?).state(Limit(100)).build()?;
    for entry in runtime.registry().own() {
        println!("{} takes {}", entry.name(), entry.input_schema()["properties"]);
    }

    let ada = runtime.run_builder().id("ada").run_state(User("Ada")).start();
    let bob = runtime.run_builder().id("bob").run_state(User("Bob")).start();
    turn(&ada, [("ledger_book", json!({"amount": 40})), ("ledger_list", json!({}))]).await?;
    turn(&bob, [("ledger_book", json!({"amount": 4000})), ("ledger_list", json!({}))]).await?;
    let nobody = runtime.run_builder().id("nobody").start();
    turn(&nobody, [("ledger_list", json!({})), ("ledger_lst", json!({}))]).await
}
