//! Reports the errors of one value: one line for each, and of a union only the intended branch.
//!
//! In: the errors of the validator. Out: locations and messages. Values that the schema marks as
//! secret are not repeated.

use std::fmt::{self, Write};

use haft_core::text::shortened_bytes;
use serde_json::{Map, Value};

use super::{MAX_ERRORS, MAX_SHOWN_ERRORS, ValidationError};
use crate::{
    expected::expected,
    lookup::{SchemaLookup, node_of},
    near::nearest,
    parse::kind,
    pointer::below,
    union::{Choice, Union},
    validator::{Violation, ViolationKind as Kind},
};

/// An invalid value is truncated to this many bytes.
const MAX_VALUE_BYTES: usize = 80;
/// A location is truncated to this many bytes.
const MAX_POINTER_BYTES: usize = 300;
/// How many keys of an object are listed.
const MAX_SHOWN_KEYS: usize = 5;
/// How many of the other branches are listed.
const MAX_OTHER_BRANCHES: usize = 4;
/// An error, and the branch of a union it is about.
pub(super) struct ErrorLine {
    problem: ValidationError,
    read_as: Option<String>,
}

impl ErrorLine {
    pub(super) fn without_note(self) -> ValidationError {
        self.problem
    }

    pub(super) fn whole(self) -> ValidationError {
        let mut problem = self.problem;
        if let Some(read_as) = self.read_as {
            let stop = if problem.message.ends_with('?') { "" } else { "." };
            let _ = write!(problem.message, "{stop} {read_as}");
        }
        problem
    }
}

/// Context for reporting the errors of one value.
pub(super) struct Reporter<'a> {
    pub(super) lookup: SchemaLookup<'a>,
    pub(super) value: &'a Value,
}

impl<'a> Reporter<'a> {
    /// Reports one error; for a union, the errors of the intended branch.
    pub(super) fn report(&self, error: &Violation<'_>, unions: usize, lines: &mut Vec<ErrorLine>) {
        if let Kind::AnyOf { context } | Kind::OneOfNotValid { context } = error.kind()
            && let Some(unions) = unions.checked_sub(1)
            && self.report_union(error, context, unions, lines).is_some()
        {
            return;
        }
        let node = node_of(self.lookup.root(), error);
        self.report_at(error, error.at(), node, lines);
    }

    /// Reports one error about the value at a location, with the schema node that it comes from.
    pub(super) fn report_at(
        &self,
        error: &Violation<'_>,
        at: &str,
        node: Option<&'a Value>,
        lines: &mut Vec<ErrorLine>,
    ) {
        let message = self.message(error, at, node);
        self.push(at, error.kind().keyword(), message, lines);
    }

    pub(super) fn push(
        &self,
        at: &str,
        keyword: &str,
        message: String,
        lines: &mut Vec<ErrorLine>,
    ) {
        if lines.len() < MAX_ERRORS {
            let pointer = escape_controls(shortened_bytes(at, MAX_POINTER_BYTES));
            let problem = ValidationError { pointer, keyword: keyword.to_owned(), message };
            lines.push(ErrorLine { problem, read_as: None });
        }
    }

