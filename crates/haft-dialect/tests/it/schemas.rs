//! Random schemas and values, exported to every dialect.

use haft_core::{Arguments, ToolCall};
use haft_dialect::{Dialect, ExportOptions, LossKind, StrictMode, ToolDefinition, ToolExport};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::suite::{fill, judge, renamed, schema_of};

/// Values from a small set, so that schemas and values match often.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-2i64..4).prop_map(Value::from),
        prop_oneof![Just(0.5), Just(1.5), Just(2.0)].prop_map(Value::from),
        prop_oneof![Just(""), Just("a"), Just("b"), Just("ab"), Just("kind")].prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((key(), inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("b"), Just("c"), Just("kind"), Just("a b")].prop_map(str::to_owned)
}

fn kind() -> impl Strategy<Value = Value> {
    let one = || {
        prop_oneof![
            Just("null"),
            Just("boolean"),
            Just("object"),
            Just("array"),
            Just("number"),
            Just("integer"),
            Just("string"),
        ]
    };
    prop_oneof![
        4 => one().prop_map(|name| json!(name)),
        1 => (one(), one()).prop_map(|(a, b)| if a == b { json!(a) } else { json!([a, b]) }),
    ]
}

/// One keyword with its value.
fn word(inner: BoxedStrategy<Value>) -> impl Strategy<Value = (String, Value)> {
    let named = |name: &'static str, value: BoxedStrategy<Value>| {
        value.prop_map(move |v| (name.to_owned(), v)).boxed()
    };
    let list =
        |s: BoxedStrategy<Value>| proptest::collection::vec(s, 1..4).prop_map(Value::from).boxed();
    let map = |s: BoxedStrategy<Value>| {
        proptest::collection::vec((key(), s), 0..4)
            .prop_map(|pairs| Value::Object(pairs.into_iter().collect()))
            .boxed()
    };
    let count = || (0u64..4).prop_map(Value::from).boxed();
    let number = || (-2i64..4).prop_map(Value::from).boxed();
    let keys = || {
        proptest::collection::btree_set(key(), 0..3)
            .prop_map(|keys| json!(keys.into_iter().collect::<Vec<_>>()))
            .boxed()
    };
    let words: Vec<(u32, BoxedStrategy<(String, Value)>)> = vec![
        (6, named("type", kind().boxed())),
        (6, named("properties", map(inner.clone()))),
        (4, named("required", keys())),
        (3, named("additionalProperties", inner.clone())),
        (2, named("additionalProperties", Just(json!(false)).boxed())),
        (3, named("items", inner.clone())),
        (1, named("prefixItems", list(inner.clone()))),
        (2, named("anyOf", list(inner.clone()))),
        (2, named("oneOf", list(inner.clone()))),
        (2, named("allOf", list(inner.clone()))),
        (1, named("not", inner.clone())),
        (1, named("if", inner.clone())),
        (1, named("then", inner.clone())),
        (1, named("else", inner.clone())),
        (1, named("contains", inner.clone())),
        (1, named("minContains", count())),
        (1, named("maxContains", count())),
        (1, named("propertyNames", inner.clone())),
        (1, named("unevaluatedProperties", inner.clone())),
        (1, named("unevaluatedItems", inner.clone())),
        (1, named("dependentSchemas", map(inner.clone()))),
        (1, named("dependentRequired", map(keys()))),
        (1, named("patternProperties", map(inner))),
        (2, named("enum", proptest::collection::vec(value(), 1..4).prop_map(Value::from).boxed())),
        (2, named("const", value().boxed())),
        (1, named("minimum", number())),
        (1, named("maximum", number())),
        (1, named("exclusiveMinimum", number())),
        (1, named("multipleOf", (1u64..4).prop_map(Value::from).boxed())),
        (1, named("minLength", count())),
        (1, named("maxLength", count())),
        (1, named("pattern", prop_oneof![Just(json!("^a")), Just(json!("b$"))].boxed())),
        (1, named("minItems", count())),
        (1, named("maxItems", count())),
        (1, named("uniqueItems", any::<bool>().prop_map(Value::from).boxed())),
        (1, named("minProperties", count())),
        (1, named("maxProperties", count())),
        (1, named("default", value().boxed())),
        (1, named("description", Just(json!("About it.")).boxed())),
    ];
    proptest::strategy::Union::new_weighted(words)
}

