//! The decision: deny rules, then ask rules, then allow rules, then the mode and the default.
//!
//! One function decides. Judging, rewriting and explaining all call it, so they cannot disagree; an
//! explanation only passes a recorder.

use haft_core::{Decision, SharedStr, Trust, Verdict};

use super::{
    Applied, Rules,
    cover::Cover,
    index::Index,
    restricted_reads::Harmless,
    taint_rules::{self, Concern},
    unruled::Unruled,
};
use crate::{
    Mode, PolicyRequest,
    facts::{Facts, Part, Parts},
    pattern::Pattern,
    rule::Rule,
};

/// The decision and what made it.
#[derive(Debug, Clone)]
pub(super) enum Ruling {
    /// A rule denies it.
    Denied { at: usize, applied: Applied },
    /// A rule may deny it, and cannot be evaluated.
    Doubted { at: usize, applied: Applied },
    /// A rule requests an argument from a person.
    Needed { at: usize, applied: Applied, argument: String },
    /// A rule requires approval.
    Asked { at: usize, applied: Applied },
    /// Rules cover all of it: the strongest of them, and how many more.
    Allowed { at: usize, applied: Applied, more: usize },
    /// A built-in decision without a rule.
    Built { decision: Decision, reason: SharedStr, source: &'static str },
    /// A hook vouches for it.
    Vouched(Verdict),
    /// Its body confines it: no writes, no network.
    Confined(Verdict),
}

/// Records the checks. The unit type records nothing.
pub(super) trait CheckRecorder {
    /// Whether the notes are used.
    const ENABLED: bool;
    /// Records one check.
    fn note(
        &mut self,
        what: &'static str,
        result: &'static str,
        why: String,
        rule: Option<(usize, usize)>,
    );
}

impl CheckRecorder for () {
    const ENABLED: bool = false;
    fn note(&mut self, _: &'static str, _: &'static str, _: String, _: Option<(usize, usize)>) {}
}

impl Rules {
    /// Decides. Without a call (for an example) the default uses the facts alone.
    pub(super) fn rule_on<N: CheckRecorder>(
        &self,
        facts: &Facts<'_>,
        call: Option<&PolicyRequest<'_>>,
        notes: &mut N,
    ) -> Ruling {
        if facts.overflow {
            let reason = "it does too many things at once to be checked".to_owned();
            notes.note("parts", "deny", reason.clone(), None);
            return built(Decision::Deny, reason, "the bound on parts");
        }
        let mut doubted = None;
        if let Some((at, applied)) = self.strongest(&self.deny, facts, notes, "deny rules") {
            // FAIL CLOSED: an example has no approver, so doubt denies it.
            if applied.is_certain || call.is_none() {
                return Ruling::Denied { at, applied };
            }
            doubted = Some((at, applied));
        }
        if let Some(reason) = taint_rules::definition_changed(facts) {
            notes.note("labels", "deny", reason.clone(), None);
            return built(Decision::Deny, reason, taint_rules::CHANGED);
        }
        if self.context.mode == Mode::Plan && !facts.read_only {
            let reason = "plan mode allows only read-only calls".to_owned();
            notes.note("mode", "deny", reason.clone(), None);
            return built(Decision::Deny, reason, "the mode `plan`");
        }
        if let Some((at, applied)) = doubted {
            return self.deny_if_dont_ask(Ruling::Doubted { at, applied }, notes);
        }
        let supplied = call.map(|call| call.supplied).unwrap_or_default();
        let need = self.strongest_where(
            &self.need,
            facts,
            notes,
            "input rules",
            |rule| matches!(&rule.decision, Decision::NeedInput(name) if !supplied.contains(name)),
        );
        if let Some((at, applied)) = need
            && let Decision::NeedInput(argument) = &self.rules[at].decision
        {
            let needed = Ruling::Needed { at, applied, argument: argument.clone() };
            return self.deny_if_dont_ask(needed, notes);
        }
        if let Some((at, applied)) = self.strongest(&self.ask, facts, notes, "ask rules") {
            return self.deny_if_dont_ask(Ruling::Asked { at, applied }, notes);
        }
        let cover = self.cover(facts, notes);
        let ruling = self.unrestricted(facts, call, &cover, notes);
        self.deny_if_dont_ask(ruling, notes)
    }

