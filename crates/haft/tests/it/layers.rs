//! Layers: each works from the attribute alone, all run in one order, and a call's own timeouts
//! win.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft::{
    BoxFuture, Config, Failure, FailureCode, Runtime, RuntimeBuilder, ToolCall, ToolContext,
    ToolRegistry,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    events::Event,
    host::{Breaker, Clock, HostContext},
    journal::{CallIntent, CallOutcome, Journal, WriteStatus},
    middleware::{ExecutionStats, Middleware, Next, Outcome},
    testing::ManualClock,
    tool,
    tool::{Backoff, Cache, DynTool, Execution, Rate, RetryHint, RetryPolicy, ToolSpec},
    turn::AuthorizedCall,
};
use proptest::prelude::*;
use serde_json::json;

use crate::kit::*;

const SECOND: Duration = Duration::from_secs(1);

/// A journal that keeps only the layer records.
#[derive(Clone, Default)]
pub(crate) struct Courses(Arc<Mutex<Vec<ExecutionStats>>>);

impl Courses {
    pub(crate) fn all(&self) -> Vec<ExecutionStats> {
        self.0.lock().unwrap().clone()
    }
}

impl Journal for Courses {
    fn intend(&self, _: &CallIntent<'_>) -> WriteStatus {
        WriteStatus::Now(Ok(()))
    }

    fn settle(&self, settled: &CallOutcome<'_>) -> WriteStatus {
        self.0.lock().unwrap().push(settled.stats.clone());
        WriteStatus::Now(Ok(()))
    }
}

/// A tool that fails this often with a given failure, and then returns its attempt number.
fn flaky(
    spec: ToolSpec,
    times: usize,
    fail: impl Fn() -> Failure + Send + Sync + 'static,
) -> (DynTool, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let tool = DynTool::new(spec, open_schema(), move |_, cx| {
        let n = counted.fetch_add(1, Ordering::SeqCst);
        let end = if n < times { Err(fail()) } else { Ok(format!("attempt {}", cx.attempt())) };
        async move { end }
    });
    (tool, ran)
}

fn down() -> Failure {
    Failure::failed("the service is down").with_retry(RetryHint::Later)
}

fn evenly(max_attempts: u32) -> RetryPolicy {
    RetryPolicy { max_attempts, backoff: Backoff::Fixed, jitter: false, ..RetryPolicy::default() }
}

/// Runs calls of one turn and returns how they end and how long they took.
async fn timed(runtime: &Runtime, list: Vec<ToolCall>) -> (Vec<String>, Duration) {
    let began = tokio::time::Instant::now();
    let answers = runtime.run().turn().await.unwrap().run(list).await;
    (ends(&answers), began.elapsed())
}

/// Looks at the weather.
#[tool(read_only, capabilities(), rate = "2/second")]
async fn look() -> &'static str {
    "fine"
}

#[tokio::test(start_paused = true)]
async fn rate_limit_from_the_attribute_holds_across_runs() {
    let registry = ToolRegistry::builder().add(LookTool).build().unwrap();
    let runtime = Runtime::builder().registry(registry).build().unwrap();
    let (ends, took) = timed(&runtime, calls("look look look look")).await;
    assert_eq!(ends, ["c1 ok", "c2 ok", "c3 ok", "c4 ok"]);
    assert_eq!(took, SECOND, "two at once, then one each half second");
    let (_, took) = timed(&runtime, calls("look")).await;
    assert_eq!(took, SECOND / 2, "another run shares the rate limit");
}

static LOOKED_UP: AtomicUsize = AtomicUsize::new(0);

