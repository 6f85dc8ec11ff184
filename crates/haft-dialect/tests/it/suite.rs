//! The official JSON Schema test suite and a corpus of real tools, exported to every dialect.
//!
//! An exact export must give the suite's own verdict for every value. A wider one must never refuse
//! a valid value. Only what is on a short list is refused.
#![expect(
    clippy::print_stderr,
    reason = "a skipped test says so, and the figures are worth seeing"
)]

use std::{collections::BTreeMap, fs, path::PathBuf};

use haft_dialect::{Dialect, ExportOptions, ExportedTool, LossKind, StrictMode, ToolDefinition};
use serde_json::{Value, json};

/// The directory of the corpora, if it exists here.
pub(crate) fn corpora() -> Option<PathBuf> {
    let here = std::env::var_os("HAFT_CORPORA").map(PathBuf::from).or_else(|| {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora");
        Some(root)
    });
    let found = here.filter(|path| path.is_dir());
    if found.is_none() {
        eprintln!("skipped: no corpora here (set HAFT_CORPORA to their directory)");
    }
    found
}

struct Group {
    name: String,
    schema: Value,
    tests: Vec<(Value, bool)>,
}

fn groups() -> Option<Vec<Group>> {
    let directory = corpora()?.join("json-schema-test-suite/tests");
    let directory = match directory.join("draft2020-12") {
        inner if inner.is_dir() => inner,
        _ => directory,
    };
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    let mut groups = Vec::new();
    for file in files {
        let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
        let content: Vec<Value> = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        for group in content {
            let tests = group["tests"].as_array().unwrap().iter();
            groups.push(Group {
                name: format!("{stem}: {}", group["description"].as_str().unwrap()),
                schema: group["schema"].clone(),
                tests: tests
                    .map(|test| (test["data"].clone(), test["valid"].as_bool().unwrap()))
                    .collect(),
            });
        }
    }
    Some(groups)
}

/// A tool's schema is an object, so any other schema becomes the schema of property `x`.
fn as_tool(schema: &Value) -> (Value, bool) {
    if schema.get("type") == Some(&json!("object")) {
        return (schema.clone(), false);
    }
    let mut inner = schema.clone();
    if let Some(map) = inner.as_object_mut()
        && !map.contains_key("$id")
    {
        // A resource of its own, so that `#` still refers to it.
        map.insert("$id".into(), json!("https://example.com/inner"));
    }
    let outer = json!({
        "type": "object",
        "properties": {"x": inner},
        "required": ["x"],
        "additionalProperties": false,
    });
    (outer, true)
}

pub(crate) fn schema_of(dialect: Dialect, tool: &Value) -> Value {
    let any = || json!({"type": "object"});
    match dialect {
        Dialect::Anthropic => tool["input_schema"].clone(),
        Dialect::OpenAiResponses => tool["parameters"].clone(),
        Dialect::OpenAiChat | Dialect::Mistral | Dialect::Ollama => {
            tool["function"]["parameters"].clone()
        }
        Dialect::Gemini => tool.get("parameters").map_or_else(any, open_api),
        Dialect::GeminiJson => tool.get("parametersJsonSchema").cloned().unwrap_or_else(any),
        Dialect::Bedrock => tool["toolSpec"]["inputSchema"]["json"].clone(),
        Dialect::Mcp => tool["inputSchema"].clone(),
        other => panic!("no schema in {other}"),
    }
}

