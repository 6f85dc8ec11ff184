//! Costs that must not grow: the cost of one item among 10 n is at most twice that among n.

use std::time::{Duration, Instant};

use haft::{
    Dialect, Failure, Run, Runtime, ToolCall, ToolRegistry,
    dialect::{ExportOptions, ToolChoice},
    policy::AllowAll,
    search::SearchTools,
    tool::{DynTool, Exposure},
};
use serde_json::json;

use crate::kit::*;

/// Measures the cost of one item among a few and among ten times as many.
///
/// Other processes take the processor and its caches in some measurements, but not in all.
async fn assert_flat(what: &str, few: usize, cost: impl AsyncFn(usize) -> Duration) {
    let mut costs = Vec::new();
    for _ in 0..40 {
        let (among_few, among_many) = (cost(few).await, cost(10 * few).await);
        if among_many <= 2 * among_few {
            return;
        }
        costs.push((among_few, among_many));
    }
    panic!("{what} among {few} and among {}: {costs:?}", 10 * few);
}

/// Returns the shortest of several measurements.
#[expect(clippy::disallowed_methods, reason = "these tests are about real time")]
async fn shortest(rounds: usize, work: impl AsyncFn()) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..rounds {
        let began = Instant::now();
        work().await;
        shortest = shortest.min(began.elapsed());
    }
    shortest
}

fn run() -> Run {
    permissive(vec![quick(read("look"))]).build().unwrap().run()
}

#[tokio::test]
async fn a_turn_costs_the_same_however_many_turns_of_the_run_are_open() {
    assert_flat("a turn", 200, async |open| {
        let run = run();
        let mut turns = Vec::new();
        for _ in 0..open {
            turns.push(run.turn().await.unwrap());
        }
        shortest(50, async || {
            let answers = run.turn().await.unwrap().run(calls("look")).await;
            assert_eq!(answers[0].text(), "look()");
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn a_sub_run_costs_the_same_however_many_sub_runs_are_open() {
    assert_flat("a sub-run", 200, async |open| {
        let run = run();
        let subs: Vec<Run> = (0..open).map(|_| run.sub_run().start()).collect();
        let cost = shortest(50, async || {
            let answers = run.sub_run().start().turn().await.unwrap().run(calls("look")).await;
            assert_eq!(answers[0].text(), "look()");
        });
        let cost = cost.await;
        assert_eq!(subs.len(), open);
        cost
    })
    .await;
}

#[tokio::test]
async fn a_nested_call_costs_the_same_however_many_came_before_it() {
    let schema = json!({"properties": {"n": {"type": "integer"}}});
    let many = DynTool::new(read("many"), schema, |args, cx| async move {
        for _ in 0..args["n"].as_u64().unwrap_or_default() {
            cx.call("look", json!({})).await?;
        }
        Ok::<_, Failure>("done")
    });
    let runtime = permissive(vec![many, quick(read("look"))]).build().unwrap();
    assert_flat("a nested call", 50, async |n| {
        let all = shortest(4, async || {
            let done = runtime.call("many", json!({"n": n})).await.unwrap();
            assert_eq!(done.to_text(), "done");
        });
        all.await / u32::try_from(n).unwrap()
    })
    .await;
}

/// A registry with many deferred tools, one of which is unavailable.
fn many_tools(count: usize) -> Run {
    let mut tools: Vec<DynTool> = (0..count)
        .map(|n| quick(read(&format!("tool_{n}")).exposure(Exposure::Deferred)))
        .collect();
    tools.push(quick(read("never").enabled(|_| false)));
    let registry = ToolRegistry::builder().add(tools).add(SearchTools).build().unwrap();
    Runtime::builder().registry(registry).policy(AllowAll).build().unwrap().run()
}

#[tokio::test]
async fn a_turn_costs_the_same_however_many_tools_there_are_besides_an_unavailable_one() {
    assert_flat("a turn", 300, async |tools| {
        let run = many_tools(tools);
        let cost = shortest(50, async || {
            let turn = run.turn().await.unwrap();
            assert!(turn.snapshot().get("never").is_none());
            assert!(turn.snapshot().is_deferred(turn.snapshot().get("tool_7").unwrap()));
        });
        cost.await
    })
    .await;
}

#[tokio::test]
async fn a_loaded_tool_costs_the_same_in_a_request_however_many_are_loaded() {
    assert_flat("a loaded tool", 90, async |tools| {
        let run = many_tools(tools);
        let names: Vec<String> = (0..tools).map(|n| format!("tool_{n}")).collect();
        for names in names.chunks(20) {
            let search = ToolCall::new("s", "tool_search", json!({"names": names}));
            let results = run.turn().await.unwrap().run(vec![search]).await;
            assert!(results[0].failure().is_none(), "{}", results[0].text());
        }
        let turn = run.turn().await.unwrap();
        // Other options are another export: one that was made before costs nothing.
        let mut choices = (0..tools).map(|n| ToolChoice::Tool(format!("tool_{n}")));
        let choices = std::cell::RefCell::new(&mut choices);
        let cost = shortest(8, async || {
            let choice = choices.borrow_mut().next().unwrap();
            let options = ExportOptions::default().choice(choice);
            let export = turn.snapshot().export_with(Dialect::Anthropic, &options);
            assert_eq!(export.exported_tools().len(), tools + 1);
        });
        cost.await / u32::try_from(tools).unwrap()
    })
    .await;
}

#[tokio::test]
async fn a_turn_with_a_selection_costs_the_same_however_many_tools_there_are() {
    assert_flat("a turn", 300, async |tools| {
        let run = many_tools(tools);
        let cost = shortest(50, async || {
            let only = vec!["tool_7".to_owned(), "tool_search".to_owned()];
            let turn = run.turn_with(async |_| Some(only)).await.unwrap();
            assert!(turn.snapshot().get("tool_7").is_some());
            assert!(turn.snapshot().get("tool_8").is_none());
        });
        cost.await
    })
    .await;
}
