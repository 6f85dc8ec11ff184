//! Nested calls: the whole pipeline, one level deeper.

use std::time::Duration;

use haft::{
    Failure, FailureCode,
    tool::{DynTool, ToolSpec},
};
use serde_json::json;

use crate::kit::*;

/// A tool that calls another and forwards its result.
fn calling(spec: ToolSpec, other: &'static str) -> DynTool {
    DynTool::new(spec, open_schema(), move |args, cx| async move {
        let inner = cx.call(other, json!({"x": args["x"]})).await?;
        Ok::<_, Failure>(format!("{} at depth {}", inner.to_text(), cx.depth()))
    })
}

#[tokio::test(start_paused = true)]
async fn nested_call_goes_through_the_whole_pipeline() {
    let transcript = Transcript::default();
    let tools = vec![calling(read("outer"), "inner"), quick(read("inner"))];
    let runtime = permissive(tools).observer(transcript.observer()).build().unwrap();
    let answers = runtime.run().turn().await.unwrap().run(calls("outer:a")).await;
    assert_eq!(answers[0].text(), "inner(a) at depth 0");
    assert_eq!((transcript.ends_of("c1"), transcript.ends_of("c1>1")), (1, 1));
    assert!(transcript.lines().iter().any(|l| l == "c1>1 permitted by allow everything"));
}

#[tokio::test(start_paused = true)]
async fn a_reader_may_not_write_through_a_nested_call() {
    let tools = vec![calling(read("outer"), "inner"), quick(write("inner"))];
    let runtime = permissive(tools).build().unwrap();
    let failure = runtime.call("outer", json!({"x": "a"})).await.unwrap_err();
    assert_eq!(failure.code(), FailureCode::NotRun);
}

#[tokio::test(start_paused = true)]
async fn nested_exclusive_calls_do_not_deadlock() {
    let tools = vec![
        calling(write("outer"), "middle"),
        calling(write("middle"), "inner"),
        slow(write("inner"), 10),
    ];
    let runtime = permissive(tools).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let answers =
        tokio::time::timeout(Duration::from_secs(5), turn.run(calls("outer:a outer:b"))).await;
    assert_eq!(ends(&answers.unwrap()), ["c1 ok", "c2 ok"]);
}

#[tokio::test(start_paused = true)]
async fn nesting_depth_is_limited() {
    let runtime = permissive(vec![calling(read("loops"), "loops")]).build().unwrap();
    let failure = runtime.call("loops", json!({"x": "a"})).await.unwrap_err();
    assert_eq!(failure.code(), FailureCode::BudgetExhausted);
}

#[tokio::test(start_paused = true)]
async fn a_nested_call_ends_with_its_parent() {
    let outer = read("outer").timeout(Duration::from_secs(1));
    let runtime =
        permissive(vec![calling(outer, "inner"), slow(read("inner"), 60_000)]).build().unwrap();
    let began = tokio::time::Instant::now();
    let failure = runtime.call("outer", json!({"x": "a"})).await.unwrap_err();
    assert_eq!(failure.code(), FailureCode::TimedOut);
    assert!(began.elapsed() < Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn nested_call_can_be_denied() {
    let registry = haft::ToolRegistry::builder()
        .add(calling(read("outer"), "inner"))
        .add(quick(write("inner")))
        .build()
        .unwrap();
    let runtime = haft::Runtime::builder().registry(registry).build().unwrap();
    let failure = runtime.call("outer", json!({"x": "a"})).await.unwrap_err();
    assert_eq!(failure.code(), FailureCode::Denied);
    let unknown = permissive(vec![calling(read("outer"), "innr")]).build().unwrap();
    let failure = unknown.call("outer", json!({"x": "a"})).await.unwrap_err();
    assert_eq!(failure.code(), FailureCode::UnknownTool);
}

#[tokio::test(start_paused = true)]
async fn recursive_tool_uses_its_own_permit() {
    let tool = DynTool::new(read("count").concurrency(1), open_schema(), |args, cx| async move {
        let x = args["x"].as_str().unwrap_or_default().to_owned();
        match x.len() {
            0 => Ok::<_, Failure>("end".to_owned()),
            n => Ok(cx.call("count", json!({"x": &x[..n - 1]})).await?.to_text() + &x),
        }
    });
    let runtime = permissive(vec![tool]).build().unwrap();
    let call = runtime.call("count", json!({"x": "abc"}));
    let output = tokio::time::timeout(Duration::from_secs(5), call).await.unwrap().unwrap();
    assert_eq!(output.to_text(), "endaababc");
}
