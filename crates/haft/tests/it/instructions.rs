//! Instructions that bring tools: what is offered before and after loading, and what happens to the
//! other calls of the message that loads.

use haft::{
    FailureCode, Run, Runtime, ToolCall, ToolRegistry, ToolResult,
    agent::{Agent, DeferredApprovals, RunStatus, Runner, SavedRun, ScriptedModel},
    approval::ApprovalResponse,
    instructions::{InstructionSet, Instructions},
    policy::{AllowAll, ToolNameGuard},
    tool::{CallId, DynTool},
};
use serde_json::json;

use crate::kit::{quick, read, write};

fn set() -> InstructionSet {
    let refund = DynTool::new(write("refund"), json!({}), |_, _| async { "refunded" });
    InstructionSet::new()
        .add(Instructions::new("refunds", "How to refund.", "Ask for the receipt.").tools(refund))
        .add(Instructions::new("tone", "How we write.", "Be brief."))
}

fn runtime() -> Runtime {
    let registry = ToolRegistry::builder()
        .add(set())
        .add(vec![quick(read("look")), quick(write("note"))])
        .build()
        .unwrap();
    Runtime::builder().registry(registry).policy(AllowAll).hook(set()).build().unwrap()
}

async fn calls(run: &Run, names: &[&str]) -> Vec<ToolResult> {
    let call = |(n, name): (usize, &&str)| {
        let arguments = match *name {
            "load_instructions" => json!({"id": "refunds"}),
            _ => json!({}),
        };
        ToolCall::new(format!("c{n}"), *name, arguments)
    };
    let turn = run.turn().await.unwrap();
    turn.run(names.iter().enumerate().map(call).collect::<Vec<_>>()).await
}

async fn offered(run: &Run) -> Vec<String> {
    let turn = run.turn().await.unwrap();
    turn.snapshot().entries().map(|tool| tool.name().to_string()).collect()
}

#[tokio::test]
async fn text_and_tools_arrive_together_on_the_next_turn() {
    let run = runtime().run();
    assert_eq!(offered(&run).await, ["load_instructions", "look", "note"]);
    let early = calls(&run, &["refund"]).await;
    assert_eq!(early[0].failure().unwrap().code(), FailureCode::NotOffered);
    let loaded = calls(&run, &["load_instructions"]).await;
    assert!(loaded[0].text().starts_with("Ask for the receipt."), "{}", loaded[0].text());
    assert!(loaded[0].text().contains("you can call: refund"), "{}", loaded[0].text());
    assert_eq!(offered(&run).await, ["load_instructions", "look", "note", "refund"]);
    assert_eq!(calls(&run, &["refund"]).await[0].text(), "refunded");
    let sub = run.sub_run().start();
    assert!(!offered(&sub).await.contains(&"refund".to_owned()), "a sub-run loads for itself");
}

#[tokio::test]
async fn other_calls_of_the_message_are_answered_with_instructions_changed() {
    let run = runtime().run();
    let results = calls(&run, &["load_instructions", "look", "note", "refund"]).await;
    assert!(results[0].failure().is_none());
    for result in &results[1..3] {
        let failure = result.failure().unwrap();
        assert_eq!(failure.code(), FailureCode::NotRun, "{failure}");
        assert!(failure.message().starts_with("the instructions changed"), "{failure}");
    }
    assert_eq!(results[3].failure().unwrap().code(), FailureCode::NotOffered);
    let next = calls(&run, &["look", "note"]).await;
    assert!(next.iter().all(|result| result.failure().is_none()), "only that message");
}

#[tokio::test]
async fn load_that_changes_nothing_stops_no_call() {
    let run = runtime().run();
    assert!(calls(&run, &["load_instructions"]).await[0].failure().is_none());
    let again = calls(&run, &["load_instructions", "look", "note"]).await;
    assert!(again.iter().all(|result| result.failure().is_none()), "a repetition");

    let registry = ToolRegistry::builder().add(set()).add(quick(write("note"))).build().unwrap();
    let denied = Runtime::builder().registry(registry).policy(AllowAll).hook(set());
    let denied = denied.guard(ToolNameGuard::new().deny(["load_instructions"])).build().unwrap();
    let run = denied.run();
    let results = calls(&run, &["load_instructions", "note"]).await;
    assert_eq!(results[0].failure().unwrap().code(), FailureCode::Denied);
    assert!(results[1].failure().is_none(), "nothing was loaded");
    assert!(!offered(&run).await.contains(&"refund".to_owned()));
}

#[tokio::test]
async fn saved_run_keeps_its_instructions() {
    let script = |answer: &str| {
        let load = r#"{"calls": [{"id": "l", "name": "load_instructions", "arguments": {"id": "refunds"}}]}"#;
        let note = r#"{"calls": [{"id": "n", "name": "note", "arguments": {}}]}"#;
        let refund = r#"{"expect": {"tools": ["refund"]}, "calls": [{"id": "r", "name": "refund", "arguments": {}}]}"#;
        let text = format!("{load}\n{note}\n{refund}\n{{\"text\": \"{answer}\"}}");
        Agent::new("clerk", ScriptedModel::parse(&text).unwrap())
    };
    let registry = || ToolRegistry::builder().add(set()).add(quick(write("note"))).build().unwrap();
    let runner = || {
        let later = DeferredApprovals::new();
        let runtime = Runtime::builder().registry(registry()).hook(set());
        let runtime = runtime.approver(later.clone()).build().unwrap();
        Runner::new(runtime).deferred_approvals(later)
    };
    let waiting = runner().run(&script("x"), "Refund it.").await.unwrap();
    assert_eq!(waiting.state, RunStatus::Waiting, "{}", waiting.reason);
    let saved = SavedRun::from_json(&waiting.saved.unwrap().to_json()).unwrap();
    assert_eq!(saved.instructions, ["refunds"]);
    let answers = [(CallId::from("n"), ApprovalResponse::allow())];
    let next = runner().resume(&script("x"), saved, answers).await.unwrap();
    assert_eq!(next.state, RunStatus::Waiting, "{}", next.reason);
    assert_eq!(next.pending[0].tool.as_str(), "refund", "it is offered after the resume");
}

#[tokio::test]
async fn agent_loads_instructions_and_uses_their_tools() {
    let model = ScriptedModel::parse(
        r#"{"expect": {"not_tools": ["refund"]}, "calls": [{"id": "l", "name": "load_instructions", "arguments": {"id": "refunds"}}]}
           {"expect": {"tools": ["refund"]}, "calls": [{"id": "r", "name": "refund", "arguments": {}}]}
           {"text": "It is {{result:r}}."}"#,
    );
    let agent = Agent::new("clerk", model.unwrap()).instructions(set().catalogue());
    let result = Runner::new(runtime()).run(&agent, "Refund it.").await.unwrap();
    assert_eq!(result.text, "It is refunded.", "{}", result.reason);
}