    /// Reports the errors of the intended branch; `None` if no branch can be chosen.
    fn report_union(
        &self,
        error: &Violation<'_>,
        against: &[Vec<Violation<'static>>],
        unions: usize,
        lines: &mut Vec<ErrorLine>,
    ) -> Option<()> {
        let node = node_of(self.lookup.root(), error)?;
        let keyword = error.kind().keyword();
        let branches = node.get(keyword)?.as_array()?.as_slice();
        let at = error.at();
        let value = self.value.pointer(at)?;
        let union = Union { lookup: self.lookup, branches, against, at, value };
        match union.choose() {
            Choice::Branch(chosen) => {
                let first = lines.len();
                for error in against.get(chosen)?.iter().take(MAX_ERRORS) {
                    self.report(error, unions, lines);
                }
                // Of nested unions the innermost is nearest to the mistake. That null is also
                // allowed does not help a model that sent a value.
                let line = lines.get_mut(first).filter(|line| line.read_as.is_none());
                let others: Vec<String> = (0..branches.len())
                    .filter(|n| *n != chosen && line.is_some())
                    .map(|n| union.label(n))
                    .filter(|label| label != "null")
                    .take(MAX_OTHER_BRANCHES + 1)
                    .collect();
                if let Some(line) = line
                    && !others.is_empty()
                {
                    let more = if others.len() > MAX_OTHER_BRANCHES { ", …" } else { "" };
                    let shown = others.get(..MAX_OTHER_BRANCHES).unwrap_or(&others).join(", ");
                    let chosen = union.label(chosen);
                    line.read_as =
                        Some(format!("This was read as {chosen}; also possible: {shown}{more}"));
                }
                (lines.len() > first || lines.len() >= MAX_ERRORS).then_some(())
            }
            choice => self.report_choice(choice, value, at, lines),
        }
    }

    /// Reports that the discriminator is missing or has an unknown value; `None` if there is no
    /// discriminator.
    pub(super) fn report_choice(
        &self,
        choice: Choice<'_>,
        value: &Value,
        at: &str,
        lines: &mut Vec<ErrorLine>,
    ) -> Option<()> {
        let one_of = |tags: &[&Value]| {
            let shown: Vec<String> = tags.iter().take(10).map(|t| t.to_string()).collect();
            format!("{}{}", shown.join(", "), if tags.len() > 10 { ", …" } else { "" })
        };
        match choice {
            Choice::Branch(_) | Choice::NoSuchType => None,
            Choice::TagMissing { key, tags } => {
                let message =
                    format!("`{key}` is missing; it is required, as one of {}", one_of(&tags));
                self.push(at, "required", message, lines);
                Some(())
            }
            Choice::NoSuchTag { key, tags } => {
                let at = below(at, key);
                let sent = value.get(key)?;
                let mut message =
                    format!("expected one of {}; got {}", one_of(&tags), self.got(&at, sent));
                self.suggest(&at, sent, tags.iter().filter_map(|t| t.as_str()), &mut message);
                self.push(&at, "enum", message, lines);
                Some(())
            }
        }
    }

    /// Reports that a value has none of the types of a union.
    pub(super) fn none_of(&self, branches: &'a [Value], at: &str, value: &Value) -> String {
        let mut words: Vec<String> = Vec::new();
        for branch in branches {
            let word = self.lookup.parts(branch).into_iter().find_map(expected);
            words.extend(word.filter(|word| !words.contains(word)));
        }
        let expected = if words.is_empty() {
            "one of the allowed shapes".to_owned()
        } else {
            words.join(", or ")
        };
        format!("expected {expected}; got {}", self.got(at, value))
    }

    /// Describes the value that was sent.
    fn got(&self, at: &str, value: &Value) -> String {
        match value {
            Value::Object(map) => self.got_object(at, map),
            Value::Array(list) => format!("an array of {}", list.len()),
            Value::Null => "null".to_owned(),
            _ if self.lookup.is_secret(at) => "a hidden value".to_owned(),
            other => format!(
                "{} ({})",
                shortened_bytes(&other.to_string(), MAX_VALUE_BYTES),
                kind(other)
            ),
        }
    }

    /// Describes an object by its keys. The keys of a secret are only counted.
    fn got_object(&self, at: &str, map: &Map<String, Value>) -> String {
        if map.is_empty() {
            return "an empty object".to_owned();
        }
        let word = if map.len() == 1 { "key" } else { "keys" };
        if self.lookup.is_secret(at) {
            return format!("an object with {} {word}", map.len());
        }
        let name =
            |key: &String| format!("`{}`", escape_controls(shortened_bytes(key, MAX_VALUE_BYTES)));
        let names: Vec<String> = map.keys().take(MAX_SHOWN_KEYS).map(name).collect();
        let more = if map.len() > MAX_SHOWN_KEYS { ", …" } else { "" };
        format!("an object with the {word} {}{more}", names.join(", "))
    }

    /// Adds a suggestion. For a secret there is none: it would almost repeat the value.
    fn suggest<'b>(
        &self,
        at: &str,
        sent: &Value,
        options: impl Iterator<Item = &'b str>,
        text: &mut String,
    ) {
        if let Some(sent) = sent.as_str()
            && let Some(near) = nearest(sent, options)
            && !self.lookup.is_secret(at)
        {
            let _ = write!(text, ". Did you mean \"{near}\"?");
        }
    }

