//! Costs that must not grow: the cost of one item among 10 n is at most twice that among n.

use std::time::{Duration, Instant};

use haft::{Failure, Run, tool::DynTool};
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