    /// The decision if no rule denies or asks, including the taint of the run.
    pub(super) fn unrestricted<N: CheckRecorder>(
        &self,
        facts: &Facts<'_>,
        call: Option<&PolicyRequest<'_>>,
        cover: &Cover,
        notes: &mut N,
    ) -> Ruling {
        let ruling = self.not_restricted(facts, call, cover, notes);
        match ruling {
            // The bypass was set explicitly; only protected files still need approval.
            Ruling::Built { source: BYPASS, .. } => {
                match taint_rules::protected_write(facts, cover.by_name) {
                    Some(Concern { reason, source }) => {
                        notes.note("labels", "ask", reason.clone(), None);
                        built(Decision::Ask, reason, source)
                    }
                    None => ruling,
                }
            }
            Ruling::Allowed { .. }
            | Ruling::Vouched(_)
            | Ruling::Built { decision: Decision::Allow, .. } => {
                if let Some(reason) = self.names_restricted_link(facts) {
                    notes.note("hard links", "ask", reason.clone(), None);
                    return built(Decision::Ask, reason, HARD_LINK);
                }
                let excused = facts.all().without(cover.even_tainted).is_empty();
                let hosts_known = facts.hosts().without(cover.by_host).is_empty();
                match taint_rules::concern(facts, cover.by_name, excused, hosts_known) {
                    Some(Concern { reason, source }) => {
                        notes.note("labels", "ask", reason.clone(), None);
                        built(Decision::Ask, reason, source)
                    }
                    None => {
                        if N::ENABLED {
                            notes.note("labels", "no concern", taint_note(facts), None);
                        }
                        ruling
                    }
                }
            }
            other => other,
        }
    }

    /// Returns the rule whose rewrite applies: the one that asks, or the first of those that allow.
    /// An approval that the taint of the run requires does not discard the rewrite.
    pub(super) fn rewriter(&self, facts: &Facts<'_>, call: &PolicyRequest<'_>) -> Option<usize> {
        match self.rule_on(facts, Some(call), &mut ()) {
            Ruling::Allowed { at, .. } | Ruling::Asked { at, .. } => Some(at),
            Ruling::Built { decision: Decision::Ask, .. } => {
                let cover = self.cover(facts, &mut ());
                let (at, _) = cover.first?;
                facts.all().without(cover.parts).is_empty().then_some(at)
            }
            _ => None,
        }
    }

    /// The decision if no rule denies or asks.
    fn not_restricted<N: CheckRecorder>(
        &self,
        facts: &Facts<'_>,
        call: Option<&PolicyRequest<'_>>,
        cover: &Cover,
        notes: &mut N,
    ) -> Ruling {
        let open = facts.all().without(cover.parts);
        let accepts_edits = self.context.mode == Mode::AcceptEdits;
        let harmless = if open.is_empty() || cover.first.is_none() && !accepts_edits {
            Harmless::default()
        } else {
            self.harmless(facts, call, notes)
        };
        let Harmless { parts: harmless, refused } = harmless;
        if open.without(harmless).is_empty()
            && let Some((at, applied)) = &cover.first
        {
            let more = cover.rules - 1;
            return Ruling::Allowed { at: *at, applied: applied.clone(), more };
        }
        if let Some(verdict) = call.and_then(|call| call.hook_allow) {
            notes.note("hooks", "allow", verdict.reason.to_string(), None);
            return Ruling::Vouched(verdict.clone());
        }
        match self.context.mode {
            Mode::BypassPermissions => {
                let reason = "EVERYTHING THAT NO RULE MATCHES IS ALLOWED".to_owned();
                notes.note("mode", "allow", reason.clone(), None);
                return built(Decision::Allow, reason, BYPASS);
            }
            Mode::AcceptEdits => {
                let edits = taint_rules::edits_inside(facts);
                if !edits.is_empty() && open.without(edits).without(harmless).is_empty() {
                    let reason = "reads and edits inside the workspace are accepted".to_owned();
                    notes.note("mode", "allow", reason.clone(), None);
                    return built(Decision::Allow, reason, "the mode `acceptEdits`");
                }
            }
            Mode::Default | Mode::Plan | Mode::DontAsk => {}
        }
        let verdict = match self.unruled(facts, call, notes) {
            Unruled::Decided(verdict) => verdict,
            Unruled::Confined(verdict, call) => return self.confined(facts, call, verdict, notes),
        };
        // Without the refused parts the rules would cover the call.
        let is_near = |parts: Parts| cover.first.is_some() && open.without(parts).is_empty();
        let refused = refused.filter(|(parts, _)| is_near(*parts)).map(|(_, why)| why);
        // A protected file is the better reason, because the request names it.
        let protected = || taint_rules::protected_write(facts, cover.by_name);
        let better = || {
            let reason = protected().map(|concern| concern.reason);
            reason.or_else(|| super::network::request_reason(facts, cover.parts)).or(refused)
        };
        let reason = match verdict.decision {
            Decision::Ask => better().map_or(verdict.reason, Into::into),
            _ => verdict.reason,
        };
        notes.note("the default", verdict.decision.as_str(), reason.to_string(), None);
        built(verdict.decision, reason, "the default")
    }

