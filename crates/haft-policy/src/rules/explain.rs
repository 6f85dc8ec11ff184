//! Explains a ruling: every check in order, near misses, and the smallest change that would flip
//! it. For people and records only.

use std::fmt;

use haft_core::{Capability, Decision, Operation, Trust, text::shortened};

use super::{
    Rules,
    decide::{CheckRecorder, Ruling},
    taint_rules,
};
use crate::{
    Mode, PolicyRequest,
    explain::{CheckStep, Explanation, NearMiss, RuleRef},
    facts::{Facts, Part, Parts},
};

/// Maximum number of reported near misses.
const MAX_NEAR_MISSES: usize = 5;
/// How much of a part is shown.
const MAX_SHOWN_CHARS: usize = 80;

/// A recorder that keeps everything.
#[derive(Default)]
struct Notes(Vec<Note>);

/// The check, its result, the reason, and the rule with the pattern.
type Note = (&'static str, &'static str, String, Option<(usize, usize)>);

impl CheckRecorder for Notes {
    const ENABLED: bool = true;

    fn note(
        &mut self,
        what: &'static str,
        result: &'static str,
        why: String,
        rule: Option<(usize, usize)>,
    ) {
        self.0.push((what, result, why, rule));
    }
}

impl Rules {
    /// Explains the decision about a call, or about an example if there is no call.
    pub(super) fn explain_facts(
        &self,
        facts: &Facts<'_>,
        call: Option<&PolicyRequest<'_>>,
    ) -> Explanation {
        let mut notes = Notes::default();
        let ruling = self.rule_on(facts, call, &mut notes);
        let deciding = match &ruling {
            Ruling::Denied { at, applied }
            | Ruling::Doubted { at, applied }
            | Ruling::Needed { at, applied, .. }
            | Ruling::Asked { at, applied }
            | Ruling::Allowed { at, applied, .. } => Some(self.cite(*at, applied.pattern)),
            Ruling::Built { .. } | Ruling::Vouched(_) | Ruling::Confined(_) => None,
        };
        let flip = self.flip(facts, call, &ruling);
        let mut explanation = Explanation::of(ruling.verdict(self));
        explanation.deciding = deciding;
        explanation.smallest_change = Some(flip);
        explanation.near_misses = self.near(facts);
        explanation.touches = risk(facts);
        if Rules::label_of(facts).trust == Trust::Untrusted {
            explanation.tainted_by = facts.seen.taints().iter().map(taint_rules::named).collect();
        }
        explanation.checks = notes
            .0
            .into_iter()
            .map(|(what, result, why, rule)| match rule {
                Some((at, pattern)) => CheckStep {
                    check: what.to_owned(),
                    result: result.to_owned(),
                    why: format!("{} {why}", self.source(at, pattern)),
                    location: Some(self.rules[at].location.clone()),
                },
                None => CheckStep {
                    check: what.to_owned(),
                    result: result.to_owned(),
                    why,
                    location: None,
                },
            })
            .collect();
        explanation
    }

    fn cite(&self, at: usize, pattern: usize) -> RuleRef {
        let rule = &self.rules[at];
        RuleRef {
            id: rule.id.clone(),
            decision: rule.decision.as_str().to_owned(),
            pattern: rule.matches.get(pattern).map_or_else(String::new, ToString::to_string),
            location: rule.location.clone(),
        }
    }

    /// Rules that do not apply but are close, the strict ones first.
    fn near(&self, facts: &Facts<'_>) -> Vec<NearMiss> {
        let mut near = Vec::new();
        let order = [
            |d: &Decision| *d == Decision::Deny,
            |d: &Decision| matches!(d, Decision::Ask | Decision::NeedInput(_)),
            |d: &Decision| *d == Decision::Allow,
        ];
        for of_kind in order {
            for (at, rule) in self.rules.iter().enumerate() {
                if near.len() >= MAX_NEAR_MISSES {
                    return near;
                }
                if !of_kind(&rule.decision) || self.applies(at, facts).is_some() {
                    continue;
                }
                let missing = if rule.enabled {
                    let near_miss = |(number, pattern): (usize, &crate::Pattern)| {
                        pattern.near_miss(facts).map(|missing| (number, missing))
                    };
                    rule.matches.iter().enumerate().find_map(near_miss)
                } else {
                    Some((0, "it is disabled".to_owned()))
                };
                if let Some((number, missing)) = missing {
                    near.push(NearMiss { rule: self.cite(at, number), missing });
                }
            }
        }
        near
    }

