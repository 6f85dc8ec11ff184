//! Regressions from an adversarial review. Each test is one bug, named by what must hold instead.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft::{
    BoxFuture, Config, Failure, FailureCode, Runtime, ToolCall, ToolRegistry,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    events::Event,
    hooks::{Hook, PreCallDecision},
    journal::{Journal, MemoryJournal, WriteStatus},
    taint::{Label, Trust},
    tool::{CallProfile, DynTool, Execution},
    turn::{StopReason, ValidatedCall},
};
use serde_json::json;

use crate::kit::*;

/// A tool that counts its executions.
fn noting(spec: haft::tool::ToolSpec, ran: &Arc<AtomicUsize>) -> DynTool {
    let ran = Arc::clone(ran);
    DynTool::new(spec, open_schema(), move |_, _| {
        ran.fetch_add(1, Ordering::SeqCst);
        async { "ran" }
    })
}

struct SlowRewrite;

impl Hook for SlowRewrite {
    fn name(&self) -> &str {
        "slow"
    }

    fn before<'a>(
        &'a self,
        _: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<PreCallDecision, Failure>> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(PreCallDecision::rewrite(json!({"x": "unsafe"})))
        })
    }
}

struct Yes(Arc<AtomicUsize>);

impl Approver for Yes {
    fn ask<'a>(
        &'a self,
        _: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(ApprovalResponse::allow()) })
    }
}

#[tokio::test(start_paused = true)]
async fn message_truncated_during_authorization_runs_nothing() {
    let ran = Arc::default();
    let tool = noting(read("t"), &ran).with_profile(|declared, args, _| match args["x"].as_str() {
        Some("unsafe") => CallProfile::strictest(),
        _ => declared,
    });
    let runtime = permissive(vec![tool]).hook(SlowRewrite).build().unwrap();
    let mut intake = runtime.run().turn().await.unwrap().schedule();
    intake.push(ToolCall::new("c1", "t", json!({})));
    let answers = intake.finish(StopReason::Truncated).await;
    assert_eq!(ends(&answers), ["c1 not_run"]);
    assert_eq!(ran.load(Ordering::SeqCst), 0);

    let asked = Arc::default();
    let network = read("t").capabilities([haft::tool::Capability::Network]);
    let registry = ToolRegistry::builder().add(noting(network, &ran)).build().unwrap();
    let runtime = Runtime::builder()
        .registry(registry)
        .hook(SlowRewrite)
        .approver(Yes(Arc::clone(&asked)))
        .build()
        .unwrap();
    let mut intake = runtime.run().turn().await.unwrap().schedule();
    intake.push(ToolCall::new("c1", "t", json!({})));
    let answers = intake.finish(StopReason::Refused).await;
    assert_eq!(ends(&answers), ["c1 not_run"]);
    assert_eq!((ran.load(Ordering::SeqCst), asked.load(Ordering::SeqCst)), (0, 0));
}

struct SlowJournal;

