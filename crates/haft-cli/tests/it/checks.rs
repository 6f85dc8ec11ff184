//! `haft tools check`: validates calls against the schemas of their tools.

use std::sync::LazyLock;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{corpus, file, haft, haft_words, lines};

fn tools() -> String {
    let tools = [
        json!({"id": "t1", "name": "book", "input_schema": {
            "type": "object",
            "properties": {"seats": {"type": "integer", "minimum": 1}, "mail": {"type": "string", "format": "email"}},
            "required": ["seats"],
        }}),
        json!({"name": "cancel", "input_schema": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {}, "additionalProperties": false}}),
        json!({"id": "bad", "name": "broken", "input_schema": {"type": "objekt"}}),
        json!({"id": "none", "name": "bare"}),
    ];
    tools.map(|tool| tool.to_string()).join("\n")
}

const CALLS: &str = r#"{"schema_ref": "t1", "arguments": {"seats": 2, "more": true}}
{"schema_ref": "t1", "arguments": {"seats": "2"}}
{"schema_ref": "book", "arguments": {"seats": 2, "mail": "none"}}
{"schema_ref": "cancel", "arguments": {"why": 1}}
{"schema_ref": "bad", "arguments": {}}
{"schema_ref": "none", "arguments": {}}
{"schema_ref": "cancl", "arguments": {}}
{"arguments": {}}
{"schema_ref": "t1"}
oh
"#;

/// Written once: the tests run in parallel.
static FILES: LazyLock<[String; 2]> =
    LazyLock::new(|| [file("check-tools.jsonl", tools()), file("check-calls.jsonl", CALLS)]);

fn check(more: &str) -> crate::Ran {
    let [tools, calls] = &*FILES;
    haft(&format!("tools check --tools {tools} --calls {calls} {more}"))
}

#[test]
fn every_call_gets_one_line() {
    let ran = check("--json");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert_eq!(ran.out, check("--json").out, "equal bytes");
    let lines = lines(&ran.out);
    for line in &lines {
        let keys: Vec<&String> = line.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["schema_ref", "valid", "problems", "repairs"]);
        assert_eq!(line["valid"] == true, line["problems"] == json!([]), "{line}");
        assert_eq!(line["repairs"], json!([]));
    }
    let valid: Vec<bool> = lines.iter().map(|line| line["valid"] == true).collect();
    assert_eq!(valid, [true, false, true, false, false, false, false, false, false, false]);
    let keywords: Vec<&Value> = lines[1..].iter().map(|l| &l["problems"][0]["keyword"]).collect();
    assert_eq!(
        json!(keywords),
        json!([
            "type",
            null,
            "additionalProperties",
            "schema",
            "schema",
            "schema",
            "schema_ref",
            "arguments",
            "json"
        ])
    );
    assert_eq!(lines[1]["problems"][0]["pointer"], "/seats");
    let unknown = lines[6]["problems"][0]["message"].as_str().unwrap();
    assert_eq!(unknown, "there is no tool `cancl`; did you mean `cancel`?");
}

#[test]
fn format_is_validated_only_on_request() {
    let valid = |more: &str| lines(&check(more).out)[2]["valid"] == true;
    assert!(valid("--json") && !valid("--json --formats"));
}

#[test]
fn lossless_repairs_are_made_on_request() {
    let lines = lines(&check("--json --repair").out);
    assert_eq!((&lines[1]["valid"], &lines[1]["problems"]), (&json!(true), &json!([])));
    assert_eq!(lines[1]["repairs"][0]["kind"], "number");
    assert_eq!(lines[1]["arguments"], json!({"seats": 2}));
    assert_eq!((&lines[0]["repairs"], lines[0].get("arguments")), (&json!([]), None), "it fits");
    assert_eq!(lines[3]["valid"], false, "nothing is dropped");
}