    /// The smallest change that would flip the ruling: of a deny, to anything else; of an ask, to
    /// an allow; of an allow, to a deny or an ask. Names every rule that prevents it.
    fn flip(&self, facts: &Facts<'_>, call: Option<&PolicyRequest<'_>>, ruling: &Ruling) -> String {
        let own =
            || self.description(facts, facts.all()).unwrap_or_else(|| quoted(&[facts.names.own]));
        match ruling {
            Ruling::Denied { .. } => self.excepted(facts, |d| *d == Decision::Deny),
            Ruling::Doubted { applied, .. } => {
                let part = applied.doubt.as_deref().unwrap_or("a part of it is not known");
                format!("a call without this doubt: {part}")
            }
            Ruling::Asked { .. } | Ruling::Needed { .. } => {
                let asks = |d: &Decision| matches!(d, Decision::Ask | Decision::NeedInput(_));
                let excepted = self.excepted(facts, asks);
                // Without these rules it may still need approval.
                let cover = self.cover(facts, &mut ());
                match self.unrestricted(facts, call, &cover, &mut ()) {
                    rest @ Ruling::Built { decision: Decision::Ask, .. } => {
                        format!("{excepted}, and {}", self.flip(facts, call, &rest))
                    }
                    _ => excepted,
                }
            }
            Ruling::Allowed { .. } | Ruling::Vouched(_) => {
                format!("a rule `match = {}` with `decision = \"deny\"` would deny it", own())
            }
            Ruling::Confined(_) | Ruling::Built { decision: Decision::Allow, .. } => {
                format!("a rule `match = {}` with `decision = \"ask\"` would ask", own())
            }
            Ruling::Built { source: taint_rules::PROTECTED_NAME, .. } => {
                "an allow rule that names the protected file".to_owned()
            }
            Ruling::Built { source: taint_rules::CHANGED, .. } => {
                "a new run, which starts with the current definition".to_owned()
            }
            Ruling::Built { source, .. } if source.starts_with("built in") => {
                format!("a rule `match = {}`, `decision = \"allow\"`, `when = \"tainted\"`", own())
            }
            Ruling::Built { source, .. } if source.starts_with("the mode") => {
                format!("another `mode` than `{}`", self.context.mode.as_str())
            }
            Ruling::Built { decision: Decision::Deny, .. } => {
                "a call that does fewer things at once".to_owned()
            }
            Ruling::Built { .. } => {
                let flip = format!("a rule `match = {}` with `decision = \"allow\"`", own());
                let silent = call.is_some_and(|call| {
                    let spec = call.tool.spec;
                    let says = spec.read_only.is_some() || spec.per_call.contains(&"read_only");
                    !says || spec.capabilities.is_none()
                });
                if silent {
                    format!(
                        "{flip}, or declare `read_only` and `capabilities(…)` in the tool, if \
                         that is true"
                    )
                } else {
                    flip
                }
            }
        }
    }

