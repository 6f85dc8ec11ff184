//! Faulty bodies, middleware, observers and models: panics, reentrancy, zero timeouts,
//! redefinition.

use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft::{
    BoxFuture, Config, Failure, FailureCode, Output, Runtime, ToolCall, ToolContext, ToolRegistry,
    events::{Event, StreamItem},
    journal::{MemoryJournal, RecordQuery},
    middleware::{CacheStatus, middleware_fn},
    policy::{AllowAll, Guard, Verdict},
    registry::ToolSource,
    tool::{Block, BoxError, Cache, DynTool, Execution, RetryHint, RetryPolicy},
    turn::ValidatedCall,
};
use serde_json::json;

use crate::{kit::*, layers::Courses};

const SECOND: Duration = Duration::from_secs(1);

fn down() -> Failure {
    Failure::failed("down").with_retry(RetryHint::Later)
}

fn twice() -> RetryPolicy {
    RetryPolicy { max_attempts: 2, jitter: false, ..RetryPolicy::default() }
}

#[tokio::test]
async fn middleware_that_changes_an_output_in_place_is_named() {
    fn shout(output: &mut Output) {
        for block in &mut output.blocks {
            match block {
                Block::Text { text } => text.make_ascii_uppercase(),
                Block::Json { json } => *json = json!({"n": 2}),
                _ => {}
            }
        }
    }
    fn restructure(output: &mut Output) {
        if let Some(data) = &mut output.structured {
            data["n"] = json!(2);
        }
    }
    fn nothing(_: &mut Output) {}
    let text = || Output::text("quiet");
    let block = || Output { blocks: vec![Block::Json { json: json!({"n": 1}) }], structured: None };
    let both =
        || Output { blocks: vec![Block::text("x")], structured: Some(Box::new(json!({"n": 1}))) };
    type Made = fn() -> Output;
    type Change = fn(&mut Output);
    for (made, change, is_named) in [
        (text as Made, shout as Change, true),
        (block, shout, true),
        (both, restructure, true),
        (text, nothing, false),
        (block, nothing, false),
        (both, nothing, false),
    ] {
        let tool = DynTool::new(read("t"), open_schema(), move |_, _| async move { made() });
        let changes = middleware_fn("changes", move |_, next| {
            Box::pin(async move {
                let mut output = next.run().await?;
                change(&mut output);
                Ok(output)
            })
        });
        let courses = Courses::default();
        let runtime =
            permissive(vec![tool]).middleware(changes).journal(courses.clone()).build().unwrap();
        runtime.call("t", json!({})).await.unwrap();
        let named = courses.all()[0].answered_by.clone();
        assert_eq!(named.as_deref(), is_named.then_some("changes"));
    }
}

#[tokio::test]
async fn model_chosen_names_and_ids_count_against_the_record_byte_limit() {
    let journal = MemoryJournal::new(1_000).max_bytes(1 << 20);
    let runtime = permissive(vec![]).journal(journal.clone()).build().unwrap();
    let long = "x".repeat(100_000);
    for n in 0..50 {
        let call = ToolCall::new(format!("{n}{long}"), format!("no_{n}{long}"), json!({}));
        runtime.run().turn().await.unwrap().run([call]).await;
    }
    let kept = journal.records();
    let bytes: usize =
        kept.iter().map(|r| r.call.as_str().len() + r.requested_name.as_str().len()).sum();
    assert!(bytes <= 1 << 20, "{bytes} bytes in {} records", kept.len());
    assert!(!kept.is_empty() && journal.bytes() <= 1 << 20);
}

