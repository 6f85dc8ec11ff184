//! Compares an exported schema with the tool's own schema.
//!
//! An exact export gives the same verdict for every value. A wider one refuses nothing that the
//! tool accepts. What the model sends is restored first, as a call would be. Both sides use one
//! validator, so a quirk of the validator is on both sides.

use haft_core::{Arguments, ToolCall};
use haft_dialect::{Dialect, ExportedTool, LossKind, ToolExport};
use haft_schema::{Formats, Schema};
use serde_json::{Map, Value, json};

/// Describes how an export and its source disagree about a value, if they do.
///
/// # Errors
/// Fails with a description of the disagreement.
pub fn agrees(export: &ToolExport, source: &Schema, values: &[Value]) -> Result<(), String> {
    let [shown] = export.exported_tools() else { return Err("one tool is not one tool".to_owned()) };
    let Some(tool) = &shown.tool else { return Ok(()) };
    let exported = schema_of(export.dialect(), tool);
    let judge = Schema::compile_with(&exported, Formats::Annotation)
        .map_err(|e| format!("what is shown is no schema: {e}\n{exported}"))?;
    let has = |kind| shown.report.iter().any(|loss| loss.kind == kind);
    for value in values {
        let Some(sent) = renamed(value, shown) else { continue };
        let sent = if shown.strict { filled(&sent, &exported, &exported, 40) } else { sent };
        let call = ToolCall::new("call", shown.name.as_str(), sent.clone());
        let Arguments::Json(back) = export.restore(call).arguments else { continue };
        let there = judge.is_valid(&sent);
        // A value that the export accepts is judged as it arrives; otherwise as it was sent.
        let here = source.is_valid(if there { &back } else { value });
        let is_right = match (here, there) {
            (true, false) => has(LossKind::Narrowed),
            (false, true) => has(LossKind::Widened),
            _ => true,
        };
        if !is_right {
            return Err(format!(
                "the tool says {here}, the export says {there}\nvalue  {value}\nsent   {sent}\nback   {back}\nsource {}\nshown  {exported}\nreport {:?}",
                source.source(),
                shown.report,
            ));
        }
    }
    Ok(())
}

/// Finds the schema in an exported tool.
fn schema_of(dialect: Dialect, tool: &Value) -> Value {
    let place = match dialect {
        Dialect::Anthropic => "/input_schema",
        Dialect::OpenAiResponses | Dialect::Gemini => "/parameters",
        Dialect::OpenAiChat | Dialect::Mistral | Dialect::Ollama => "/function/parameters",
        Dialect::GeminiJson => "/parametersJsonSchema",
        Dialect::Bedrock => "/toolSpec/inputSchema/json",
        Dialect::Mcp => "/inputSchema",
        other => panic!("no schema known in {other}"),
    };
    // Gemini omits the whole member when there are no parameters.
    let schema = tool.pointer(place).cloned().unwrap_or_else(|| json!({"type": "object"}));
    if dialect == Dialect::Gemini { json_schema(&schema) } else { schema }
}

/// Reads Gemini's subset of OpenAPI as JSON Schema.
fn json_schema(node: &Value) -> Value {
    let Some(map) = node.as_object() else { return node.clone() };
    let mut out = Map::new();
    for (key, value) in map {
        let value = match (key.as_str(), value) {
            ("nullable" | "format", _) => continue,
            ("items", node) => json_schema(node),
            ("anyOf", Value::Array(list)) => list.iter().map(json_schema).collect(),
            ("properties", Value::Object(named)) => {
                Value::Object(named.iter().map(|(k, v)| (k.clone(), json_schema(v))).collect())
            }
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    match map.get("nullable") {
        Some(Value::Bool(true)) => json!({"anyOf": [out, {"type": "null"}]}),
        _ => out.into(),
    }
}

/// Renames properties to their exported names; `None` when the value already uses one of those.
fn renamed(value: &Value, shown: &ExportedTool) -> Option<Value> {
    let mut map = value.as_object()?.clone();
    for (own, here) in shown.renamed() {
        if map.contains_key(here) {
            return None;
        }
        if let Some(value) = map.shift_remove(own) {
            map.insert(here.to_owned(), value);
        }
    }
    Some(map.into())
}

/// Adds the nulls that a model must send in strict mode.
fn filled(value: &Value, schema: &Value, root: &Value, depth: usize) -> Value {
    let Some(depth) = depth.checked_sub(1) else { return value.clone() };
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let target = name.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return target.map_or_else(|| value.clone(), |t| filled(value, t, root, depth));
    }
    for branch in schema.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
        let sent = filled(value, branch, root, depth);
        let mut whole = branch.clone();
        if let (Some(map), Some(definitions)) = (whole.as_object_mut(), root.get("$defs")) {
            map.insert("$defs".into(), definitions.clone());
        }
        let judge = Schema::compile_with(&whole, Formats::Annotation);
        if judge.is_ok_and(|judge| judge.is_valid(&sent)) {
            return sent;
        }
    }
    match value {
        Value::Object(map) => {
            let mut out = map.clone();
            let required = schema.get("required").and_then(Value::as_array);
            let named = schema.get("properties").and_then(Value::as_object);
            for (name, child) in named.into_iter().flatten() {
                if let Some(inner) = out.get_mut(name) {
                    *inner = filled(inner, child, root, depth);
                } else if required.is_some_and(|r| r.iter().any(|one| one == name)) {
                    out.insert(name.clone(), Value::Null);
                }
            }
            out.into()
        }
        Value::Array(list) => match schema.get("items") {
            Some(items) => list.iter().map(|item| filled(item, items, root, depth)).collect(),
            None => value.clone(),
        },
        other => other.clone(),
    }
}
