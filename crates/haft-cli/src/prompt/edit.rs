//! Changed arguments: parses what a person typed, and shows the difference.

use std::sync::Arc;

use haft::approval::ApprovalRequest;
use serde_json::Value;

use super::page::argument;
use crate::{
    arguments,
    error::Problem,
    schema,
    style::{self, BAD, GOOD},
};

/// The arguments with the changes that a person typed.
pub(super) fn changed(
    old: &Value,
    line: &str,
    question: &ApprovalRequest<'_>,
) -> Result<Value, Problem> {
    if line.starts_with('{') {
        return crate::input::json(line, "what you typed");
    }
    let mut all = old.as_object().cloned().unwrap_or_default();
    for pair in split_words(line)? {
        let (key, value) = arguments::read_pair(&pair, Some(question.call.tool()))?;
        all.insert(key, value);
    }
    Ok(Value::Object(all))
}

/// The difference between two sets of arguments, line by line.
pub(super) fn changes(
    old: &Value,
    new: &Value,
    question: &ApprovalRequest<'_>,
    width: usize,
) -> String {
    let known = schema::parameters(question.call.tool().input_schema());
    let is_secret = |key: &str| known.iter().any(|p| p.name == key && p.is_secret());
    let none = serde_json::Map::new();
    let shown = |all: &Value| question.call.redact_arguments(&Arc::new(all.clone()));
    let shown = (shown(old), shown(new));
    let (old, new) = (old.as_object().unwrap_or(&none), new.as_object().unwrap_or(&none));
    let mut out = String::new();
    let mut side = |sign: &str, colour, key: &String, value: &Value| {
        // A key that redaction changed holds a secret, so its value is hidden too.
        let all = if sign == "-" { &shown.0 } else { &shown.1 };
        let is_secret = is_secret(key) || all.get(key).is_none();
        for line in argument(key, all.get(key).unwrap_or(value), is_secret, width).lines() {
            let line = line.strip_prefix("    ").unwrap_or(line);
            out += &format!("  {}\n", style::paint(colour, format_args!("{sign} {line}")));
        }
    };
    for (key, value) in old.iter().filter(|(key, value)| new.get(*key) != Some(value)) {
        side("-", BAD, key, value);
        new.get(key).into_iter().for_each(|value| side("+", GOOD, key, value));
    }
    new.iter().filter(|(key, _)| !old.contains_key(*key)).for_each(|(k, v)| side("+", GOOD, k, v));
    out
}

/// Splits a line at blanks; quotes protect blanks.
pub(super) fn split_words(line: &str) -> Result<Vec<String>, Problem> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut is_word = false;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => (quote, is_word) = (Some(c), true),
            (None, c) if c.is_whitespace() => {
                if std::mem::take(&mut is_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            (_, c) => {
                word.push(c);
                is_word = true;
            }
        }
    }
    if quote.is_some() {
        return Err(Problem::new("a quote is not closed").hint("add the closing quote"));
    }
    words.extend(is_word.then_some(word));
    Ok(words)
}
