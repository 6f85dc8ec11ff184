//! One pattern as a condition: whether a hook applies to a call.
//!
//! A condition has three answers, like a pattern. Callers fail closed: a hook whose condition is
//! `Unknown` is called.

use serde_json::Value;

use super::{
    PolicyRequest,
    context::PolicyContext,
    facts::{Facts, Sample},
    pattern::{Hits, Pattern, Side, Ternary},
};

impl Pattern {
    /// Returns whether it matches this call, or any part of it.
    #[must_use]
    pub fn is_about(&self, call: &PolicyRequest<'_>, context: &PolicyContext) -> Ternary {
        ternary(self.hits(&Facts::of(call, context), Side::Restrict))
    }

    /// Returns whether it matches a call that is only described.
    #[must_use]
    pub fn is_about_example(
        &self,
        tool: &str,
        arguments: &Value,
        context: &PolicyContext,
    ) -> Ternary {
        let sample = Sample::new(tool, arguments.clone());
        let hits = self.hits(&sample.facts(context), Side::Restrict);
        ternary(hits)
    }
}

fn ternary(hits: Hits) -> Ternary {
    if !hits.yes.is_empty() {
        Ternary::Yes
    } else if !hits.unknown.is_empty() {
        Ternary::Unknown(
            hits.why.map_or_else(|| "it cannot be determined".to_owned(), |(_, why)| why),
        )
    } else {
        Ternary::No
    }
}
