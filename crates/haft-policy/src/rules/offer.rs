//! The literal rules that "always" would write.
//!
//! They cover this call and nothing that was not shown. A call about one file gets a rule for its
//! tool and this file: the text of an edit never comes again. They are suggested only if they would
//! help: an allow cannot lift a rule's ask.
//!
//! INVARIANT: suggested rules, parsed again, cover the call they were suggested for.

use std::path::Path;

use haft_core::{Decision, Error, ErrorKind, Operation};
use serde_json::Value;

use super::{Rules, decide::Ruling};
use crate::{
    PolicyRequest, RuleStore, SuggestedRules,
    facts::{Facts, Part, Parts},
    pattern::{PathBase, Pattern, Side},
};

/// Maximum number of rules for a compound command.
const MAX_RULES: usize = 5;
/// Maximum bytes of a rule: a longer one cannot be shown in full.
const MAX_RULE_BYTES: usize = 200;

/// How far a rule about the file of a call reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The file.
    File,
    /// Everything below its directory.
    Directory,
}

impl Rules {
    /// The rules that "always" would write.
    pub(super) fn literal_rules(
        &self,
        facts: &Facts<'_>,
        call: &PolicyRequest<'_>,
    ) -> Option<SuggestedRules> {
        let file = self.context.rules_file.clone()?;
        if !self.allow_would_help(facts, call) {
            return None;
        }
        let rules = match self.path_rule(facts, Reach::File) {
            Some(rule) => vec![rule],
            None if says_all(facts, call) => self.literals(facts, facts.all())?,
            None => return None,
        };
        Some(SuggestedRules { rules, file })
    }

    /// The rules that "always in this directory" would write.
    pub(super) fn directory_rules(
        &self,
        facts: &Facts<'_>,
        call: &PolicyRequest<'_>,
    ) -> Option<SuggestedRules> {
        let file = self.context.rules_file.clone()?;
        if !self.allow_would_help(facts, call) {
            return None;
        }
        let rule = self.path_rule(facts, Reach::Directory)?;
        Some(SuggestedRules { rules: vec![rule], file })
    }

    /// An allow lifts only the ask of the default.
    fn allow_would_help(&self, facts: &Facts<'_>, call: &PolicyRequest<'_>) -> bool {
        matches!(
            self.rule_on(facts, Some(call), &mut ()),
            Ruling::Built { decision: Decision::Ask, source: "the default", .. }
        )
    }

    /// Says, for a person, why there are no rules to write.
    pub(super) fn why_no_literal(&self, facts: &Facts<'_>, call: &PolicyRequest<'_>) -> String {
        match self.rule_on(facts, Some(call), &mut ()) {
            Ruling::Asked { at, .. } | Ruling::Needed { at, .. } => {
                let place = self.rules.get(at).map(|rule| rule.location.to_string());
                format!(
                    "the rule at {} asks, and an allow rule does not lift that",
                    place.unwrap_or_default()
                )
            }
            Ruling::Doubted { .. } => {
                "a deny rule may match, and no allow rule lifts that".to_owned()
            }
            Ruling::Built { source, .. } if source != "the default" => {
                format!("{source} asks, and this rule would not lift that")
            }
            _ if self.context.rules_file.is_none() => {
                "no rule file of this directory is trusted (`haft trust`)".to_owned()
            }
            _ => "no rule can describe exactly this call".to_owned(),
        }
    }

    /// A rule for all calls of this tool about the same file, or about its directory. `None` unless
    /// the call does nothing but read or write one file.
    pub(super) fn path_rule(&self, facts: &Facts<'_>, reach: Reach) -> Option<String> {
        let [Part::Path { resolved: Ok(path), .. }] = facts.parts.as_slice() else { return None };
        let base = self.context.rules_file.as_deref().and_then(Path::parent);
        let path = match reach {
            Reach::File => path.as_path(),
            Reach::Directory => path.parent()?,
        };
        let shown = match base.and_then(|base| path.strip_prefix(base).ok()) {
            Some(inside) => plain_or_empty(inside.to_str()?)?,
            // From the root: `//`.
            None => plain(path.to_str()?)?,
        };
        let text = match reach {
            Reach::File => format!("/{shown}"),
            Reach::Directory if shown.is_empty() => "/**".to_owned(),
            Reach::Directory => format!("/{shown}/**"),
        };
        let quote = if text.contains(char::is_whitespace) { "'" } else { "" };
        let rule = format!("{} path={quote}{text}{quote}", tool_name(facts));
        if rule.len() > MAX_RULE_BYTES {
            return None;
        }
        let anchor =
            PathBase { directory: base.map(Path::to_owned), home: self.context.home.clone() };
        let pattern = Pattern::parse(&rule, &anchor).ok()?;
        let covered = pattern.hits(facts, Side::Allow).yes;
        facts.all().without(covered).is_empty().then_some(rule)
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

/// The name of the tool in a rule.
fn tool_name(facts: &Facts<'_>) -> String {
    match facts.names.remote {
        Some((source, tool)) => format!("mcp__{source}__{tool}"),
        None => facts.names.own.to_owned(),
    }
}

/// The tool, with every argument as it is.
fn arguments(facts: &Facts<'_>) -> Option<Vec<String>> {
    let mut rule = tool_name(facts);
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

/// The same for a text that may be empty.
fn plain_or_empty(text: &str) -> Option<&str> {
    if text.is_empty() { Some(text) } else { plain(text) }
}

/// A text without special characters in a pattern and without invisible characters.
fn plain(text: &str) -> Option<&str> {
    let odd = |c: char| {
        c.is_control() || !(c.is_ascii() || c.is_alphanumeric()) || "*?[]{}()|!\\\"'".contains(c)
    };
    (!text.is_empty() && !text.contains(odd)).then_some(text)
}

/// Rules alone suggest and cannot save: the file is that of [`ReloadableRules`].
///
/// [`ReloadableRules`]: crate::ReloadableRules
impl RuleStore for Rules {
    fn suggest_for(&self, call: &PolicyRequest<'_>) -> Option<SuggestedRules> {
        let facts = Facts::of(call, &self.context);
        self.literal_rules(&facts, call)
    }

    fn suggest_for_directory(&self, call: &PolicyRequest<'_>) -> Option<SuggestedRules> {
        self.directory_rules(&Facts::of(call, &self.context), call)
    }

    fn why_not_suggested(&self, call: &PolicyRequest<'_>) -> Option<String> {
        Some(self.why_no_literal(&Facts::of(call, &self.context), call))
    }

    fn file_rule(&self, call: &PolicyRequest<'_>) -> Option<String> {
        self.path_rule(&Facts::of(call, &self.context), Reach::File)
    }

    fn save(&self, _: &SuggestedRules) -> Result<(), Error> {
        Err(Error::new(ErrorKind::Unsupported, "these rules were not loaded from a file"))
    }
}
