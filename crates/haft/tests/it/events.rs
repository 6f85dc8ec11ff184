//! Observability of calls: stamped events, event streams, records, spans.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use haft::{
    BoxFuture, Config, Failure, FailureCode, Runtime, ToolCall, ToolResult,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    events::{Event, EventMeta, Observer, Phase, StreamItem},
    journal::{CallIntent, CallOutcome, Journal, MemoryJournal, RecordQuery, WriteStatus},
    tool::{DynTool, Execution},
};
use serde_json::{Value, json};

use crate::kit::{calls, failing, open_schema, permissive, quick, read, slow, write};

/// Records every event with its stamp.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<(EventMeta, Event)>>>);

impl Observer for Kept {
    fn observe(&self, _: &Event) {
        panic!("an observer with stamps gets only stamped events");
    }

    fn observe_at(&self, at: &EventMeta, event: &Event) {
        self.0.lock().unwrap().push((at.clone(), event.clone()));
    }
}

async fn answered(runtime: &Runtime, text: &str) -> Vec<ToolResult> {
    runtime.run().turn().await.unwrap().run(calls(text)).await
}

fn name_of(event: &Event) -> String {
    let json = serde_json::to_value(event).unwrap();
    let phase = json.get("phase").and_then(Value::as_str).unwrap_or_default();
    format!("{} {phase}", json["event"].as_str().unwrap()).trim_end().to_owned()
}

#[tokio::test(start_paused = true)]
async fn every_event_has_a_time_and_a_call() {
    let kept = Kept::default();
    let runtime = permissive(vec![slow(read("look"), 20)]).observer(kept.clone()).build().unwrap();
    for agent in ["ada", "bob"] {
        let run = runtime.run_builder().agent("lead").agent(agent).start();
        run.turn().await.unwrap().run(calls("look")).await;
    }
    let kept = kept.0.lock().unwrap();
    let seqs: Vec<u64> = kept.iter().map(|(at, _)| at.seq).collect();
    assert_eq!(seqs, (1..=kept.len() as u64).collect::<Vec<_>>());
    assert!(kept.windows(2).all(|pair| pair[0].0.time <= pair[1].0.time));
    let ends: Vec<_> = kept.iter().filter(|(_, event)| event.is_terminal()).collect();
    let whose = |n: usize| (ends[n].0.run().to_string(), ends[n].0.source.agent_path.join("/"));
    assert_eq!(whose(0), ("run-1".to_owned(), "lead/ada".to_owned()));
    assert_eq!(whose(1), ("run-2".to_owned(), "lead/bob".to_owned()), "the same id, another run");
    assert_eq!(ends[1].0.source.cycle, 1);
    let took = kept.iter().find_map(|(_, event)| match event {
        Event::AttemptFinished { took, attempt: 1, failed: None, .. } => Some(*took),
        _ => None,
    });
    assert_eq!(took, Some(Duration::from_millis(20)), "on the runtime's clock");
}

struct Yes;

