//! Lints rules: shadowed rules, rules that never match, contradictions, and options without effect.
//!
//! In: compiled rules, and the registered tools. Out: findings with file and line. A finding is
//! certain as far as the rules go (symlinks and renamed tools excluded); doubtful ones are not
//! reported. Pure.

use std::{collections::HashMap, fmt, path::Path};

use haft_core::Decision;
use serde::Serialize;

use super::{
    context::ArgumentKind,
    pattern::{Key, Pattern, Sides},
    request::{PolicyTool, Subject},
    rule::{Rule, SourceLocation},
    rules::{Rules, names_protected},
};

/// Maximum number of pattern pairs to compare, about one second. Enough for some thousand rules
/// about the same tool, and for any number about different ones.
const MAX_PAIRS: usize = 2_000_000;

/// The default priority.
const DEFAULT_PRIORITY: i32 = 100;

/// A finding about a rule, for its author.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The location of the rule.
    pub location: SourceLocation,
    /// What kind of finding it is.
    pub kind: FindingKind,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub hint: String,
    /// The other rule involved, if any.
    pub other_rule: Option<SourceLocation>,
}

/// What kind of finding it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// A rule never decides, because another one covers all that it matches.
    Shadowed,
    /// No call can match it.
    NeverMatches,
    /// The same pattern is allowed here, and denied or asked about elsewhere.
    Contradictory,
    /// An exception excludes nothing, or everything.
    UnreachableException,
    /// It allows everything, or a program that can do anything.
    BroadAllow,
    /// A part of the rule has no effect.
    NoEffect,
    /// Another command does what the rule restricts, and the rule does not match it. For
    /// information: no list of programs is complete.
    WayAround,
    /// A rule that denies or asks has no example. For information.
    Untested,
    /// There were too many rules to compare all of them. For information.
    Unfinished,
}

impl FindingKind {
    /// Returns its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shadowed => "shadowed",
            Self::NeverMatches => "never_matches",
            Self::Contradictory => "contradictory",
            Self::UnreachableException => "unreachable_exception",
            Self::BroadAllow => "broad_allow",
            Self::NoEffect => "no_effect",
            Self::WayAround => "way_around",
            Self::Untested => "untested",
            Self::Unfinished => "unfinished",
        }
    }

    /// Returns whether it is only for information: nothing is wrong.
    #[must_use]
    pub const fn is_info(self) -> bool {
        matches!(self, Self::Untested | Self::Unfinished)
    }
}

/// `haft.toml:14: what is wrong; how to fix it`
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)?;
        if let Some(other_rule) = &self.other_rule {
            write!(f, " (see {other_rule})")?;
        }
        write!(f, "; {}", self.hint)
    }
}

