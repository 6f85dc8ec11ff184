//! Parked calls: a call that waits is written down, the runtime is dropped, and another runtime
//! finishes it. Its body runs once, and it has one terminal event.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft::{
    Config, FailureCode, Run, Runtime, ToolCall, ToolRegistry, ToolResult,
    approval::{ApprovalResponse, GrantStore, approver_fn},
    policy::{Decision, Policy, PolicyRequest, Verdict},
    testing::Nonces,
    tool::{DynTool, ToolSpec},
    turn::{ParkedCall, ParkedPhase},
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::kit::*;

const KEY: [u8; 32] = [7; 32];

/// What all processes of a test share: the world outside.
#[derive(Clone, Default)]
struct Outside {
    effects: Arc<Mutex<Vec<String>>>,
    log: Transcript,
    questions: Arc<AtomicUsize>,
}

impl Outside {
    fn effects(&self) -> Vec<String> {
        self.effects.lock().unwrap().clone()
    }
}

/// What the person of a process does.
#[derive(Clone, Copy, PartialEq)]
enum Person {
    Answers,
    NeverAnswers,
}

struct Rules;

impl Policy for Rules {
    fn decide(&self, request: &PolicyRequest<'_>) -> Verdict {
        match request.tool.name.as_str() {
            "send" | "send_keyed" | "slot" => Verdict::ask("it sends something"),
            "fill" if request.arguments.get("x").is_none() => {
                Verdict::new(Decision::NeedInput("x".to_owned()), "a person chooses x")
            }
            "forbidden" => Verdict::deny("not today"),
            _ => Verdict::allow("allowed"),
        }
    }
}

/// A process: a runtime with its own memory.
struct Process {
    runtime: Runtime,
    /// Bodies of `hold` wait for a permit.
    release: Arc<Semaphore>,
}

fn effect(spec: ToolSpec, outside: &Outside) -> DynTool {
    let (name, effects) = (spec.name.clone(), Arc::clone(&outside.effects));
    DynTool::new(spec, open_schema(), move |args, _| {
        let text = format!("{name}({})", args["x"].as_str().unwrap_or_default());
        effects.lock().unwrap().push(text.clone());
        async move { text }
    })
}

fn held(spec: ToolSpec, release: &Arc<Semaphore>) -> DynTool {
    let release = Arc::clone(release);
    DynTool::new(spec, open_schema(), move |_, _| {
        let release = Arc::clone(&release);
        async move {
            release.acquire().await.unwrap().forget();
            "held"
        }
    })
}

/// A tool of which one call runs at a time. A call with `hold` waits for its release.
fn slot(outside: &Outside, release: &Arc<Semaphore>) -> DynTool {
    let (effects, release) = (Arc::clone(&outside.effects), Arc::clone(release));
    DynTool::new(write("slot").concurrency(1), open_schema(), move |args, _| {
        let (effects, release) = (Arc::clone(&effects), Arc::clone(&release));
        async move {
            if args["x"] == "hold" {
                release.acquire().await.unwrap().forget();
            } else {
                effects.lock().unwrap().push(format!("slot({})", args["x"].as_str().unwrap()));
            }
            "slot"
        }
    })
}

fn process_with(outside: &Outside, person: Person, key: [u8; 32], text: &str) -> Process {
    process_of(outside, person, key, text, Config::default())
}

fn process_of(
    outside: &Outside,
    person: Person,
    key: [u8; 32],
    text: &str,
    config: Config,
) -> Process {
    let release = Arc::new(Semaphore::new(0));
    let questions = Arc::clone(&outside.questions);
    let describe = |mut spec: ToolSpec| {
        spec.description = text.to_owned();
        spec
    };
    let nested = DynTool::new(read("outer"), open_schema(), |_, cx| async move {
        cx.call("send", json!({"x": "inside"})).await
    });
    let tools = vec![
        effect(describe(write("send")), outside),
        effect(describe(write("fill")), outside),
        effect(read("look"), outside),
        effect(write("forbidden"), outside),
        effect(write("send_keyed").keys(["file:/a"]), outside),
        slot(outside, &release),
        held(write("hold"), &release),
        held(write("hold_keyed").keys(["file:/a"]), &release),
        nested,
    ];
    let runtime = Runtime::builder()
        .registry(ToolRegistry::builder().add(tools).build().unwrap())
        .policy(Rules)
        .config(config)
        .grants(GrantStore::with_key(key, Duration::from_secs(1_000)).unwrap())
        .nonces(Nonces::counting(0))
        .observer(outside.log.observer())
        .approver(approver_fn("the person", move |question| {
            questions.fetch_add(1, Ordering::SeqCst);
            let input = matches!(question.verdict.decision, Decision::NeedInput(_));
            Box::pin(async move {
                if person == Person::NeverAnswers {
                    std::future::pending::<()>().await;
                }
                Ok(match input {
                    true => ApprovalResponse::Input(json!("chosen")),
                    false => ApprovalResponse::allow(),
                })
            })
        }))
        .build()
        .unwrap();
    Process { runtime, release }
}