    /// In the mode `dontAsk`, a call that needs approval is denied.
    fn deny_if_dont_ask<N: CheckRecorder>(&self, ruling: Ruling, notes: &mut N) -> Ruling {
        let asks = matches!(
            ruling,
            Ruling::Asked { .. }
                | Ruling::Doubted { .. }
                | Ruling::Needed { .. }
                | Ruling::Built { decision: Decision::Ask | Decision::NeedInput(_), .. }
        );
        if !asks || self.context.mode != Mode::DontAsk {
            return ruling;
        }
        let reason = "it needs approval, and this mode never asks".to_owned();
        notes.note("mode", "deny", reason.clone(), None);
        built(Decision::Deny, reason, "the mode `dontAsk`")
    }

    pub(super) fn strongest<N: CheckRecorder>(
        &self,
        index: &Index,
        facts: &Facts<'_>,
        notes: &mut N,
        what: &'static str,
    ) -> Option<(usize, Applied)> {
        self.strongest_where(index, facts, notes, what, |_| true)
    }

    /// Returns whether a file is one that a rule denies.
    pub(super) fn is_denied(&self, facts: &Facts<'_>) -> bool {
        self.strongest(&self.deny, facts, &mut (), "").is_some()
    }

    /// Returns whether a rule denies a file, or asks about it by path. A rule that asks about every
    /// call of a tool was applied when the tool was called.
    pub(super) fn is_restricted(&self, facts: &Facts<'_>) -> bool {
        let by_path = |rule: &Rule| !rule.matches.iter().all(Pattern::may_cover_tools);
        self.is_denied(facts)
            || self.strongest_where(&self.ask, facts, &mut (), "", by_path).is_some()
    }

