//! The rule engine: rules are compiled once and evaluated for every call.
//!
//! Deny, then ask, then allow; specificity does not matter. A deny or an ask applies if it matches
//! any part of a call, an allow only if allows cover all of them. No match: the mode, and then the
//! default. FAIL CLOSED: a rule that cannot be evaluated counts as the strict answer.

mod denied_paths;
mod hard_links;
mod index;
mod taint_rules;
mod unruled;
mod cover;
mod decide;
mod model_call;
mod network;
mod restricted_reads;
mod explain;
mod offer;
#[cfg(test)]
mod tests;

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    time::Instant,
};

use haft_core::{
    Decision, DeniedPaths, DeniedPathsUnknown, Error, ErrorKind, HardLinkedFile, Label, Operation,
    OtherNames, Scope, SharedStr, Verdict,
};
use serde::Serialize;
use serde_json::Value;

pub(super) use self::taint_rules::names_protected;
use self::{hard_links::LinkIndex, index::Index};
use super::{
    Explanation, FileRules, HidesRevision, Policy, PolicyFingerprint, PolicyRequest, PolicyTool,
    RuleStore,
    context::{ArgumentKind, PolicyContext},
    facts::{Facts, Names, Part, Parts, Sample},
    pattern::{Hits, Pattern, Side},
    request::Subject,
    rule::{Rule, SourceLocation},
};

/// Compiled rules.
///
/// ```
/// use haft_policy::{Decision, PathBase, Pattern, PolicyContext, Rule, Rules};
///
/// let pattern = Pattern::parse("mail_send", &PathBase::default()).unwrap();
/// let rules = Rules::new(vec![Rule::new(Decision::Deny, pattern)], PolicyContext::default())?;
/// assert_eq!(rules.rules().len(), 1);
/// # Ok::<(), haft_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    /// The display name of each pattern of each rule.
    sources: Vec<Box<[SharedStr]>>,
    context: PolicyContext,
    deny: Index,
    need: Index,
    ask: Index,
    allow: Index,
    rewrites: bool,
    /// The rules that may hide tools.
    hiders: Index,
    hides_revision: HidesRevision,
    revision: u64,
    hard_links: LinkIndex,
    /// Maximum number of entries to search for denied paths.
    max_entries: usize,
}

/// Names a rule for people, by each of its patterns: `haft.toml:14 ask "Bash(git push *)"`.
fn sources(rule: &Rule) -> Box<[SharedStr]> {
    let name = |text| format!("{} {} \"{text}\"", rule.location, rule.decision.as_str()).into();
    rule.matches.iter().map(|pattern| name(pattern.as_str())).collect()
}

impl Rules {
    /// Compiles rules, and checks their examples.
    ///
    /// # Errors
    /// Fails if an example does not hold, and names each one that does not.
    pub fn new(rules: Vec<Rule>, context: PolicyContext) -> Result<Self, Error> {
        let rules = Self::new_unchecked(rules, context);
        rules.hold_examples()?;
        Ok(rules)
    }

    /// Compiles rules without checking their examples; see [`run_examples`](Self::run_examples). Do
    /// not judge calls with them before that.
    #[must_use]
    pub fn new_unchecked(rules: Vec<Rule>, context: PolicyContext) -> Self {
        let mut indexes = [Index::default(), Index::default(), Index::default(), Index::default()];
        for (at, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.enabled) {
            let own = match rule.decision {
                Decision::Deny => 0,
                Decision::NeedInput(_) => 1,
                Decision::Ask => 2,
                Decision::Allow => 3,
            };
            for pattern in &rule.matches {
                indexes[own].add(at, pattern.key());
            }
        }
        let [deny, need, ask, allow] = indexes;
        let changes = |rule: &Rule| !rule.rewrite.is_empty() || !rule.network.is_none();
        let rewrites = rules.iter().any(|rule| rule.enabled && changes(rule));
        let hides = |(_, rule): &(usize, &Rule)| {
            rule.enabled
                && rule.decision == Decision::Deny
                && rule.except.is_empty()
                && rule.subject == Subject::Any
        };
        let mut hiders = Index::default();
        for (at, rule) in rules.iter().enumerate().filter(hides) {
            for pattern in rule.matches.iter().filter(|pattern| pattern.may_cover_tools()) {
                hiders.add(at, pattern.key());
            }
        }
        let revision = revision(&rules, &context);
        let sources = rules.iter().map(sources).collect();
        let hard_links = LinkIndex::default();
        Self {
            rules,
            sources,
            context,
            deny,
            need,
            ask,
            allow,
            rewrites,
            hiders,
            hides_revision: HidesRevision::unique(),
            revision,
            hard_links,
            max_entries: denied_paths::MAX_ENTRIES,
        }
    }