#[test]
fn text_output_lists_invalid_calls_and_counts() {
    assert_snapshot!(check("--repair").page(), @r#"
    exit 0
    --- stdout
    line 4   cancel  /  unknown `why`; no arguments are allowed here
    line 5   bad     /  the JSON Schema cannot be used: at `/type`: expected one of "array", "boolean", "integer", "null", "number", "object", "string"; got "objekt" (string). Did you mean "object"?
    line 6   none    /  the tool has no schema
    line 7   cancl   /  there is no tool `cancl`; did you mean `cancel`?
    line 8   -       /  line 8 names no tool: a call needs `schema_ref` and `arguments`
    line 9   t1      /  the call has no `arguments`
    line 10  -       /  line 10 is not JSON: expected value at line 1 column 1
    10 calls: 3 valid, 1 invalid, 6 not validated; 1 of the valid ones repaired (number 1)
    "#);
    let calls =
        file("check-own.jsonl", r#"{"schema_ref": "read_file", "arguments": {"file_path": "a"}}"#);
    assert_eq!(haft(&format!("tools check --calls {calls}")).out, "1 call: 1 valid, 0 invalid\n");
    let many =
        file("check-many.jsonl", "{\"schema_ref\": \"read_file\", \"arguments\": {}}\n".repeat(50));
    let ran = haft(&format!("tools check --calls {many}"));
    assert!(
        ran.out.ends_with("… and 10 more; `--json` lists all\n50 calls: 0 valid, 50 invalid\n"),
        "{}",
        ran.out
    );
    assert_eq!(haft("tools check --tools x").code, Some(1), "there are no calls");
    let both = haft("tools check --tools - --calls -");
    assert_eq!(both.err, "error: only one of `--tools` and `--calls` can be stdin\n");
}

#[test]
fn any_line_is_handled_and_its_length_is_bounded() {
    let odd = file("check-odd.jsonl", b"\xff\xfe\n{\"schema_ref\":\xff}\n\n  \n\"\"\n".as_slice());
    let ran = haft(&format!("tools check --calls {odd} --json"));
    let verdicts: Vec<Value> = lines(&ran.out).iter().map(|l| l["valid"].clone()).collect();
    assert_eq!((ran.code, verdicts), (Some(0), vec![json!(false); 3]));
    let deep = file("check-deep.jsonl", "[".repeat(100_000));
    assert_eq!(lines(&haft(&format!("tools check --calls {deep} --json")).out)[0]["valid"], false);
    if cfg!(target_os = "linux") {
        let ran = haft("tools check --calls /dev/zero");
        assert_eq!(ran.err, "error: line 1 of `/dev/zero` is larger than 64 MiB\n");
    }
}

#[test]
fn validation_of_real_calls_agrees_with_another_validator() {
    let Some(dir) = corpus() else { return };
    let dir = dir.join("tool-schemas");
    let read = |name: &str| lines(&crate::read(&dir.join(name)));
    let unusable: Vec<Value> = read("tools.jsonl")
        .into_iter()
        .filter(|tool| tool["metaschema_ok"] == false)
        .map(|tool| tool["id"].clone())
        .collect();
    let mut words: Vec<std::ffi::OsString> = vec!["tools".into(), "check".into(), "--json".into()];
    words.extend(["--tools".into(), dir.join("tools.jsonl").into()]);
    words.extend(["--calls".into(), dir.join("calls.jsonl").into()]);
    let ran = haft_words(words);
    let (verdicts, calls) = (lines(&ran.out), read("calls.jsonl"));
    assert_eq!((ran.code, verdicts.len()), (Some(0), calls.len()));
    let mut judged = 0;
    for (call, verdict) in calls.iter().zip(&verdicts) {
        assert_eq!(call["schema_ref"], verdict["schema_ref"]);
        if unusable.contains(&call["schema_ref"]) {
            assert_eq!(verdict["problems"][0]["keyword"], "schema");
            continue;
        }
        judged += 1;
        assert_eq!(call["valid"], verdict["valid"], "{call}\n{verdict}");
    }
    assert_eq!(judged, 3426);
}
