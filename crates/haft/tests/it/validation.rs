//! Invalid arguments: what the model reads, what is repaired, and where the repair is visible.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use haft::{
    BoxFuture, Config, Failure, FailureCode, ToolCall,
    events::Event,
    hooks::{Hook, PreCallDecision},
    journal::MemoryJournal,
    policy::{Guard, Verdict},
    schema::{Formats, Repair, RepairKind, RepairPolicy, Schema},
    tool::{DynTool, RetryHint, ToolSpec},
    turn::{Arguments, StopReason, ValidatedCall},
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::kit::*;

/// Returns a tool that returns its arguments.
fn echo(spec: ToolSpec) -> DynTool {
    let schema = json!({
        "properties": {
            "count": {"type": "integer"},
            "mode": {"enum": ["fast", "slow"]},
            "list": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["count"],
    });
    DynTool::new(spec, schema, |args, _| async move { args.to_string() })
}

fn call(arguments: impl Into<Arguments>) -> ToolCall {
    ToolCall::new("c", "echo", arguments)
}

fn kinds(repairs: &[Repair]) -> Vec<RepairKind> {
    repairs.iter().map(|repair| repair.kind).collect()
}

/// Records the arguments that it is asked about.
#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Vec<String>>>);

impl Guard for Witness {
    fn name(&self) -> &str {
        "witness"
    }

    fn decide<'a>(
        &'a self,
        call: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>> {
        let text = format!("{} after {} repairs", call.arguments(), call.repairs().len());
        self.0.lock().unwrap().push(text);
        Box::pin(async { Ok(None) })
    }
}

#[tokio::test]
async fn repaired_call_runs_and_the_repair_is_reported() {
    let (witness, journal) = (Witness::default(), MemoryJournal::new(10));
    let events: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let seen = Arc::clone(&events);
    let observer = move |event: &Event| {
        let line = match event {
            Event::Started { .. } => "started",
            Event::Repaired { repairs, .. } => {
                assert_eq!(kinds(repairs), [RepairKind::TrailingComma, RepairKind::Number]);
                "repaired"
            }
            Event::Authorized { .. } => "permitted",
            Event::Finished { .. } => "finished",
            _ => return,
        };
        seen.lock().unwrap().push(line);
    };
    let runtime = permissive(vec![echo(read("echo"))])
        .guard(witness.clone())
        .journal(journal.clone())
        .observer(observer)
        .build()
        .unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let answers = turn.run([call(r#"{"count": "3",}"#)]).await;
    assert_eq!(answers[0].text(), r#"{"count":3}"#);
    assert_eq!(*witness.0.lock().unwrap(), [r#"{"count":3} after 2 repairs"#]);
    assert_eq!(*events.lock().unwrap(), ["started", "repaired", "permitted", "finished"]);
    let repairs = json!([
        {"pointer": "", "kind": "trailing_comma", "before": "1 trailing comma"},
        {"pointer": "/count", "kind": "number", "before": "\"3\"", "after": "3"},
    ]);
    assert_eq!(serde_json::to_value(&answers[0]).unwrap()["repairs"], repairs);
    let record = serde_json::to_value(&journal.records()[0]).unwrap();
    assert_eq!(record["intent"]["repairs"], repairs);
    assert_eq!(record["intent"]["arguments"], json!({"count": 3}));
}

#[tokio::test]
async fn valid_arguments_are_not_repaired() {
    let runtime = permissive(vec![echo(read("echo"))])
        .observer(|event: &Event| assert!(!matches!(event, Event::Repaired { .. })))
        .build()
        .unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let answers = turn.run([call(json!({"count": 3, "mode": "fast"}))]).await;
    assert_eq!(answers[0].text(), r#"{"count":3,"mode":"fast"}"#);
    assert!(answers[0].repairs().is_empty());
    assert_eq!(serde_json::to_value(&answers[0]).unwrap().get("repairs"), None);
}

#[tokio::test]
async fn destructive_tool_has_fewer_repairs() {
    let check = |spec: ToolSpec, arguments: Value| async move {
        let runtime = permissive(vec![echo(spec)]).build().unwrap();
        runtime.call("echo", arguments).await.map_err(|failure| failure.code())
    };
    let silent = || ToolSpec::new("echo", "Echoes.");
    let (number, word) = (json!({"count": "3"}), json!({"count": 3, "mode": "FAST"}));
    for spec in [silent(), silent().destructive(true)] {
        assert!(check(spec.clone(), number.clone()).await.is_ok());
        assert_eq!(check(spec, word.clone()).await.unwrap_err(), FailureCode::BadArguments);
    }
    for spec in [read("echo"), silent().destructive(false)] {
        assert!(check(spec.clone(), number.clone()).await.is_ok());
        assert!(check(spec, word.clone()).await.is_ok());
    }
}

#[tokio::test]
async fn object_inside_a_string_is_unwrapped() {
    let runtime = permissive(vec![echo(read("echo"))]).build().unwrap();
    for arguments in [
        Arguments::Json(json!(r#"{"count": 3}"#)),
        Arguments::Text(json!(r#"{"count": 3}"#).to_string()),
    ] {
        let turn = runtime.run().turn().await.unwrap();
        let answers = turn.run([call(arguments)]).await;
        assert_eq!(answers[0].text(), r#"{"count":3}"#);
        assert_eq!(kinds(answers[0].repairs()), [RepairKind::DoubleEncoded]);
    }
    for arguments in [json!("nothing of the kind"), json!("[3]"), json!(3)] {
        let failure = runtime.call("echo", arguments).await.unwrap_err();
        assert_eq!(failure.code(), FailureCode::UnparseableArguments);
    }
}

#[tokio::test]
async fn repair_can_be_off_or_extended() {
    let with = |repair: RepairPolicy| {
        let mut config = Config::default();
        config.repair = repair;
        permissive(vec![echo(read("echo"))]).config(config).build().unwrap()
    };
    let cases = [
        (Arguments::from("{\"count\": 3,}"), [false, true, true]),
        (Arguments::from(json!({"count": "3"})), [false, true, true]),
        (Arguments::from(json!("{\"count\": 3}")), [false, true, true]),
        (Arguments::from("{'count': 3, 'mode': None}"), [false, false, true]),
    ];
    for (arguments, fits) in cases {
        for (repair, fits) in
            [RepairPolicy::Off, RepairPolicy::Lossless, RepairPolicy::Python].into_iter().zip(fits)
        {
            let answer = with(repair).call("echo", arguments.clone()).await;
            assert_eq!(answer.is_ok(), fits, "{arguments:?} with {repair:?}");
        }
    }
}

/// Replaces the arguments by its own.
struct Rewriter(Value);

impl Hook for Rewriter {
    fn name(&self) -> &str {
        "rewriter"
    }

    fn before<'a>(
        &'a self,
        _: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<PreCallDecision, Failure>> {
        Box::pin(async { Ok(PreCallDecision::rewrite(self.0.clone())) })
    }
}

#[tokio::test]
async fn a_hooks_rewrite_is_not_repaired() {
    let build = |rewrite: Value| {
        permissive(vec![echo(read("echo"))]).hook(Rewriter(rewrite)).build().unwrap()
    };
    let failure = build(json!({"count": "3"})).call("echo", json!({"count": 1})).await;
    assert_eq!(failure.unwrap_err().code(), FailureCode::HookFailed);
    // A repair before the hook's rewrite is still reported.
    let turn = build(json!({"count": 7})).run().turn().await.unwrap();
    let answers = turn.run([call(json!({"count": "3"}))]).await;
    assert_eq!((answers[0].text().as_ref(), answers[0].repairs().len()), (r#"{"count":7}"#, 1));
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_truncated_message_are_not_repaired() {
    let ran = Arc::new(AtomicUsize::new(0));
    let (count, repaired) = (Arc::clone(&ran), Arc::new(AtomicUsize::new(0)));
    let reported = Arc::clone(&repaired);
    let schema = json!({"properties": {"n": {"type": "integer"}}});
    let tool = DynTool::new(read("echo"), schema, move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        async { "ran" }
    });
    let transcript = Transcript::default();
    let runtime = permissive(vec![tool])
        .observer(transcript.observer())
        .observer(move |event: &Event| {
            reported
                .fetch_add(usize::from(matches!(event, Event::Repaired { .. })), Ordering::SeqCst);
        })
        .build()
        .unwrap();
    let slips = || [call(json!({"n": "1"})), ToolCall::new("d", "echo", "{\"n\": 1,}")];
    // A complete message whose end is known, and one whose end comes after its calls.
    let answers = runtime
        .run()
        .turn()
        .await
        .unwrap()
        .run_with_stop_reason(slips(), StopReason::Truncated)
        .await;
    assert_eq!(ends(&answers), ["c not_run", "d not_run"]);
    // An invalid call runs alone; repaired, the two would have shared a batch.
    let lines = transcript.lines();
    assert!(lines.iter().any(|line| line.starts_with("d echo batch 1")), "{lines:?}");
    let mut intake = runtime.run().turn().await.unwrap().schedule();
    slips().into_iter().for_each(|call| intake.push(call));
    intake.push(ToolCall::new("e", "echo", json!({"n": 1})));
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(ran.load(Ordering::SeqCst), 1, "only what needed no repair has begun");
    let answers = intake.finish(StopReason::Truncated).await;
    assert_eq!(ends(&answers), ["c not_run", "d not_run", "e ok"]);
    assert!(answers.iter().all(|answer| answer.repairs().is_empty()));
    assert_eq!((ran.load(Ordering::SeqCst), repaired.load(Ordering::SeqCst)), (1, 0));
    // The same calls in a message that ended well.
    let mut intake = runtime.run().turn().await.unwrap().schedule();
    slips().into_iter().for_each(|call| intake.push(call));
    assert_eq!(ends(&intake.finish(StopReason::Done).await), ["c ok", "d ok"]);
    assert_eq!((ran.load(Ordering::SeqCst), repaired.load(Ordering::SeqCst)), (3, 2));
}

#[tokio::test]
async fn second_failure_in_a_row_adds_an_example() {
    let runtime = permissive(vec![echo(read("echo")), quick(read("other"))]).build().unwrap();
    let run = runtime.run();
    let ask = |arguments: Value| {
        let run = run.clone();
        async move {
            let turn = run.turn().await.unwrap();
            turn.run([call(arguments)]).await[0].text().into_owned()
        }
    };
    const EXAMPLE: &str = r#"Valid arguments: {"count":1}"#;
    assert!(!ask(json!({})).await.contains("Valid arguments"));
    insta::assert_snapshot!(ask(json!({"count": "many"})).await, @r#"
    bad_arguments: /count: expected an integer; got "many" (string)
    Valid arguments: {"count":1}
    Next: call `echo` again with this fixed
    "#);
    assert!(ask(json!([])).await.contains(EXAMPLE), "also for what cannot be read");
    assert!(ask(json!({"count": 1})).await.starts_with('{'));
    assert!(!ask(json!({})).await.contains("Valid arguments"), "a success starts afresh");
    // Several in one turn count once: the model has not read the first answer yet.
    let turn = runtime.run().turn().await.unwrap();
    let answers = turn.run([call(json!({})), ToolCall::new("d", "echo", json!({}))]).await;
    assert!(answers.iter().all(|answer| !answer.text().contains("Valid arguments")));
}

#[tokio::test]
async fn after_three_failures_in_a_row_the_model_is_asked_to_stop() {
    let runtime = permissive(vec![echo(read("echo"))]).build().unwrap();
    let run = runtime.run();
    for _ in 0..3 {
        let answers = run.turn().await.unwrap().run([call(json!({}))]).await;
        assert_eq!(answers[0].failure().unwrap().retry(), RetryHint::Fix);
    }
    let answers = run.turn().await.unwrap().run([call(json!({}))]).await;
    let failure = answers[0].failure().unwrap();
    assert_eq!(failure.retry(), RetryHint::Never);
    assert!(failure.next().unwrap().starts_with("stop calling `echo`"), "{failure}");
    // It is advice: a valid call still runs, and resets the count.
    let answers = run.turn().await.unwrap().run([call(json!({"count": 1}))]).await;
    assert!(!answers[0].is_error());
}

/// A closed object with every kind of value in it.
fn rich() -> Value {
    json!({
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "count": {"type": "integer", "minimum": 0},
            "size": {"type": "number"},
            "flag": {"type": "boolean"},
            "mode": {"enum": ["fast", "slow", "SLOWER"]},
            "list": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
            "inner_part": {"$ref": "#/$defs/inner"},
            "shape": {"oneOf": [
                {"type": "object", "properties": {"kind": {"const": "dot"}, "at": {"type": "integer"}}, "required": ["kind"]},
                {"type": "object", "properties": {"kind": {"const": "bar"}, "at": {"type": "string"}}, "required": ["kind"]},
                {"type": "null"},
            ]},
            "either": {"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 3}]},
        },
        "required": ["text"],
        "additionalProperties": false,
        "$defs": {"inner": {
            "type": "object",
            "properties": {"count": {"type": "integer"}, "next_part": {"$ref": "#/$defs/inner"}},
            "additionalProperties": false,
        }},
    })
}

/// Values that a careless model would send for it.
fn careless_values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..5).prop_map(Value::from),
        (-2i64..5).prop_map(|n| json!(n.to_string())),
        prop_oneof![Just(1.0), Just(1.5), Just(-0.0)].prop_map(Value::from),
        prop_oneof![
            Just("true"),
            Just("1.50"),
            Just("[1,\"2\"]"),
            Just("{\"count\":\"1\"}"),
            Just("FAST"),
            Just("slower"),
            Just("dot"),
            Just("DOT"),
            Just("{\"kind\":\"DOT\",\"at\":\"3\"}"),
            Just("plain words"),
            Just(""),
            Just("null"),
        ]
        .prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("text"),
        Just("count"),
        Just("Count"),
        Just("size"),
        Just("flag"),
        Just("mode"),
        Just("list"),
        Just("inner_part"),
        Just("innerPart"),
        Just("Inner-Part"),
        Just("next_part"),
        Just("shape"),
        Just("kind"),
        Just("at"),
        Just("either"),
        Just("stranger"),
    ];
    let value = leaf.prop_recursive(3, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..5).prop_map(|map| {
                Value::Object(map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
            }),
        ]
    });
    let root = prop_oneof![
        Just("count"),
        Just("Count"),
        Just("size"),
        Just("flag"),
        Just("mode"),
        Just("list"),
        Just("inner_part"),
        Just("innerPart"),
        Just("shape"),
        Just("either"),
    ];
    prop::collection::btree_map(root, value, 0..3).prop_map(|map| {
        let mut map: Map<String, Value> = map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        map.insert("text".to_owned(), json!("something"));
        Value::Object(map)
    })
}

/// Reverts every recorded repair, the last one first. `None` when a record was truncated.
fn reverted(mut value: Value, repairs: &[Repair]) -> Option<Value> {
    for repair in repairs.iter().rev() {
        if repair.before.ends_with('…') {
            return None;
        }
        let before: Value = serde_json::from_str(&repair.before).unwrap();
        let (parent, key) = repair.pointer.rsplit_once('/').unwrap_or_default();
        let key = key.replace("~1", "/").replace("~0", "~");
        match repair.kind {
            RepairKind::Name => {
                let map = value.pointer_mut(parent).unwrap().as_object_mut().unwrap();
                let moved = map.remove(&key).unwrap();
                assert!(map.insert(before.as_str().unwrap().to_owned(), moved).is_none());
            }
            RepairKind::Null => {
                assert_eq!((&before, &repair.after), (&Value::Null, &None));
                let map = value.pointer_mut(parent).unwrap().as_object_mut().unwrap();
                assert!(map.insert(key, before).is_none());
            }
            _ => *value.pointer_mut(&repair.pointer).unwrap() = before,
        }
    }
    Some(value)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn repair_is_valid_reversible_and_leaves_valid_arguments_alone(sent in careless_values(), careful in any::<bool>()) {
        let schema = Schema::compile(&rich()).unwrap();
        let mut value = sent.clone();
        let repairs = schema.repair(&mut value, careful);
        if repairs.is_empty() {
            prop_assert_eq!(&value, &sent, "nothing is changed without a record");
        } else {
            prop_assert!(!schema.is_valid(&sent), "what fits is left alone");
            prop_assert!(schema.is_valid(&value), "what was repaired fits");
            if let Some(reverted) = reverted(value.clone(), &repairs) {
                prop_assert_eq!(reverted, sent, "the record says everything");
            }
            let allowed = [RepairKind::Number, RepairKind::Boolean, RepairKind::Json];
            prop_assert!(!careful || repairs.iter().all(|r| allowed.contains(&r.kind)));
        }
        // There is a problem to report exactly when the value is invalid.
        prop_assert_eq!(schema.problems(&value).is_empty(), schema.is_valid(&value));
    }
}

/// Schemas of every kind, also unusual ones.
fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "integer"})),
        Just(json!({"type": ["boolean", "null"]})),
        Just(json!({"type": "number", "minimum": 1})),
        Just(json!({"enum": ["fast", "SLOWER", 1]})),
        Just(json!({"const": "dot", "x-secret": true})),
        Just(json!({"$ref": "#/$defs/d"})),
        Just(json!({"type": "string", "pattern": "^[a-z]+$", "default": null})),
        Just(json!(true)),
        Just(json!(false)),
        Just(json!({"not": {"type": "string"}})),
    ];
    let node = leaf.prop_recursive(3, 16, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..4);
        let key = prop_oneof![Just("count"), Just("inner_part"), Just("kind"), Just("at")];
        let properties = prop::collection::btree_map(key, inner.clone(), 0..4);
        prop_oneof![
            (prop_oneof![Just("anyOf"), Just("oneOf"), Just("allOf")], list)
                .prop_map(|(word, list)| json!({ word: list })),
            (properties, any::<bool>(), any::<bool>()).prop_map(|(properties, open, all)| {
                let required: Vec<&str> = properties.keys().copied().filter(|_| all).collect();
                json!({
                    "type": "object", "properties": properties, "required": required,
                    "additionalProperties": open,
                })
            }),
            inner.prop_map(|items| json!({"type": "array", "items": items, "minItems": 1})),
        ]
    });
    (node.clone(), node.clone(), node).prop_map(|(a, b, d)| {
        json!({
            "properties": {"count": a, "shape": b},
            "unevaluatedProperties": false,
            "$defs": {"d": d},
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn repair_loses_nothing_under_any_schema(schema in schemas(), mut sent in careless_values()) {
        // A definition that is only a reference to itself does not compile, which is a valid
        // outcome.
        let Ok(schema) = Schema::compile(&schema) else { return Ok(()) };
        sent.as_object_mut().unwrap().remove("text");
        let mut value = sent.clone();
        let repairs = schema.repair(&mut value, false);
        if repairs.is_empty() { prop_assert_eq!(&value, &sent) } else { prop_assert!(schema.is_valid(&value) && !schema.is_valid(&sent)) }
        if let Some(reverted) = visible(&repairs).and_then(|repairs| reverted(value.clone(), repairs)) {
            prop_assert_eq!(reverted, sent);
        }
        prop_assert_eq!(schema.problems(&value).is_empty(), schema.is_valid(&value));
        prop_assert!(schema.example().is_none_or(|example| schema.is_valid(&example)));
    }
}

/// The records, unless a secret was redacted from them.
fn visible(repairs: &[Repair]) -> Option<&[Repair]> {
    repairs.iter().all(|repair| repair.before != "a hidden value").then_some(repairs)
}

/// Reads a file of recorded tools or calls, if this machine has them.
#[expect(clippy::print_stderr, reason = "a test that is skipped should say so")]
fn corpus(name: &str) -> Option<Vec<Value>> {
    let root = std::env::var_os("HAFT_CORPORA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora"),
        PathBuf::from,
    );
    let file = root.join("tool-schemas").join(name);
    let Ok(text) = std::fs::read(&file) else {
        eprintln!("skipped: there is no corpus at {} (HAFT_CORPORA)", file.display());
        return None;
    };
    let text = String::from_utf8(text).unwrap();
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn recorded_calls_are_validated_and_repaired_as_expected() {
    let (Some(tools), Some(calls)) = (corpus("tools.jsonl"), corpus("calls.jsonl")) else { return };
    let mut schemas: BTreeMap<&str, Schema> = BTreeMap::new();
    let (mut refused, mut examples) = (0, 0);
    for tool in &tools {
        let compiled = Schema::compile_with(&tool["input_schema"], Formats::Annotation);
        assert_eq!(
            compiled.is_ok(),
            tool["metaschema_ok"] == true,
            "{}: {compiled:?}",
            tool["name"]
        );
        match compiled {
            Ok(schema) => {
                if let Some(example) = schema.example() {
                    assert!(schema.is_valid(&example));
                    examples += 1;
                }
                schemas.insert(tool["id"].as_str().unwrap(), schema);
            }
            Err(error) => {
                assert_eq!(error.kind(), haft::ErrorKind::BadSchema);
                refused += 1;
            }
        }
    }
    eprintln!("{} tools, {refused} refused, {examples} with an example", tools.len());
    assert!(examples * 100 >= schemas.len() * 95, "{examples} of {}", schemas.len());

    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut invalid = 0;
    for call in &calls {
        let Some(schema) = schemas.get(call["schema_ref"].as_str().unwrap()) else { continue };
        let sent = &call["arguments"];
        assert_eq!(schema.is_valid(sent), call["valid"] == true, "{call}");
        let mut value = sent.clone();
        let repairs = schema.repair(&mut value, false);
        if call["valid"] == true {
            assert!(repairs.is_empty() && value == *sent, "{call}");
            continue;
        }
        invalid += 1;
        assert!(!schema.problems(sent).is_empty(), "{call}");
        let mutation = call["mutation"].as_str().unwrap_or("none").to_owned();
        if repairs.is_empty() {
            assert_eq!(value, *sent);
            *counts.entry((mutation, "left".to_owned())).or_default() += 1;
            continue;
        }
        assert!(schema.is_valid(&value), "{call}");
        if let Some(reverted) = reverted(value.clone(), &repairs) {
            assert_eq!(reverted, *sent, "{repairs:?}");
        }
        let mut kinds = kinds(&repairs);
        kinds.sort();
        kinds.dedup();
        let allowed: &[RepairKind] = match &*mutation {
            "number-as-string" => &[RepairKind::Number],
            "bool-as-string" => &[RepairKind::Boolean],
            "stringified-json" => &[RepairKind::Json],
            "case-changed-string" => &[RepairKind::EnumCase],
            "misspelled-property" => &[RepairKind::Name],
            // Whatever else was repaired, a null may have been the only problem.
            _ => &[],
        };
        for repair in &repairs {
            let at = json!(repair.pointer);
            let reported = call["errors"].as_array().unwrap().iter().any(|e| e["pointer"] == at);
            let was_null = sent.pointer(&repair.pointer) == Some(&Value::Null);
            let dropped = repair.kind == RepairKind::Null && reported && was_null;
            assert!(dropped || allowed.contains(&repair.kind), "{mutation}: {repairs:?}\n{call}");
        }
        *counts.entry((mutation, format!("{kinds:?}"))).or_default() += 1;
    }
    for ((mutation, end), count) in &counts {
        eprintln!("{mutation:>22} {count:>4} {end}");
    }
    let of = |mutation: &str| {
        let ends = counts.iter().filter(|((m, _), _)| m == mutation);
        let (left, repaired): (Vec<_>, Vec<_>) = ends.partition(|((_, end), _)| end == "left");
        let sum = |ends: Vec<(_, &usize)>| ends.into_iter().map(|(_, n)| n).sum::<usize>();
        (sum(repaired), sum(left))
    };
    let repaired: usize = counts.iter().filter(|((_, end), _)| end != "left").map(|(_, n)| n).sum();
    eprintln!("{repaired} of {invalid} calls that do not fit were repaired");
    // The rest has another problem, or is a string where strings are valid, or is Python's `False`.
    for (mutation, least) in [
        ("number-as-string", 57),
        ("bool-as-string", 4),
        ("stringified-json", 113),
        ("case-changed-string", 37),
        ("null-value", 47),
    ] {
        let (repaired, left) = of(mutation);
        assert!(repaired >= least, "{mutation}: {repaired} repaired, {left} left");
    }
}

/// A form with a name, as serde writes an enum with a tag.
#[derive(Debug, serde::Deserialize, haft::schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schemars(crate = "haft::schemars")]
#[expect(dead_code, reason = "the fields are shown, which the lint does not count")]
enum Form {
    Circle { radius: i64 },
    Line { length: u8, scale: f64 },
}

/// A number or a text, as serde writes an enum without a tag.
#[derive(Debug, serde::Deserialize, haft::schemars::JsonSchema)]
#[serde(untagged)]
#[schemars(crate = "haft::schemars")]
#[expect(dead_code, reason = "the fields are shown, which the lint does not count")]
enum Either {
    Count(u32),
    Name(String),
}

/// Takes integers in every place where a schema can have one.
#[haft::tool(read_only, capabilities())]
async fn integers(
    top: i64,
    #[default(None)] counts: Option<BTreeMap<String, i64>>,
    #[default(None)] form: Option<Form>,
    #[default(None)] either: Option<Either>,
    #[default(None)] pair: Option<(u16, f64)>,
) -> String {
    format!("{top} {counts:?} {form:?} {either:?} {pair:?}")
}

async fn integers_called(arguments: Value) -> Result<String, Failure> {
    let runtime = permissive(vec![DynTool::of(IntegersTool)]).build().unwrap();
    runtime.call("integers", arguments).await.map(|output| output.to_text())
}

#[tokio::test]
async fn whole_float_is_an_integer_in_maps_enums_and_tuples_too() {
    for (sent, wanted) in [
        (json!({"top": 2.0}), "2 None None None None"),
        (json!({"top": 1, "counts": {"a": 2.0}}), "1 Some({\"a\": 2}) None None None"),
        (
            json!({"top": 1, "form": {"kind": "circle", "radius": 2.0}}),
            "1 None Some(Circle { radius: 2 }) None None",
        ),
        (
            json!({"top": 1, "form": {"kind": "line", "length": 2.0, "scale": 2.0}}),
            "1 None Some(Line { length: 2, scale: 2.0 }) None None",
        ),
        (json!({"top": 1, "either": 2.0}), "1 None None Some(Count(2)) None"),
        (json!({"top": 1, "pair": [2.0, 2.0]}), "1 None None None Some((2, 2.0))"),
    ] {
        let text = integers_called(sent.clone()).await.unwrap_or_else(|f| panic!("{sent}: {f}"));
        assert_eq!(text, wanted, "{sent}");
    }
}

#[tokio::test]
async fn integer_out_of_range_is_refused_with_its_place() {
    let beyond = 9_223_372_036_854_775_808u64;
    for (sent, wanted) in [
        (
            json!({"top": beyond}),
            "/top: expected an integer of at most 9223372036854775807; got 9223372036854775808 (integer)",
        ),
        (
            json!({"top": 1, "counts": {"a": beyond}}),
            "/counts/a: expected an integer of at most 9223372036854775807; got 9223372036854775808 (integer)",
        ),
        (
            json!({"top": 1, "form": {"kind": "line", "length": 256, "scale": 1.0}}),
            "/form/length: expected an integer from 0 to 255; got 256 (integer)",
        ),
        (
            json!({"top": 1, "pair": [65536, 1.0]}),
            "/pair/0: expected an integer from 0 to 65535; got 65536 (integer)",
        ),
        (
            json!({"top": 1e19}),
            "/top: expected an integer of at most 9223372036854775807; got 1e+19 (number)",
        ),
        (
            json!({"top": 1e17}),
            "/top: expected an integer; got 1e+17 (number), which cannot be represented exactly",
        ),
        (json!({"top": 2.5}), "/top: expected an integer; got 2.5 (number)"),
    ] {
        let failure = integers_called(sent.clone()).await.unwrap_err();
        assert_eq!(failure.code(), FailureCode::BadArguments, "{sent}");
        assert!(failure.message().starts_with(wanted), "{sent}: {}", failure.message());
    }
}

/// A word of at most five letters, which no schema says.
#[derive(Debug, serde::Deserialize, haft::schemars::JsonSchema)]
#[serde(try_from = "String")]
#[schemars(crate = "haft::schemars")]
struct Short(String);

impl TryFrom<String> for Short {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.len() <= 5 { Ok(Self(text)) } else { Err(format!("`{text}` is too long")) }
    }
}

/// Takes words.
#[haft::tool(read_only, capabilities())]
async fn words(list: Vec<Short>, one: Option<Short>) -> String {
    list.into_iter().chain(one).map(|word| word.0).collect()
}

#[tokio::test]
async fn value_refused_by_deserialization_is_reported_with_its_pointer() {
    let runtime = permissive(vec![DynTool::of(WordsTool)]).build().unwrap();
    let sent = json!({"list": ["a", "much too long", "b"]});
    let failure = runtime.call("words", sent).await.unwrap_err();
    assert_eq!(failure.message(), "/list/1: `much too long` is too long");
}

#[tokio::test]
async fn deep_recursive_union_is_explained_down_to_its_leaf() {
    let group = |name: &str| json!({"type": "object", "properties": {name: {"type": "array", "items": {"$ref": "#/$defs/f"}}, "not": {"$ref": "#/$defs/f"}}, "additionalProperties": false});
    let leaf = json!({"type": "object", "properties": {"min": {"type": "integer"}}, "required": ["min"], "additionalProperties": false});
    let schema = json!({
        "type": "object", "properties": {"filter": {"$ref": "#/$defs/f"}},
        "$defs": {"f": {"anyOf": [group("all"), group("any"), leaf]}},
    });
    let tool = DynTool::new(read("echo"), schema, |args, _| async move { args.to_string() });
    let runtime = permissive(vec![tool]).build().unwrap();
    let value = (0..60).fold(json!({"min": "ten"}), |inner, _| json!({"not": inner}));
    let failure = runtime.call("echo", json!({"filter": value})).await.unwrap_err();
    let place = format!("/filter{}/min: expected an integer", "/not".repeat(60));
    assert!(failure.message().starts_with(&place), "{}", failure.message());
}