#[tokio::test]
async fn panicking_or_reentrant_observers_do_not_block_or_hide_events() {
    let place: Arc<OnceLock<Runtime>> = Arc::default();
    let (looked, reported) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (back, counted, after) = (Arc::clone(&place), Arc::clone(&looked), Arc::clone(&reported));
    let runtime = permissive(vec![quick(read("t"))])
        .observer(|_: &Event| panic!("always"))
        .observer(move |_: &Event| {
            // It may call the runtime from here; no lock is held.
            if let Some(runtime) = back.get() {
                let _ = runtime.records(&RecordQuery::default());
                drop(runtime.events(1));
                let _ = runtime.run().background_tasks();
                counted.fetch_add(1, Ordering::SeqCst);
            }
        })
        .observer(move |event: &Event| {
            after.fetch_add(usize::from(event.is_terminal()), Ordering::SeqCst);
        })
        .build()
        .unwrap();
    let mut stream = runtime.events(1_000);
    place.set(runtime.clone()).unwrap();
    let answers = runtime.run().turn().await.unwrap().run(calls("t t nothing")).await;
    assert_eq!(ends(&answers), ["c1 ok", "c2 ok", "c3 unknown_tool"]);
    assert_eq!(
        reported.load(Ordering::SeqCst),
        3,
        "observers after the panicking one get all events"
    );
    let mut received = 0;
    while let Some(StreamItem::Event(_)) = stream.try_next() {
        received += 1;
    }
    assert_eq!(received, looked.load(Ordering::SeqCst));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn background_tasks_taken_concurrently_are_delivered_once() {
    let tool = DynTool::new(read("t"), open_schema(), |args, cx: ToolContext| async move {
        let text = args["x"].as_str().unwrap_or_default().to_owned();
        cx.spawn_background("working", |_| async move {
            tokio::task::yield_now().await;
            text
        })
        .await
    });
    let runtime = permissive(vec![tool]).build().unwrap();
    let run = runtime.run();
    let words: Vec<String> = (0..200).map(|n| format!("t:{n}")).collect();
    let answers = run.turn().await.unwrap().run(calls(&words.join(" "))).await;
    assert!(answers.iter().all(|answer| answer.failure().is_none()));
    let take = || async {
        let mut own = Vec::new();
        while let Some(late) = run.next_background_result().await {
            own.push(late.answer.text().into_owned());
            own.extend(
                run.take_background_results().iter().map(|late| late.answer.text().into_owned()),
            );
        }
        own
    };
    let (a, b, c) = tokio::join!(take(), take(), take());
    let mut all: Vec<u32> = [a, b, c].concat().iter().map(|text| text.parse().unwrap()).collect();
    all.sort_unstable();
    assert_eq!(all, (0..200).collect::<Vec<_>>());
    assert!(run.background_tasks().is_empty());
}

#[tokio::test(start_paused = true)]
async fn deferred_work_of_a_failed_attempt_is_dropped() {
    let begun = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&begun);
    let tool = DynTool::new(read("t").retry(twice()), open_schema(), move |_, cx: ToolContext| {
        let noted = Arc::clone(&noted);
        async move {
            let attempt = cx.attempt();
            let task = cx.spawn_background("working", move |_| async move {
                noted.lock().unwrap().push(attempt);
                format!("of attempt {attempt}")
            });
            let task = task.await?;
            if attempt == 1 { Err(down()) } else { Ok(task) }
        }
    });
    let runtime = permissive(vec![tool]).build().unwrap();
    let run = runtime.run();
    let answers = run.turn().await.unwrap().run(calls("t")).await;
    assert_eq!(ends(&answers), ["c1 ok"], "{answers:?}");
    assert_eq!(run.background_tasks().len(), 1);
    assert_eq!(run.next_background_result().await.unwrap().answer.text(), "of attempt 2");
    assert_eq!(*begun.lock().unwrap(), [2]);
}

