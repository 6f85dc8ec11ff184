//! Background work: tasks, limits, delivery to the model, and cancellation.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use haft::{
    Config, Failure, FailureCode, Output, Run, ToolContext, ToolRegistry,
    background::CheckTask,
    budget::Budget,
    events::Event,
    journal::MemoryJournal,
    taint::{Label, Trust},
    tool::{DynTool, Execution, ToolSpec},
};
use serde_json::{Value, json};

use crate::kit::*;

const SECOND: Duration = Duration::from_secs(1);

/// A tool that returns a task and finishes after this many seconds.
fn later(spec: ToolSpec, seconds: u32) -> DynTool {
    DynTool::new(spec, open_schema(), move |_, cx| async move {
        cx.spawn_background("building the world", move |_| async move {
            tokio::time::sleep(SECOND * seconds).await;
            "built"
        })
        .await
    })
}

/// A tool that returns a task and runs this work.
fn defers<F>(work: impl Fn(ToolContext) -> F + Clone + Send + Sync + 'static) -> DynTool
where
    F: Future<Output = Result<Output, Failure>> + Send + 'static,
{
    DynTool::new(read("t"), open_schema(), move |_, cx| {
        let work = work.clone();
        async move { cx.spawn_background("working", work).await }
    })
}

/// The events about tasks, one short line each.
fn watch(lines: &Arc<Mutex<Vec<String>>>) -> impl Fn(&Event) + Send + Sync + 'static {
    let lines = Arc::clone(lines);
    move |event| {
        let line = match event {
            Event::Deferred { call, task_id, tool, .. } => {
                format!("{call} {tool} deferred {task_id}")
            }
            Event::TaskFinished { call, task_id, failed, execution: ran, .. } => {
                let end = failed.map_or("ok", |code| code.as_str());
                format!("{call} {task_id} resolved {end} ran {ran:?}")
            }
            Event::Expired { task_id, .. } => format!("{task_id} expired"),
            Event::Finished { call, .. } => format!("{call} finished"),
            _ => return,
        };
        lines.lock().unwrap().push(line);
    }
}

async fn call(run: &Run, words: &str) -> Vec<haft::ToolResult> {
    run.turn().await.unwrap().run(calls(words)).await
}

#[tokio::test(start_paused = true)]
async fn task_is_a_success_and_its_result_is_delivered_once() {
    let (lines, journal) = (Arc::default(), MemoryJournal::new(10));
    let runtime = permissive(vec![later(read("build"), 30)])
        .observer(watch(&lines))
        .journal(journal.clone())
        .build()
        .unwrap();
    let run = runtime.run();
    let began = tokio::time::Instant::now();
    let answers = call(&run, "build").await;
    assert_eq!(began.elapsed().as_secs(), 0, "the call does not wait for the work");
    let task: Value = serde_json::from_str(&answers[0].text()).unwrap();
    assert_eq!(
        task,
        json!({
            "task_id": "task-1", "tool_name": "build", "status": "running", "poll_after_s": 5,
            "summary": "building the world",
            "resume_hint": "continue with something else; the result comes in a later message",
        })
    );
    assert!(run.take_background_results().is_empty());
    assert_eq!(run.background_tasks()[0].status, "running");
    let late = run.next_background_result().await.unwrap();
    assert_eq!((late.task_id.as_str(), &*late.answer.text()), ("task-1", "built"));
    assert_eq!(began.elapsed().as_secs(), 30);
    assert!(
        run.next_background_result().await.is_none() && run.take_background_results().is_empty(),
        "once"
    );
    assert_eq!(
        *lines.lock().unwrap(),
        ["c1 build deferred task-1", "c1 finished", "c1>1 task-1 resolved ok ran Completed"]
    );
    let ids: Vec<_> = settled(&journal).iter().map(|r| r.call.to_string()).collect();
    assert_eq!(ids, ["c1", "c1>1"], "its end is a record of its own");
}