/// Looks a word up.
#[tool(read_only, capabilities(), cache = "5m")]
async fn look_up(word: String, #[default(1)] page: u32) -> String {
    format!("{word} {page}: {}", LOOKED_UP.fetch_add(1, Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn cache_from_the_attribute_normalizes_defaults_and_key_order() {
    let registry = ToolRegistry::builder().add(LookUpTool).build().unwrap();
    let runtime = Runtime::builder().registry(registry).build().unwrap();
    let first = runtime.call("look_up", json!({"word": "a"})).await.unwrap();
    let again = runtime.call("look_up", r#"{"page": 1, "word": "a"}"#).await.unwrap();
    assert_eq!(first, again);
    let other = runtime.call("look_up", json!({"word": "a", "page": 2})).await.unwrap();
    assert_ne!(first, other);
    tokio::time::sleep(SECOND * 300).await;
    assert_ne!(runtime.call("look_up", json!({"word": "a"})).await.unwrap(), first, "too old");
}

static TRIED: AtomicUsize = AtomicUsize::new(0);

/// Asks a service that is not always there.
#[tool(
    read_only,
    capabilities(),
    retry(max_attempts = 3, backoff = "linear", initial_delay = "2s", jitter = false)
)]
async fn ask(cx: &ToolContext) -> Result<String, std::io::Error> {
    match TRIED.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => Err(std::io::Error::other("not there")),
        _ => Ok(format!("attempt {} as {}", cx.attempt(), cx.idempotency_key())),
    }
}

#[tokio::test(start_paused = true)]
async fn retry_from_the_attribute_works() {
    let registry = ToolRegistry::builder().add(AskTool).build().unwrap();
    let runtime = Runtime::builder().registry(registry).build().unwrap();
    let began = tokio::time::Instant::now();
    let output = runtime.call("ask", json!({})).await.unwrap();
    assert_eq!(output.to_text(), "attempt 3 as run-1/1/0/call");
    assert_eq!(began.elapsed(), SECOND * 6, "two seconds, then four");
}

/// Takes its time.
#[tool(read_only, capabilities(), timeout = "50ms")]
async fn dawdle() -> &'static str {
    tokio::time::sleep(SECOND).await;
    "done"
}

#[tokio::test(start_paused = true)]
async fn timeout_from_the_attribute_works_and_a_call_timeout_overrides_it() {
    let registry = ToolRegistry::builder().add(DawdleTool).build().unwrap();
    let runtime = Runtime::builder().registry(registry).build().unwrap();
    let call = || ToolCall::new("c1", "dawdle", json!({}));
    let (ends, took) = timed(&runtime, vec![call()]).await;
    assert_eq!(ends, ["c1 timed_out"]);
    assert!(took < SECOND / 2);
    let (ends, _) = timed(&runtime, vec![call().timeout(SECOND * 5)]).await;
    assert_eq!(ends, ["c1 ok"]);
}

#[tokio::test(start_paused = true)]
async fn attempt_timeout_precedence_is_call_tool_runtime() {
    let mut config = Config::default();
    config.timeout = SECOND * 30;
    config.grace = Duration::from_millis(1);
    let tools = vec![slow(read("own").timeout(SECOND * 20), 90_000), slow(read("silent"), 90_000)];
    let runtime = permissive(tools).config(config).build().unwrap();
    let took = |call: ToolCall| timed(&runtime, vec![call]);
    assert_eq!(took(ToolCall::new("c", "silent", json!({}))).await.1.as_secs(), 30);
    assert_eq!(took(ToolCall::new("c", "own", json!({}))).await.1.as_secs(), 20);
    assert_eq!(
        took(ToolCall::new("c", "own", json!({})).timeout(SECOND * 10)).await.1.as_secs(),
        10
    );
    assert_eq!(
        took(ToolCall::new("c", "own", json!({})).timeout(SECOND * 40)).await.1.as_secs(),
        40
    );
}

#[tokio::test(start_paused = true)]
async fn deadline_precedence_is_call_tool_runtime_and_the_body_sees_it() {
    let mut config = Config::default();
    config.deadline = SECOND * 30;
    let make = |spec| {
        DynTool::new(spec, json!({}), |_, cx| async move {
            format!("{}", cx.time_left().unwrap_or_default().as_secs())
        })
    };
    let tools = vec![make(read("own").deadline(SECOND * 20)), make(read("silent"))];
    let runtime = permissive(tools).config(config).build().unwrap();
    let left = async |call: ToolCall| {
        runtime.run().turn().await.unwrap().run([call]).await[0].text().to_string()
    };
    assert_eq!(left(ToolCall::new("c", "silent", json!({}))).await, "30");
    assert_eq!(left(ToolCall::new("c", "own", json!({}))).await, "20");
    assert_eq!(left(ToolCall::new("c", "own", json!({})).deadline(SECOND * 50)).await, "50");
}

/// An approver that never answers.
struct Silent;

impl Approver for Silent {
    fn ask<'a>(
        &'a self,
        _: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(std::future::pending())
    }
}

/// Is asked about.
#[tool(class = "write_exclusive", approval_timeout = "20s")]
async fn asked_about() -> &'static str {
    "done"
}

