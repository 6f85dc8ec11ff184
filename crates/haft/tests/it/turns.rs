//! Turns: order, batches, concurrency, invalid input.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft::{
    Config, FailureCode, ToolCall,
    host::HostContext,
    journal::MemoryJournal,
    tool::{CallProfile, ConcurrencyClass, DynTool, Execution, ResourceKey, ResultLimit, ToolSpec},
    turn::{Arguments, StopReason},
};
use serde_json::json;

use crate::kit::*;

#[tokio::test(start_paused = true)]
async fn reads_on_both_sides_of_a_write_do_not_merge() {
    let transcript = Transcript::default();
    let runtime = permissive(vec![slow(read("search"), 10), slow(write("write"), 10)])
        .observer(transcript.observer())
        .build()
        .unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let answers = turn.run(calls("search:a search:b write:c search:d")).await;
    assert_eq!(ends(&answers), ["c1 ok", "c2 ok", "c3 ok", "c4 ok"]);
    let lines: Vec<String> =
        transcript.lines().into_iter().filter(|l| !l.contains("permitted")).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    c1 search batch 0 (first call)
    c2 search batch 0 (reads run concurrently)
    c3 write batch 1 (writes without resource keys: runs alone)
    c4 search batch 2 (waits for the previous call, which runs alone)
    c1 running
    c2 running
    c1 finished ok ran Completed
    c2 finished ok ran Completed
    c3 running
    c3 finished ok ran Completed
    c4 running
    c4 finished ok ran Completed
    ");
}

/// A tool that counts its concurrent calls.
fn counting(spec: ToolSpec, most: &Arc<AtomicUsize>) -> DynTool {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::clone(most));
    DynTool::new(spec, open_schema(), move |_, _| {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(5)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            "done"
        }
    })
}

