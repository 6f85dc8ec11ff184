//! Golden record of the pipeline: events, results and records of calls that take every path.
//!
//! The file `tests/golden/pipeline.txt` is written with `HAFT_GOLDEN=write`. A change of the
//! pipeline that changes this file changes what hosts and models observe, and is read line by line.

#![expect(clippy::disallowed_methods, reason = "it reads and writes the recorded file")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use haft::{
    BoxFuture, Config, Failure, Output, Runtime, RuntimeBuilder, ToolCall, ToolRegistry,
    ToolResult,
    approval::{ApprovalResponse, ApprovalScope, approver_fn},
    events::Event,
    hooks::{CompletedCall, Hook, HookEffects, PostCallResult, PreCallDecision, before_fn},
    host::{Breaker, Frame},
    journal::MemoryJournal,
    middleware::middleware_fn,
    policy::{AllowAll, Budget, Policy, PolicyRequest, Verdict, guard_fn},
    testing::Nonces,
    tool::{Cache, DynTool, Interrupt, Rate, RetryPolicy},
    turn::StopReason,
};
use serde_json::{Value, json};

use crate::kit::*;

/// Asks about every call.
struct AskAlways;

impl Policy for AskAlways {
    fn decide(&self, _: &PolicyRequest<'_>) -> Verdict {
        Verdict::ask("it always asks").by("the test")
    }
}

/// Denies every call.
struct DenyAlways;

impl Policy for DenyAlways {
    fn decide(&self, _: &PolicyRequest<'_>) -> Verdict {
        Verdict::deny("it always denies").by("the test")
    }
}

/// Changes `x` once.
struct Rewrites;

impl Policy for Rewrites {
    fn decide(&self, _: &PolicyRequest<'_>) -> Verdict {
        Verdict::allow("it rewrites").by("the test")
    }

    fn rewrite(&self, request: &PolicyRequest<'_>) -> Option<Value> {
        let mut arguments = Value::clone(request.arguments);
        arguments["x"] = json!("rewritten");
        Some(arguments)
    }
}

/// Adds to the result of every call, and a note.
struct Appends;

impl Hook for Appends {
    fn name(&self) -> &str {
        "appends"
    }

    fn after<'a>(
        &'a self,
        _: &'a CompletedCall,
        outcome: Result<Output, Failure>,
    ) -> BoxFuture<'a, PostCallResult> {
        Box::pin(async move {
            let outcome = outcome.map(|output| Output::text(format!("{}+", output.as_text())));
            PostCallResult::from(outcome).with(HookEffects::nothing().with_host_note("appended"))
        })
    }
}

fn tools() -> Vec<DynTool> {
    vec![
        quick(read("quick")),
        slow(read("slow").interrupt(Interrupt::Cancel), 7),
        slow(read("late").timeout(Duration::from_millis(3)), 50),
        failing(read("fails")),
        failing(read("aborts").abort_siblings(true)),
        DynTool::new(read("panics"), open_schema(), |_, _| async {
            if true {
                panic!("on purpose");
            }
        }),
        quick(write("writes")),
        slow(write("writes_slowly"), 5),
        DynTool::new(read("nests"), open_schema(), |_, cx| async move {
            let inner = cx.call("quick", json!({"x": "inner"})).await?;
            let _ = cx.call("writes", json!({})).await;
            let _ = cx.call("slow", json!({})).await;
            Ok::<_, Failure>(inner)
        }),
        DynTool::new(read("long").max_result(400_usize), open_schema(), |_, _| async {
            "line\n".repeat(2_000)
        }),
        DynTool::new(read("dirty"), open_schema(), |_, _| async {
            "red \u{1b}[31m and a bidi \u{202e} mark"
        }),
        quick(read("cached").cache(Cache::new(Duration::from_secs(60)))),
        failing(read("retried").retry(RetryPolicy::default())),
        quick(read("rated").rate("2/second".parse::<Rate>().unwrap())),
        DynTool::new(read("checked"), open_schema(), |_, _| async { "checked" }).with_check(
            |args, _| {
                let is_bad = args["x"] == "bad";
                Box::pin(
                    async move { if is_bad { Err(Failure::invalid("x is bad")) } else { Ok(()) } },
                )
            },
        ),
        DynTool::new(read("streams"), open_schema(), |_, cx| async move {
            cx.partial("one ");
            cx.partial("two");
            tokio::time::sleep(Duration::from_millis(3)).await;
            "one two"
        }),
    ]
}

