//! Calls that arrive one by one while the model is still generating.

use std::time::Duration;

use haft::{
    FailureCode, Runtime, ToolCall, ToolRegistry,
    tool::{Capabilities, Execution},
    turn::StopReason,
};
use serde_json::json;

use crate::kit::*;

#[tokio::test(start_paused = true)]
async fn reads_start_before_the_message_ends_and_writes_wait() {
    let transcript = Transcript::default();
    let tools = vec![slow(read("read"), 10), quick(write("write"))];
    let runtime = permissive(tools).observer(transcript.observer()).build().unwrap();
    let mut intake = runtime.run().turn().await.unwrap().schedule();
    for call in calls("read read write read") {
        intake.push(call);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(transcript.ends_of("c1") + transcript.ends_of("c2"), 2, "reads are done already");
    assert!(!transcript.lines().iter().any(|l| l.starts_with("c3 running")));
    assert!(!transcript.lines().iter().any(|l| l.starts_with("c4 running")), "its place is later");
    let answers = intake.finish(StopReason::Done).await;
    assert_eq!(ends(&answers), ["c1 ok", "c2 ok", "c3 ok", "c4 ok"]);
}

#[tokio::test(start_paused = true)]
async fn completed_reads_keep_their_result_after_a_truncated_message() {
    let tools = vec![quick(read("read")), quick(write("write"))];
    let runtime = permissive(tools).build().unwrap();
    let mut intake = runtime.run().turn().await.unwrap().schedule();
    for call in calls("read:a write:b read:c") {
        intake.push(call);
    }
    let answers = intake.finish(StopReason::Truncated).await;
    assert_eq!(ends(&answers), ["c1 ok", "c2 not_run", "c3 not_run"]);
}

#[tokio::test(start_paused = true)]
async fn read_that_needs_approval_waits_for_the_end_of_the_message() {
    let transcript = Transcript::default();
    let asks = read("asks").capabilities([haft::tool::Capability::Network]);
    let registry =
        ToolRegistry::builder().add(quick(asks)).add(quick(read("plain"))).build().unwrap();
    let runtime =
        Runtime::builder().registry(registry).observer(transcript.observer()).build().unwrap();
    let mut intake = runtime.run().turn().await.unwrap().schedule();
    for call in calls("asks plain") {
        intake.push(call);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((transcript.ends_of("c1"), transcript.ends_of("c2")), (0, 1));
    let answers = intake.finish(StopReason::Refused).await;
    assert_eq!(ends(&answers), ["c1 not_run", "c2 ok"]);
    assert_eq!(answers[0].execution(), Execution::NotStarted);
}

#[tokio::test(start_paused = true)]
async fn stream_gets_the_same_results_as_a_complete_message() {
    let tools = || {
        vec![
            quick(read("read")),
            failing(read("fails").capabilities(Capabilities::NONE)),
            slow(write("write"), 20),
        ]
    };
    let words = "read:a fails write:b nosuch read:c read:d write:e fails";
    let complete = permissive(tools()).build().unwrap();
    let complete = complete.run().turn().await.unwrap().run(calls(words)).await;
    let streamed = permissive(tools()).build().unwrap();
    let mut intake = streamed.run().turn().await.unwrap().schedule();
    for call in calls(words) {
        tokio::time::sleep(Duration::from_millis(3)).await;
        intake.push(call);
    }
    let streamed = intake.finish(StopReason::Done).await;
    let text = |answers: &[haft::ToolResult]| -> Vec<String> {
        answers.iter().map(|a| format!("{} {}", a.id(), a.text())).collect()
    };
    assert_eq!(text(&complete), text(&streamed));
    assert_eq!(complete[1].failure().map(|f| f.code()), Some(FailureCode::ToolFailed));
}

#[tokio::test(start_paused = true)]
async fn queued_reads_do_not_start_after_a_truncated_message() {
    let tools = vec![slow(read("look").concurrency(1), 50)];
    let transcript = Transcript::default();
    let runtime = permissive(tools).observer(transcript.observer()).build().unwrap();
    let mut intake = runtime.run().turn().await.unwrap().schedule();
    for call in calls("look look look") {
        intake.push(call);
    }
    let answers = intake.finish(StopReason::Truncated).await;
    let ran: Vec<bool> = answers.iter().map(|a| a.execution() != Execution::NotStarted).collect();
    assert_eq!(ran, [true, false, false], "only the one that had begun");
    let began = transcript.lines().iter().filter(|l| l.contains(" running")).count();
    assert_eq!(began, 1, "{:?}", transcript.lines());
}

#[tokio::test]
async fn many_calls_behind_a_waiting_one_are_accepted_at_once() {
    let tools = vec![quick(read("look")), quick(write("put"))];
    let runtime = permissive(tools).build().unwrap();
    let mut intake = runtime.run().turn().await.unwrap().schedule();
    let began = tokio::time::Instant::now();
    // Repaired, so it waits for the end of the message, and everything after it waits too.
    intake.push(ToolCall::new("first", "look", r#"{"x": "a",}"#));
    for n in 0..20_000 {
        intake.push(ToolCall::new(format!("c{n}"), "look", json!({})));
    }
    let answers = intake.finish(StopReason::Done).await;
    assert_eq!(answers.len(), 20_001);
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}
