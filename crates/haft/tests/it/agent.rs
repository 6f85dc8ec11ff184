//! The agent loop with a scripted model: what the model is shown, how runs end, what stays true.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use haft::{
    Failure, Runtime, RuntimeBuilder, ToolRegistry,
    agent::{
        Agent, AgentEvent, DeferredApprovals, EndReason, FileRunStore, OnToolFailure, RunStatus,
        RunStore as _, Runner, SavedRun, ScriptedModel,
    },
    approval::ApprovalResponse,
    budget::Budget,
    history::{LastTurn, Message},
    testing::Nonces,
    tool::DynTool,
};
use serde_json::json;

use crate::kit;

pub(crate) fn scripted(lines: &[&str]) -> ScriptedModel {
    ScriptedModel::parse(&lines.join("\n")).unwrap()
}

pub(crate) fn agent(lines: &[&str]) -> Agent {
    Agent::new("tester", scripted(lines))
}

/// A tool that reads a note, one that writes it and needs approval, one that fails.
pub(crate) fn tools() -> (RuntimeBuilder, Arc<AtomicUsize>) {
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    let read = DynTool::new(kit::read("read_note"), kit::open_schema(), |args, _| async move {
        json!({"title": args["x"], "lines": 3}).to_string()
    });
    let write = DynTool::new(kit::write("write_note"), kit::open_schema(), move |_, _| {
        let count = Arc::clone(&count);
        async move { format!("written {}", count.fetch_add(1, Ordering::SeqCst) + 1) }
    });
    let fail = DynTool::new(kit::read("fail"), kit::open_schema(), |_, _| async {
        Err::<(), _>(Failure::failed("no luck"))
    });
    let registry = ToolRegistry::builder().add(vec![read, write, fail]).build().unwrap();
    (Runtime::builder().registry(registry).nonces(Nonces::counting(0)), written)
}

#[tokio::test]
async fn run_calls_tools_and_ends_with_the_answer() {
    let runner = Runner::new(tools().0.build().unwrap());
    let agent = agent(&[
        r#"{"text": "I look.", "calls": [{"id": "a", "name": "read_note", "arguments": {"x": "trip"}}], "usage": {"input_tokens": 10, "output_tokens": 5}}"#,
        r#"{"expect": {"shown": ["trip"], "results": [{"id": "a", "is_error": false}]}, "text": "{{result:a/title}} has {{result:a/lines}} lines", "usage": {"input_tokens": 20, "output_tokens": 7}}"#,
    ]);
    let result = runner.run(&agent, "How long is the note `trip`?").await.unwrap();
    assert_eq!(result.reason, EndReason::Answered);
    assert_eq!((result.state, result.text.as_str()), (RunStatus::Completed, "trip has 3 lines"));
    assert_eq!((result.usage.turns, result.usage.calls), (2, 1));
    assert_eq!((result.usage.tokens.input_tokens, result.usage.tokens.output_tokens), (30, 12));
    assert_eq!(result.executions.len(), 1);
    assert_eq!(result.executions[0].tool, "read_note");
    assert_eq!(result.history.messages.len(), 4);
    result.history.check(LastTurn::Closed).unwrap();
}

