//! The decision about a model call.

use haft_core::Decision;

use super::{
    Rules,
    decide::{Ruling, built},
};
use crate::{facts::Facts, request::Subject, rule::Rule};

impl Rules {
    /// Decides about a model call. Only rules whose subject is model calls count: a rule about all
    /// tools is not about the model. Without such a rule it is allowed.
    pub(super) fn rule_on_model_call(&self, facts: &Facts<'_>) -> Ruling {
        let names_it = |rule: &Rule| rule.subject == Subject::ModelCall;
        let find = |index, what| self.strongest_where(index, facts, &mut (), what, names_it);
        if let Some((at, applied)) = find(&self.deny, "deny rules") {
            return Ruling::Denied { at, applied };
        }
        if let Some((at, applied)) = find(&self.ask, "ask rules") {
            return Ruling::Asked { at, applied };
        }
        let reason = "no rule denies model calls".to_owned();
        built(Decision::Allow, reason, "the default")
    }
}
