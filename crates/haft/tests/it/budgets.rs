//! Budgets: reserved before anything runs, refunded when unused, never exceeded.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use haft::{
    Config, Failure, FailureCode, Run, Runtime, RuntimeBuilder, ToolCall,
    budget::{Budget, RemainingBudget},
    events::Event,
    tool::{DynTool, ToolName, ToolSpec},
};
use proptest::prelude::*;
use serde_json::json;

use crate::kit::*;

fn budget(set: impl FnOnce(&mut Budget)) -> Budget {
    let mut budget = Budget::default();
    set(&mut budget);
    budget
}

fn of(calls: u64) -> Budget {
    budget(|b| b.calls = Some(calls))
}

fn run_with(tools: Vec<DynTool>, budget: Budget) -> Run {
    permissive(tools).build().unwrap().run_builder().budget(budget).start()
}

async fn answers(run: &Run, text: &str) -> Vec<String> {
    ends(&run.turn().await.unwrap().run(calls(text)).await)
}

/// A tool whose result length is given by its argument.
fn long(spec: ToolSpec) -> DynTool {
    DynTool::new(spec, open_schema(), |args, _| async move {
        "x".repeat(args["x"].as_str().unwrap_or_default().parse().unwrap_or(0))
    })
}

#[tokio::test(start_paused = true)]
async fn first_calls_in_model_order_get_the_last_budget_units() {
    // The later calls would be quicker; that does not help them.
    let run = run_with(vec![slow(read("slow"), 50), quick(read("quick"))], of(2));
    assert_eq!(
        answers(&run, "slow slow quick quick").await,
        ["c1 ok", "c2 ok", "c3 budget_exhausted", "c4 budget_exhausted"]
    );
    assert_eq!(run.remaining_budget().calls, Some(0));
}