    /// Returns the rules, as they were given.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns their context.
    #[must_use]
    pub fn context(&self) -> &PolicyContext {
        &self.context
    }

    /// Returns the enabled rules that decide about some calls of a tool and not about others,
    /// because of the arguments: each with the pattern.
    #[must_use]
    pub fn rules_on_arguments_of(&self, tool: &PolicyTool<'_>) -> Vec<(&Rule, &Pattern)> {
        let names = Names::of(tool);
        let kinds = self.context.argument_kinds.get(tool.registered.as_str());
        let kinds: Vec<ArgumentKind> =
            kinds.into_iter().flat_map(|kinds| kinds.values().copied()).collect();
        let tool = std::slice::from_ref(tool);
        let concerns = |pattern: &&Pattern| {
            pattern.constrains_arguments() && pattern.misses(tool, &kinds).is_none()
        };
        let mut found = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.enabled) {
            let has_exceptions = rule.except.iter().any(|pattern| concerns(&pattern));
            let applies = |pattern: &&Pattern| {
                concerns(pattern) || has_exceptions && pattern.covers_tool(&names)
            };
            found.extend(rule.matches.iter().filter(applies).map(|pattern| (rule, pattern)));
        }
        found
    }

    /// Returns whether allow rules cover all of a call, and no rule or default decides otherwise.
    #[must_use]
    pub fn allows_by_rule(&self, call: &PolicyRequest<'_>) -> bool {
        let facts = Facts::of(call, &self.context);
        matches!(self.rule_on(&facts, Some(call), &mut ()), decide::Ruling::Allowed { .. })
    }

    /// Evaluates every example, and returns the result of its rule and of all rules together.
    #[must_use]
    pub fn run_examples(&self) -> Vec<ExampleResult> {
        let mut tried = Vec::new();
        for (at, rule) in self.rules.iter().enumerate() {
            for example in &rule.examples {
                let sample = Sample::read(&example.call, rule.about());
                let (applies, verdict, problem) = match &sample {
                    Ok(sample) => {
                        let facts = sample.facts(&self.context);
                        let verdict = self.rule_on(&facts, None, &mut ()).verdict(self);
                        (self.applies(at, &facts).is_some(), Some(verdict), None)
                    }
                    Err(problem) => (false, None, Some(problem.clone())),
                };
                tried.push(ExampleResult {
                    rule: rule.location.clone(),
                    location: example.location.clone(),
                    call: example.call.clone(),
                    expected: example.applies,
                    applies,
                    holds: problem.is_none() && applies == example.applies,
                    verdict,
                    problem,
                });
            }
        }
        tried
    }

    /// Judges an example call, by the rules alone.
    pub(super) fn judge_sample(&self, sample: &Sample) -> Verdict {
        self.rule_on(&sample.facts(&self.context), None, &mut ()).verdict(self)
    }

    /// Returns whether a rule applies to an example call.
    pub(super) fn applies_to_sample(&self, at: usize, sample: &Sample) -> bool {
        self.applies(at, &sample.facts(&self.context)).is_some()
    }

    /// Returns whether a rule denies an example call, or asks about it.
    pub(super) fn restricts_sample(&self, sample: &Sample) -> bool {
        let facts = sample.facts(&self.context);
        let applies = |at: usize| self.applies(at, &facts).is_some();
        let restricts = |rule: &Rule| rule.decision != Decision::Allow;
        self.rules.iter().enumerate().any(|(at, rule)| restricts(rule) && applies(at))
    }

    fn hold_examples(&self) -> Result<(), Error> {
        let mut broken = self.run_examples().into_iter().filter(|tried| !tried.holds);
        let Some(first) = broken.next() else { return Ok(()) };
        let mut error = Error::new(ErrorKind::BadConfig, first.to_string());
        for more in broken.take(20) {
            error = error.hint(more.to_string());
        }
        Err(error.hint("change the rule or the example so that they agree"))
    }

    /// Returns the parts that a rule applies to, and the reason if it is uncertain; `None` if it
    /// does not apply.
    fn applies(&self, at: usize, facts: &Facts<'_>) -> Option<Applied> {
        let rule = self.rules.get(at).filter(|rule| rule.enabled)?;
        if rule.subject != Subject::Any && rule.subject != facts.subject {
            return None;
        }
        let allows = rule.decision == Decision::Allow;
        let side = if allows { Side::Allow } else { Side::Restrict };
        let mut applied = Applied::default();
        let mut certain = Parts::NONE;
        let mut doubt = None;
        for (number, pattern) in rule.matches.iter().enumerate() {
            let Hits { yes, unknown, why } = pattern.hits(facts, side);
            certain = certain.or(yes);
            // FAIL CLOSED: `Unknown` is a match for a restricting rule, and none for an allow.
            let hit = if allows { yes } else { yes.or(unknown) };
            if applied.parts.is_empty() && !hit.is_empty() {
                applied.pattern = number;
            }
            if !allows && !unknown.is_empty() && doubt.is_none() {
                doubt = why;
            }
            applied.parts = applied.parts.or(hit);
        }
        // Exceptions are evaluated on the other side.
        let other = if allows { Side::Restrict } else { Side::Allow };
        for pattern in &rule.except {
            if applied.parts.is_empty() {
                break;
            }
            let Hits { yes, unknown, why } = pattern.hits(facts, other);
            let excepted = if allows { yes.or(unknown) } else { yes };
            applied.parts = applied.parts.without(excepted);
            certain = certain.without(yes.or(unknown));
            doubt = doubt.or(why);
        }
        applied.is_certain = allows || !certain.is_empty();
        applied.doubt = doubt.map(|(at, why)| match facts.parts.get(at) {
            Some(part) => format!("{}: {why}", part.quoted()),
            None => why,
        });
        (!applied.parts.is_empty()).then_some(applied)
    }

    fn label_of(facts: &Facts<'_>) -> Label {
        facts.scope.label.join(facts.seen.label())
    }
}

