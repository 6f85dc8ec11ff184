//! Tells a model what is wrong with its arguments: where, what is expected, what came, and the
//! nearest name.
//!
//! In: an entry and arguments its validator refused. Out: one failure of at most eight lines.

use std::fmt::Write;

use haft_core::{Code, Failure};
use jsonschema::{ValidationError, error::TypeKind, error::ValidationErrorKind as Kind};
use serde_json::Value;

use super::parse::kind;
use crate::{catalog::Entry, near::nearest};

/// More lines than this are noise: fixing the first few usually fixes the rest.
const SHOWN: usize = 8;
/// Past this, problems are not even counted.
const COUNTED: usize = 100;
/// How much of a wrong value is shown.
const VALUE: usize = 80;

/// Describes why the arguments do not fit.
pub(crate) fn describe(entry: &Entry, arguments: &Value) -> Failure {
    let schema = entry.input_schema();
    let mut problems: Vec<(usize, String, String)> = entry
        .validator()
        .iter_errors(arguments)
        .take(COUNTED)
        .map(|error| {
            let at = error.instance_path().as_str().to_owned();
            let line = line(schema, arguments, &at, &error);
            (at.matches('/').count(), at, line)
        })
        .collect();
    problems.sort();
    let all = problems.len();
    let mut message = match all {
        1 => String::new(),
        COUNTED.. => format!("{COUNTED} or more problems with the arguments:\n"),
        n => format!("{n} problems with the arguments:\n"),
    };
    for (_, _, line) in problems.iter().take(SHOWN) {
        let _ = writeln!(message, "{line}");
    }
    if all > SHOWN {
        let _ = writeln!(message, "… and {} more", all - SHOWN);
    }
    Failure::new(Code::BadArguments, message.trim_end())
        .with_next(format!("call `{}` again with this fixed", entry.name()))
}

fn line(schema: &Value, arguments: &Value, at: &str, error: &ValidationError<'_>) -> String {
    let place = if at.is_empty() { "/" } else { at };
    let got = || {
        if is_secret(schema, at) {
            return "a hidden value".to_owned();
        }
        let value = error.instance();
        match value.as_ref() {
            Value::Object(map) => format!("an object with {} keys", map.len()),
            Value::Array(list) => format!("an array of {}", list.len()),
            other => format!("{} ({})", cut(&other.to_string()), kind(other)),
        }
    };
    match error.kind() {
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let slip = arguments
                .pointer(at)
                .and_then(Value::as_object)
                .zip(properties(schema, error))
                .and_then(|(sent, known)| {
                    let strangers = sent.keys().map(String::as_str).filter(|k| !known.contains(k));
                    nearest(name, strangers)
                });
            match slip {
                Some(sent) => {
                    format!("{place}: `{name}` is missing; you sent `{sent}`, the name is `{name}`")
                }
                None => format!("{place}: `{name}` is missing; it is required"),
            }
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let known = properties(schema, error).unwrap_or_default();
            let mut text = format!("{place}: unknown ");
            for (n, name) in unexpected.iter().take(SHOWN).enumerate() {
                let _ = write!(text, "{}`{}`", if n > 0 { ", " } else { "" }, cut(name));
                if let Some(near) = nearest(name, known.iter().copied()) {
                    let _ = write!(text, " (did you mean `{near}`?)");
                }
            }
            let names: Vec<String> = known.iter().take(12).map(|k| format!("`{k}`")).collect();
            match names.is_empty() {
                true => text + "; there are no arguments here",
                false => text + "; valid names are " + &names.join(", "),
            }
        }
        Kind::Enum { options } => {
            let list = options.as_array().map(Vec::as_slice).unwrap_or_default();
            let shown: Vec<String> = list.iter().take(10).map(Value::to_string).collect();
            let more = if list.len() > 10 { ", …" } else { "" };
            let mut text =
                format!("{place}: expected one of {}{more}; got {}", shown.join(", "), got());
            if let Some(sent) = error.instance().as_str()
                && let Some(near) = nearest(sent, list.iter().filter_map(Value::as_str))
            {
                let _ = write!(text, ". Did you mean \"{near}\"?");
            }
            text
        }
        Kind::Constant { expected_value } => {
            format!("{place}: expected {}; got {}", cut(&expected_value.to_string()), got())
        }
        Kind::Type { kind } => {
            let expected = node(schema, error).and_then(expected).unwrap_or_else(|| match kind {
                TypeKind::Single(one) => one.to_string(),
                TypeKind::Multiple(some) => {
                    some.iter().map(|t| t.to_string()).collect::<Vec<_>>().join(" or ")
                }
            });
            format!("{place}: expected {expected}; got {}", got())
        }
        Kind::Minimum { .. }
        | Kind::Maximum { .. }
        | Kind::ExclusiveMinimum { .. }
        | Kind::ExclusiveMaximum { .. }
        | Kind::MinLength { .. }
        | Kind::MaxLength { .. } => {
            let expected = node(schema, error).and_then(expected);
            format!("{place}: expected {}; got {}", expected.unwrap_or_default(), got())
        }
        Kind::Pattern { pattern } => {
            format!("{place}: expected text matching `{}`; got {}", cut(pattern), got())
        }
        Kind::Format { format } => format!("{place}: expected a valid {format}; got {}", got()),
        Kind::MinItems { limit } => {
            format!("{place}: expected at least {limit} items; got {}", got())
        }
        Kind::MaxItems { limit } => {
            format!("{place}: expected at most {limit} items; got {}", got())
        }
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => {
            let expected = node(schema, error)
                .and_then(|n| n.get("anyOf").or_else(|| n.get("oneOf")))
                .and_then(Value::as_array)
                .map(|b| b.iter().filter_map(expected).collect::<Vec<_>>().join(", or "))
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| "one of the allowed shapes".to_owned());
            format!("{place}: expected {expected}; got {}", got())
        }
        other => format!("{place}: does not satisfy `{}`; got {}", other.keyword(), got()),
    }
}

