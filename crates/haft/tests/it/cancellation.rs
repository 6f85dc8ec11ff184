//! Cancellation: timeouts, deadlines, interrupts, siblings, and bodies that cannot be stopped.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use haft::{
    Config, Failure, FailureCode,
    journal::MemoryJournal,
    tool::{DynTool, Execution, Interrupt, ToolSpec},
};
use serde_json::json;

use crate::kit::*;

/// A tool that never ends by itself and records whether its future was dropped.
fn hanging(spec: ToolSpec, dropped: &Arc<AtomicBool>) -> DynTool {
    struct SetsOnDrop(Arc<AtomicBool>);
    impl Drop for SetsOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let dropped = Arc::clone(dropped);
    DynTool::new(spec, open_schema(), move |_, cx| {
        let guard = SetsOnDrop(Arc::clone(&dropped));
        async move {
            cx.partial("so far");
            std::future::pending::<()>().await;
            drop(guard);
            "never"
        }
    })
}

#[tokio::test(start_paused = true)]
async fn timeout_stops_the_body_and_keeps_its_partial_output() {
    let dropped = Arc::default();
    let tool = hanging(read("t").timeout(Duration::from_secs(5)), &dropped);
    let runtime = permissive(vec![tool]).build().unwrap();
    let began = tokio::time::Instant::now();
    let answers = runtime.run().turn().await.unwrap().run(calls("t")).await;
    assert!(began.elapsed() < Duration::from_secs(6));
    let failure = answers[0].failure().unwrap();
    assert_eq!(
        (failure.code(), failure.execution()),
        (FailureCode::TimedOut, Execution::Completed)
    );
    assert!(answers[0].text().ends_with("Output before the interruption (6 characters):\nso far"));
    assert!(dropped.load(Ordering::SeqCst));
}

/// A tool that sees the cancellation, and then finishes anyway.
fn finishes_late(spec: ToolSpec) -> DynTool {
    DynTool::new(spec, open_schema(), |_, cx| async move {
        cx.cancelled().await;
        "all of it"
    })
}

#[tokio::test(start_paused = true)]
async fn body_that_completes_in_the_grace_period_after_its_timeout_is_timed_out() {
    let tool = finishes_late(write("t").timeout(Duration::from_secs(5)));
    let runtime = permissive(vec![tool]).build().unwrap();
    let answers = runtime.run().turn().await.unwrap().run(calls("t")).await;
    let failure = answers[0].failure().unwrap();
    assert_eq!(
        (failure.code(), failure.execution()),
        (FailureCode::TimedOut, Execution::Completed)
    );
    assert!(failure.message().contains("after its timeout"), "{failure}");
    assert!(failure.source().unwrap().to_string().contains("completed"), "{failure:?}");
    assert!(!answers[0].text().contains("all of it"), "{}", answers[0].text());
    let tool = finishes_late(write("t").deadline(Duration::from_secs(5)));
    let failure = permissive(vec![tool]).build().unwrap().call("t", json!({})).await.unwrap_err();
    assert_eq!(
        (failure.code(), failure.execution()),
        (FailureCode::DeadlinePassed, Execution::Completed)
    );
}

#[tokio::test(start_paused = true)]
async fn default_timeouts_come_from_the_runtime_and_are_never_none() {
    let config = Config::default();
    assert_eq!(config.timeout, Duration::from_secs(120));
    assert_eq!(config.deadline, Duration::from_secs(600));
    let runtime = permissive(vec![hanging(read("t"), &Arc::default())]).build().unwrap();
    let began = tokio::time::Instant::now();
    let failure = runtime.call("t", json!({})).await.unwrap_err();
    assert_eq!(failure.code(), FailureCode::TimedOut);
    assert_eq!(began.elapsed().as_secs(), 120);
}