/// How a rule applies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Applied {
    parts: Parts,
    /// Which of its patterns matched first.
    pattern: usize,
    /// Whether it certainly matches. A deny that does not is a reason to ask.
    is_certain: bool,
    /// The part that it cannot be evaluated for, and why.
    doubt: Option<String>,
}

impl Policy for Rules {
    fn decide(&self, call: &PolicyRequest<'_>) -> Verdict {
        let facts = Facts::of(call, &self.context);
        self.rule_on(&facts, Some(call), &mut ()).verdict(self)
    }

    fn decide_model_call(&self, call: &PolicyRequest<'_>) -> Verdict {
        if !self.rules.iter().any(|rule| rule.subject == Subject::ModelCall) {
            return Verdict::allow("no rule is about model calls");
        }
        let mut facts = Facts::of(call, &self.context);
        facts.subject = Subject::ModelCall;
        self.rule_on_model_call(&facts).verdict(self)
    }

    fn explain(&self, call: &PolicyRequest<'_>) -> Explanation {
        let facts = Facts::of(call, &self.context);
        self.explain_facts(&facts, Some(call))
    }

    fn hides(&self, tool: &PolicyTool<'_>, _: &Scope) -> Option<String> {
        if self.hiders.len() == 0 {
            return None;
        }
        let names = Names::of(tool);
        let rule = self
            .hiders
            .find_tool(&names)
            .into_iter()
            .filter_map(|at| self.rules.get(at as usize))
            .find(|rule| rule.matches.iter().any(|pattern| pattern.covers_tool(&names)))?;
        Some(rule.reason.clone().unwrap_or_else(|| "a rule denies it".to_owned()))
    }

    fn hides_revision(&self) -> Option<HidesRevision> {
        Some(self.hides_revision)
    }