fn process(outside: &Outside, person: Person) -> Process {
    process_with(outside, person, KEY, "Does something.")
}

impl Process {
    fn run(&self) -> Run {
        self.runtime.run_builder().id("the run").start()
    }
}

/// Runs calls, parks the turn when they all wait, and returns the results.
async fn park(run: &Run, calls: Vec<ToolCall>) -> Vec<ToolResult> {
    let turn = run.turn().await.unwrap();
    let handle = turn.handle();
    let running = turn.run(calls);
    tokio::pin!(running);
    loop {
        tokio::select! {
            biased;
            results = &mut running => return results,
            // The clock is paused, so this ends when everything else waits.
            () = tokio::time::sleep(Duration::from_millis(10)) => handle.park(),
        }
    }
}

fn parked(results: &[ToolResult]) -> Vec<String> {
    results
        .iter()
        .map(|result| {
            assert_eq!(result.failure().map(|f| f.code()), Some(FailureCode::NotRun));
            serde_json::to_string(result.parked().expect("a parked call")).unwrap()
        })
        .collect()
}

fn phases(results: &[ToolResult]) -> Vec<ParkedPhase> {
    results.iter().map(|result| result.parked().expect("a parked call").phase()).collect()
}

fn read_back(saved: &[String]) -> Vec<ParkedCall> {
    saved.iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

/// What the model gets, without what differs from one run to the next.
fn shown(results: &[ToolResult]) -> Vec<Value> {
    let without_time = |result: &ToolResult| {
        let mut json = serde_json::to_value(result).unwrap();
        json.as_object_mut().unwrap().remove("elapsed_us");
        json
    };
    results.iter().map(without_time).collect()
}

async fn resume(process: &Process, saved: &[String]) -> Vec<ToolResult> {
    process.run().turn().await.unwrap().resume(read_back(saved)).await
}

/// Parks these calls where they wait for a person, drops the runtime, and finishes them in another.
async fn parks_and_finishes(text: &str, expected: &[ParkedPhase]) {
    let unparked = Outside::default();
    let direct = process(&unparked, Person::Answers).run().turn().await.unwrap();
    let direct = direct.run(calls(text)).await;

    let outside = Outside::default();
    let first = process(&outside, Person::NeverAnswers);
    let results = park(&first.run(), calls(text)).await;
    assert_eq!(phases(&results), expected, "{text}");
    let saved = parked(&results);
    assert!(outside.effects().is_empty(), "{text}: nothing ran");
    assert_eq!(outside.log.lines().iter().filter(|l| l.contains("finished")).count(), 0);
    drop((results, first));

    let second = process(&outside, Person::Answers);
    let results = resume(&second, &saved).await;
    assert_eq!(shown(&results), shown(&direct), "{text}");
    assert_eq!(outside.effects(), unparked.effects(), "{text}: each body ran once");
    for result in &results {
        assert_eq!(outside.log.ends_of(result.id().as_str()), 1, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_person_is_finished_by_another_process() {
    use ParkedPhase::{Approval, Input, Start};
    parks_and_finishes("send:a", &[Approval]).await;
    parks_and_finishes("fill", &[Input]).await;
    // The second write is of a later batch, so it has not begun.
    parks_and_finishes("send:a send:b", &[Approval, Start]).await;
    parks_and_finishes("send:a look:b fill", &[Approval, Start, Start]).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_in_the_approval_queue_is_finished_by_another_process() {
    let outside = Outside::default();
    let first = process(&outside, Person::NeverAnswers);
    // Only one question is open at a time.
    let (one, two) = (first.run(), first.runtime.run_builder().id("another run").start());
    let second_call = vec![ToolCall::new("c2", "slot", json!({"x": "b"}))];
    let (one, two) = tokio::join!(park(&one, calls("send:a")), park(&two, second_call));
    assert_eq!(outside.questions.load(Ordering::SeqCst), 1, "the second call waits in the queue");
    let (one, two) = (parked(&one), parked(&two));
    drop(first);
    let second = process(&outside, Person::Answers);
    let results = resume(&second, &one).await;
    assert_eq!(ends(&results), ["c1 ok"]);
    let run = second.runtime.run_builder().id("another run").start();
    let results = run.turn().await.unwrap().resume(read_back(&two)).await;
    assert_eq!(ends(&results), ["c2 ok"]);
    assert_eq!(outside.effects(), ["send(a)", "slot(b)"]);
}

#[tokio::test(start_paused = true)]
async fn a_parked_request_counts_once_against_the_limit_of_requests() {
    let outside = Outside::default();
    let mut config = Config::default();
    config.max_prompts = 2;
    let text = "Does something.";
    // One runtime whose person never answers, so that every request is parked.
    let process = process_of(&outside, Person::NeverAnswers, KEY, text, config);
    let run = process.run();
    let call = |id: &str| vec![ToolCall::new(id, "send", json!({"x": id}))];
    let mut saved = parked(&park(&run, call("c1")).await);
    for _ in 0..3 {
        // Resumed, asked again and parked again: still one request.
        let turn = run.turn().await.unwrap();
        let handle = turn.handle();
        let resumed = turn.resume(read_back(&saved));
        tokio::pin!(resumed);
        let results = tokio::select! {
            biased;
            results = &mut resumed => results,
            () = tokio::time::sleep(Duration::from_millis(10)) => {
                handle.park();
                resumed.await
            }
        };
        assert_eq!(phases(&results), [ParkedPhase::Approval]);
        saved = parked(&results);
    }
    assert_eq!(outside.questions.load(Ordering::SeqCst), 4, "the approver saw it each time");
    assert_eq!(phases(&park(&run, call("c2")).await), [ParkedPhase::Approval], "the second");
    let third = park(&run, call("c3")).await;
    assert_eq!(ends(&third), ["c3 denied"], "the third is one too many");
    assert!(third[0].text().contains("too many approval requests"), "{}", third[0].text());
    assert!(outside.effects().is_empty());
}

/// A call that was approved and waits for its locks is not asked about again.
async fn parks_at_locks(holder: &str, waiting: &str, is_same_run: bool) {
    let outside = Outside::default();
    let first = process(&outside, Person::Answers);
    let run = first.run();
    let holding = if is_same_run { run.clone() } else { first.runtime.run() };
    let holding = holding.turn().await.unwrap().run(calls(holder));
    tokio::pin!(holding);
    let results = tokio::select! {
        biased;
        _ = &mut holding => panic!("{holder} waits for its release"),
        results = park(&run, calls(&format!("{waiting}:a"))) => results,
    };
    assert_eq!(phases(&results), [ParkedPhase::Locks], "{waiting}");
    let saved = parked(&results);
    let asked = outside.questions.load(Ordering::SeqCst);
    // The body of the other call runs, so it finishes.
    first.release.add_permits(1);
    assert_eq!(ends(&holding.await), ["c1 ok"]);
    drop((run, first));

    let second = process(&outside, Person::NeverAnswers);
    let results = resume(&second, &saved).await;
    assert_eq!(ends(&results), ["c1 ok"], "{waiting}");
    assert_eq!(outside.effects(), [format!("{waiting}(a)")]);
    assert_eq!(outside.questions.load(Ordering::SeqCst), asked, "the approval still holds");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_its_locks_is_finished_by_another_process() {
    parks_at_locks("hold", "send", true).await;
    parks_at_locks("hold_keyed", "send_keyed", false).await;
    parks_at_locks("slot:hold", "slot", false).await;
}

/// Parks one call that waits for an approval.
async fn one_parked(outside: &Outside) -> String {
    let first = process(outside, Person::NeverAnswers);
    let results = park(&first.run(), calls("send:a")).await;
    parked(&results).remove(0)
}

async fn refused(outside: &Outside, process: &Process, saved: &str) {
    let before = outside.effects();
    let results = resume(process, &[saved.to_owned()]).await;
    assert_eq!(ends(&results), ["c1 denied"], "{saved}");
    assert_eq!(outside.effects(), before, "nothing ran");
}

#[tokio::test(start_paused = true)]
async fn a_parked_call_that_was_changed_is_refused() {
    let outside = Outside::default();
    let saved = one_parked(&outside).await;
    for (from, to) in [
        (r#""x":"a""#, r#""x":"b""#),
        (r#""round":0"#, r#""round":1"#),
        (r#""phase":"approval""#, r#""phase":"locks""#),
        (r#""cycle":1"#, r#""cycle":2"#),
        ("haft-seal1.", "haft-seal1.0"),
        ("haft-seal1.", "haft-seal2."),
    ] {
        assert!(saved.contains(from), "{from} in {saved}");
        let changed = saved.replacen(from, to, 1);
        refused(&outside, &process(&outside, Person::Answers), &changed).await;
    }
    let with_allow = saved.replacen(
        r#""round":0"#,
        r#""round":0,"hook_allow":{"decision":"allow","reason":"","source":""}"#,
        1,
    );
    refused(&outside, &process(&outside, Person::Answers), &with_allow).await;
    // The order of keys does not matter: a store may change it.
    let reordered: std::collections::BTreeMap<String, Value> =
        serde_json::from_str(&saved).unwrap();
    let reordered = serde_json::to_string(&reordered).unwrap();
    let results = resume(&process(&outside, Person::Answers), &[reordered]).await;
    assert_eq!(ends(&results), ["c1 ok"]);
}

#[tokio::test(start_paused = true)]
async fn a_parked_call_is_resumed_once_with_its_key_for_its_tool_in_its_run() {
    let outside = Outside::default();
    let saved = one_parked(&outside).await;
    let other_key = process_with(&outside, Person::Answers, [8; 32], "Does something.");
    refused(&outside, &other_key, &saved).await;
    let other_tool = process_with(&outside, Person::Answers, KEY, "Does something else.");
    refused(&outside, &other_tool, &saved).await;
    let second = process(&outside, Person::Answers);
    let other_run = second.runtime.run_builder().id("another run").start();
    let results =
        other_run.turn().await.unwrap().resume(read_back(std::slice::from_ref(&saved))).await;
    assert_eq!(ends(&results), ["c1 denied"]);
    let results = resume(&second, std::slice::from_ref(&saved)).await;
    assert_eq!(ends(&results), ["c1 ok"]);
    refused(&outside, &second, &saved).await;
    assert_eq!(outside.effects(), ["send(a)"]);
}

#[tokio::test(start_paused = true)]
async fn a_parked_call_is_authorized_again() {
    let outside = Outside::default();
    let first = process(&outside, Person::NeverAnswers);
    let results = park(&first.run(), calls("send:a forbidden:b")).await;
    let saved = parked(&results);
    let second = process(&outside, Person::Answers);
    let results = resume(&second, &saved).await;
    assert_eq!(ends(&results), ["c1 ok", "c2 denied"]);
    assert_eq!(outside.effects(), ["send(a)"]);
}

#[tokio::test(start_paused = true)]
async fn a_resumed_call_can_be_parked_again() {
    let outside = Outside::default();
    let saved = one_parked(&outside).await;
    let second = process(&outside, Person::NeverAnswers);
    let turn = second.run().turn().await.unwrap();
    turn.handle().park();
    let results = turn.resume(read_back(&[saved])).await;
    assert_eq!(phases(&results), [ParkedPhase::Approval]);
    let third = process(&outside, Person::Answers);
    let results = resume(&third, &parked(&results)).await;
    assert_eq!(ends(&results), ["c1 ok"]);
    assert_eq!(outside.log.ends_of("c1"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_nested_call_is_not_parked_because_its_caller_runs() {
    let outside = Outside::default();
    let first = process(&outside, Person::NeverAnswers);
    let turn = first.run().turn().await.unwrap();
    let handle = turn.handle();
    let running = turn.run(calls("outer"));
    tokio::pin!(running);
    let waits = tokio::time::timeout(Duration::from_secs(60), async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        handle.park();
        std::future::pending::<()>().await;
    });
    tokio::select! {
        biased;
        _ = &mut running => panic!("the nested call waits for its approval"),
        _ = waits => {}
    }
    handle.abort();
    let results = running.await;
    assert!(results[0].parked().is_none());
    assert_eq!(ends(&results), ["c1 cancelled"]);
}
