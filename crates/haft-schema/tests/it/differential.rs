//! Our validator compared with the crate `jsonschema`: both give the same verdict.

use std::{collections::BTreeMap, fs};

use haft_schema::{Formats, Schema};
use jsonschema::{Draft, PatternOptions, Validator};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::suite::{corpora, groups};

/// The other validator, with the same options as ours.
fn other(schema: &Value) -> Option<Validator> {
    let options = || {
        jsonschema::options()
            .offline()
            .with_draft(Draft::Draft202012.detect(schema))
            .should_validate_formats(true)
            .should_ignore_unknown_formats(true)
    };
    let linear = options().with_pattern_options(PatternOptions::regex()).build(schema);
    linear
        .or_else(|_| options().with_pattern_options(PatternOptions::fancy_regex()).build(schema))
        .ok()
}

/// Compares both on one value, and our verdict with our list of problems.
fn compare(schema: &Schema, other: &Validator, value: &Value) {
    let valid = schema.is_valid(value);
    assert_eq!(valid, other.is_valid(value), "{value} under {:?}", schema.source());
    let problems = schema.problems(value);
    assert_eq!(valid, problems.is_empty(), "{value} under {:?}: {problems:?}", schema.source());
}

#[test]
fn real_tools_and_calls_get_the_same_verdict() {
    let Some(corpora) = corpora() else { return };
    let lines = |file: &str| -> Vec<Value> {
        let text = fs::read_to_string(corpora.join("tool-schemas").join(file)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let mut tools = BTreeMap::new();
    for tool in lines("tools.jsonl") {
        let schema = &tool["input_schema"];
        let (ours, other) = (Schema::compile(schema), other(schema));
        assert_eq!(ours.is_ok(), other.is_some(), "{schema}");
        if let (Ok(ours), Some(other)) = (ours, other) {
            tools.insert(tool["id"].as_str().unwrap().to_owned(), (ours, other));
        }
    }
    let mut compared = 0;
    for call in lines("calls.jsonl") {
        if let Some((ours, other)) = tools.get(call["schema_ref"].as_str().unwrap()) {
            compare(ours, other, &call["arguments"]);
            compared += 1;
        }
    }
    assert!(tools.len() >= 290 && compared >= 3_000, "{} tools, {compared} calls", tools.len());
}

#[test]
fn values_of_one_test_get_the_same_verdict_under_the_schemas_of_all() {
    let Some(groups) = groups("") else { return };
    let values: Vec<&Value> =
        groups.iter().flat_map(|group| &group.tests).map(|test| &test["data"]).collect();
    for group in &groups {
        // Ours ignores `dependencies` and refuses a metaschema that it does not know.
        let Ok(ours) = Schema::compile_with(&group.schema, Formats::Assertion) else { continue };
        let other = other(&group.schema).unwrap_or_else(|| panic!("{}", group.name));
        for value in values.iter().step_by(7) {
            compare(&ours, &other, value);
        }
    }
}

/// A small set of names, so that schemas and values share them.
fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "ab", "", "x/y", "t~"]).prop_map(str::to_owned)
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-4..12_i64).prop_map(Value::from),
        prop::sample::select(vec![
            json!(0.5),
            json!(-0.0),
            json!(1.0),
            json!(2.5),
            json!(0.1),
            json!(0.30000000000000004),
            json!(1e300),
            json!(-1e-8),
            json!(9007199254740993_u64),
            json!(9007199254740992.0),
            json!(u64::MAX),
            json!(i64::MIN),
        ]),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        name(),
        "[a-c]{0,4}",
        prop::sample::select(vec![
            "é",
            "日本",
            "2020-01-31",
            "2020-02-31",
            "12:00:00Z",
            "a@b.c",
            "1.2.3.4",
            "::1",
            "a.b-c",
            "https://a.b/c?d#e",
            "a b",
            "/a/~1",
            "P1DT2H",
            "{a}",
            "[a-",
            "(?:a)+",
            "2eb8aa08-aa98-11ea-b4aa-73b441d16380",
        ])
        .prop_map(str::to_owned),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// One keyword that needs no other schema.
