//! Converts message history to another provider.
//! Run it with `cargo run -p haft --example move_history`.
//!
//! What to notice:
//! - The history was truncated: one of two calls never got its result. The strict check refuses it;
//!   writing repairs it, and the added result says that the outcome is unknown.
//! - Mistral accepts ids of nine letters and digits only. Each id is mapped to another, always the
//!   same one, in the call and in its result.
//! - Thinking belongs to the provider that signed it. It is dropped, and the changes say so.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use haft::{Dialect, history::LastTurn, serde_json::json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let history = json!({
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "How warm is it in Oslo and Rome?"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Two cities, two calls.", "signature": "c2ln"},
                {"type": "tool_use", "id": "toolu_01A", "name": "warmth", "input": {"city": "Oslo"}},
                {"type": "tool_use", "id": "toolu_01B", "name": "warmth", "input": {"city": "Rome"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_01A", "content": "7"},
                {"type": "text", "text": "Are you still there?"},
            ]},
        ],
    });
    let transcript = Dialect::Anthropic.read_history(&history)?;
    if let Err(error) = transcript.check(LastTurn::Closed) {
        println!("strict: {error}");
    }
    let moved = transcript.write(Dialect::Mistral)?;
    for change in &moved.changes {
        println!("changed: {change}");
    }
    for message in moved.body["messages"].as_array().into_iter().flatten() {
        println!("{message}");
    }
    Ok(())
}