#[tokio::test(start_paused = true)]
async fn deadline_includes_waiting_and_is_visible_to_the_tool() {
    let tool = DynTool::new(
        write("t").deadline(Duration::from_secs(30)).timeout(Duration::from_secs(60)),
        open_schema(),
        |_, cx| async move {
            assert!(cx.time_left().unwrap() <= Duration::from_secs(30));
            tokio::time::sleep(Duration::from_secs(20)).await;
            "done"
        },
    );
    let runtime = permissive(vec![tool.clone()]).build().unwrap();
    let run = runtime.run();
    // Two turns of one run: the second waits for the lock, and its timeout expires while it runs.
    let (one, two) = (run.turn().await.unwrap(), run.turn().await.unwrap());
    let (first, second) = tokio::join!(one.run(calls("t")), two.run(calls("t")));
    assert_eq!(ends(&first), ["c1 ok"]);
    assert_eq!(ends(&second), ["c1 deadline_passed"]);
    assert_eq!(second[0].execution(), Execution::Completed);
}

#[tokio::test(start_paused = true)]
async fn deadline_that_expires_while_waiting_runs_nothing() {
    let journal = MemoryJournal::new(10);
    let long = slow(write("long").timeout(Duration::from_secs(300)), 100_000);
    let short = quick(write("short").deadline(Duration::from_secs(1)));
    let runtime = permissive(vec![long, short]).journal(journal.clone()).build().unwrap();
    let run = runtime.run();
    let (one, two) = (run.turn().await.unwrap(), run.turn().await.unwrap());
    let (_, second) = tokio::join!(one.run(calls("long")), two.run(calls("short")));
    assert_eq!(ends(&second), ["c1 deadline_passed"]);
    assert_eq!(second[0].execution(), Execution::NotStarted);
    assert_eq!(intents(&journal).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn interrupt_stops_cancellable_calls_and_lets_the_rest_finish() {
    let yields = slow(read("yields").interrupt(Interrupt::Cancel), 50_000);
    let blocks = slow(read("blocks"), 50_000);
    let later = quick(write("later"));
    let runtime = permissive(vec![yields, blocks, later]).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let control = turn.handle();
    let (answers, ()) = tokio::join!(turn.run(calls("yields blocks later")), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        control.interrupt();
    });
    assert_eq!(ends(&answers), ["c1 cancelled", "c2 ok", "c3 cancelled"]);
    assert_eq!(
        (answers[0].execution(), answers[2].execution()),
        (Execution::Completed, Execution::NotStarted)
    );
}

#[tokio::test(start_paused = true)]
async fn force_stops_all_calls_and_one_call_can_be_stopped_alone() {
    let tools = || vec![slow(read("a"), 50_000), slow(read("b"), 50_000)];
    let runtime = permissive(tools()).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let control = turn.handle();
    let (answers, ()) = tokio::join!(turn.run(calls("a b")), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        control.abort();
    });
    assert_eq!(ends(&answers), ["c1 cancelled", "c2 cancelled"]);

    let turn = runtime.run().turn().await.unwrap();
    let control = turn.handle();
    let (answers, ()) = tokio::join!(turn.run(calls("a b")), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(control.cancel_call("c1"));
        assert!(!control.cancel_call("nosuch"));
    });
    assert_eq!(ends(&answers), ["c1 cancelled", "c2 ok"]);
    assert!(answers[0].text().contains("this call was cancelled"));
}

#[tokio::test(start_paused = true)]
async fn a_run_can_be_cancelled_as_a_whole() {
    let runtime = permissive(vec![slow(read("a"), 50_000)]).build().unwrap();
    let run = runtime.run();
    let turn = run.turn().await.unwrap();
    let (answers, ()) = tokio::join!(turn.run(calls("a a")), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        run.cancel();
    });
    assert_eq!(ends(&answers), ["c1 cancelled", "c2 cancelled"]);
    let answers = run.turn().await.unwrap().run(calls("a")).await;
    assert_eq!(answers[0].execution(), Execution::NotStarted);
}