fn base() -> RuntimeBuilder {
    let mut config = Config::default();
    config.grace = Duration::from_millis(20);
    config.breaker = Some(Breaker { failures: 3, cooldown: Duration::from_secs(30) });
    Runtime::builder()
        .registry(ToolRegistry::builder().add(tools()).build().unwrap())
        .nonces(Nonces::counting(0))
        .config(config)
        .seed(7)
}

/// What is done while a turn runs.
#[derive(Clone, Copy)]
enum During {
    Nothing,
    Interrupt(u64),
    Abort(u64),
    CancelFirst(u64),
}

struct Scene {
    name: &'static str,
    runtime: RuntimeBuilder,
    turns: Vec<Vec<ToolCall>>,
    during: During,
    stop: StopReason,
}

fn scene(name: &'static str, runtime: RuntimeBuilder, turns: &[&str]) -> Scene {
    let turns = turns.iter().map(|text| calls(text)).collect();
    Scene { name, runtime, turns, during: During::Nothing, stop: StopReason::Done }
}

fn answers(answer: impl Fn(&str) -> ApprovalResponse + Send + Sync + 'static) -> RuntimeBuilder {
    let answer = Arc::new(answer);
    base().policy(AskAlways).approver(approver_fn("person", move |request| {
        let answer = answer(request.call.tool().name().as_str());
        Box::pin(async move { Ok(answer) })
    }))
}

fn scenes() -> Vec<Scene> {
    let allow = || base().policy(AllowAll);
    let broken = vec![
        ToolCall::new("a", "quick", "{\"x\":"),
        ToolCall::new("a", "quick", "{}"),
        ToolCall::new("", "nosuch", "{}"),
        ToolCall::new("b", "quick", "{\"y\": 1}"),
        ToolCall::new("c", "quick", "{\"x\": \"1\",}"),
    ];
    vec![
        scene("plain reads share a batch", base(), &["quick:1 quick:2 quick:3"]),
        scene("default policy refuses a write", base(), &["writes"]),
        scene("reads and writes", allow(), &["quick slow writes quick writes_slowly slow"]),
        scene("failures", allow(), &["fails panics late quick"]),
        scene("nested calls", allow(), &["nests quick", "nests"]),
        scene("large and unsafe text", allow(), &["long dirty"]),
        scene(
            "cache, retry, rate",
            allow(),
            &["cached:1 cached:1 retried rated rated rated", "cached:1"],
        ),
        scene("breaker", allow(), &["late", "late", "late", "late"]),
        scene("check", allow(), &["checked:good checked:bad"]),
        scene("streamed output", allow(), &["streams"]),
        scene("sibling abort", allow(), &["slow aborts slow"]),
        scene("deny all", base().policy(DenyAlways), &["quick writes"]),
        scene("asked without an approver", base().policy(AskAlways), &["quick"]),
        scene("approved once", answers(|_| ApprovalResponse::allow()), &["quick writes"]),
        scene(
            "approved for the session",
            answers(|_| ApprovalResponse::Allow { scope: ApprovalScope::Session, comment: None }),
            &["quick quick", "quick"],
        ),
        scene(
            "declined until it stops asking",
            answers(|_| ApprovalResponse::Deny(Some("not now".to_owned()))),
            &["quick", "quick", "quick", "quick", "quick"],
        ),
        scene(
            "edited, then answered by the person",
            answers(|tool| match tool {
                "quick" => ApprovalResponse::Edit(json!({"x": "edited"})),
                _ => ApprovalResponse::ReplaceResult("done by hand".to_owned()),
            }),
            &["quick writes"],
        ),
        scene("a rule rewrites", base().policy(Rewrites), &["quick:before"]),
        scene(
            "hooks rewrite, block and append",
            allow()
                .hook(before_fn("rewriter", |call| {
                    let decision = match call.arguments()["x"].as_str() {
                        Some("block") => PreCallDecision::block("blocked by the test"),
                        Some("halt") => PreCallDecision::proceed().with_halt("halted by the test"),
                        Some("judge") => PreCallDecision::verdict(Verdict::deny("judged")),
                        Some(x) if !x.ends_with('!') => {
                            PreCallDecision::rewrite(json!({"x": format!("{x}!")}))
                        }
                        _ => PreCallDecision::proceed().with_host_note("seen"),
                    };
                    Ok(decision)
                }))
                .hook(Appends),
            &["quick:a quick:block quick:judge writes", "quick:halt quick:b", "quick:c"],
        ),
        scene(
            "guards",
            allow().guard(guard_fn("careful", |call| match call.arguments()["x"].as_str() {
                Some("no") => Ok(Some(Verdict::deny("careful denies it"))),
                Some("ask") => Ok(Some(Verdict::ask("careful asks"))),
                Some("broken") => Err(Failure::failed("broken")),
                _ => Ok(None),
            })),
            &["quick:yes quick:no quick:ask quick:broken"],
        ),
        scene(
            "middleware",
            allow()
                .middleware(middleware_fn("shouts", |_, next| {
                    Box::pin(
                        async move { Ok(Output::text(next.run().await?.as_text().to_uppercase())) },
                    )
                }))
                .middleware_for(
                    "writes",
                    middleware_fn("answers", |_, _| {
                        Box::pin(async { Ok(Output::text("instead")) })
                    }),
                ),
            &["quick:a slow writes fails cached:1 cached:1"],
        ),
        scene(
            "budget of calls",
            allow().budget(Budget { calls: Some(2), ..Budget::default() }),
            &["quick quick quick", "quick"],
        ),
        scene(
            "no markers",
            {
                let mut config = Config::default();
                config.frame = Frame::Never;
                allow().config(config)
            },
            &["quick dirty fails"],
        ),
        Scene { turns: vec![broken], ..scene("broken calls", allow(), &[]) },
        Scene {
            stop: StopReason::Truncated,
            ..scene("truncated message", allow(), &["quick writes"])
        },
        Scene {
            during: During::Interrupt(2),
            ..scene("interrupt", allow(), &["slow writes_slowly quick"])
        },
        Scene {
            during: During::Abort(2),
            ..scene("abort", allow(), &["writes_slowly quick slow"])
        },
        Scene {
            during: During::CancelFirst(2),
            ..scene("cancel one call", allow(), &["slow slow"])
        },
    ]
}

