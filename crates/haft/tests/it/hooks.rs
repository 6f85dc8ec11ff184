//! Hooks of the host: before a call, around a batch and a turn, and after a body.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft::{
    BoxFuture, Failure, FailureCode, Output, Runtime, ToolRegistry,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    events::Event,
    hooks::{
        AnsweredCall, CompletedCall, Hook, HookAnswer, HookEffects, PostCallResult,
        PreCallDecision, TurnInfo,
    },
    policy::{Guard, Verdict},
    registry::RegisteredTool,
    tool::{DynTool, Execution, ToolSpec},
    turn::{StopReason, ValidatedCall},
};
use serde_json::json;

use crate::kit::*;

/// A hook made of closures; each event that is not set does nothing.
#[derive(Default)]
#[expect(clippy::type_complexity, reason = "each field is a function that a test writes")]
struct Moments {
    name: &'static str,
    timeout: Option<Duration>,
    only: Option<&'static str>,
    before: Option<fn(&ValidatedCall) -> Result<PreCallDecision, Failure>>,
    preflight:
        Option<Box<dyn Fn(&[&ValidatedCall]) -> Result<Vec<HookAnswer>, Failure> + Send + Sync>>,
    after: Option<fn(&CompletedCall, Result<Output, Failure>) -> PostCallResult>,
    before_turn: Option<fn(&TurnInfo) -> Result<HookEffects, Failure>>,
    after_turn:
        Option<Box<dyn Fn(&[AnsweredCall<'_>]) -> Result<HookEffects, Failure> + Send + Sync>>,
    hangs: bool,
}

impl Hook for Moments {
    fn name(&self) -> &str {
        assert!(self.name != "panics", "on purpose");
        self.name
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    fn applies_to(&self, tool: &RegisteredTool) -> bool {
        assert!(self.only != Some("panics"), "on purpose");
        self.only.is_none_or(|only| *tool.name() == only)
    }

    fn before<'a>(
        &'a self,
        call: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<PreCallDecision, Failure>> {
        Box::pin(async move {
            if self.hangs {
                std::future::pending::<()>().await;
            }
            self.before.map_or(Ok(PreCallDecision::proceed()), |before| before(call))
        })
    }

    fn before_batch<'a>(
        &'a self,
        calls: &'a [&'a ValidatedCall],
    ) -> BoxFuture<'a, Result<Vec<HookAnswer>, Failure>> {
        Box::pin(async move { self.preflight.as_ref().map_or(Ok(Vec::new()), |f| f(calls)) })
    }

    fn after<'a>(
        &'a self,
        call: &'a CompletedCall,
        outcome: Result<Output, Failure>,
    ) -> BoxFuture<'a, PostCallResult> {
        Box::pin(async move {
            match self.after {
                Some(after) => after(call, outcome),
                None => PostCallResult::from(outcome),
            }
        })
    }

    fn before_turn<'a>(
        &'a self,
        turn: &'a TurnInfo,
    ) -> BoxFuture<'a, Result<HookEffects, Failure>> {
        Box::pin(async move { self.before_turn.map_or(Ok(HookEffects::nothing()), |f| f(turn)) })
    }

    fn after_turn<'a>(
        &'a self,
        _: &'a TurnInfo,
        answers: &'a [AnsweredCall<'a>],
    ) -> BoxFuture<'a, Result<HookEffects, Failure>> {
        Box::pin(async move {
            self.after_turn.as_ref().map_or(Ok(HookEffects::nothing()), |f| f(answers))
        })
    }
}

fn before(
    name: &'static str,
    before: fn(&ValidatedCall) -> Result<PreCallDecision, Failure>,
) -> Moments {
    Moments { name, before: Some(before), ..Moments::default() }
}

fn strict(tools: Vec<DynTool>) -> haft::RuntimeBuilder {
    Runtime::builder().registry(ToolRegistry::builder().add(tools).build().unwrap())
}

async fn call(builder: haft::RuntimeBuilder, x: &str) -> Result<String, Failure> {
    let output = builder.build().unwrap().call("t", json!({ "x": x })).await;
    output.map(|output| output.to_text())
}