/// The schema node that holds the failing keyword.
fn node<'a>(schema: &'a Value, error: &ValidationError<'_>) -> Option<&'a Value> {
    let path = error.schema_path().as_str();
    schema.pointer(&path[..path.rfind('/')?])
}

fn properties<'a>(schema: &'a Value, error: &ValidationError<'_>) -> Option<Vec<&'a str>> {
    let known = node(schema, error)?.get("properties")?.as_object()?;
    Some(known.keys().map(String::as_str).collect())
}

/// A type with its limits, in words.
fn expected(node: &Value) -> Option<String> {
    let kinds = match node.get("type")? {
        Value::String(one) => one.clone(),
        Value::Array(some) => {
            some.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        _ => return None,
    };
    let bound = |names: [&str; 2], word: &str, exclusive: &str| {
        names
            .iter()
            .zip([word, exclusive])
            .find_map(|(name, word)| Some(format!("{word} {}", node.get(*name)?)))
    };
    let mut limits: Vec<String> = Vec::new();
    match (node.get("minimum"), node.get("maximum")) {
        (Some(low), Some(high)) => limits.push(format!("from {low} to {high}")),
        _ => {
            limits.extend(bound(["minimum", "exclusiveMinimum"], "of at least", "above"));
            limits.extend(bound(["maximum", "exclusiveMaximum"], "of at most", "below"));
        }
    }
    match (node.get("minLength"), node.get("maxLength")) {
        (Some(low), Some(high)) => limits.push(format!("of {low} to {high} characters")),
        (Some(low), None) => limits.push(format!("of at least {low} {}", characters(low))),
        (None, Some(high)) => limits.push(format!("of at most {high} {}", characters(high))),
        (None, None) => {}
    }
    let article = if kinds.starts_with(['a', 'i', 'o', 'u']) { "an" } else { "a" };
    let article = if kinds == "null" { String::new() } else { format!("{article} ") };
    Some([format!("{article}{kinds}"), limits.join(" ")].join(" ").trim_end().to_owned())
}

fn characters(count: &Value) -> &'static str {
    if *count == 1 { "character" } else { "characters" }
}

/// Whether the argument at this place must not be shown back.
fn is_secret(schema: &Value, at: &str) -> bool {
    let Some(first) = at.split('/').nth(1) else { return false };
    let name = first.replace("~1", "/").replace("~0", "~");
    schema.get("properties").and_then(|p| p.get(&name)).is_some_and(|p| {
        p.get("x-secret").or_else(|| p.get("writeOnly")) == Some(&Value::Bool(true))
    })
}

fn cut(text: &str) -> String {
    if text.len() <= VALUE {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(VALUE)])
}

#[cfg(test)]
mod tests {
    use haft_core::{DynTool, Spec, ToolName};
    use serde_json::json;

    use super::*;

    fn told(schema: Value, arguments: Value) -> String {
        let tool = DynTool::new(Spec::new("t", "Does it."), schema, |_, _| async { Ok(()) });
        let entry = Entry::freeze(ToolName::from("t"), &"here".into(), &tool).unwrap();
        describe(&entry, &arguments).message().to_owned()
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 2000},
                "mode": {"enum": ["eq", "ne"]},
                "key": {"type": "integer", "x-secret": true},
            },
            "required": ["path"],
        })
    }

    #[test]
    fn each_problem_names_place_expected_and_got() {
        insta::assert_snapshot!(
            told(schema(), json!({"path": "a", "limit": "all"})),
            @r#"/limit: expected an integer from 1 to 2000; got "all" (string)"#
        );
        insta::assert_snapshot!(
            told(schema(), json!({"path": "a", "limit": 0})),
            @"/limit: expected an integer from 1 to 2000; got 0 (integer)"
        );
        insta::assert_snapshot!(
            told(schema(), json!({"path": "a", "mode": "EQ"})),
            @r#"/mode: expected one of "eq", "ne"; got "EQ" (string). Did you mean "eq"?"#
        );
        insta::assert_snapshot!(
            told(schema(), json!({"path": "a", "limt": 3})),
            @"/: unknown `limt` (did you mean `limit`?); valid names are `path`, `limit`, `mode`, `key`"
        );
    }

    #[test]
    fn a_slip_in_a_required_name_is_told_as_one() {
        let text = told(schema(), json!({"paht": "a"}));
        assert!(text.contains("you sent `paht`, the name is `path`"), "{text}");
    }

    #[test]
    fn a_secret_is_not_shown_back() {
        let text = told(schema(), json!({"path": "a", "key": "hunter2"}));
        assert!(!text.contains("hunter2"), "{text}");
    }

    #[test]
    fn at_most_eight_are_shown_and_long_values_are_cut() {
        let schema = json!({"type": "object", "properties": {"a": {"items": {"type": "integer"}}}});
        let text = told(schema, json!({"a": vec!["é".repeat(500); 20]}));
        assert_eq!(text.lines().count(), 1 + 8 + 1, "{text}");
        assert!(text.contains("20 problems") && text.contains("and 12 more"));
        assert!(text.len() < 2_000);
    }
}
