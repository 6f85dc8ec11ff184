//! The verdict on a call that no rule decides: the default, or confinement.

use haft_core::{Decision, Permission, Verdict};

use super::{
    Rules,
    decide::{CheckRecorder, Ruling, built},
    restricted_reads::may_read,
};
use crate::{PolicyRequest, default, facts::Facts};

/// What the default says.
pub(super) enum Unruled<'c, 'r> {
    /// This verdict.
    Decided(Verdict),
    /// The call may run confined, if a confined run can read nothing that a rule restricts.
    Confined(Verdict, &'c PolicyRequest<'r>),
}

impl Rules {
    /// Judges a call by the default.
    pub(super) fn unruled<'c, 'r, N: CheckRecorder>(
        &self,
        facts: &Facts<'_>,
        call: Option<&'c PolicyRequest<'r>>,
        notes: &mut N,
    ) -> Unruled<'c, 'r> {
        let Some(call) = call else {
            return Unruled::Decided(if facts.read_only {
                Verdict::allow("it only reads")
            } else {
                Verdict::ask("no rule matches it")
            });
        };
        if call.tool.spec.permission == Permission::None {
            let verdict = Verdict::allow("the tool declares `permission = \"none\"`");
            return Unruled::Decided(verdict);
        }
        let verdict = default::decide_without_rules(call, facts, &self.context);
        if verdict.confined {
            return Unruled::Confined(verdict, call);
        }
        let restricted = match verdict.decision {
            Decision::Allow => self.may_read_restricted_below(facts, call),
            _ => None,
        };
        if let Some(why) = restricted {
            // A hard link to a restricted file is that file, so it is not left to the mask.
            if let Some(masked) = default::masked(call)
                && !self.may_read_restricted_link(facts)
            {
                return Unruled::Confined(masked, call);
            }
            note_not_confined(call, notes);
            return Unruled::Decided(default::ask(call, why));
        }
        if N::ENABLED && verdict.decision == Decision::Ask {
            note_not_confined(call, notes);
        }
        Unruled::Decided(verdict)
    }

    /// Lets a call run confined, unless a confined run could read what a rule restricts.
    pub(super) fn confined<N: CheckRecorder>(
        &self,
        facts: &Facts<'_>,
        call: &PolicyRequest<'_>,
        verdict: Verdict,
        notes: &mut N,
    ) -> Ruling {
        if self.confined_may_read_restricted(facts, call) {
            let ask = default::ask(call, may_read(facts, facts.all().first_index()));
            notes.note("confinement", "not used", ask.reason.to_string(), None);
            return built(ask.decision, ask.reason, "the default");
        }
        notes.note("confinement", "allow", verdict.reason.to_string(), None);
        Ruling::Confined(verdict)
    }
}

/// Records why a call that needs approval is not confined instead, if its tool supports
/// confinement.
fn note_not_confined<N: CheckRecorder>(call: &PolicyRequest<'_>, notes: &mut N) {
    if call.confinement().is_some()
        && let Some(why) = default::not_confined(call)
    {
        notes.note("confinement", "not used", why, None);
    }
}