impl Rules {
    /// Lints the rules. With the tools of a registry it also finds rules that match none of them;
    /// an empty list means that the tools are not known.
    ///
    /// ```
    /// use haft_policy::{Decision, FindingKind, PathBase, Pattern, PolicyContext, Rule, Rules};
    ///
    /// let rule = |decision, text| {
    ///     Rule::new(decision, Pattern::parse(text, &PathBase::default()).unwrap())
    /// };
    /// let rules = vec![
    ///     rule(Decision::Deny, "Bash(git push *)"),
    ///     rule(Decision::Allow, "Bash(git push origin wip)"),
    /// ];
    /// let found = Rules::new(rules, PolicyContext::default())?.lint(&[]);
    /// assert_eq!(found[0].kind, FindingKind::Shadowed);
    /// # Ok::<(), haft_core::Error>(())
    /// ```
    #[must_use]
    pub fn lint(&self, tools: &[PolicyTool<'_>]) -> Vec<Finding> {
        let mut lint = Lint {
            rules: self.rules(),
            buckets: HashMap::new(),
            tools,
            about: self
                .context()
                .argument_kinds
                .values()
                .flat_map(|about| about.values().copied())
                .collect(),
            home: self.context().home.as_deref(),
            pairs: 0,
            found: Vec::new(),
        };
        for (at, rule) in self.rules().iter().enumerate().filter(|(_, rule)| rule.enabled) {
            for (number, pattern) in rule.matches.iter().enumerate() {
                lint.buckets.entry(pattern.bucket()).or_default().push((at, number));
            }
        }
        for (at, rule) in self.rules().iter().enumerate().filter(|(_, rule)| rule.enabled) {
            lint.look_at(at, rule);
        }
        if lint.pairs >= MAX_PAIRS {
            lint.report(
                &Rule::place_of(self.rules().last()),
                FindingKind::Unfinished,
                format!("only {MAX_PAIRS} pairs of rules were compared"),
                "write fewer rules about the same tool; one rule can have a list of patterns",
                None,
            );
        }
        lint.found
    }

    /// Finds known commands that do what a rule restricts, and that no rule restricts: `rm` is
    /// denied, and `find -delete` is not.
    #[must_use]
    pub fn ways_around(&self) -> Vec<Finding> {
        let enabled = self.rules().iter().enumerate().filter(|(_, rule)| rule.enabled);
        let find = |(at, rule): (usize, &Rule)| {
            let (message, hint) = ways_around::find(self, at)?;
            let (location, kind) = (rule.location.clone(), FindingKind::WayAround);
            Some(Finding { location, kind, message, hint, other_rule: None })
        };
        let mut found: Vec<Finding> = Vec::new();
        for finding in enabled.filter_map(find) {
            // Two rules about one program have the same ways around them.
            if !found.iter().any(|known| known.message == finding.message) {
                found.push(finding);
            }
        }
        found
    }
}

impl Rule {
    fn place_of(rule: Option<&Rule>) -> SourceLocation {
        rule.map(|rule| rule.location.clone()).unwrap_or_default()
    }
}

struct Lint<'r> {
    rules: &'r [Rule],
    /// The patterns, by rule and number, keyed by what they name.
    buckets: HashMap<String, Vec<(usize, usize)>>,
    tools: &'r [PolicyTool<'r>],
    /// The argument kinds that the policy context declares.
    about: Vec<ArgumentKind>,
    home: Option<&'r Path>,
    /// How many pairs were compared.
    pairs: usize,
    found: Vec<Finding>,
}

impl<'r> Lint<'r> {
    fn report(
        &mut self,
        location: &SourceLocation,
        kind: FindingKind,
        message: String,
        hint: impl Into<String>,
        other_rule: Option<&SourceLocation>,
    ) {
        let (location, hint, other_rule) = (location.clone(), hint.into(), other_rule.cloned());
        self.found.push(Finding { location, kind, message, hint, other_rule });
    }

    fn look_at(&mut self, at: usize, rule: &'r Rule) {
        for pattern in &rule.matches {
            // A pattern that never matches gets no further finding.
            if !self.never_matches(rule, pattern) && !self.contradicts(at, rule, pattern) {
                self.is_shadowed(at, rule, pattern);
            }
        }
        self.exceptions(rule);
        self.broad(rule);
        self.without_effect(at, rule);
        let restricts = matches!(rule.decision, Decision::Deny | Decision::Ask);
        if restricts && rule.examples.is_empty() && can_have_examples(rule) {
            let word = rule.decision.as_str();
            self.report(
                &rule.location,
                FindingKind::Untested,
                format!("the rule decides `{word}` and has no example"),
                format!("add a call that it must match under `test.{word}`"),
                None,
            );
        }
    }

    fn never_matches(&mut self, rule: &Rule, pattern: &Pattern) -> bool {
        let never = pattern.contradicts_itself(&rule.decision, self.home).or_else(|| {
            if self.tools.is_empty() { None } else { pattern.misses(self.tools, &self.about) }
        });
        let Some((why, hint)) = never else { return false };
        let message = format!("`{pattern}` never matches: {why}");
        self.report(&rule.location, FindingKind::NeverMatches, message, hint, None);
        true
    }

