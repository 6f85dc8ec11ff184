//! Result cache: scopes, lifetimes, and single-flight for equal calls.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft::{
    Config, Failure, FailureCode, Runtime, ToolCall, ToolContext, ToolRegistry,
    middleware::CacheStatus,
    taint::{Confidentiality, Label, Trust},
    tool,
    tool::{Cache, Dependency, DynTool, Rate, ToolSpec},
};
use proptest::prelude::*;
use serde_json::json;

use crate::{kit::*, layers::Courses};

const SECOND: Duration = Duration::from_secs(1);

fn kept(name: &str) -> ToolSpec {
    read(name).cache(Cache::new(SECOND * 60))
}

/// A tool that returns how often its body has run, after a delay.
fn counting(spec: ToolSpec, millis: u64) -> (DynTool, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let tool = DynTool::new(spec, open_schema(), move |_, _| {
        let n = counted.fetch_add(1, Ordering::SeqCst) + 1;
        async move {
            if millis > 0 {
                tokio::time::sleep(Duration::from_millis(millis)).await;
            }
            format!("run {n}")
        }
    });
    (tool, ran)
}

#[tokio::test(start_paused = true)]
async fn cache_hit_uses_no_rate_and_no_attempt_and_is_recorded() {
    let (tool, ran) = counting(kept("t").rate(Rate::parse("1/day").unwrap()), 0);
    let courses = Courses::default();
    let runtime = permissive(vec![tool]).journal(courses.clone()).build().unwrap();
    for _ in 0..3 {
        let answers = runtime.run().turn().await.unwrap().run(calls("t:a")).await;
        assert_eq!(answers[0].text(), "run 1");
    }
    let seen: Vec<_> = courses.all().iter().map(|c| (c.attempts, c.cache)).collect();
    let hit = (0, Some(CacheStatus::Hit));
    assert_eq!(seen, [(1, Some(CacheStatus::Miss)), hit, hit]);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn cached_results_are_shared_within_their_scope_only() {
    // For each scope, which of the runs below hit the entry of the first.
    for (scope, expected) in [
        (None, [true, true, false, false]),
        (Some("user"), [true, true, false, false]),
        (Some("session"), [true, false, true, false]),
        (Some("run"), [true, false, false, false]),
        (Some("agent"), [false, false, false, false]),
        (Some("everybody"), [true, true, true, true]),
    ] {
        let cache = Cache { ttl: SECOND * 60, scope: scope.map(str::to_owned) };
        let (tool, _) = counting(read("t").cache(cache), 0);
        let runtime = permissive(vec![tool]).build().unwrap();
        let of = |run: &str, user: &str, session: &str| {
            runtime.run_builder().id(run).user(user).session(session).start()
        };
        let anonymous = runtime.run_builder().id("r9").start();
        let runs = [of("r1", "u1", "s1"), of("r2", "u1", "s2"), of("r3", "u2", "s1"), anonymous];
        let text = async |run: &haft::Run| {
            run.turn().await.unwrap().run(calls("t")).await[0].text().to_string()
        };
        let first = text(&of("r1", "u1", "s1")).await;
        let mut found = Vec::new();
        for run in &runs {
            found.push(text(run).await == first);
        }
        assert_eq!(found, expected, "{scope:?}");
    }
}

#[tokio::test]
async fn user_scoped_cache_keeps_nothing_without_a_user() {
    let (tool, ran) = counting(read("t").cache(Cache::new(SECOND).within("user")), 0);
    let courses = Courses::default();
    let runtime = permissive(vec![tool]).journal(courses.clone()).build().unwrap();
    for _ in 0..3 {
        runtime.call("t", json!({})).await.unwrap();
    }
    assert_eq!(ran.load(Ordering::SeqCst), 3);
    assert!(courses.all().iter().all(|course| course.cache.is_none()));
}

#[tokio::test]
async fn directory_and_run_values_are_part_of_the_cache_key() {
    let (tool, ran) = counting(kept("t"), 0);
    let (own, own_ran) = counting(kept("own").need(Dependency::run_state::<u8>()), 0);
    let runtime = permissive(vec![tool, own]).build().unwrap();
    for directory in ["/a", "/b", "/a"] {
        let run = runtime.run_builder().working_directory(directory).run_state(1_u8).start();
        run.turn().await.unwrap().run(calls("t own own")).await;
    }
    assert_eq!((ran.load(Ordering::SeqCst), own_ran.load(Ordering::SeqCst)), (2, 3));
}

/// Reads, or writes if its argument says so.
#[tool(read_only = only_reads, capabilities(), cache = "5m")]
async fn either(
    #[expect(unused, reason = "the profile function reads it")] writes: bool,
) -> String {
    EITHER.fetch_add(1, Ordering::SeqCst).to_string()
}

static EITHER: AtomicUsize = AtomicUsize::new(0);

fn only_reads(writes: &bool) -> bool {
    !writes
}

#[tokio::test]
async fn writing_call_is_never_cached() {
    let registry = ToolRegistry::builder().add(EitherTool).build().unwrap();
    let runtime =
        Runtime::builder().registry(registry).policy(haft::policy::AllowAll).build().unwrap();
    for (writes, expected) in [(false, "0"), (false, "0"), (true, "1"), (true, "2"), (false, "0")] {
        let output = runtime.call("either", json!({"writes": writes})).await.unwrap();
        assert_eq!(output.to_text(), expected);
    }
}

#[tokio::test]
async fn failures_are_not_cached() {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let tool = DynTool::new(kept("t"), json!({}), move |_, _| {
        let n = counted.fetch_add(1, Ordering::SeqCst);
        async move { if n == 0 { Err(Failure::failed("once")) } else { Ok("fine") } }
    });
    let runtime = permissive(vec![tool]).build().unwrap();
    assert!(runtime.call("t", json!({})).await.is_err());
    for _ in 0..2 {
        assert_eq!(runtime.call("t", json!({})).await.unwrap().to_text(), "fine");
    }
    assert_eq!(ran.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn cache_hit_carries_the_taint_label_of_its_inputs() {
    let secret = Label { trust: Trust::Untrusted, confidentiality: Confidentiality::Secret };
    let inner = quick(read("inner").label(secret));
    let outer = DynTool::new(kept("outer").label(Label::CLEAN), json!({}), |_, cx| async move {
        cx.call("inner", json!({})).await
    });
    let runtime = permissive(vec![inner, outer]).build().unwrap();
    for _ in 0..2 {
        let answers = runtime.run().turn().await.unwrap().run(calls("outer")).await;
        assert_eq!(answers[0].label().confidentiality, Confidentiality::Secret);
        assert_eq!(answers[0].label().trust, Trust::Untrusted);
    }
}

#[tokio::test(start_paused = true)]
async fn output_after_cancellation_is_not_cached() {
    let tool =
        DynTool::new(kept("t").timeout(SECOND), json!({}), |_, cx: ToolContext| async move {
            cx.cancelled().await;
            "what there was so far"
        });
    let courses = Courses::default();
    let runtime = permissive(vec![tool]).journal(courses.clone()).build().unwrap();
    for _ in 0..2 {
        let failure = runtime.call("t", json!({})).await.unwrap_err();
        assert_eq!(failure.code(), FailureCode::TimedOut);
    }
    assert!(courses.all().iter().all(|course| course.cache == Some(CacheStatus::Miss)));
}

#[tokio::test(start_paused = true)]
async fn single_flight_follower_has_its_own_timeout_and_gets_the_failure() {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let secret = Label { trust: Trust::Untrusted, confidentiality: Confidentiality::Secret };
    let inner = quick(read("inner").label(secret));
    let tool = DynTool::new(kept("t").label(Label::CLEAN), open_schema(), move |_, cx| {
        let n = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            cx.call("inner", json!({})).await?;
            tokio::time::sleep(SECOND * 10).await;
            let down = || Failure::from(std::io::Error::other("down")).with_next("wait");
            if n == 0 { Err(down()) } else { Ok("the next does not") }
        }
    });
    let courses = Courses::default();
    let runtime = permissive(vec![tool, inner]).journal(courses.clone()).build().unwrap();
    let mut list = calls("t t t t");
    list[3] = ToolCall::new("c4", "t", json!({})).deadline(SECOND * 5);
    let answers = runtime.run().turn().await.unwrap().run(list).await;
    assert_eq!(
        ends(&answers),
        ["c1 tool_failed", "c2 tool_failed", "c3 tool_failed", "c4 deadline_passed"]
    );
    assert_eq!(ran.load(Ordering::SeqCst), 1, "a failed computation is not repeated");
    for answer in &answers[..3] {
        let failure = answer.failure().unwrap();
        assert_eq!(failure.model_text(), "tool_failed: down\nNext: wait");
        assert_eq!(failure.cause().as_deref(), Some("down"));
        assert_eq!(answer.label().confidentiality, Confidentiality::Secret, "its label was joined");
    }
    let uses: Vec<_> = courses.all().iter().map(|c| (c.cache, c.attempts, c.waited)).collect();
    let joined = (Some(CacheStatus::Joined), 0, SECOND * 10);
    assert_eq!(uses.iter().filter(|one| **one == joined).count(), 2, "{uses:?}");
    let answers = runtime.run().turn().await.unwrap().run(calls("t")).await;
    assert_eq!(ends(&answers), ["c1 ok"], "and a failure is not kept");
}

#[tokio::test(start_paused = true)]
async fn single_flight_followers_of_a_hanging_body_time_out_in_parallel() {
    let (tool, ran) = counting(kept("t").timeout(SECOND * 30), 1_000_000);
    let runtime = permissive(vec![tool]).build().unwrap();
    let began = tokio::time::Instant::now();
    let answers = runtime.run().turn().await.unwrap().run(calls("t t t t t t t t")).await;
    assert!(answers.iter().all(|a| a.failure().unwrap().code() == FailureCode::TimedOut));
    assert!(began.elapsed() < SECOND * 31, "{:?}", began.elapsed());
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn single_flight_leaders_own_failure_is_not_shared() {
    let (tool, ran) = counting(kept("t"), 10_000);
    let runtime = permissive(vec![tool]).build().unwrap();
    let mut list = calls("t t t");
    list[0] = ToolCall::new("c1", "t", json!({})).timeout(SECOND);
    list[1] = ToolCall::new("c2", "t", json!({})).deadline(SECOND * 5);
    let answers = runtime.run().turn().await.unwrap().run(list).await;
    assert_eq!(ends(&answers), ["c1 timed_out", "c2 deadline_passed", "c3 ok"]);
    assert_eq!(ran.load(Ordering::SeqCst), 3, "each had the body for itself, in turn");
}

#[tokio::test(start_paused = true)]
async fn single_flight_follower_takes_over_from_a_cancelled_leader() {
    let (tool, ran) = counting(kept("t"), 10_000);
    let runtime = permissive(vec![tool]).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let control = turn.handle();
    let (answers, ()) = tokio::join!(turn.run(calls("t t t")), async {
        tokio::time::sleep(SECOND).await;
        assert!(control.cancel_call("c1"));
    });
    assert_eq!(ends(&answers), ["c1 cancelled", "c2 ok", "c3 ok"]);
    assert_eq!((answers[1].text(), answers[2].text()), ("run 2".into(), "run 2".into()));
    assert_eq!(ran.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn recursive_cached_tool_does_not_deadlock() {
    let tool = DynTool::new(kept("t").timeout(SECOND * 5), json!({}), |_, cx| async move {
        if cx.depth() > 0 {
            return Ok::<_, Failure>("inner".to_owned());
        }
        Ok(format!("outer of {}", cx.call("t", json!({})).await?.to_text()))
    });
    let runtime = permissive(vec![tool]).build().unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(runtime.call("t", json!({})).await.unwrap().to_text(), "outer of inner");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn nested_calls_do_not_join_and_use_cached_results() {
    let (inner, ran) = counting(kept("inner"), 10_000);
    let outer = DynTool::new(read("outer"), open_schema(), |_, cx| async move {
        cx.call("inner", json!({})).await
    });
    let courses = Courses::default();
    let runtime = permissive(vec![inner, outer]).journal(courses.clone()).build().unwrap();
    // The leader is the first one; the two nested calls run their own bodies, `inner` joins.
    let list = calls("outer:a outer:b inner outer:c");
    let began = tokio::time::Instant::now();
    let answers = runtime.run().turn().await.unwrap().run(list).await;
    assert!(answers.iter().all(|answer| answer.failure().is_none()), "{answers:?}");
    assert_eq!(began.elapsed(), SECOND * 10, "no body waits for another one");
    assert_eq!(ran.load(Ordering::SeqCst), 3);
    let joined = courses.all().iter().filter(|c| c.cache == Some(CacheStatus::Joined)).count();
    assert_eq!(joined, 1);
    let later = runtime.call("outer", json!({"x": "d"})).await.unwrap().to_text();
    assert_eq!(later, "run 1", "the result of the leader is cached");
    assert_eq!(ran.load(Ordering::SeqCst), 3);
}

/// A tool that calls another after a second, unless it is a nested call itself.
fn calling(name: &str, next: &'static str) -> DynTool {
    DynTool::new(kept(name), open_schema(), move |_, cx| async move {
        tokio::time::sleep(SECOND).await;
        match cx.depth() {
            0 => {
                Ok::<_, Failure>(format!("{} of {next}", cx.call(next, json!({})).await?.to_text()))
            }
            _ => Ok("part".to_owned()),
        }
    })
}

#[tokio::test(start_paused = true)]
async fn calls_that_nest_each_other_do_not_deadlock() {
    // Each needs the result of the next: cycles of one, two and three.
    for ring in [vec!["a"], vec!["a", "b"], vec!["a", "b", "c"]] {
        let next = |n: usize| ring[(n + 1) % ring.len()];
        let tools = ring.iter().enumerate().map(|(n, name)| calling(name, next(n))).collect();
        let courses = Courses::default();
        let runtime = permissive(tools).journal(courses.clone()).build().unwrap();
        let began = tokio::time::Instant::now();
        let answers = runtime.run().turn().await.unwrap().run(calls(&ring.join(" "))).await;
        assert!(answers.iter().all(|answer| answer.failure().is_none()), "{answers:?}");
        // One second for the outer body and one for the nested one: no call waits.
        assert_eq!(began.elapsed(), SECOND * 2, "{ring:?}");
        assert!(courses.all().iter().all(|c| c.cache != Some(CacheStatus::Joined)), "{ring:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn equal_outer_calls_share_the_body_of_a_nested_leader() {
    let (inner, ran) = counting(kept("inner"), 10_000);
    let outer = DynTool::new(read("outer"), open_schema(), |_, cx| async move {
        cx.call("inner", json!({})).await
    });
    let runtime = permissive(vec![inner, outer]).build().unwrap();
    let answers = runtime.run().turn().await.unwrap().run(calls("outer inner inner inner")).await;
    assert!(answers.iter().all(|answer| answer.text() == "run 1"), "{answers:?}");
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn zero_cache_bytes_means_nothing_is_cached() {
    let (tool, ran) = counting(kept("t"), 0);
    let mut config = Config::default();
    config.max_cache = 0;
    let runtime = permissive(vec![tool]).config(config).build().unwrap();
    for _ in 0..3 {
        runtime.call("t", json!({})).await.unwrap();
    }
    assert_eq!(ran.load(Ordering::SeqCst), 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn single_flight_runs_one_body_and_shares_its_result(
        together in 1usize..40,
        fails in any::<bool>(),
        millis in 0u64..50,
    ) {
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (ran, now, most) = tokio.block_on(async {
            let counts = Arc::new(Mutex::new((0, 0, 0)));
            let inside = Arc::clone(&counts);
            let tool = DynTool::new(kept("t"), open_schema(), move |_, _| {
                let inside = Arc::clone(&inside);
                async move {
                    let n = {
                        let mut counts = inside.lock().unwrap();
                        counts.0 += 1;
                        counts.1 += 1;
                        counts.2 = counts.2.max(counts.1);
                        counts.0
                    };
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                    inside.lock().unwrap().1 -= 1;
                    let first_fails = fails && n == 1;
                    if first_fails { Err(Failure::new(FailureCode::ToolFailed, "no")) } else { Ok("yes") }
                }
            });
            let mut config = Config::default();
            config.max_concurrency = 100;
            let runtime = permissive(vec![tool]).config(config).build().unwrap();
            let words = vec!["t"; together].join(" ");
            let answers = runtime.run().turn().await.unwrap().run(calls(&words)).await;
            // With no time to wait, each starts when the one before has ended.
            let together = if fails && millis == 0 { 1 } else { together };
            let failed = answers.iter().filter(|answer| answer.failure().is_some()).count();
            assert_eq!(failed, if fails { together } else { 0 });
            let counts = counts.lock().unwrap();
            (counts.0, counts.1, counts.2)
        });
        let again = fails && millis == 0 && together > 1;
        prop_assert_eq!((ran, now, most), (1 + usize::from(again), 0, 1));
    }
}