/// A turn registers with its run only when a call waits. A body that never waits sees the
/// cancellation too.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a body that blocks, and a thread that cancels")]
async fn body_in_its_first_poll_sees_the_cancellation_of_the_run() {
    let (started, has_started) = mpsc::channel();
    let busy = DynTool::new(read("busy"), open_schema(), move |_, cx| {
        let _ = started.send(());
        let mut checks = 0;
        while !cx.is_cancelled() && checks < 5_000 {
            checks += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        let seen = cx.is_cancelled();
        async move { if seen { Err(Failure::failed("stopped")) } else { Ok("never cancelled") } }
    });
    let run = permissive(vec![busy]).build().unwrap().run();
    let other = run.clone();
    let canceller = std::thread::spawn(move || {
        has_started.recv().unwrap();
        other.cancel();
    });
    let turn = run.turn().await.unwrap();
    let results = turn.run(calls("busy busy")).await;
    canceller.join().unwrap();
    let codes: Vec<_> = results.iter().map(|r| r.failure().unwrap().code()).collect();
    assert_eq!(codes, [FailureCode::Cancelled, FailureCode::Cancelled]);
    assert_eq!(results[0].execution(), Execution::Completed);
    assert_eq!(results[1].execution(), Execution::NotStarted, "it had not begun");
}

#[tokio::test(start_paused = true)]
async fn siblings_are_isolated_unless_a_failing_body_may_abort_them() {
    let tools = |aborts: bool| {
        vec![
            DynTool::new(read("fails").abort_siblings(aborts), open_schema(), |_, _| async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                Err::<(), _>(haft::Failure::failed("no luck"))
            }),
            slow(read("slow"), 1_000),
            quick(read("quick")),
            quick(write("later")),
        ]
    };
    let words = calls("slow fails quick slow later");
    let runtime = permissive(tools(false)).build().unwrap();
    let answers = runtime.run().turn().await.unwrap().run(words.clone()).await;
    assert_eq!(ends(&answers), ["c1 ok", "c2 tool_failed", "c3 ok", "c4 ok", "c5 ok"]);

    let aborted = ["c1 sibling_aborted", "c2 tool_failed", "c3 ok", "c4 sibling_aborted", "c5 ok"];
    let runtime = permissive(tools(true)).build().unwrap();
    let answers = runtime.run().turn().await.unwrap().run(words.clone()).await;
    assert_eq!(ends(&answers), aborted, "the next batch still runs");
    assert_eq!(answers[0].execution(), Execution::Completed, "it says that it had started");
    assert!(answers[0].text().contains("`fails` in the same batch failed"));

    let runtime = permissive(tools(false)).build().unwrap();
    let turn = runtime.run().turn().await.unwrap().abort_siblings();
    assert_eq!(ends(&turn.run(words).await), aborted, "per dispatch too");
}

#[tokio::test(start_paused = true)]
async fn denied_or_invalid_call_aborts_no_sibling() {
    let tools = vec![slow(read("slow").abort_siblings(true), 100), quick(read("q"))];
    let runtime = permissive(tools).build().unwrap();
    let turn = runtime.run().turn().await.unwrap().abort_siblings();
    let answers = turn.run(calls("slow nosuch slow")).await;
    assert_eq!(ends(&answers), ["c1 ok", "c2 unknown_tool", "c3 ok"]);
}

#[tokio::test(start_paused = true)]
async fn aborted_siblings_that_wait_for_a_permit_report_not_started() {
    let mut config = Config::default();
    config.max_concurrency = 1;
    let tools = vec![failing(read("fails").abort_siblings(true)), slow(read("slow"), 1_000)];
    let runtime = permissive(tools).config(config).build().unwrap();
    let answers = runtime.run().turn().await.unwrap().run(calls("fails slow")).await;
    assert_eq!(ends(&answers), ["c1 tool_failed", "c2 sibling_aborted"]);
    assert_eq!(answers[1].execution(), Execution::NotStarted);
}

#[tokio::test]
async fn panic_is_a_failure_and_its_text_is_only_for_the_operator() {
    let tool = DynTool::new(read("t"), json!({}), |_, _| async {
        if true {
            panic!("secret words");
        }
    });
    let early = DynTool::new(read("early"), json!({}), |_, _| -> std::future::Ready<()> {
        panic!("before the future even exists")
    });
    let runtime = permissive(vec![tool, early]).build().unwrap();
    let failure = runtime.call("t", json!({})).await.unwrap_err();
    assert_eq!(failure.code(), FailureCode::Panicked);
    assert!(!failure.to_string().contains("secret words"));
    assert_eq!(failure.source().unwrap().to_string(), "secret words");
    assert_eq!(runtime.call("early", json!({})).await.unwrap_err().code(), FailureCode::Panicked);
}