    /// An allow whose exact pattern is also in a deny or an ask.
    fn contradicts(&mut self, at: usize, rule: &Rule, pattern: &Pattern) -> bool {
        if rule.decision != Decision::Allow {
            return false;
        }
        let same =
            self.buckets.get(&pattern.bucket()).into_iter().flatten().find(|(other, number)| {
                let other_rule = &self.rules[*other];
                *other != at
                    && matches!(other_rule.decision, Decision::Deny | Decision::Ask)
                    && other_rule.except.is_empty()
                    && applies_to(other_rule, rule)
                    && other_rule.matches[*number].as_str().trim() == pattern.as_str().trim()
            });
        let Some((other, _)) = same.copied() else { return false };
        let other = &self.rules[other];
        let word = other.decision.as_str();
        self.report(
            &rule.location,
            FindingKind::Contradictory,
            format!("`{pattern}` is allowed here, but another rule decides `{word}`, which wins"),
            "remove the allow, which has no effect, or narrow the other rule",
            Some(&other.location),
        );
        true
    }

    /// A rule that another one always precedes.
    fn is_shadowed(&mut self, at: usize, rule: &Rule, pattern: &Pattern) {
        let Some((other, number)) = self.shadow(at, rule, pattern) else { return };
        let other = &self.rules[other];
        let wide = &other.matches[number];
        let (own, word) = (rule.decision.as_str(), other.decision.as_str());
        let (message, hint) = if wide.as_str() == pattern.as_str() && own == word {
            (format!("`{pattern}` is written twice"), "remove one of the two")
        } else if own == word {
            let message = format!("`{wide}` already covers `{pattern}`, and also decides `{word}`");
            (message, "remove this one")
        } else {
            let message =
                format!("`{pattern}` never decides `{own}`: `{wide}` decides `{word}` first");
            (message, "remove this one, or add it to `except` of the other")
        };
        // Claude Code reads its own file, and not the other one.
        let restricts = rule.decision != Decision::Allow;
        let is_needed =
            restricts && rule.location.is_json() && rule.location.file != other.location.file;
        let hint = if !is_needed {
            hint
        } else if other.location.is_json() {
            "keep it: other people may not have the other file"
        } else {
            "keep it: Claude Code does not read the other file"
        };
        self.report(&rule.location, FindingKind::Shadowed, message, hint, Some(&other.location));
    }

    fn shadow(&mut self, at: usize, rule: &Rule, pattern: &Pattern) -> Option<(usize, usize)> {
        for bucket in pattern.buckets() {
            for (other, number) in self.buckets.get(&bucket).into_iter().flatten().copied() {
                let other_rule = &self.rules[other];
                if !comes_before((other, other_rule), (at, rule)) || !applies_to(other_rule, rule) {
                    continue;
                }
                if self.pairs >= MAX_PAIRS {
                    return None;
                }
                self.pairs += 1;
                if shadows(other_rule, &other_rule.matches[number], rule, pattern) {
                    return Some((other, number));
                }
            }
        }
        None
    }

    /// Exceptions that exclude nothing or everything.
    fn exceptions(&mut self, rule: &Rule) {
        // A restricting rule is excepted only if that is certain; an allow, if it is possible.
        let sides = match rule.decision {
            Decision::Allow => Sides::RestrictAllow,
            _ => Sides::Allow,
        };
        for except in &rule.except {
            let (message, hint) = if rule.matches.iter().all(|own| except.is_disjoint(own)) {
                (format!("`{except}` excludes nothing from the rule"), "remove it, or fix it")
            } else if rule.matches.iter().all(|own| except.subsumes(own, sides)) {
                let message = format!("`{except}` excludes everything that the rule matches");
                (message, "remove the rule, or make the exception narrower")
            } else {
                continue;
            };
            let location = &rule.location;
            self.report(location, FindingKind::UnreachableException, message, hint, None);
        }
    }

    fn broad(&mut self, rule: &Rule) {
        if rule.decision != Decision::Allow || !rule.except.is_empty() {
            return;
        }
        for pattern in &rule.matches {
            if let Some(what) = pattern.leaves_open() {
                self.report(
                    &rule.location,
                    FindingKind::BroadAllow,
                    format!("`{pattern}` allows {what}"),
                    "name what is needed",
                    None,
                );
            }
        }
    }