fn schema() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        8 => kind().prop_map(|kind| json!({"type": kind})),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(json!({})),
        3 => prop_oneof![Just("a"), Just("b"), Just("c")]
            .prop_map(|name| json!({"$ref": format!("#/$defs/{name}")})),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        (
            proptest::collection::vec(word(inner.boxed()), 1..5),
            proptest::option::weighted(0.1, prop_oneof![Just("a"), Just("b"), Just("c")]),
        )
            .prop_map(|(words, reference)| {
                let mut map: Map<String, Value> = words.into_iter().collect();
                if let Some(name) = reference {
                    map.insert("$ref".into(), json!(format!("#/$defs/{name}")));
                }
                Value::Object(map)
            })
    })
    .boxed()
}

/// A tool's schema with three definitions that may refer to each other.
fn tool() -> impl Strategy<Value = Value> {
    let inside = (schema(), schema(), schema(), schema());
    (inside, any::<bool>(), proptest::collection::vec((key(), schema()), 0..3)).prop_map(
        |((root, a, b, c), closed, properties)| {
            let mut map = match root {
                Value::Object(map) => map,
                _ => Map::new(),
            };
            map.insert("type".into(), json!("object"));
            if !properties.is_empty() {
                map.insert("properties".into(), Value::Object(properties.into_iter().collect()));
            }
            if closed {
                map.insert("additionalProperties".into(), json!(false));
            }
            map.insert("$defs".into(), json!({"a": a, "b": b, "c": c}));
            Value::Object(map)
        },
    )
}

fn modes() -> Vec<(Dialect, StrictMode)> {
    let strict = Dialect::ALL.iter().filter(|d| d.has_strict()).map(|d| (*d, StrictMode::On));
    Dialect::ALL.iter().map(|d| (*d, StrictMode::Off)).chain(strict).collect()
}

/// A reference that is recursive at the same place never terminates for any value.
fn ends(schema: &Value) -> bool {
    let defs = schema["$defs"].as_object().unwrap();
    fn direct<'a>(node: &'a Value, found: &mut Vec<&'a str>) {
        let Some(map) = node.as_object() else { return };
        found.extend(map.get("$ref").and_then(Value::as_str));
        for word in ["allOf", "anyOf", "oneOf"] {
            for part in map.get(word).and_then(Value::as_array).into_iter().flatten() {
                direct(part, found);
            }
        }
        for word in ["not", "if", "then", "else"] {
            if let Some(part) = map.get(word) {
                direct(part, found);
            }
        }
        for part in map.get("dependentSchemas").and_then(Value::as_object).into_iter().flatten() {
            direct(part.1, found);
        }
    }
    let mut waiting: Vec<(String, Vec<String>)> =
        defs.keys().map(|name| (format!("#/$defs/{name}"), Vec::new())).collect();
    while let Some((name, mut seen)) = waiting.pop() {
        if seen.contains(&name) {
            return false;
        }
        seen.push(name.clone());
        let mut next = Vec::new();
        direct(&defs[name.strip_prefix("#/$defs/").unwrap()], &mut next);
        next.sort_unstable();
        next.dedup();
        waiting.extend(next.into_iter().map(|n| (n.to_owned(), seen.clone())));
    }
    true
}

fn cases(default: u32) -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        max_global_rejects: 1_000_000,
        ..ProptestConfig::with_cases(default)
    }
}