#[tokio::test(start_paused = true)]
async fn budget_refusal_names_the_rest_and_the_scope() {
    let both = budget(|b| {
        b.calls = Some(10);
        b.calls_of.insert("mail_send".to_owned(), 1);
    });
    let run = run_with(vec![quick(write("mail_send")), quick(read("look"))], both);
    let all = run.turn().await.unwrap().run(calls("mail_send mail_send look")).await;
    assert_eq!(ends(&all), ["c1 ok", "c2 budget_exhausted", "c3 ok"]);
    insta::assert_snapshot!(all[1].text(), @r"
    budget_exhausted: 9 of 10 calls are left for this run, but none for `mail_send`
    Next: finish with the results you have, and report what is missing
    ");
    assert_eq!(run.remaining_budget_of(&ToolName::from("mail_send")), Some(0));
    assert_eq!(run.remaining_budget_of(&ToolName::from("look")), None);
}

#[tokio::test(start_paused = true)]
async fn budget_is_refunded_for_calls_that_did_not_run_and_not_for_failures() {
    let slow_one = slow(read("late").timeout(Duration::from_millis(5)), 60_000);
    let run = run_with(vec![failing(read("fails")), slow_one, quick(read("look"))], of(4));
    let bad = ToolCall::new("bad", "look", json!({"x": 5.5}));
    let all = run.turn().await.unwrap().run([bad]).await;
    assert_eq!(ends(&all), ["bad bad_arguments"]);
    assert_eq!(run.remaining_budget().calls, Some(4));
    assert_eq!(
        answers(&run, "fails late unheard_of").await,
        ["c1 tool_failed", "c2 timed_out", "c3 unknown_tool"]
    );
    assert_eq!(run.remaining_budget().calls, Some(2), "a failed call and a late one count");
}

#[tokio::test(start_paused = true)]
async fn budget_of_a_denied_call_is_refunded() {
    let registry = haft::ToolRegistry::builder().add(quick(write("writes"))).build().unwrap();
    let runtime = Runtime::builder().registry(registry).build().unwrap();
    let run = runtime
        .run_builder()
        .budget(budget(|b| {
            b.calls = Some(1);
            b.micros = Some(5);
            b.price_of.insert("writes".to_owned(), 5);
            b.bytes = Some(10);
        }))
        .start();
    let before = run.remaining_budget();
    assert_eq!(answers(&run, "writes").await, ["c1 denied"]);
    assert_eq!(run.remaining_budget(), before);
}

#[tokio::test(start_paused = true)]
async fn budget_of_a_truncated_message_is_refunded() {
    let run = run_with(vec![quick(read("look")), quick(write("change"))], of(5));
    let turn = run.turn().await.unwrap();
    let all =
        turn.run_with_stop_reason(calls("look change"), haft::turn::StopReason::Truncated).await;
    assert!(all.iter().all(|a| a.failure().unwrap().code() == FailureCode::NotRun));
    assert_eq!(run.remaining_budget().calls, Some(5));
    let mut intake = run.turn().await.unwrap().schedule();
    calls("change change").into_iter().for_each(|call| intake.push(call));
    assert_eq!(
        run.remaining_budget().calls,
        Some(4),
        "the first batch holds its share while the model writes"
    );
    drop(intake);
    tokio::task::yield_now().await;
    assert_eq!(run.remaining_budget().calls, Some(5));
}

#[tokio::test(start_paused = true)]
async fn byte_budget_is_never_exceeded_and_the_rest_is_refunded() {
    let run = run_with(vec![long(read("long"))], budget(|b| b.bytes = Some(1_000)));
    let all = run.turn().await.unwrap().run(calls("long:100 long:5000 long:100")).await;
    let shown: usize = all.iter().map(|a| a.text().len()).sum();
    assert_eq!(ends(&all), ["c1 ok", "c2 ok", "c3 ok"]);
    assert!(shown <= 1_000, "{shown}");
    assert_eq!(all[0].text().len(), 100, "what fits is left alone");
    assert!(all[1].text().contains("the byte budget of this run is used up"));
    assert_eq!(all[1].truncation().unwrap().total_chars, 5_000);
    assert_eq!(run.remaining_budget().bytes, Some(1_000 - shown as u64));
    let all = run.turn().await.unwrap().run(calls("long:5000")).await;
    assert!(all[0].text().len() as u64 <= 1_000 - shown as u64);
    assert_eq!(run.remaining_budget().bytes, Some(0));
    let all = run.turn().await.unwrap().run(calls("long:1")).await;
    assert_eq!(all[0].failure().unwrap().message(), "the result bytes of this run are used up");
}

#[tokio::test(start_paused = true)]
async fn time_budget_starts_with_the_run_and_shortens_deadlines() {
    let minute = budget(|b| b.wall = Some(Duration::from_secs(60)));
    let run = run_with(vec![slow(read("slow"), 600_000), quick(read("quick"))], minute);
    tokio::time::advance(Duration::from_secs(50)).await;
    assert_eq!(run.remaining_budget().wall, Some(Duration::from_secs(10)));
    let began = tokio::time::Instant::now();
    assert_eq!(answers(&run, "slow").await, ["c1 deadline_passed"]);
    assert!(began.elapsed() < Duration::from_secs(11));
    let all = run.turn().await.unwrap().run(calls("quick")).await;
    assert_eq!(all[0].failure().unwrap().message(), "the time limit of this run, 60 s, has passed");
}

#[tokio::test(start_paused = true)]
async fn host_spending_counts_even_beyond_the_limit() {
    let run = run_with(vec![quick(read("look"))], budget(|b| b.tokens = Some(100)));
    run.spend(99, 7);
    assert_eq!((run.remaining_budget().tokens, run.remaining_budget().micros), (Some(1), None));
    assert_eq!(answers(&run, "look").await, ["c1 ok"]);
    run.spend(50, 0);
    assert_eq!(run.remaining_budget().tokens, Some(0));
    assert_eq!(answers(&run, "look").await, ["c1 budget_exhausted"]);
}

#[tokio::test(start_paused = true)]
async fn body_sees_the_rest_of_the_budget_and_cannot_exceed_it() {
    let seen = Arc::new(Mutex::new(Vec::<RemainingBudget>::new()));
    let kept = Arc::clone(&seen);
    let asks = DynTool::new(read("asks"), open_schema(), move |_, cx| {
        let kept = Arc::clone(&kept);
        async move {
            cx.charge(60, 0)?;
            kept.lock().unwrap().push(cx.remaining_budget());
            let refused = cx.charge(60, 0).unwrap_err();
            kept.lock().unwrap().push(cx.remaining_budget());
            Ok::<_, Failure>(refused.message().to_owned())
        }
    });
    let both = budget(|b| {
        b.tokens = Some(100);
        b.calls = Some(5);
        b.calls_of.insert("asks".to_owned(), 2);
    });
    let run = run_with(vec![asks], both);
    let all = run.turn().await.unwrap().run(calls("asks")).await;
    assert_eq!(all[0].text(), "60 tokens requested, but only 40 of 100 are left for this run");
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0], seen[1], "a refusal costs nothing");
    assert_eq!((seen[0].tokens, seen[0].calls, seen[0].own_calls), (Some(40), Some(4), Some(1)));
    assert_eq!(seen[0].depth, Some(8));
}

