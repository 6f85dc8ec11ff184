//! Arguments that are all scalars are decoded from their text. Nothing may depend on that: with an
//! observer the same call is parsed as a JSON tree, and must have the same result and record.

use haft::{
    Runtime, ToolCall, ToolRegistry, ToolResult,
    events::Event,
    journal::{ExecutionRecord, MemoryJournal},
    tool,
};
use proptest::prelude::*;
use serde_json::json;

/// Returns its arguments.
#[tool(read_only, capabilities())]
async fn show(
    #[param(min = -5)] count: i64,
    name: Option<String>,
    share: Option<f64>,
    force: Option<bool>,
) -> String {
    format!("{count} {name:?} {share:?} {force:?}")
}

/// Runs one call, as text or as a tree.
async fn result(text: &str, as_tree: bool) -> (ToolResult, Vec<ExecutionRecord>) {
    let journal = MemoryJournal::new(10);
    let registry = ToolRegistry::builder().add(ShowTool).build().unwrap();
    let mut builder = Runtime::builder().registry(registry).journal(journal.clone());
    if as_tree {
        builder = builder.observer(|_: &Event| {});
    }
    let run = builder.build().unwrap().run();
    let turn = run.turn().await.unwrap();
    let results = turn.run([ToolCall::new("c", "show", text)]).await;
    (results.into_iter().next().unwrap(), journal.records())
}

fn arguments() -> impl Strategy<Value = String> {
    let count = prop_oneof![
        (-7_i64..100).prop_map(|n| n.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<u64>().prop_map(|n| n.to_string()),
        Just("2.0".to_owned()),
        Just("2.5".to_owned()),
        Just("\"3\"".to_owned()),
        Just("null".to_owned()),
    ];
    let other = prop_oneof![
        "[a-z\u{e9}\"\\\\\n]{0,5}".prop_map(|text| format!("\"name\": {}", json!(text))),
        Just("\"name\": null".to_owned()),
        (-9_i32..9).prop_map(|n| format!("\"share\": {}", f64::from(n) / 4.0)),
        Just("\"share\": 1e400".to_owned()),
        any::<bool>().prop_map(|force| format!("\"force\": {force}")),
        Just("\"unknown\": 1".to_owned()),
        Just("\"n\\u0061me\": \"x\"".to_owned()),
        Just("\"force\": [true]".to_owned()),
    ];
    let end = prop_oneof![8 => Just("}"), 1 => Just(",}"), 1 => Just("} x"), 1 => Just("")];
    (count, proptest::collection::vec(other, 0..4), end).prop_map(|(count, others, end)| {
        let others: String = others.iter().map(|other| format!(", {other}")).collect();
        format!("{{\"count\": {count}{others}{end}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn scalars_are_validated_decoded_and_recorded_like_a_tree(text in arguments()) {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ((plain, records), (tree, tree_records)) =
            tokio.block_on(async { (result(&text, false).await, result(&text, true).await) });
        prop_assert_eq!(plain.text(), tree.text(), "{}", text);
        let code = |result: &ToolResult| result.failure().map(haft::Failure::code);
        prop_assert_eq!(code(&plain), code(&tree));
        prop_assert_eq!(plain.repairs(), tree.repairs());
        let intent = |records: &[ExecutionRecord]| -> Vec<_> {
            let intents = records.iter().map(|record| record.intent.as_ref());
            intents.map(|intent| intent.map(|intent| intent.arguments.clone())).collect()
        };
        prop_assert_eq!(intent(&records), intent(&tree_records));
    }
}

/// A subscriber that comes later still sees the arguments.
#[tokio::test]
async fn reader_that_subscribes_during_a_run_gets_the_arguments() {
    let registry = ToolRegistry::builder().add(ShowTool).build().unwrap();
    let runtime = Runtime::builder().registry(registry).build().unwrap();
    let run = runtime.run();
    let turn = run.turn().await.unwrap();
    let mut scheduler = turn.schedule();
    let mut events = runtime.events(16);
    scheduler.push(ToolCall::new("c", "show", r#"{"count": 7}"#));
    scheduler.finish(haft::turn::StopReason::Done).await;
    let mut seen = None;
    while let Some(item) = events.try_next() {
        if let haft::events::StreamItem::Event(event) = item
            && let Event::Started { arguments, .. } = &event.event
        {
            seen = arguments.clone();
        }
    }
    assert_eq!(seen.as_deref(), Some(&json!({"count": 7})));
}