proptest! {
    #![proptest_config(cases(option_env!("HAFT_CASES").and_then(|n| n.parse().ok()).unwrap_or(300)))]

    /// An exact export gives the same verdicts; a wider one refuses nothing valid; a narrower one
    /// says so.
    #[test]
    fn a_schema_keeps_its_meaning(
        source in tool(),
        values in proptest::collection::vec(
            proptest::collection::vec((key(), value()), 0..4), 1..6
        ),
    ) {
        prop_assume!(ends(&source));
        let Some(own) = judge(&source) else { return Ok(()) };
        let values: Vec<Value> =
            values.into_iter().map(|pairs| Value::Object(pairs.into_iter().collect())).collect();
        for (dialect, strict) in modes() {
            let definition = ToolDefinition::new("t", "Does it.", &source);
            let shown = dialect.export_tool(&definition, &ExportOptions::default().strict(strict));
            let Some(tool) = &shown.tool else {
                for value in &values {
                    prop_assert!(!own.is_valid(value), "{dialect} leaves out what accepts {value}");
                }
                continue;
            };
            let options = ExportOptions::default().strict(strict);
            let export = ToolExport::of(dialect, std::slice::from_ref(&definition), &options);
            let schema = schema_of(dialect, tool);
            let sent_schema = judge(&schema);
            prop_assert!(sent_schema.is_some(), "{dialect} sends no schema: {schema}\n{source}");
            let sent_schema = sent_schema.unwrap();
            let has = |kind| shown.report.iter().any(|loss| loss.kind == kind);
            for value in &values {
                let data = renamed(value.clone(), &shown);
                let sent = if shown.strict { fill(&data, &schema, &schema) } else { data };
                // What the tool would get: its own names, without the nulls that strict mode added.
                let call = ToolCall::new("c", shown.name.as_str(), sent.clone());
                let Arguments::Json(got) = export.restore(call).arguments else { unreachable!() };
                let right = match (own.is_valid(value), sent_schema.is_valid(&sent)) {
                    (true, false) => has(LossKind::Narrowed),
                    (true, true) => own.is_valid(&got) || has(LossKind::Narrowed),
                    (false, true) => has(LossKind::Widened) || own.is_valid(&got),
                    (false, false) => true,
                };
                prop_assert!(
                    right,
                    "{dialect} {strict:?}: {value} is {} \nsource {source}\nsent {schema}\n{:?}",
                    own.is_valid(value), shown.report
                );
            }
        }
    }

    /// No JSON value makes an export panic.
    #[test]
    fn any_json_exports_without_panic(input in value(), schema in schema()) {
        for (dialect, strict) in modes() {
            for source in [&input, &schema] {
                let definition = ToolDefinition::new("t", "", source);
                let shown = dialect.export_tool(&definition, &ExportOptions::default().strict(strict));
                prop_assert!(shown.tool.is_some() || shown.report.iter().any(|l| l.kind == LossKind::Refused));
            }
        }
    }
}

#[test]
fn schema_without_valid_objects_still_accepts_other_values() {
    // The key is required and not allowed, so no object is valid. Without a type, a string is.
    let source = json!({
        "type": "object",
        "properties": {
            "x": {"properties": {}, "required": ["a"], "additionalProperties": false},
            "y": {"type": ["object", "null"], "required": ["a"], "additionalProperties": false},
        },
        "additionalProperties": false,
    });
    let definition = ToolDefinition::new("t", "Does it.", &source);
    for dialect in Dialect::ALL {
        for strict in [StrictMode::Off, StrictMode::On] {
            let shown = dialect.export_tool(&definition, &ExportOptions::default().strict(strict));
            let schema = schema_of(*dialect, shown.tool.as_ref().unwrap());
            let export = judge(&schema).unwrap();
            let good = json!({"x": "text", "y": null});
            assert!(export.is_valid(&good), "{dialect} {strict:?}: {schema}");
            let is_wider = shown.report.iter().any(|loss| loss.kind == LossKind::Widened);
            for bad in [json!({"x": {}, "y": null}), json!({"x": 1, "y": {"a": 1}})] {
                assert!(is_wider || !export.is_valid(&bad), "{dialect} {strict:?}: {schema}");
            }
        }
    }
}

#[test]
fn branch_that_is_not_an_object_does_not_become_one() {
    // No arguments are valid: the only branch is a number, whatever is nested in it.
    let source = json!({
        "type": "object",
        "anyOf": [{"type": "number", "anyOf": [{"required": ["a"]}]}],
    });
    // Here the second branch matches, and the first must not accept anything.
    let other = json!({
        "type": "object",
        "oneOf": [{"type": "number", "anyOf": [true]}, {"required": ["b"]}],
    });
    for dialect in Dialect::ALL {
        for (source, value) in [(&source, json!({"a": 1})), (&other, json!({"a": 1}))] {
            let definition = ToolDefinition::new("t", "Does it.", source);
            let shown = dialect.export_tool(&definition, &ExportOptions::default());
            let Some(tool) = &shown.tool else { continue };
            let export = judge(&schema_of(*dialect, tool)).unwrap();
            let is_wider = shown.report.iter().any(|loss| loss.kind == LossKind::Widened);
            assert!(is_wider || !export.is_valid(&value), "{dialect}: {tool}");
        }
    }
}

