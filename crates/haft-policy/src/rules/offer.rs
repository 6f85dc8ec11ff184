//! The literal rules that "always" would write.
//!
//! They cover this call and nothing that was not shown. They are suggested only if they would help:
//! an allow cannot lift a rule's ask.
//!
//! INVARIANT: suggested rules, parsed again, cover the call they were suggested for.

use haft_core::{Decision, Operation};
use serde_json::Value;

use super::{Rules, decide::Ruling};
use crate::{
    PolicyRequest, SuggestedRules,
    facts::{Facts, Part, Parts},
    pattern::{PathBase, Pattern, Side},
};

/// Maximum number of rules for a compound command.
const MAX_RULES: usize = 5;
/// Maximum bytes of a rule: a longer one cannot be shown in full.
const MAX_RULE_BYTES: usize = 200;

impl Rules {
    pub(super) fn literal_rules(
        &self,
        facts: &Facts<'_>,
        call: &PolicyRequest<'_>,
    ) -> Option<SuggestedRules> {
        let file = self.context.rules_file.clone()?;
        if !says_all(facts, call) {
            return None;
        }
        let helps = matches!(
            self.rule_on(facts, Some(call), &mut ()),
            Ruling::Built { decision: Decision::Ask, source: "the default", .. }
        );
        if !helps {
            return None;
        }
        let rules = self.literals(facts, facts.all())?;
        Some(SuggestedRules { rules, file })
    }

    /// Rules for exactly these parts of the call, parsed again and checked.
    pub(super) fn literals(&self, facts: &Facts<'_>, parts: Parts) -> Option<Vec<String>> {
        let rules = commands(facts, parts).or_else(|| arguments(facts))?;
        if rules.len() > MAX_RULES || rules.iter().any(|rule| rule.len() > MAX_RULE_BYTES) {
            return None;
        }
        let anchor = PathBase { directory: None, home: self.context.home.clone() };
        let mut covered = Parts::NONE;
        for rule in &rules {
            let pattern = Pattern::parse(rule, &anchor).ok()?;
            covered = covered.or(pattern.hits(facts, Side::Allow).yes);
        }
        parts.without(covered).is_empty().then_some(rules)
    }
}

/// One rule for each simple command and each file it writes or reads.
fn commands(facts: &Facts<'_>, parts: Parts) -> Option<Vec<String>> {
    if !facts.parts.iter().any(|part| matches!(part, Part::Command(_))) {
        return None;
    }
    let mut rules = Vec::new();
    for (_, part) in facts.parts.iter().enumerate().filter(|(at, _)| parts.has(*at)) {
        let rule = match part {
            // A space inside a word would parse as two words.
            Part::Command(command) if command.words.iter().all(is_one_word) => {
                format!("Bash({})", plain(&command.literal()?)?)
            }
            Part::Path { operation, resolved: Ok(path), .. } => {
                let tool = if *operation == Operation::Read { "Read" } else { "Edit" };
                format!("{tool}(/{})", plain(path.to_str()?)?)
            }
            _ => return None,
        };
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    Some(rules)
}

/// Whether a rule about the given arguments leaves nothing open: an omitted argument could have any
/// value next time.
fn says_all(facts: &Facts<'_>, call: &PolicyRequest<'_>) -> bool {
    if facts.parts.iter().any(|part| matches!(part, Part::Command(_))) {
        return true;
    }
    let properties = call.tool.input_schema.get("properties").and_then(Value::as_object);
    let given = |name: &String| facts.arguments.get(name).is_some_and(|value| !value.is_null());
    properties.is_none_or(|properties| properties.keys().all(given))
}

/// The tool, with every argument as it is.
fn arguments(facts: &Facts<'_>) -> Option<Vec<String>> {
    let mut rule = match facts.names.remote {
        Some((source, tool)) => format!("mcp__{source}__{tool}"),
        None => facts.names.own.to_owned(),
    };
    for (key, value) in facts.arguments.as_object()? {
        let text = match value {
            Value::String(text) => plain(text)?.to_owned(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            Value::Null => continue,
            Value::Array(_) | Value::Object(_) => return None,
        };
        let word = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if !word || text.is_empty() {
            return None;
        }
        let quote = if text.contains(char::is_whitespace) { "'" } else { "" };
        rule.push_str(&format!(" arg.{key}={quote}{text}{quote}"));
    }
    Some(vec![rule])
}

fn is_one_word(word: &haft_shell::Word) -> bool {
    word.literal().is_some_and(|text| !text.is_empty() && !text.contains(char::is_whitespace))
}

/// A text without special characters in a pattern and without invisible characters.
fn plain(text: &str) -> Option<&str> {
    let odd = |c: char| {
        c.is_control() || !(c.is_ascii() || c.is_alphanumeric()) || "*?[]{}()|!\\\"'".contains(c)
    };
    (!text.is_empty() && !text.contains(odd)).then_some(text)
}