#[tokio::test]
async fn dropping_the_dispatch_cancels_the_turn_and_still_records_every_call() {
    let journal = MemoryJournal::new(10);
    let transcript = Transcript::default();
    let runtime = permissive(vec![slow(write("t"), 60_000)])
        .journal(journal.clone())
        .observer(transcript.observer())
        .build()
        .unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let dropped = tokio::time::timeout(Duration::from_millis(20), turn.run(calls("t t t"))).await;
    assert!(dropped.is_err());
    for _ in 0..200 {
        if settled(&journal).len() == 3 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let codes: Vec<_> = settled(&journal)
        .into_iter()
        .filter_map(|r| r.end)
        .map(|e| (e.failed, e.execution))
        .collect();
    assert_eq!(codes[0], (Some(FailureCode::Cancelled), Execution::Completed));
    assert_eq!(codes[1..], [(Some(FailureCode::Cancelled), Execution::NotStarted); 2]);
    for id in ["c1", "c2", "c3"] {
        assert_eq!(transcript.ends_of(id), 1, "{id}");
    }
}

/// A tool with a blocking body that waits for a signal.
fn blocking(spec: ToolSpec) -> (DynTool, mpsc::Sender<()>, Arc<AtomicUsize>) {
    let (send, receive) = mpsc::channel::<()>();
    let receive = Arc::new(std::sync::Mutex::new(receive));
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let tool = DynTool::new(spec, open_schema(), move |_, cx| {
        let (receive, ran) = (Arc::clone(&receive), Arc::clone(&counted));
        async move {
            cx.spawn_blocking(move |_| {
                ran.fetch_add(1, Ordering::SeqCst);
                let _ = receive.lock().unwrap().recv_timeout(Duration::from_secs(20));
            })
            .await?;
            Ok::<_, Failure>("done")
        }
    });
    (tool, send, ran)
}

#[tokio::test]
async fn blocking_body_that_outlives_its_timeout_is_an_unknown_outcome_and_keeps_its_lock() {
    let (stuck, release, _) = blocking(write("stuck").timeout(Duration::from_millis(30)));
    let mut config = Config::default();
    config.grace = Duration::from_millis(10);
    let tools = vec![stuck, quick(write("write")), quick(read("read"))];
    let runtime = permissive(tools).config(config).build().unwrap();
    let run = runtime.run();
    let answers = run.turn().await.unwrap().run(calls("stuck write read")).await;
    assert_eq!(ends(&answers), ["c1 unknown_outcome", "c2 not_run", "c3 ok"]);
    assert_eq!(answers[0].execution(), Execution::Unknown);
    assert!(answers[1].text().contains("`stuck` was abandoned"), "{}", answers[1].text());
    // Another run is not held up: classes exclude within a run only.
    let answers = runtime.run().turn().await.unwrap().run(calls("write")).await;
    assert_eq!(ends(&answers), ["c1 ok"]);
    release.send(()).unwrap();
    for _ in 0..500 {
        let answers = run.turn().await.unwrap().run(calls("write")).await;
        if ends(&answers) == ["c1 ok"] {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the slot was never released");
}

#[tokio::test]
async fn blocking_body_that_checks_cancellation_is_awaited() {
    let tool = DynTool::new(
        write("t").timeout(Duration::from_millis(20)),
        json!({}),
        |_, cx| async move {
            cx.spawn_blocking(|cx| {
                while !cx.is_cancelled() {
                    std::thread::yield_now();
                }
            })
            .await?;
            Err::<(), _>(haft::Failure::failed("stopped early"))
        },
    );
    let runtime = permissive(vec![tool]).build().unwrap();
    let failure = runtime.call("t", json!({})).await.unwrap_err();
    assert_eq!(
        (failure.code(), failure.execution()),
        (FailureCode::TimedOut, Execution::Completed)
    );
}

#[tokio::test]
async fn queued_blocking_work_is_withdrawn_on_cancellation() {
    let (stuck, release, ran) = blocking(read("stuck").timeout(Duration::from_millis(50)));
    let mut config = Config::default();
    config.max_threads = 1;
    config.grace = Duration::from_millis(10);
    let runtime = permissive(vec![stuck]).config(config).build().unwrap();
    let answers = runtime.run().turn().await.unwrap().run(calls("stuck stuck")).await;
    assert_eq!(ends(&answers), ["c1 unknown_outcome", "c2 timed_out"]);
    release.send(()).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(ran.load(Ordering::SeqCst), 1, "the withdrawn body never started");
}

#[tokio::test(start_paused = true)]
async fn planned_turn_can_be_cancelled() {
    let runtime = permissive(vec![slow(read("a"), 50_000), slow(read("b"), 50)]).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    assert_eq!(turn.plan(calls("a b")).len(), 2);
    let control = turn.handle();
    let (answers, ()) = tokio::join!(turn.run(calls("a b")), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(control.cancel_call("c1"));
    });
    assert_eq!(ends(&answers), ["c1 cancelled", "c2 ok"]);
}

#[tokio::test(start_paused = true)]
async fn body_that_ends_after_cancellation_is_cancelled_and_not_failed() {
    let polite =
        DynTool::new(read("polite").abort_siblings(true), open_schema(), |_, cx| async move {
            cx.cancelled().await;
            Err::<(), _>(haft::Failure::failed("stopped: the call was cancelled"))
        });
    let runtime = permissive(vec![polite, slow(read("other"), 5_000)]).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let control = turn.handle();
    let (answers, ()) = tokio::join!(turn.run(calls("polite other")), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        control.cancel_call("c1");
    });
    assert_eq!(ends(&answers), ["c1 cancelled", "c2 ok"], "and it aborts no sibling");
    assert_eq!(answers[0].execution(), Execution::Completed);
}

#[tokio::test(start_paused = true)]
async fn token_requested_after_cancellation_is_already_cancelled() {
    let late = DynTool::new(read("late"), open_schema(), |_, cx| async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(cx.is_cancelled() && cx.cancellation().is_cancelled());
        cx.cancelled().await;
        "saw it"
    });
    let runtime = permissive(vec![late]).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let control = turn.handle();
    let (answers, ()) = tokio::join!(turn.run(calls("late")), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        control.cancel_call("c1");
    });
    assert_eq!(answers[0].text(), "saw it", "a completed output is returned");
}

