//! Which parts of a call the allow rules cover.

use super::{
    Applied, Rules,
    decide::{CheckRecorder, counted},
};
use crate::{
    facts::{Facts, Parts},
    pattern::{Key, Side},
};

/// The parts that allows cover.
#[derive(Default)]
pub(super) struct Cover {
    pub(super) parts: Parts,
    /// By rules that apply even in a tainted run.
    pub(super) even_tainted: Parts,
    /// By rules that name the host.
    pub(super) by_host: Parts,
    /// By rules that name the protected file.
    pub(super) by_name: Parts,
    pub(super) first: Option<(usize, Applied)>,
    pub(super) rules: usize,
}

impl Cover {
    /// Adds hosts that a rule lists.
    pub(super) fn add_hosts(&mut self, hosts: Parts) {
        self.parts = self.parts.or(hosts);
        self.by_host = self.by_host.or(hosts);
    }
}

impl Rules {
    pub(super) fn cover<N: CheckRecorder>(&self, facts: &Facts<'_>, notes: &mut N) -> Cover {
        let mut cover = Cover::default();
        let mut looked_at = 0;
        for at in self.allow.find(facts, &self.rules) {
            let at = at as usize;
            looked_at += 1;
            let Some(mut applied) = self.applies(at, facts) else { continue };
            let rule = &self.rules[at];
            let names_hosts = rule.matches.iter().any(|p| matches!(p.key(), Key::Host(_)));
            if !names_hosts {
                // Allowing a command, or all of them, allows no host that the call requests.
                applied.parts = applied.parts.without(facts.requested());
            }
            cover.parts = cover.parts.or(applied.parts);
            if rule.even_tainted {
                cover.even_tainted = cover.even_tainted.or(applied.parts);
            }
            if names_hosts {
                cover.by_host = cover.by_host.or(applied.parts);
            }
            for pattern in &rule.matches {
                // A name counts if the pattern that contains it covers the write itself.
                let named = facts.protected_in(pattern.as_str()).and(applied.parts);
                if !named.is_empty() {
                    let covered = pattern.hits(facts, Side::Allow).yes;
                    cover.by_name = cover.by_name.or(named.and(covered));
                }
            }
            Self::cover_hosts(rule, facts, &mut cover);
            cover.rules += 1;
            if N::ENABLED {
                let all = facts.all().without(applied.parts).is_empty();
                let why = if all { "it covers the call" } else { "it covers a part of the call" };
                notes.note("allow rules", "allow", why.to_owned(), Some((at, applied.pattern)));
            }
            if cover
                .first
                .as_ref()
                .is_none_or(|(best, _)| self.rules[*best].priority < rule.priority)
            {
                cover.first = Some((at, applied));
            }
        }
        if N::ENABLED && cover.rules == 0 {
            notes.note("allow rules", "no match", counted(looked_at, self.allow.len()), None);
        } else if N::ENABLED && !facts.all().without(cover.parts).is_empty() {
            let open = facts.describe(facts.all().without(cover.parts));
            notes.note("allow rules", "not covered", open, None);
        }
        cover
    }
}
