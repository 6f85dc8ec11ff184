//! Tools that succeed, fail, panic, hang, flood and leak, as their arguments say.
//!
//! All of them do what `how` says, so that the driver decides randomly and a seed reproduces it.
//! Nothing here waits longer than a few milliseconds on its own.

use std::time::Duration;

use haft::{
    Failure, Output, ToolContext, ToolRegistry,
    artifacts::ReadResult,
    background::CheckTask,
    host::HostContext,
    taint::Label,
    tool,
    tool::{Backoff, Cache, Capabilities, DynTool, Rate, RetryHint, RetryPolicy, ToolSpec},
};
use serde_json::{Value, json};

/// Registered as a secret, so it must be redacted everywhere.
pub(crate) const SECRET: &str = "correct-horse-battery";
/// The panic message of an intended panic.
const PANIC_MESSAGE: &str = "a body that fell over";
/// The attempt timeout.
const TIMEOUT: Duration = Duration::from_millis(5);
/// Ends by itself, but after its timeout.
const TOO_LONG: Duration = Duration::from_millis(12);

/// The behaviours, and how many calls in ten thousand have each.
pub(crate) const BEHAVIOURS: [(&str, u64); 11] = [
    ("flood", 40),
    ("panic", 20),
    ("hang", 10),
    ("late", 10),
    ("note", 200),
    ("nest", 100),
    ("leak", 200),
    ("colour", 300),
    ("fail", 200),
    ("fail-later", 100),
    ("wait", 100),
];

async fn done(how: &str, n: u64, cx: &ToolContext) -> Result<Output, Failure> {
    match how {
        "flood" => {
            let line = format!("line of {n}: {}\n", "words and more words ".repeat(4));
            Ok(Output::text(line.repeat(1_000)))
        }
        "panic" => std::panic::panic_any(PANIC_MESSAGE),
        // Stops on cancellation.
        "hang" => {
            cx.cancellation().cancelled().await;
            Err(Failure::failed("was asked to stop"))
        }
        // Continues for a while after cancellation.
        "late" => {
            tokio::time::sleep(TOO_LONG).await;
            Ok(Output::text("too late"))
        }
        "wait" => {
            tokio::task::yield_now().await;
            Ok(Output::text(n.to_string()))
        }
        "note" => {
            for piece in 0..8_u8 {
                cx.partial(format!("piece {piece} of {n}\n"));
                cx.progress(f32::from(piece) / 8.0, "on the way");
            }
            tokio::task::yield_now().await;
            Ok(Output::text(cx.partial_so_far()))
        }
        "nest" => cx.call("look", json!({"how": "plain", "n": n % 50})).await,
        "leak" => Ok(Output::text(format!("the password is {SECRET}, n is {n}"))),
        "colour" => Ok(Output::text(format!("\u{1b}[31m{n}\u{1b}[0m \u{202e}back\u{200b}"))),
        "fail" => Err(Failure::failed(format!("{n} does not work")).with_retry(RetryHint::Fix)),
        "fail-later" => Err(Failure::failed("busy").with_retry(RetryHint::Later)),
        _ => Ok(Output::text(n.to_string())),
    }
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"how": {"type": "string"}, "n": {"type": "integer", "minimum": 0}},
        "required": ["how", "n"],
    })
}

fn dynamic(spec: ToolSpec) -> DynTool {
    DynTool::new(spec, schema(), |args, cx| async move {
        let n = args["n"].as_u64().unwrap_or_default();
        done(args["how"].as_str().unwrap_or_default(), n, &cx).await
    })
}

fn retries() -> RetryPolicy {
    RetryPolicy {
        max_attempts: 2,
        backoff: Backoff::Fixed,
        initial_delay: Duration::from_millis(1),
        ..RetryPolicy::default()
    }
}

/// A body on a thread, which cannot be stopped.
#[tool(read_only, capabilities(), timeout = "5ms")]
#[expect(clippy::disallowed_methods, reason = "a body that blocks its thread is what is tried")]
fn block(millis: u64) -> String {
    std::thread::sleep(Duration::from_millis(millis.min(10)));
    "slept".to_owned()
}

/// Goes on after its answer.
#[tool(read_only, capabilities())]
async fn later(n: u64, cx: &ToolContext) -> Result<Output, Failure> {
    cx.spawn_background(format!("number {n}"), move |cx| async move {
        if n.is_multiple_of(7) {
            cx.cancellation().cancelled().await;
        }
        tokio::task::yield_now().await;
        n.to_string()
    })
    .await
}

/// Fails more often than not, so that its breaker opens and closes.
#[tool(read_only, capabilities())]
async fn frail(n: u64) -> Result<String, Failure> {
    match n % 3 {
        0 => Ok(n.to_string()),
        _ => Err(Failure::failed("no peer is there").with_retry(RetryHint::Later)),
    }
}

pub(crate) fn registry() -> Result<ToolRegistry, haft::Error> {
    let rate = Rate { count: u32::MAX, per: haft::tool::Window::Second };
    let look = ToolSpec::new("look", "Looks something up.")
        .read_only()
        .capabilities(Capabilities::NONE)
        // Otherwise a run that has read something could no longer write.
        .label(Label::CLEAN)
        .cache(Cache { ttl: Duration::from_millis(50), scope: None })
        .rate(rate)
        .retry(retries())
        .timeout(TIMEOUT);
    let change = ToolSpec::new("change", "Changes something.")
        .effects(Vec::new())
        .capabilities(Capabilities::NONE)
        .keys(["the-thing"])
        .retry(retries())
        .timeout(TIMEOUT);
    ToolRegistry::builder()
        .add(dynamic(look))
        .add(dynamic(change))
        .add(dynamic(ToolSpec::new("forbidden", "Always denied.").capabilities(Capabilities::NONE)))
        .add(BlockTool)
        .add(FrailTool)
        .add(LaterTool)
        .add(ReadResult)
        .add(CheckTask)
        .build()
}

/// Bodies panic on purpose, a thousand times; only other panics are printed.
pub(crate) fn quiet_panics() {
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str() != Some(PANIC_MESSAGE) {
            loud(panic);
        }
    }));
}