    /// Returns the rule that applies; of several the one of the highest priority, then the first.
    pub(super) fn strongest_where<N: CheckRecorder>(
        &self,
        index: &Index,
        facts: &Facts<'_>,
        notes: &mut N,
        what: &'static str,
        counts: impl Fn(&Rule) -> bool,
    ) -> Option<(usize, Applied)> {
        let mut best: Option<(usize, Applied)> = None;
        let mut looked_at = 0;
        for at in index.find(facts, &self.rules) {
            let at = at as usize;
            let Some(rule) = self.rules.get(at).filter(|rule| counts(rule)) else { continue };
            looked_at += 1;
            let is_stronger = |best: &Option<(usize, Applied)>, is_certain: bool| {
                best.as_ref().is_none_or(|(best, applied)| {
                    let own = (applied.is_certain, self.rules[*best].priority);
                    own < (is_certain, rule.priority)
                })
            };
            if !is_stronger(&best, true) && !N::ENABLED {
                continue;
            }
            let Some(applied) = self.applies(at, facts) else { continue };
            if N::ENABLED {
                let why = applied.doubt.clone().map_or_else(
                    || "it matches".to_owned(),
                    |doubt| format!("it may match: {doubt}"),
                );
                notes.note(what, rule.decision.as_str(), why, Some((at, applied.pattern)));
            }
            if is_stronger(&best, applied.is_certain) {
                best = Some((at, applied));
            }
        }
        if N::ENABLED && best.is_none() {
            notes.note(what, "no match", counted(looked_at, index.len()), None);
        }
        best
    }
}

const HARD_LINK: &str = "built in: a hard link to a restricted file";
const BYPASS: &str = "the mode `bypassPermissions`";

impl Ruling {
    /// Returns it as a verdict.
    pub(super) fn verdict(self, rules: &Rules) -> Verdict {
        match self {
            Self::Denied { at, applied } => {
                rules.by_rule(Decision::Deny, at, &applied, "a rule denies it")
            }
            Self::Doubted { at, applied } => {
                rules.by_rule(Decision::Ask, at, &applied, "a rule may deny it")
            }
            Self::Needed { at, applied, argument } => {
                let reason = "a person must supply an argument first";
                rules.by_rule(Decision::NeedInput(argument), at, &applied, reason)
            }
            Self::Asked { at, applied } => {
                rules.by_rule(Decision::Ask, at, &applied, "a rule requires approval")
            }
            Self::Allowed { at, applied, more } => {
                let verdict = rules.by_rule(Decision::Allow, at, &applied, "a rule allows it");
                match more {
                    0 => verdict,
                    1 => {
                        let source = format!("{} and another rule", verdict.source);
                        verdict.by(source)
                    }
                    n => {
                        let source = format!("{} and {n} other rules", verdict.source);
                        verdict.by(source)
                    }
                }
            }
            Self::Built { decision, reason, source } => Verdict::new(decision, reason).by(source),
            Self::Vouched(verdict) | Self::Confined(verdict) => verdict,
        }
    }
}

impl Rules {
    fn by_rule(
        &self,
        decision: Decision,
        at: usize,
        applied: &Applied,
        silent: &'static str,
    ) -> Verdict {
        let rule = &self.rules[at];
        // The rule itself is for people. The part that causes the doubt is the model's own text.
        let doubt = applied.doubt.as_ref().filter(|_| !applied.is_certain);
        let verdict = match (&rule.reason, doubt) {
            (Some(reason), None) => Verdict::new(decision, reason.clone()),
            (None, None) => Verdict::new(decision, silent),
            (reason, Some(doubt)) => {
                let verb = match rule.decision {
                    Decision::Deny => "deny it",
                    _ => "apply to it",
                };
                let reason = reason.as_ref().map(|reason| format!(" ({reason})"));
                let reason = reason.unwrap_or_default();
                Verdict::new(decision, format!("a rule may {verb}{reason}, because of {doubt}"))
            }
        };
        verdict.by(self.source(at, applied.pattern))
    }

    /// Names a rule for people: `haft.toml:14 ask "Bash(git push *)"`.
    pub(super) fn source(&self, at: usize, pattern: usize) -> SharedStr {
        let named = self.sources.get(at).and_then(|patterns| patterns.get(pattern));
        named.cloned().unwrap_or_default()
    }
}

pub(super) fn built(
    decision: Decision,
    reason: impl Into<SharedStr>,
    source: &'static str,
) -> Ruling {
    Ruling::Built { decision, reason: reason.into(), source }
}

pub(super) fn counted(looked_at: usize, of: usize) -> String {
    match (looked_at, of) {
        (_, 0) => "there are none".to_owned(),
        (0, of) => format!("none of {of} is for such a call"),
        (n, of) => format!("{n} of {of} were compared, and none matches"),
    }
}

fn taint_note(facts: &Facts<'_>) -> String {
    let label = Rules::label_of(facts);
    match label.trust {
        Trust::Untrusted => {
            "the run has read untrusted text, which does not matter for this call".to_owned()
        }
        _ => "the run has read nothing untrusted".to_owned(),
    }
}

impl Facts<'_> {
    /// Returns the parts that are hosts.
    pub(super) fn hosts(&self) -> Parts {
        self.parts.iter().enumerate().fold(Parts::NONE, |set, (at, part)| match part {
            Part::Host(_) => set.with(at),
            _ => set,
        })
    }

    /// Describes some of the parts.
    pub(super) fn describe(&self, parts: Parts) -> String {
        let words: Vec<String> = self
            .parts
            .iter()
            .enumerate()
            .filter(|(at, _)| parts.has(*at))
            .map(|(_, part)| part.to_string())
            .collect();
        words.join(", ")
    }
}