async fn most_at_once(spec: ToolSpec, config: Config, count: usize) -> usize {
    let most = Arc::new(AtomicUsize::new(0));
    let runtime = permissive(vec![counting(spec, &most)]).config(config).build().unwrap();
    let words = vec!["t"; count].join(" ");
    let answers = runtime.run().turn().await.unwrap().run(calls(&words)).await;
    assert!(answers.iter().all(|a| !a.is_error()));
    most.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn at_most_ten_calls_of_a_batch_run_at_once() {
    assert_eq!(most_at_once(read("t"), Config::default(), 50).await, 10);
    let config = Config::from_env([("HAFT_MAX_CONCURRENCY", "3")]).unwrap();
    assert_eq!(most_at_once(read("t"), config, 20).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_tool_may_limit_itself() {
    assert_eq!(most_at_once(read("t").concurrency(2), Config::default(), 20).await, 2);
    assert_eq!(most_at_once(write("t"), Config::default(), 5).await, 1);
}

#[tokio::test(start_paused = true)]
async fn writers_of_different_resources_run_in_parallel_and_of_one_do_not() {
    let most = Arc::new(AtomicUsize::new(0));
    let tool = counting(write("edit"), &most).with_profile(|declared, args, _| CallProfile {
        keys: vec![ResourceKey::new(format!("file:/{}", args["x"].as_str().unwrap_or_default()))],
        ..declared
    });
    let runtime = permissive(vec![tool]).build().unwrap();
    let run = runtime.run();
    run.turn().await.unwrap().run(calls("edit:a edit:b edit:c")).await;
    assert_eq!(most.swap(0, Ordering::SeqCst), 3);
    run.turn().await.unwrap().run(calls("edit:a edit:./a edit:a/b")).await;
    assert_eq!(most.swap(0, Ordering::SeqCst), 1);
    // Resource keys exclude across runs too; classes do not.
    let (one, two) = (runtime.run(), runtime.run());
    let (one, two) = (one.turn().await.unwrap(), two.turn().await.unwrap());
    tokio::join!(one.run(calls("edit:a")), two.run(calls("edit:a")));
    assert_eq!(most.swap(0, Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn panicking_call_profile_counts_as_the_strictest() {
    let tool = quick(read("t")).with_profile(|_, _, _| panic!("on purpose"));
    let runtime = permissive(vec![tool, quick(read("other"))]).build().unwrap();
    let plan = runtime.run().turn().await.unwrap().plan(calls("t other"));
    assert_eq!(
        (plan[0].class, plan[0].batch, plan[1].batch),
        (Some(ConcurrencyClass::Unsafe), 0, 1)
    );
}

#[tokio::test]
async fn bad_input_is_answered_and_siblings_still_run() {
    let runtime = permissive(vec![quick(read("search"))]).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let text =
        |id: &str, name: &str, text: &str| ToolCall::new(id, name, Arguments::Text(text.into()));
    let answers = turn
        .run(vec![
            text("a", "search", "{\"x\": \"fine\"}"),
            text("b", "search", "{\"x\": "),
            text("c", "serach", "{}"),
            text("d", "search", "{\"y\": 1}"),
            text("e", "search", ""),
            text("a", "search", "{}"),
            text("", "search", "{}"),
            ToolCall::new("f", "search", json!([1])),
        ])
        .await;
    let reported: Vec<String> =
        answers.iter().map(|a| format!("[{}] {}", a.id(), a.text().replace('\n', " / "))).collect();
    insta::assert_snapshot!(reported.join("\n"), @r#"
    [a] search(fine)
    [b] unparseable_arguments: the arguments are not valid JSON: EOF while parsing a value at line 1 column 6 / Next: send the arguments again as one valid JSON object
    [c] unknown_tool: there is no tool called `serach` / Next: did you mean `search`? call it by that name
    [d] bad_arguments: /: unknown `y`; valid names are `x`, `key` / Next: call `search` again with this fixed
    [e] search()
    [haft-6] not_run: another call of this turn already has the id `a`; this one was not run / Next: give every call a unique id
    [haft-7] search()
    [f] unparseable_arguments: the arguments must be a JSON object, got array / Next: send the arguments again as one JSON object
    "#);
}

#[tokio::test]
async fn truncated_message_runs_nothing_and_answers_every_call() {
    for stop in [StopReason::Truncated, StopReason::Refused, StopReason::Unknown] {
        let journal = MemoryJournal::new(10);
        let runtime = permissive(vec![quick(read("t"))]).journal(journal.clone()).build().unwrap();
        let turn = runtime.run().turn().await.unwrap();
        let answers = turn.run_with_stop_reason(calls("t t nosuch"), stop).await;
        assert_eq!(ends(&answers), ["c1 not_run", "c2 not_run", "c3 not_run"]);
        assert!(intents(&journal).is_empty());
        assert_eq!(settled(&journal).len(), 3, "refused calls are recorded too");
    }
}

#[tokio::test]
async fn defaults_and_whole_floats_are_normalized_before_authorization() {
    let schema = json!({"properties": {
        "n": {"type": "integer"}, "mode": {"type": "string", "default": "fast"},
    }});
    let tool = DynTool::new(read("t"), schema, |args, _| async move { args.to_string() });
    let runtime = permissive(vec![tool]).build().unwrap();
    let output = runtime.call("t", json!({"n": 3.0})).await.unwrap();
    assert_eq!(output.to_text(), r#"{"n":3,"mode":"fast"}"#);
}

#[tokio::test]
async fn result_is_bounded_as_a_whole_and_says_so() {
    let big =
        DynTool::new(read("big").max_result(100), json!({}), |_, _| async { "é".repeat(10_000) });
    let free =
        DynTool::new(read("free").max_result(ResultLimit::Unbounded), json!({}), |_, _| async {
            "x".repeat(20_000)
        });
    let mut config = Config::default();
    config.max_result = 1_000;
    let runtime = permissive(vec![big, free]).config(config).build().unwrap();
    let answers = runtime.run().turn().await.unwrap().run(calls("big free")).await;
    let cut = answers[0].truncation().unwrap();
    assert_eq!(cut.total_chars, 10_000);
    assert!(answers[0].text().chars().count() <= 100, "with the notice");
    assert!(answers[0].text().contains(&format!("{} of 10000 characters", cut.shown_chars)));
    assert!(answers[1].text().len() <= 1_000, "a hard cap holds for unbounded ones");
}

#[tokio::test]
async fn output_is_checked_against_its_own_schema() {
    let schema = json!({"type": "object", "required": ["n"]});
    let tool = |output: haft::Output| {
        DynTool::new(read("t"), json!({}), move |_, _| {
            let output = output.clone();
            async move { output }
        })
        .with_output_schema(schema.clone())
    };
    let mut good = haft::Output::text("fine");
    good.structured = Some(Box::new(json!({"n": 1})));
    let mut bad = good.clone();
    bad.structured = Some(Box::new(json!({})));
    for (output, code) in [
        (good, None),
        (bad, Some(FailureCode::BadOutput)),
        (haft::Output::text("x"), Some(FailureCode::BadOutput)),
    ] {
        let runtime = permissive(vec![tool(output)]).build().unwrap();
        let outcome = runtime.call("t", json!({})).await;
        assert_eq!(outcome.as_ref().err().map(|f| f.code()), code);
        assert!(outcome.err().is_none_or(|f| f.execution() == Execution::Completed));
    }
}

#[tokio::test]
async fn run_carries_the_joined_taint_of_its_results() {
    use haft::taint::{Confidentiality, Label, Trust};
    let label = Label { trust: Trust::Workspace, confidentiality: Confidentiality::Secret };
    let runtime = permissive(vec![quick(read("t").label(label))]).build().unwrap();
    let run = runtime.run();
    assert_eq!(run.label(), Label::CLEAN);
    run.turn().await.unwrap().run(calls("t")).await;
    assert_eq!(run.label(), label);
}

#[tokio::test]
async fn context_has_the_requested_and_the_resolved_name() {
    let tool = DynTool::new(read("search").alias("find"), json!({}), |_, cx| async move {
        format!(
            "{} {} {} {}",
            cx.requested_name(),
            cx.tool_name(),
            cx.cycle(),
            cx.idempotency_key()
        )
    });
    let runtime = permissive(vec![tool]).build().unwrap();
    let run = runtime.run_builder().id("r").start();
    let answers = run.turn().await.unwrap().run(calls("find")).await;
    assert_eq!(answers[0].text(), "find search 1 r/1/0/c1");
    assert_eq!(
        (answers[0].requested_name().as_str(), answers[0].tool_name().as_str()),
        ("find", "search")
    );
}

#[tokio::test]
async fn memory_journal_keeps_only_the_last_calls() {
    let journal = MemoryJournal::new(2);
    let runtime = permissive(vec![quick(read("t"))]).journal(journal.clone()).build().unwrap();
    runtime.run().turn().await.unwrap().run(calls("t t nosuch t")).await;
    let kept: Vec<_> =
        journal.records().iter().map(|r| (r.call.to_string(), r.intent.is_some())).collect();
    assert_eq!(kept, [("c3".to_owned(), false), ("c4".to_owned(), true)]);
    assert!(journal.records().iter().all(|r| r.end.is_some()));
}