#[tokio::test]
async fn hook_verdict_is_joined_with_the_policies() {
    let allows = || permissive(vec![quick(read("t"))]);
    let denied = call(
        allows().hook(before("h", |_| Ok(PreCallDecision::verdict(Verdict::deny("no"))))),
        "a",
    );
    let denied = denied.await.unwrap_err();
    assert_eq!((denied.code(), denied.execution()), (FailureCode::Denied, Execution::NotStarted));
    assert!(denied.cause().unwrap().contains("hook `h`"), "{:?}", denied.cause());
    let asked = call(
        allows().hook(before("h", |_| Ok(PreCallDecision::verdict(Verdict::ask("sure?"))))),
        "a",
    );
    assert_eq!(asked.await.unwrap_err().code(), FailureCode::Denied, "no approver is configured");
    // A later hook's allow does not revoke an ask.
    let both = allows()
        .hook(before("one", |_| Ok(PreCallDecision::verdict(Verdict::deny("no")))))
        .hook(before("two", |_| Ok(PreCallDecision::verdict(Verdict::allow("yes")))));
    assert_eq!(call(both, "a").await.unwrap_err().code(), FailureCode::Denied);
}

struct Denies;

impl Guard for Denies {
    fn name(&self) -> &str {
        "denies"
    }

    fn decide<'a>(
        &'a self,
        _: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>> {
        Box::pin(async { Ok(Some(Verdict::deny("no"))) })
    }
}

fn vouches(_: &ValidatedCall) -> Result<PreCallDecision, Failure> {
    Ok(PreCallDecision::verdict(Verdict::allow("I know it")))
}

#[tokio::test]
async fn a_hooks_allow_lifts_the_default_ask_and_nothing_else() {
    let writes = || strict(vec![quick(write("t"))]);
    assert_eq!(call(writes(), "a").await.unwrap_err().code(), FailureCode::Denied);
    assert_eq!(call(writes().hook(before("h", vouches)), "a").await.unwrap(), "t(a)");
    let guarded = writes().hook(before("h", vouches)).guard(Denies);
    assert_eq!(call(guarded, "a").await.unwrap_err().code(), FailureCode::Denied);
}

#[tokio::test]
async fn an_allow_is_void_when_the_arguments_change_after_it() {
    let rewrites = || before("rewrites", |_| Ok(PreCallDecision::rewrite(json!({"x": "other"}))));
    let writes = || strict(vec![quick(write("t"))]);
    let after = writes().hook(before("h", vouches)).hook(rewrites());
    assert_eq!(call(after, "a").await.unwrap_err().code(), FailureCode::Denied);
    let earlier = writes().hook(rewrites()).hook(before("h", vouches));
    assert_eq!(call(earlier, "a").await.unwrap(), "t(other)");
    let own = writes().hook(before("h", |_| {
        Ok(PreCallDecision::verdict(Verdict::allow("as I made it"))
            .with_rewrite(json!({"x": "made"})))
    }));
    assert_eq!(call(own, "a").await.unwrap(), "t(made)");
}

struct Edits(Arc<AtomicUsize>);

impl Approver for Edits {
    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let edited = question.call.arguments()["x"] == "edited";
        Box::pin(async move {
            Ok(if edited {
                ApprovalResponse::Deny(None)
            } else {
                ApprovalResponse::Edit(json!({"x": "edited"}))
            })
        })
    }
}

#[tokio::test]
async fn edit_by_an_approver_voids_hook_verdicts_about_other_arguments() {
    let asked = Arc::new(AtomicUsize::new(0));
    // It allows the first arguments and asks about them; it has no verdict on the edited ones.
    let builder = strict(vec![quick(write("t"))])
        .hook(before("vouches", |call| {
            if call.arguments()["x"] == "a" {
                vouches(call)
            } else {
                Ok(PreCallDecision::proceed())
            }
        }))
        .hook(before("asks", |call| {
            if call.arguments()["x"] == "a" {
                Ok(PreCallDecision::verdict(Verdict::ask("look at it")))
            } else {
                Ok(PreCallDecision::proceed())
            }
        }))
        .approver(Edits(Arc::clone(&asked)));
    assert_eq!(call(builder, "a").await.unwrap_err().code(), FailureCode::Declined);
    assert_eq!(asked.load(Ordering::SeqCst), 2, "the edited call asks again by the default");
}