#[tokio::test(start_paused = true)]
async fn a_turn_past_the_last_one_refuses_every_call() {
    let run = run_with(vec![quick(read("look"))], budget(|b| b.cycles = Some(1)));
    assert_eq!(answers(&run, "look").await, ["c1 ok"]);
    let all = run.turn().await.unwrap().run(calls("look look")).await;
    assert_eq!(ends(&all), ["c1 budget_exhausted", "c2 budget_exhausted"]);
    assert_eq!(
        all[0].failure().unwrap().message(),
        "1 of 1 turns are used, none is left for this run"
    );
    assert_eq!(run.remaining_budget().cycles, Some(0));
}

/// A tool that calls another once per character of its argument, in sequence.
fn nesting(spec: ToolSpec, other: &'static str) -> DynTool {
    DynTool::new(spec, open_schema(), move |args, cx| async move {
        let mut ends = Vec::new();
        for _ in args["x"].as_str().unwrap_or_default().chars() {
            ends.push(match cx.call(other, json!({})).await {
                Ok(_) => "ok",
                Err(failure) => failure.code().as_str(),
            });
        }
        Ok::<_, Failure>(ends.join(" "))
    })
}

#[tokio::test(start_paused = true)]
async fn nested_calls_count_but_their_results_use_no_byte_budget() {
    let both = budget(|b| {
        b.calls = Some(3);
        b.bytes = Some(1_000);
    });
    let run = run_with(vec![nesting(read("outer"), "look"), quick(read("look"))], both);
    let all = run.turn().await.unwrap().run(calls("outer:abc")).await;
    assert_eq!(all[0].text(), "ok ok budget_exhausted");
    assert_eq!(run.remaining_budget().bytes, Some(1_000 - all[0].text().len() as u64));
}

#[tokio::test(start_paused = true)]
async fn smaller_depth_limit_wins() {
    let flat = budget(|b| b.depth = Some(0));
    let run = run_with(vec![nesting(read("outer"), "look"), quick(read("look"))], flat);
    let all = run.turn().await.unwrap().run(calls("outer:a")).await;
    assert_eq!(all[0].text(), "budget_exhausted");
    assert_eq!(run.remaining_budget().depth, Some(0));
}

#[tokio::test(start_paused = true)]
async fn run_budget_can_only_tighten_the_runtime_budget() {
    let runtime = permissive(vec![quick(read("look"))]).budget(of(3)).build().unwrap();
    assert_eq!(runtime.run().remaining_budget().calls, Some(3));
    assert_eq!(runtime.run_builder().budget(of(9)).start().remaining_budget().calls, Some(3));
    assert_eq!(runtime.run_builder().budget(of(2)).start().remaining_budget().calls, Some(2));
}

#[tokio::test(start_paused = true)]
async fn sub_run_uses_its_parents_budget_and_its_own() {
    let run = run_with(vec![quick(read("look"))], of(4));
    let sub = run.sub_run().agent("helper").budget(of(1)).start();
    assert_eq!(sub.remaining_budget().calls, Some(1));
    assert_eq!(answers(&sub, "look look").await, ["c1 ok", "c2 budget_exhausted"]);
    assert_eq!(run.remaining_budget().calls, Some(3));
    let free = run.sub_run().start();
    assert_eq!(answers(&free, "look look look look").await[3], "c4 budget_exhausted");
    assert_eq!(answers(&run, "look").await, ["c1 budget_exhausted"]);
    assert_eq!(free.remaining_budget().depth, Some(7));
}