#[tokio::test(start_paused = true)]
async fn zero_timeout_is_a_valid_timeout() {
    let tools = || vec![quick(read("quick")), slow(read("slow"), 1_000)];
    let runtime = permissive(tools()).build().unwrap();
    for name in ["quick", "slow"] {
        for (call, is_late) in [
            (ToolCall::new("c", name, json!({})).timeout(Duration::ZERO), FailureCode::TimedOut),
            (
                ToolCall::new("c", name, json!({})).deadline(Duration::ZERO),
                FailureCode::DeadlinePassed,
            ),
        ] {
            let began = tokio::time::Instant::now();
            let answers = runtime.run().turn().await.unwrap().run([call]).await;
            // A result without waiting needs no time; nothing else may run.
            let code = answers[0].failure().map(Failure::code);
            assert!(code == Some(is_late) || (name == "quick" && code.is_none()), "{answers:?}");
            assert!(began.elapsed() < SECOND);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn single_flight_follower_takes_over_when_the_leaders_turn_is_dropped() {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let spec = read("t").cache(Cache::new(SECOND * 60));
    let tool = DynTool::new(spec, open_schema(), move |_, _| {
        let n = counted.fetch_add(1, Ordering::SeqCst) + 1;
        async move {
            tokio::time::sleep(SECOND * 10).await;
            format!("run {n}")
        }
    });
    let runtime = permissive(vec![tool]).build().unwrap();
    let first = runtime.run().turn().await.unwrap();
    let second = runtime.run().turn().await.unwrap();
    let mut leads = Box::pin(first.run(calls("t")));
    let follows = async {
        tokio::time::sleep(SECOND).await;
        second.run(calls("t")).await
    };
    let mut follows = Box::pin(follows);
    tokio::select! {
        _ = &mut leads => panic!("it takes ten seconds"),
        _ = &mut follows => panic!("it waits"),
        () = tokio::time::sleep(SECOND * 5) => {}
    }
    drop(leads);
    let answers = follows.await;
    assert_eq!((ends(&answers), answers[0].text()), (vec!["c1 ok".to_owned()], "run 2".into()));
}

#[tokio::test(start_paused = true)]
async fn single_flight_panic_is_counted_once() {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let spec = read("t").cache(Cache::new(SECOND * 60));
    let tool = DynTool::new(spec, open_schema(), move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        async {
            tokio::time::sleep(SECOND).await;
            panic!("with words of its own");
            #[expect(unreachable_code, reason = "it says what would have come")]
            "never"
        }
    });
    let runtime = permissive(vec![tool]).build().unwrap();
    let answers = runtime.run().turn().await.unwrap().run(calls("t t t t t t t t")).await;
    assert!(
        answers.iter().all(|a| a.failure().unwrap().code() == FailureCode::Panicked),
        "{answers:?}"
    );
    assert!(answers.iter().all(|a| !a.text().contains("of its own")), "the model does not hear it");
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    // One body panicked, so the breaker counted one failure, and the next call may try.
    let next = runtime.run().turn().await.unwrap().run(calls("t")).await;
    assert_eq!(ends(&next), ["c1 panicked"]);
}

/// A source whose tools change.
struct Changing(Arc<Mutex<Vec<DynTool>>>);

impl ToolSource for Changing {
    fn name(&self) -> &str {
        "changing"
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<DynTool>, BoxError>> {
        let tools = self.0.lock().unwrap().clone();
        Box::pin(async move { Ok(tools) })
    }
}

#[tokio::test]
async fn redefined_tool_does_not_use_the_old_cache() {
    let says = |description: &str, text: &'static str| {
        let spec = haft::tool::ToolSpec::new("t", description)
            .read_only()
            .capabilities(haft::tool::Capabilities::NONE)
            .cache(Cache::new(SECOND * 60).within("everybody"));
        DynTool::new(spec, open_schema(), move |_, _| async move { text })
    };
    let tools = Arc::new(Mutex::new(vec![says("Says one.", "one")]));
    let registry = ToolRegistry::builder().source(Changing(Arc::clone(&tools))).build().unwrap();
    let courses = Courses::default();
    let runtime = Runtime::builder()
        .registry(registry)
        .policy(AllowAll)
        .journal(courses.clone())
        .build()
        .unwrap();
    let run = runtime.run();
    let mut texts = Vec::new();
    for _ in 0..2 {
        for _ in 0..2 {
            let turn = run.turn().await.unwrap();
            let name = turn.snapshot().entries().next().unwrap().name().to_string();
            let answers = turn.run([ToolCall::new("c", name, json!({}))]).await;
            texts.push(answers[0].text().into_owned());
        }
        *tools.lock().unwrap() = vec![says("Says two.", "two")];
    }
    assert_eq!(texts, ["one", "one", "two", "two"]);
    let uses: Vec<_> = courses.all().iter().map(|course| course.cache.unwrap()).collect();
    assert_eq!(uses, [CacheStatus::Miss, CacheStatus::Hit, CacheStatus::Miss, CacheStatus::Hit]);
}

/// A guard that can be switched to deny.
#[derive(Clone, Default)]
struct Door(Arc<AtomicBool>);

impl Guard for Door {
    fn name(&self) -> &str {
        "door"
    }

    fn decide<'a>(
        &'a self,
        _: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>> {
        let is_closed = self.0.load(Ordering::SeqCst);
        Box::pin(async move { Ok(is_closed.then(|| Verdict::deny("closed"))) })
    }
}

#[tokio::test]
async fn cached_result_needs_authorization() {
    let spec = haft::tool::ToolSpec::new("t", "Reads far away.")
        .read_only()
        .capabilities([haft::tool::Capability::Network])
        .cache(Cache::new(SECOND * 60).within("everybody"));
    let tool = quick(spec);
    let door = Door::default();
    let runtime = permissive(vec![tool]).guard(door.clone()).build().unwrap();
    assert!(runtime.call("t", json!({})).await.is_ok());
    door.0.store(true, Ordering::SeqCst);
    let refused = runtime.call("t", json!({})).await.unwrap_err();
    assert_eq!((refused.code(), refused.execution()), (FailureCode::Denied, Execution::NotStarted));
}

#[tokio::test(start_paused = true)]
async fn circuit_breaker_probe_does_not_release_waiting_calls() {
    let mut config = Config::default();
    config.breaker = Some(haft::host::Breaker { failures: 1, cooldown: SECOND * 30 });
    let (ran, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (inside, seen) = (Arc::clone(&ran), Arc::clone(&most));
    let tool = DynTool::new(read("t"), open_schema(), move |args, _| {
        let (inside, seen) = (Arc::clone(&inside), Arc::clone(&seen));
        async move {
            let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
            seen.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(SECOND).await;
            inside.fetch_sub(1, Ordering::SeqCst);
            if args["x"] == "bad" { Err(down()) } else { Ok("fine") }
        }
    });
    let runtime = permissive(vec![tool]).config(config).build().unwrap();
    let turn = async |words: &str| -> Vec<String> {
        ends(&runtime.run().turn().await.unwrap().run(calls(words)).await)
    };
    assert_eq!(turn("t:bad").await, ["c1 tool_failed"]);
    tokio::time::sleep(SECOND * 30).await;
    most.store(0, Ordering::SeqCst);
    let tried = turn("t:bad t t t t").await;
    assert_eq!(tried[0], "c1 tool_failed");
    assert!(tried[1..].iter().all(|end| end.ends_with("circuit_open")), "{tried:?}");
    assert_eq!(most.load(Ordering::SeqCst), 1, "one at a time tries");
    assert_eq!(turn("t").await, ["c1 circuit_open"], "and the cooldown begins anew");
}

/// An error whose `Display` panics.
#[derive(Debug)]
struct Trap {
    /// Whether its `source` panics too.
    early: bool,
}

impl fmt::Display for Trap {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("not to be looked at")
    }
}

impl std::error::Error for Trap {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if self.early { panic!("not to be asked") } else { None }
    }
}

/// Returns an error with the trap as its source, as `?` passes it on.
#[derive(Debug)]
struct Bait(Trap);

impl fmt::Display for Bait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("looks harmless")
    }
}

