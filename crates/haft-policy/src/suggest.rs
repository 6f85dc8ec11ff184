//! Suggests the narrowest rules for repeated approvals, and what else each would allow.
//!
//! In: decisions that people made. Out: rules that cover at least two of the allowed calls and none
//! of the denied ones. A rule is never wider than necessary: what was equal in all calls stays in
//! it, and what varied is reported as what else it allows. Pure.

use std::collections::BTreeMap;

use haft_core::Decision;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    context::PolicyContext,
    facts::{Parts, Sample},
    pattern::{PathBase, Pattern, Side},
    rule::Rule,
    rules::Rules,
};

/// Minimum number of approvals for a suggestion.
const MIN_APPROVALS: usize = 2;
/// Programs that execute what they are given: a prefix of one does not restrict it.
const OPEN_ENDED: &[&str] = &[
    "sh", "bash", "zsh", "dash", "ksh", "fish", "sudo", "doas", "env", "eval", "exec", "xargs",
    "ssh", "python", "python3", "node", "perl", "ruby", "php", "awk", "find", "rm", "dd", "curl",
    "wget",
];

/// One decision that a person made.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RecordedDecision {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// `allow` or `deny`.
    pub decision: String,
}

/// A rule for repeated approvals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Suggestion {
    /// The rule, as written in `match`.
    pub rule: String,
    /// How many of the approvals it covers.
    pub covers: usize,
    /// What else it would allow; empty for a rule that matches exactly one call.
    pub also_allows: Vec<String>,
}

impl Rules {
    /// Suggests rules for what was approved at least twice and is not yet allowed.
    #[must_use]
    pub fn suggest(&self, decided: &[RecordedDecision]) -> Vec<Suggestion> {
        let mut tools: BTreeMap<&str, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for one in decided {
            let lists = tools.entry(&one.tool).or_default();
            match one.decision.as_str() {
                "allow" => lists.0.push(&one.arguments),
                _ => lists.1.push(&one.arguments),
            }
        }
        let mut suggestions = Vec::new();
        for (tool, (allowed, denied)) in tools {
            let open: Vec<&Value> =
                allowed.into_iter().filter(|args| !self.allows(tool, args)).collect();
            let found = match command_argument(tool, &open) {
                Some(argument) => commands(&argument, &open),
                None => by_arguments(tool, &open),
            };
            suggestions.extend(found.into_iter().filter(|s| {
                s.covers >= MIN_APPROVALS
                    && open
                        .iter()
                        .filter(|args| covers(&s.rule, tool, args, self.context()))
                        .count()
                        >= MIN_APPROVALS
                    && !denied.iter().any(|args| covers(&s.rule, tool, args, self.context()))
            }));
        }
        suggestions.sort_by(|a, b| b.covers.cmp(&a.covers).then_with(|| a.rule.cmp(&b.rule)));
        suggestions
    }

    fn allows(&self, tool: &str, arguments: &Value) -> bool {
        let sample = Sample::new(tool, arguments.clone());
        let verdict = self.judge_sample(&sample);
        verdict.decision == Decision::Allow
    }
}

fn covers(rule: &str, tool: &str, arguments: &Value, context: &PolicyContext) -> bool {
    let Ok(pattern) =
        Pattern::parse(rule, &PathBase { directory: None, home: context.home.clone() })
    else {
        return false;
    };
    let rule = Rule::new(Decision::Allow, pattern);
    let sample = Sample::new(tool, arguments.clone());
    let facts = sample.facts(context);
    let hits = rule
        .matches
        .iter()
        .fold(Parts::NONE, |hits, pattern| hits.or(pattern.hits(&facts, Side::Allow).yes));
    facts.all().without(hits).is_empty()
}

/// The argument with the command line, for tools that run one.
fn command_argument(tool: &str, calls: &[&Value]) -> Option<String> {
    let runs = matches!(tool, "Bash" | "shell");
    let has = |args: &&Value| args.get("command").is_some_and(Value::is_string);
    (runs && !calls.is_empty() && calls.iter().all(has)).then(|| "command".to_owned())
}

/// Rules for commands: one for each repeated command, and one for each common prefix.
fn commands(argument: &str, calls: &[&Value]) -> Vec<Suggestion> {
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for text in calls.iter().filter_map(|args| args.get(argument)?.as_str()) {
        *counted.entry(text.trim()).or_default() += 1;
    }
    let mut found: Vec<Suggestion> = counted
        .iter()
        // A `*` in a command would be a wildcard in the rule, and cover more than was approved.
        .filter(|(text, count)| **count >= MIN_APPROVALS && !text.contains(['*', '\\']))
        .map(|(text, count)| Suggestion {
            rule: format!("Bash({text})"),
            covers: *count,
            also_allows: Vec::new(),
        })
        .collect();
    // The longest prefix that two different commands share, word by word.
    let texts: Vec<(&str, usize)> = counted.into_iter().collect();
    let mut shared: BTreeMap<String, usize> = BTreeMap::new();
    for pair in texts.windows(2) {
        let (a, b) = (pair[0].0, pair[1].0);
        let same = a.split(' ').zip(b.split(' ')).take_while(|(a, b)| a == b).count();
        let prefix: Vec<&str> = a.split(' ').take(same).collect();
        if prefix.iter().any(|word| word.contains(['*', '\\'])) {
            continue;
        }
        let bare = prefix.len() < 2 && prefix.first().is_none_or(|word| OPEN_ENDED.contains(word));
        if !bare && !OPEN_ENDED.contains(&prefix[0]) {
            shared.insert(prefix.join(" "), 0);
        }
    }
    for (prefix, covers) in &mut shared {
        let is_below = |text: &str| {
            text.strip_prefix(prefix.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        *covers = texts.iter().filter(|(text, _)| is_below(text)).map(|(_, count)| count).sum();
    }
    found.extend(shared.into_iter().map(|(prefix, covers)| Suggestion {
        rule: format!("Bash({prefix} *)"),
        covers,
        also_allows: vec![format!("anything that starts with `{prefix}`")],
    }));
    found
}

/// Rules for other tools: what was equal in all calls stays, what varied is reported.
fn by_arguments(tool: &str, calls: &[&Value]) -> Vec<Suggestion> {
    let maps: Vec<_> = calls.iter().filter_map(|args| args.as_object()).collect();
    let (Some(first), true) = (maps.first(), maps.len() >= MIN_APPROVALS) else {
        return Vec::new();
    };
    let mut rule = tool.to_owned();
    let mut also_allows = Vec::new();
    for (key, value) in *first {
        let same = maps.iter().all(|map| map.get(key) == Some(value));
        let word = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        match (value, word && same) {
            (Value::String(text), true) if is_plain(text) => {
                let quote = if text.contains(char::is_whitespace) { "'" } else { "" };
                rule.push_str(&format!(" arg.{key}={quote}{text}{quote}"));
            }
            (Value::Number(_) | Value::Bool(_), true) => {
                rule.push_str(&format!(" arg.{key}={value}"))
            }
            _ => also_allows.push(format!("any value of `{key}`")),
        }
    }
    if maps.iter().any(|map| map.keys().any(|key| !first.contains_key(key))) {
        also_allows.push("other arguments as well".to_owned());
    }
    vec![Suggestion { rule, covers: maps.len(), also_allows }]
}

fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 120
        && !text.contains(|c: char| c.is_control() || "*?[]{}()|!\\\"'".contains(c))
}