#[tokio::test]
async fn script_that_expects_something_else_fails_with_the_difference() {
    let runner = Runner::new(tools().0.build().unwrap());
    let agent = agent(&[r#"{"expect": {"shown": ["other"], "tools": ["gone"]}, "text": "x"}"#]);
    let result = runner.run(&agent, "the task").await.unwrap();
    assert_eq!(result.state, RunStatus::Failed);
    let EndReason::ModelFailed { message, .. } = result.reason else {
        panic!("{:?}", result.reason)
    };
    assert_eq!(
        message,
        "message 1 of the script expected something else:\n  - it must be shown: other\n  + the \
         task\n  - it must be offered: gone\n  + fail, read_note, write_note"
    );
}

#[tokio::test]
async fn deferred_approval_waits_and_is_resumed_by_another_runtime() {
    let script = [
        r#"{"text": "I write.", "calls": [{"id": "r", "name": "read_note", "arguments": {"x": "a"}}, {"id": "w", "name": "write_note"}, {"id": "s", "name": "read_note", "arguments": {"x": "b"}}]}"#,
        r#"{"expect": {"results": [{"id": "r", "is_error": false}, {"id": "w", "contains": "written 1"}, {"id": "s", "is_error": false}]}, "text": "done"}"#,
    ];
    let setup = || {
        let (builder, written) = tools();
        let approvals = DeferredApprovals::new();
        let runtime = builder.approver(approvals.clone()).build().unwrap();
        (Runner::new(runtime).deferred_approvals(approvals), written)
    };
    let (runner, written) = setup();
    let result = runner.run(&agent(&script), "Write a note.").await.unwrap();
    assert_eq!((result.state, &result.reason), (RunStatus::Waiting, &EndReason::AwaitingApproval));
    assert_eq!(written.load(Ordering::SeqCst), 0);
    let waiting: Vec<_> = result.pending.iter().map(|call| call.call.as_str()).collect();
    assert_eq!(waiting, ["w", "s"], "a call behind it is not started");
    assert!(result.pending[0].question.is_some() && result.pending[1].question.is_none());
    result.history.check(LastTurn::Closed).unwrap();
    let json = result.saved.unwrap().to_json();
    drop(runner);

    let (runner, written) = setup();
    let saved = SavedRun::from_json(&json).unwrap();
    let answers = [("w".into(), ApprovalResponse::allow())];
    let result = runner.resume(&agent(&script), saved, answers).await.unwrap();
    assert_eq!(
        (result.state, result.text.as_str()),
        (RunStatus::Completed, "done"),
        "{:?}",
        result.reason
    );
    assert_eq!(written.load(Ordering::SeqCst), 1);
    result.history.check(LastTurn::Closed).unwrap();
}

#[tokio::test]
async fn saved_run_without_an_answer_waits_again_and_a_denial_reaches_the_model() {
    let script = [
        r#"{"calls": [{"id": "w", "name": "write_note"}]}"#,
        r#"{"expect": {"results": [{"id": "w", "is_error": true, "contains": "not today"}]}, "text": "understood"}"#,
    ];
    let directory = std::env::temp_dir().join(format!("haft-agent-runs-{}", std::process::id()));
    let store = FileRunStore::new(&directory);
    let (builder, written) = tools();
    let approvals = DeferredApprovals::new();
    let runtime = builder.approver(approvals.clone()).build().unwrap();
    let runner = Runner::new(runtime).deferred_approvals(approvals).store(store.clone());
    let result = runner.run(&agent(&script), "Write.").await.unwrap();
    let saved = store.load(&result.run).await.unwrap().unwrap();
    assert_eq!(Some(&saved), result.saved.as_deref());
    let again = runner.resume(&agent(&script), saved, []).await.unwrap();
    assert_eq!(again.state, RunStatus::Waiting);
    let saved = store.load(&result.run).await.unwrap().unwrap();
    let no = ApprovalResponse::Deny(Some("not today".to_owned()));
    let result = runner.resume(&agent(&script), saved, [("w".into(), no)]).await.unwrap();
    assert_eq!(
        (result.state, result.text.as_str()),
        (RunStatus::Completed, "understood"),
        "{}",
        result.reason
    );
    assert_eq!(written.load(Ordering::SeqCst), 0);
    assert_eq!(store.list().await.unwrap(), std::slice::from_ref(&result.run));
    store.remove(&result.run).await.unwrap();
    assert!(store.list().await.unwrap().is_empty());
    std::fs::remove_dir(&directory).unwrap();
}

#[tokio::test]
async fn questions_of_later_calls_are_known_before_the_first_is_answered() {
    let script = [
        r#"{"calls": [{"id": "v", "name": "write_note"}, {"id": "r", "name": "read_note"}, {"id": "w", "name": "write_note"}]}"#,
        r#"{"expect": {"shown": ["Thank you."], "results": [{"id": "v", "is_error": false}, {"id": "w", "is_error": false}]}, "text": "both"}"#,
    ];
    let (builder, written) = tools();
    let approvals = DeferredApprovals::new();
    let runtime = builder.approver(approvals.clone()).build().unwrap();
    let runner = Runner::new(runtime).deferred_approvals(approvals);
    let agent = agent(&script);
    let mut chat = runner.chat(&agent).unwrap();
    let result = chat.send("Write both.").await.unwrap();
    let asked: Vec<_> =
        result.pending.iter().map(|call| (call.call.as_str(), call.question.is_some())).collect();
    assert_eq!(asked, [("v", true), ("r", false), ("w", true)]);
    let refused = chat.send("Hello?").await.unwrap_err();
    assert!(refused.message().contains("waits for an approval"), "{refused}");
    drop(chat);
    let yes = |call: &str| (call.into(), ApprovalResponse::allow());
    let mut chat = runner.reopen(&agent, *result.saved.unwrap(), [yes("v"), yes("w")]).unwrap();
    let result = chat.send("Thank you.").await.unwrap();
    assert_eq!((result.state, result.text.as_str()), (RunStatus::Completed, "both"));
    assert_eq!(written.load(Ordering::SeqCst), 2);
    result.history.check(LastTurn::Closed).unwrap();
}

#[tokio::test]
async fn pending_calls_are_not_lost_when_a_resumed_run_has_no_time() {
    let script = [r#"{"calls": [{"id": "w", "name": "write_note"}]}"#, r#"{"text": "done"}"#];
    let (builder, written) = tools();
    let approvals = DeferredApprovals::new();
    let runtime = builder.approver(approvals.clone()).build().unwrap();
    let runner = Runner::new(runtime).deferred_approvals(approvals);
    let result = runner.run(&agent(&script), "Write.").await.unwrap();
    let saved = result.saved.unwrap();
    let answers = || [("w".into(), ApprovalResponse::allow())];
    let limits = Budget { wall: Some(std::time::Duration::ZERO), ..Budget::default() };
    let late = agent(&script).limits(limits);
    let result = runner.resume(&late, (*saved).clone(), answers()).await.unwrap();
    assert!(matches!(result.reason, EndReason::LimitReached { .. }), "{}", result.reason);
    assert_eq!(result.pending.len(), 1);
    let result = runner.resume(&agent(&script), *saved, answers()).await.unwrap();
    assert_eq!((result.state, written.load(Ordering::SeqCst)), (RunStatus::Completed, 1));
}

#[tokio::test]
async fn tool_failure_continues_degrades_or_fails_the_run() {
    let script =
        [r#"{"calls": [{"id": "a", "name": "fail"}]}"#, r#"{"text": "I go on without it."}"#];
    for (policy, state) in [
        (OnToolFailure::Continue, RunStatus::Completed),
        (OnToolFailure::Degrade, RunStatus::Degraded),
        (OnToolFailure::Fail, RunStatus::Failed),
    ] {
        let runner = Runner::new(tools().0.build().unwrap());
        let agent = agent(&script).on_tool_failure(policy);
        let result = runner.run(&agent, "Try it.").await.unwrap();
        assert_eq!(result.state, state, "{}", result.reason);
        assert_eq!(result.history.calls().count(), 1);
        result.history.check(LastTurn::Closed).unwrap();
    }
}

#[tokio::test]
async fn degraded_run_runs_no_further_call() {
    let script = [
        r#"{"calls": [{"id": "a", "name": "fail"}]}"#,
        r#"{"text": "once more", "calls": [{"id": "b", "name": "read_note"}]}"#,
    ];
    let runner = Runner::new(tools().0.build().unwrap());
    let agent = agent(&script).on_tool_failure(OnToolFailure::Degrade);
    let result = runner.run(&agent, "Try it.").await.unwrap();
    assert_eq!((result.state, result.text.as_str()), (RunStatus::Degraded, "once more"));
    assert_eq!(result.executions[1].execution, haft::tool::Execution::NotStarted);
    result.history.check(LastTurn::Closed).unwrap();
}

#[tokio::test]
async fn stream_has_text_calls_and_runtime_events_in_order() {
    let runner = Runner::new(tools().0.build().unwrap());
    let agent = agent(&[
        r#"{"pieces": [{"text": "I "}, {"text": "look."}, {"call_start": {"id": "a", "name": "read_note"}}, {"arguments": {"id": "a", "text": "{\"x\":"}}, {"arguments": {"id": "a", "text": "\"n\"}"}}, {"call_end": {"id": "a"}}]}"#,
        r#"{"text": "Done."}"#,
    ]);
    let mut stream = runner.run_stream(&agent, "Look.").unwrap();
    let mut seen = Vec::new();
    while let Some(event) = stream.next().await {
        let json = serde_json::to_value(&event).unwrap();
        let kind = match &event {
            AgentEvent::Call(_) => json["event"].as_str().unwrap().to_owned(),
            _ => json["type"].as_str().unwrap().to_owned(),
        };
        seen.push(kind);
    }
    let result = stream.finish().await.unwrap();
    assert_eq!(result.text, "Done.");
    assert_eq!(
        seen.join(" "),
        "run_started turn_started model_called text text call_started arguments arguments \
         call_requested planned started authorized running attempt_finished phase_finished \
         finished model_finished turn_finished call_finished turn_started model_called text \
         model_finished turn_finished run_finished"
    );
}

#[tokio::test]
async fn unknown_price_with_a_money_limit_refuses() {
    let runner = Runner::new(tools().0.build().unwrap());
    let limits = Budget { micros: Some(1_000), ..Budget::default() };
    let agent = agent(&[r#"{"text": "x"}"#]).limits(limits);
    let error = runner.run(&agent, "x").await.unwrap_err();
    assert!(error.message().contains("price of the model `script` is unknown"), "{error}");
}

#[test]
fn run_blocking_needs_no_tokio_runtime_and_refuses_one() {
    let runner = Runner::new(tools().0.build().unwrap());
    let agent = agent(&[r#"{"text": "x"}"#]);
    assert_eq!(runner.run_blocking(&agent, "x").unwrap().text, "x");
    let inside = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let refused = inside.block_on(async { runner.run_blocking(&agent, "x") });
    assert!(refused.unwrap_err().message().contains("would block"));
}

#[tokio::test]
async fn chat_keeps_its_history() {
    let runner = Runner::new(tools().0.build().unwrap());
    let agent =
        agent(&[r#"{"text": "one"}"#, r#"{"expect": {"shown": ["second"]}, "text": "two"}"#]);
    let mut chat = runner.chat(&agent).unwrap();
    assert_eq!(chat.send("first").await.unwrap().text, "one");
    let second = chat.send("second").await.unwrap();
    assert_eq!((second.text.as_str(), second.usage.turns), ("two", 2));
    assert!(matches!(chat.history().messages[..], [Message::User(_), Message::Assistant(_), ..]));
}