fn assertion() -> impl Strategy<Value = (&'static str, Value)> {
    let kinds = vec!["null", "boolean", "integer", "number", "string", "array", "object"];
    let count = || 0..4_u64;
    let formats = vec![
        "date",
        "date-time",
        "time",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "uri",
        "uri-reference",
        "iri",
        "iri-reference",
        "uri-template",
        "uuid",
        "json-pointer",
        "relative-json-pointer",
        "regex",
        "unknown",
    ];
    let patterns =
        vec!["^a", "b$", "^[a-c]+$", r"\d", r"^\S*$", "^(?!a)", "é|日", "^.{2}$", r"\w-"];
    let names = || prop::collection::btree_set(name(), 0..3).prop_map(|names| json!(names));
    prop_oneof![
        4 => prop::sample::select(kinds.clone()).prop_map(|kind| ("type", json!(kind))),
        1 => prop::sample::subsequence(kinds, 1..4).prop_map(|kinds| ("type", json!(kinds))),
        1 => prop::collection::vec(value(), 1..4).prop_map(|options| ("enum", json!(options))),
        1 => value().prop_map(|only| ("const", only)),
        1 => number().prop_map(|limit| ("minimum", limit)),
        1 => number().prop_map(|limit| ("maximum", limit)),
        1 => number().prop_map(|limit| ("exclusiveMinimum", limit)),
        1 => number().prop_map(|limit| ("exclusiveMaximum", limit)),
        // The other validator rounds a large float before it divides by 3 or 0.3.
        1 => prop::sample::select(vec![json!(1), json!(2), json!(4.0), json!(0.5), json!(0.01), json!(0.25)])
            .prop_map(|divisor| ("multipleOf", divisor)),
        1 => count().prop_map(|count| ("minLength", json!(count))),
        1 => count().prop_map(|count| ("maxLength", json!(count))),
        1 => count().prop_map(|count| ("minItems", json!(count))),
        1 => count().prop_map(|count| ("maxItems", json!(count))),
        1 => count().prop_map(|count| ("minProperties", json!(count))),
        1 => count().prop_map(|count| ("maxProperties", json!(count))),
        1 => any::<bool>().prop_map(|unique| ("uniqueItems", json!(unique))),
        1 => prop::sample::select(formats).prop_map(|format| ("format", json!(format))),
        1 => prop::sample::select(patterns).prop_map(|pattern| ("pattern", json!(pattern))),
        2 => names().prop_map(|names| ("required", names)),
        1 => prop::collection::btree_map(name(), names(), 0..3)
            .prop_map(|map| ("dependentRequired", json!(map))),
        1 => prop::sample::select(vec!["#", "#/$defs/a", "#/$defs/b", "#/$defs/c"])
            .prop_map(|target| ("$ref", json!(target))),
        1 => Just(("$dynamicRef", json!("#d"))),
    ]
}

/// One keyword that holds schemas.
fn applicator(
    schema: impl Strategy<Value = Value> + Clone + 'static,
) -> impl Strategy<Value = (&'static str, Value)> {
    let one = |keyword: &'static str| schema.clone().prop_map(move |schema| (keyword, schema));
    let list = |keyword: &'static str| {
        prop::collection::vec(schema.clone(), 1..4).prop_map(move |list| (keyword, json!(list)))
    };
    let map = |keyword: &'static str| {
        prop::collection::btree_map(name(), schema.clone(), 0..4)
            .prop_map(move |map| (keyword, json!(map)))
    };
    let patterns = prop::sample::select(vec!["^a", "b", "^$", "[^a]"]).prop_map(str::to_owned);
    let patterns = prop::collection::btree_map(patterns, schema.clone(), 0..3)
        .prop_map(|map| ("patternProperties", json!(map)));
    prop_oneof![
        4 => map("properties"),
        2 => patterns,
        2 => one("additionalProperties"),
        1 => one("propertyNames"),
        1 => one("unevaluatedProperties"),
        1 => one("unevaluatedItems"),
        2 => one("items"),
        1 => list("prefixItems"),
        1 => one("contains"),
        1 => list("allOf"),
        2 => list("anyOf"),
        1 => list("oneOf"),
        1 => one("not"),
        1 => one("if"),
        1 => one("then"),
        1 => one("else"),
        1 => map("dependentSchemas"),
        1 => (0..3_u64).prop_map(|count| ("minContains", json!(count))),
        1 => (0..3_u64).prop_map(|count| ("maxContains", json!(count))),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    let collect = |keywords: Vec<(&'static str, Value)>| -> Value {
        keywords
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect::<Map<_, _>>()
            .into()
    };
    let leaf = prop_oneof![
        1 => any::<bool>().prop_map(Value::from),
        6 => prop::collection::vec(assertion(), 0..3).prop_map(collect),
    ];
    let nested = leaf.prop_recursive(3, 24, 4, move |inner| {
        let keyword = prop_oneof![2 => applicator(inner).boxed(), 1 => assertion().boxed()];
        prop::collection::vec(keyword, 1..5).prop_map(collect)
    });
    (nested.clone(), nested.clone(), nested.clone(), nested).prop_map(|(root, a, b, c)| {
        let mut root = root.as_object().cloned().unwrap_or_default();
        let mut dynamic = c.as_object().cloned().unwrap_or_default();
        dynamic.insert("$dynamicAnchor".into(), json!("d"));
        root.insert("$defs".into(), json!({"a": a, "b": b, "c": dynamic}));
        Value::Object(root)
    })
}