impl std::error::Error for Bait {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[tokio::test]
async fn error_whose_display_panics_is_an_ordinary_failure() {
    for early in [false, true] {
        let retry = RetryPolicy { initial_delay: Duration::from_millis(1), ..twice() };
        let passed_on =
            DynTool::new(read("t").retry(retry), open_schema(), move |_, _| async move {
                Err::<(), _>(Failure::from_error(Bait(Trap { early })))
            });
        let behind = DynTool::new(read("t"), open_schema(), move |_, _| async move {
            Err::<(), _>(Failure::failed("looks harmless").with_source(Trap { early }))
        });
        for tool in [passed_on, behind] {
            let transcript = Transcript::default();
            let runtime = permissive(vec![tool]).observer(transcript.observer()).build().unwrap();
            let answers = runtime.run().turn().await.unwrap().run(calls("t")).await;
            assert_eq!(ends(&answers), ["c1 tool_failed"]);
            assert_eq!(answers[0].failure().unwrap().message(), "looks harmless");
            assert_eq!(transcript.ends_of("c1"), 1);
            let records = runtime.records(&RecordQuery::default());
            assert_eq!(records[0].end.as_ref().unwrap().failed, Some(FailureCode::ToolFailed));
        }
    }
}

/// Panics on drop.
struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("does not let go");
        }
    }
}

/// A guard that never answers, and whose future panics when it is dropped.
struct Clings;

impl Guard for Clings {
    fn name(&self) -> &str {
        "clings"
    }

    fn decide<'a>(
        &'a self,
        _: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>> {
        Box::pin(async {
            let _clings = PanicsOnDrop;
            std::future::pending().await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn guard_that_panics_on_drop_denies_with_one_result_and_one_record() {
    let (transcript, journal) = (Transcript::default(), MemoryJournal::new(10));
    let runtime = permissive(vec![quick(read("look")), quick(write("next"))])
        .guard(Clings)
        .observer(transcript.observer())
        .journal(journal.clone())
        .build()
        .unwrap();
    // Alone, where the caller polls it, and with another, where each is a task.
    for calls_of_turn in ["look", "look next"] {
        let run = runtime.run();
        let answers = run.turn().await.unwrap().run(calls(calls_of_turn)).await;
        for answer in &answers {
            let code = answer.failure().map(Failure::code);
            assert_eq!(code, Some(FailureCode::GuardFailed), "{answer:?}");
        }
    }
    assert_eq!((transcript.ends_of("c1"), transcript.ends_of("c2")), (2, 1));
    assert_eq!(settled(&journal).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn body_that_panics_on_drop_gives_one_result_and_releases_its_permit() {
    let clinging = || {
        DynTool::new(write("clings").timeout(SECOND), open_schema(), |_, _| async move {
            let _clings = PanicsOnDrop;
            std::future::pending::<()>().await;
            "never"
        })
    };
    let transcript = Transcript::default();
    let runtime = permissive(vec![clinging(), quick(write("next"))])
        .observer(transcript.observer())
        .build()
        .unwrap();
    let run = runtime.run();
    let answers = run.turn().await.unwrap().run(calls("clings next")).await;
    assert_eq!(transcript.ends_of("c1"), 1);
    assert!(
        answers[0].failure().is_some_and(|failure| failure.execution() != Execution::NotStarted),
        "{answers:?}"
    );
    assert_eq!(ends(&answers)[1], "c2 ok", "the slot is free again");
}
