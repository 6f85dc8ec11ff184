//! Any argument text gets a result: valid arguments reach the body unchanged, repaired ones match
//! the schema, and everything else is refused with a reason.
#![no_main]

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use haft::{Config, Run, Runtime, ToolCall, ToolRegistry, schema::{RepairPolicy, Schema}, tool::{Capabilities, DynTool, ToolSpec}, turn::Arguments};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

/// One tool, the latest arguments of its body, and a run for each repair mode.
struct Bench {
    schema: Schema,
    got: Arc<Mutex<Option<Value>>>,
    runs: Vec<Run>,
}

/// Schemas with something to repair in each, and no defaults, so that arguments arrive as sent.
fn schemas() -> Vec<Value> {
    let closed = |properties: Value, required: Value| {
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    };
    vec![
        closed(
            json!({
                "count": {"type": "integer", "minimum": 1, "maximum": 99},
                "mode": {"enum": ["fast", "Slow", "off"]},
                "sure": {"type": "boolean"},
                "long_name": {"type": "number"},
            }),
            json!(["count"]),
        ),
        json!({
            "type": "object",
            "properties": {
                "list": {"type": "array", "items": {"type": "integer"}, "maxItems": 4},
                "text": {"type": "string", "maxLength": 8},
                "deep": {"type": "object", "properties": {"list": {"$ref": "#/properties/list"}}},
            },
        }),
        json!({
            "type": "object",
            "properties": {
                "shape": {"oneOf": [
                    closed(json!({"kind": {"const": "dot"}, "at": {"type": "integer"}}), json!(["kind", "at"])),
                    closed(json!({"kind": {"const": "line"}, "to": {"type": "array", "items": {"type": "number"}}}), json!(["kind", "to"])),
                    {"type": "null"},
                ]},
                "either": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]},
            },
        }),
        json!({
            "type": "object",
            "properties": {"tree": {"$ref": "#/$defs/node"}},
            "$defs": {"node": {
                "type": "object",
                "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
                "required": ["value"],
                "unevaluatedProperties": false,
            }},
        }),
        json!({
            "type": "object",
            "additionalProperties": {"type": ["integer", "null"]},
            "propertyNames": {"pattern": "^[a-z_]+$"},
            "minProperties": 1,
        }),
    ]
}

static BENCHES: LazyLock<Vec<Bench>> = LazyLock::new(|| schemas().into_iter().map(bench).collect());

fn bench(schema: Value) -> Bench {
    let got: Arc<Mutex<Option<Value>>> = Arc::default();
    let place = Arc::clone(&got);
    let spec = ToolSpec::new("tool", "Does it.").read_only().capabilities(Capabilities::NONE);
    let tool = DynTool::new(spec, schema.clone(), move |args, _| {
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some((*args).clone());
        async { "done" }
    });
    let runtimes =
        [RepairPolicy::Off, RepairPolicy::Lossless, RepairPolicy::Python].map(|repair| {
            let mut config = Config::default();
            config.repair = repair;
            let registry = ToolRegistry::builder().add(tool.clone()).build().unwrap();
            Runtime::builder().config(config).registry(registry).build().unwrap()
        });
    // The registry may close an object that its author left open, so its own schema is what counts.
    let entry = runtimes[0].registry().own().next().unwrap();
    let schema = Schema::compile(entry.input_schema()).unwrap();
    Bench { schema, got, runs: runtimes.iter().map(Runtime::run).collect() }
}

/// Whether an object has a duplicate key, which plain parsing hides: serializing it again is
/// shorter.
fn is_plain(text: &str, value: &Value) -> bool {
    let count = |text: &str| text.bytes().filter(|b| *b == b':').count();
    count(text) == count(&value.to_string())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, text)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(text).into_owned();
    let bench = &BENCHES[usize::from(*choice) % BENCHES.len()];
    let repair = usize::from(*choice) / BENCHES.len() % bench.runs.len();
    let parsed = serde_json::from_str::<Value>(&text).ok();

    if let Some(value) = &parsed {
        judged(&bench.schema, value);
    }
    match asked(bench, repair, text.clone().into()) {
        Ok((arrived, repairs)) => {
            assert!(bench.schema.is_valid(&arrived), "ran with {arrived}");
            assert!(repair > 0 || repairs == 0, "repaired although that is off: {text:?}");
            if repairs == 0 && !text.trim().is_empty() {
                assert_eq!(Some(&arrived), parsed.as_ref(), "changed without a word: {text:?}");
            }
        }
        Err(said) => {
            let fits = parsed.as_ref().is_some_and(|value| {
                value.is_object() && bench.schema.is_valid(value) && is_plain(&text, value)
            });
            assert!(!fits, "refused although it fits: {text:?}: {said}");
        }
    }
    if let Some(value @ Value::Object(_)) = parsed
        && bench.schema.is_valid(&value)
    {
        let outcome = asked(bench, repair, value.clone().into());
        assert_eq!(outcome, Ok((value, 0)), "data that fits stays as it is");
    }
});

/// Checks a value by the schema alone: verdict, problems and repair must agree.
fn judged(schema: &Schema, value: &Value) {
    let is_valid = schema.is_valid(value);
    let problems = schema.problems(value);
    assert_eq!(problems.is_empty(), is_valid, "{value}: {problems:?}");
    for careful in [false, true] {
        let mut work = value.clone();
        let repairs = schema.repair(&mut work, careful);
        if repairs.is_empty() {
            assert_eq!(&work, value, "changed without a word");
            continue;
        }
        assert!(!is_valid, "repaired what fits: {value}");
        assert!(schema.is_valid(&work), "{value} became {work}, which does not fit");
        assert!(schema.repair(&mut work, careful).is_empty(), "repaired twice: {value}");
    }
}

/// Runs a call, and returns the arguments of the body and the number of repairs, or the refusal.
fn asked(bench: &Bench, repair: usize, arguments: Arguments) -> Result<(Value, usize), String> {
    static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
    });
    let take = || bench.got.lock().unwrap_or_else(PoisonError::into_inner).take();
    take();
    let answers = RUNTIME.block_on(async {
        let turn = bench.runs[repair].turn().await.unwrap();
        turn.run([ToolCall::new("call", "tool", arguments)]).await
    });
    assert_eq!(answers.len(), 1);
    let (arrived, said) = (take(), answers[0].text());
    assert_eq!(arrived.is_none(), answers[0].is_error(), "{said}");
    assert!(!said.is_empty());
    arrived.map(|arrived| (arrived, answers[0].repairs().len())).ok_or_else(|| said.into_owned())
}