/// Whether a schema may apply itself to a value under `not` or another negation. It then has no
/// defined meaning, and validators differ.
fn is_paradox(schema: &Value) -> bool {
    let text = schema.to_string();
    let refers = text.contains("\"$ref\"") || text.contains("\"$dynamicRef\"");
    refers
        && ["\"not\"", "\"oneOf\"", "\"if\"", "Contains\"", "unevaluated"]
            .iter()
            .any(|k| text.contains(k))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn random_schemas_and_values_get_the_same_verdict(
        schema in schema(),
        values in prop::collection::vec(value(), 1..12),
    ) {
        let ours = Schema::compile(&schema);
        let other = other(&schema);
        prop_assert_eq!(ours.is_ok(), other.is_some(), "{} {:?}", schema, ours.err());
        if let (Ok(ours), Some(other)) = (ours, other) && !is_paradox(&schema) {
            for value in &values {
                compare(&ours, &other, value);
            }
        }
    }

    #[test]
    fn random_text_has_the_same_formats(text in text_for_formats()) {
        for format in [
            "date", "date-time", "time", "duration", "hostname", "ipv4", "ipv6", "uri",
            "uri-reference", "iri", "iri-reference", "uri-template", "uuid", "json-pointer",
            "relative-json-pointer", "email",
        ] {
            let schema = json!({"format": format});
            let ours = Schema::compile(&schema).unwrap();
            let other = other(&schema).unwrap();
            let value = json!(text);
            prop_assert_eq!(ours.is_valid(&value), other.is_valid(&value), "{}: {:?}", format, text);
        }
    }
}

/// Text near the formats.
fn text_for_formats() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{4}-[01][0-9]-[0-3][0-9]([Tt][0-2][0-9]:[0-5][0-9]:[0-6][0-9](\\.[0-9]{0,3})?([Zz]|[+-][0-2][0-9]:[0-6][0-9]))?",
        "[0-2][0-9]:[0-5][0-9]:[0-6][0-9](\\.[0-9]{0,2})?([Zz]|[+-][0-2][0-9]:[0-6][0-9])?",
        "P([0-9][YMWD]){0,3}(T([0-9][HMS]){0,3})?",
        "[a-zA-Z0-9-]{0,4}(\\.[a-z0-9-]{0,4}){0,3}",
        "[a-z\"]{0,2}[a-z.! \"]{0,3}@[a-z-]{0,3}(\\.[a-z]{1,2}){0,2}",
        "([0-9]{1,3}\\.){3}[0-9]{1,3}",
        "[0-9a-f:]{2,8}(::)?[0-9a-f:]{0,6}",
        "([a-z]{0,3}:)?(//[a-z@:0-9.\\[\\]]{0,6})?[a-z/.:%0-9é]{0,8}(\\?[a-z?/%]{0,3})?(#[a-z#]{0,3})?",
        "[a-z/{}:*,.%0-9+]{0,10}",
        "[0-9]{0,2}[#/]?[a~01/]{0,6}",
        "[/~01a]{0,6}",
        "[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-g]{12}",
    ]
}