#[tokio::test]
async fn hook_note_is_added_to_a_result_and_below_a_failure() {
    let note = || before("h", |_| Ok(PreCallDecision::proceed().with_host_note("mind the gap")));
    let run = |builder: haft::RuntimeBuilder| async move {
        let runtime = builder.build().unwrap();
        runtime.run().turn().await.unwrap().run(calls("t:a")).await.remove(0)
    };
    let answer = run(permissive(vec![quick(read("t"))]).hook(note())).await;
    assert_eq!(answer.text(), "t(a)\n[note from the host: mind the gap]");
    let answer = run(permissive(vec![failing(read("t"))]).hook(note())).await;
    assert_eq!(answer.text(), "tool_failed: no luck\n[note from the host: mind the gap]");
    // The note of an earlier hook is delivered even when a later one blocks.
    let blocked = permissive(vec![quick(read("t"))])
        .hook(note())
        .hook(before("no", |_| Ok(PreCallDecision::block("not now"))));
    let answer = run(blocked).await;
    assert_eq!(answer.text(), "blocked_by_hook: not now\n[note from the host: mind the gap]");
    let long = before("h", |_| Ok(PreCallDecision::proceed().with_host_note("é".repeat(20_000))));
    let answer = run(permissive(vec![quick(read("t"))]).hook(long)).await;
    assert_eq!(answer.text().matches('é').count(), 10_000);
    assert!(answer.text().ends_with("… cut]"));
}

#[tokio::test(start_paused = true)]
async fn halt_refuses_calls_not_started_and_lets_the_rest_finish() {
    let builder = permissive(vec![
        slow(read("slow"), 50),
        quick(read("t")),
        quick(write("w")),
        DynTool::new(read("nests"), open_schema(), |_, cx| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let nested = cx.call("t", json!({"x": "nested"})).await;
            nested.map_or_else(|f| f.code().as_str().to_owned(), |o| o.to_text())
        }),
    ])
    .hook(before("h", |call| match call.arguments()["x"].as_str() {
        Some("stop") => Ok(PreCallDecision::proceed().with_halt("enough for today")),
        _ => Ok(PreCallDecision::proceed()),
    }));
    let runtime = builder.build().unwrap();
    let run = runtime.run();
    let turn = run.turn().await.unwrap();
    assert_eq!(run.halted(), None);
    let answers = turn.run(calls("slow nests t:stop w:after")).await;
    let ended = ends(&answers);
    assert_eq!(ended, ["c1 ok", "c2 ok", "c3 blocked_by_hook", "c4 blocked_by_hook"]);
    assert_eq!(answers[1].text(), "blocked_by_hook", "a nested call has not begun either");
    assert!(answers[3].text().contains("enough for today"), "{}", answers[3].text());
    assert_eq!(run.halted(), Some("enough for today"));
    let answers = run.turn().await.unwrap().run(calls("t:later")).await;
    assert_eq!(ends(&answers), ["c1 blocked_by_hook"]);
    let other = runtime.run().turn().await.unwrap().run(calls("t:x")).await;
    assert_eq!(ends(&other), ["c1 ok"], "another run goes on");
}

#[tokio::test]
async fn a_host_can_halt_a_run_without_any_hook() {
    let runtime = permissive(vec![quick(read("t"))]).build().unwrap();
    let run = runtime.run();
    run.halt("the user left");
    run.halt("said later");
    let answers = run.turn().await.unwrap().run(calls("t")).await;
    assert_eq!(answers[0].failure().unwrap().message(), "the user left");
    assert_eq!(answers[0].execution(), Execution::NotStarted);
}