/// Whether a keyword is used as a keyword, and not as the name of a property.
fn mentions(node: &Value, word: &str) -> bool {
    match node {
        Value::Object(map) => map.iter().any(|(key, value)| {
            let names = key == "properties" && value.is_object();
            let data = ["enum", "const", "default", "examples", "required"].contains(&key.as_str());
            key == word
                || match value.as_object().filter(|_| names) {
                    Some(named) => named.values().any(|child| mentions(child, word)),
                    None => !data && mentions(value, word),
                }
        }),
        Value::Array(list) => list.iter().any(|item| mentions(item, word)),
        _ => false,
    }
}

fn redact_arguments(
    dialect: Dialect,
    source: &Value,
    options: &ExportOptions,
) -> (Value, haft_dialect::ExportedTool) {
    let shown = dialect.export_tool(&ToolDefinition::new("t", "Does it.", source), options);
    (schema_of(dialect, shown.tool.as_ref().unwrap()), shown)
}

#[test]
fn inline_option_leaves_no_reference_and_no_all_of_in_any_dialect() {
    let source = json!({
        "type": "object",
        "properties": {
            "from": {"$ref": "#/$defs/place", "description": "Where it begins."},
            "list": {"type": "array", "items": {"allOf": [{"$ref": "#/$defs/place"}, {"required": ["zip"]}]}},
            "$ref": {"type": "string"},
            "tree": {"$ref": "#/$defs/node"},
        },
        "allOf": [{"properties": {"more": {"type": "integer"}}}],
        "$defs": {
            "place": {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "string"}}, "required": ["city"]},
            "node": {"type": "object", "properties": {
                "value": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            }, "required": ["value"]},
        },
    });
    let deep = |depth: usize| {
        (0..depth)
            .fold(json!({"value": "leaf"}), |inner, _| json!({"value": "x", "children": [inner]}))
    };
    for dialect in Dialect::ALL.iter().copied() {
        for strict in [StrictMode::Off, StrictMode::Auto, StrictMode::On] {
            let (schema, shown) = redact_arguments(
                dialect,
                &source,
                &ExportOptions::default().strict(strict).inline(),
            );
            for word in ["$ref", "$defs", "allOf"] {
                assert!(!mentions(&schema, word), "{dialect} {strict:?}: {word} in {schema}");
            }
            let cut = |loss: &haft_dialect::Loss| {
                loss.kind == LossKind::Widened && loss.keyword == "$ref"
            };
            assert!(shown.report.iter().any(cut), "{dialect} {strict:?}: {:?}", shown.report);
            let export = judge(&schema).unwrap();
            for value in [
                json!({"from": {"city": "Oslo"}, "list": [{"city": "Rome", "zip": "1"}], "more": 1}),
                json!({"tree": deep(1)}),
                json!({"tree": deep(9)}),
            ] {
                let sent = renamed(value, &shown);
                let sent = if shown.strict { fill(&sent, &schema, &schema) } else { sent };
                assert!(export.is_valid(&sent), "{dialect} {strict:?}: {sent} {schema}");
            }
        }
    }
}

#[test]
fn inline_option_keeps_what_a_schema_without_recursion_accepts() {
    let source = json!({
        "type": "object",
        "properties": {"to": {"allOf": [{"$ref": "#/$defs/place"}, {"maxLength": 9}]}},
        "required": ["to"],
        "$defs": {"place": {"type": "string", "minLength": 2}},
    });
    let (schema, shown) =
        redact_arguments(Dialect::Mcp, &source, &ExportOptions::default().inline());
    assert!(shown.is_exact(), "{:?}", shown.report);
    assert_eq!(
        schema["properties"]["to"],
        json!({"type": "string", "minLength": 2, "maxLength": 9})
    );
}

