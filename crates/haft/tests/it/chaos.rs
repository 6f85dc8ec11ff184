//! Exactly one result per call, under random faults.
//!
//! Random tools (panicking, hanging, slow, failing, blocking, nesting), random bytes as arguments,
//! unknown names, duplicate and empty ids, random cancellations: each call gets one result, in
//! order, with one terminal event and one record, and nothing ran that was not authorized.

use std::{collections::HashSet, time::Duration};

use haft::{
    Config, Failure, FailureCode, Runtime, ToolCall, ToolRegistry,
    journal::MemoryJournal,
    policy::{AllowAll, Policy},
    tool::{ConcurrencyClass, DynTool, Execution, Interrupt},
    turn::{Arguments, StopReason},
};
use proptest::prelude::*;
use serde_json::json;

use crate::kit::*;

#[derive(Debug, Clone, Copy)]
enum Act {
    Interrupt,
    Force,
    CancelOne,
    Drop,
    Nothing,
}

/// Tools that need no thread. A paused clock runs ahead of real threads, so these scenes use none.
const ASYNC: &[&str] = &[
    "quick", "slow", "panics", "hangs", "fails", "nests", "writes", "unsafe", "aborts", "claims",
    "deaf",
];
/// Tools for scenes in real time.
const ALL: &[&str] = &[
    "quick", "slow", "panics", "hangs", "fails", "nests", "writes", "unsafe", "aborts", "claims",
    "deaf", "blocks", "blocks",
];

#[derive(Debug, Clone)]
struct Scene {
    calls: Vec<(String, String, Vec<u8>)>,
    act: Act,
    at: u64,
    stream: bool,
    stop: StopReason,
    abort: bool,
    strict: bool,
}

fn scene(names: &'static [&'static str]) -> impl Strategy<Value = Scene> {
    let name = prop_oneof![
        8 => prop::sample::select(names).prop_map(|name| name.to_owned()),
        1 => ".{0,12}",
    ];
    let id = prop_oneof![4 => "[a-z]{6}", 1 => prop::sample::select(vec!["", "same", "same-2"]).prop_map(str::to_owned)];
    let arguments = prop_oneof![
        4 => Just(b"{}".to_vec()),
        2 => Just(b"{\"x\":\"a\"}".to_vec()),
        2 => prop::collection::vec(any::<u8>(), 0..40),
        1 => Just(b"{\"x\":".to_vec()),
    ];
    let act = prop::sample::select(vec![
        Act::Interrupt,
        Act::Force,
        Act::CancelOne,
        Act::Drop,
        Act::Nothing,
    ]);
    let stop = prop_oneof![4 => Just(StopReason::Done), 1 => Just(StopReason::Truncated), 1 => Just(StopReason::Unknown)];
    (
        prop::collection::vec((name, id, arguments), 0..16),
        act,
        0u64..30,
        any::<bool>(),
        stop,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(calls, act, at, stream, stop, abort, strict)| {
            let calls = calls.into_iter().map(|(name, id, bytes)| (id, name, bytes)).collect();
            Scene { calls, act, at, stream, stop, abort, strict }
        })
}

fn tools() -> Vec<DynTool> {
    let hang = |spec| {
        DynTool::new(spec, open_schema(), |_, cx| async move {
            cx.partial("some");
            cx.cancelled().await;
            Err::<(), _>(Failure::failed("asked to stop"))
        })
    };
    vec![
        quick(read("quick")),
        slow(read("slow").interrupt(Interrupt::Cancel), 7),
        DynTool::new(read("panics"), open_schema(), |_, _| async {
            tokio::task::yield_now().await;
            if true {
                panic!("on purpose");
            }
        }),
        hang(read("hangs").timeout(Duration::from_millis(20))),
        failing(read("fails")),
        DynTool::new(write("blocks"), open_schema(), |_, cx| async move {
            cx.spawn_blocking(|_| ()).await?;
            Ok::<_, Failure>("blocked")
        }),
        DynTool::new(read("nests"), open_schema(), |_, cx| async move {
            let inner = cx.call("slow", json!({})).await?;
            let _ = cx.call("panics", json!({})).await;
            let _ = cx.call("writes", json!({})).await;
            Ok::<_, Failure>(inner)
        }),
        slow(write("writes"), 3),
        slow(
            haft::tool::ToolSpec::new("unsafe", "Does anything.").class(ConcurrencyClass::Unsafe),
            2,
        ),
        failing(read("aborts").abort_siblings(true)),
        quick(read("claims")).with_profile(|_, _, _| panic!("on purpose")),
        // Ignores its token and must be dropped.
        DynTool::new(read("deaf").timeout(Duration::from_millis(5)), open_schema(), |_, _| async {
            std::future::pending::<()>().await;
        }),
    ]
}