#[tokio::test(start_paused = true)]
async fn hook_has_its_own_timeout_and_tool_filter() {
    let hangs = |timeout| Moments { name: "slow", hangs: true, timeout, ..Moments::default() };
    let began = tokio::time::Instant::now();
    let builder = permissive(vec![quick(read("t"))]).hook(hangs(Some(Duration::from_millis(300))));
    assert_eq!(call(builder, "a").await.unwrap_err().code(), FailureCode::HookFailed);
    assert_eq!(began.elapsed(), Duration::from_millis(300));
    let blocks = || before("no", |_| Ok(PreCallDecision::block("not this")));
    let two = || permissive(vec![quick(read("t")), quick(read("other"))]);
    let ends_of = |builder: haft::RuntimeBuilder| async move {
        let turn = builder.build().unwrap().run().turn().await.unwrap();
        ends(&turn.run(calls("t other")).await)
    };
    assert_eq!(ends_of(two().hook_for("o*", blocks())).await, ["c1 ok", "c2 blocked_by_hook"]);
    let own = Moments { only: Some("t"), ..blocks() };
    assert_eq!(ends_of(two().hook(own)).await, ["c1 blocked_by_hook", "c2 ok"]);
    let panics = Moments { only: Some("panics"), name: "p", ..Moments::default() };
    assert_eq!(ends_of(two().hook(panics)).await, ["c1 hook_failed", "c2 hook_failed"]);
}

struct NamelessGuard;

impl Guard for NamelessGuard {
    fn name(&self) -> &str {
        panic!("on purpose")
    }

    fn decide<'a>(
        &'a self,
        _: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>> {
        Box::pin(async { Ok(None) })
    }
}

#[test]
fn hook_whose_name_panics_is_a_build_error() {
    let hook = Moments { name: "panics", ..Moments::default() };
    let error = permissive(vec![]).hook(hook).build().unwrap_err();
    assert!(error.to_string().contains("a hook panicked in `name`"), "{error}");
    let error = permissive(vec![]).guard(NamelessGuard).build().unwrap_err();
    assert!(error.to_string().contains("a guard panicked"), "{error}");
    let zero = Moments { name: "z", timeout: Some(Duration::ZERO), ..Moments::default() };
    assert!(permissive(vec![]).hook(zero).build().is_err());
}

type Shown = Arc<Mutex<Vec<Vec<String>>>>;

fn preflight(
    shown: &Shown,
    answer: impl Fn(&str) -> Option<&'static str> + Send + Sync + 'static,
) -> Moments {
    let shown = Arc::clone(shown);
    Moments {
        name: "preflight",
        preflight: Some(Box::new(move |calls| {
            let ids: Vec<String> =
                calls.iter().map(|call| call.context().call_id().to_string()).collect();
            shown.lock().unwrap().push(ids.clone());
            let answers = ids.iter().filter_map(|id| answer(id).map(|text| (id, text)));
            Ok(answers.map(|(id, text)| HookAnswer::new(&**id, Ok(Output::text(text)))).collect())
        })),
        ..Moments::default()
    }
}

#[tokio::test]
async fn a_batch_is_seen_before_any_of_its_bodies_runs_and_each_call_once() {
    let shown = Shown::default();
    let transcript = Transcript::default();
    let runtime = permissive(vec![quick(read("t")), quick(write("w"))])
        .hook(preflight(&shown, |id| (id == "c2").then_some("known already")))
        .observer(transcript.observer())
        .build()
        .unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let answers = turn.run(calls("t:a t:b nothing w:c t:d")).await;
    assert_eq!(ends(&answers), ["c1 ok", "c2 ok", "c3 unknown_tool", "c4 ok", "c5 ok"]);
    assert_eq!(answers[1].text(), "known already");
    assert_eq!(*shown.lock().unwrap(), [vec!["c1", "c2"], vec!["c4"], vec!["c5"]]);
    let lines = transcript.lines();
    assert!(!lines.iter().any(|line| line == "c2 running"), "{lines:#?}");
    assert_eq!(transcript.ends_of("c2"), 1);
}

#[tokio::test]
async fn preflight_sees_calls_of_an_open_stream_once() {
    let shown = Shown::default();
    let runtime = permissive(vec![quick(read("t")), quick(write("w"))])
        .hook(preflight(&shown, |_| None))
        .build()
        .unwrap();
    let mut intake = runtime.run().turn().await.unwrap().schedule();
    for call in calls("t:a t:b w:c t:d") {
        intake.push(call);
    }
    assert_eq!(*shown.lock().unwrap(), [vec!["c1"], vec!["c2"]], "the write waits");
    let answers = intake.finish(StopReason::Done).await;
    assert_eq!(answers.iter().filter(|answer| !answer.is_error()).count(), 4);
    assert_eq!(shown.lock().unwrap().concat(), ["c1", "c2", "c3", "c4"]);
}

