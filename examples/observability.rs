//! Events and records. Run it with `cargo run -p haft --example observability`.
//!
//! What to notice:
//! - The subscriber is slow and its queue is small. It misses progress events, never a terminal
//!   event, and learns how much it missed and where. No call waits for it.
//! - A denied call has a record like all others.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use haft::{
    Config, Failure, Runtime, ToolRegistry,
    events::{Event, StreamItem},
    journal::RecordQuery,
    serde_json::json,
    tool::{Capabilities, DynTool, ToolSpec},
};

/// Copies files and reports its progress.
fn copy() -> DynTool {
    let spec = ToolSpec::new("copy", "Copies files.").read_only().capabilities(Capabilities::NONE);
    DynTool::new(
        spec,
        json!({"properties": {"files": {"type": "integer"}}}),
        |args, cx| async move {
            let files = args["files"].as_u64().unwrap_or(0);
            for n in 1..=files {
                cx.partial(format!("file {n}\n"));
            }
            match files {
                0 => Err(Failure::failed("there is nothing to copy")),
                _ => Ok(format!("{files} files copied")),
            }
        },
    )
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), haft::Error> {
    let erase = ToolSpec::new("erase", "Erases everything.");
    let erase = DynTool::new(erase, json!({}), |_, _| async { "gone" });
    let registry = ToolRegistry::builder().add(vec![copy(), erase]).build()?;
    let mut config = Config::default();
    // No throttling, so that there is something to miss.
    config.progress_every = Duration::ZERO;
    let runtime = Runtime::builder().registry(registry).config(config).build()?;

    // The queue holds twelve events at most. No call ever waits for it.
    let mut events = runtime.events(12);
    let run = runtime.run_builder().agent("ada").start();
    for (name, arguments) in
        [("copy", json!({"files": 40})), ("copy", json!({"files": 0})), ("erase", json!({}))]
    {
        let call = haft::ToolCall::new("c1", name, arguments);
        run.turn().await?.run([call]).await;
    }
    println!("the stream");
    while let Some(item) = events.try_next() {
        match item {
            StreamItem::Lagged(gap) => println!(
                "  {:>2} to {}: missed {}, of them {} notes and {} ends",
                gap.from_seq, gap.to_seq, gap.count, gap.progress_events, gap.terminal_events
            ),
            StreamItem::Event(item) => {
                if let Event::Finished { tool_name, failed, .. } = &item.event {
                    let end = failed.map_or("ok", |code| code.as_str());
                    let (seq, who) = (item.at.seq, &item.at.source);
                    println!("  {seq:>2} {} turn {}: {tool_name} {end}", who.run, who.cycle);
                }
            }
        }
    }

    println!("the records that failed, newest first");
    for record in runtime.records(&RecordQuery::default().failed(true)) {
        let Some(end) = &record.end else { continue };
        println!(
            "  {} by {}: {}, attempts {}, because {}",
            record.tool_name,
            record.agent_path.join("/"),
            end.error.as_deref().unwrap_or_default(),
            end.stats.attempts,
            record.verdict().map_or("no verdict".to_owned(), ToString::to_string),
        );
    }
    let good = runtime.records(&RecordQuery::default().failed(false).tool("copy"));
    for end in good.iter().filter_map(|record| record.end.as_ref()) {
        println!("and one that went well: {}", end.output.as_deref().unwrap_or_default());
    }
    Ok(())
}