/// Plays a scene. The grace period is real time on real threads, where a busy machine may delay a
/// thread for longer than the body needs.
async fn play(scene: Scene, grace: Duration) -> Result<(), TestCaseError> {
    let transcript = Transcript::default();
    let journal = MemoryJournal::new(1_000);
    let mut config = Config::default();
    config.max_concurrency = 4;
    config.grace = grace;
    let builder = Runtime::builder()
        .registry(ToolRegistry::builder().add(tools()).build().unwrap())
        .config(config)
        .journal(journal.clone())
        .observer(transcript.observer());
    let runtime = if scene.strict {
        builder.build().unwrap()
    } else {
        builder.policy(AllowAll).build().unwrap()
    };
    let mut turn = runtime.run().turn().await.unwrap();
    if scene.abort {
        turn = turn.abort_siblings();
    }
    let control = turn.handle();
    let calls: Vec<ToolCall> = scene
        .calls
        .iter()
        .map(|(id, name, bytes)| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            ToolCall::new(id.as_str(), name.as_str(), Arguments::Text(text))
        })
        .collect();
    let wanted = calls.len();
    let first = calls.first().map(|c| c.id.to_string()).unwrap_or_default();
    let names: Vec<String> = calls.iter().map(|c| c.name.to_string()).collect();
    let work = async {
        if !scene.stream {
            return turn.run_with_stop_reason(calls, scene.stop).await;
        }
        let mut intake = turn.schedule();
        for call in calls {
            tokio::time::sleep(Duration::from_millis(1)).await;
            intake.push(call);
        }
        intake.finish(scene.stop).await
    };
    let act = async {
        tokio::time::sleep(Duration::from_millis(scene.at)).await;
        match scene.act {
            Act::Interrupt => control.interrupt(),
            Act::Force => control.abort(),
            Act::CancelOne => drop(control.cancel_call(&first)),
            Act::Drop | Act::Nothing => {}
        }
    };
    let answers = if matches!(scene.act, Act::Drop) && !scene.stream {
        match tokio::time::timeout(Duration::from_millis(scene.at), work).await {
            Ok(answers) => answers,
            Err(_) => {
                // The receiver is gone; every accepted call must still end and be recorded.
                let top = |journal: &MemoryJournal| -> Vec<String> {
                    let all = settled(journal).into_iter().map(|r| r.call.to_string());
                    all.filter(|id| !id.contains('>')).collect()
                };
                for _ in 0..500 {
                    if top(&journal).len() == wanted {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                let settled = top(&journal);
                prop_assert_eq!(settled.len(), wanted);
                for id in settled {
                    prop_assert_eq!(transcript.ends_of(&id), 1);
                }
                return Ok(());
            }
        }
    } else {
        let both = async { tokio::join!(work, act).0 };
        match tokio::time::timeout(Duration::from_secs(60), both).await {
            Ok(answers) => answers,
            Err(_) => return Err(TestCaseError::fail("the turn hangs")),
        }
    };

    prop_assert_eq!(answers.len(), wanted, "one answer per call");
    let ids: HashSet<&str> = answers.iter().map(|a| a.id().as_str()).collect();
    prop_assert_eq!(ids.len(), wanted, "each under an id of its own");
    for (answer, name) in answers.iter().zip(&names) {
        prop_assert_eq!(answer.requested_name().as_str(), name.as_str(), "in the model's order");
        prop_assert_eq!(transcript.ends_of(answer.id().as_str()), 1, "one terminal event");
        let records = settled(&journal).iter().filter(|s| s.call == *answer.id()).count();
        prop_assert_eq!(records, 1, "one record");
        let intended = intents(&journal).iter().any(|i| i.call == *answer.id());
        // The circuit breaker opens after the intent is journaled, if calls of one tool fail at once.
        let is_open = answer.failure().map(Failure::code) == Some(FailureCode::CircuitOpen);
        prop_assert_eq!(
            intended && !is_open,
            answer.execution() != Execution::NotStarted,
            "{} {:?}",
            answer.id(),
            answer.failure()
        );
        if scene.strict && intended {
            let class = intents(&journal)
                .iter()
                .find(|i| i.call == *answer.id())
                .and_then(|i| i.intent.as_ref().map(|i| i.class));
            prop_assert_eq!(
                class,
                Some(ConcurrencyClass::ReadOnly),
                "nothing else is allowed by default"
            );
        }
        let lost = answer.failure().is_some_and(|f| f.code() == FailureCode::UnknownOutcome);
        prop_assert!(!lost || name == "blocks", "{name} was lost: {:?}", answer.failure());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_call_is_answered_exactly_once(scene in scene(ASYNC)) {
        quiet();
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        tokio.block_on(play(scene, Duration::from_millis(5)))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn every_call_is_answered_exactly_once_on_real_threads(scene in scene(ALL)) {
        quiet();
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_time()
            .build()
            .unwrap();
        tokio.block_on(play(scene, Duration::from_millis(250)))?;
    }
}

/// The panics here are intended; their output would hide the test's own.
fn quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let on_purpose = info.payload().downcast_ref::<&str>() == Some(&"on purpose");
            if !on_purpose {
                usual(info);
            }
        }));
    });
}

/// The chaos test must be able to fail: a policy that is never consulted would allow everything.
#[tokio::test]
async fn strict_scenes_refuse_some_calls() {
    struct Never;
    impl Policy for Never {
        fn decide(&self, _: &haft::policy::PolicyRequest<'_>) -> haft::policy::Verdict {
            haft::policy::Verdict::deny("never")
        }
    }
    let journal = MemoryJournal::new(10);
    let runtime = Runtime::builder()
        .registry(ToolRegistry::builder().add(tools()).build().unwrap())
        .policy(Never)
        .journal(journal.clone())
        .build()
        .unwrap();
    let answers = runtime.run().turn().await.unwrap().run(calls("quick writes unsafe")).await;
    assert!(answers.iter().all(|a| a.failure().is_some_and(|f| f.code() == FailureCode::Denied)));
    assert!(intents(&journal).is_empty());
}