/// Reads Gemini's subset of OpenAPI as JSON Schema.
fn open_api(node: &Value) -> Value {
    let Some(map) = node.as_object() else { return node.clone() };
    let mut out = serde_json::Map::new();
    for (key, value) in map {
        let value = match key.as_str() {
            "nullable" | "format" => continue,
            "items" => open_api(value),
            "anyOf" => value.as_array().unwrap().iter().map(open_api).collect(),
            "properties" => {
                let named = value.as_object().unwrap().iter();
                Value::Object(named.map(|(k, v)| (k.clone(), open_api(v))).collect())
            }
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    match map.get("nullable") {
        Some(Value::Bool(true)) => json!({"anyOf": [out, {"type": "null"}]}),
        _ => Value::Object(out),
    }
}

/// Adds the nulls that a model must send in strict mode.
pub(crate) fn fill(value: &Value, schema: &Value, root: &Value) -> Value {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(name.strip_prefix('#').unwrap()).unwrap();
        return fill(value, target, root);
    }
    if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
        for branch in branches {
            let filled = fill(value, branch, root);
            let mut whole = branch.clone();
            if let (Some(map), Some(defs)) = (whole.as_object_mut(), root.get("$defs")) {
                map.insert("$defs".into(), defs.clone());
            }
            if judge(&whole).is_some_and(|v| v.is_valid(&filled)) {
                return filled;
            }
        }
    }
    match value {
        Value::Object(map) => {
            let mut out = map.clone();
            for (name, child) in
                schema.get("properties").and_then(Value::as_object).into_iter().flatten()
            {
                match map.get(name) {
                    Some(value) => out.insert(name.clone(), fill(value, child, root)),
                    None if schema["required"]
                        .as_array()
                        .is_some_and(|r| r.contains(&json!(name))) =>
                    {
                        out.insert(name.clone(), Value::Null)
                    }
                    None => None,
                };
            }
            Value::Object(out)
        }
        Value::Array(list) => match schema.get("items") {
            Some(items) => list.iter().map(|v| fill(v, items, root)).collect(),
            None => value.clone(),
        },
        other => other.clone(),
    }
}

/// Renames the properties to their exported names.
pub(crate) fn renamed(mut data: Value, shown: &ExportedTool) -> Value {
    for (own, here) in shown.renamed() {
        if let Some(value) = data.as_object_mut().unwrap().shift_remove(own) {
            data[here] = value;
        }
    }
    data
}

pub(crate) fn judge(schema: &Value) -> Option<jsonschema::Validator> {
    jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .offline()
        .should_validate_formats(false)
        .build(schema)
        .ok()
}

fn has(shown: &ExportedTool, kind: LossKind) -> bool {
    shown.report.iter().any(|loss| loss.kind == kind)
}

#[derive(Default, Debug, PartialEq)]
struct Tally {
    exact: usize,
    widened: usize,
    narrowed: usize,
    refused: usize,
    strict: usize,
}

#[test]
fn json_schema_test_suite_keeps_its_results_in_every_dialect() {
    let Some(groups) = groups() else { return };
    assert!(groups.len() >= 380, "only {} groups", groups.len());
    let mut wrong = Vec::new();
    let mut tallies = BTreeMap::new();
    let mut refused = BTreeMap::new();
    for dialect in Dialect::ALL {
        for strict in [StrictMode::Off, StrictMode::On] {
            if strict == StrictMode::On && !dialect.has_strict() {
                continue;
            }
            let tally: &mut Tally = tallies.entry((*dialect, strict)).or_default();
            for group in &groups {
                let (source, wrapped) = as_tool(&group.schema);
                let definition = ToolDefinition::new("t", "Does it.", &source);
                let shown =
                    dialect.export_tool(&definition, &ExportOptions::default().strict(strict));
                let Some(tool) = &shown.tool else {
                    tally.refused += 1;
                    refused.entry(group.name.clone()).or_insert(shown.report[0].note.clone());
                    continue;
                };
                let schema = schema_of(*dialect, tool);
                let Some(validator) = judge(&schema) else {
                    wrong.push(format!("{dialect} {strict:?} {}: no schema {schema}", group.name));
                    continue;
                };
                tally.strict += usize::from(shown.strict);
                match () {
                    () if has(&shown, LossKind::Narrowed) => tally.narrowed += 1,
                    () if shown.is_exact() => tally.exact += 1,
                    () => tally.widened += 1,
                }
                for (data, valid) in &group.tests {
                    let data = if wrapped { json!({"x": data}) } else { data.clone() };
                    if !data.is_object() {
                        continue;
                    }
                    let data = renamed(data, &shown);
                    let sent = if shown.strict { fill(&data, &schema, &schema) } else { data };
                    let says = validator.is_valid(&sent);
                    let right = match (valid, says) {
                        (true, false) => has(&shown, LossKind::Narrowed) && shown.strict,
                        (false, true) => has(&shown, LossKind::Widened),
                        _ => true,
                    };
                    if !right {
                        wrong.push(format!(
                            "{dialect} {strict:?} {}: valid {valid}, says {says} for {sent}\n   source {source}\n   sent   {schema}\n   {:?}",
                            group.name, shown.report,
                        ));
                    }
                }
            }
        }
    }
    for (mode, tally) in &tallies {
        eprintln!("{mode:?}: {tally:?}");
    }
    for (name, why) in &refused {
        eprintln!("refused {name}: {why}");
    }
    for line in wrong.iter().take(12) {
        eprintln!("WRONG {line}");
    }
    assert_eq!(wrong.len(), 0);
    // Only remote documents and a foreign draft are refused. No more.
    assert_eq!(refused.len(), 22, "{refused:?}");
    for (name, why) in &refused {
        assert!(
            why.contains("not in this schema") || why.contains("not a known draft"),
            "{name}: {why}"
        );
    }
}