#[tokio::test(start_paused = true)]
async fn late_result_taints_the_run_on_delivery() {
    let outside = quick(read("outside"));
    let budget = Budget { bytes: Some(10_000), ..Budget::default() };
    let clean = DynTool::new(read("t").label(Label::CLEAN), open_schema(), |_, cx| async move {
        cx.spawn_background("x", |cx| async move { cx.call("outside", json!({})).await }).await
    });
    let runtime = permissive(vec![clean, outside]).budget(budget).build().unwrap();
    let run = runtime.run();
    call(&run, "t").await;
    let left = run.remaining_budget().bytes.unwrap();
    let late = run.next_background_result().await.unwrap();
    assert_eq!(late.answer.text(), "outside()");
    assert_eq!(late.answer.label().trust, Trust::Untrusted, "it forwards untrusted input");
    assert_eq!(run.label().trust, Trust::Untrusted);
    assert_eq!(left - run.remaining_budget().bytes.unwrap(), 9, "the bytes it shows are counted");
}

#[tokio::test(start_paused = true)]
async fn background_work_without_a_receiver_runs_inline() {
    let outer = DynTool::new(read("outer"), open_schema(), |_, cx| async move {
        cx.call("build", json!({})).await
    });
    let runtime = permissive(vec![later(read("build"), 30), outer]).build().unwrap();
    assert_eq!(runtime.call("build", json!({})).await.unwrap().to_text(), "built");
    let run = runtime.run();
    assert_eq!(call(&run, "outer").await[0].text(), "built", "a nested call's caller is code");
    let turn = runtime.run().turn().await.unwrap();
    assert_eq!(turn.run(calls("build")).await[0].text(), "built", "the run was let go of");
    let mut config = Config::default();
    config.max_background = 0;
    let runtime = permissive(vec![later(read("build"), 30)]).config(config).build().unwrap();
    assert_eq!(call(&runtime.run(), "build").await[0].text(), "built");
}

#[tokio::test(start_paused = true)]
async fn tasks_are_limited_until_they_are_delivered() {
    let mut config = Config::default();
    config.max_background = 2;
    let runtime = permissive(vec![later(read("build"), 1)]).config(config).build().unwrap();
    let run = runtime.run();
    let answers = call(&run, "build build build").await;
    assert_eq!(ends(&answers), ["c1 ok", "c2 ok", "c3 not_run"]);
    tokio::time::sleep(SECOND * 2).await;
    assert_eq!(ends(&call(&run, "build").await), ["c1 not_run"], "results wait in memory too");
    assert_eq!(run.take_background_results().len(), 2);
    assert_eq!(ends(&call(&run, "build").await), ["c1 ok"]);
}

#[tokio::test(start_paused = true)]
async fn background_work_times_out_and_undelivered_results_expire() {
    let lines = Arc::default();
    let asked = Arc::new(AtomicBool::new(false));
    let seen_stop = Arc::clone(&asked);
    let endless = defers(move |cx| {
        let seen_stop = Arc::clone(&seen_stop);
        async move {
            cx.partial("so far");
            cx.cancelled().await;
            seen_stop.store(true, Ordering::SeqCst);
            std::future::pending().await
        }
    });
    let runtime = permissive(vec![endless]).observer(watch(&lines)).build().unwrap();
    let run = runtime.run();
    call(&run, "t").await;
    tokio::time::sleep(SECOND * 3_602).await;
    assert!(asked.load(Ordering::SeqCst), "it is asked before it is dropped");
    assert_eq!(run.background_tasks()[0].status, "failed");
    tokio::time::sleep(SECOND * 3_602).await;
    assert!(run.background_tasks().is_empty() && run.take_background_results().is_empty());
    assert_eq!(
        lines.lock().unwrap()[2..],
        ["c1>1 task-1 resolved deadline_passed ran Completed", "task-1 expired"]
    );
    call(&run, "t").await;
    let late = run.next_background_result().await.unwrap();
    assert_eq!(late.answer.failure().unwrap().code(), FailureCode::DeadlinePassed);
    assert_eq!(late.answer.interrupted_output(), "so far");
}