#[tokio::test(start_paused = true)]
async fn sub_run_beyond_the_depth_limit_refuses_every_call() {
    let config = {
        let mut c = Config::default();
        c.max_depth = 2;
        c
    };
    let runtime = permissive(vec![quick(read("look"))]).config(config).build().unwrap();
    let mut run = runtime.run();
    for depth in 1..=50u32 {
        run = run.sub_run().start();
        let end = if depth <= 2 { "c1 ok" } else { "c1 budget_exhausted" };
        assert_eq!(answers(&run, "look").await, [end], "at depth {depth}");
    }
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_run_reaches_its_sub_runs() {
    let run = run_with(vec![slow(read("slow"), 60_000)], of(9));
    let sub = run.sub_run().start();
    let turn = sub.turn().await.unwrap();
    let going = turn.run(calls("slow"));
    let stop = async { run.cancel() };
    let (all, ()) = tokio::join!(going, stop);
    assert_eq!(ends(&all), ["c1 cancelled"]);
    assert_eq!(answers(&run.sub_run().start(), "slow").await, ["c1 cancelled"]);
}

#[tokio::test]
async fn calls_of_takes_globs_and_every_matching_limit_applies() {
    let tools = vec![quick(read("read_a")), quick(read("read_b")), quick(read("look"))];
    let runtime = permissive(tools).build().unwrap();
    let limits = budget(|b| {
        b.calls_of.insert("read_?".to_owned(), 3);
        b.calls_of.insert("read_a".to_owned(), 1);
        b.calls_of.insert("lo*".to_owned(), 0);
    });
    let run = runtime.run_builder().budget(limits).start();
    assert_eq!(
        answers(&run, "read_a read_a read_b read_b read_b look").await,
        [
            "c1 ok",
            "c2 budget_exhausted",
            "c3 ok",
            "c4 ok",
            "c5 budget_exhausted",
            "c6 budget_exhausted"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn budget_warning_is_emitted_once_per_kind() {
    let reported = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&reported);
    let observer = move |event: &Event| {
        if let Event::BudgetLow { run, what, left, of } = event {
            kept.lock().unwrap().push(format!("{run}: {left} of {of} {what}"));
        }
    };
    let tools = vec![quick(read("look")), long(read("long"))];
    let runtime = permissive(tools).observer(observer).build().unwrap();
    let all = budget(|b| {
        b.calls = Some(5);
        b.calls_of.insert("look".to_owned(), 2);
        b.tokens = Some(10);
        b.bytes = Some(100);
        b.wall = Some(Duration::from_secs(10));
    });
    let run = runtime.run_builder().id("r").budget(all).start();
    answers(&run, "look look").await;
    run.spend(8, 0);
    run.spend(1, 0);
    answers(&run, "long:70").await;
    assert_eq!(
        *reported.lock().unwrap(),
        ["r: 0 of 2 calls of `look`", "r: 2 of 10 tokens", "r: 18 of 100 bytes"]
    );
    tokio::time::advance(Duration::from_secs(9)).await;
    answers(&run.sub_run().id("sub").start(), "long:1").await;
    assert_eq!(reported.lock().unwrap()[3..], ["r: 1000 of 10000 milliseconds", "r: 1 of 5 calls"]);
}

// ---------------------------------------------------------------------------------------------
// Under real concurrency.

/// Counts the bodies that ran.
#[derive(Default)]
struct Bodies(AtomicU64);

fn crowd(bodies: &Arc<Bodies>) -> Vec<DynTool> {
    let counted = |spec: ToolSpec, work: &'static str| {
        let bodies = Arc::clone(bodies);
        DynTool::new(spec, open_schema(), move |args, cx| {
            bodies.0.fetch_add(1, Ordering::SeqCst);
            async move {
                match work {
                    "fails" => return Err(Failure::failed("no luck")),
                    "waits" => tokio::time::sleep(Duration::from_millis(2)).await,
                    "hangs" => tokio::time::sleep(Duration::from_secs(60)).await,
                    "panics" => panic!("on purpose"),
                    "nests" => {
                        let one = cx.call("waits", json!({}));
                        let two = cx.call("quick", json!({}));
                        let _ = tokio::join!(one, two);
                    }
                    _ => tokio::task::yield_now().await,
                }
                Ok("é".repeat(args["x"].as_str().map_or(0, |x| x.parse().unwrap_or(0))))
            }
        })
    };
    vec![
        counted(read("quick"), "quick"),
        counted(read("waits"), "waits"),
        counted(read("hangs"), "hangs"),
        counted(read("fails"), "fails"),
        counted(read("panics"), "panics"),
        counted(read("nests"), "nests"),
        counted(write("alone"), "waits"),
    ]
}

#[derive(Debug, Clone)]
struct Scene {
    calls: u64,
    bytes: u64,
    quick: Option<u64>,
    sub: Option<u64>,
    batches: Vec<Vec<(&'static str, u8)>>,
    stop_after: Option<u64>,
}

fn scene() -> impl Strategy<Value = Scene> {
    let names = vec!["quick", "waits", "hangs", "fails", "panics", "nests", "alone", "unknown"];
    let call = (prop::sample::select(names), any::<u8>());
    let batch = prop::collection::vec(call, 1..8);
    (
        0u64..20,
        1u64..600,
        prop::option::of(0u64..4),
        prop::option::of(0u64..6),
        prop::collection::vec(batch, 1..5),
        prop::option::of(0u64..4),
    )
        .prop_map(|(calls, bytes, quick, sub, batches, stop_after)| Scene {
            calls,
            bytes,
            quick,
            sub,
            batches,
            stop_after,
        })
}

async fn play(scene: Scene) {
    let bodies = Arc::new(Bodies::default());
    let mut config = Config::default();
    config.timeout = Duration::from_millis(10);
    config.grace = Duration::from_millis(1);
    let runtime: RuntimeBuilder = permissive(crowd(&bodies)).config(config);
    let runtime = runtime.build().unwrap();
    let run = runtime
        .run_builder()
        .budget(budget(|b| {
            b.calls = Some(scene.calls);
            b.bytes = Some(scene.bytes);
            b.calls_of.extend(scene.quick.map(|n| ("quick".to_owned(), n)));
        }))
        .start();
    // Half of the batches belong to sub-runs, which all use the same parent's budget concurrently.
    let mut turns = tokio::task::JoinSet::new();
    for (n, batch) in scene.batches.iter().cloned().enumerate() {
        let run = match (n % 2, scene.sub) {
            (0, _) | (_, None) => run.clone(),
            (_, Some(share)) => run.sub_run().budget(of(share)).start(),
        };
        let stop_after = scene.stop_after;
        turns.spawn(async move {
            let turn = run.turn().await.unwrap();
            let control = turn.handle();
            let calls = batch.iter().enumerate().map(|(n, (name, x))| {
                ToolCall::new(format!("c{n}"), *name, json!({"x": x.to_string()}))
            });
            let answers = turn.run(calls.collect::<Vec<_>>());
            let stop = async {
                if let Some(after) = stop_after {
                    tokio::time::sleep(Duration::from_millis(after)).await;
                    control.abort();
                }
            };
            tokio::join!(answers, stop).0
        });
    }
    let all = turns.join_all().await;
    // A cancelled nested call may end a moment after its parent.
    for _ in 0..400 {
        if run.remaining_budget().calls == scene.calls.checked_sub(bodies.0.load(Ordering::SeqCst))
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let ran = bodies.0.load(Ordering::SeqCst);
    assert!(ran <= scene.calls, "{ran} bodies ran with {} calls", scene.calls);
    let shown: usize = all
        .iter()
        .flatten()
        .map(|a| a.output().map_or(a.interrupted_output().len(), |o| o.to_text().len()))
        .sum();
    assert!(shown as u64 <= scene.bytes, "{shown} bytes shown of {}", scene.bytes);
    let left = run.remaining_budget();
    assert_eq!(left.calls, Some(scene.calls - ran), "every body is counted, and nothing else");
    assert_eq!(left.bytes, Some(scene.bytes - shown as u64));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn budget_is_never_exceeded_and_never_leaks(scene in scene()) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(4)
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(play(scene));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_sub_runs_do_not_exceed_the_parents_budget() {
    let bodies = Arc::new(Bodies::default());
    let runtime = permissive(crowd(&bodies)).build().unwrap();
    let run = runtime.run_builder().budget(of(25)).start();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let sub = run.sub_run().budget(of(5)).start();
        tasks.spawn(async move {
            let mut ok = 0;
            for _ in 0..4 {
                let all = sub.turn().await.unwrap().run(calls("waits quick waits")).await;
                ok += all.iter().filter(|a| !a.is_error()).count();
            }
            ok
        });
    }
    let ok: usize = tasks.join_all().await.into_iter().sum();
    assert_eq!(ok, 25, "all of it is used, and no more");
    assert_eq!(bodies.0.load(Ordering::SeqCst), 25);
    assert_eq!(run.remaining_budget().calls, Some(0));
}