#[test]
fn inline_option_never_refuses_properties_of_a_dropped_subschema() {
    let both = json!({"allOf": [
        {"properties": {"a": {"type": "string"}}, "if": {"required": ["a"]}, "then": {"required": ["b"]}},
        {"properties": {"b": {"type": "string"}}, "if": {"required": ["b"]}, "then": {"required": ["a"]}},
    ]});
    let mut closed = both.clone();
    closed["unevaluatedProperties"] = json!(false);
    let around = json!({"anyOf": [both], "unevaluatedProperties": false});
    let source = json!({"type": "object", "properties": {"x": closed, "y": around}});
    let value = json!({"x": {"a": "1", "b": "2"}, "y": {"a": "1", "b": "2"}});
    assert!(judge(&source).unwrap().is_valid(&value));
    for dialect in Dialect::ALL.iter().copied() {
        let (schema, shown) = redact_arguments(
            dialect,
            &source,
            &ExportOptions::default().strict(StrictMode::Off).inline(),
        );
        assert!(!mentions(&schema, "allOf"), "{dialect}: {schema}");
        assert!(judge(&schema).unwrap().is_valid(&value), "{dialect}: {schema}");
        let lost =
            |loss: &haft_dialect::Loss| loss.kind == LossKind::Widened && loss.keyword == "allOf";
        assert!(shown.report.iter().any(lost), "{dialect}: {:?}", shown.report);
    }
}

#[test]
fn inline_option_is_bounded_on_exponential_references() {
    let mut definitions = Map::new();
    for n in 0..40 {
        let next = |key: &str| (key.to_owned(), json!({"$ref": format!("#/$defs/d{}", n + 1)}));
        let properties: Map<String, Value> = [next("a"), next("b")].into_iter().collect();
        definitions.insert(format!("d{n}"), json!({"type": "object", "properties": properties}));
    }
    definitions.insert("d40".into(), json!({"type": "string"}));
    let source = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d20"}}, "$defs": definitions});
    for dialect in Dialect::ALL.iter().copied() {
        let shown = dialect.export_tool(
            &ToolDefinition::new("t", "", &source),
            &ExportOptions::default().inline(),
        );
        // A schema that inlines to this size is refused, or exported small with a loss.
        let Some(tool) = &shown.tool else { continue };
        let schema = schema_of(dialect, tool);
        assert!(schema.to_string().len() < 1 << 20, "{dialect}");
        assert!(!mentions(&schema, "$ref"), "{dialect}");
    }
}

#[test]
fn openai_objects_have_properties_and_any_is_an_empty_schema() {
    let source = json!({
        "type": "object",
        "properties": {
            "any": true, "never": false, "free": {"type": "object"},
            "list": {"type": "array", "items": true},
            "either": {"anyOf": [true, {"type": ["object", "null"], "additionalProperties": {"type": "string"}}]},
        },
    });
    for dialect in Dialect::ALL.iter().copied() {
        let (schema, _) =
            redact_arguments(dialect, &source, &ExportOptions::default().strict(StrictMode::Off));
        let properties = schema["properties"].as_object().unwrap();
        for (name, property) in properties {
            assert!(property.is_object(), "{dialect}: {name} is {property}");
        }
        if matches!(dialect, Dialect::Gemini | Dialect::GeminiJson) {
            continue;
        }
        assert_eq!(properties["any"], json!({}), "{dialect}");
        assert_eq!(properties["list"]["items"], json!({}), "{dialect}");
        assert_eq!(properties["either"]["anyOf"][0], json!({}), "{dialect}");
        if matches!(dialect, Dialect::OpenAiResponses | Dialect::OpenAiChat) {
            assert_eq!(properties["free"]["properties"], json!({}), "{dialect}");
            assert_eq!(properties["either"]["anyOf"][1]["properties"], json!({}), "{dialect}");
        }
    }
    for dialect in [Dialect::OpenAiResponses, Dialect::OpenAiChat] {
        let (schema, _) = redact_arguments(
            dialect,
            &json!({"type": "object"}),
            &ExportOptions::default().strict(StrictMode::Off),
        );
        assert_eq!(schema, json!({"type": "object", "properties": {}}), "{dialect}");
    }
}