    /// Describes how to except the call from every rule of this decision that applies.
    fn excepted(&self, facts: &Facts<'_>, of: impl Fn(&Decision) -> bool) -> String {
        let steps: Vec<String> = self
            .rules
            .iter()
            .enumerate()
            .filter(|(_, rule)| of(&rule.decision))
            .filter_map(|(at, rule)| Some((rule, self.applies(at, facts)?)))
            .map(|(rule, applied)| match self.literals(facts, applied.parts) {
                // Claude Code settings have no exceptions, and a rule that moves to `haft.toml` is
                // lost to Claude Code.
                Some(_) if rule.location.is_json() => format!(
                    "narrow the rule at {}: its file has no exceptions (`except` works in \
                     `haft.toml`, which Claude Code does not read)",
                    rule.location
                ),
                Some(literals) => {
                    let list = literals.join("\", \"");
                    format!("add `except = [\"{list}\"]` to the rule at {}", rule.location)
                }
                None => format!("narrow or remove the rule at {}", rule.location),
            })
            .collect();
        steps.join(", and ")
    }

    /// Writes rules for exactly these parts, as in a file.
    fn description(&self, facts: &Facts<'_>, parts: Parts) -> Option<String> {
        self.literals(facts, parts).map(|rules| quoted(&rules))
    }
}

/// Writes one string, or a list of several, as in a file.
fn quoted<T: AsRef<str>>(texts: &[T]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| format!("\"{}\"", text.as_ref())).collect();
    match &*texts {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// What the call would touch, one phrase each.
fn risk(facts: &Facts<'_>) -> Vec<String> {
    let mut risk: Vec<String> = facts
        .parts
        .iter()
        .filter(|part| !matches!(part, Part::Call))
        .map(ToString::to_string)
        .collect();
    risk.extend(facts.parts.iter().filter_map(|part| super::taint_rules::protection(part, facts)));
    // Policies judge every unknown command as destructive. People see this only for known ones.
    let is_command = |part: &Part| matches!(part, Part::Command(_) | Part::Unreadable(_));
    let is_unknown = !facts.is_known_destructive && facts.parts.iter().any(is_command);
    if facts.destructive && !is_unknown {
        risk.push("may destroy".to_owned());
    } else if facts.read_only {
        risk.push("only reads".to_owned());
    }
    if facts.capabilities == haft_core::Capabilities::ALL {
        risk.push("does not declare what it reaches".to_owned());
    } else {
        for capability in [Capability::Payment, Capability::Email, Capability::Secrets] {
            if facts.capabilities.has(capability) {
                risk.push(capability.to_string());
            }
        }
        let network = facts.capabilities.has(Capability::Network);
        if network && facts.hosts().is_empty() {
            risk.push("network".to_owned());
        }
    }
    risk.dedup();
    risk
}

impl Part {
    /// Names it as the subject of a reason: the command, or the call.
    pub(super) fn named(&self) -> String {
        match self {
            Self::Command(_) => self.quoted(),
            _ => "it".to_owned(),
        }
    }

    /// Names it in a reason.
    pub(crate) fn quoted(&self) -> String {
        match self {
            // The redactor treats `…` as the end of a text that was cut.
            Self::Command(command) => {
                let text = command.to_string().replace('…', "<unknown>");
                format!("`{}`", shortened(&text, MAX_SHOWN_CHARS))
            }
            other => shortened(&other.to_string(), MAX_SHOWN_CHARS),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call => f.write_str("the call itself"),
            Self::Command(command) => write!(f, "run `{command}`"),
            Self::Unreadable(why) => write!(f, "run a command that cannot be parsed ({why})"),
            Self::Path { operation, spelled, resolved } => {
                let verb = if *operation == Operation::Read { "read" } else { "write" };
                write!(f, "{verb} {}", spelled.display())?;
                match resolved {
                    Ok(resolved) if resolved != spelled => write!(f, " → {}", resolved.display()),
                    Ok(_) => Ok(()),
                    Err(why) => write!(f, " ({why})"),
                }
            }
            Self::Host(Ok(host)) => write!(f, "reach {host}"),
            Self::Host(Err(why)) => write!(f, "reach a URL that cannot be parsed ({why})"),
            Self::Reach(capability) => write!(f, "reach {capability}"),
        }
    }
}

// The mode is named in what it denies.
const _: fn(Mode) -> &'static str = Mode::as_str;