#[tokio::test]
async fn failing_or_invalid_preflight_fails_its_batch() {
    type Says = fn(&[&ValidatedCall]) -> Result<Vec<HookAnswer>, Failure>;
    let cases: [(&str, Says); 4] = [
        ("error", |_| Err(Failure::failed("no disk"))),
        ("panic", |_| panic!("on purpose")),
        ("foreign", |_| Ok(vec![HookAnswer::new("c9", Ok(Output::text("x")))])),
        ("twice", |_| {
            Ok(vec![
                HookAnswer::new("c1", Ok(Output::text("x"))),
                HookAnswer::new("c1", Ok(Output::text("y"))),
            ])
        }),
    ];
    for (what, says) in cases {
        let hook = Moments {
            name: "bad",
            // It only handles the first batch.
            preflight: Some(Box::new(move |calls| match calls.len() {
                2 => says(calls),
                _ => Ok(Vec::new()),
            })),
            ..Moments::default()
        };
        let runtime =
            permissive(vec![quick(read("t")), quick(write("w"))]).hook(hook).build().unwrap();
        let answers = runtime.run().turn().await.unwrap().run(calls("t t w")).await;
        assert_eq!(ends(&answers), ["c1 hook_failed", "c2 hook_failed", "c3 ok"], "{what}");
        assert!(
            answers.iter().take(2).all(|answer| answer.execution() == Execution::NotStarted),
            "{what}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_preflight_holds_its_batch_until_an_interrupt() {
    struct Waits;
    impl Hook for Waits {
        fn name(&self) -> &str {
            "waits"
        }

        fn before_batch<'a>(
            &'a self,
            _: &'a [&'a ValidatedCall],
        ) -> BoxFuture<'a, Result<Vec<HookAnswer>, Failure>> {
            Box::pin(async {
                tokio::time::sleep(Duration::from_secs(5)).await;
                Ok(Vec::new())
            })
        }
    }
    let runtime = permissive(vec![quick(read("t"))]).hook(Waits).build().unwrap();
    let began = tokio::time::Instant::now();
    let answers = runtime.run().turn().await.unwrap().run(calls("t t")).await;
    assert_eq!(ends(&answers), ["c1 ok", "c2 ok"]);
    assert_eq!(began.elapsed(), Duration::from_secs(5), "one wait for both");
    let turn = runtime.run().turn().await.unwrap();
    let control = turn.handle();
    let (answers, ()) = tokio::join!(turn.run(calls("t t")), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        control.interrupt();
    });
    assert_eq!(ends(&answers), ["c1 cancelled", "c2 cancelled"]);
    assert_eq!(began.elapsed(), Duration::from_secs(6));
}

#[tokio::test]
async fn a_turn_whose_hook_fails_runs_nothing_and_the_next_one_does() {
    let transcript = Transcript::default();
    let hook = Moments {
        name: "gate",
        before_turn: Some(|turn| match turn.cycle() {
            1 => Err(Failure::failed("not ready")),
            _ => Ok(HookEffects::nothing().with_host_note("welcome back")),
        }),
        ..Moments::default()
    };
    let runtime = permissive(vec![quick(read("t"))])
        .hook(hook)
        .observer(transcript.observer())
        .build()
        .unwrap();
    let run = runtime.run();
    let answers = run.turn().await.unwrap().run(calls("t")).await;
    assert_eq!(ends(&answers), ["c1 hook_failed"]);
    assert!(!answers[0].text().contains("not ready"), "the model does not get the cause");
    assert!(
        transcript.lines().iter().any(|line| line.contains("`gate`") && line.contains("not ready"))
    );
    let answers = run.turn().await.unwrap().run(calls("t:a t:b")).await;
    assert_eq!(answers[0].text(), "t(a)\n[note from the host: welcome back]");
    assert_eq!(answers[1].text(), "t(b)");
}