#[test]
fn strict_schema_has_only_documented_formats() {
    let taken =
        ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];
    fn formats(node: &Value, found: &mut Vec<String>) {
        match node {
            Value::Object(map) => {
                found.extend(map.get("format").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|value| formats(value, found));
            }
            Value::Array(list) => list.iter().for_each(|item| formats(item, found)),
            _ => {}
        }
    }
    for format in ["json", "uri", "binary", "int32", "float", "date"] {
        let text = json!({"type": "string", "format": format});
        let source = json!({
            "type": "object",
            "properties": {
                "one": text,
                "none": {"type": ["string", "null"], "format": format},
                "listed": {"enum": ["a", "b"], "format": format},
                "number": {"type": "integer", "format": format},
                "list": {"type": "array", "items": {"anyOf": [text, {"type": "integer"}]}},
                "object": {"type": "object", "format": format, "properties": {"a": {"$ref": "#/$defs/t"}}},
                "sibling": {"$ref": "#/$defs/t", "format": format},
                "all": {"allOf": [{"type": "string"}, {"format": format}]},
            },
            "required": ["none"],
            "$defs": {"t": text},
        });
        for dialect in [Dialect::OpenAiResponses, Dialect::OpenAiChat] {
            for options in [ExportOptions::default(), ExportOptions::default().inline()] {
                let (schema, shown) =
                    redact_arguments(dialect, &source, &options.strict(StrictMode::On));
                assert!(shown.strict, "{dialect}: {:?}", shown.not_strict);
                let mut found = Vec::new();
                formats(&schema, &mut found);
                let odd: Vec<_> = found.iter().filter(|f| !taken.contains(&f.as_str())).collect();
                assert!(odd.is_empty(), "{dialect}: {odd:?} in {schema}");
            }
        }
    }
}

#[test]
fn open_object_is_closed_only_with_an_entry_in_the_report() {
    let open = |more: Value| json!({"type": "object", "properties": {"a": {"type": "string"}, "more": more}});
    let source = json!({
        "type": "object",
        "properties": {
            "plain": open(json!({"type": "string"})),
            "deep": open(open(open(json!({"type": "integer"})))),
            "list": {"type": "array", "items": open(json!({"type": "string"}))},
            "either": {"anyOf": [open(json!({"type": "string"})), {"type": "string"}]},
            "shared": {"$ref": "#/$defs/open"},
            "again": {"$ref": "#/$defs/open"},
            "none": {"type": ["object", "null"], "properties": {"b": {"type": "string"}}},
            "closed": {"type": "object", "properties": {"c": {"type": "string"}}, "additionalProperties": false},
        },
        "required": ["none"],
        "$defs": {"open": open(json!({"type": "string"}))},
    });
    for dialect in Dialect::ALL.iter().copied().filter(|dialect| dialect.has_strict()) {
        let (_, shown) =
            redact_arguments(dialect, &source, &ExportOptions::default().strict(StrictMode::On));
        assert!(shown.strict, "{dialect}: {:?}", shown.not_strict);
        let mut reported: Vec<&str> = shown
            .report
            .iter()
            .filter(|loss| {
                loss.kind == LossKind::Narrowed && loss.keyword == "additionalProperties"
            })
            .map(|loss| loss.pointer.as_str())
            .collect();
        reported.sort_unstable();
        let wanted = [
            "",
            "/$defs/open",
            "/properties/deep",
            "/properties/deep/properties/more",
            "/properties/deep/properties/more/properties/more",
            "/properties/either/anyOf/0",
            "/properties/list/items",
            "/properties/none",
            "/properties/plain",
        ];
        assert_eq!(reported, wanted, "{dialect}");
    }
    // A closed object cannot have arbitrary keys, so such a tool is not strict.
    for more in [json!(true), json!({}), json!({"type": "string"})] {
        let mut source = open(json!({"type": "string"}));
        source["additionalProperties"] = more.clone();
        for dialect in Dialect::ALL.iter().copied() {
            let (schema, shown) = redact_arguments(
                dialect,
                &source,
                &ExportOptions::default().strict(StrictMode::On),
            );
            assert!(!shown.strict, "{dialect}: {more}");
            assert_ne!(schema.get("additionalProperties"), Some(&json!(false)), "{dialect}");
        }
    }
}