struct Real {
    id: String,
    name: String,
    description: String,
    input: Value,
    usable: bool,
}

fn lines(file: &str) -> Option<Vec<Value>> {
    let text = fs::read(corpora()?.join("tool-schemas").join(file)).unwrap();
    let text = String::from_utf8(text).unwrap();
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn tools() -> Option<Vec<Real>> {
    let text = |tool: &Value, key: &str| tool[key].as_str().unwrap_or_default().to_owned();
    Some(
        lines("tools.jsonl")?
            .iter()
            .map(|tool| Real {
                id: text(tool, "id"),
                name: text(tool, "name"),
                description: text(tool, "description"),
                input: tool["input_schema"].clone(),
                usable: tool["metaschema_ok"].as_bool().unwrap(),
            })
            .collect(),
    )
}

#[test]
fn every_real_tool_is_exported_and_no_valid_call_is_refused() {
    let Some(tools) = tools() else { return };
    let calls = lines("calls.jsonl").unwrap();
    let mut of_tool: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for call in &calls {
        if call["valid"] == true {
            of_tool.entry(call["schema_ref"].as_str().unwrap()).or_default().push(call);
        }
    }
    let mut wrong = Vec::new();
    for dialect in Dialect::ALL {
        for strict in [StrictMode::Auto, StrictMode::Off, StrictMode::On] {
            let (mut shown_tools, mut strict_tools) = (0, 0);
            let mut losses: BTreeMap<String, usize> = BTreeMap::new();
            for tool in tools.iter().filter(|tool| tool.usable) {
                let definition = ToolDefinition::new(&tool.name, &tool.description, &tool.input);
                let shown =
                    dialect.export_tool(&definition, &ExportOptions::default().strict(strict));
                let Some(json) = &shown.tool else {
                    wrong
                        .push(format!("{dialect}: {} is not shown: {:?}", tool.name, shown.report));
                    continue;
                };
                shown_tools += 1;
                strict_tools += usize::from(shown.strict);
                for loss in &shown.report {
                    *losses.entry(format!("{} {}", loss.kind, loss.keyword)).or_default() += 1;
                }
                let schema = schema_of(*dialect, json);
                let validator = judge(&schema).unwrap();
                for call in of_tool.get(tool.id.as_str()).into_iter().flatten() {
                    // In strict modes objects are closed, which the report says.
                    let undeclared = ["extra-property", "misspelled-property"]
                        .iter()
                        .any(|kind| call["mutation"] == *kind);
                    if shown.strict && undeclared {
                        assert!(has(&shown, LossKind::Narrowed));
                        continue;
                    }
                    let data = renamed(call["arguments"].clone(), &shown);
                    let sent = if shown.strict { fill(&data, &schema, &schema) } else { data };
                    if let Some(error) = validator.iter_errors(&sent).next() {
                        wrong.push(format!(
                            "{dialect} {strict:?}: {} can no longer say {sent}: {error}",
                            tool.name
                        ));
                    }
                }
            }
            eprintln!(
                "{dialect} {strict:?}: {shown_tools} shown, {strict_tools} strict, {losses:?}"
            );
        }
    }
    for line in wrong.iter().take(10) {
        eprintln!("WRONG {}", &line[..line.floor_char_boundary(600)]);
    }
    assert_eq!(wrong.len(), 0);
}