impl Approver for Yes {
    fn ask<'a>(
        &'a self,
        _: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            Ok(ApprovalResponse::allow())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn each_phase_of_a_call_has_its_event() {
    let kept = Kept::default();
    let tool = quick(write("change")).with_check(|_, _| Box::pin(async { Ok(()) }));
    let runtime = Runtime::builder()
        .registry(haft::ToolRegistry::builder().add(vec![tool]).build().unwrap())
        .approver(Yes)
        .observer(kept.clone())
        .build()
        .unwrap();
    answered(&runtime, "change").await;
    let kept = kept.0.lock().unwrap();
    let names: Vec<String> = kept.iter().map(|(_, event)| name_of(event)).collect();
    insta::assert_snapshot!(names.join("\n"), @r"
    turn_started
    planned
    started
    phase_finished check
    asked
    answered
    authorized
    running
    attempt_finished
    phase_finished sanitize
    finished
    turn_finished
    ");
    let waited = kept.iter().find_map(|(_, event)| match event {
        Event::Answered { waited, .. } => Some(*waited),
        _ => None,
    });
    assert_eq!(waited, Some(Duration::from_secs(3)));
}

#[tokio::test(start_paused = true)]
async fn event_stream_has_every_event_and_then_ends() {
    let runtime = permissive(vec![slow(read("look"), 5), failing(read("fail"))]).build().unwrap();
    let mut stream = runtime.events(100);
    answered(&runtime, "look fail nothing").await;
    drop(runtime);
    let mut ends = Vec::new();
    while let Some(reported) = stream.next().await {
        let StreamItem::Event(reported) = reported else { panic!("nothing is missed") };
        if let Event::Finished { call, failed, .. } = &reported.event {
            ends.push(format!("{call} {failed:?}"));
        }
    }
    ends.sort();
    assert_eq!(ends, ["c1 None", "c2 Some(ToolFailed)", "c3 Some(UnknownTool)"]);
}

#[tokio::test]
async fn slow_subscriber_loses_progress_events_and_keeps_terminal_events() {
    let chatty = DynTool::new(read("chatty"), open_schema(), |_, cx| async move {
        for n in 0..50 {
            cx.partial(format!("{n} "));
        }
        "done"
    });
    let mut config = Config::default();
    config.progress_every = Duration::ZERO;
    let runtime = permissive(vec![chatty]).config(config).build().unwrap();
    let mut slow = runtime.events(40);
    let mut gone = runtime.events(1);
    for _ in 0..20 {
        answered(&runtime, "chatty").await;
    }
    assert_eq!((slow.waiting(), gone.waiting()), (40, 1));
    let (mut ends, mut missed) = (0, 0);
    while let Some(reported) = slow.try_next() {
        match reported {
            StreamItem::Event(reported) => ends += u64::from(reported.event.is_terminal()),
            StreamItem::Lagged(gap) => {
                assert_eq!(gap.terminal_events, 0);
                missed += gap.progress_events;
            }
        }
    }
    assert_eq!((ends, missed), (20, 1_000));
    assert!(matches!(gone.try_next(), Some(StreamItem::Lagged(gap)) if gap.terminal_events == 19));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribers_on_other_threads_account_for_every_event() {
    let runtime = permissive(vec![quick(read("look"))]).build().unwrap();
    let readers: Vec<_> = [1, 7, 10_000]
        .into_iter()
        .map(|capacity| {
            let mut stream = runtime.events(capacity);
            let read = async move {
                let (mut next, mut calls) = (1, 0);
                while let Some(reported) = stream.next().await {
                    let (from, to) = match reported {
                        StreamItem::Event(reported) => {
                            calls += u64::from(reported.event.is_terminal());
                            (reported.at.seq, reported.at.seq)
                        }
                        StreamItem::Lagged(gap) => {
                            calls += gap.terminal_events;
                            (gap.from_seq, gap.to_seq)
                        }
                    };
                    assert_eq!(from, next);
                    next = to + 1;
                }
                calls
            };
            tokio::task::spawn_blocking(move || futures_block(read))
        })
        .collect();
    for _ in 0..200 {
        answered(&runtime, "look look look").await;
    }
    drop(runtime);
    for reader in readers {
        assert_eq!(reader.await.unwrap(), 600);
    }
}

/// Drives a future on a thread of its own.
fn futures_block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[tokio::test(start_paused = true)]
async fn records_can_be_queried_by_outcome() {
    let runtime = permissive(vec![quick(read("look")), failing(read("fail"))]).build().unwrap();
    for _ in 0..3 {
        answered(&runtime, "look:beans fail nothing").await;
    }
    let count = |query: RecordQuery| runtime.records(&query).len();
    assert_eq!(count(RecordQuery::default()), 9);
    assert_eq!(count(RecordQuery::default().limit(4)), 4);
    assert_eq!(count(RecordQuery::default().limit(0)), 0);
    assert_eq!(count(RecordQuery::default().tool("look")), 3);
    assert_eq!(count(RecordQuery::default().failed(true)), 6);
    assert_eq!(count(RecordQuery::default().code(FailureCode::UnknownTool)), 3);
    assert_eq!(count(RecordQuery::default().run("run-2")), 3);
    assert_eq!(count(RecordQuery::default().run("run-2").call("c1").failed(false)), 1);
    assert_eq!(count(RecordQuery::default().since(SystemTime::UNIX_EPOCH)), 9);
    let newest = &runtime.records(&RecordQuery::default().limit(1))[0];
    let oldest = &runtime.records(&RecordQuery::default().limit(1).oldest_first())[0];
    assert_eq!((newest.run.as_str(), oldest.run.as_str()), ("run-3", "run-1"));
    let later = newest.at + Duration::from_secs(3_600);
    assert_eq!(count(RecordQuery::default().since(later)), 0);
}

#[tokio::test(start_paused = true)]
async fn record_has_the_call_and_its_outcome() {
    let runtime = permissive(vec![slow(read("look"), 30), failing(read("fail"))]).build().unwrap();
    let run = runtime.run_builder().agent("ada").start();
    run.turn().await.unwrap().run(calls("look fail nothing")).await;
    let records = runtime.records(&RecordQuery::default().oldest_first());
    let of = |name: &str| records.iter().find(|r| r.requested_name == name).unwrap();
    let look = serde_json::to_value(of("look")).unwrap();
    let end = json!({
        "failed": null, "error": null, "cause": null, "output": "slept",
        "label": look["end"]["label"], "execution": "completed",
        "stats": {"attempts": 1, "waited_us": 0}, "elapsed_us": 30_000,
    });
    assert_eq!(look["end"], end);
    assert_eq!(look["agent_path"], json!(["ada"]));
    assert_eq!(look["intent"]["class"], "read_only");
    assert!(of("look").verdict().is_some() && of("look").policy.is_none());
    let fail = of("fail").end.as_ref().unwrap();
    assert_eq!(
        (fail.failed, fail.execution, fail.error.as_deref()),
        (Some(FailureCode::ToolFailed), Execution::Completed, Some("no luck"))
    );
    let nothing = of("nothing");
    assert_eq!(nothing.end.as_ref().unwrap().stats.attempts, 0);
    assert!(nothing.intent.is_none());
}

#[tokio::test(start_paused = true)]
async fn records_are_bounded_in_bytes_and_outputs_in_length() {
    let long = DynTool::new(read("long"), open_schema(), |_, _| async { "ä".repeat(10_000) });
    let journal = MemoryJournal::new(1_000).max_bytes(40_000).output(10);
    let runtime = permissive(vec![long]).journal(journal.clone()).build().unwrap();
    for _ in 0..100 {
        let text = format!("long:{}", "x".repeat(3_000));
        answered(&runtime, &text).await;
    }
    assert!(journal.bytes() <= 40_000);
    let records = journal.records();
    assert!((5..=13).contains(&records.len()), "{}", records.len());
    for record in &records {
        assert_eq!(record.end.as_ref().unwrap().output.as_deref(), Some("ääääääääää"));
    }
    answered(&runtime, &format!("long:{}", "x".repeat(50_000))).await;
    assert_eq!(journal.records().len(), 1, "of what is too large only the end is left");
    assert!(journal.records()[0].intent.is_none());
    assert!(journal.bytes() <= 40_000);
}

/// Writes every record to two journals.
struct Twice(MemoryJournal, MemoryJournal);

impl Journal for Twice {
    fn intend(&self, intended: &CallIntent<'_>) -> WriteStatus {
        let _ = self.0.intend(intended);
        self.1.intend(intended)
    }

    fn settle(&self, settled: &CallOutcome<'_>) -> WriteStatus {
        let _ = self.0.settle(settled);
        self.1.settle(settled)
    }
}

#[tokio::test(start_paused = true)]
async fn two_journals_each_find_their_intents() {
    let (one, two) = (MemoryJournal::new(10), MemoryJournal::new(10));
    let twice = Twice(one.clone(), two.clone());
    let runtime = permissive(vec![quick(read("look"))]).journal(twice).build().unwrap();
    for _ in 0..3 {
        answered(&runtime, "look look").await;
    }
    for journal in [one, two] {
        let records = journal.records();
        assert_eq!(records.len(), 6);
        assert!(records.iter().all(|r| r.intent.is_some() && r.succeeded()));
    }
    assert!(runtime.records(&RecordQuery::default()).is_empty(), "this one cannot be asked");
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_parallel_calls_find_their_records_in_constant_time() {
    let mut config = Config::default();
    (config.max_concurrency, config.max_records) = (20_000, 20_000);
    let runtime = permissive(vec![slow(read("look"), 10)]).config(config).build().unwrap();
    let many: Vec<ToolCall> =
        (0..10_000).map(|n| ToolCall::new(format!("c{n}"), "look", json!({}))).collect();
    let answers = runtime.run().turn().await.unwrap().run(many).await;
    assert_eq!(answers.len(), 10_000);
    let records = runtime.records(&RecordQuery::default().limit(usize::MAX));
    assert_eq!(records.len(), 10_000);
    assert!(records.iter().all(|r| r.intent.is_some() && r.succeeded()));
}

#[tokio::test(start_paused = true)]
async fn queue_time_is_in_the_record_and_not_in_the_attempt() {
    let kept = Kept::default();
    let runtime = permissive(vec![slow(write("change").concurrency(1), 100)])
        .observer(kept.clone())
        .build()
        .unwrap();
    let (one, two) = tokio::join!(answered(&runtime, "change"), answered(&runtime, "change"));
    assert!(!one[0].is_error() && !two[0].is_error());
    let mut waits: Vec<Duration> = runtime
        .records(&RecordQuery::default())
        .iter()
        .map(|r| r.end.as_ref().unwrap().stats.waited)
        .collect();
    waits.sort();
    assert_eq!(waits, [Duration::ZERO, Duration::from_millis(100)]);
    let kept = kept.0.lock().unwrap();
    for (_, event) in &*kept {
        if let Event::AttemptFinished { took, .. } = event {
            assert_eq!(*took, Duration::from_millis(100));
        }
    }
    let gates = kept
        .iter()
        .filter(|(_, e)| matches!(e, Event::PhaseFinished { phase: Phase::WaitForLock, .. }));
    assert!(gates.count() >= 1, "a wait has its end");
}

/// Returns the places in some JSON where a time is written as a fraction of a second.
fn odd_times(data: &serde_json::Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = vec![data];
    while let Some(value) = rest.pop() {
        if let Some(map) = value.as_object() {
            if map.contains_key("secs") || map.contains_key("nanos") {
                found.push(data.to_string());
            }
            rest.extend(map.values());
        }
        rest.extend(value.as_array().into_iter().flatten());
    }
    found
}

#[tokio::test(start_paused = true)]
async fn all_times_in_events_and_records_are_whole_microseconds() {
    let second = Duration::from_secs(1);
    let retry = haft::tool::RetryPolicy { jitter: false, ..haft::tool::RetryPolicy::default() };
    let down = || Failure::failed("down").with_retry(haft::tool::RetryHint::Later);
    let flaky = DynTool::new(
        read("flaky").retry(retry).rate(haft::tool::Rate::parse("1/second").unwrap()),
        open_schema(),
        move |_, _| async move { Err::<(), _>(down()) },
    );
    let kept = slow(read("kept").cache(haft::tool::Cache::new(second)), 1_500);
    let late = DynTool::new(read("late"), open_schema(), |_, cx| async move {
        cx.spawn_background("working", |_| async { "done" }).await
    });
    let mut config = Config::default();
    config.breaker = Some(haft::host::Breaker { failures: 1, cooldown: second * 30 });
    let events = Kept::default();
    let runtime = permissive(vec![flaky, kept, late, quick(write("alone"))])
        .config(config)
        .observer(events.clone())
        .build()
        .unwrap();
    let run = runtime.run();
    for words in ["flaky", "kept kept alone", "late"] {
        run.turn().await.unwrap().run(calls(words)).await;
    }
    run.next_background_result().await.unwrap();
    let reported: Vec<serde_json::Value> = {
        let events = events.0.lock().unwrap();
        events.iter().map(|(_, event)| serde_json::to_value(event).unwrap()).collect()
    };
    assert_eq!(reported.iter().flat_map(odd_times).collect::<Vec<_>>(), Vec::<String>::new());
    let of = |name: &str, field: &str| -> Vec<u64> {
        let all = reported.iter().filter(|event| event["event"] == name);
        all.map(|event| event[field].as_u64().unwrap_or_else(|| panic!("{event}"))).collect()
    };
    assert_eq!(of("retrying", "wait_us"), [1_000_000, 2_000_000]);
    assert_eq!(of("circuit_opened", "cooldown_us"), [30_000_000]);
    assert_eq!(of("task_finished", "elapsed_us"), [0]);
    let mut waits: Vec<_> = reported
        .iter()
        .filter(|event| event["event"] == "waited")
        .map(|event| (event["what"].as_str().unwrap(), event["time_us"].as_u64().unwrap()))
        .collect();
    waits.sort_unstable();
    assert_eq!(waits, [("backoff", 1_000_000), ("backoff", 2_000_000), ("in_flight", 1_500_000)]);
    let records = runtime.records(&haft::journal::RecordQuery::default());
    let records = serde_json::to_value(records).unwrap();
    assert_eq!(odd_times(&records), Vec::<String>::new());
    let waited = records.as_array().unwrap().iter().map(|r| r["end"]["stats"]["waited_us"].clone());
    assert!(waited.clone().all(|us| us.is_u64()) && waited.clone().any(|us| us == 3_000_000));
}

#[tokio::test]
async fn keyed_output_counts_against_the_subscriber_byte_limit() {
    let chatty = DynTool::new(read("chatty"), open_schema(), |_, cx| async move {
        for n in 0..64 {
            cx.partial_of(format!("job {n}"), "x".repeat(64 << 10));
        }
        "done"
    });
    let runtime = permissive(vec![chatty]).build().unwrap();
    let mut stream = runtime.events(10_000);
    answered(&runtime, "chatty").await;
    drop(runtime);
    let (mut bytes, mut missed) = (0, 0);
    while let Some(reported) = stream.next().await {
        match reported {
            StreamItem::Event(reported) => {
                if let Event::Progress { note: haft::tool::Progress::Keyed(_, text), .. } =
                    &reported.event
                {
                    bytes += text.len();
                }
            }
            StreamItem::Lagged(gap) => missed += gap.progress_events,
        }
    }
    assert!(bytes <= 1 << 20, "{bytes} bytes of notes were kept");
    assert!(bytes > 0 && missed > 0);
}
