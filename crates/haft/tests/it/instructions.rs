//! Instructions that bring tools: what is offered before and after loading, and what happens to the
//! other calls of the message that loads.

use haft::{
    FailureCode, Run, Runtime, ToolCall, ToolRegistry, ToolResult,
    agent::{Agent, Runner, ScriptedModel},
    instructions::{InstructionSet, Instructions},
    policy::AllowAll,
    tool::DynTool,
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