/// Replaces what differs from run to run: random ids, dates, line numbers of this file.
fn stable(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while !rest.is_empty() {
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        let is_line = out.ends_with("golden.rs:");
        out.push_str(match word.len() {
            26 => "<id>",
            13 if word.bytes().all(|b| b.is_ascii_digit()) => "<date>",
            _ if is_line => "<line>",
            _ => word,
        });
        let mut chars = tail.chars();
        out.extend(chars.next());
        rest = chars.as_str();
    }
    out
}

async fn play(scene: Scene) -> Vec<String> {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let journal = MemoryJournal::new(1_000);
    let seen = Arc::clone(&lines);
    let runtime = scene
        .runtime
        .journal(journal.clone())
        .observer(move |event: &Event| {
            seen.lock().unwrap().push(format!("event {}", serde_json::to_string(event).unwrap()));
        })
        .build()
        .unwrap();
    let run = runtime.run();
    for turn_calls in scene.turns {
        let turn = run.turn().await.unwrap();
        let handle = turn.handle();
        let during = async {
            let wait = |millis| tokio::time::sleep(Duration::from_millis(millis));
            match scene.during {
                During::Nothing => {}
                During::Interrupt(at) => {
                    wait(at).await;
                    handle.interrupt();
                }
                During::Abort(at) => {
                    wait(at).await;
                    handle.abort();
                }
                During::CancelFirst(at) => {
                    wait(at).await;
                    handle.cancel_call("c1");
                }
            }
        };
        let (results, ()) = tokio::join!(turn.run_with_stop_reason(turn_calls, scene.stop), during);
        let results: Vec<ToolResult> = results;
        for result in &results {
            let json = serde_json::to_string(result).unwrap();
            lines.lock().unwrap().push(format!("result {json} {:?}", result.model_text()));
        }
    }
    let mut lines = std::mem::take(&mut *lines.lock().unwrap());
    for record in journal.records() {
        let mut json = serde_json::to_value(&record).unwrap();
        json.as_object_mut().unwrap().shift_remove("at_unix_us");
        lines.push(format!("record {json}"));
    }
    lines.insert(0, format!("== {}", scene.name));
    lines
}

#[tokio::test(start_paused = true)]
async fn pipeline_behaves_as_recorded() {
    let mut lines = Vec::new();
    for scene in scenes() {
        lines.extend(play(scene).await);
    }
    let lines: Vec<String> = lines.iter().map(|line| stable(line)).collect();
    let now = lines.join("\n") + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/pipeline.txt");
    if std::env::var_os("HAFT_GOLDEN").is_some() {
        std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden")).unwrap();
        std::fs::write(path, &now).unwrap();
        return;
    }
    let golden = std::fs::read_to_string(path).unwrap();
    for (n, (was, is)) in golden.lines().zip(now.lines()).enumerate() {
        assert_eq!(is, was, "line {} of {path}", n + 1);
    }
    assert_eq!(now.lines().count(), golden.lines().count(), "lines of {path}");
}