#[tokio::test]
async fn dropping_an_open_stream_cancels_its_calls() {
    let journal = MemoryJournal::new(10);
    let runtime =
        permissive(vec![slow(read("t"), 60_000)]).journal(journal.clone()).build().unwrap();
    let mut intake = runtime.run().turn().await.unwrap().schedule();
    for call in calls("t t") {
        intake.push(call);
    }
    drop(intake);
    for _ in 0..200 {
        if settled(&journal).len() == 2 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the calls of a dropped stream go on");
}

#[tokio::test(start_paused = true)]
async fn timeout_beyond_the_clock_range_saturates() {
    let spec = read("t").timeout(Duration::MAX).deadline(Duration::MAX);
    let runtime = permissive(vec![slow(spec, 1_000)]).build().unwrap();
    assert!(runtime.call("t", json!({})).await.is_ok());
}

/// The only call of a turn is polled by its caller. A body that does not yield in its first poll is
/// still cancelled from another thread, by its id and with the turn.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "it tests a body that blocks, and a real thread")]
async fn body_that_does_not_yield_sees_a_cancellation_from_another_thread() {
    for by_id in [true, false] {
        let (started, has_started) = mpsc::channel();
        let busy = DynTool::new(read("busy"), open_schema(), move |_, cx| {
            let started = started.clone();
            async move {
                started.send(()).unwrap();
                let until = std::time::Instant::now() + Duration::from_secs(20);
                while !cx.is_cancelled() && std::time::Instant::now() < until {
                    std::thread::yield_now();
                }
                Err::<(), _>(Failure::failed("it stopped"))
            }
        });
        let runtime = permissive(vec![busy]).build().unwrap();
        let turn = runtime.run().turn().await.unwrap();
        let control = turn.handle();
        let canceller = std::thread::spawn(move || {
            has_started.recv().unwrap();
            if by_id {
                control.cancel_call("c1");
            } else {
                control.abort();
            }
        });
        assert_eq!(ends(&turn.run(calls("busy")).await), ["c1 cancelled"], "by id: {by_id}");
        canceller.join().unwrap();
    }
}