#[tokio::test(start_paused = true)]
async fn cancelling_the_run_stops_background_work_and_the_end_of_a_turn_does_not() {
    let runtime = permissive(vec![later(read("build"), 30)]).build().unwrap();
    let run = runtime.run();
    let turn = run.turn().await.unwrap();
    let control = turn.handle();
    turn.run(calls("build")).await;
    control.abort();
    tokio::time::sleep(SECOND).await;
    assert_eq!(run.background_tasks()[0].status, "running");
    run.cancel();
    let late = run.next_background_result().await.unwrap();
    let failure = late.answer.failure().unwrap();
    assert_eq!(
        (failure.code(), failure.execution()),
        (FailureCode::Cancelled, Execution::Completed)
    );
    assert_eq!(failure.message(), "the run was cancelled");
}

#[tokio::test(start_paused = true)]
async fn uncancellable_background_work_is_not_reported_as_cancelled() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let began = Arc::new(AtomicBool::new(false));
    let begins = Arc::clone(&began);
    let tool = defers(move |cx| {
        let (wait, begins) = (Arc::clone(&wait), Arc::clone(&begins));
        async move {
            cx.spawn_blocking(move |_| {
                begins.store(true, Ordering::SeqCst);
                wait.lock().unwrap().recv().is_ok()
            })
            .await?;
            Ok(Output::text("done"))
        }
    });
    let runtime = permissive(vec![tool]).build().unwrap();
    let run = runtime.run();
    call(&run, "t").await;
    // The job must have started: a queued one is simply withdrawn.
    while !began.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    run.cancel();
    let late = run.next_background_result().await.unwrap();
    assert_eq!(late.answer.failure().unwrap().code(), FailureCode::UnknownOutcome);
    assert_eq!(late.answer.execution(), Execution::Unknown);
    drop(go);
}