#[tokio::test(start_paused = true)]
async fn approval_timeout_precedence_is_call_tool_runtime() {
    let mut config = Config::default();
    config.approval_timeout = SECOND * 30;
    let registry =
        ToolRegistry::builder().add(AskedAboutTool).add(quick(write("silent"))).build().unwrap();
    let runtime =
        Runtime::builder().registry(registry).config(config).approver(Silent).build().unwrap();
    for (call, expected) in [
        (ToolCall::new("c", "silent", json!({})), 30),
        (ToolCall::new("c", "asked_about", json!({})), 20),
        (ToolCall::new("c", "asked_about", json!({})).approval_timeout(SECOND * 40), 40),
    ] {
        let (ends, took) = timed(&runtime, vec![call]).await;
        assert_eq!((ends[0].as_str(), took.as_secs()), ("c approval_expired", expected));
    }
}

#[tokio::test(start_paused = true)]
async fn retry_precedence_is_call_tool_runtime() {
    let mut config = Config::default();
    (config.retry, config.breaker) = (Some(evenly(2)), None);
    let (own, own_ran) = flaky(read("own").retry(evenly(3)), 99, down);
    let (silent, silent_ran) = flaky(read("silent"), 99, down);
    let runtime = permissive(vec![own, silent]).config(config).build().unwrap();
    let _ = timed(&runtime, calls("own silent")).await;
    let ran = || (own_ran.swap(0, Ordering::SeqCst), silent_ran.swap(0, Ordering::SeqCst));
    assert_eq!(ran(), (3, 2));
    let once = calls("own silent").into_iter().map(|call| call.retry(evenly(1))).collect();
    let _ = timed(&runtime, once).await;
    assert_eq!(ran(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn attempt_with_possible_side_effects_is_not_retried() {
    let late = || Failure::new(FailureCode::TimedOut, "too slow");
    let unknown = || down().with_execution(Execution::Unknown);
    let not_begun = || down().with_execution(Execution::NotStarted);
    let wrong = || Failure::invalid("no such city");
    for (spec, fail, expected) in [
        (write("t"), late as fn() -> Failure, 1),
        (write("t"), down, 1),
        (write("t").idempotent(true), down, 3),
        (write("t"), not_begun, 3),
        (read("t"), late, 3),
        (read("t"), || Failure::failed("no word about it"), 3),
        (read("t"), || Failure::failed("other words").with_retry(RetryHint::Fix), 1),
        (read("t"), unknown, 1),
        (read("t"), wrong, 1),
    ] {
        let (tool, ran) = flaky(spec.retry(evenly(3)), 99, fail);
        let runtime = permissive(vec![tool]).build().unwrap();
        let failure = runtime.call("t", json!({})).await.unwrap_err();
        assert_eq!(ran.load(Ordering::SeqCst), expected, "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn timed_out_attempt_is_stopped_before_the_next_starts() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let spec = read("t").timeout(SECOND).retry(evenly(3));
    let tool = DynTool::new(spec, open_schema(), move |args, cx| {
        let notes = Arc::clone(&notes);
        async move {
            let note = (cx.attempt(), cx.is_cancelled(), cx.idempotency_key(), args.to_string());
            notes.lock().unwrap().push(note);
            cx.partial(format!("part {}", cx.attempt()));
            if cx.attempt() < 3 {
                cx.cancelled().await;
                return Err(Failure::failed("cancelled"));
            }
            Ok(cx.partial_so_far())
        }
    });
    let runtime = permissive(vec![tool]).build().unwrap();
    let answers = runtime.run().turn().await.unwrap().run(calls("t:a")).await;
    assert_eq!(answers[0].text(), "part 3", "output of the other attempts is not in it");
    let note = |n| (n, false, "run-1/1/0/c1".to_owned(), r#"{"x":"a"}"#.to_owned());
    assert_eq!(*seen.lock().unwrap(), [note(1), note(2), note(3)]);
}

#[tokio::test(start_paused = true)]
async fn cancelled_call_stops_its_backoff_and_its_current_attempt() {
    let (waiting, ran) =
        flaky(read("t").retry(RetryPolicy { initial_delay: SECOND * 50, ..evenly(3) }), 99, down);
    let stuck = DynTool::new(read("stuck").retry(evenly(3)), json!({}), |_, cx| async move {
        cx.cancelled().await;
        Err::<(), _>(Failure::failed("saw it"))
    });
    let runtime = permissive(vec![waiting, stuck]).build().unwrap();
    for name in ["t", "stuck"] {
        let turn = runtime.run().turn().await.unwrap();
        let control = turn.handle();
        let began = tokio::time::Instant::now();
        let (answers, ()) = tokio::join!(turn.run(calls(name)), async {
            tokio::time::sleep(SECOND * 5).await;
            control.abort();
        });
        assert_eq!(ends(&answers), ["c1 cancelled"]);
        assert_eq!((began.elapsed().as_secs(), answers[0].execution()), (5, Execution::Completed));
    }
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honored_up_to_its_limit_and_the_deadline() {
    let busy = |secs| move || down().with_retry_after(SECOND * secs);
    for (secs, deadline, expected) in [(7, 600, (7, 2)), (9_999, 600, (300, 2)), (50, 40, (0, 1))] {
        let spec = read("t").retry(evenly(2)).deadline(SECOND * deadline);
        let (tool, ran) = flaky(spec, 1, busy(secs));
        let courses = Courses::default();
        let runtime = permissive(vec![tool]).journal(courses.clone()).build().unwrap();
        let (ends, took) = timed(&runtime, calls("t")).await;
        assert_eq!((took.as_secs(), ran.load(Ordering::SeqCst)), expected, "{ends:?}");
        assert_eq!(ends[0] == "c1 ok", expected.1 == 2);
        let course = courses.all()[0].clone();
        assert_eq!((course.waited.as_secs(), course.attempts as usize), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn backoff_has_jitter_that_a_seed_reproduces() {
    let took = async |seed: u64| {
        let retry = RetryPolicy { max_attempts: 4, ..RetryPolicy::default() };
        let (tool, _) = flaky(read("t").retry(retry), 3, down);
        let runtime = permissive(vec![tool]).seed(seed).build().unwrap();
        timed(&runtime, calls("t")).await.1
    };
    let (one, again, other) = (took(1).await, took(1).await, took(2).await);
    assert_eq!(one, again);
    assert_ne!(one, other);
    for took in [one, other] {
        assert!((3.5..=10.6).contains(&took.as_secs_f64()), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn rate_limit_wait_beyond_the_deadline_is_refused_at_no_cost() {
    let rate = Rate::parse("1/minute").unwrap();
    let tool = quick(read("t").rate(rate).deadline(SECOND * 90));
    let mut config = Config::default();
    config.rate = Some(Rate::parse("5/second").unwrap());
    let runtime = permissive(vec![tool, quick(read("other"))]).config(config).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let answers = turn.run(calls("t t t t other other other")).await;
    assert_eq!(
        ends(&answers),
        ["c1 ok", "c2 ok", "c3 rate_limited", "c4 rate_limited", "c5 ok", "c6 ok", "c7 ok"]
    );
    let failure = answers[2].failure().unwrap();
    assert_eq!(
        (failure.execution(), failure.retry_after()),
        (Execution::NotStarted, Some(SECOND * 120))
    );
    assert_eq!(
        failure.model_text(),
        "rate_limited: `t` may be called once per minute; this call would have to wait 2 minutes, \
         longer than its deadline allows, so the tool was not run\nNext: call it again in 2 minutes"
    );
}

#[tokio::test(start_paused = true)]
async fn circuit_breaker_opens_and_then_probes_once() {
    let (tool, ran) = flaky(read("t"), 6, down);
    let opened = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&opened);
    let observer = move |event: &Event| {
        if matches!(event, Event::CircuitOpened { .. }) {
            seen.fetch_add(1, Ordering::SeqCst);
        }
    };
    let runtime = permissive(vec![tool]).observer(observer).build().unwrap();
    let code = async || runtime.call("t", json!({})).await.err().map(|failure| failure.code());
    for _ in 0..5 {
        assert_eq!(code().await, Some(FailureCode::ToolFailed));
    }
    let refused = runtime.call("t", json!({})).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.execution()),
        (FailureCode::CircuitOpen, Execution::NotStarted)
    );
    assert_eq!(refused.retry_after(), Some(SECOND * 30));
    tokio::time::sleep(SECOND * 30).await;
    assert_eq!(code().await, Some(FailureCode::ToolFailed), "tried, and still down");
    assert_eq!(code().await, Some(FailureCode::CircuitOpen));
    tokio::time::sleep(SECOND * 30).await;
    assert_eq!((code().await, code().await), (None, None), "it works again");
    assert_eq!((ran.load(Ordering::SeqCst), opened.load(Ordering::SeqCst)), (8, 2));
}

#[tokio::test(start_paused = true)]
async fn invalid_calls_do_not_open_the_circuit_and_the_breaker_can_be_off() {
    let (wrong, _) = flaky(read("wrong"), 99, || Failure::failed("no such file"));
    let (bad, _) = flaky(read("bad"), 99, down);
    let mut config = Config::default();
    let tools = |wrong| permissive(vec![wrong]);
    let runtime = tools(wrong).config(config.clone()).build().unwrap();
    config.breaker = None;
    let none = tools(bad).config(config).build().unwrap();
    for _ in 0..20 {
        assert_eq!(
            runtime.call("wrong", json!({})).await.unwrap_err().code(),
            FailureCode::ToolFailed
        );
        assert_eq!(none.call("bad", json!({})).await.unwrap_err().code(), FailureCode::ToolFailed);
    }
}

/// Records when it is entered and left.
struct Notes(Arc<Mutex<Vec<String>>>);

impl Middleware for Notes {
    fn name(&self) -> &str {
        "notes"
    }

    fn call<'a>(&'a self, call: &'a AuthorizedCall, next: Next<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let id = call.validated().context().call_id();
            self.0.lock().unwrap().push(format!("{id} middleware"));
            next.run().await
        })
    }
}

/// A runtime with every layer, and the list that all of them write to.
fn everything(clock: &ManualClock) -> (RuntimeBuilder, Arc<Mutex<Vec<String>>>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let spec = read("t")
        .cache(Cache::new(SECOND * 60))
        .retry(RetryPolicy { initial_delay: SECOND / 2, ..evenly(2) })
        .rate(Rate::parse("1/second").unwrap())
        .timeout(SECOND * 3);
    let (body, ticking) = (Arc::clone(&lines), clock.clone());
    let tool = DynTool::new(spec, open_schema(), move |args, cx| {
        let (body, clock) = (Arc::clone(&body), ticking.clone());
        async move {
            body.lock().unwrap().push(format!("{} body, attempt {}", cx.call_id(), cx.attempt()));
            match args["x"].as_str() {
                Some("hang") => {
                    clock.sleep_until(clock.now() + SECOND * 99).await;
                    Ok("never")
                }
                Some("flaky") if cx.attempt() == 1 => Err(down()),
                _ => Ok("fine"),
            }
        }
    });
    let reported = Arc::clone(&lines);
    let observer = move |event: &Event| {
        reported.lock().unwrap().push(match event {
            Event::Cached { call, how } => format!("{call} cache {how:?}"),
            Event::Waited { call, what, time } => format!("{call} waited {time:?} ({what:?})"),
            Event::Retrying { call, attempt, failed, wait } => {
                format!("{call} retry: {failed}, attempt {attempt} in {wait:?}")
            }
            Event::CircuitOpened { tool, failures, .. } => format!("{tool} open after {failures}"),
            Event::Running { call } => format!("{call} running"),
            Event::Finished { call, failed, .. } => {
                format!("{call} {}", failed.map_or("ok", |code| code.as_str()))
            }
            _ => return,
        });
    };
    let mut config = Config::default();
    config.breaker = Some(Breaker { failures: 1, cooldown: SECOND * 30 });
    let builder = permissive(vec![tool]).config(config).clock(clock.clone());
    (builder.middleware(Notes(Arc::clone(&lines))).observer(observer), lines)
}

#[tokio::test]
async fn layers_run_in_one_fixed_order() {
    let clock = ManualClock::new();
    let (builder, lines) = everything(&clock);
    let runtime = builder.build().unwrap();
    for (id, x) in
        [("miss", "a"), ("hit", "a"), ("again", "flaky"), ("late", "hang"), ("open", "b")]
    {
        let call = ToolCall::new(id, "t", json!({"x": x}));
        let turn = runtime.run().turn().await.unwrap();
        let mut walk = Box::pin(turn.run([call]));
        // Everything waits only for the clock, so it is advanced whenever no task can run.
        loop {
            tokio::select! {
                biased;
                _ = &mut walk => break,
                () = tokio::task::yield_now() => {}
            }
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            clock.advance(clock.until_next().unwrap_or_default());
        }
        lines.lock().unwrap().push(String::new());
    }
    insta::assert_snapshot!(lines.lock().unwrap().join("\n"), @r"
    miss middleware
    miss cache Miss
    miss running
    miss body, attempt 1
    miss ok

    hit middleware
    hit cache Hit
    hit ok

    again middleware
    again cache Miss
    again waited 1s (Rate)
    again running
    again body, attempt 1
    again retry: tool_failed, attempt 2 in 500ms
    again waited 500ms (Backoff)
    again waited 500ms (Rate)
    again body, attempt 2
    again ok

    late middleware
    late cache Miss
    late waited 1s (Rate)
    late running
    late body, attempt 1
    late retry: timed_out, attempt 2 in 500ms
    late waited 500ms (Backoff)
    late body, attempt 2
    t open after 1
    late timed_out

    open middleware
    open cache Miss
    open circuit_open
    ");
}

#[tokio::test(start_paused = true)]
async fn attempt_with_a_nested_call_is_not_retried_as_harmless() {
    let wrote = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&wrote);
    let inner = DynTool::new(write("inner"), open_schema(), move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { "written" }
    });
    // It writes, and then forwards the failure of a call that never started.
    let outer = DynTool::new(write("outer").retry(evenly(3)), open_schema(), |_, cx| async move {
        cx.call("inner", json!({})).await?;
        Err::<String, _>(down().with_execution(Execution::NotStarted))
    });
    let runtime = permissive(vec![inner, outer]).build().unwrap();
    let failure = runtime.call("outer", json!({})).await.unwrap_err();
    assert_eq!((failure.execution(), wrote.load(Ordering::SeqCst)), (Execution::Completed, 1));
}

#[tokio::test(start_paused = true)]
async fn background_task_is_not_cached() {
    let spec = read("late").cache(Cache::new(SECOND * 60));
    let late = DynTool::new(spec, open_schema(), |_, cx| async move {
        cx.spawn_background("working", |_| async { "done" }).await
    });
    let runtime = permissive(vec![late]).build().unwrap();
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let run = runtime.run();
        let answer = run.turn().await.unwrap().run(calls("late")).await.pop().unwrap();
        tasks.push(answer.text().into_owned());
        assert_eq!(run.background_tasks().len(), 1, "each run has its own");
    }
    assert_ne!(tasks[0], tasks[1]);
}

#[tokio::test(start_paused = true)]
async fn host_refusal_inside_a_body_does_not_make_it_retryable() {
    let wrote = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&wrote);
    let mut config = Config::default();
    config.max_background = 1;
    // It changes something first, and is then refused a task for the rest.
    let tool = DynTool::new(write("t").retry(evenly(3)), open_schema(), move |_, cx| {
        let n = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            cx.spawn_background(format!("part {n}"), |_| std::future::pending::<Outcome>()).await
        }
    });
    let runtime = permissive(vec![tool]).config(config).build().unwrap();
    let run = runtime.run();
    let first = run.turn().await.unwrap().run(calls("t")).await;
    assert_eq!(ends(&first), ["c1 ok"]);
    let second = run.turn().await.unwrap().run(calls("t")).await;
    assert_eq!(ends(&second), ["c1 not_run"]);
    assert_eq!(
        (second[0].execution(), wrote.load(Ordering::SeqCst)),
        (Execution::Completed, 2),
        "not tried again"
    );
}

#[tokio::test]
async fn timeout_before_a_retry_still_reports_the_earlier_attempt() {
    let clock = ManualClock::new();
    let spec = read("t")
        .retry(RetryPolicy { initial_delay: SECOND, ..evenly(3) })
        .rate(Rate::parse("1/minute").unwrap())
        .deadline(SECOND * 500);
    let (tool, ran) = flaky(spec, 99, down);
    let runtime = permissive(vec![tool]).clock(clock.clone()).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let mut walk = Box::pin(turn.run(calls("t:a t:b")));
    // Both wait for their next attempt when the clock jumps past their deadline.
    for jump in [SECOND, SECOND * 9_000] {
        for _ in 0..50 {
            tokio::select! {
                biased;
                _ = &mut walk => panic!("it waits"),
                () = tokio::task::yield_now() => {}
            }
        }
        clock.advance(jump);
    }
    let answers = walk.await;
    let late: Vec<_> = answers.iter().filter_map(|answer| answer.failure()).collect();
    let began = ran.load(Ordering::SeqCst);
    assert!(
        late.iter().any(|failure| failure.code() == FailureCode::DeadlinePassed),
        "{late:?} {began}"
    );
    for (failure, answer) in late.iter().zip(&answers) {
        let says_nothing_ran = failure.message().contains("the tool was not run");
        assert_eq!(
            says_nothing_ran,
            answer.execution() == Execution::NotStarted,
            "{failure} {:?}",
            answer.execution()
        );
    }
}

#[tokio::test]
async fn cache_is_listed_with_its_scope() {
    let cache = || Cache::new(SECOND * 60);
    let tools = [
        (read("all").cache(cache()), "for one user"),
        (
            read("side").cache(cache()).need(haft::tool::Dependency::run_state::<u8>()),
            "for one run",
        ),
        (read("named").cache(cache().within("session")), "for one session"),
        (read("word").cache(cache().within("rates")), "for all, as `rates`"),
        (
            read("both")
                .cache(cache().within("user"))
                .need(haft::tool::Dependency::run_state::<u8>()),
            "for one user",
        ),
    ];
    let list = tools.iter().map(|(spec, _)| quick(spec.clone())).collect();
    let runtime = permissive(list).build().unwrap();
    for (spec, who) in tools {
        let entry = runtime.registry().own().find(|e| *e.name() == *spec.name).unwrap();
        let listed = runtime.layers_of(entry);
        assert_eq!(listed[0], format!("cache: 1 minute, {who}"), "{}", spec.name);
    }
}

#[tokio::test(start_paused = true)]
async fn io_error_from_the_question_mark_operator_opens_the_circuit() {
    let refused = || Failure::from(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
    let missing = || Failure::from(std::io::Error::from(std::io::ErrorKind::NotFound));
    for (fail, expected) in
        [(refused as fn() -> Failure, FailureCode::CircuitOpen), (missing, FailureCode::ToolFailed)]
    {
        let (tool, _) = flaky(read("t"), 99, fail);
        let runtime = permissive(vec![tool]).build().unwrap();
        for _ in 0..5 {
            assert_eq!(
                runtime.call("t", json!({})).await.unwrap_err().code(),
                FailureCode::ToolFailed
            );
        }
        assert_eq!(runtime.call("t", json!({})).await.unwrap_err().code(), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_attempt_starts_at_or_after_the_deadline(
        attempts in 1u32..12,
        kind in 0usize..3,
        first in 1u64..20_000,
        asks in prop::option::of(0u64..40_000),
        rate in prop::option::of(1u32..4),
        deadline in 1u64..60_000,
        seed in any::<u64>(),
    ) {
        let backoff = [Backoff::Fixed, Backoff::Linear, Backoff::Exponential][kind];
        let retries = RetryPolicy {
            max_attempts: attempts,
            backoff,
            initial_delay: Duration::from_millis(first),
            ..RetryPolicy::default()
        };
        let deadline = Duration::from_millis(deadline);
        let mut spec = read("t").retry(retries).deadline(deadline);
        if let Some(count) = rate {
            spec = spec.rate(Rate { count, per: haft::tool::Window::Second });
        }
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (began, took, code) = tokio.block_on(async {
            let start = tokio::time::Instant::now();
            let began = Arc::new(Mutex::new(Vec::new()));
            let noted = Arc::clone(&began);
            let tool = DynTool::new(spec, open_schema(), move |_, _| {
                noted.lock().unwrap().push(start.elapsed());
                let failure = match asks {
                    Some(asks) => down().with_retry_after(Duration::from_millis(asks)),
                    None => down(),
                };
                async move { Err::<(), _>(failure) }
            });
            let runtime = permissive(vec![tool]).seed(seed).build().unwrap();
            let answers = runtime.run().turn().await.unwrap().run(calls("t")).await;
            let began = began.lock().unwrap().clone();
            (began, start.elapsed(), answers[0].failure().unwrap().code())
        });
        prop_assert!(began.iter().all(|at| *at < deadline), "{began:?} within {deadline:?}");
        prop_assert!(!began.is_empty() && began.len() <= attempts as usize);
        prop_assert!(took < deadline, "a wait that cannot end in time is not begun");
        prop_assert_eq!(code, FailureCode::ToolFailed, "what came of the last attempt is the answer");
        for pair in began.windows(2) {
            let least = Duration::from_millis(asks.unwrap_or(first / 2));
            prop_assert!(pair[1] - pair[0] >= least, "{began:?}");
        }
    }
}