    /// Options of a rule without effect.
    fn without_effect(&mut self, at: usize, rule: &Rule) {
        let word = rule.decision.as_str();
        let mut none = |message: String, hint: &str| {
            self.report(&rule.location, FindingKind::NoEffect, message, hint, None);
        };
        if rule.even_tainted && rule.decision != Decision::Allow {
            let message =
                format!("`when = \"tainted\"` has no effect in a rule that decides `{word}`");
            none(message, "remove it: such a rule applies in every run");
        }
        let rewrites = matches!(rule.decision, Decision::Allow | Decision::Ask);
        if !rule.rewrite.is_empty() && !rewrites {
            let message = format!("`rewrite` has no effect in a rule that decides `{word}`");
            none(message, "remove it: the call does not run");
        }
        if !rule.network.is_none() && !rewrites {
            let message = format!("`network` has no effect in a rule that decides `{word}`");
            none(message, "remove it: the call does not run");
        }
        if rule.priority != DEFAULT_PRIORITY && !self.overlaps_same_decision(at, rule) {
            self.report(
                &rule.location,
                FindingKind::NoEffect,
                format!(
                    "`priority` has no effect: no other rule that decides `{word}` overlaps \
                    with this one"
                ),
                "remove it: it only orders rules of the same decision",
                None,
            );
        }
    }

    /// Whether another rule of the same decision may match the same call.
    fn overlaps_same_decision(&mut self, at: usize, rule: &Rule) -> bool {
        for (other, other_rule) in self.rules.iter().enumerate() {
            let same = other_rule.decision.as_str() == rule.decision.as_str();
            if other == at || !other_rule.enabled || !same {
                continue;
            }
            for theirs in &other_rule.matches {
                self.pairs += rule.matches.len();
                if self.pairs >= MAX_PAIRS
                    || rule.matches.iter().any(|own| !own.is_disjoint_in_calls(theirs))
                {
                    return true;
                }
            }
        }
        false
    }
}

/// Whether one rule applies to every kind of call that the other applies to.
fn applies_to(wide: &Rule, narrow: &Rule) -> bool {
    wide.subject == Subject::Any || wide.subject == narrow.subject
}

/// Whether a rule precedes another if both match, so that it decides.
fn comes_before((at, rule): (usize, &Rule), (other, after): (usize, &Rule)) -> bool {
    match (&rule.decision, &after.decision) {
        (Decision::Deny, Decision::Deny)
        | (Decision::Ask, Decision::Ask)
        | (Decision::Allow, Decision::Allow) => precedes((at, rule), (other, after)),
        // Once its argument is supplied, such a rule no longer applies.
        (Decision::NeedInput(own), Decision::NeedInput(name)) => {
            own == name && precedes((at, rule), (other, after))
        }
        (Decision::NeedInput(_), _) => false,
        (Decision::Deny, _) | (Decision::Ask, Decision::Allow) => true,
        _ => false,
    }
}

fn precedes((at, rule): (usize, &Rule), (other, after): (usize, &Rule)) -> bool {
    rule.priority > after.priority || rule.priority == after.priority && at < other
}

/// Whether a pattern of a preceding rule covers all of another, exceptions included.
fn shadows(wide: &Rule, own: &Pattern, narrow: &Rule, other: &Pattern) -> bool {
    let (sides, excepts) = match (&wide.decision, &narrow.decision) {
        (Decision::Allow, _) => (Sides::Allow, Sides::Restrict),
        (_, Decision::Allow) => (Sides::RestrictAllow, Sides::Allow),
        _ => (Sides::Restrict, Sides::Allow),
    };
    // Allows do more than decide: they also cover hosts, protected names and tainted runs.
    let vouches = wide.decision != Decision::Allow
        || (wide.even_tainted || !narrow.even_tainted)
            && (is_host(own) || !is_host(other))
            && (own.as_str() == other.as_str() || !names_protected(other.as_str()));
    let excepted = |gap: &Pattern| narrow.except.iter().any(|narrow| narrow.subsumes(gap, excepts));
    vouches && own.subsumes(other, sides) && wide.except.iter().all(excepted)
}

fn is_host(pattern: &Pattern) -> bool {
    matches!(pattern.key(), Key::Host(_))
}

/// Whether the format of its file has examples.
fn can_have_examples(rule: &Rule) -> bool {
    rule.location.file.is_some() && !rule.location.is_json()
}

mod ways_around;
#[cfg(test)]
mod tests;