    /// Returns the required names that an object does not have.
    fn missing(&self, at: &str, node: Option<&'a Value>) -> Vec<&'a str> {
        let sent = self.value.pointer(at).and_then(Value::as_object);
        let required = node.and_then(|node| node.get("required")).and_then(Value::as_array);
        let names = required.into_iter().flatten().filter_map(Value::as_str);
        names.filter(|name| sent.is_none_or(|sent| !sent.contains_key(*name))).collect()
    }

    fn message(&self, error: &Violation<'_>, at: &str, node: Option<&'a Value>) -> String {
        let got = || self.got(at, error.value());
        let bound = |limit: fmt::Arguments<'_>| {
            let own = node.and_then(expected);
            // A bound that comes from a format is not written in the schema.
            let is_written = node.is_some_and(|node| node.get(error.kind().keyword()).is_some());
            let expected = match own {
                Some(own) if is_written => own,
                Some(own) => format!("{own} of {limit}"),
                None => limit.to_string(),
            };
            format!("expected {expected}; got {}", got())
        };
        match error.kind() {
            Kind::Required { property } => {
                let name = property.as_str();
                let typo = self
                    .value
                    .pointer(at)
                    .and_then(Value::as_object)
                    .zip(node.and_then(|node| self.names(node)))
                    .and_then(|(sent, known)| {
                        let unknown_names =
                            sent.keys().map(String::as_str).filter(|k| !known.contains(k));
                        nearest(name, unknown_names.take(MAX_ERRORS))
                    });
                match typo {
                    Some(sent) => {
                        format!("`{name}` is missing; you sent `{sent}`, the name is `{name}`")
                    }
                    None => format!("`{name}` is missing; it is required"),
                }
            }
            Kind::AdditionalProperties { unexpected }
            | Kind::UnevaluatedProperties { unexpected } => {
                let known = node.and_then(|node| self.names(node)).unwrap_or_default();
                let missing = self.missing(at, node);
                let mut text = "unknown ".to_owned();
                for (n, name) in unexpected.iter().take(MAX_SHOWN_ERRORS).enumerate() {
                    let comma = if n > 0 { ", " } else { "" };
                    let shown = escape_controls(shortened_bytes(name, MAX_VALUE_BYTES));
                    let _ = write!(text, "{comma}`{shown}`");
                    // First among the required names that are missing.
                    let near = nearest(name, missing.iter().copied());
                    if let Some(near) = near.or_else(|| nearest(name, known.iter().copied())) {
                        let _ = write!(text, " (did you mean `{near}`?)");
                    }
                }
                let names: Vec<String> = known.iter().take(12).map(|k| format!("`{k}`")).collect();
                if names.is_empty() {
                    text + "; no arguments are allowed here"
                } else {
                    text + "; valid names are " + &names.join(", ")
                }
            }
            Kind::Enum { options } => {
                let list = options.as_array().map(Vec::as_slice).unwrap_or_default();
                let shown: Vec<String> = list.iter().take(10).map(Value::to_string).collect();
                let more = if list.len() > 10 { ", …" } else { "" };
                let mut text = format!("expected one of {}{more}; got {}", shown.join(", "), got());
                let options = list.iter().filter_map(Value::as_str);
                self.suggest(at, error.value(), options, &mut text);
                text
            }
            Kind::Constant { expected_value } => {
                let expected = shortened_bytes(&expected_value.to_string(), MAX_VALUE_BYTES);
                let mut text = format!("expected {expected}; got {}", got());
                let only = expected_value.as_str().into_iter();
                self.suggest(at, error.value(), only, &mut text);
                text
            }
            Kind::Type { types } => {
                let expected = node
                    .and_then(expected)
                    .unwrap_or_else(|| types.names().collect::<Vec<_>>().join(" or "));
                format!("expected {expected}; got {}", got())
            }
            Kind::Minimum { limit } => bound(format_args!("at least {limit}")),
            Kind::Maximum { limit } => bound(format_args!("at most {limit}")),
            Kind::ExclusiveMinimum { limit } => bound(format_args!("more than {limit}")),
            Kind::ExclusiveMaximum { limit } => bound(format_args!("less than {limit}")),
            Kind::MinLength { limit } => bound(format_args!("at least {limit} characters")),
            Kind::MaxLength { limit } => bound(format_args!("at most {limit} characters")),
            Kind::MultipleOf { multiple_of } => {
                format!("expected a multiple of {multiple_of}; got {}", got())
            }
            Kind::Pattern { pattern } => {
                format!(
                    "expected text matching `{}`; got {}",
                    shortened_bytes(pattern, MAX_VALUE_BYTES),
                    got()
                )
            }
            Kind::Format { format } => format!("expected a valid {format}; got {}", got()),
            Kind::MinItems { limit } => format!("expected at least {limit} items; got {}", got()),
            Kind::MaxItems { limit } => format!("expected at most {limit} items; got {}", got()),
            Kind::UniqueItems => "the items must all be different".to_owned(),
            Kind::PropertyNames { error } => {
                let node = self.node(error);
                format!("a name in this object is not allowed: {}", self.message(error, at, node))
            }
            Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => {
                let union = node.and_then(|n| n.get("anyOf").or_else(|| n.get("oneOf")));
                let branches = union.and_then(Value::as_array).map(Vec::as_slice);
                self.none_of(branches.unwrap_or_default(), at, error.value())
            }
            Kind::OneOfMultipleValid => {
                format!(
                    "matches more than one of the allowed shapes, and must match exactly one; got {}",
                    got()
                )
            }
            other => format!("does not satisfy `{}`; got {}", other.keyword(), got()),
        }
    }

    /// The schema node that an error comes from.
    fn node(&self, error: &Violation<'_>) -> Option<&'a Value> {
        node_of(self.lookup.root(), error)
    }

    /// The property names that a schema node declares.
    fn names(&self, node: &'a Value) -> Option<Vec<&'a str>> {
        let names = self.lookup.names(node);
        (!names.is_empty()).then_some(names)
    }
}

/// Escapes control characters: a name is text of the model and must not start a new line of the
/// message (prompt injection).
fn escape_controls(text: String) -> String {
    if text.contains(char::is_control) { text.escape_debug().to_string() } else { text }
}
