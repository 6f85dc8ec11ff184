//! Layers: cache, retry, rate limit, timeout. Run it with `cargo run -p haft --example layers`.
//!
//! What to notice:
//! - The tool only declares; nothing in its body waits, counts or caches.
//! - A failed attempt is retried after a backoff, and the body sees the attempt number.
//! - An equal call is a cache hit: no attempt, no rate. A different one waits for the rate limit.
//! - A call whose deadline is shorter than that wait is refused at once, with a retry-after.
//! - All time is the clock's, which this program advances itself, so an hour of waiting takes none.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use haft::{
    Failure, Run, Runtime, ToolCall, ToolContext, ToolRegistry, events::Event, host::Clock,
    serde_json::json, testing::ManualClock, tool,
};

/// Returns the tide table of a harbour.
#[tool(
    read_only,
    capabilities(),
    cache = "1h",
    retry(max_attempts = 3, initial_delay = "2s", jitter = false),
    rate = "2/minute",
    timeout = "5s"
)]
async fn tides(
    /// Where, e.g. `Brest`.
    harbour: String,
    cx: &ToolContext,
) -> Result<String, Failure> {
    if harbour == "Brest" && cx.attempt() == 1 {
        return Err(Failure::failed("the gauge does not answer"));
    }
    Ok(format!("{harbour}: high water at noon (attempt {})", cx.attempt()))
}

/// Prints what the layers do.
fn print_event(event: &Event) {
    match event {
        Event::Cached { how, .. } => println!("  cache: {how:?}"),
        Event::Retrying { attempt, failed, wait, .. } => {
            println!("  {failed}, attempt {attempt} in {wait:?}");
        }
        Event::Waited { what, time, .. } => println!("  waited {time:?} ({what:?})"),
        _ => {}
    }
}

/// Makes one call, and advances the clock whenever every task waits for it.
async fn ask(
    run: &Run,
    clock: &ManualClock,
    call: ToolCall,
) -> Result<(), Box<dyn std::error::Error>> {
    let began = clock.now();
    println!("{}", call.id);
    let turn = run.turn().await?;
    let mut walk = std::pin::pin!(turn.run([call]));
    let answers = loop {
        tokio::select! {
            biased;
            answers = &mut walk => break answers,
            () = tokio::task::yield_now() => clock.advance(clock.until_next().unwrap_or_default()),
        }
    };
    for answer in answers {
        println!("  {}", answer.text().replace('\n', "\n  "));
    }
    println!("  after {:?}", clock.now() - began);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::new();
    let registry = ToolRegistry::builder().add(TidesTool).build()?;
    let runtime =
        Runtime::builder().registry(registry).clock(clock.clone()).observer(print_event).build()?;
    for entry in runtime.registry().own() {
        println!("{} has these layers", entry.name());
        runtime.layers_of(entry).iter().for_each(|layer| println!("  {layer}"));
    }
    let run = runtime.run();
    let call = |id: &str, harbour: &str| ToolCall::new(id, "tides", json!({"harbour": harbour}));
    ask(&run, &clock, call("Brest, which fails once", "Brest")).await?;
    ask(&run, &clock, call("Brest again", "Brest")).await?;
    ask(&run, &clock, call("Calais, behind the other two", "Calais")).await?;
    let hurried = call("Dover, in a hurry", "Dover").deadline(Duration::from_secs(10));
    ask(&run, &clock, hurried).await
}