#[tokio::test]
async fn turn_end_hook_sees_all_results_and_its_failure_halts() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let write_down = Arc::clone(&seen);
    let looks = Moments {
        name: "looks",
        before: Some(|_| Ok(PreCallDecision::rewrite(json!({"x": "changed"})))),
        after_turn: Some(Box::new(move |answers| {
            let mut seen = write_down.lock().unwrap();
            seen.extend(answers.iter().map(|landed| {
                let arguments = landed.arguments().map_or("none".into(), |a| a.to_string());
                format!("{} {arguments} {}", landed.answer().id(), landed.tool().is_some())
            }));
            Ok(HookEffects::nothing().with_host_note("all seen"))
        })),
        ..Moments::default()
    };
    let runtime = permissive(vec![quick(read("t"))]).hook(looks).build().unwrap();
    let answers = runtime.run().turn().await.unwrap().run(calls("t:a nothing")).await;
    assert_eq!(*seen.lock().unwrap(), [r#"c1 {"x":"changed"} true"#, "c2 none false"]);
    assert!(answers[1].text().ends_with("[note from the host: all seen]"), "{}", answers[1].text());
    let breaks = Moments {
        name: "breaks",
        after_turn: Some(Box::new(|_| panic!("on purpose"))),
        ..Moments::default()
    };
    let runtime = permissive(vec![quick(read("t"))]).hook(breaks).build().unwrap();
    let run = runtime.run();
    let answers = run.turn().await.unwrap().run(calls("t")).await;
    assert_eq!(ends(&answers), ["c1 ok"], "what ran has run");
    assert!(run.halted().is_some());
}

#[tokio::test]
async fn transforms_see_failures_and_cannot_hide_that_a_body_ran() {
    let repairs = Moments {
        name: "repairs",
        after: Some(|call, outcome| {
            assert_eq!(call.arguments()["x"], "a");
            PostCallResult::from(outcome.or_else(|failure| Ok(Output::text(failure.message()))))
                .with(HookEffects::nothing().with_host_note("repaired"))
        }),
        ..Moments::default()
    };
    let runtime = permissive(vec![failing(read("t"))]).hook(repairs).build().unwrap();
    let text = runtime.call("t", json!({"x": "a"})).await.unwrap().to_text();
    assert_eq!(text, "no luck\n[note from the host: repaired]");
    let denies = Moments {
        name: "denies",
        after: Some(|_, _| {
            PostCallResult::from(Err(Failure::new(FailureCode::BlockedByHook, "not for you")))
        }),
        ..Moments::default()
    };
    let runtime = permissive(vec![quick(read("t"))]).hook(denies).build().unwrap();
    let failure = runtime.call("t", json!({})).await.unwrap_err();
    assert_eq!(
        (failure.code(), failure.execution()),
        (FailureCode::BlockedByHook, Execution::Completed)
    );
}

#[tokio::test]
async fn hook_that_fails_open_is_reported_each_time() {
    let reported: Arc<Mutex<Vec<String>>> = Arc::default();
    let write_down = Arc::clone(&reported);
    let runtime = permissive(vec![quick(read("t"))])
        .hook(before("lax", |_| Ok(PreCallDecision::proceed().with_problem("could not look"))))
        .observer(move |event: &Event| {
            if let Event::HookFailedOpen { call, hook, why, .. } = event {
                write_down.lock().unwrap().push(format!("{call:?} {hook} {why}"));
            }
        })
        .build()
        .unwrap();
    let answers = runtime.run().turn().await.unwrap().run(calls("t t")).await;
    assert_eq!(ends(&answers), ["c1 ok", "c2 ok"]);
    assert_eq!(reported.lock().unwrap().len(), 2, "{reported:?}");
}

#[tokio::test]
async fn nested_call_result_has_no_hook_notes_for_its_caller() {
    let outer = DynTool::new(ToolSpec::new("outer", "Calls."), open_schema(), |_, cx| async move {
        Ok::<_, Failure>(format!("<{}>", cx.call("t", json!({"x": "in"})).await?.to_text()))
    });
    let runtime = permissive(vec![quick(read("t")), outer])
        .hook_for("t", before("h", |_| Ok(PreCallDecision::proceed().with_host_note("psst"))))
        .build()
        .unwrap();
    assert_eq!(runtime.call("outer", json!({})).await.unwrap().to_text(), "<t(in)>");
}
