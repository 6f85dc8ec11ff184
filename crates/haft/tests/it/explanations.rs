//! Long explanations of invalid arguments: they end with their call, and do not block the executor.

use std::time::Duration;

use haft::{
    Config, FailureCode, ToolCall,
    schema::{RepairPolicy, Schema},
    tool::DynTool,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::kit::*;

/// The text of a message that ended early.
const ENDED_EARLY: &str = "there may be more problems";

/// A union of many branches, and a list of values that match none of them.
fn long() -> (Value, Value) {
    let form = |n: usize| json!({"type": "object", "properties": {"kids": {"items": {"$ref": "#/$defs/node"}}, format!("n{n}"): {"type": "integer"}}, "required": [format!("n{n}")]});
    let forms: Vec<Value> = (0..8).map(form).collect();
    let schema = json!({
        "type": "object",
        "properties": {"node": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"anyOf": forms}},
    });
    let item = json!({"kids": [{"x": 1}, {"x": 2}]});
    (schema, json!({"node": {"n0": 1, "kids": vec![item; 2_000]}}))
}

fn echo(schema: &Value) -> DynTool {
    DynTool::new(read("echo"), schema.clone(), |args, _| async move { args.to_string() })
}

/// How long the complete explanation takes on this machine.
fn whole_time(schema: &Value, value: &Value) -> Duration {
    let compiled = Schema::compile(schema).unwrap();
    let began = Instant::now();
    assert!(!compiled.problems(value).is_empty());
    began.elapsed()
}

#[tokio::test]
async fn explanation_ends_at_the_timeout_of_its_call() {
    let (schema, value) = long();
    let whole = whole_time(&schema, &value);
    let runtime = permissive(vec![echo(&schema)]).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let call = ToolCall::new("c", "echo", value).timeout(Duration::from_millis(1));
    let began = Instant::now();
    let answers = turn.run([call]).await;
    let took = began.elapsed();
    assert!(took < whole / 2, "{took:?} of {whole:?}");
    let failure = answers[0].failure().unwrap();
    assert_eq!(failure.code(), FailureCode::BadArguments);
    assert!(failure.message().contains(ENDED_EARLY), "{}", failure.message());
}

#[tokio::test]
async fn long_explanation_is_complete_and_does_not_block_the_executor() {
    let (schema, value) = long();
    let whole = whole_time(&schema, &value);
    let mut config = Config::default();
    config.repair = RepairPolicy::Off;
    let runtime = permissive(vec![echo(&schema)]).config(config).build().unwrap();
    let mut longest = Duration::ZERO;
    let call = runtime.call("echo", value);
    tokio::pin!(call);
    let mut last = Instant::now();
    let failure = loop {
        tokio::select! {
            done = &mut call => break done.unwrap_err(),
            () = sleep(Duration::from_millis(1)) => {
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
        }
    };
    assert!(longest > Duration::ZERO && longest < whole / 2, "{longest:?} of {whole:?}");
    assert!(failure.message().contains("/node/kids/0"), "{}", failure.message());
    assert!(!failure.message().contains(ENDED_EARLY), "{}", failure.message());
    assert_eq!(failure.cause(), None);
}

#[tokio::test]
async fn plan_has_the_complete_long_explanation() {
    let (schema, value) = long();
    let runtime = permissive(vec![echo(&schema)]).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let planned = turn.plan([ToolCall::new("c", "echo", value)]);
    let refused = planned[0].refused.as_deref().unwrap_or_default();
    assert!(refused.contains("/node/kids/0"), "{refused}");
}