    fn rewrite(&self, call: &PolicyRequest<'_>) -> Option<Value> {
        if !self.rewrites {
            return None;
        }
        let facts = Facts::of(call, &self.context);
        let at = self.rewriter(&facts, call)?;
        let mut rewrite = self.rules[at].rewrite.clone();
        rewrite.extend(self.network_argument(&facts, call, at));
        let current = call.arguments.as_object()?;
        if rewrite.iter().all(|(key, value)| current.get(key) == Some(value)) {
            return None;
        }
        let mut arguments = current.clone();
        arguments.extend(rewrite);
        Some(Value::Object(arguments))
    }

    fn fingerprint(&self, call: &PolicyRequest<'_>) -> PolicyFingerprint {
        let facts = Facts::of(call, &self.context);
        let label = Self::label_of(&facts);
        let mut state = format!("{:?} {:?}", label.trust, label.confidentiality);
        for part in &facts.parts {
            if let Part::Path { resolved, .. } = part {
                state.push_str(&format!(" {resolved:?}"));
            }
        }
        PolicyFingerprint { revision: self.revision, state }
    }

    fn file_rules(&self) -> Option<&dyn FileRules> {
        Some(self)
    }

    fn rule_store(&self) -> Option<&dyn RuleStore> {
        Some(self)
    }
}

impl FileRules for Rules {
    fn is_path_denied(&self, operation: Operation, file: &Path, scope: &Scope) -> bool {
        if !self.deny.has_paths() && !self.ask.has_paths() {
            return false;
        }
        // FAIL CLOSED: a name that is not UTF-8 cannot be matched against a rule.
        let Some(file) = file.to_str() else { return true };
        let sample = Sample::touching(operation, file, scope.clone());
        self.is_restricted(&sample.facts(&self.context))
    }

    fn other_names(
        &self,
        operation: Operation,
        path: &Path,
        file: &HardLinkedFile,
        scope: &Scope,
    ) -> OtherNames {
        self.judge_other_names(operation, path, file, scope)
    }

    fn denied_paths(
        &self,
        roots: &[PathBuf],
        scope: &Scope,
        now: &dyn Fn() -> Instant,
    ) -> Result<DeniedPaths, DeniedPathsUnknown> {
        self.find_denied(roots, scope, now)
    }

    fn asks_about_protected(&self) -> bool {
        true
    }

    fn is_host_restricted(&self, host: &str, scope: &Scope) -> bool {
        self.restricts_host(host, scope)
    }
}

/// The result of an example.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ExampleResult {
    /// The rule it belongs to.
    pub rule: SourceLocation,
    /// The location of the example.
    pub location: SourceLocation,
    /// The call, as written.
    pub call: Value,
    /// Whether the rule must apply.
    pub expected: bool,
    /// Whether it does.
    pub applies: bool,
    /// Whether the result is as expected.
    pub holds: bool,
    /// The verdict of all rules together.
    pub verdict: Option<Verdict>,
    /// Why the example cannot be parsed.
    pub problem: Option<String>,
}

impl std::fmt::Display for ExampleResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let call = match &self.call {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match (&self.problem, self.expected) {
            (Some(problem), _) => write!(f, "{}: the example `{call}`: {problem}", self.location),
            (None, true) => {
                write!(f, "{}: the rule does not apply to its example `{call}`", self.location)
            }
            (None, false) => {
                write!(f, "{}: the rule applies to `{call}`, which it should skip", self.location)
            }
        }
    }
}

/// A hash of everything that decides: equal rules in equal contexts have equal revisions.
fn revision(rules: &[Rule], context: &PolicyContext) -> u64 {
    let mut hasher = DefaultHasher::new();
    for rule in rules.iter().filter(|rule| rule.enabled) {
        format!("{:?} {:?}", rule.decision, rule.subject).hash(&mut hasher);
        for pattern in rule.matches.iter().chain(&rule.except) {
            pattern.as_str().hash(&mut hasher);
        }
        rule.except.len().hash(&mut hasher);
        (rule.priority, rule.even_tainted, &rule.location).hash(&mut hasher);
        for (key, value) in &rule.rewrite {
            (key, value.to_string()).hash(&mut hasher);
        }
        rule.network.texts().hash(&mut hasher);
    }
    context.network.texts().hash(&mut hasher);
    (context.mode, &context.roots, &context.home, &context.argument_kinds).hash(&mut hasher);
    hasher.finish()
}