impl Journal for SlowJournal {
    fn intend(&self, _: &haft::journal::CallIntent<'_>) -> WriteStatus {
        WriteStatus::Later(Box::pin(async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            Ok(())
        }))
    }

    fn settle(&self, _: &haft::journal::CallOutcome<'_>) -> WriteStatus {
        WriteStatus::Now(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn call_cancelled_while_its_intent_is_journaled_does_not_start() {
    let ran = Arc::default();
    let runtime = permissive(vec![noting(write("t"), &ran)]).journal(SlowJournal).build().unwrap();
    let run = runtime.run();
    let turn = run.turn().await.unwrap();
    let (answers, ()) = tokio::join!(turn.run(calls("t")), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        run.cancel();
    });
    assert_eq!(ends(&answers), ["c1 cancelled"]);
    assert_eq!((answers[0].execution(), ran.load(Ordering::SeqCst)), (Execution::NotStarted, 0));
    let late = noting(write("t").deadline(Duration::from_millis(50)), &ran);
    let runtime = permissive(vec![late]).journal(SlowJournal).build().unwrap();
    let failure = runtime.call("t", json!({})).await.unwrap_err();
    assert_eq!(
        (failure.code(), failure.execution()),
        (FailureCode::DeadlinePassed, Execution::NotStarted)
    );
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn abandoned_blocking_work_keeps_its_lock() {
    let alive = Arc::new(AtomicBool::new(false));
    let overlapped = Arc::new(AtomicBool::new(false));
    let working = Arc::clone(&alive);
    let leaves = DynTool::new(write("leaves"), open_schema(), move |_, cx| {
        let alive = Arc::clone(&working);
        async move {
            let work = cx.spawn_blocking(move |_| {
                alive.store(true, Ordering::SeqCst);
                std::thread::park_timeout(Duration::from_secs(5));
                alive.store(false, Ordering::SeqCst);
            });
            tokio::select! {
                done = work => done?,
                () = cx.cancelled() => return Err(Failure::failed("stopped as requested")),
            }
            Ok("done")
        }
    });
    let (alive, seen) = (Arc::clone(&alive), Arc::clone(&overlapped));
    let later = DynTool::new(write("later"), open_schema(), move |_, _| {
        seen.fetch_or(alive.load(Ordering::SeqCst), Ordering::SeqCst);
        async { "ran" }
    });
    let runtime = permissive(vec![leaves, later]).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let control = turn.handle();
    let (answers, ()) = tokio::join!(turn.run(calls("leaves later")), async {
        tokio::time::sleep(Duration::from_millis(80)).await;
        control.cancel_call("c1");
    });
    assert_eq!(
        answers[0].failure().map(|f| (f.code(), f.execution())),
        Some((FailureCode::UnknownOutcome, Execution::Unknown))
    );
    assert_eq!(ends(&answers[1..]), ["c2 not_run"]);
    assert!(!overlapped.load(Ordering::SeqCst), "nothing exclusive ran in parallel");
}

#[tokio::test(start_paused = true)]
async fn dropped_nested_call_is_cancelled_and_keeps_its_parents_lock() {
    let ended = Arc::new(AtomicBool::new(false));
    let has_ended = Arc::clone(&ended);
    let inner = DynTool::new(write("inner"), open_schema(), move |_, cx| {
        let has_ended = Arc::clone(&has_ended);
        async move {
            cx.cancelled().await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            has_ended.store(true, Ordering::SeqCst);
            "wound up"
        }
    });
    let outer = DynTool::new(write("outer"), open_schema(), |_, cx| async move {
        tokio::select! {
            _ = cx.call("inner", json!({})) => {}
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
        }
        Ok::<_, Failure>("did not wait")
    });
    let seen = Arc::new(AtomicBool::new(false));
    let (ended, saw) = (Arc::clone(&ended), Arc::clone(&seen));
    let later = DynTool::new(write("later"), open_schema(), move |_, _| {
        saw.store(ended.load(Ordering::SeqCst), Ordering::SeqCst);
        async { "ran" }
    });
    let runtime = permissive(vec![inner, outer, later]).build().unwrap();
    let run = runtime.run();
    let answers = run.turn().await.unwrap().run(calls("outer")).await;
    assert_eq!(ends(&answers), ["c1 ok"]);
    let refused = run.turn().await.unwrap().run(calls("later")).await;
    assert_eq!(ends(&refused), ["c1 not_run"], "the place is still taken");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let answers = run.turn().await.unwrap().run(calls("later")).await;
    assert_eq!(ends(&answers), ["c1 ok"]);
    assert!(seen.load(Ordering::SeqCst), "and only once the nested call has ended");
}

#[tokio::test(start_paused = true)]
async fn no_nested_call_starts_after_its_parent_ended() {
    let kept = Arc::new(std::sync::Mutex::new(None));
    let keep = Arc::clone(&kept);
    let leaks = DynTool::new(write("leaks"), open_schema(), move |_, cx| {
        *keep.lock().unwrap() = Some(cx);
        async { "done" }
    });
    let ran = Arc::default();
    let transcript = Transcript::default();
    let tools = vec![leaks, noting(read("inner"), &ran)];
    let runtime = permissive(tools).observer(transcript.observer()).build().unwrap();
    runtime.run().turn().await.unwrap().run(calls("leaks")).await;
    let cx = kept.lock().unwrap().take().unwrap();
    assert_eq!(cx.call("inner", json!({})).await.unwrap_err().code(), FailureCode::NotRun);
    assert!(cx.spawn_blocking(|_| ()).await.is_err());
    cx.progress(0.5, "still here");
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert!(
        !transcript.lines().iter().any(|l| l.contains("still here")),
        "no event after the last"
    );
}

#[tokio::test(start_paused = true)]
async fn body_that_forwards_a_nested_failure_counts_as_executed() {
    let outer = DynTool::new(write("outer"), open_schema(), |_, cx| async move {
        cx.call("nosuch", json!({})).await
    });
    let runtime = permissive(vec![outer]).build().unwrap();
    let failure = runtime.call("outer", json!({})).await.unwrap_err();
    assert_eq!(
        (failure.code(), failure.execution()),
        (FailureCode::UnknownTool, Execution::Completed)
    );
}

#[tokio::test]
async fn calls_of_a_dropped_stream_have_a_terminal_event_and_record() {
    let journal = MemoryJournal::new(10);
    let transcript = Transcript::default();
    let runtime = permissive(vec![quick(write("t"))])
        .journal(journal.clone())
        .observer(transcript.observer())
        .build()
        .unwrap();
    let mut intake = runtime.run().turn().await.unwrap().schedule();
    calls("t t").into_iter().for_each(|call| intake.push(call));
    drop(intake);
    let mut intake = runtime.run().turn().await.unwrap().schedule();
    intake.push(ToolCall::new("c3", "t", json!({})));
    drop(intake.finish(StopReason::Done));
    for id in ["c1", "c2", "c3"] {
        assert_eq!(transcript.ends_of(id), 1, "{id}");
    }
    assert_eq!(settled(&journal).len(), 3);
    assert!(intents(&journal).is_empty());
}

#[tokio::test(start_paused = true)]
async fn batch_lock_and_tool_permit_do_not_deadlock() {
    let inner = slow(write("inner").concurrency(1), 100);
    let outer = DynTool::new(write("outer"), open_schema(), |_, cx| async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        cx.call("inner", json!({})).await
    });
    let runtime = permissive(vec![inner, outer]).build().unwrap();
    let run = runtime.run();
    let (one, two) = (run.turn().await.unwrap(), run.turn().await.unwrap());
    let began = tokio::time::Instant::now();
    let (one, two) = tokio::join!(one.run(calls("outer")), two.run(calls("inner")));
    assert_eq!((ends(&one), ends(&two)), (vec!["c1 ok".to_owned()], vec!["c1 ok".to_owned()]));
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn id_in_nested_form_is_replaced() {
    let runtime = permissive(vec![quick(read("t"))]).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let call = |id: &str| ToolCall::new(id, "t", json!({}));
    let answers = turn.run(vec![call("a"), call("a>1")]).await;
    assert_eq!(ends(&answers), ["a ok", "haft-2 ok"]);
}

#[tokio::test]
async fn invalid_default_is_a_build_error_or_a_refusal() {
    let build = |schema| {
        let tool = DynTool::new(read("t"), schema, |args, _| async move { args.to_string() });
        ToolRegistry::builder().add(tool).build()
    };
    let wrong = json!({"properties": {"n": {"type": "integer", "default": "rm -rf"}}});
    assert!(
        build(wrong)
            .unwrap_err()
            .to_string()
            .contains("the default of `n` does not match its schema")
    );
    let crowded = json!({"maxProperties": 1, "properties": {"a": {"default": 1}, "b": {}}});
    let registry = build(crowded).unwrap();
    let runtime = Runtime::builder().registry(registry).build().unwrap();
    assert!(runtime.call("t", json!({})).await.is_ok());
    assert_eq!(
        runtime.call("t", json!({"b": 1})).await.unwrap_err().code(),
        FailureCode::BadArguments
    );
}

#[tokio::test]
async fn json_output_is_bounded_like_text() {
    let mut config = Config::default();
    config.max_arguments = 100;
    let runtime = permissive(vec![quick(read("t"))]).config(config).build().unwrap();
    let long = runtime.call("t", json!({"x": "y".repeat(1_000)})).await.unwrap_err();
    assert_eq!(long.code(), FailureCode::UnparseableArguments);
    let mut deep = json!(1);
    for _ in 0..200 {
        deep = json!([deep]);
    }
    let runtime = permissive(vec![quick(read("t"))]).build().unwrap();
    assert_eq!(
        runtime.call("t", json!({"x": deep})).await.unwrap_err().code(),
        FailureCode::UnparseableArguments
    );
}

#[test]
fn infinitely_recursive_schema_is_a_build_error() {
    let mut defs = serde_json::Map::new();
    for n in 0..60 {
        let next = json!({"$ref": format!("#/$defs/n{}", n + 1)});
        defs.insert(format!("n{n}"), json!({"allOf": [next, next]}));
    }
    defs.insert("n60".to_owned(), json!({"type": "string"}));
    let schema = json!({"properties": {"a": {"$ref": "#/$defs/n0"}}, "$defs": defs});
    let tool = DynTool::new(read("t"), schema, |_, _| async {});
    let error = ToolRegistry::builder().add(tool).build().unwrap_err();
    assert!(error.to_string().contains("unfold"), "{error}");
    let many: serde_json::Map<_, _> =
        (0..100).map(|n| (format!("p{n}"), json!({"$ref": "#"}))).collect();
    let tool = DynTool::new(read("t"), json!({"properties": many}), |_, _| async {});
    #[expect(clippy::disallowed_methods, reason = "the test is about real time")]
    let start = std::time::Instant::now();
    let built = ToolRegistry::builder().add(tool).build();
    assert!(built.is_ok() && start.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn taint_label_survives_nested_calls() {
    let trusted = Label { trust: Trust::Trusted, ..Label::CLEAN };
    let outer = DynTool::new(read("outer").label(trusted), open_schema(), |_, cx| async move {
        cx.call("inner", json!({})).await
    });
    let runtime = permissive(vec![outer, quick(read("inner"))]).build().unwrap();
    let run = runtime.run();
    let answers = run.turn().await.unwrap().run(calls("outer")).await;
    assert_eq!(answers[0].label().trust, Trust::Untrusted);
    assert_eq!(run.label().trust, Trust::Untrusted);
}

#[tokio::test(start_paused = true)]
async fn sibling_that_arrives_after_the_abort_is_cancelled() {
    let tools = vec![failing(read("fails").abort_siblings(true)), slow(read("slow"), 1_000)];
    let runtime = permissive(tools).build().unwrap();
    let mut intake = runtime.run().turn().await.unwrap().schedule();
    for call in calls("fails slow") {
        intake.push(call);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let answers = intake.finish(StopReason::Done).await;
    assert_eq!(ends(&answers), ["c1 tool_failed", "c2 sibling_aborted"]);
}

#[tokio::test]
async fn bounds_hold_for_every_part_of_a_result() {
    let mut config = Config::default();
    config.max_result = 1_000;
    let crabs = DynTool::new(
        read("crabs").max_result(haft::tool::ResultLimit::Unbounded),
        json!({}),
        |_, _| async { "🦀".repeat(900) },
    );
    let many = DynTool::new(read("many").max_result(100), json!({}), |_, _| async {
        vec![haft::tool::Block::text(""); 10_000]
    });
    let data = DynTool::new(read("data"), json!({}), |_, _| async {
        let mut output = haft::Output::text("small");
        output.structured = Some(Box::new(json!("x".repeat(1_000_000))));
        output
    });
    let runtime = permissive(vec![crabs, many, data]).config(config).build().unwrap();
    let answers = runtime.run().turn().await.unwrap().run(calls("crabs many data")).await;
    assert!(answers[0].text().len() <= 1_000, "{}", answers[0].text().len());
    assert!(answers[1].output().unwrap().blocks.len() <= 101);
    assert_eq!(answers[2].output().unwrap().structured, None);
}

#[tokio::test]
async fn aborting_a_large_turn_is_bounded_in_time() {
    let finished = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&finished);
    let runtime =
        permissive(vec![slow(read("slow"), 60_000), failing(read("fails").abort_siblings(true))])
            .observer(move |event: &Event| {
                count.fetch_add(usize::from(event.is_terminal()), Ordering::SeqCst);
            })
            .build()
            .unwrap();
    let words = "fails ".to_owned() + &"slow ".repeat(5_000);
    let turn = runtime.run().turn().await.unwrap();
    let answers =
        tokio::time::timeout(Duration::from_secs(20), turn.run(calls(&words))).await.unwrap();
    assert_eq!(answers.len(), 5_001);
    assert_eq!(finished.load(Ordering::SeqCst), 5_001);
    assert!(
        answers[1..]
            .iter()
            .all(|a| a.failure().is_some_and(|f| f.code() == FailureCode::SiblingAborted))
    );
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_reaches_nested_calls_only_through_their_outer_call() {
    let steps = |spec| {
        DynTool::new(spec, open_schema(), |_, cx| async move {
            cx.call("step", json!({})).await?;
            cx.call("step", json!({})).await?;
            Ok::<_, Failure>("both steps")
        })
    };
    let tools = vec![
        steps(read("blocks")),
        steps(read("yields").interrupt(haft::tool::Interrupt::Cancel)),
        slow(read("step").interrupt(haft::tool::Interrupt::Cancel), 1_000),
    ];
    let runtime = permissive(tools).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let control = turn.handle();
    let (answers, ()) = tokio::join!(turn.run(calls("blocks yields")), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        control.interrupt();
    });
    assert_eq!(ends(&answers), ["c1 ok", "c2 cancelled"]);
}

#[tokio::test]
async fn arguments_of_a_map_are_not_dropped_as_unknown() {
    let spec = read("t").unknown(haft::tool::UnknownFields::Ignore);
    let map = json!({"additionalProperties": {"type": "string"}});
    let tool = DynTool::new(spec.clone(), map, |args, _| async move { args.to_string() });
    let runtime = permissive(vec![tool]).build().unwrap();
    let kept = runtime.call("t", json!({"any": "thing"})).await.unwrap();
    assert_eq!(kept.to_text(), r#"{"any":"thing"}"#);
    let tool = DynTool::new(spec, open_schema(), |args, _| async move { args.to_string() });
    let runtime = permissive(vec![tool]).build().unwrap();
    let dropped = runtime.call("t", json!({"x": "a", "other": 1})).await.unwrap();
    assert_eq!(dropped.to_text(), r#"{"x":"a"}"#);
}

/// A panic payload that panics again on drop.
struct Twice;

impl Drop for Twice {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("on purpose, again");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn panic_payload_that_panics_on_drop_gives_one_result() {
    fn again() -> ! {
        std::panic::panic_any(Twice)
    }
    let claims = quick(read("claims")).with_profile(|_, _, _| again());
    let guards = quick(read("guards")).with_guard(|_, _| again());
    let body = DynTool::new(read("body"), open_schema(), |_, _| async {
        if true {
            again();
        }
    });
    let runtime = permissive(vec![claims, guards, body])
        .observer(|event: &Event| {
            if matches!(event, Event::Started { .. }) {
                again();
            }
        })
        .build()
        .unwrap();
    let answers = runtime.run().turn().await.unwrap().run(calls("claims guards body")).await;
    assert_eq!(ends(&answers), ["c1 ok", "c2 guard_failed", "c3 panicked"]);
}

#[tokio::test(start_paused = true)]
async fn a_limited_tool_that_fans_out_into_itself_stays_within_its_limit() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (at_work, seen) = (now, Arc::clone(&most));
    let tool = DynTool::new(read("t").concurrency(1), open_schema(), move |args, cx| {
        let (now, most) = (Arc::clone(&at_work), Arc::clone(&seen));
        async move {
            if args["x"] == "leaf" {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(5)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                return Ok::<_, Failure>("leaf");
            }
            let (a, b, c) = tokio::join!(
                cx.call("t", json!({"x": "leaf"})),
                cx.call("t", json!({"x": "leaf"})),
                cx.call("t", json!({"x": "leaf"})),
            );
            a.and(b).and(c)?;
            Ok("all")
        }
    });
    let runtime = permissive(vec![tool]).build().unwrap();
    assert_eq!(runtime.call("t", json!({})).await.unwrap().to_text(), "all");
    assert_eq!(most.load(Ordering::SeqCst), 1);
}
