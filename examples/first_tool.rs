//! One tool, one runtime, four calls. Run it with `cargo run -p haft --example first_tool`.
//!
//! What to notice:
//! - The function is the tool: doc comments are what the model reads, types are the schema, and
//!   `#[tool]` makes the unit struct `CountWordsTool` beside it. The function stays callable as
//!   itself.
//! - `read_only, capabilities()` is what lets it run unasked. `erase_notes` says nothing about
//!   itself, so it needs permission, and here is nobody to ask: the answer is a refusal, not a run.
//! - Whatever a model gets wrong comes back as a failure it can act on: code, message, next step.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use haft::{Failure, Runtime, ToolRegistry, serde_json::json, tool};

/// Counts the words of a text.
#[tool(read_only, capabilities())]
async fn count_words(
    /// The text to look at.
    text: String,
    /// Words shorter than this do not count.
    #[default(1)]
    #[param(min = 1, max = 50)]
    min_length: usize,
) -> String {
    let count = text.split_whitespace().filter(|w| w.chars().count() >= min_length).count();
    format!("{count} words")
}

/// Erases all notes.
#[tool]
async fn erase_notes() -> &'static str {
    "all notes are gone"
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    // Everything that can be wrong with a definition or a setup is an error here, not later.
    let registry = ToolRegistry::builder().add(CountWordsTool).add(EraseNotesTool).build()?;
    let runtime = Runtime::builder().registry(registry).build()?;

    for (name, arguments) in [
        ("count_words", json!({"text": "a call leaves by one door"})),
        ("count_words", json!({"text": "a call leaves by one door", "min_length": 4})),
        ("count_words", json!({"txt": "a call leaves by one door", "min_length": 0})),
        ("erase_notes", json!({})),
    ] {
        println!("{name}({arguments})");
        match runtime.call(name, arguments).await {
            Ok(output) => println!("  {}", output.to_text()),
            Err(failure) => {
                // This is what a model reads …
                println!("  {}", failure.to_string().replace('\n', "\n  "));
                // … and this is for the operator alone.
                if let Some(why) = failure.source() {
                    println!("  (because {why})");
                }
            }
        }
    }
    println!("count_words(\"as itself\", 1) = {}", count_words("as itself".to_owned(), 1).await);
    Ok(())
}