#[tokio::test(start_paused = true)]
async fn dropped_run_stops_its_background_work_and_says_so() {
    let lines = Arc::default();
    let tools = vec![later(read("build"), 30), later(read("quick"), 0)];
    let runtime = permissive(tools).observer(watch(&lines)).build().unwrap();
    let run = runtime.run();
    call(&run, "build quick").await;
    tokio::time::sleep(SECOND).await;
    drop(run);
    tokio::time::sleep(SECOND).await;
    let lines = lines.lock().unwrap().clone();
    let ends: Vec<_> = lines.iter().filter(|l| l.contains("task")).skip(2).collect();
    assert_eq!(
        ends,
        [
            "c2>1 task-2 resolved ok ran Completed",
            "task-2 expired",
            "c1>1 task-1 resolved cancelled ran Completed",
            "task-1 expired"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn background_panic_is_a_failure_and_output_is_bounded() {
    let panics = defers(|_| async { panic!("on purpose") });
    let runtime = permissive(vec![panics]).build().unwrap();
    let run = runtime.run();
    call(&run, "t").await;
    let late = run.next_background_result().await.unwrap();
    assert_eq!(late.answer.failure().unwrap().code(), FailureCode::Panicked);
    let floods = defers(|_| async { Ok(Output::text("x".repeat(1 << 20))) });
    let run = permissive(vec![floods]).build().unwrap().run();
    call(&run, "t").await;
    let late = run.next_background_result().await.unwrap();
    assert!(late.answer.truncation().is_some() && late.answer.text().len() < 1 << 19);
}

#[tokio::test(start_paused = true)]
async fn background_work_keeps_its_permit_while_the_run_continues() {
    let tools = vec![later(write("build").concurrency(1), 30), quick(write("other"))];
    let run = permissive(tools).build().unwrap().run();
    let began = tokio::time::Instant::now();
    call(&run, "build").await;
    assert_eq!(ends(&call(&run, "other:x").await), ["c1 ok"]);
    assert_eq!(began.elapsed().as_secs(), 0, "another writer need not wait");
    assert_eq!(ends(&call(&run, "build").await), ["c1 ok"]);
    assert_eq!(began.elapsed().as_secs(), 30, "the tool's only slot was taken");
}

#[tokio::test(start_paused = true)]
async fn model_polls_background_results_and_gets_each_once() {
    let registry =
        ToolRegistry::builder().add(later(read("build"), 30)).add(quick(read("t"))).add(CheckTask);
    let runtime = haft::Runtime::builder().registry(registry.build().unwrap()).build().unwrap();
    let (run, other) = (runtime.run(), runtime.run());
    let answers = call(&run, "build").await;
    assert!(answers[0].text().contains("call `check_task` for the result"));
    let ask = |run: &Run, arguments: Value| {
        let run = run.clone();
        async move {
            let call = haft::ToolCall::new("a", "check_task", arguments);
            run.turn().await.unwrap().run([call]).await.pop().unwrap()
        }
    };
    let own = json!({"task_id": "task-1"});
    assert!(ask(&run, json!({})).await.text().contains(r#""status":"running""#));
    assert!(ask(&run, own.clone()).await.text().contains(r#""status":"running""#));
    let stranger = ask(&other, own.clone()).await;
    assert_eq!(stranger.failure().unwrap().code(), FailureCode::InvalidValue, "it is not theirs");
    assert_eq!(ask(&other, json!({})).await.text(), r#"{"tasks":[]}"#);
    let began = tokio::time::Instant::now();
    tokio::time::sleep(SECOND * 31).await;
    let note =
        "[note from the host: `task-1` of `build` is completed; call `check_task` for the result]";
    assert!(call(&run, "t:x").await[0].text().ends_with(note));
    assert!(!call(&run, "t:x").await[0].text().contains("note"), "said once");
    let answer = ask(&run, own.clone()).await;
    assert_eq!(answer.text(), "built");
    assert_eq!(answer.label().trust, Trust::Untrusted, "it brings its label along");
    assert!(ask(&run, own).await.is_error() && run.take_background_results().is_empty(), "once");
    assert_eq!(began.elapsed().as_secs(), 31);
    call(&run, "build").await;
    let waits = json!({"task_id": "task-2", "wait_s": 60});
    assert_eq!(ask(&run, waits).await.text(), "built");
    assert_eq!(began.elapsed().as_secs(), 61, "it waits no longer than it must");
}

#[tokio::test(start_paused = true)]
async fn closing_the_runtime_stops_background_work_and_awaits_it() {
    let runtime = permissive(vec![later(read("build"), 30)]).build().unwrap();
    let run = runtime.run();
    call(&run, "build").await;
    let began = tokio::time::Instant::now();
    runtime.close().await;
    assert!(began.elapsed() < SECOND);
    let late = run.take_background_results().pop().unwrap();
    assert_eq!(late.answer.failure().unwrap().code(), FailureCode::Cancelled);
    assert_eq!(call(&run, "build").await[0].text(), "built", "no more is put off");

    let mut config = Config::default();
    config.background_grace = SECOND * 60;
    let runtime = permissive(vec![later(read("build"), 30)]).config(config).build().unwrap();
    let run = runtime.run();
    call(&run, "build").await;
    runtime.close().await;
    assert_eq!(run.take_background_results().pop().unwrap().answer.text(), "built");
}

#[tokio::test(start_paused = true)]
async fn output_schema_applies_to_the_result_and_not_to_the_task() {
    let tool = |good: bool| {
        DynTool::new(read("t"), open_schema(), move |_, cx| async move {
            cx.spawn_background("counting", move |_| async move {
                let data = if good { json!({"n": 1}) } else { json!({"n": "one"}) };
                Output { structured: Some(Box::new(data.clone())), ..Output::json(data) }
            })
            .await
        })
        .with_output_schema(json!({"type": "object", "properties": {"n": {"type": "integer"}}}))
    };
    for (good, code) in [(true, None), (false, Some(FailureCode::BadOutput))] {
        let run = permissive(vec![tool(good)]).build().unwrap().run();
        assert_eq!(ends(&call(&run, "t").await), ["c1 ok"]);
        let late = run.next_background_result().await.unwrap();
        assert_eq!(late.answer.failure().map(Failure::code), code);
    }
}
