//! One tool, one runtime, four calls. Run it with `cargo run -p haft --example first_tool`.
//!
//! What to notice:
//! - The function is the tool: doc comments are what the model reads, types are the schema, and
//!   `#[tool]` generates the unit struct `CountWordsTool`. The function can still be called
//!   directly.
//! - `read_only, capabilities()` lets it run without approval. `erase_notes` declares nothing, so
//!   it needs approval, and no approver is configured: the result is a denial.
//! - Invalid calls of a model come back as a failure it can act on: code, message, next step.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use haft::{Runtime, ToolRegistry, serde_json::json, tool};

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
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Every error in a definition or a setup appears here, not later.
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
                println!("  {}", failure.model_text().replace('\n', "\n  "));
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
